//! What the instances of a server's filters share: data, queues, metrics; and the functions that they may import.
//!
//! What guests add is bounded: what goes beyond gets the status `INTERNAL_FAILURE`.

mod data;
mod metrics;
mod queue;

pub use metrics::{Histogram, Metric, MetricValue};

pub(crate) use data::{Data, SetError};
pub(crate) use metrics::{Cell, Kind, Series};
pub(crate) use queue::{Queues, Registrant};

use crate::{imports, state::State};
use palisade_engine::guest::{Engine, Imports, LoadError};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What the filters of a server share. One for each server; it outlives generations of a configuration.
#[derive(Debug, Default)]
pub struct Shared {
    bounds: SharedBounds,
    spaces: Mutex<BTreeMap<String, Arc<Space>>>,
    /// By the filter's name.
    series: Mutex<BTreeMap<String, Arc<Series>>>,
    /// Those of the engine that a filter was loaded for last: a server has one.
    imports: Mutex<Option<Arc<Imports<State>>>>,
}

/// What filters of one `vm_id` share, and no others see.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) data: Data,
    pub(crate) queues: Queues,
}

/// Bounds of what is shared. What is longer than can be there is told so, or not found, before it is looked up or
/// copied: no guest has others wait while the host goes through what it will not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBounds {
    /// Bytes of keys and values of one `vm_id`.
    pub data_bytes: usize,
    /// Keys of one `vm_id`.
    pub data_keys: usize,
    /// Bytes of one key.
    pub key_bytes: usize,
    /// Queues of one `vm_id`.
    pub queues: usize,
    /// Bytes that wait in one queue.
    pub queue_bytes: usize,
    /// Values that wait in one queue.
    pub queue_length: usize,
    /// Metrics of one filter.
    pub metrics: usize,
    /// Bytes of a metric's name, and of a queue's.
    pub name_bytes: usize,
}

impl Default for SharedBounds {
    /// 16 MiB and 100,000 keys of 16 KiB; 100 queues of 1 MiB and 10,000 values; 1000 metrics; names of 256 bytes.
    fn default() -> Self {
        Self {
            data_bytes: 16 << 20,
            data_keys: 100_000,
            key_bytes: 16 << 10,
            queues: 100,
            queue_bytes: 1 << 20,
            queue_length: 10_000,
            metrics: 1000,
            name_bytes: 256,
        }
    }
}

impl Shared {
    /// Nothing is shared yet.
    pub fn new(bounds: SharedBounds) -> Self {
        Self {
            bounds,
            ..Self::default()
        }
    }

    /// All metrics that filters have defined, by filter and name.
    pub fn metrics(&self) -> Vec<Metric> {
        let series = lock(&self.series).clone();
        series
            .iter()
            .flat_map(|(filter, series)| series.all(filter))
            .collect()
    }

    /// Forgets what belongs to a `vm_id` or a filter that is not among these. What instances use that still
    /// run goes with them.
    pub fn retain(
        &self,
        mut vm_id: impl FnMut(&str) -> bool,
        mut filter: impl FnMut(&str) -> bool,
    ) {
        lock(&self.spaces).retain(|name, _| vm_id(name));
        lock(&self.series).retain(|name, _| filter(name));
    }

    /// What filters of this engine may import. It takes 100 times as long to register all as to link a filter, so
    /// that is done once.
    pub(crate) fn imports(&self, engine: &Engine) -> Result<Arc<Imports<State>>, LoadError> {
        let mut kept = lock(&self.imports);
        if let Some(imports) = kept.as_ref().filter(|imports| imports.are_for(engine)) {
            return Ok(Arc::clone(imports));
        }
        let imports = Arc::new(imports::all(engine)?);
        *kept = Some(Arc::clone(&imports));
        Ok(imports)
    }

    pub(crate) fn space(&self, vm_id: &str) -> Arc<Space> {
        let mut spaces = lock(&self.spaces);
        let space = spaces.entry(vm_id.to_owned()).or_insert_with(|| {
            Arc::new(Space {
                data: Data::new(&self.bounds),
                queues: Queues::new(&self.bounds),
            })
        });
        Arc::clone(space)
    }

    pub(crate) fn series(&self, filter: &str) -> Arc<Series> {
        let mut series = lock(&self.series);
        let series = series
            .entry(filter.to_owned())
            .or_insert_with(|| Arc::new(Series::new(&self.bounds)));
        Arc::clone(series)
    }
}

/// What a panic left is whole: nothing here is changed in two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_engine::guest::EngineOptions;

    #[test]
    fn functions_are_registered_once_for_an_engine() {
        let shared = Shared::default();
        let engine = || {
            let options = EngineOptions {
                instances: 1,
                ..EngineOptions::default()
            };
            Engine::new(options).unwrap()
        };
        let (one, other) = (engine(), engine());
        let first = shared.imports(&one).unwrap();
        assert!(Arc::ptr_eq(&first, &shared.imports(&one).unwrap()));
        let second = shared.imports(&other).unwrap();
        assert!(first.are_for(&one) && !first.are_for(&other));
        assert!(second.are_for(&other));
    }
}
