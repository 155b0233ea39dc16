//! `wasmtime run`, for commands that are a WebAssembly file. It keeps compiled code below `XDG_CACHE_HOME`,
//! as palisade does.

use super::{
    peer::{Peer, Request},
    words_of,
};
use palisade_policy::{FileGrant, Policy};
use palisade_wall::Command;
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

pub(super) static WASMTIME: Peer = Peer {
    name: "wasmtime",
    title: "wasmtime",
    program: "wasmtime",
    lacks: "one process without namespaces, Landlock or a system-call filter; granted folders are writable",
    install: "cargo install wasmtime-cli",
    waits_for_all: true,
    takes: |command, network| is_wasm(command) && !network.is_some(),
    line,
    line_to_end: None,
};

/// A WebAssembly module or component, by its name.
pub(crate) fn is_wasm(command: &Command) -> bool {
    let ending = Path::new(&command.program).extension();
    ending.is_some_and(|ending| ending == "wasm" || ending == "wat")
}

/// Flags as in wasmtime's book, "CLI Options": `--dir HOST::GUEST`, `--env NAME`, which passes a variable on, `-W`.
fn line(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    let mut words: Vec<OsString> = vec![request.program.into(), "run".into()];
    for (host, guest) in folders(request.policy) {
        let mapping = [host.as_os_str(), guest.as_os_str()].join(OsStr::new("::"));
        words.extend(["--dir".into(), mapping]);
    }
    for (name, _) in super::variables(request.policy) {
        words.extend(["--env".into(), name.into()]);
    }
    if let Some(bytes) = request.policy.limits.memory_bytes {
        words.extend(["-W".into(), format!("max-memory-size={bytes}").into()]);
    }
    if let Some(time) = request.policy.limits.time {
        words.extend([
            "-W".into(),
            format!("timeout={}s", time.as_secs().max(1)).into(),
        ]);
    }
    words.extend(words_of(request.command));
    Ok(words)
}

/// The system's folders that a program finds open, where there is such a view.
const SYSTEM: [&str; 3] = ["/usr", "/etc", "/dev"];

/// The folders of a policy, on the host and inside: engines can grant nothing smaller.
pub(super) fn folders(policy: &Policy) -> Vec<(PathBuf, PathBuf)> {
    let system = SYSTEM.iter().filter(|_| policy.grants.system);
    let system = system.map(|path| (PathBuf::from(path), PathBuf::from(path)));
    let granted = policy.grants.files.iter().filter(is_folder);
    let granted = granted.map(|grant| (grant.host.clone(), grant.guest_path().to_owned()));
    system.chain(granted).collect()
}

fn is_folder(grant: &&FileGrant) -> bool {
    grant.access.maps_host_path() && grant.host.is_dir()
}
