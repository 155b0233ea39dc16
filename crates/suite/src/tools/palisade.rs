//! `palisade run`.

use std::env;
use std::path::{Path, PathBuf};

use super::{FilledGrant, Launch, text};

/// `$PALISADE_BIN`, or the binary that cargo built beside the suite.
pub(super) fn find() -> Option<PathBuf> {
    if let Some(path) = env::var_os("PALISADE_BIN") {
        return Some(path.into());
    }
    find_beside("palisade")
}

/// What cargo built beside the suite, which lies in `PROFILE/` or `PROFILE/deps/`.
pub(super) fn find_beside(name: &str) -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// A part that lies beside the binary.
pub(super) fn find_part(name: &str) -> Option<PathBuf> {
    let part = find()?.with_file_name(name);
    part.is_file().then_some(part)
}

pub(super) fn command_line(program: &Path, launch: &Launch) -> Vec<String> {
    let mut words = vec![text(program), "run".to_owned()];
    words.extend(launch.grants.iter().flat_map(flags));
    words.push("--".to_owned());
    words.extend(launch.guest_at("/guest"));
    words
}

pub(super) fn command_line_of_module(program: &Path, launch: &Launch) -> Vec<String> {
    let mut words = vec![text(program), "run".to_owned()];
    words.extend(launch.grants.iter().flat_map(flags));
    words.push("--".to_owned());
    words.extend(launch.guest_called("/guest/hostile.wasm"));
    words
}

/// What the bare tier cannot hold, and says so. Limits that need control groups are not here:
/// the arena delegates some.
const DEGRADED: [&str; 1] = ["namespaces"];

/// Without mounts nothing has another path inside than outside, the guest's own folder neither.
pub(super) fn command_line_bare(program: &Path, launch: &Launch) -> Vec<String> {
    let bin = text(&launch.bin);
    let mut words = vec![text(program), "run".to_owned()];
    for capability in DEGRADED {
        words.extend(["--allow-degraded", capability].map(str::to_owned));
    }
    for grant in &launch.grants {
        match grant {
            FilledGrant::Read { host, guest } if *host == bin && guest == "/guest" => {
                words.extend(["--read".to_owned(), bin.clone()]);
            }
            grant => words.extend(flags(grant)),
        }
    }
    words.push("--".to_owned());
    words.extend(launch.guest_at(&bin));
    words
}

fn flags(grant: &FilledGrant) -> Vec<String> {
    let pair = |flag: &str, value: &str| vec![flag.to_owned(), value.to_owned()];
    match grant {
        FilledGrant::NoSystem => vec!["--no-system".to_owned()],
        FilledGrant::Read { host, guest } if host == guest => pair("--read", host),
        FilledGrant::Read { host, guest } => pair("--read", &format!("{host}:{guest}")),
        FilledGrant::Write { host, guest } if host == guest => pair("--write", host),
        FilledGrant::Write { host, guest } => pair("--write", &format!("{host}:{guest}")),
        FilledGrant::Exec(path) => pair("--exec", path),
        FilledGrant::Ipc(path) => pair("--ipc", path),
        FilledGrant::Protect(path) => pair("--protect", path),
        FilledGrant::Hide(path) => pair("--hide", path),
        FilledGrant::NoGuard => vec!["--no-guard".to_owned()],
        FilledGrant::Env(entry) => pair("--env", entry),
        FilledGrant::Cwd(path) => pair("--cwd", path),
        FilledGrant::PolicyFile(path) => pair("--policy", path),
        FilledGrant::Connect(address) => pair("--connect", address),
        FilledGrant::Listen(address) => pair("--listen", address),
        FilledGrant::Limit(name, value) => pair(&format!("--{name}"), value),
    }
}
