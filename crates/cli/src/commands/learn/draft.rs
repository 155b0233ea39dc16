//! The policy's text.

use super::{
    changes::Changes,
    learned::{ASKED, First, Learned, path_of, value_of},
};
use crate::{
    commands::{
        init::project::{Project, TRUSTED},
        policy_text::{Line, quoted, write_list},
    },
    denial,
    shell::quote,
};
use palisade_policy::{Access, FileGrant, visible};
use palisade_wall::{Denial, Report};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The lists of `[grants]`, in their order.
const KEYS: [&str; 7] = ["read", "write", "exec", "ipc", "env", "listen", "connect"];
/// What is told of in the file at most, of what was not granted.
const MOST_TOLD: usize = 32;
/// A limit on memory is a power of two, and so many times what was used at least.
const HEAD_ROOM: u64 = 2;
const LEAST_MEMORY: u64 = 256 << 20;
const LEAST_MINUTES: u64 = 10;

/// A policy that was learned.
pub(super) struct Draft<'a> {
    pub(super) learned: &'a Learned,
    pub(super) project: &'a Project,
    pub(super) changes: &'a Changes,
    /// The project's.
    pub(super) folder: &'a Path,
    /// Where it will be.
    pub(super) file: &'a Path,
    pub(super) command: &'a [String],
    pub(super) report: &'a Report,
    pub(super) is_proved: bool,
    /// A limit on memory starts on this machine.
    pub(super) holds_memory: bool,
}

impl Draft<'_> {
    /// Whether its paths start at the project's folder.
    fn is_in_project(&self) -> bool {
        self.file.parent() == Some(self.folder)
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

    /// Its lists and their values.
    pub(super) fn values(&self) -> Vec<(&'static str, String)> {
        let of = |key: &'static str| {
            self.lines(key)
                .into_iter()
                .map(move |(value, _)| (key, value))
        };
        let protected = self
            .protected()
            .into_iter()
            .map(|(value, _)| ("protect", value));
        KEYS.iter().copied().flat_map(of).chain(protected).collect()
    }

    fn shown_path(&self, path: &Path) -> String {
        let below = self.is_in_project().then(|| path.strip_prefix(self.folder));
        value_of(match below {
            Some(Ok(below)) if below == Path::new("") => Path::new("."),
            Some(Ok(below)) => below,
            _ => path,
        })
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
            None => "the project".into(),
        };
        let values = self.learned.of(key);
        values
            .map(|(value, first)| (self.shown(key, value), why(first)))
            .collect()
    }

    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.command.iter().map(quote).collect();
        let command = words.join(" ");
        let command = visible(&command);
        let file = match self.is_in_project() {
            true => self.file.file_name().map(PathBuf::from).unwrap_or_default(),
            false => self.file.into(),
        };
        let proof = match self.is_proved {
            true => "the command ended well behind it, in a fresh copy of the project",
            false => "the command was not run behind it as it stands here",
        };
        writeln!(
            f,
            "# What `{command}` needs, by `palisade learn`: {proof}.\n\
             # What is not granted is denied. Names of programs are of whoever was the first.\n#\n\
             #     palisade run --policy {} -- {command}\n",
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
            let path = self.folder.join(below);
            written.iter().any(|written| path.starts_with(written))
                && !self.changes.touch(Path::new(below))
        };
        let own = self.file.strip_prefix(self.folder).ok();
        let own = own.map(|own| (own.to_string_lossy().into_owned(), "this policy"));
        let git = self
            .has_git()
            .then(|| (".git".to_owned(), "what git runs, and its history"));
        let trusted = TRUSTED
            .iter()
            .filter(|trusted| self.project.trusted.contains(trusted));
        let trusted = trusted.map(|trusted| (trusted.path.to_owned(), trusted.why));
        let variables = self
            .project
            .variables
            .iter()
            .map(|name| (name.clone(), "variables, and keys"));
        let all = own.into_iter().chain(git).chain(trusted).chain(variables);
        let held = all.filter(|(below, _)| is_written(below));
        held.map(|(below, why)| (self.shown_path(&self.folder.join(below)), why.to_owned()))
            .collect()
    }

    fn has_git(&self) -> bool {
        let has_git = self.project.tools.iter().any(|tool| tool.name == "git");
        has_git && !self.project.has_git_elsewhere
    }

    fn write_limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = &self.report.usage;
        let minutes = (usage.wall_us / 60_000_000 * 10)
            .max(LEAST_MINUTES)
            .next_multiple_of(LEAST_MINUTES);
        writeln!(f, "\n[limits]")?;
        let peak = usage.peak_domain_bytes.filter(|_| self.holds_memory);
        if let Some(peak) = peak {
            let bytes = (peak * HEAD_ROOM).max(LEAST_MEMORY).next_power_of_two();
            writeln!(f, "memory = \"{}M\"", bytes >> 20)?;
        }
        writeln!(f, "processes = 1024\ntime = \"{minutes}m\"")
    }

    /// What it asked for and did not get, or did without.
    fn write_refused(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.report.denials.iter().filter(|denial| !denial.probe);
        let mut told: Vec<_> = asked.map(refused).collect();
        told.sort();
        told.dedup();
        if told.is_empty() {
            return Ok(());
        }
        let more = told.len().saturating_sub(MOST_TOLD);
        told.truncate(MOST_TOLD);
        let well = match self.report.exit_code {
            0 => ": it did without",
            _ => "",
        };
        writeln!(f, "\n# Asked for and not granted{well}:")?;
        for line in told {
            writeln!(f, "#   {line}")?;
        }
        match more {
            0 => Ok(()),
            more => writeln!(f, "#   and {more} more"),
        }
    }
}

fn refused(denial: &Denial) -> String {
    let reason = denial.reason.as_deref().unwrap_or("no grant covers it");
    let flag = denial.grant.as_deref().map(denial::flag);
    let flag = flag.map_or_else(String::new, |flag| format!(" ({flag})"));
    format!("{}: {}{flag}", visible(&denial.what), visible(reason))
}

impl fmt::Display for Draft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        self.write_grants(f)?;
        self.write_limits(f)?;
        self.write_refused(f)
    }
}
