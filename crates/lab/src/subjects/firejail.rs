//! firejail, without a profile of its own: every namespace it knows, no capabilities, its default
//! system-call filter, and of the files in the usual places only what was granted.
//!
//! It shows the host's tree and takes away: the system's files are visible whatever the policy says,
//! and no file can be shown at another path.

use super::{
    joined,
    peer::{Peer, Request, takes_programs},
    words_of,
};
use palisade_policy::{Access, FileGrant, Limits, value::format_size};
use std::ffi::OsString;

pub(super) static FIREJAIL: Peer = Peer {
    name: "firejail",
    title: "firejail",
    program: "firejail",
    lacks: "no Landlock, no limit for the whole, a deny-list of system calls, the rest of the disk visible",
    install: "apt-get install firejail",
    waits_for_all: true,
    takes: takes_programs,
    line,
    line_to_end: None,
};

const WALL: [&str; 12] = [
    "--quiet",
    "--noprofile",
    "--deterministic-exit-code",
    "--deterministic-shutdown",
    "--net=none",
    "--ipc-namespace",
    "--noroot",
    "--caps.drop=all",
    "--nonewprivs",
    "--nogroups",
    "--seccomp",
    "--private-dev",
];

/// Places that palisade does not show, besides homes and `/tmp`, which firejail has flags for. It does
/// not start without `/run`.
const HIDDEN: [&str; 7] = ["/boot", "/media", "/mnt", "/opt", "/srv", "/sys", "/var"];
const HOMES: [&str; 2] = ["/home", "/root"];

fn line(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    let files = &request.policy.grants.files;
    // Granting a path hides all others in its folder at the top of the tree.
    let has_grant_below = |top: &str| files.iter().any(|grant| grant.host.starts_with(top));
    let mut words: Vec<OsString> = vec![request.program.into()];
    words.extend(WALL.map(OsString::from));
    if !HOMES.into_iter().any(has_grant_below) {
        words.push("--private".into());
    }
    if !has_grant_below("/tmp") {
        words.push("--private-tmp".into());
    }
    let hidden = HIDDEN.into_iter().filter(|top| !has_grant_below(top));
    words.extend(hidden.map(|top| joined("--blacklist", top)));
    words.extend(files.iter().flat_map(grant_flags));
    words.extend(limit_flags(&request.policy.limits));
    words.push("--".into());
    words.extend(words_of(request.command));
    Ok(words)
}

fn grant_flags(grant: &FileGrant) -> Vec<OsString> {
    let flags = match grant.access {
        Access::Read | Access::ReadIfThere => ["--whitelist", "--read-only"],
        Access::Write => ["--whitelist", "--read-write"],
        Access::Protect | Access::Hide | Access::Exec | Access::Ipc => return Vec::new(),
    };
    flags.map(|flag| joined(flag, &grant.host)).into()
}

/// Those of single processes. Its limit of memory is one of address space, which is another thing.
fn limit_flags(limits: &Limits) -> Vec<OsString> {
    let number = |flag, value: Option<u64>| value.map(|value| joined(flag, value.to_string()));
    let size = |flag, bytes: Option<u64>| bytes.map(|bytes| joined(flag, format_size(bytes)));
    [
        number("--rlimit-nofile", limits.files),
        // It knows small letters only.
        size("--rlimit-fsize", limits.file_size_bytes).map(|flag| flag.to_ascii_lowercase()),
        number(
            "--rlimit-cpu",
            limits.cpu_time.map(|time| time.as_secs().max(1)),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
