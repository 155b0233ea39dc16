//! A guest behind the wall that suits it: one plan for whichever it is.

use crate::{
    code::Code,
    error::StartError,
    module::{self, ModuleError},
    plan::{self, WasmPlanError},
    programs::{NotInstalled, Programs},
};
use palisade_policy::{Policy, WallKind};
use palisade_process::{
    Domain, Launcher, Machine, Streams, ThisHost,
    plan::{self as process, PlanError, Surroundings},
};
use palisade_wall::Command;
use serde::Serialize;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Every step of one launch, behind one of the walls.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum GuestPlan {
    /// A native program.
    Process(Box<process::Plan>),
    /// WebAssembly.
    Wasm(Box<plan::Plan>),
}

/// There is no plan.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum GuestPlanError {
    #[error(transparent)]
    Module(#[from] ModuleError),
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    #[error(transparent)]
    Process(#[from] PlanError),
    #[error(transparent)]
    Wasm(#[from] WasmPlanError),
}

/// Makes a plan for the program that `command` names. `libexec` is where worker and compiler lie, if not
/// in the usual places.
///
/// # Errors
///
/// When the policy names what does not exist or asks for what can't be enforced here.
pub fn make_plan(
    policy: &Policy,
    command: &Command,
    machine: &Machine,
    surroundings: &Surroundings,
    libexec: Option<&Path>,
) -> Result<GuestPlan, GuestPlanError> {
    let Some(module) = module::find(&command.program, policy, surroundings)? else {
        let plan = process::make_plan(policy, command, machine, surroundings, &ThisHost)?;
        return Ok(GuestPlan::Process(Box::new(plan)));
    };
    let programs = Programs::find(libexec)?;
    let there = (surroundings, &ThisHost as _);
    let plan = plan::make_plan(module, policy, command, machine, there, &programs)?;
    Ok(GuestPlan::Wasm(Box::new(plan)))
}

impl GuestPlan {
    /// Which wall.
    pub fn wall(&self) -> WallKind {
        match self {
            Self::Process(_) => WallKind::Process,
            Self::Wasm(_) => WallKind::Wasm,
        }
    }

    /// The domain: the guest's own, or its worker's.
    pub fn domain(&self) -> &process::Plan {
        match self {
            Self::Process(plan) => plan,
            Self::Wasm(plan) => &plan.worker,
        }
    }

    /// Files of the host's that every start of this plan executes or is told of and that the guest cannot change: the
    /// program, and what its arguments name. None: there is no program.
    pub fn fixed_files(&self) -> Vec<PathBuf> {
        match self {
            Self::Process(plan) if plan.find_program().is_none() => Vec::new(),
            Self::Process(plan) => plan.fixed_files(),
            Self::Wasm(plan) => vec![plan.module.path.clone()],
        }
    }

    /// What a launch needs beside the plan: nothing for a native program, else compiled code, which is
    /// kept below `caches` or where the user's caches are.
    ///
    /// # Errors
    ///
    /// When the module can't be read or compiled.
    pub fn code(
        &self,
        machine: &Machine,
        caches: Option<&Path>,
    ) -> Result<Option<Code>, StartError> {
        match self {
            Self::Process(_) => Ok(None),
            Self::Wasm(plan) => plan.code(machine, caches).map(Some),
        }
    }

    /// The same for a run that is about to begin: what compiling takes is the guest's time.
    ///
    /// # Errors
    ///
    /// As those of [`GuestPlan::code`], and when the time is up.
    pub fn code_in_time(
        &mut self,
        machine: &Machine,
        caches: Option<&Path>,
    ) -> Result<Option<Code>, StartError> {
        match self {
            Self::Process(_) => Ok(None),
            Self::Wasm(plan) => plan.code_in_time(machine, caches).map(Some),
        }
    }

    /// Starts the guest. `code` is this plan's, by [`GuestPlan::code`].
    ///
    /// # Errors
    ///
    /// When a step of the plan fails. Nothing of the domain is left then.
    pub fn launch(
        &self,
        code: Option<&Code>,
        launcher: &Launcher,
        streams: Streams<'_>,
    ) -> Result<Domain, StartError> {
        match (self, code) {
            (Self::Process(plan), _) => Ok(launcher.launch(plan, &streams)?),
            (Self::Wasm(plan), Some(code)) => plan.launch(code, launcher, streams),
            (Self::Wasm(plan), None) => {
                plan.launch(&plan.code(launcher.machine(), None)?, launcher, streams)
            }
        }
    }
}

impl fmt::Display for GuestPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(plan) => plan.fmt(formatter),
            Self::Wasm(plan) => plan.fmt(formatter),
        }
    }
}
