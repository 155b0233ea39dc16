//! What one run showed.

use std::path::Path;

use super::Line;
use super::run::{Ended, exit_code};
use super::survey::{Survey, changes};

/// Longer outputs are told by their length.
const LONGEST_OUTPUT_BYTES: usize = 64 << 10;

/// What one run showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What the guest printed, what palisade said of a limit, how it ended, and what is otherwise on the host.
    pub lines: Vec<Line>,
    /// Files of the host that are not as they were, below the base.
    pub changed: Vec<String>,
    /// What came out of stderr, for the report of a failure.
    pub stderr: String,
}

impl Observation {
    /// What this host can't limit, if palisade refused to start for want of it.
    #[must_use]
    pub fn refused_by_host(&self) -> Option<String> {
        let refusal = self
            .stderr
            .lines()
            .find(|line| line.starts_with("palisade: host: a limit on "));
        refusal.map(str::to_owned)
    }

    /// From what came out, and what is on the host now.
    pub(super) fn new(ended: &Ended, before: &Survey, after: &Survey, base: &Path) -> Self {
        let mask = |text: &str| text.replace(&base.display().to_string(), "{base}");
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        let changes = changes(before, after);
        let mut lines = output_lines(&ended.stdout);
        lines.extend(
            ended
                .answer
                .iter()
                .map(|answer| format!("answer: {answer}")),
        );
        // Palisade says other things of the two kinds of program, but the same of a limit.
        lines.extend(
            stderr
                .lines()
                .filter(|line| {
                    !line.starts_with("palisade: ") || line.starts_with("palisade: limit: ")
                })
                .map(|line| format!("stderr: {line}")),
        );
        lines.push(format!("exit: {}", exit_code(ended.status)));
        lines.extend(
            changes
                .iter()
                .map(|(path, what)| format!("host: {path}: {what}")),
        );
        Self {
            lines: lines.iter().map(|line| Line(mask(line))).collect(),
            changed: changes.into_iter().map(|(path, _)| path).collect(),
            stderr,
        }
    }
}

fn output_lines(stdout: &[u8]) -> Vec<String> {
    if stdout.len() > LONGEST_OUTPUT_BYTES {
        return vec![format!("output: {} bytes", stdout.len())];
    }
    String::from_utf8_lossy(stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}
