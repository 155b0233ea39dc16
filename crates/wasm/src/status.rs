//! What a worker tells its supervisor, a line each, through a pipe that the guest cannot reach.
//!
//! A worker whose engine was broken could write anything here: it is shown to the user as the guest's own
//! words are, and decides nothing.

use palisade_policy::visible;
use std::{fmt, path::Path};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// A step of the start is done, at this time of the monotonic clock.
    Phase {
        /// The step's name: no white space.
        name: String,
        /// In ns.
        at_ns: u64,
    },
    /// The guest broke a rule of WebAssembly and was ended: `unreachable`, with a line for each function
    /// that was running, joined by `; `.
    Trap(String),
    /// The guest can't be run behind this wall, and why.
    Refused(String),
    /// The compiled code does not fit this worker.
    Stale(String),
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |text: &str| text.replace('\n', "; ");
        match self {
            Self::Phase { name, at_ns } => writeln!(formatter, "phase {name} {at_ns}"),
            Self::Trap(text) => writeln!(formatter, "trap {}", line(text)),
            Self::Refused(text) => writeln!(formatter, "refused {}", line(text)),
            Self::Stale(text) => writeln!(formatter, "stale {}", line(text)),
        }
    }
}

/// Reads the lines that are whole and known; others are left out.
pub fn read(text: &str) -> Vec<Status> {
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
        .filter_map(read_line)
        .collect()
}

fn read_line(line: &str) -> Option<Status> {
    let (kind, rest) = line.split_once(' ')?;
    match kind {
        "phase" => {
            let (name, at_ns) = rest.split_once(' ')?;
            Some(Status::Phase {
                name: name.into(),
                at_ns: at_ns.parse().ok()?,
            })
        }
        "trap" => Some(Status::Trap(rest.into())),
        "refused" => Some(Status::Refused(rest.into())),
        "stale" => Some(Status::Stale(rest.into())),
        _ => None,
    }
}

/// In words: whose fault it is comes first, in every message. Who could not run the guest may have said so.
pub fn not_run(program: &Path, why: &str) -> String {
    const FAULTS: [&str; 4] = ["guest", "policy", "host", "wall"];
    let named = why
        .split_once(": ")
        .filter(|(fault, _)| FAULTS.contains(fault));
    let (fault, reason) = named.unwrap_or(("guest", why));
    let program = program.to_string_lossy();
    format!(
        "{fault}: {} cannot be run: {}",
        visible(&program),
        visible(reason)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back_and_others_are_left_out() {
        let told = [
            Status::Phase {
                name: "loaded".into(),
                at_ns: 77,
            },
            Status::Trap("unreachable; at abort".into()),
            Status::Refused("it imports a.b".into()),
            Status::Stale("other version".into()),
        ];
        let text: String = told.iter().map(ToString::to_string).collect();
        assert_eq!(read(&text), told);
        assert_eq!(read("phase x\nnonsense 1\ntrap cut off"), []);
        assert_eq!(Status::Trap("a\nb".into()).to_string(), "trap a; b\n");
    }
}
