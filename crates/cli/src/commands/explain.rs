//! `palisade explain`: the plan, not carried out.

use crate::args::ExplainArgs;
use anyhow::Context;
use palisade_process::{Machine, plan::Surroundings};
use palisade_wasm::guest::make_plan;
use std::io::Write;

/// Prints the plan that `run` would carry out with the same flags.
pub(crate) fn explain(args: ExplainArgs) -> anyhow::Result<u8> {
    let policy = args.policy.resolve()?;
    let surroundings = Surroundings::here(super::run::wants_terminal());
    let plan = make_plan(
        &policy,
        &args.guest.into(),
        &Machine::probe(),
        &surroundings,
        None,
    )?;
    let text = if args.json {
        serde_json::to_string_pretty(&plan)? + "\n"
    } else {
        plan.to_string()
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("host: cannot print the plan")?;
    Ok(0)
}
