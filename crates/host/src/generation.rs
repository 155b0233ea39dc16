//! A configuration with everything loaded that it needs: what all workers serve with.
//!
//! ```text
//!  Config ──load──▶ Generation ──▶ WorkerState (worker 0)
//!                   code, metrics  WorkerState (worker 1)
//! ```
//!
//! What a configuration has in common with the one before is taken over: code is not loaded twice, and programs that
//! run go on.

mod load;
mod load_filters;
mod load_services;
mod programs;
mod relied_on;

pub use load::{LoadError, Tools, load};

use crate::{config::Config, filters, log::Log, metrics::Registry, services};
use std::{collections::BTreeMap, sync::Arc};

/// A configuration, loaded: what all workers serve with.
#[derive(Debug)]
pub struct Generation {
    /// Counts from 1.
    pub number: u64,
    /// What was asked for.
    pub config: Arc<Config>,
    /// The server's log.
    pub log: Log,
    /// The metrics of all guests.
    pub registry: Arc<Registry>,
    pub(crate) filters: BTreeMap<String, Arc<filters::Loaded>>,
    pub(crate) services: BTreeMap<String, services::Loaded>,
    stamps: load::Stamps,
}
