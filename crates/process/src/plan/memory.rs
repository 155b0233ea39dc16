//! The plan made last, for whoever starts one guest after another.
//!
//! A plan is a function of its [`Spec`] and of what the [`Host`] answers. A host that would answer each question as it did makes the
//! same plan of the same spec: so it is asked again, by fewer questions where those say as much, and what has changed meanwhile is
//! seen as if the plan were made anew. What is spared is the rest of the making, which takes longer than the answers.
//!
//! Only arguments may be others: they are the guest's business alone.

mod witness;

use super::{Options, Plan, PlanError, make_plan};
use crate::{host::Host, lock::lock, machine::Machine, paths::is_plain};
use palisade_policy::{ConnectGrant, Grants, Policy};
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
    known: Known,
}

/// What is remembered of a policy.
#[derive(Clone)]
enum Known {
    /// That it was planned: to remember more takes longer than it may be worth, before it is planned again.
    Once,
    /// That its plans cannot be remembered.
    TooMuch,
    /// A plan of it.
    Plan(Arc<Made>),
}

/// A plan and all that it was made of, beside the policy.
struct Made {
    program: OsString,
    surroundings: Surroundings,
    machine: Machine,
    testimony: Testimony,
    /// Without arguments.
    plan: Plan,
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
        let anew = || make_plan(spec, host, &Options::default());
        if !has_plain_paths(spec) {
            return anew();
        }
        // Others may plan while the host is asked.
        match self.recall(spec.policy) {
            Some(Known::Plan(made)) if made.is_of(spec) && made.testimony.holds(host) => {
                Ok(made.plan_for(spec.command))
            }
            Some(Known::Plan(_) | Known::Once) => self.make_and_keep(spec, host),
            Some(Known::TooMuch) => anew(),
            None => {
                self.keep(spec.policy, Known::Once);
                anew()
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
            plan: plan.without_arguments(),
        });
        let known = made.map_or(Known::TooMuch, |made| Known::Plan(Arc::new(made)));
        self.keep(spec.policy, known);
        Ok(plan)
    }

    fn recall(&self, policy: &Policy) -> Option<Known> {
        let past = lock(&self.0);
        let past = past.as_ref().filter(|past| past.policy == *policy)?;
        Some(past.known.clone())
    }

    fn keep(&self, policy: &Policy, known: Known) {
        let policy = policy.clone();
        let former = lock(&self.0).replace(Past { policy, known });
        // Not under the lock: there is much to give back.
        drop(former);
    }
}

/// Paths are compared name by name, where `/a/` is `/a`. To the kernel it is not.
fn has_plain_paths(spec: &Spec<'_, Machine>) -> bool {
    let Grants {
        files,
        env: _,
        env_files,
        devices,
        connect,
        listen: _,
        cwd,
        system: _,
        guard: _,
        profiles: _,
    } = &spec.policy.grants;
    let of_files = files
        .iter()
        .flat_map(|grant| [Some(&grant.host), grant.guest.as_ref()]);
    let of_sockets = connect.iter().flat_map(|grant| match grant {
        ConnectGrant::Unix(socket) => [Some(&socket.host), socket.guest.as_ref()],
        ConnectGrant::Internet { .. } | ConnectGrant::Public { .. } => [None, None],
    });
    let of_devices = devices.iter().filter(|device| !device.is_pts());
    let of_devices = of_devices.map(|device| &device.path);
    let paths = of_files.chain(of_sockets).flatten();
    let paths = paths.chain(env_files).chain(of_devices).chain(cwd);
    let Surroundings { cwd, relied, .. } = spec.surroundings;
    paths.chain(cwd).chain(relied).all(|path| is_plain(path))
}

impl Made {
    fn is_of(&self, spec: &Spec<'_, Machine>) -> bool {
        self.program == spec.command.program
            && self.surroundings == *spec.surroundings
            && self.machine == *spec.machine
    }

    fn plan_for(&self, command: &Command) -> Plan {
        let mut plan = self.plan.of_same();
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
