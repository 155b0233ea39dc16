//! The programs of a generation: planned when it is loaded, opened and begun when it is put in place.

use super::{
    ByName, Generation, Tenant,
    load::{LoadError, Tools},
};
use crate::{
    config,
    kinds::{GuestKind, Level},
    log::{Line, Log},
    metrics::{GuestSum, State},
    services::{
        Loaded, Shared,
        program::{self, Check, Output, Program, ProgramError},
    },
};
use palisade_policy::Policy;
use palisade_wall::journal::Entry;
use std::sync::Arc;

/// The program that runs, if it is the one that is asked for, else one that is planned.
pub(super) fn load_program(
    name: &str,
    program: &config::Program,
    (service, bounds): (&config::Service, &config::ProgramBounds),
    (log, check): (&Log, Option<&Arc<dyn Check>>),
    previous: Option<&Loaded>,
    tools: &Tools,
) -> Result<Arc<Program>, ProgramError> {
    let settings = program::Settings {
        name: name.to_owned(),
        program: program.clone(),
        policy: within(service.policy.clone(), bounds),
        faults: service.faults,
        libexec: None,
    };
    match previous.and_then(Loaded::program) {
        Some(running) if *running.settings() == settings && running.is_current(&tools.machine) => {
            Ok(Arc::clone(running))
        }
        _ => {
            let lines = Arc::new(Lines(log.clone()));
            Program::checked(settings, lines, &tools.machine, check.cloned()).map(Arc::new)
        }
    }
}

/// None has more memory than all may have together. That limit also has the memory of a program counted, of whatever
/// processes and files of its domain it is.
fn within(mut policy: Policy, bounds: &config::ProgramBounds) -> Policy {
    let own = policy.limits.memory_bytes;
    policy.limits.memory_bytes = own.into_iter().chain(bounds.memory_bytes).min();
    policy
}

impl Loaded {
    fn program(&self) -> Option<&Arc<Program>> {
        match &self.shared {
            Shared::Program(program) => Some(program),
            _ => None,
        }
    }
}

impl Generation {
    /// Opens what its programs listen at by themselves: before it is put in place. What listens for `previous`
    /// is shared with it.
    ///
    /// # Errors
    /// An address is taken.
    pub fn open(&self, previous: Option<&Self>) -> Result<(), LoadError> {
        for (tenant, known) in self.changed(previous) {
            for (name, program) in tenant.new_programs(known) {
                // Only the main file's have addresses of their own.
                let others = known.into_iter().flat_map(|known| known.programs());
                let opened = program.open(others.map(|(_, other)| &**other));
                opened.map_err(|source| LoadError::of_service(&tenant.full_name(name), source))?;
            }
        }
        Ok(())
    }

    /// Has its programs started when they are asked for, and counted: once it is in place of `previous`.
    pub fn begin(&self, previous: Option<&Self>, tools: &Tools) {
        let known = previous.filter(|previous| previous.config.tenancy == self.config.tenancy);
        let mut before = ByName::of(known);
        let is_known = |tenant: &&Arc<Tenant>| {
            let known = before.find(&tenant.name);
            known.is_some_and(|known| Arc::ptr_eq(&known.quota, &tenant.quota))
        };
        let known_count = self.tenants.iter().filter(is_known).count();
        tools.supervisor.bound(self.config.programs);
        let are_known = known_count == self.tenants.len()
            && known.is_some_and(|known| known.tenants.len() == known_count);
        if !are_known {
            for tenant in &self.tenants {
                tenant.quota.set(&self.config.tenancy.quotas(&tenant.name));
            }
            let quotas = self.tenants.iter().map(|tenant| Arc::clone(&tenant.quota));
            tools.supervisor.bound_tenants(quotas.collect());
        }
        for (tenant, known) in self.changed(previous) {
            // Of those that go on, too: what the server relies on may be something else by now.
            for (_, program) in tenant.programs() {
                program.set_check(tenant.check.clone());
            }
            for (name, program) in tenant.new_programs(known) {
                let predecessor = known.and_then(|known| known.program(name));
                program.begin(
                    &tools.supervisor,
                    predecessor.map(|predecessor| &**predecessor),
                );
                let counted = Arc::downgrade(program);
                let name = tenant.full_name(name);
                tools.registry.count_by(GuestKind::Service, &name, move || {
                    counted
                        .upgrade()
                        .map_or_else(GuestSum::default, |program| sum(program.metrics()))
                });
            }
        }
    }
}

impl Tenant {
    fn programs(&self) -> impl Iterator<Item = (&str, &Arc<Program>)> {
        let services = self.services.iter();
        services.filter_map(|(name, service)| Some((&**name, service.program()?)))
    }

    fn program(&self, name: &str) -> Option<&Arc<Program>> {
        self.services.get(name)?.program()
    }

    /// Those that `previous` does not have.
    fn new_programs<'a>(
        &'a self,
        previous: Option<&'a Arc<Self>>,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<Program>)> {
        self.programs().filter(move |(name, program)| {
            let known = previous.and_then(|previous| previous.program(name));
            known.is_none_or(|known| !Arc::ptr_eq(known, program))
        })
    }
}

fn sum(metrics: program::ProgramMetrics) -> GuestSum {
    GuestSum {
        cpu_ns: metrics.cpu_us * 1000,
        memory_bytes: metrics.memory_bytes,
        denials: metrics.denials,
        faults: metrics.faults,
        restarts: metrics.restarts,
        state: match metrics.state {
            program::State::Idle | program::State::Ended => State::Idle,
            program::State::Frozen => State::Frozen,
            program::State::Starting => State::Starting,
            program::State::Running => State::Ready,
            program::State::Resting => State::Resting,
        },
        last_fault: metrics.last_fault,
        ..GuestSum::default()
    }
}

/// A program's lines, in its log.
struct Lines(Log);

impl Output for Lines {
    fn line(&self, is_stderr: bool, line: &str) {
        let stream = if is_stderr { "stderr" } else { "stdout" };
        self.0
            .write(Line::new(Level::Info, line).with("stream", stream));
    }

    fn notice(&self, text: &str) {
        self.0.write(Line::new(Level::Warn, text));
    }

    fn wants_events(&self) -> bool {
        self.0.wants_events()
    }

    fn event(&self, event: Entry) {
        self.0.event(event);
    }
}
