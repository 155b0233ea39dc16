//! Chooses the wall for a policy and a command.
//!
//! A front end (flags, a file, the builder) makes both and goes through here; from then on it has a
//! [`palisade_wall::Plan`] and a [`palisade_wall::Domain`], whichever wall they are of. A new wall is a crate of its own
//! and a line of `WALLS`.

mod compare;

pub use compare::{Comparison, Row, compare};

use palisade_process::{Launcher, Machine, ProcessWall};
use palisade_wall::{Cause, Error, PlanResult, Spec, Wall};
use palisade_wasm::WasmWall;

/// A plan of any wall.
pub type Plan = Box<dyn palisade_wall::Plan<Launcher = Launcher>>;

type AnyWall = dyn Wall<Machine = Machine, Launcher = Launcher>;

/// In the order in which they are asked. The last takes what is left.
const WALLS: &[&AnyWall] = &[
    &WasmWall,
    #[cfg(feature = "stub")]
    &palisade_wall_stub::StubWall,
    &ProcessWall,
];

const NOT_ASKED: &str = "usage: --ask and --grantable are for what a native program tries on the network; grant a module what it needs";

const NOT_WATCHED: &str = "usage: --watch tells of the files that a native program asks for; a module asks its engine for \
                           them, which has only what is granted";

/// Makes the plan of the first wall that takes the command.
///
/// # Errors
///
/// When the policy names what does not exist or asks for what can't be enforced here.
pub fn make_plan(spec: &Spec<'_, Machine>) -> Result<Plan, Error> {
    first_plan(spec, |wall| wall.plan(spec))
}

/// The same for a launcher that starts one guest after another: it may remember what was planned for it before. The plan is no
/// other for that.
///
/// # Errors
///
/// Those of [`make_plan`].
pub fn make_plan_for(spec: &Spec<'_, Machine>, launcher: &Launcher) -> Result<Plan, Error> {
    first_plan(spec, |wall| wall.plan_for(spec, launcher))
}

fn first_plan(
    spec: &Spec<'_, Machine>,
    plan_of: impl Fn(&AnyWall) -> PlanResult<Launcher>,
) -> Result<Plan, Error> {
    for wall in WALLS {
        let Some(plan) = plan_of(*wall)? else {
            continue;
        };
        if spec.surroundings.watch && !plan.is_native() {
            return Err(Error::new(Cause::Other, NOT_WATCHED));
        }
        let is_granted_more = spec.surroundings.asks.is_some() || spec.surroundings.grantable;
        if is_granted_more && !plan.is_native() {
            return Err(Error::new(Cause::Other, NOT_ASKED));
        }
        return Ok(plan);
    }
    Err(Error::new(
        Cause::Other,
        "policy: no wall takes this command",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::Policy;
    use palisade_wall::{Command, Surroundings};

    #[test]
    fn the_first_wall_that_takes_a_command_plans_it() {
        let (policy, command) = (Policy::default(), Command::new("true"));
        let (machine, surroundings) = (Machine::probe(), Surroundings::here(false));
        let plan = make_plan(&Spec::new(&policy, &command, &machine, &surroundings));
        let first = match cfg!(feature = "stub") {
            true => "stub",
            false => "process",
        };
        assert_eq!(plan.unwrap().wall(), first);
    }
}
