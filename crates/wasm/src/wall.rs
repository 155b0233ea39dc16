//! The wasm wall as one of many walls.

use crate::{
    code::Code,
    compile::CompileError,
    error::StartError,
    module::{self, ModuleError},
    plan::{self, NAME, Plan, WasmPlanError},
    programs::{NotInstalled, Programs},
};
use palisade_process::{Launcher, Machine, ThisHost};
use palisade_wall::{Cause, Domain, Error, PlanResult, Prepared, Spec, Streams, View, Wall};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

/// The wall around WebAssembly. It takes the commands whose program is a module or component.
#[derive(Clone, Copy, Debug)]
pub struct WasmWall;

impl Wall for WasmWall {
    type Machine = Machine;
    type Launcher = Launcher;

    fn name(&self) -> &'static str {
        NAME
    }

    fn plan(&self, spec: &Spec<'_, Machine>) -> PlanResult<Launcher> {
        let Some(module) = module::find(&spec.command.program, spec.policy, spec.surroundings)?
        else {
            return Ok(None);
        };
        let programs = Programs::find(spec.libexec)?;
        let plan = plan::make_plan(module, spec, &ThisHost, &programs)?;
        Ok(Some(Box::new(plan)))
    }
}

impl palisade_wall::Plan for Plan {
    type Launcher = Launcher;

    fn wall(&self) -> &'static str {
        NAME
    }

    fn view(&self) -> &dyn View {
        &self.worker
    }

    fn is_native(&self) -> bool {
        false
    }

    fn opened_program(&self) -> Option<PathBuf> {
        Some(self.module.place())
    }

    fn fixed_files(&self) -> Vec<PathBuf> {
        vec![self.module.path.clone()]
    }

    fn prepare(&self, launcher: &Launcher, caches: Option<&Path>) -> Result<Prepared, Error> {
        Ok(prepared(self.code(launcher.machine(), caches)?))
    }

    fn prepare_in_time(
        &self,
        launcher: &Launcher,
        caches: Option<&Path>,
    ) -> Result<Prepared, Error> {
        let until = self.worker.time.map(|time| Instant::now() + time);
        let code = self.code_in_time(launcher.machine(), caches)?;
        let mut prepared = prepared(code);
        prepared.until = until;
        Ok(prepared)
    }

    fn launch(
        &self,
        prepared: &Prepared,
        launcher: &Launcher,
        streams: &Streams<'_>,
    ) -> Result<Box<dyn Domain>, Error> {
        let rest = prepared.until.map(|until| self.with_time_until(until));
        let plan = rest.as_ref().unwrap_or(self);
        let domain = match prepared.get() {
            Some(code) => plan.launch(code, launcher, streams)?,
            None => plan.launch(&plan.code(launcher.machine(), None)?, launcher, streams)?,
        };
        Ok(Box::new(domain))
    }
}

fn prepared(code: Code) -> Prepared {
    let not_kept = code.not_kept.as_ref().map(ToString::to_string);
    Prepared::new(code, not_kept)
}

impl From<ModuleError> for Error {
    fn from(error: ModuleError) -> Self {
        Self::new(Cause::Other, error)
    }
}

impl From<NotInstalled> for Error {
    fn from(error: NotInstalled) -> Self {
        Self::new(Cause::Other, error)
    }
}

impl From<WasmPlanError> for Error {
    fn from(error: WasmPlanError) -> Self {
        Self::new(Cause::Other, error)
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Launch(error) => error.into(),
            StartError::Compile(CompileError::TimeLimit { .. }) => {
                Self::new(Cause::TimeLimit, error)
            }
            error => Self::new(Cause::Other, error),
        }
    }
}
