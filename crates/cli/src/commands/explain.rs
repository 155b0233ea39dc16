//! `palisade explain`: the plan, not carried out.

mod summary;

use crate::{args::ExplainArgs, say};
use palisade_command_line::env_files::EnvFiles;
use palisade_policy::Policy;
use palisade_process::Machine;
use palisade_wall::{Command, Spec, Surroundings};
use palisade_walls::{Comparison, Plan, compare, make_plan};
use serde::Serialize;

/// All that there is to say about a run.
#[derive(Serialize)]
struct Explanation {
    #[serde(flatten)]
    plan: Plan,
    wall: &'static str,
    walls: Comparison,
}

/// Prints the plan that `run` would carry out with the same flags, and what each wall would do with the
/// policy. What it comes to stands first.
pub(crate) fn explain(args: ExplainArgs) -> anyhow::Result<u8> {
    let mut policy: Policy = args.policy.resolve()?;
    let env_files = EnvFiles::take(&mut policy)?;
    let surroundings = Surroundings {
        file_variables: env_files.variables(),
        ..Surroundings::here(super::run::wants_terminal())
    };
    let command: Command = args.guest.into();
    let machine = Machine::probe();
    let plan = make_plan(&Spec::new(&policy, &command, &machine, &surroundings))?;
    env_files.refuse_in_reach(plan.view())?;
    let explanation = Explanation {
        walls: compare(plan.view(), &policy),
        wall: plan.wall(),
        plan,
    };
    if args.json {
        return say::print_json(&explanation, "the plan");
    }
    let Explanation { plan, wall, walls } = explanation;
    let summary = summary::describe(&policy, &command, &*plan);
    say::print(
        &format!("{summary}\n{plan}wall      {wall}\n{walls}"),
        "the plan",
    )
}
