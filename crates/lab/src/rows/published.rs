//! What the originals published, as ratios to no wall, and the axis along which a row's operations
//! form a scale: for charts. The rows have the same figures as words, for their tables.

use serde::{Deserialize, Serialize};

/// What a row's chart shows beside its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChartFacts {
    /// Where the operations differ in a size alone: what it is the size of. The size stands at the
    /// end of the measure's name, as in `read-64`.
    pub axis: Option<Axis>,
    /// What the original measured.
    pub published: Vec<Published>,
    /// How it is drawn.
    #[serde(default, skip_serializing_if = "Style::is_usual")]
    pub style: Style,
}

/// How a row is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// As times as much as with no wall, where there is no wall to compare with.
    #[default]
    Usual,
    /// As it was measured: what is compared with each other differs from line to line.
    Absolute,
    /// A line for each contender, from one size to the next, as it was measured.
    Lines,
}

impl Style {
    fn is_usual(&self) -> bool {
        *self == Self::Usual
    }
}

/// A size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// What it is called.
    pub title: String,
    /// How many bytes one is; `None` of what is counted.
    pub bytes: Option<u64>,
}

/// A ratio to no wall, or a range of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The measure or workload; `None` if it is about all of them.
    pub of: Option<String>,
    /// Whose figure it is.
    pub by: String,
    /// The lower end.
    pub low: f64,
    /// The upper end; the same for a single figure.
    pub high: f64,
}

impl Published {
    /// Whether it is about a figure.
    pub(crate) fn is_about(&self, measure: &str, workload: &str) -> bool {
        let is_named = |name: &String| [measure, workload].contains(&name.as_str());
        self.of.as_ref().is_none_or(is_named)
    }
}

const FILES: Option<(&str, Option<u64>)> = Some(("files", None));
const MICRO_KVM: &str = "µKVM";
const SVA_OS: &str = "SVA-OS";
const DENALI: &str = "Denali";

/// What the originals' tables say about a row, in their own words: part more than with no wall.
pub(crate) fn chart_facts(row: &str) -> ChartFacts {
    type Fact = (Option<&'static str>, &'static str, f64, f64);
    let single = |of, by, more: f64| -> Fact { (Some(of), by, more, more) };
    let (axis, published) = match row {
        "mk-2" => (
            FILES,
            vec![
                single("open-500", MICRO_KVM, 0.0298),
                single("open-1000", MICRO_KVM, 0.0333),
            ],
        ),
        "mk-3" => (
            Some(("block size", Some(1))),
            vec![(None, MICRO_KVM, -0.0141, 0.0071)],
        ),
        "mk-6" => (
            Some(("threads", None)),
            vec![(None, "µKVM, at most", 0.1429, 0.1429)],
        ),
        "mk-7" => (
            FILES,
            vec![
                single("open-500", MICRO_KVM, 0.6855),
                single("open-1000", MICRO_KVM, 0.3989),
                single("open-500", "plain Java, checks on", 1.3645),
                single("open-1000", "plain Java, checks on", 0.7733),
            ],
        ),
        "kp-6" => (None, vec![(Some("reply"), "VM, kernel plugins", 1.0, 1.5)]),
        "kp-8" => (Some(("requests offered in a second", None)), Vec::new()),
        "den-f4" | "den-f5" | "den-f8" => (Some(("services", None)), Vec::new()),
        "mk-4" => (
            Some(("block size", Some(1))),
            vec![(None, MICRO_KVM, -0.0101, 0.0337)],
        ),
        "mk-5" => (
            Some(("packets", None)),
            vec![(None, MICRO_KVM, -0.0101, 0.0284)],
        ),
        "sva-f2" => (Some(("file size", Some(1024))), served_files()),
        "sva-f3" => (None, vec![(None, "SVA-OS, about", 0.0, 0.0)]),
        // 569 of 607 Mb/s.
        "den-tcp" => (
            None,
            vec![(None, DENALI, 569.0 / 607.0 - 1.0, 569.0 / 607.0 - 1.0)],
        ),
        // Up to 40 % less throughput is up to 1/0.6 of the time.
        "den-f3" => (
            Some(("document size", Some(1024))),
            vec![
                (Some("document-50"), DENALI, 0.0, 1.0 / 0.6 - 1.0),
                (Some("document-100"), DENALI, 0.0, 1.0 / 0.6 - 1.0),
            ],
        ),
        // 286,550 and 205,199 requests a second, in a virtual machine both.
        "osv-mc" => (
            None,
            vec![single(
                "requests",
                "OSv, of a Linux guest",
                286_550.0 / 205_199.0 - 1.0,
            )],
        ),
        "sva-f4" => (Some(("file size", Some(1024))), small_files()),
        // 1.76 % faster than a Linux guest.
        "osv-jvm" => (
            None,
            vec![single("geometric mean", "OSv", 1.0 / 1.0176 - 1.0)],
        ),
        "sva-t3" => (None, vec![(None, "SVA-OS, about", 0.0, 0.0)]),
        _ => (None, Vec::new()),
    };
    let style = match row {
        "kp-7" | "kp-c" => Style::Absolute,
        "kp-8" | "den-f4" | "den-f5" | "den-f8" => Style::Lines,
        "den-f12" | "den-t2" | "tenants" => Style::Absolute,
        "container-start" | "container-memory" | "container-requests" | "container-many" => {
            Style::Absolute
        }
        "serve-filter" | "serve-files" | "serve-component" | "serve-program" => Style::Absolute,
        _ => Style::Usual,
    };
    ChartFacts {
        style,
        axis: axis.map(|(title, bytes)| Axis {
            title: title.to_owned(),
            bytes,
        }),
        published: published.into_iter().map(ratio).collect(),
    }
}

/// Transfer rates: 9 % less up to 32 KB, about the same from 64 KB on.
fn served_files() -> Vec<(Option<&'static str>, &'static str, f64, f64)> {
    let small = ["file-1", "file-4", "file-16", "file-32"].map(|size| (size, -0.09));
    let large = ["file-64", "file-256", "file-1024"].map(|size| (size, 0.0));
    let all = small.into_iter().chain(large);
    all.map(|(size, more)| (Some(size), SVA_OS, more, more))
        .collect()
}

/// 5 to 20 % less bandwidth is 1/0.95 to 1/0.80 of the time.
fn small_files() -> Vec<(Option<&'static str>, &'static str, f64, f64)> {
    let sizes = ["read-4", "read-16", "write-4", "write-16"];
    let more = |part: f64| 1.0 / (1.0 - part) - 1.0;
    sizes
        .map(|size| (Some(size), SVA_OS, more(0.05), more(0.20)))
        .to_vec()
}

fn ratio((of, by, low, high): (Option<&'static str>, &'static str, f64, f64)) -> Published {
    // As many places as the original has: 0.1 + 0.2 is not 0.30000000000000004 to a reader.
    let ratio = |more: f64| ((1.0 + more) * 1e4).round() / 1e4;
    Published {
        of: of.map(ToOwned::to_owned),
        by: by.to_owned(),
        low: ratio(low),
        high: ratio(high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(row: &str, measure: &str) -> Vec<(f64, f64)> {
        let facts = chart_facts(row);
        let about = facts
            .published
            .iter()
            .filter(|fact| fact.is_about(measure, ""));
        about.map(|fact| (fact.low, fact.high)).collect()
    }

    #[test]
    fn figures_are_those_of_the_originals() {
        assert_eq!(ratios("mk-2", "open-1000"), [(1.0333, 1.0333)]);
        assert_eq!(ratios("mk-3", "write-256"), [(0.9859, 1.0071)]);
        assert_eq!(ratios("mk-6", "threads-10"), [(1.1429, 1.1429)]);
        assert_eq!(
            ratios("mk-7", "open-500"),
            [(1.6855, 1.6855), (2.3645, 2.3645)]
        );
        assert_eq!(ratios("sva-f4", "read-16"), [(1.0526, 1.25)]);
        assert_eq!(ratios("sva-f4", "read-64"), []);
        assert_eq!(ratios("mk-4", "block-64"), [(0.9899, 1.0337)]);
        assert_eq!(ratios("den-tcp", "in"), [(0.9374, 0.9374)]);
        assert_eq!(ratios("den-f3", "document-100"), [(1.0, 1.6667)]);
        assert_eq!(ratios("sva-f2", "file-32"), [(0.91, 0.91)]);
        assert_eq!(ratios("sva-f2", "file-64"), [(1.0, 1.0)]);
        assert_eq!(ratios("osv-mc", "requests"), [(1.3964, 1.3964)]);
        assert_eq!(ratios("osv-jvm", "geometric mean"), [(0.9827, 0.9827)]);
        assert_eq!(ratios("osv-jvm", "compress"), []);
        assert_eq!(ratios("start", "wall"), []);
    }
}
