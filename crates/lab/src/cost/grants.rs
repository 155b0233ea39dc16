//! From what was typed to what every contender runs: the program, its arguments and its policy.

use super::Options;
use crate::subjects::{is_wasm, limit_flags, policy_flags};
use palisade::{Domain, Launcher, Plan, View};
use palisade_command_line::{env_files::EnvFiles, workplace::Workplace};
use palisade_policy::{Access, EnvGrant, FileGrant, Policy};
use palisade_process::paths::normalized;
use palisade_wall::Command;
use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Component, Path, PathBuf},
};

/// A command that nobody can run.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no such program.
    #[error("guest: {name} was not found{hint}")]
    NotFound {
        /// As it was typed.
        name: String,
        /// Where it is instead, if it is known.
        hint: String,
    },
    /// It is there, but no program.
    #[error("guest: {name} cannot be executed: {reason}")]
    CannotExecute {
        /// As it was typed.
        name: String,
        /// What it is.
        reason: &'static str,
    },
}

/// What everybody runs.
#[derive(Debug)]
pub(super) struct Task {
    /// Program and arguments as they are run: no path in it means another file in the copy.
    pub(super) command: Command,
    /// A program that ends at once.
    pub(super) ending: Command,
    /// For palisade, which brings variables of its own, and reads files of variables itself. It takes values from its
    /// environment: a command line is for everybody to read.
    pub(super) ours: Policy,
    /// The same, and the variables and folder that palisade would give, for everybody else.
    pub(super) theirs: Policy,
    typed: Command,
    /// The policy as it would be typed.
    recommended: Policy,
    source: PathBuf,
    in_a_copy: bool,
    notes: Vec<String>,
}

impl Task {
    /// Finds the program and grants what the command names.
    pub(super) fn resolve(options: &Options, ending: &Path) -> anyhow::Result<Self> {
        let workplace = &options.workplace;
        let source = workplace.source().to_owned();
        let mut recommended = options.policy.clone();
        recommended.grants.files.push(grant(Access::Write, &source));
        let env_files = EnvFiles::take(&mut recommended.clone())?;
        let plan = plan_of(&env_files.read_into(&recommended), &options.command)?;
        env_files.refuse_in_reach(plan.view())?;
        let program = find_program(&options.command.program, &source, plan.view())?;

        let mut words = Words::new(workplace, plan.view());
        let program_word = words.program(&program);
        let arguments = options.command.arguments.iter();
        let arguments = arguments.map(|word| words.argument(word)).collect();
        let command = Command {
            program: program_word,
            arguments,
        };
        recommended.grants.files.append(&mut words.grants);

        let mut ours = recommended.clone();
        move_grants(&mut ours, workplace);
        if workplace.is_copy() {
            // Scripts may name the folder by its own path.
            ours.grants.files.push(grant(Access::Read, &source));
        }
        ours.grants.files.push(grant(Access::Read, ending));
        let mut theirs = env_files.read_into(&ours);
        let plan = plan_of(&theirs, &command)?;
        theirs.grants.env = environment(plan.view());
        for variable in &mut ours.grants.env {
            variable.value = None;
        }
        let cwd = ours.grants.cwd.clone();
        theirs.grants.cwd = Some(cwd.unwrap_or_else(|| workplace.inside()));
        Ok(Self {
            notes: notes(workplace, &words.pointed, &theirs),
            command,
            ending: Command::new(ending),
            ours,
            theirs,
            typed: options.command.clone(),
            recommended,
            source,
            in_a_copy: workplace.is_copy(),
        })
    }

    /// The program's own name.
    pub(super) fn name(&self) -> String {
        let path = Path::new(&self.typed.program);
        let name = path.file_name().unwrap_or(&self.typed.program);
        name.to_string_lossy().into_owned()
    }

    /// What was granted, and what else is to know of the runs.
    pub(super) fn notes(&self) -> Vec<String> {
        let granted = self.recommended.grants.files.iter().map(|one| {
            let path = shown(&one.guest_path().to_string_lossy(), &self.source);
            match one.access {
                Access::Write if self.in_a_copy && one.host == self.source => {
                    format!("write {path} (each run has a fresh copy, the folder stays as it is)")
                }
                access => format!("{access} {path}"),
            }
        });
        let grants = &self.recommended.grants;
        let connect = grants.connect.iter().map(|one| format!("connect {one}"));
        let listen = grants.listen.iter().map(|one| format!("listen {one}"));
        let granted = granted.chain(connect).chain(listen);
        let granted = granted.collect::<Vec<_>>().join(", ");
        let mut notes = vec![format!("granted: {granted}")];
        let limits = limit_flags(&self.recommended.limits);
        if !limits.is_empty() {
            let limits = limits.iter().map(|word| word.to_string_lossy());
            let limits = limits.collect::<Vec<_>>().join(" ");
            notes.push(format!("limits: {limits}, where a tool knows them"));
        }
        notes.extend(self.notes.iter().cloned());
        notes
    }

    /// The command line of `palisade run` that was measured, in the user's own paths.
    pub(super) fn recommended(&self) -> String {
        let flags = policy_flags(&self.recommended);
        let flags = flags.iter().map(|word| word.to_string_lossy());
        let flags = flags.map(|word| quote(&shown(&word, &self.source)));
        let typed = self.typed.words();
        let words = ["palisade", "run"].into_iter().map(str::to_owned);
        let words = words.chain(flags).chain(["--".to_owned()]);
        let words = words.chain(typed.iter().map(|word| quote(word)));
        words.collect::<Vec<_>>().join(" ")
    }
}

fn plan_of(
    policy: &Policy,
    command: &Command,
) -> anyhow::Result<Box<dyn Plan<Launcher = Launcher>>> {
    let builder = Domain::builder(&command.program).args(&command.arguments);
    Ok(builder.policy(policy.clone()).plan()?)
}

fn grant(access: Access, path: &Path) -> FileGrant {
    FileGrant {
        access,
        host: path.to_owned(),
        guest: None,
    }
}

/// The file that `palisade run` would execute, too.
fn find_program(typed: &OsStr, source: &Path, view: &dyn View) -> Result<PathBuf, CommandError> {
    let name = typed.to_string_lossy().into_owned();
    if typed.as_bytes().contains(&b'/') {
        let path = source.join(typed);
        return match why_not(&path) {
            None => Ok(normalized(&path)),
            Some(Refusal::Missing) => Err(CommandError::NotFound {
                name,
                hint: String::new(),
            }),
            Some(Refusal::Unfit(reason)) => Err(CommandError::CannotExecute { name, reason }),
        };
    }
    let candidates = view.candidates().iter().map(PathBuf::from);
    let candidates = candidates.map(|path| source.join(path));
    let mut fit = candidates.filter(|path| why_not(path).is_none());
    fit.next().ok_or_else(|| CommandError::NotFound {
        hint: hint_for(&name, source),
        name,
    })
}

fn hint_for(name: &str, source: &Path) -> String {
    if source.join(name).exists() {
        return format!(" in a guest's PATH: for the file in this folder write ./{name}");
    }
    match crate::subjects::on_path(name) {
        Some(path) => format!(
            " in a guest's PATH: yours has {}, name it so and grant what it needs",
            path.display()
        ),
        None => ": is it installed?".to_owned(),
    }
}

enum Refusal {
    Missing,
    Unfit(&'static str),
}

fn why_not(path: &Path) -> Option<Refusal> {
    let Ok(data) = fs::metadata(path) else {
        return Some(Refusal::Missing);
    };
    let is_wasm = is_wasm(&Command::new(path));
    if data.is_dir() {
        Some(Refusal::Unfit("it is a folder"))
    } else if data.permissions().mode() & 0o111 == 0 && !is_wasm {
        Some(Refusal::Unfit("it is not marked executable: chmod +x"))
    } else {
        None
    }
}

/// The command's words, and what they make necessary.
struct Words<'a> {
    workplace: &'a Workplace,
    view: &'a dyn View,
    grants: Vec<FileGrant>,
    /// Arguments that are written another way, for they are run in another folder.
    pointed: Vec<(String, String)>,
}

impl<'a> Words<'a> {
    fn new(workplace: &'a Workplace, view: &'a dyn View) -> Self {
        Self {
            workplace,
            view,
            grants: Vec::new(),
            pointed: Vec::new(),
        }
    }

    fn program(&mut self, path: &Path) -> OsString {
        if path.starts_with(self.workplace.source()) {
            // What is writable is not executable without asking.
            self.grants.push(grant(Access::Exec, path));
        } else {
            self.read_if_hidden(path);
        }
        self.workplace.moved(path).into()
    }

    /// `PATH`, or `--flag=PATH`.
    fn argument(&mut self, word: &OsStr) -> OsString {
        let bytes = word.as_bytes();
        let start = match bytes.first() {
            Some(b'-') => bytes.iter().position(|byte| *byte == b'=').map(|at| at + 1),
            Some(_) => Some(0),
            None => None,
        };
        let Some((flag, path)) = start.map(|start| bytes.split_at(start)) else {
            return word.to_owned();
        };
        let mut pointed = OsStr::from_bytes(flag).to_owned();
        pointed.push(self.path(OsStr::from_bytes(path)));
        pointed
    }

    /// Relative paths into the folder mean the same in a copy of it; others are written so that they
    /// mean one file wherever the command runs.
    fn path(&mut self, typed: &OsStr) -> OsString {
        let source = self.workplace.source();
        let path = normalized(&source.join(typed));
        if typed.is_empty() || path.symlink_metadata().is_err() {
            return typed.to_owned();
        }
        let is_inside = path.starts_with(source);
        if !is_inside {
            self.read_if_hidden(&path);
        }
        let typed_path = Path::new(typed);
        let climbs = typed_path
            .components()
            .any(|part| part == Component::ParentDir);
        let means_the_same = match is_inside {
            true => typed_path.is_relative() && !climbs,
            false => typed_path.is_absolute(),
        };
        if means_the_same {
            return typed.to_owned();
        }
        let moved: OsString = self.workplace.moved(&path).into();
        let pair = [typed, &moved].map(|text| text.to_string_lossy().into_owned());
        self.pointed.push(pair.into());
        moved
    }

    fn read_if_hidden(&mut self, path: &Path) {
        // Palisade has these of its own, and `/` is nobody's to grant.
        const NEVER: [&str; 3] = ["/dev", "/proc", "/sys"];
        let is_special = path == Path::new("/") || NEVER.iter().any(|top| path.starts_with(top));
        if !is_special && !self.view.shows(path) {
            self.grants.push(grant(Access::Read, path));
        }
    }
}

/// The policy for the copy.
fn move_grants(policy: &mut Policy, workplace: &Workplace) {
    for file in &mut policy.grants.files {
        file.host = workplace.moved(&file.host);
    }
    if let Some(cwd) = &mut policy.grants.cwd {
        *cwd = workplace.moved(cwd);
    }
}

/// The variables that palisade gives a guest.
fn environment(view: &dyn View) -> Vec<EnvGrant> {
    let texts = view.environment().iter().filter_map(|pair| pair.to_str());
    let pairs = texts.filter_map(|pair| pair.split_once('='));
    let grants = pairs.map(|(name, value)| EnvGrant {
        name: name.to_owned(),
        value: Some(value.to_owned()),
    });
    grants.collect()
}

fn notes(workplace: &Workplace, pointed: &[(String, String)], theirs: &Policy) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(place) = workplace.is_elsewhere() {
        notes.push(format!(
            "copies: in {}, on another disk than the folder (TMPDIR chooses)",
            place.display()
        ));
    }
    let names = theirs.grants.env.iter().map(|one| one.name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    if workplace.left_out() > 0 {
        notes.push(format!(
            "not copied: {} (sockets, FIFOs, devices, or not yours to read)",
            workplace.left_out()
        ));
    }
    let pointed = pointed.iter();
    notes.extend(pointed.map(|(typed, run)| format!("argument: {typed} is given as {run}")));
    notes.push(format!("variables: {names} as palisade sets; empty stdin"));
    notes
}

/// A path of the user's as short as it can be typed.
fn shown(word: &str, source: &Path) -> String {
    let Some(source) = source.to_str() else {
        return word.to_owned();
    };
    match word.strip_prefix(source) {
        Some("") => ".".to_owned(),
        Some(below) => below.strip_prefix('/').unwrap_or(word).to_owned(),
        None => word.to_owned(),
    }
}

fn quote(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), |quoted| quoted.into_owned())
}

#[cfg(test)]
mod tests;
