//! Whether a filter takes its configuration: asked when it is loaded, before anybody's request meets it.
//!
//! An instance is started as for a request, and thrown away. Nothing that serves is touched: its calls go nowhere, its
//! lines are not written, and data, queues and metrics are those of a world of its own.

use palisade_engine::guest::Program;
use palisade_filter::{
    CallRefused, Fault, FaultKind, Filter, Host, HttpCall, Instance, LoadError, LogLevel, Settings,
    Shared,
};
use std::{rc::Rc, sync::Arc};

/// A filter does not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub(super) enum TrialError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("{0}; correct its configuration, or mend the filter")]
    Start(#[from] Fault),
}

/// Starts it once, with a configuration that `upstreams` of these names belong to. Of what is `shared` it has the functions
/// that it imports, and nothing else.
///
/// # Errors
///
/// When it refuses its configuration, or fails over it.
pub(super) fn start(
    program: &Program,
    settings: &Settings,
    upstreams: &[String],
    shared: &Shared,
) -> Result<(), TrialError> {
    let filter = Filter::load(program, settings.clone(), &Arc::new(shared.apart()))?;
    let upstreams = upstreams.to_vec();
    match Instance::start(&filter, Rc::new(Aside { upstreams }), None) {
        // No instance is free now: nothing is known of the filter.
        Err(fault) if fault.kind != FaultKind::Host => Err(fault.into()),
        _ => Ok(()),
    }
}

/// What such an instance finds round it.
struct Aside {
    upstreams: Vec<String>,
}

impl Host for Aside {
    fn log(&self, _: LogLevel, _: &[u8]) {}

    /// Taken, and never answered.
    fn call(&self, call: HttpCall) -> Result<(), CallRefused> {
        match self.upstreams.contains(&call.upstream) {
            true => Ok(()),
            false => Err(CallRefused),
        }
    }
}
