//! A page in the text format, as far as it is written.

use palisade_policy::visible;
use std::fmt::{Display, Write};

/// The page, as far as it is written.
#[derive(Default)]
pub(in crate::admin) struct Page {
    pub(in crate::admin) text: String,
}

impl Page {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.text, "{name} {value}"),
            _ => writeln!(self.text, "{name}{{{labels}}} {value}"),
        };
    }

    /// A histogram's samples. Buckets count what is not above their bounds, those below included.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &str,
        buckets: impl Iterator<Item = (impl Display, u64)>,
        count: u64,
        sum: impl Display,
    ) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in buckets {
            self.sample(&bucket, &format!(r#"{labels},le="{bound}""#), count);
        }
        self.sample(&bucket, &format!(r#"{labels},le="+Inf""#), count);
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, count);
    }

    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, "", value);
    }
}

/// A label's value: the three characters that the format has escapes for, and none that act on a terminal.
pub(super) fn label(value: &str) -> String {
    let value = visible(value);
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
