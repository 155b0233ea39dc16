//! The callbacks that an instance begins with.

use crate::{
    Fault, FaultKind,
    phase::Phase,
    state::{At, Life, ROOT},
};

/// What a program does before it is a filter.
pub(super) fn module(phase: &mut Phase<'_>) -> Result<(), Fault> {
    let callbacks = phase.callbacks();
    phase.call_if(At::Root, "_initialize", callbacks.initialize.as_ref(), ())?;
    phase.call_if(At::Root, "main", callbacks.main.as_ref(), (0, 0))?;
    phase.call_if(At::Root, "__main_void", callbacks.main_void.as_ref(), ())?;
    phase.call_if(At::Root, "_start", callbacks.start.as_ref(), ())?;
    Ok(())
}

/// Tells the guest of its root context, and of its configuration.
pub(super) fn root(phase: &mut Phase<'_>) -> Result<(), Fault> {
    let callbacks = phase.callbacks();
    let settings = &phase.loaded().settings;
    phase.state().root = Life::Created;
    let on_create = callbacks.on_context_create.as_ref();
    phase.call_if(At::Root, "proxy_on_context_create", on_create, (ROOT, 0))?;
    phase.state().is_in_vm_start = true;
    let bytes = settings.vm_configuration.len() as u32;
    let name = "proxy_on_vm_start";
    let started = phase.call_if(
        At::Root,
        name,
        callbacks.on_vm_start.as_ref(),
        (ROOT, bytes),
    )?;
    phase.state().is_in_vm_start = false;
    check_accepted(started, name)?;
    let bytes = settings.configuration.len() as u32;
    let name = "proxy_on_configure";
    let on_configure = callbacks.on_configure.as_ref();
    let configured = phase.call_if(At::Root, name, on_configure, (ROOT, bytes))?;
    check_accepted(configured, name)
}

fn check_accepted(result: Option<u32>, callback: &'static str) -> Result<(), Fault> {
    match result {
        Some(0) => Err(Fault::new(
            FaultKind::Refused,
            callback,
            "it does not take its configuration",
        )),
        _ => Ok(()),
    }
}
