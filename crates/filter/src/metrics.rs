//! Metrics that guests define.
//!
//! All instances of a filter count in one place. A change is one atomic addition, or three for a histogram.

use crate::settings::SharedBounds;
use palisade_engine::lock::lock;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Powers of two up to which a histogram tells values apart.
const BUCKETS: usize = 32;

/// A metric that a filter defined, and what it was when it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The filter's name.
    pub filter: String,
    /// The metric's name: the guest's own, any text.
    pub name: String,
    /// What it has counted.
    pub value: MetricValue,
}

/// What a metric has counted.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// Goes up only.
    Counter(u64),
    /// Goes up and down; never below 0, as Envoy has it.
    Gauge(u64),
    /// How often which values were recorded.
    Histogram(Histogram),
}

/// How often which values were recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// How many were at most so large (1, 2, 4, … 2³¹), each bucket with those below it; what is larger is in
    /// `count` alone.
    pub buckets: Vec<(u64, u64)>,
}

/// Kinds of metrics, with the ABI's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter = 0,
    Gauge = 1,
    Histogram = 2,
}

impl Kind {
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        [Self::Counter, Self::Gauge, Self::Histogram]
            .get(number as usize)
            .copied()
    }
}

/// The metrics of one filter.
#[derive(Debug)]
pub(crate) struct Series {
    cells: Mutex<BTreeMap<String, Arc<Cell>>>,
    most: usize,
    name_bytes: usize,
}

/// A metric's numbers.
#[derive(Debug)]
pub(crate) struct Cell {
    kind: Kind,
    /// The value; of a histogram the sum.
    value: AtomicU64,
    count: AtomicU64,
    /// Of a histogram.
    buckets: Box<[AtomicU64]>,
}

impl Series {
    pub(super) fn new(bounds: &SharedBounds) -> Self {
        Self {
            cells: Mutex::default(),
            most: bounds.metrics,
            name_bytes: bounds.name_bytes,
        }
    }

    /// Whether a metric may have a name of this length.
    pub(crate) fn takes_name(&self, name: &[u8]) -> bool {
        name.len() <= self.name_bytes
    }

    /// The metric of this name, which is made if there is none. `None`: there is no room, or it is of
    /// another kind.
    pub(crate) fn define(&self, kind: Kind, name: &str) -> Option<Arc<Cell>> {
        if !self.takes_name(name.as_bytes()) {
            return None;
        }
        let mut cells = lock(&self.cells);
        if let Some(cell) = cells.get(name) {
            return (cell.kind == kind).then(|| Arc::clone(cell));
        }
        if cells.len() >= self.most {
            return None;
        }
        let cell = Arc::new(Cell::new(kind));
        cells.insert(name.to_owned(), Arc::clone(&cell));
        Some(cell)
    }

    pub(super) fn all(&self, filter: &str) -> Vec<Metric> {
        lock(&self.cells)
            .iter()
            .map(|(name, cell)| Metric {
                filter: filter.to_owned(),
                name: name.clone(),
                value: cell.read(),
            })
            .collect()
    }
}

impl Cell {
    fn new(kind: Kind) -> Self {
        let buckets = if kind == Kind::Histogram { BUCKETS } else { 0 };
        Self {
            kind,
            value: AtomicU64::new(0),
            count: AtomicU64::new(0),
            buckets: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Adds to a counter or a gauge. `false`: that can't be.
    pub(crate) fn increment(&self, offset: i64) -> bool {
        match (self.kind, offset) {
            (Kind::Counter, 1..) => {
                self.value.fetch_add(offset as u64, Ordering::Relaxed);
                true
            }
            (Kind::Gauge, _) => {
                let add = |value: u64| Some(value.saturating_add_signed(offset));
                let _ = self
                    .value
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
                true
            }
            (Kind::Counter | Kind::Histogram, _) => false,
        }
    }

    /// Adds to a counter, sets a gauge, records in a histogram.
    pub(crate) fn record(&self, value: u64) {
        match self.kind {
            Kind::Counter => {
                self.value.fetch_add(value, Ordering::Relaxed);
            }
            Kind::Gauge => self.value.store(value, Ordering::Relaxed),
            Kind::Histogram => {
                self.value.fetch_add(value, Ordering::Relaxed);
                self.count.fetch_add(1, Ordering::Relaxed);
                if let Some(bucket) = self.buckets.get(bucket(value)) {
                    bucket.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// The value of a counter or a gauge.
    pub(crate) fn get(&self) -> Option<u64> {
        (self.kind != Kind::Histogram).then(|| self.value.load(Ordering::Relaxed))
    }

    fn read(&self) -> MetricValue {
        let value = self.value.load(Ordering::Relaxed);
        match self.kind {
            Kind::Counter => MetricValue::Counter(value),
            Kind::Gauge => MetricValue::Gauge(value),
            Kind::Histogram => MetricValue::Histogram(Histogram {
                count: self.count.load(Ordering::Relaxed),
                sum: value,
                buckets: self.read_buckets(),
            }),
        }
    }

    fn read_buckets(&self) -> Vec<(u64, u64)> {
        let mut below = 0;
        self.buckets
            .iter()
            .enumerate()
            .map(|(power, count)| {
                below += count.load(Ordering::Relaxed);
                (1 << power, below)
            })
            .collect()
    }
}

/// The least power of two that is not below the value.
fn bucket(value: u64) -> usize {
    match value {
        0 => 0,
        _ => (u64::BITS - (value - 1).leading_zeros()) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_counts_as_envoys_does() {
        let series = Series::new(&SharedBounds::default());
        let counter = series.define(Kind::Counter, "c").unwrap();
        assert!(counter.increment(2));
        assert!(!counter.increment(-1) && !counter.increment(0));
        counter.record(3);
        assert_eq!(counter.get(), Some(5));
        let gauge = series.define(Kind::Gauge, "g").unwrap();
        gauge.record(7);
        assert!(gauge.increment(-9));
        assert_eq!(gauge.get(), Some(0));
        let histogram = series.define(Kind::Histogram, "h").unwrap();
        assert!(!histogram.increment(1));
        for value in [0, 1, 2, 3, 5, u64::MAX] {
            histogram.record(value);
        }
        assert_eq!(histogram.get(), None);
        let MetricValue::Histogram(read) = &series.all("f")[2].value else {
            panic!("no histogram");
        };
        assert_eq!(
            (read.count, &read.buckets[..4]),
            (6, &[(1, 2), (2, 3), (4, 4), (8, 5)][..])
        );
    }

    #[test]
    fn a_name_has_one_kind_and_names_are_bounded() {
        let series = Series::new(&SharedBounds {
            metrics: 2,
            name_bytes: 3,
            ..SharedBounds::default()
        });
        let cell = series.define(Kind::Counter, "c").unwrap();
        assert!(Arc::ptr_eq(
            &cell,
            &series.define(Kind::Counter, "c").unwrap()
        ));
        assert!(series.define(Kind::Gauge, "c").is_none());
        assert!(series.define(Kind::Gauge, "long").is_none());
        series.define(Kind::Gauge, "g").unwrap();
        assert!(series.define(Kind::Gauge, "h").is_none());
    }
}
