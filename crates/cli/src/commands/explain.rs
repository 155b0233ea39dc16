//! `palisade explain`: the plan, not carried out.

use crate::{args::ExplainArgs, say};
use palisade_process::{Machine, plan::Surroundings};
use palisade_wasm::{
    compare::{Comparison, compare},
    guest::{GuestPlan, make_plan},
};
use serde::Serialize;

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
    if args.json {
        return say::print_json(&explanation, "the plan");
    }
    let Explanation { plan, wall, walls } = explanation;
    say::print(&format!("{plan}wall      {wall}\n{walls}"), "the plan")
}
