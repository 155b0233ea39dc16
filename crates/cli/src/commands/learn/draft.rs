//! The policy's text.

use super::{
    changes::Changes,
    ground::Ground,
    learned::{ASKED, First, Learned, path_of},
};
use crate::{
    commands::{
        init::project::{Project, TRUSTED},
        policy_text::{Line, path_value, quoted, write_list},
        why::apply::{PROFILES, Value},
    },
    denial,
    shell::quote,
};
use anyhow::Context;
use palisade_policy::{Access, FileGrant, PolicyLayer, visible};
use palisade_process::places::{Advice, SECRET};
use palisade_wall::{Denial, Report};
use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};
use toml_edit::{DocumentMut, Item};

/// The lists of `[grants]`, in their order.
const KEYS: [&str; 7] = ["read", "write", "exec", "ipc", "env", "listen", "connect"];
/// Said of a policy that is wider than what was seen of the command.
const LOOSE: &str = "\n# Behind less it did not end well: nothing but this policy is protected, there are no limits, and it may hold more than is needed.";
/// What is told of at most, of what was not granted.
const MOST_TOLD: usize = 32;
/// A limit on memory is a power of two, and so many times what was used at least.
const HEAD_ROOM: u64 = 2;
const LEAST_MEMORY: u64 = 256 << 20;
const HEAD_ROOM_OF_PROCESSES: u64 = 4;
const LEAST_PROCESSES: u64 = 1024;
const LEAST_MINUTES: u64 = 10;

/// What all policies of one project and command have in common.
pub(super) struct Frame<'a> {
    pub(super) project: &'a Project,
    pub(super) changes: &'a Changes,
    /// The project's.
    pub(super) folder: &'a Path,
    /// Where it will be.
    pub(super) file: &'a Path,
    /// Of the round that it is learned from.
    pub(super) report: &'a Report,
    /// A limit on memory starts on this machine.
    pub(super) holds_memory: bool,
}

/// A line of `[limits]`.
enum Limit {
    Memory { mebibytes: u64 },
    Processes(u64),
    Time { minutes: u64 },
}

impl Limit {
    /// Whether a policy has a lower one.
    fn is_more_than(&self, policy: &PolicyLayer) -> bool {
        let limits = &policy.limits;
        match self {
            Self::Memory { mebibytes } => limits
                .memory_bytes
                .is_some_and(|bytes| bytes < mebibytes << 20),
            Self::Processes(count) => limits
                .processes
                .is_some_and(|there| u64::from(there) < *count),
            Self::Time { minutes } => {
                let learned = Duration::from_secs(minutes * 60);
                limits.time.is_some_and(|time| time < learned)
            }
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { mebibytes } => write!(f, "memory = \"{mebibytes}M\""),
            Self::Processes(count) => write!(f, "processes = {count}"),
            Self::Time { minutes } => write!(f, "time = \"{minutes}m\""),
        }
    }
}

/// A policy that was learned.
#[derive(Clone, Copy)]
pub(super) struct Draft<'a> {
    pub(super) frame: &'a Frame<'a>,
    pub(super) learned: &'a Learned,
    /// What others trust is protected, and there are limits.
    pub(super) is_strict: bool,
    /// The command has ended well behind it.
    pub(super) is_proved: bool,
}

impl Draft<'_> {
    /// As a round in the copy reads it: what it says, by whole names, and of the copy where that is written or read.
    ///
    /// # Errors
    ///
    /// When it is no policy.
    pub(super) fn for_a_round(&self, ground: &Ground) -> anyhow::Result<String> {
        let text = self.checked()?;
        let base = self.base();
        let unread = || unreadable(&text);
        let mut document: DocumentMut = text.parse().with_context(unread)?;
        for (key, access) in [
            ("read", Some(Access::Read)),
            ("write", Some(Access::Write)),
            ("exec", None),
            ("ipc", None),
            ("protect", None),
        ] {
            let list = document["grants"].get_mut(key);
            let Some(list) = list.and_then(Item::as_array_mut) else {
                continue;
            };
            for value in list.iter_mut() {
                let shown = value.as_str().unwrap_or_default();
                let grant = FileGrant::parse(Access::Write, shown, base).with_context(unread)?;
                let moved = match access {
                    Some(access) => ground.moved(access, &grant.to_string()),
                    None => grant.to_string(),
                };
                *value = moved.into();
            }
        }
        Ok(document.to_string())
    }

    /// Its text, which reads as a policy.
    pub(super) fn checked(&self) -> anyhow::Result<String> {
        let text = self.to_string();
        PolicyLayer::from_toml(&text, "it", self.base()).with_context(|| unreadable(&text))?;
        Ok(text)
    }

    /// Where relative paths in it start.
    fn base(&self) -> &Path {
        self.frame.file.parent().unwrap_or(Path::new("/"))
    }

    /// Whether its paths start at the project's folder.
    fn is_in_project(&self) -> bool {
        self.frame.file.parent() == Some(self.frame.folder)
    }

    /// A value as the file has it.
    fn shown(&self, key: &str, value: &str) -> String {
        if !["read", "write", "exec", "ipc"].contains(&key) {
            return value.into();
        }
        match FileGrant::parse(Access::Write, value, Path::new("/")) {
            Ok(FileGrant {
                host, guest: None, ..
            }) => self.shown_path(&host),
            _ => value.into(),
        }
    }

    /// What its lists hold.
    pub(super) fn values(&self) -> Vec<Value> {
        let value = |key, (text, why)| Value {
            key,
            text,
            why: Some(why),
        };
        let profiles = self.learned.profiles.iter().map(|profile| Value {
            key: PROFILES,
            text: profile.to_string(),
            why: None,
        });
        let of = |key: &'static str| {
            self.lines(key)
                .into_iter()
                .map(move |line| value(key, line))
        };
        let protected = self.protected().into_iter();
        let protected = protected.map(|line| value("protect", line));
        let grants = KEYS.iter().copied().flat_map(of);
        profiles.chain(grants).chain(protected).collect()
    }

    fn shown_path(&self, path: &Path) -> String {
        let below = self
            .is_in_project()
            .then(|| path.strip_prefix(self.frame.folder));
        match below {
            Some(Ok(below)) if below == Path::new("") => ".".into(),
            // By itself that is a home.
            Some(Ok(below)) if below.as_os_str().as_encoded_bytes().starts_with(b"~") => {
                path_value(&Path::new(".").join(below))
            }
            Some(Ok(below)) => path_value(below),
            _ => path_value(path),
        }
    }

    fn lines(&self, key: &str) -> Vec<Line> {
        let verb = match key {
            "read" => "read by",
            "write" => "written by",
            "exec" => "executed by",
            "ipc" => "a socket or FIFO is made in it by",
            "connect" | "listen" => "asked for by",
            _ => "",
        };
        let why = |first: &First| match first {
            Some(name) if name == ASKED => ASKED.into(),
            Some(name) => format!("{verb} {}", visible(name)).trim().to_owned(),
            None => "as in every round".into(),
        };
        let values = self.learned.of(key);
        values
            .map(|(value, first)| (self.shown(key, value), why(first)))
            .collect()
    }

    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.frame.report.command.iter().map(quote).collect();
        let command = words.join(" ");
        let command = visible(&command);
        let file = match self.is_in_project() {
            true => self
                .frame
                .file
                .file_name()
                .map(PathBuf::from)
                .unwrap_or_default(),
            false => self.frame.file.into(),
        };
        let proof = match self.is_proved {
            true => "the command ended well behind it, in a fresh copy of the project",
            false => "the command was not run behind it as it stands here",
        };
        writeln!(
            f,
            "# What `{command}` needs, by `palisade learn`: {proof}.\n\
             # What is not granted is denied. Names of programs are of whoever was the first.{}\n#\n\
             #     palisade run --policy {} -- {command}\n",
            if self.is_strict { "" } else { LOOSE },
            visible(&quote(&file))
        )
    }

    fn write_grants(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.learned.profiles.is_empty() {
            let names = self
                .learned
                .profiles
                .iter()
                .map(|profile| quoted(&profile.to_string()));
            let names: Vec<_> = names.collect();
            writeln!(
                f,
                "# What these tools have installed and fetched, to be read, and their variables.\nprofiles = [{}]\n",
                names.join(", ")
            )?;
        }
        writeln!(f, "[grants]")?;
        for key in KEYS.into_iter().filter(|key| *key != "connect") {
            let lines = self.lines(key);
            if !lines.is_empty() {
                write_list(f, key, &lines)?;
            }
        }
        let protected = self.protected();
        if !protected.is_empty() {
            writeln!(
                f,
                "# To be read only: what somebody else runs or believes later, as far as the command changed none of it."
            )?;
            write_list(f, "protect", &protected)?;
        }
        let connect = self.lines("connect");
        if !connect.is_empty() {
            writeln!(
                f,
                "# It can send whatever it reads wherever it may connect."
            )?;
            write_list(f, "connect", &connect)?;
        }
        Ok(())
    }

    /// In what is written.
    fn protected(&self) -> Vec<Line> {
        let written: Vec<_> = self
            .learned
            .of("write")
            .filter_map(|(value, _)| path_of(value))
            .collect();
        let is_written = |below: &str| {
            let path = self.frame.folder.join(below);
            written.iter().any(|written| path.starts_with(written))
                && !self.frame.changes.touch(Path::new(below))
        };
        let own = self.frame.file.strip_prefix(self.frame.folder).ok();
        let own = own.map(|own| (own.to_string_lossy().into_owned(), "this policy"));
        let git = self
            .has_git()
            .then(|| (".git".to_owned(), "what git runs, and its history"));
        let trusted = TRUSTED
            .iter()
            .filter(|trusted| self.frame.project.trusted.contains(trusted));
        let trusted = trusted.map(|trusted| (trusted.path.to_owned(), trusted.why));
        let variables = self
            .frame
            .project
            .variables
            .iter()
            .map(|name| (name.clone(), "variables, and keys"));
        let trusted = git.into_iter().chain(trusted).chain(variables);
        let all = own.into_iter().chain(trusted.filter(|_| self.is_strict));
        let held = all.filter(|(below, _)| is_written(below));
        held.map(|(below, why)| {
            (
                self.shown_path(&self.frame.folder.join(below)),
                why.to_owned(),
            )
        })
        .collect()
    }

    fn has_git(&self) -> bool {
        let has_git = self
            .frame
            .project
            .tools
            .iter()
            .any(|tool| tool.name == "git");
        has_git && !self.frame.project.has_git_elsewhere
    }

    fn write_limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.limits();
        writeln!(f, "\n[limits]")?;
        for limit in &limits {
            writeln!(f, "{limit}")?;
        }
        Ok(())
    }

    /// With head-room.
    fn limits(&self) -> Vec<Limit> {
        let usage = &self.frame.report.usage;
        let minutes = (usage.wall_us / 60_000_000 * 10)
            .max(LEAST_MINUTES)
            .next_multiple_of(LEAST_MINUTES);
        let peak = usage.peak_domain_bytes.filter(|_| self.frame.holds_memory);
        let memory = peak.map(|peak| {
            let bytes = (peak * HEAD_ROOM).max(LEAST_MEMORY).next_power_of_two();
            Limit::Memory {
                mebibytes: bytes >> 20,
            }
        });
        // Another machine has more processors, and builds more at a time.
        let peak = usage.peak_processes.unwrap_or(0) * HEAD_ROOM_OF_PROCESSES;
        let processes = Limit::Processes(peak.max(LEAST_PROCESSES).next_power_of_two());
        let time = Limit::Time { minutes };
        memory.into_iter().chain([processes, time]).collect()
    }

    /// Those that leave less room than this policy would, of one that is there.
    pub(super) fn narrower(&self, there: &PolicyLayer) -> Vec<String> {
        let limits = self.limits().into_iter();
        limits
            .filter(|limit| limit.is_more_than(there))
            .map(|limit| limit.to_string())
            .collect()
    }

    /// What it did without.
    fn write_refused(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = refused(self.frame.report);
        if told.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n# Asked for and not granted: it did without.")?;
        told.iter().try_for_each(|line| writeln!(f, "#   {line}"))
    }
}

/// What it asked for and did not get, each once.
pub(super) fn refused(report: &Report) -> Vec<String> {
    let asked = report.denials.iter().filter(|denial| !denial.probe);
    let told: BTreeSet<_> = asked.map(refusal).collect();
    let more = told.len().saturating_sub(MOST_TOLD);
    let told = told.into_iter().take(MOST_TOLD);
    told.chain((more > 0).then(|| format!("and {more} more")))
        .collect()
}

fn unreadable(text: &str) -> String {
    format!("wall: what was learned does not read as a policy:\n{text}")
}

fn refusal(denial: &Denial) -> String {
    let reason = denial.reason.as_deref().unwrap_or("no grant covers it");
    let flag = match &denial.grant {
        Some(grant) => format!(" ({})", denial::flag(grant)),
        None => by_hand(denial).map_or_else(String::new, |flag| format!(" (by hand: {flag})")),
    };
    format!("{}: {}{flag}", visible(&denial.what), visible(reason))
}

/// The flag for a single file that is taken for a key, for who knows better. What its user keeps has none, nor has a home or a folder.
fn by_hand(denial: &Denial) -> Option<String> {
    let Advice::Refuse(why) = SECRET else {
        return None;
    };
    let is_key = denial
        .reason
        .as_deref()
        .is_some_and(|reason| reason.contains(why));
    let path = denial.what.strip_prefix("the file ").filter(|_| is_key)?;
    let is_told = visible(path) == path && path.starts_with('/');
    is_told.then(|| denial::flag(&format!("--read {}", path_value(Path::new(path)))))
}

impl fmt::Display for Draft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        self.write_grants(f)?;
        if self.is_strict {
            self.write_limits(f)?;
        }
        self.write_refused(f)
    }
}
