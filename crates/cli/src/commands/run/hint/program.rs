//! A program that a guest does not find by its name, and where the host has it.

use super::{home, kept, variable};
use crate::shell;
use palisade_command_line::read;
use palisade_policy::visible;
use palisade_process::{Host, ThisHost, places::Advice};
use palisade_wall::{Surroundings, View};
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Where the host finds a program of this name, and which flags let the guest find it too.
pub(super) fn describe(
    name: &OsStr,
    view: &dyn View,
    surroundings: &Surroundings,
) -> Option<String> {
    if name.as_bytes().contains(&b'/') {
        return None;
    }
    let Some(program) = find_in_path(name, surroundings) else {
        return describe_in_cwd(name, view, surroundings);
    };
    let Some(toolchain) = find_toolchain_program(&program, view, surroundings) else {
        return describe_program(name, &program, None, view, surroundings);
    };
    describe_program(name, &program, Some(&toolchain), view, surroundings)
}

/// A program of the host's.
struct Program {
    /// Where PATH leads.
    path: PathBuf,
    /// The same without links.
    canonical: PathBuf,
}

impl Program {
    fn at(path: PathBuf) -> Option<Self> {
        let found = ThisHost.find(&path).ok()?;
        let is_program = found.kind == palisade_process::Kind::File && found.mode & 0o111 != 0;
        is_program.then_some(Self {
            path,
            canonical: found.canonical,
        })
    }
}

fn find_in_path(name: &OsStr, surroundings: &Surroundings) -> Option<Program> {
    let folders = std::env::split_paths(variable(surroundings, "PATH")?);
    let mut folders = folders.filter(|folder| folder.is_absolute());
    folders.find_map(|folder| Program::at(folder.join(name)))
}

/// A shell does not look into the present folder, and neither does palisade.
fn describe_in_cwd(name: &OsStr, view: &dyn View, surroundings: &Surroundings) -> Option<String> {
    let cwd = surroundings.cwd.as_deref()?;
    let program = Program::at(cwd.join(name))?;
    let mut word = std::ffi::OsString::from("./");
    word.push(name);
    let shown = shell::quote(&word);
    let is_seen = view.shows(&program.path) && view.cwd() == cwd;
    let flag = match is_seen {
        true => String::new(),
        false => format!(", and add {}", shell::read_flag(&word, cwd)?),
    };
    Some(format!(
        "'{}' lies in this folder, where PATH does not lead: write {shown}{flag}",
        visible(&name.to_string_lossy())
    ))
}

fn describe_program(
    name: &OsStr,
    program: &Program,
    toolchain: Option<&Program>,
    view: &dyn View,
    surroundings: &Surroundings,
) -> Option<String> {
    let lies = toolchain.unwrap_or(program);
    let roots = match find_roots(lies, view, surroundings) {
        Ok(roots) => roots,
        Err(why) => {
            return Some(format!(
                "'{}' is {} on the host, which is not granted, and no flag is advised: {why}",
                visible(&name.to_string_lossy()),
                shown(&lies.path)
            ));
        }
    };
    let flags = roots
        .iter()
        .map(|root| shell::read_flag(root.as_os_str(), Path::new("/")))
        .collect::<Option<Vec<_>>>()?;
    let is_tried = view
        .candidates()
        .iter()
        .any(|path| lies.path == Path::new(path));
    let path_flag = match (is_tried, toolchain) {
        (true, _) => None,
        (false, None) => Some("--env PATH".to_owned()),
        (false, Some(toolchain)) => Some(prepend_to_path(toolchain.path.parent()?)),
    };
    let is_seen = flags.is_empty();
    let flags: Vec<String> = flags.into_iter().chain(path_flag).collect();
    if flags.is_empty() {
        return None;
    }
    let what = match is_seen {
        true => "where the guest's PATH does not lead",
        false => "which is not granted",
    };
    Some(format!(
        "'{}' is {} on the host, {what}: {}",
        visible(&name.to_string_lossy()),
        shown(&lies.path),
        flags.join(" ")
    ))
}

fn shown(path: &Path) -> String {
    visible(&path.to_string_lossy()).into_owned()
}

/// The host's PATH with a folder before it, for a shell to put together.
fn prepend_to_path(folder: &Path) -> String {
    format!("--env PATH={}:\"$PATH\"", shell::quote(folder))
}

/// What a guest must see to run a program: the folder that it was installed to, if that holds nothing else, or the
/// file. Nothing, where it sees that already.
fn find_roots(
    program: &Program,
    view: &dyn View,
    surroundings: &Surroundings,
) -> Result<Vec<PathBuf>, &'static str> {
    let kept = kept(surroundings);
    let is_safe = |path: &Path| {
        let found = ThisHost.find(path);
        found.is_ok_and(|found| kept.judge(&found) == Advice::Grant)
    };
    let is_seen = |path: &Path| view.shows(path);
    let root_of = |path: &Path| {
        root_of(path)
            .filter(|root| is_safe(root))
            .map(Path::to_owned)
    };
    let holds_all = |root: &PathBuf| program.canonical.starts_with(root);
    if is_seen(&program.path) && is_seen(&program.canonical) {
        return Ok(Vec::new());
    }
    if let Some(root) = root_of(&program.path).filter(holds_all) {
        return Ok(vec![root]);
    }
    if !is_safe(&program.path) {
        return Err("it lies among what is private");
    }
    let file =
        Some(program.path.clone()).filter(|path| !is_seen(path) || !is_seen(&program.canonical));
    let target = root_of(&program.canonical).filter(|root| !is_seen(root));
    Ok(file.into_iter().chain(target).collect())
}

/// The folder with what a program was installed with: what lies around its `bin`.
fn root_of(program: &Path) -> Option<&Path> {
    let folder = program.parent()?;
    let is_known = ["bin", "sbin", "shims", "libexec"]
        .iter()
        .any(|name| folder.file_name() == Some(OsStr::new(name)));
    folder.parent().filter(|_| is_known)
}

/// rustup puts itself in the place of each program of a toolchain, and would need its whole home, and to write there:
/// the program that it would start.
fn find_toolchain_program(
    program: &Program,
    view: &dyn View,
    surroundings: &Surroundings,
) -> Option<Program> {
    const MOST_SETTINGS_BYTES: u64 = 64 << 10;
    let rustup = program.path.parent()?.join("rustup");
    let identify = |path: &Path| ThisHost.find(path).ok().map(|found| found.identity);
    if identify(&rustup)? != identify(&program.path)? {
        return None;
    }
    let rustup_home = match variable(surroundings, "RUSTUP_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => home(surroundings)?.join(".rustup"),
    };
    let settings = || {
        if view.can_change(&rustup_home) {
            return None;
        }
        let bytes =
            read::read_regular_file(&rustup_home.join("settings.toml"), MOST_SETTINGS_BYTES);
        let text = read::text_of(bytes.ok()?).ok()?;
        let settings = toml::de::DeTable::parse(&text).ok()?;
        let name = settings.get_ref().get("default_toolchain")?.get_ref();
        Some(name.as_str()?.to_owned())
    };
    let chosen = variable(surroundings, "RUSTUP_TOOLCHAIN");
    let toolchain =
        chosen.map_or_else(|| settings().map(Into::into), |name| Some(name.to_owned()))?;
    let folder = rustup_home.join("toolchains").join(toolchain);
    Program::at(folder.join("bin").join(program.path.file_name()?))
}
