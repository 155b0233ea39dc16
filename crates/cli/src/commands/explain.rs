//! `palisade explain`: the plan, not carried out.

use crate::args::ExplainArgs;
use anyhow::Context;
use palisade_process::{Machine, plan::Surroundings};
use palisade_wasm::{
    compare::{Comparison, compare},
    guest::{GuestPlan, make_plan},
};
use serde::Serialize;
use std::io::Write;

/// All that there is to say about a run.
#[derive(Serialize)]
struct Explanation {
    #[serde(flatten)]
    plan: GuestPlan,
    wall: &'static str,
    walls: Comparison,
}

/// Prints the plan that `run` would carry out with the same flags, and what each wall would do with the
/// policy.
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
    let explanation = Explanation {
        walls: compare(&plan, &policy),
        wall: plan.wall().name(),
        plan,
    };
    let text = if args.json {
        serde_json::to_string_pretty(&explanation)? + "\n"
    } else {
        let Explanation { plan, wall, walls } = explanation;
        format!("{plan}wall      {wall}\n{walls}")
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("host: cannot print the plan")?;
    Ok(0)
}
