//! Services of a configuration, as far as all workers share them.

use super::{
    load::{LoadError, Tools},
    programs::load_program,
    tenant::Tenant,
};
use crate::{
    code::{Preload, Source},
    config::{self, ServiceKind},
    kinds::GuestKind,
    services::{
        Loaded, Shared, component,
        files::{Files, FilesError, Served},
        program::Check,
    },
    stamp::Stamp,
};
use palisade_wall::Purpose;
use std::{path::Path, sync::Arc};

/// What serves now under this name, if its lines go where they are to go.
pub(super) fn kept_service<'a>(
    previous: Option<&'a Tenant>,
    name: &str,
    service: &config::Service,
) -> Option<&'a Loaded> {
    let previous = previous?;
    let is_same = previous.config.services.get(name)?.log == service.log;
    previous
        .services
        .get(name)
        .filter(|_| is_same)
        .map(Box::as_ref)
}

/// Whether the component that serves now is the one that is asked for.
pub(super) fn is_same_component(
    previous: Option<&Tenant>,
    name: &str,
    service: &config::Service,
    stamp: Option<Stamp>,
) -> bool {
    let ServiceKind::Component(component) = &service.kind else {
        return false;
    };
    previous.is_some_and(|previous| {
        let before = previous.config.services.get(name);
        before.is_some_and(|before| **before == *service)
            && stamp.is_some()
            && previous.stamps.get(&component.component) == stamp.as_ref()
    })
}

/// A component; the one that serves now, where it is the `same`, else it is among the `new` ones.
pub(super) fn load_component(
    name: &str,
    component: &config::Component,
    service: &config::Service,
    same: Option<&Loaded>,
    (within, new): (Option<&Path>, &mut Vec<Arc<dyn Preload>>),
    tools: &Tools,
) -> Result<Loaded, LoadError> {
    if let Some(Loaded {
        shared: Shared::Component(loaded),
        log,
    }) = same
    {
        return Ok(Loaded {
            shared: Shared::Component(Arc::clone(loaded)),
            log: log.clone(),
        });
    }
    let path = service.log.as_deref();
    let quota = tools.quota_of(name);
    let log = tools.log.of_guest(GuestKind::Service, name, path, within)?;
    let log = log.of_tenant(&quota);
    let guest = || format!("service {name}");
    let source = Source {
        tenant: Arc::clone(quota.tenant()),
        guest: guest(),
        path: component.component.clone(),
        within: within.map(Path::to_owned),
        purpose: Purpose::Service,
        allow_degraded: service.policy.allow_degraded.clone(),
    };
    let bound = |share, instances| tools.bounded(share, instances);
    let loaded = component::Loaded::new(
        component,
        service,
        source,
        &tools.code,
        bound,
        (&quota, log.clone()),
    );
    let loaded = loaded.map_err(|source| LoadError::Component {
        guest: guest(),
        source,
    })?;
    let looked = loaded.code().look_at_file();
    looked.map_err(|source| LoadError::Code {
        guest: guest(),
        source,
    })?;
    new.push(Arc::clone(loaded.code()) as _);
    Ok(Loaded {
        shared: Shared::Component(Arc::new(loaded)),
        log,
    })
}

pub(super) fn load_service(
    name: &str,
    (service, bounds): (&config::Service, &config::ProgramBounds),
    previous: Option<&Loaded>,
    (served, check): (Option<&Arc<Served>>, Option<&Arc<dyn Check>>),
    (within, new): (Option<&Path>, &mut Vec<Arc<dyn Preload>>),
    tools: &Tools,
) -> Result<Loaded, LoadError> {
    let log = service.log.as_deref();
    let quota = tools.quota_of(name);
    let log = tools.log.of_guest(GuestKind::Service, name, log, within)?;
    let log = log.of_tenant(&quota);
    let shared = match &service.kind {
        ServiceKind::Files(files) => {
            let of_files = |source| LoadError::Files {
                guest: format!("service {name}"),
                source,
            };
            let served = served.ok_or_else(|| of_files(FilesError::not_served(files)))?;
            // Each worker makes its own: this is to say now that it can't be.
            Files::new(files, served).map_err(of_files)?;
            Shared::Files(files.clone(), Arc::clone(served))
        }
        ServiceKind::Upstream(upstream) => Shared::Upstream(upstream.clone()),
        ServiceKind::Program(program) => {
            let settings = (service, bounds);
            let loaded = load_program(name, program, settings, (&log, check), previous, tools);
            Shared::Program(loaded.map_err(|source| LoadError::of_service(name, source))?)
        }
        ServiceKind::Component(component) => {
            return load_component(name, component, service, None, (within, new), tools);
        }
    };
    Ok(Loaded { shared, log })
}
