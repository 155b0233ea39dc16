//! What programs say of themselves: the last of it, and which line of that tells why they failed.

use std::io::{PipeReader, Read};

/// Takes what is there.
pub(crate) fn take_all(pipe: &mut PipeReader, into: &mut Vec<u8>) {
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = pipe.read(&mut part) {
        into.extend_from_slice(&part[..length]);
    }
}

/// The last of what a program says on each stream.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) errors: Tail,
    pub(crate) output: Tail,
}

impl Said {
    /// Why it failed, as its last words tell.
    pub(crate) fn cause(&self, was_output_heard: bool) -> String {
        let (errors, output) = (self.errors.text(), self.output.text());
        let cause = words_of_cause(&errors).or_else(|| words_of_cause(&output));
        let nothing = match was_output_heard {
            true => SILENT,
            false => "it said nothing on stderr, and its stdout is thrown away",
        };
        cause.unwrap_or_else(|| nothing.to_owned())
    }
}

/// The last of what a program says.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    const MOST_BYTES: usize = 8192;

    /// Takes what is there; it ends when there is no more for now: this process holds the other end.
    pub(crate) fn take_from(&mut self, pipe: &mut PipeReader) {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = pipe.read(&mut part) {
            self.0.extend_from_slice(&part[..length]);
            let surplus = self.0.len().saturating_sub(Self::MOST_BYTES);
            self.0.drain(..surplus);
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// The line of `said` that tells why it failed, cut short: the last one, unless one calls itself an
/// error. Palisade's notes come after what the guest said, and count only where that is nothing.
pub(crate) fn cause_in(said: &str) -> String {
    words_of_cause(said).unwrap_or_else(|| SILENT.to_owned())
}

const SILENT: &str = "it said nothing";

fn words_of_cause(said: &str) -> Option<String> {
    const MOST: usize = 300;
    let lines = said.lines().map(|line| {
        let shown = line.trim().chars().filter(|one| !one.is_control());
        shown.take(MOST).collect::<String>()
    });
    let mut lines = lines.filter(|line| !line.is_empty());
    let error = lines.clone().find(|line| line.starts_with("Error"));
    let is_note = |line: &String| line.starts_with("palisade: note: ");
    let last = lines.clone().rfind(|line| !is_note(line));
    error.or(last).or_else(|| lines.next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_found_among_advice() {
        assert_eq!(
            cause_in("Error: not for you.\nSee the manual.\n\n"),
            "Error: not for you."
        );
        assert_eq!(cause_in("a\nb\n\n"), "b");
        assert_eq!(cause_in("b\npalisade: note: c\n"), "b");
        assert_eq!(cause_in("palisade: note: c\n"), "palisade: note: c");
        assert_eq!(cause_in(" \n"), "it said nothing");
        assert_eq!(cause_in("\x1b[1mloud"), "[1mloud");
        assert_eq!(cause_in("the cause\n\x1b\n"), "the cause");
        assert_eq!(cause_in(&"x".repeat(1000)).len(), 300);
    }
}
