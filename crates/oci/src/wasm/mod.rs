//! Images whose program is WebAssembly.
//!
//! ```text
//!  the image's file ──eight bytes of it──▶ Program ──obtain──▶ Code      a compiler that is granted nothing, and the cache
//!                                             │
//!  config.json ──adapt──▶ bundle::plan ──instruct──▶ Plan                the same container, in which palisade-worker runs
//! ```
//!
//! The container is made as for any image. What is executed in it is a file of the host's, `palisade-worker`, and nothing of the
//! image's: that is what the worker runs, behind a second wall. Nothing here reads more of a module than tells that it is one.

mod adapt;
mod filter;
mod find;
mod order;
mod reach;

pub(crate) use adapt::adapt;

use crate::{
    bundle::{self, Bundle, Making},
    cgroup::Groups,
    log::Log,
    policy::Kept,
    state::State,
    surroundings::Surroundings,
};
use anyhow::bail;
use oci_spec::runtime::{Process, Spec};
use palisade_process::{Machine, container};
use palisade_wall::Purpose;
use palisade_wasm::{
    code::{self, Compiler},
    module::Module,
    order::Order,
    programs::Programs,
};
use std::{collections::BTreeSet, fs::File, path::Path};

/// A container's program that is WebAssembly.
pub(crate) struct Program {
    module: Module,
    programs: Programs,
    order: Order,
}

impl Program {
    /// That of a container which is to be; `None` if it is a native one.
    pub(crate) fn of_bundle(bundle: &Bundle) -> anyhow::Result<Option<Self>> {
        let Some(process) = bundle.spec.process() else {
            return Ok(None);
        };
        let root = bundle.spec.root().as_ref();
        let rootfs = root.map(|root| bundle.folder.join(root.path()));
        let rootfs = rootfs.unwrap_or_default();
        let found = find::program(&bundle.spec, process, &rootfs, &bundle.folder)?;
        let asked = find::is_asked_for(&bundle.spec);
        match (found, asked) {
            (None, None) => Ok(None),
            (None, Some(annotation)) => Err(find::none(process, annotation)),
            (Some(module), _) => Self::new(module, &bundle.spec, process, &rootfs).map(Some),
        }
    }

    /// That of a further process, which is adapted then. Only in a container that was made for it: others have `/proc`.
    pub(crate) fn of_process(
        state: &State,
        spec: &Spec,
        process: &mut Process,
    ) -> anyhow::Result<Option<Self>> {
        if !state.runs_wasm {
            return Ok(None);
        }
        let Some(module) = find::program(spec, process, &state.rootfs, &state.bundle)? else {
            // The guest may have written it, the file that it was itself too: a native program would have none of its second wall.
            bail!(
                "policy: {:?} is no WebAssembly, and nothing else runs in a container whose program is",
                process
                    .args()
                    .iter()
                    .flatten()
                    .next()
                    .map_or("", String::as_str)
            );
        };
        adapt::adapt_process(process);
        Self::new(module, spec, process, &state.rootfs).map(Some)
    }

    fn new(module: Module, spec: &Spec, process: &Process, rootfs: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            module,
            programs: Programs::find(None)?,
            order: order::of(spec, process, rootfs)?,
        })
    }

    /// Has the worker run in the program's place. It finds its code behind the streams and what else is handed on.
    pub(crate) fn instruct(
        &self,
        process: &mut container::Process,
        preserved: u32,
    ) -> anyhow::Result<()> {
        let listeners = i32::try_from(preserved).unwrap_or(i32::MAX);
        order::instruct(&self.programs.worker, &self.order, listeners, process);
        // Hooks that run in the container are held as its program is.
        let has_hooks = !process.hooks.is_empty();
        process.filters.push((filter::program(has_hooks)?, 0));
        Ok(())
    }

    /// Its machine code: from the cache, or made now by a compiler behind a wall of its own. In memory, where nobody changes it: it
    /// is mapped when whoever creates the container has left.
    pub(crate) fn code(&self, spec: &Spec, bundle: &Path, log: &Log) -> anyhow::Result<File> {
        let cache = code::open_cache(None);
        reach::refuse(spec, bundle, cache.as_ref().ok(), &self.programs)?;
        let compiler = Compiler {
            path: &self.programs.compiler,
            machine: &Machine::probe(),
            allow_degraded: &BTreeSet::new(),
            within: None,
        };
        let code = code::obtain(&self.module, Purpose::Program, &compiler, cache)?;
        if let Some(error) = &code.not_kept {
            log.warning(&format!("host: compiled code was not kept: {error}"));
        }
        Ok(code.sealed()?)
    }
}

/// All of a bundle, and what of it runs WebAssembly.
pub(crate) fn plan(
    program: Option<&Program>,
    bundle: &Bundle,
    (groups, kept): (&Groups, &Kept),
    making: &Making,
    surroundings: &Surroundings,
) -> anyhow::Result<container::Plan> {
    let mut plan = bundle::plan(bundle, groups, making, surroundings, kept)?;
    if let Some(program) = program {
        program.instruct(&mut plan.process, making.preserved)?;
    }
    Ok(plan)
}
