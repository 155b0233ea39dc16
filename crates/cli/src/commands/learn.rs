//! `palisade learn`: a policy for a command, made of what the command turns out to need.
//!
//! ```text
//!  project ──copy──▶ a round: `palisade run --watch` ──report──▶ what it missed ──asked about──▶ the next round
//!                             in a fresh copy                     │ nothing more, or it ended well
//!                                                                 ▼
//!           the file ◀──ended well── a round under it alone ◀── the least policy ◀── what it had, what it changed
//! ```
//!
//! Each round is a run behind the whole wall, under the policy as far as it is known: there is nothing that a
//! guest may do while it is learned from and not behind the policy that comes of it, but for two things. In the copy it may
//! write, execute and make sockets everywhere; what it writes is thrown away. And names that it looks up are found, by addresses that lead
//! nowhere and of which nobody hears, so that what it connects to is known by name; `palisade grant` reaches such a round as it reaches
//! any that can be granted more, and what it grants is not learned.
//!
//! What a guest asked for is its own word, so it is granted only after somebody has said yes; keys and what all users share
//! are not asked about at all ([`palisade_process::places`]). What it changed is seen by comparing the copy, not by its word.

mod changes;
mod checkout;
mod draft;
mod ground;
mod learned;
mod signals;

use super::{
    secrets::Secrets,
    why::{
        apply::{Terminal, ask, merge, new_to},
        remedy::Missed,
    },
};
use crate::{args::LearnArgs, beside, say};
use anyhow::{Context, bail};
use draft::{Draft, Frame};
use ground::{Ground, Kind, Round};
use learned::{Learned, Wish, Written};
use palisade_policy::{PolicyLayer, visible};
use palisade_wall::{Command, Report};
use std::{
    fs,
    io::{BufReader, Write},
    path::{Path, PathBuf},
};

/// A command that misses something new each time has this many rounds.
const MOST_ROUNDS: usize = 24;

/// Learns, and writes the policy.
pub(crate) fn learn(args: LearnArgs) -> anyhow::Result<u8> {
    let project = std::env::current_dir()
        .and_then(fs::canonicalize)
        .context("host: cannot tell the working directory")?;
    if project.to_str().is_none() {
        bail!("usage: the name of this folder is no text, and a policy cannot name it: rename it");
    }
    let looked = super::init::look(&project)?;
    let secrets = Secrets::of_this_machine()?;
    if let Some(why) = secrets.refuse_project(&project) {
        bail!(
            "policy: {} is no project: {why}; go to a folder with only what the command needs",
            project.display()
        );
    }
    let out = Out::find(&args)?;
    let keep = args.keep.as_deref().map(place_to_keep).transpose()?;
    let ground = Ground::new(&project, args.fresh)?;
    let learned = Learned::of_project(&project, &looked, &args);
    say::line(&learned.promise(&ground, &args));
    let mut teacher = Teacher {
        ground,
        agrees_to_files: args.yes,
        agrees_to_network: args.allow_network,
        secrets,
        command: args.guest.into(),
    };
    let (learned, round) = teacher.find_out(learned)?;
    if !round.ended_well() {
        if let Some(folder) = &keep {
            teacher.ground.keep(folder)?;
        }
        tell_what_was_missing(&round.report);
        return Ok(round.report.exit_code);
    }
    let changes = teacher.ground.changes()?;
    let frame = Frame {
        project: &looked,
        changes: &changes,
        folder: &project,
        file: &out.file,
        report: &round.report,
        holds_memory: teacher.ground.counts_memory,
    };
    let policies = teacher.policies(learned, &frame);
    let draft = teacher.prove(&policies, &frame, &round);
    if let Some(folder) = &keep {
        teacher.ground.keep(folder)?;
    }
    let draft = draft?;
    out.put(&draft)?;
    tell(&out, &draft);
    Ok(0)
}

/// Before anything runs: a folder that is not there yet, in one that is.
fn place_to_keep(folder: &Path) -> anyhow::Result<PathBuf> {
    let shown = visible(&folder.to_string_lossy()).into_owned();
    let absolute =
        std::path::absolute(folder).context("host: cannot tell the working directory")?;
    let (Some(around), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        bail!("usage: --keep {shown} is no folder that can be made");
    };
    let around = fs::canonicalize(around)
        .with_context(|| format!("usage: cannot find the folder of --keep {shown}"))?;
    let place = around.join(name);
    match place.symlink_metadata() {
        Ok(_) => {
            bail!("usage: --keep {shown} is there already: it takes a folder that is to be made")
        }
        Err(_) => Ok(place),
    }
}

/// Where the policy goes.
struct Out {
    /// By its whole name.
    file: PathBuf,
    way: Way,
}

/// What becomes of a file that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It stays: there may be none.
    New,
    Replace,
    Merge,
    /// It stays, and what it lacks is printed.
    Compare,
}

impl Out {
    /// Before anything runs: nobody waits for a build to be told that its policy has no place.
    fn find(args: &LearnArgs) -> anyhow::Result<Self> {
        let way = match (args.force, args.merge, args.diff) {
            (true, _, _) => Way::Replace,
            (_, true, _) => Way::Merge,
            (_, _, true) => Way::Compare,
            _ => Way::New,
        };
        let shown = visible(&args.out.to_string_lossy()).into_owned();
        let folder = match args.out.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let folder = fs::canonicalize(folder)
            .with_context(|| format!("host: cannot find the folder of {shown}"))?;
        let name = args.out.file_name().context("usage: --out names no file")?;
        let file = folder.join(name);
        // What is edited is what a link leads to, as `palisade why --apply` does it.
        let file = match way {
            Way::Merge | Way::Compare => {
                fs::canonicalize(&file).with_context(|| format!("usage: cannot read {shown}"))?
            }
            Way::New | Way::Replace => file,
        };
        match way {
            Way::New if file.symlink_metadata().is_ok() => bail!(
                "host: {shown} is there already: --force replaces it, --merge adds to it, --diff compares, --out names another one"
            ),
            Way::Merge | Way::Compare => drop(new_to(&file, &[])?),
            Way::New | Way::Replace => {}
        }
        Ok(Self { file, way })
    }

    fn put(&self, draft: &Draft<'_>) -> anyhow::Result<()> {
        let text = draft.checked()?;
        let made = match self.way {
            Way::Replace => {
                beside::replace(&self.file, |made| Ok(made.write_all(text.as_bytes())?))
            }
            Way::New => beside::make_new(&self.file, &text).map_err(Into::into),
            Way::Merge => {
                merge(&self.file, &draft.values())?;
                return self.tell_limits(draft);
            }
            Way::Compare => {
                self.compare(draft)?;
                return self.tell_limits(draft);
            }
        };
        made.with_context(|| format!("host: cannot write {}", self.file.display()))
    }

    /// A limit is nobody's grant: who has set one raises it.
    fn tell_limits(&self, draft: &Draft<'_>) -> anyhow::Result<()> {
        let (text, _) = new_to(&self.file, &[])?;
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        let there = PolicyLayer::from_toml(&text, "it", folder).context("policy: it is none")?;
        for limit in draft.narrower(&there) {
            say::line(&format!(
                "its [limits] leave less room than this command would be given: {limit}"
            ));
        }
        Ok(())
    }

    fn compare(&self, draft: &Draft<'_>) -> anyhow::Result<()> {
        let (_, new) = new_to(&self.file, &draft.values())?;
        let lines = new.iter().map(|value| format!("+ {value}\n"));
        say::print(&lines.collect::<String>(), "what it lacks").map(drop)
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
        if let Some(program) = learned.put_program(&self.command.program, &self.secrets) {
            say::line(&format!(
                "granted, for it is the command: --read {}",
                visible(&program.to_string_lossy())
            ));
        }
        for number in 1.. {
            self.check(&learned)?;
            let text = learned.for_a_round(&self.ground);
            let round = self.ground.run(&text, &self.command, Kind::ToLearn)?;
            let Some(round) = round else {
                // A name that nobody knows is no grant.
                let before = before.context(
                    "guest: it did not start, for the reason above: nothing was learned",
                )?;
                say::line("it did not start with what was granted last, which is left out again");
                return Ok(before);
            };
            self.secrets.begin_round();
            let (wishes, kept) =
                learned.wishes(&round.report, &self.command.arguments, &self.secrets);
            if round.ended_well() {
                // It had names found for it that will not be found behind the policy.
                if looks_names_up(&round.report) && self.ground.find_no_names() {
                    say::line("once more, without names being found that nothing is connected to");
                    self.ground.refresh()?;
                    continue;
                }
                return Ok((learned, round));
            }
            for (missed, why) in &kept {
                leave([missed], why);
            }
            if number == MOST_ROUNDS {
                return Ok((learned, round));
            }
            let mut agreed = Vec::new();
            if !wishes.is_empty() {
                say::line(&format!(
                    "round {number} ended with exit code {}: it missed something",
                    round.report.exit_code
                ));
                agreed = self.agreed(wishes)?;
            }
            let known = learned.clone();
            let fetches = self.agrees_to_network || learned.connects();
            // The last that can be tried: what its user has fetched is out of its sight then.
            let caches = match agreed.is_empty() && fetches {
                true => learned.give_caches(&round.report),
                false => Vec::new(),
            };
            if agreed.is_empty() && caches.is_empty() {
                return Ok((learned, round));
            }
            for variable in caches {
                say::line(&format!(
                    "granted from now on: --env {variable} (it fetches something, and may not write where you keep that)"
                ));
            }
            before = Some((known, round));
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
        let typed = (self.ground.signals).while_reading(terminal.input.get_ref());
        let wanted = ask(BufReader::new(typed), &terminal.output, &missed, question)?;
        let is_wanted = |wish: &Wish| wanted.contains(&wish.missed);
        agreed.extend(open.into_iter().filter(is_wanted));
        Ok(agreed)
    }

    /// From the least to the most that may come of it, each with whether it is strict.
    fn policies(&self, learned: Learned, frame: &Frame<'_>) -> Vec<(Learned, bool)> {
        let least = |written| learned.least(frame.report, frame.changes, written);
        let [changed, named] = [Written::Changed, Written::Named].map(least);
        let with_profiles = changed.with_profiles_of(&learned);
        let named = named.with_profiles_of(&learned);
        let mut policies = vec![
            (changed, true),
            (with_profiles, true),
            (named.clone(), true),
            (named, false),
            (learned, false),
        ];
        policies.dedup();
        policies
    }

    /// The first behind which the command ends well again. Where nobody would want that, the one that holds all that it named.
    fn prove<'a>(
        &mut self,
        policies: &'a [(Learned, bool)],
        frame: &'a Frame<'a>,
        round: &Round,
    ) -> anyhow::Result<Draft<'a>> {
        let draft = |(learned, is_strict): &'a (Learned, bool)| Draft {
            frame,
            learned,
            is_strict: *is_strict,
            is_proved: true,
        };
        let unproved = || {
            let named = policies.iter().rfind(|(_, is_strict)| *is_strict);
            Draft {
                is_proved: false,
                ..draft(named.unwrap_or(&policies[0]))
            }
        };
        if !round.ended_by_itself() {
            return Ok(unproved());
        }
        for (number, policy) in policies.iter().enumerate() {
            say::line(match number {
                0 => "once more, behind the policy that came of it",
                _ => "it did not end well behind that: once more, behind one with more",
            });
            self.ground.refresh()?;
            self.check(&policy.0)?;
            let text = draft(policy).for_a_round(&self.ground)?;
            match self.ground.run(&text, &self.command, Kind::ToProve)? {
                Some(again) if again.ended_by_itself() => return Ok(draft(policy)),
                Some(again) if again.ended_well() => return Ok(unproved()),
                _ => {}
            }
        }
        bail!(
            "guest: it ended well once, and not again behind the same policy: no policy was written"
        )
    }

    /// What was agreed to is still what it was.
    fn check(&self, learned: &Learned) -> anyhow::Result<()> {
        self.secrets.begin_round();
        for path in learned.beside() {
            if let Some(why) = self.secrets.in_way(&path) {
                bail!(
                    "host: {} is not what it was when it was granted: {why}; no policy was written",
                    path.display()
                );
            }
        }
        Ok(())
    }
}

/// Whether names were looked up, and nothing was connected to.
fn looks_names_up(report: &Report) -> bool {
    let mut denials = report.denials.iter();
    denials.any(|denial| denial.call.is_none() && denial.what.starts_with("the name "))
}

fn leave<'a>(missed: impl IntoIterator<Item = &'a Missed>, why: &str) {
    for missed in missed {
        say::line(&format!("not granted: {} ({why})", missed.grant()));
    }
}

fn tell(out: &Out, draft: &Draft<'_>) {
    let verb = match out.way {
        Way::New | Way::Replace => "wrote",
        Way::Merge => "merged into",
        Way::Compare => "compared with",
    };
    let file = out.file.display();
    let count = draft.learned.count();
    let proof = match draft.is_proved {
        true if out.way == Way::Merge => {
            "behind these alone the command ended well in a fresh copy"
        }
        true => "behind it the command ended well in a fresh copy",
        false => "the command was not run behind it",
    };
    let plural = if count == 1 { "" } else { "s" };
    say::line(&format!("{verb} {file}: {count} grant{plural}; {proof}"));
}

/// Of a command that does not end well nobody can say what it needs.
fn tell_what_was_missing(report: &Report) {
    for line in draft::refused(report) {
        say::line(&format!("asked for and not granted: {line}"));
    }
    say::line(&format!(
        "no policy was written: the command did not end well (exit code {})",
        report.exit_code
    ));
}

/// What a round says of itself, for the files here.
fn name_of(report: &Report, missed: &Missed) -> Option<String> {
    let mut denials = report.denials.iter();
    let denial = denials.find(|denial| missed.allows(denial))?;
    denial.process.as_ref().map(|process| process.name.clone())
}
