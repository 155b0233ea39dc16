//! `palisade explain`: the plan, not carried out.

mod summary;

use super::{doctor, request::Request};
use crate::{args::ExplainArgs, say};
use palisade_process::{Machine, Tier};
use palisade_walls::{Comparison, Plan, compare};
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
    let request = Request::new(&args.policy, args.guest, super::run::wants_terminal())?;
    let plan = request.plan_on(&machine_for(&request))?;
    let Request {
        policy, command, ..
    } = &request;
    let explanation = Explanation {
        walls: compare(plan.view(), policy),
        wall: plan.wall(),
        plan,
    };
    if args.json {
        return say::print_json(&explanation, "the plan");
    }
    let Explanation { plan, wall, walls } = explanation;
    let summary = summary::describe(policy, command, &*plan);
    say::print(
        &format!("{summary}\n{plan}wall      {wall}\n{walls}"),
        "the plan",
    )
}

/// The machine as `run` will find it. Whether there are namespaces only a domain can tell; it is asked where the policy
/// says that they may be missing.
fn machine_for(request: &Request) -> Machine {
    let machine = Machine::probe();
    let tier = match request.may_lack_namespaces() && doctor::lacks_namespaces(&machine) {
        true => Tier::Bare,
        false => machine.tier,
    };
    Machine { tier, ..machine }
}
