//! `palisade learn`: a policy for a command, made of what the command turns out to need.
//!
//! ```text
//!  project ──copy──▶ a round: `palisade run --watch` ──report──▶ what it missed ──asked about──▶ the next round
//!                             in a fresh copy                     │ nothing more, or it ended well
//!                                                                 ▼
//!           the file ◀──ended well── a round under it alone ◀── the least policy ◀── what it had, what it changed
//! ```
//!
//! Each round is an ordinary run, behind the whole wall, under the policy as far as it is known: there is nothing that a
//! guest may do while it is learned from and not behind the policy that comes of it, but for one thing: in the copy it may
//! write, execute and make sockets everywhere. What it writes is thrown away.
//!
//! What a guest asked for is its own word, so it is granted only after somebody has said yes; keys and what all users share
//! are not asked about at all ([`palisade_process::places`]). What it changed is seen by comparing the copy, not by its word.

mod changes;
mod draft;
mod ground;
mod learned;
mod secrets;

use super::why::{
    apply::{Terminal, ask},
    remedy::Missed,
};
use crate::{args::LearnArgs, beside, say};
use anyhow::{Context, bail};
use draft::Draft;
use ground::{Ground, Round};
use learned::{Learned, Wish};
use palisade_policy::visible;
use palisade_wall::{Command, Report};
use secrets::Secrets;
use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

/// A command that misses something new each time has this many rounds.
const MOST_ROUNDS: usize = 24;

/// Learns, and writes the policy.
pub(crate) fn learn(args: LearnArgs) -> anyhow::Result<u8> {
    let project = std::env::current_dir()
        .and_then(fs::canonicalize)
        .context("host: cannot tell the working directory")?;
    let looked = super::init::look(&project)?;
    let out = Out::find(&args.out, args.force)?;
    let ground = Ground::new(&project)?;
    let learned = Learned::of_project(&project, &looked, &args);
    say::line(&learned.promise(&ground, &args));
    let mut teacher = Teacher {
        ground,
        agrees_to_files: args.yes,
        agrees_to_network: args.allow_network,
        secrets: Secrets::of_this_machine(),
        command: args.guest.into(),
    };
    let (learned, round) = teacher.find_out(learned)?;
    let changes = teacher.ground.changes()?;
    let least = learned.least(&round.report, &changes);
    let (proved, is_proved) = teacher.prove(learned, least, &round)?;
    let draft = Draft {
        learned: &proved,
        project: &looked,
        changes: &changes,
        folder: &project,
        file: &out.file,
        command: &round.report.command,
        report: &round.report,
        is_proved,
        holds_memory: teacher.ground.counts_memory,
    };
    out.write(&draft.to_string())?;
    tell(&out, &proved, &round, is_proved);
    Ok(round.code())
}

/// Where the policy goes.
struct Out {
    /// By its whole name.
    file: PathBuf,
    replaces: bool,
}

impl Out {
    /// Before anything runs: nobody waits for a build to be told that its policy has no place.
    fn find(file: &Path, replaces: bool) -> anyhow::Result<Self> {
        let shown = visible(&file.to_string_lossy()).into_owned();
        let folder = match file.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let folder = fs::canonicalize(folder)
            .with_context(|| format!("host: cannot find the folder of {shown}"))?;
        let name = file.file_name().context("usage: --out names no file")?;
        let file = folder.join(name);
        if !replaces && file.symlink_metadata().is_ok() {
            bail!("host: {shown} is there already: --force replaces it, --out names another one");
        }
        Ok(Self { file, replaces })
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        let made = match self.replaces {
            true => beside::replace(&self.file, |made| Ok(made.write_all(text.as_bytes())?)),
            false => OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&self.file)
                .and_then(|mut made| made.write_all(text.as_bytes()))
                .map_err(Into::into),
        };
        made.with_context(|| format!("host: cannot write {}", self.file.display()))
    }
}

/// Runs rounds, and asks between them.
struct Teacher {
    ground: Ground,
    agrees_to_files: bool,
    agrees_to_network: bool,
    secrets: Secrets,
    command: Command,
}

impl Teacher {
    /// Until it ends well, or misses nothing that somebody agrees to.
    fn find_out(&mut self, mut learned: Learned) -> anyhow::Result<(Learned, Round)> {
        let mut before: Option<(Learned, Round)> = None;
        for number in 1.. {
            let Some(round) = self.ground.run(&learned, &self.command)? else {
                // A name that nobody knows is no grant.
                let before = before.context("policy: it did not start, for the reason above")?;
                say::line("it did not start with what was granted last, which is left out again");
                return Ok(before);
            };
            let (wishes, kept) = learned.wishes(&round.report, &self.secrets);
            if round.ended_well() {
                return Ok((learned, round));
            }
            leave(&kept, KEPT);
            if wishes.is_empty() || number == MOST_ROUNDS {
                return Ok((learned, round));
            }
            say::line(&format!(
                "round {number} ended with exit code {}: it missed something",
                round.report.exit_code
            ));
            let agreed = self.agreed(wishes)?;
            if agreed.is_empty() {
                return Ok((learned, round));
            }
            before = Some((learned.clone(), round));
            for wish in agreed {
                say::line(&format!("granted from now on: {}", wish.missed.grant()));
                self.ground.copy_if_written(&wish)?;
                learned.add(wish);
            }
            self.ground.refresh()?;
        }
        unreachable!("the last round returns")
    }

    /// Those that may be granted: by the command line, or by somebody who is asked.
    fn agreed(&self, wishes: Vec<Wish>) -> anyhow::Result<Vec<Wish>> {
        let (of_network, of_files): (Vec<_>, Vec<_>) =
            wishes.into_iter().partition(Wish::is_of_network);
        if self.agrees_to_network {
            // It may be sent out then, whatever it is.
            leave(
                of_files.iter().map(Wish::missed),
                "files beside the project go with no --allow-network",
            );
            let (public, others): (Vec<_>, Vec<_>) =
                of_network.into_iter().partition(Wish::is_public);
            leave(
                others.iter().map(Wish::missed),
                "it is not public: --connect and --listen grant it",
            );
            return Ok(public);
        }
        let (mut agreed, open) = match self.agrees_to_files {
            true => (of_files, of_network),
            false => (Vec::new(), of_files.into_iter().chain(of_network).collect()),
        };
        let Ok(terminal) = Terminal::open() else {
            leave(
                open.iter().map(Wish::missed),
                "nobody can be asked without a terminal",
            );
            return Ok(agreed);
        };
        let missed: Vec<_> = open.iter().map(|wish| wish.missed.clone()).collect();
        let question = "grant it, and run it again";
        let wanted = ask(terminal.input, terminal.output, &missed, question)?;
        let is_wanted = |wish: &Wish| wanted.contains(&wish.missed);
        agreed.extend(open.into_iter().filter(is_wanted));
        Ok(agreed)
    }

    /// The least policy, if the command ends well behind it too.
    fn prove(
        &mut self,
        learned: Learned,
        least: Learned,
        round: &Round,
    ) -> anyhow::Result<(Learned, bool)> {
        if !round.ended_by_itself() {
            return Ok((least, false));
        }
        say::line("once more, behind the policy that came of it");
        let with_profiles = least.with_profiles_of(&learned);
        let mut tried: Vec<Learned> = Vec::new();
        for policy in [least, with_profiles, learned] {
            if tried.contains(&policy) {
                continue;
            }
            if !tried.is_empty() {
                say::line(
                    "it needs something that nobody saw: once more, behind a policy with more",
                );
            }
            self.ground.refresh()?;
            let again = self.ground.run(&policy, &self.command)?;
            if again.is_some_and(|again| again.ended_well()) {
                return Ok((policy, true));
            }
            tried.push(policy);
        }
        bail!(
            "guest: it ended well once, and not again behind the same policy: no policy was written"
        )
    }
}

/// Said of a folder.
const KEPT: &str =
    "keys or passwords lie in it, or more than can be looked through: grant what it needs of it";

fn leave<'a>(missed: impl IntoIterator<Item = &'a Missed>, why: &str) {
    for missed in missed {
        say::line(&format!("not granted: {} ({why})", missed.grant()));
    }
}

fn tell(out: &Out, learned: &Learned, round: &Round, is_proved: bool) {
    let file = out.file.display();
    let count = learned.count();
    let proof = match (is_proved, round.ended_well()) {
        (true, _) => "behind it the command ended well in a fresh copy",
        (false, true) => "the command was not run behind it",
        (false, false) => "the command did not end well: what it asked for stands in the file",
    };
    say::line(&format!("wrote {file}: {count} grants; {proof}"));
}

/// What a round says of itself, for the files here.
fn name_of(report: &Report, missed: &Missed) -> Option<String> {
    let mut denials = report.denials.iter();
    let denial = denials.find(|denial| missed.allows(denial))?;
    denial.process.as_ref().map(|process| process.name.clone())
}
