//! The plan made last, for whoever starts one guest after another.
//!
//! A plan is a function of its [`Spec`] and of what the [`Host`] answers. A host that is asked the same questions in the same order, and
//! gives the same answers, makes the same plan of the same spec: so they are asked again, and what has changed meanwhile is
//! seen as if the plan were made anew. What is spared is the rest of the making, which takes longer than the answers.
//!
//! Only arguments may be others: they are the guest's business alone.

mod witness;

use super::{Options, Plan, PlanError, make_plan};
use crate::{host::Host, lock::lock, machine::Machine};
use palisade_policy::Policy;
use palisade_wall::{Command, Spec, Surroundings};
use std::{
    ffi::OsString,
    fmt,
    sync::{Arc, Mutex},
};
use witness::{Testimony, Witness};

/// What a launcher remembers of its plans.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Option<Past>>);

/// What was planned last.
struct Past {
    policy: Policy,
    /// Of a policy that was planned twice running: to remember more takes longer than it may be worth.
    made: Option<Arc<Made>>,
}

/// A plan and all that it was made of, beside the policy.
struct Made {
    program: OsString,
    surroundings: Surroundings,
    machine: Machine,
    testimony: Testimony,
    plan: Plan,
}

/// What there is for a spec.
enum Recalled {
    /// Nothing of its kind was planned last.
    Nothing,
    /// Its policy was, and no more is known.
    Policy,
    /// A plan, if the host still says the same.
    Plan(Arc<Made>),
}

impl Memory {
    /// The plan of a native program, as [`make_plan`] makes it.
    ///
    /// # Errors
    ///
    /// Those of [`make_plan`].
    pub(crate) fn make_plan(
        &self,
        spec: &Spec<'_, Machine>,
        host: &dyn Host,
    ) -> Result<Plan, PlanError> {
        // Others may plan while the host is asked.
        let recalled = lock(&self.0).as_ref().map(|past| past.recall(spec));
        match recalled.unwrap_or(Recalled::Nothing) {
            Recalled::Plan(made) if made.testimony.holds(host) => Ok(made.plan_for(spec.command)),
            Recalled::Plan(_) | Recalled::Policy => self.make_and_keep(spec, host),
            Recalled::Nothing => {
                self.keep(spec, None);
                make_plan(spec, host, &Options::default())
            }
        }
    }

    fn make_and_keep(&self, spec: &Spec<'_, Machine>, host: &dyn Host) -> Result<Plan, PlanError> {
        let witness = Witness::of(host);
        let plan = make_plan(spec, &witness, &Options::default())?;
        let made = witness.testify().map(|testimony| Made {
            program: spec.command.program.clone(),
            surroundings: spec.surroundings.clone(),
            // As it is now: what only this plan asked of it is known by now.
            machine: spec.machine.clone(),
            testimony,
            plan: plan.clone(),
        });
        self.keep(spec, made);
        Ok(plan)
    }

    fn keep(&self, spec: &Spec<'_, Machine>, made: Option<Made>) {
        let past = Past {
            policy: spec.policy.clone(),
            made: made.map(Arc::new),
        };
        let former = lock(&self.0).replace(past);
        // Not under the lock: there is much to give back.
        drop(former);
    }
}

impl Past {
    fn recall(&self, spec: &Spec<'_, Machine>) -> Recalled {
        if self.policy != *spec.policy {
            return Recalled::Nothing;
        }
        let made = self.made.as_ref().filter(|made| made.is_of(spec));
        made.map_or(Recalled::Policy, |made| Recalled::Plan(Arc::clone(made)))
    }
}

impl Made {
    fn is_of(&self, spec: &Spec<'_, Machine>) -> bool {
        self.program == spec.command.program
            && self.surroundings == *spec.surroundings
            && self.machine == *spec.machine
    }

    fn plan_for(&self, command: &Command) -> Plan {
        let mut plan = self.plan.clone();
        plan.set_arguments(command);
        plan
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Memory").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
