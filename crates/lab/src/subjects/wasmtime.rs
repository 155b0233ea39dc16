//! `wasmtime run`, for commands that are a WebAssembly file.

use super::{
    joined,
    peer::{Peer, Request},
    words_of,
};
use palisade_policy::{Access, FileGrant};
use palisade_wall::Command;
use std::{ffi::OsString, path::Path};

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

/// Flags as in wasmtime's book, "CLI Options": `--dir HOST::GUEST`, `--env NAME=VALUE`, `-W`.
fn line(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    let mut words: Vec<OsString> = vec![request.program.into(), "run".into()];
    words.extend(
        request
            .policy
            .grants
            .files
            .iter()
            .filter_map(folder)
            .flatten(),
    );
    for (name, value) in super::variables(request.policy) {
        words.extend(["--env".into(), joined(&name, value)]);
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

/// It can grant folders only.
fn folder(grant: &FileGrant) -> Option<[OsString; 2]> {
    let brings_files = matches!(grant.access, Access::Read | Access::Write);
    let mut mapping = OsString::from(&grant.host);
    mapping.push("::");
    mapping.push(grant.guest_path());
    (brings_files && grant.host.is_dir()).then(|| ["--dir".into(), mapping])
}
