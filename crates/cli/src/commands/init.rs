//! `palisade init`: a policy to start from, made of what lies in a project's folder.
//!
//! ```text
//!  names in the folder ──Project──▶ tools, what others trust ──Draft──▶ policy.toml
//! ```
//!
//! Only names are looked at, and only such as stand in the tables here get into the file, with a few of `.env.NAME`:
//! whoever wrote the project does not write its policy. Settings that somebody names (`--from`) get into it too: told is
//! how many, and each stands there with its origin.

mod draft;
pub(super) mod project;
mod settings;
mod tool;

use crate::{args::InitArgs, beside, say, shell::quote};
use anyhow::{Context, anyhow, bail};
use draft::Draft;
use palisade_policy::visible;
use palisade_process::{
    Machine,
    cgroup::{self, Need},
};
use project::{Project, Unfit};
use settings::Settings;
use std::{
    fs,
    io::{self, Write},
    path::Path,
};

/// The policy's name where none is given.
const FILE: &str = "policy.toml";

/// Writes the policy.
pub(crate) fn init(args: &InitArgs) -> anyhow::Result<u8> {
    let folder = fs::canonicalize(&args.folder)
        .with_context(|| format!("host: cannot look at {}", args.folder.display()))?;
    let project = look(&folder)?;
    let settings = args.from.as_deref();
    let settings = settings
        .map(|file| Settings::read(file, &folder))
        .transpose()?;
    let draft = Draft {
        project: &project,
        file: FILE,
        is_for_agent: args.agent || settings.is_some(),
        holds_memory: holds_memory(),
        settings: settings.as_ref(),
    };
    if args.print {
        return say::print(&draft.to_string(), "the policy");
    }
    let file = folder.join(FILE);
    write(&file, &draft.to_string(), args.force)?;
    tell(&args.folder, &project, &draft);
    Ok(0)
}

/// What lies in a project's folder.
///
/// # Errors
///
/// When it cannot be listed, or is none that a policy is written for.
pub(super) fn look(folder: &Path) -> anyhow::Result<Project> {
    let looked = Project::look(folder);
    let looked = looked.with_context(|| format!("host: cannot list {}", folder.display()))?;
    looked.map_err(|unfit| refusal(folder, unfit))
}

fn refusal(folder: &Path, unfit: Unfit) -> anyhow::Error {
    let folder = folder.display();
    match unfit {
        Unfit::Home => anyhow!(
            "policy: {folder} is no project but a home: a guest that may write there may change what your shell starts; go to \
             the project's folder, or name it"
        ),
        Unfit::OfAnother => anyhow!(
            "host: {folder} is another user's, who could put another policy in its place: write it as that user, or use your \
             own copy"
        ),
        Unfit::OfEverybody => anyhow!(
            "host: everybody may write to {folder}, and put another policy in its place: chmod o-w it, or use a copy"
        ),
    }
}

/// Whether a limit on memory starts here. A policy that is refused on the spot is no beginning.
pub(super) fn holds_memory() -> bool {
    let need = Need {
        memory_bytes: Some(1 << 30),
        ..Need::default()
    };
    let machine = Machine::probe();
    let survey = machine.cgroups();
    survey.is_ok_and(|survey| cgroup::plan(&need, survey).is_ok())
}

/// Makes the file. A link at its place is neither followed nor replaced unasked.
fn write(file: &Path, text: &str, is_forced: bool) -> anyhow::Result<()> {
    if !is_forced {
        return match beside::make_new(file, text) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(
                "host: {} is there already: --force replaces it, --print shows what would be written",
                file.display()
            ),
            made => made.with_context(|| format!("host: cannot write {}", file.display())),
        };
    }
    beside::replace(file, |made| Ok(made.write_all(text.as_bytes())?))
        .with_context(|| format!("host: cannot write {}", file.display()))
}

fn tell(folder: &Path, project: &Project, draft: &Draft<'_>) {
    let found: Vec<_> = project.tools.iter().map(|tool| tool.name).collect();
    let found = match found.is_empty() {
        true => String::new(),
        false => format!(", for {}", found.join(", ")),
    };
    let file = folder.join(FILE);
    let file = file.strip_prefix(".").unwrap_or(&file);
    let go = match folder == Path::new(".") {
        true => String::new(),
        false => format!("cd {} && ", quote(folder)),
    };
    say::line(&format!(
        "wrote {}{found}",
        visible(&file.to_string_lossy())
    ));
    if let Some(settings) = draft.settings {
        let grants = settings.write.len() + settings.read.len() + settings.connect.len();
        say::line(&format!(
            "of {}'s settings: {grants} granted, {} protected, {} hidden, {} left out, each told in the file: read it first, above all if \
             the settings came with the project",
            settings.of,
            settings.protect.len(),
            settings.hide.len(),
            settings.left.len()
        ));
    }
    say::line(&format!("next: {go}{}", draft.example()));
}
