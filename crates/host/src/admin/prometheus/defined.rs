//! Series of metrics that filters define.
//!
//! How many there are and how long their names, filters decide. So all of them together have so many bytes of the page,
//! which are divided among filters: who takes less than its part leaves the rest to the others.

use super::{
    guests::labels_of,
    page::{Page, label},
};
use crate::kinds::GuestKind;
use palisade_filter::{Histogram, Metric, MetricValue};
use std::collections::{BTreeMap, BTreeSet};

/// The most bytes of a sample beside its labels: names, bounds and numbers as long as they can be.
const MOST_SAMPLE_BYTES: usize = 80;

/// A metric, and what tells its series from others.
struct Labelled<'a> {
    metric: &'a Metric,
    labels: String,
}

impl Labelled<'_> {
    /// Bytes that it takes, whatever its value: what is shown does not depend on it.
    fn bytes(&self) -> usize {
        let samples = match &self.metric.value {
            MetricValue::Counter(_) | MetricValue::Gauge(_) => 1,
            // Beside the buckets: the last one, the sum and the count.
            MetricValue::Histogram(histogram) => histogram.buckets.len() + 3,
        };
        samples * (MOST_SAMPLE_BYTES + self.labels.len())
    }
}

/// Metrics that filters defined, as far as they fit into `most_bytes`; of filters that have series of their own.
pub(in crate::admin) fn write_defined(
    page: &mut Page,
    metrics: &[Metric],
    has_place: impl Fn(&str) -> bool,
    most_bytes: usize,
) {
    let shown = choose(metrics, has_place, most_bytes);
    const COUNTER: &str = "palisade_filter_counter_total";
    page.family(COUNTER, "counter", "Counters that filters define.");
    for Labelled { metric, labels } in &shown {
        if let MetricValue::Counter(value) = metric.value {
            page.sample(COUNTER, labels, value);
        }
    }
    const GAUGE: &str = "palisade_filter_gauge";
    page.family(GAUGE, "gauge", "Gauges that filters define.");
    for Labelled { metric, labels } in &shown {
        if let MetricValue::Gauge(value) = metric.value {
            page.sample(GAUGE, labels, value);
        }
    }
    const HISTOGRAM: &str = "palisade_filter_histogram";
    page.family(HISTOGRAM, "histogram", "Histograms that filters define.");
    for Labelled { metric, labels } in &shown {
        if let MetricValue::Histogram(histogram) = &metric.value {
            let Histogram {
                buckets,
                count,
                sum,
            } = histogram;
            let buckets = buckets.iter().map(|(bound, count)| (*bound, *count));
            page.histogram(HISTOGRAM, labels, buckets, *count, *sum);
        }
    }
    page.single(
        "palisade_filter_metrics_hidden",
        "gauge",
        "Metrics that filters define and that are not shown, for want of room or of another name.",
        metrics.len() - shown.len(),
    );
}

fn choose<'a>(
    metrics: &'a [Metric],
    has_place: impl Fn(&str) -> bool,
    most_bytes: usize,
) -> Vec<Labelled<'a>> {
    let mut by_filter: BTreeMap<&str, Vec<Labelled<'a>>> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for metric in metrics.iter().filter(|metric| has_place(&metric.filter)) {
        let guest = labels_of(GuestKind::Filter, &metric.filter);
        let labels = format!(r#"{guest},metric="{}""#, label(&metric.name));
        // Two names can be the same once what acts on a terminal is written out, and no series may be there twice.
        if taken.insert(labels.clone()) {
            let of_filter = by_filter.entry(&metric.filter).or_default();
            of_filter.push(Labelled { metric, labels });
        }
    }
    let needs = by_filter.values().map(|metrics| {
        let bytes = metrics.iter().map(Labelled::bytes);
        bytes.sum()
    });
    let shares = divide(&needs.collect::<Vec<_>>(), most_bytes);
    let filters = by_filter.into_values().zip(shares);
    filters
        .flat_map(|(metrics, share)| {
            let mut left = share;
            metrics.into_iter().take_while(move |metric| {
                let rest = left.checked_sub(metric.bytes());
                left = rest.unwrap_or(left);
                rest.is_some()
            })
        })
        .collect()
}

/// Everybody gets what he needs or an equal part, and what is left over by those who need less.
fn divide(needs: &[usize], all: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..needs.len()).collect();
    order.sort_by_key(|at| needs[*at]);
    let mut shares = vec![0; needs.len()];
    let mut left = all;
    for (served, at) in order.into_iter().enumerate() {
        shares[at] = needs[at].min(left / (needs.len() - served));
        left -= shares[at];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_needs_little_gets_it_and_the_rest_is_shared() {
        assert_eq!(divide(&[10, 1000, 20, 500], 100), [10, 35, 20, 35]);
        assert_eq!(divide(&[10, 20], 100), [10, 20]);
        assert_eq!(divide(&[], 100), [0; 0]);
        assert_eq!(divide(&[5, 5, 5], 2), [0, 1, 1]);
    }
}
