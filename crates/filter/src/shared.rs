//! What the instances of a server's filters share: data, queues, metrics; and the functions that they may import.
//!
//! What guests add is bounded: what goes beyond gets the status `INTERNAL_FAILURE`.

use crate::{
    imports,
    metrics::{Metric, Series},
    settings::SharedBounds,
    space::Space,
    state::State,
};
use palisade_engine::{
    guest::{Engine, Imports, LoadError},
    lock::lock,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

/// Engines of a server: for filters whose memories begin with little, and with much.
const ENGINES: usize = 2;

/// What the filters of a server share. One for each server; it outlives generations of a configuration.
#[derive(Debug, Default)]
pub struct Shared {
    bounds: SharedBounds,
    /// By tenant and `vm_id`.
    spaces: Mutex<BTreeMap<(String, String), Arc<Space>>>,
    /// By the filter's name.
    series: Mutex<BTreeMap<String, Arc<Series>>>,
    /// Those of the engines that filters were loaded for last.
    imports: Mutex<VecDeque<Arc<Imports<State>>>>,
}

impl Shared {
    /// Nothing is shared yet.
    pub fn new(bounds: SharedBounds) -> Self {
        Self {
            bounds,
            ..Self::default()
        }
    }

    /// Another one, in which nothing is shared yet. What filters may import is registered once for both.
    pub fn apart(&self) -> Self {
        Self {
            imports: Mutex::new(lock(&self.imports).clone()),
            ..Self::new(self.bounds.clone())
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

    /// Forgets what belongs to a tenant's `vm_id` or a filter that is not among these. What instances use that still
    /// run goes with them.
    pub fn retain(
        &self,
        mut vm_id: impl FnMut(&str, &str) -> bool,
        mut filter: impl FnMut(&str) -> bool,
    ) {
        lock(&self.spaces).retain(|(tenant, name), _| vm_id(tenant, name));
        lock(&self.series).retain(|name, _| filter(name));
    }

    /// What filters of this engine may import. It takes 100 times as long to register all as to link a filter, so
    /// that is done once.
    pub(crate) fn imports(&self, engine: &Engine) -> Result<Arc<Imports<State>>, LoadError> {
        let mut kept = lock(&self.imports);
        if let Some(imports) = kept.iter().find(|imports| imports.are_for(engine)) {
            return Ok(Arc::clone(imports));
        }
        let imports = Arc::new(imports::all(engine)?);
        kept.truncate(ENGINES - 1);
        kept.push_front(Arc::clone(&imports));
        Ok(imports)
    }

    pub(crate) fn space(&self, tenant: &str, vm_id: &str) -> Arc<Space> {
        let mut spaces = lock(&self.spaces);
        let space = spaces
            .entry((tenant.to_owned(), vm_id.to_owned()))
            .or_insert_with(|| Arc::new(Space::new(&self.bounds)));
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
        assert!(Arc::ptr_eq(&first, &shared.imports(&one).unwrap()));
    }
}
