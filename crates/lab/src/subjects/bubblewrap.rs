//! bubblewrap, with every namespace it knows, a session of its own and no capabilities.

use super::{
    peer::{Peer, Request, takes_all_programs},
    words_of,
};
use palisade_policy::{Access, FileGrant};
use std::{ffi::OsString, fs, path::Path};

pub(super) static BUBBLEWRAP: Peer = Peer {
    name: "bubblewrap",
    title: "bwrap",
    program: "bwrap",
    lacks: "no system-call filter, no Landlock, no limits",
    install: "apt-get install bubblewrap",
    // It learns of the guest's end by a message, and ends first.
    waits_for_all: false,
    takes: takes_all_programs,
    line,
    line_to_end: None,
};

/// `--cap-drop ALL` is the default for an ordinary user and asked for here for root's sake.
const WALL: [&str; 11] = [
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
];

/// Links into `/usr` where this host has merged it, folders elsewhere.
pub(super) const BESIDE_USR: [&str; 4] = ["/bin", "/sbin", "/lib", "/lib64"];

fn line(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    let grants = &request.policy.grants;
    let mut words: Vec<OsString> = vec![request.program.into()];
    words.extend(WALL.map(OsString::from));
    let is_granted = !grants.connect.is_empty() || !grants.listen.is_empty();
    if request.network.is_some() || is_granted {
        // It knows no rules for one: all of the host's, or none.
        words.push("--share-net".into());
    }
    if grants.system {
        words.extend(system_view());
    }
    words.extend(grants.files.iter().flat_map(bind));
    if let Some(cwd) = &grants.cwd {
        words.extend(["--chdir".into(), cwd.into()]);
    }
    words.push("--".into());
    words.extend(words_of(request.command));
    Ok(words)
}

fn system_view() -> Vec<OsString> {
    let mut words: Vec<OsString> = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc", "/etc"]
        .map(Into::into)
        .into();
    for folder in BESIDE_USR {
        match fs::read_link(folder) {
            Ok(target) => words.extend(["--symlink".into(), target.into(), folder.into()]),
            Err(_) => words.extend(["--ro-bind-try", folder, folder].map(Into::into)),
        }
    }
    words
}

fn bind(grant: &FileGrant) -> Vec<OsString> {
    let words = |flag: &str, host: &Path| vec![flag.into(), host.into(), grant.guest_path().into()];
    match grant.access {
        Access::Read | Access::ReadIfThere => words("--ro-bind", &grant.host),
        Access::Write => words("--bind", &grant.host),
        // Nothing to mount over a path that does not exist, and no executable or IPC rule to ask for.
        Access::Protect | Access::Hide | Access::Exec | Access::Ipc => Vec::new(),
    }
}
