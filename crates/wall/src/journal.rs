//! What happens to a guest while it runs, for who looks on: JSON lines.
//!
//! Nobody waits for a reader: what he does not take in time is lost, and counted.

use crate::{Ending, Exit, Process, ask::Verdict};
use palisade_policy::visible_json;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::FileType,
    io::Errno,
    net::SendFlags,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A guest decides how much happens: a file gets no longer than this.
const MOST_FILE_BYTES: u64 = 64 << 20;
/// And so much of it is kept for what is not a verdict: those that many calls make.
const KEPT_BYTES: u64 = 1 << 20;
/// How long the end waits for a reader.
const PATIENCE: Duration = Duration::from_secs(1);

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// When, in µs after the journal was begun.
    pub at_us: u64,
    /// What.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Entry {
    /// The guest runs.
    Start {
        /// When, in µs of the Unix epoch.
        time_us: u64,
        /// The domain's id, as `palisade ps` has it.
        id: u32,
        /// The wall's name.
        wall: String,
        /// The command, word by word.
        command: Vec<String>,
    },
    /// A call was allowed or denied.
    Verdict {
        /// Whether it was.
        verdict: Judgement,
        /// The call's name.
        call: String,
        /// What it was about: `tcp://192.0.2.1:443`, or a path.
        target: String,
        /// Who made it. Of a file only the number of the thread is known.
        process: Process,
        /// Why it was denied.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The flag that would have allowed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<String>,
        /// Nothing was lost by it: a lookup's look at routes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        probe: bool,
        /// So many of them, where they are told together.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    },
    /// The guest was granted something.
    Granted {
        /// The flag that says the same.
        grant: String,
        /// Who was waiting for it, where it was asked about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<Process>,
        /// How that was answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Verdict>,
    },
    /// Something that was granted was taken back.
    Revoked {
        /// The flag that says the same.
        grant: String,
    },
    /// The guest has used up what it was allowed.
    Limit {
        /// The limit's flag: `--memory`.
        limit: String,
    },
    /// The guest has ended.
    End {
        /// Its own end.
        exit: Exit,
        /// Who or what brought it about.
        ending: Ending,
        /// The exit code that palisade answers with.
        exit_code: u8,
    },
    /// Nobody read so many lines in time, or the file has no more room for them.
    Lost {
        /// How many.
        count: u64,
    },
}

/// A verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// It may go on; what becomes of it is told to the guest alone.
    Allow,
    /// It was refused.
    Deny,
}

fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_one(count: &u64) -> bool {
    *count == 1
}

/// Writes lines to a file, a FIFO or a socket, or tells somebody in this process. May be shared by threads.
pub struct Journal {
    to: To,
    begun: Instant,
    state: Mutex<State>,
}

enum To {
    File(OwnedFd, Kind),
    Hearer(Box<Hears>),
}

/// Is told what happens, by any thread, and must not wait.
type Hears = dyn Fn(Entry) + Send + Sync;

impl std::fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Journal").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Socket,
    Pipe,
}

#[derive(Debug, Default)]
struct State {
    /// Of a line that was taken in part.
    rest: Vec<u8>,
    written_bytes: u64,
    lost: u64,
    lost_in_all: u64,
    is_broken: bool,
}

impl Journal {
    /// Writes to what is open for that.
    ///
    /// # Errors
    ///
    /// When it is none of these.
    pub fn to(to: OwnedFd) -> io::Result<Self> {
        let kind = match FileType::from_raw_mode(rustix::fs::fstat(&to)?.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Socket => Kind::Socket,
            _ => Kind::Pipe,
        };
        // A file never has its writer wait for a reader.
        if kind != Kind::File {
            rustix::io::ioctl_fionbio(&to, true)?;
        }
        Ok(Self::new(To::File(to, kind)))
    }

    /// Tells somebody of all but what was allowed, who loses nothing.
    pub fn heard_by(hears: impl Fn(Entry) + Send + Sync + 'static) -> Self {
        Self::new(To::Hearer(Box::new(hears)))
    }

    fn new(to: To) -> Self {
        Self {
            to,
            begun: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// Whether allowed calls are told of: each takes longer then.
    pub fn hears_allowed(&self) -> bool {
        matches!(self.to, To::File(..))
    }

    fn is_file(&self) -> bool {
        matches!(self.to, To::File(_, Kind::File))
    }

    /// Writes one, without waiting.
    pub fn write(&self, entry: Entry) {
        if let To::Hearer(hears) = &self.to {
            return hears(entry);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.push_rest(&mut state);
        let is_verdict = matches!(entry, Entry::Verdict { .. });
        let is_full =
            self.is_file() && is_verdict && state.written_bytes >= MOST_FILE_BYTES - KEPT_BYTES;
        if !is_full {
            self.tell_of_lost(&mut state);
        }
        if is_full || state.lost > 0 || !self.push(&mut state, entry) {
            state.lost += 1;
            state.lost_in_all += 1;
        }
    }

    fn tell_of_lost(&self, state: &mut State) {
        if state.lost > 0 && self.push(state, Entry::Lost { count: state.lost }) {
            state.lost = 0;
        }
    }

    /// Waits a little for a reader to take the rest; tells how many lines were lost.
    pub fn finish(&self) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            self.push_rest(&mut state);
            self.tell_of_lost(&mut state);
            let is_done = state.rest.is_empty() && state.lost == 0;
            let left = deadline.saturating_duration_since(Instant::now());
            if is_done || state.is_broken || self.is_file() || left.is_zero() {
                // Of a line that was taken in part nobody has the rest.
                let cut = u64::from(!state.rest.is_empty());
                return state.lost_in_all + cut;
            }
            let left = Timespec::try_from(left).ok();
            if let To::File(to, _) = &self.to {
                let mut fds = [PollFd::new(to, PollFlags::OUT)];
                let _ = rustix::event::poll(&mut fds, left.as_ref());
            }
        }
    }

    fn push_rest(&self, state: &mut State) {
        if !state.rest.is_empty() && !state.is_broken {
            let taken = self.give(&state.rest).unwrap_or_else(|()| {
                state.is_broken = true;
                0
            });
            state.rest.drain(..taken);
        }
    }

    /// `false` where nothing of it was taken.
    fn push(&self, state: &mut State, entry: Entry) -> bool {
        let at_us = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let Ok(line) = serde_json::to_string(&Line { at_us, entry }) else {
            return false;
        };
        // A path may have what a terminal acts on.
        let mut line = visible_json(&line).into_owned().into_bytes();
        line.push(b'\n');
        let is_full = self.is_file()
            && state.written_bytes.saturating_add(line.len() as u64) > MOST_FILE_BYTES;
        if is_full || state.is_broken || !state.rest.is_empty() {
            return false;
        }
        match self.give(&line) {
            Ok(0) => false,
            Ok(taken) => {
                state.written_bytes += taken as u64;
                state.rest = line.split_off(taken);
                true
            }
            Err(()) => {
                state.is_broken = true;
                false
            }
        }
    }

    /// How much of it was taken; an error where nothing ever will be.
    fn give(&self, bytes: &[u8]) -> Result<usize, ()> {
        let given = match &self.to {
            To::File(to, Kind::Socket) => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                rustix::net::send(to.as_fd(), bytes, flags)
            }
            To::File(to, Kind::File | Kind::Pipe) => rustix::io::write(to, bytes),
            To::Hearer(_) => Ok(bytes.len()),
        };
        match given {
            Ok(taken) => Ok(taken),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(_) => Err(()),
        }
    }
}

/// The JSON schema of [`Line`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Line).to_value()
}

impl Entry {
    /// In words, where no other line says it.
    pub fn describe(&self) -> String {
        match self {
            Self::Start { command, .. } => format!("started: {}", command.join(" ")),
            Self::Verdict {
                verdict,
                call,
                target,
                process,
                reason,
                grant,
                count,
                ..
            } => {
                let verb = match verdict {
                    Judgement::Allow => "allowed",
                    Judgement::Deny => "denied",
                };
                let mut text = format!("{verb}: {call} {target}");
                if !process.name.is_empty() {
                    text += &format!(" ({})", process.name);
                }
                if *count > 1 {
                    text += &format!(", {count} times");
                }
                for more in [reason, grant].into_iter().flatten() {
                    text += &format!(": {more}");
                }
                text
            }
            Self::Granted { grant, .. } => format!("granted: {grant}"),
            Self::Revoked { grant } => format!("taken back: {grant}"),
            Self::Limit { limit } => format!("it has used up {limit}"),
            Self::End { exit, .. } => format!("ended with {exit}"),
            Self::Lost { count } => format!("{count} events were lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::{BufRead, BufReader, Read, Seek};

    fn denied(index: u64) -> Entry {
        Entry::Verdict {
            verdict: Judgement::Deny,
            call: "connect".into(),
            target: "x".repeat(index as usize % 400),
            process: Process::new(7, b"a\n"),
            reason: None,
            grant: None,
            probe: false,
            count: 1,
        }
    }

    fn lines(text: &str) -> Vec<Line> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_file_has_each_as_a_line() {
        let file = tempfile::tempfile().unwrap();
        let journal = Journal::to(file.try_clone().unwrap().into()).unwrap();
        let end = Entry::End {
            exit: Exit::Code(3),
            ending: Ending::Guest,
            exit_code: 3,
        };
        journal.write(denied(0));
        journal.write(end.clone());
        assert_eq!(journal.finish(), 0);
        let mut text = String::new();
        { &file }.rewind().unwrap();
        { &file }.read_to_string(&mut text).unwrap();
        let entries: Vec<_> = lines(&text).into_iter().map(|line| line.entry).collect();
        assert_eq!(entries, [denied(0), end]);
    }

    #[test]
    fn what_a_slow_reader_misses_is_counted_and_each_line_is_whole() {
        const MANY: u64 = 20_000;
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let (reader, writer) = socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        let journal = Journal::to(writer).unwrap();
        let mut reader = BufReader::new(std::os::unix::net::UnixStream::from(reader));
        let mut told = Vec::new();
        for index in 0..MANY {
            journal.write(denied(index));
            if index == MANY / 2 {
                for _ in 0..50 {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    told.extend(lines(&line));
                }
            }
        }
        let rest = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            (told, text)
        });
        let lost = journal.finish();
        drop(journal);
        let (mut told, text) = rest.join().unwrap();
        told.extend(lines(&text));
        let counts = told.iter().map(|line| match line.entry {
            Entry::Lost { count } => (0, count),
            _ => (1, 0),
        });
        let (read, counted) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert!(lost > 0);
        assert_eq!((read + counted, counted), (MANY, lost));
    }

    #[test]
    fn nobody_waits_for_one_who_has_gone() {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let (reader, writer) = socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        let journal = Journal::to(writer).unwrap();
        drop(reader);
        journal.write(denied(0));
        journal.write(denied(1));
        assert_eq!(journal.finish(), 2);
    }
}
