//! sandlock, which needs no namespaces: Landlock, a system-call filter, and a supervisor that is asked
//! about some of the calls.

use super::{
    peer::{Peer, Request, takes_all_programs},
    words_of,
};
use crate::network::{Endpoint, Network, Transport};
use palisade_policy::{Access, FileGrant, Limits, value::format_size};
use std::{ffi::OsString, path::Path};

pub(super) static SANDLOCK: Peer = Peer {
    name: "sandlock",
    title: "sandlock",
    program: "sandlock",
    lacks: "no namespaces, no private /tmp, no other uid, root keeps its capabilities",
    install: "cargo install sandlock-cli",
    waits_for_all: true,
    takes: takes_all_programs,
    line,
    line_to_end: None,
};

/// A path that is not there would be an error, and not every host has all of these.
const SYSTEM: [&str; 7] = ["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
/// What palisade shows without any grant.
const ALWAYS: [&str; 8] = [
    "--fs-read",
    "/proc",
    "--fs-read",
    "/dev",
    "--fs-write",
    "/dev/null",
    "--fs-write",
    "/dev/zero",
];

/// Without a rule for it there is no network. Variables come from the line's environment: `--env` would show their
/// values to everybody.
fn line(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    let grants = &request.policy.grants;
    let mut words: Vec<OsString> = vec![request.program.into(), "run".into()];
    words.extend(ALWAYS.map(OsString::from));
    let system = SYSTEM.into_iter().filter(|path| Path::new(path).exists());
    let system = system.filter(|_| grants.system);
    words.extend(
        system
            .flat_map(|path| ["--fs-read", path])
            .map(OsString::from),
    );
    words.extend(grants.files.iter().flat_map(grant_flag));
    words.extend(network_flags(request.network));
    words.extend(limit_flags(&request.policy.limits));
    if let Some(cwd) = &grants.cwd {
        words.extend(["--cwd".into(), cwd.into()]);
    }
    words.push("--".into());
    words.extend(words_of(request.command));
    Ok(words)
}

/// It has no rule for an address to listen at, nor one for UDP but that of who may be sent to.
fn network_flags(network: &Network) -> Vec<OsString> {
    let rule = |prefix, end: &Endpoint| {
        let rule = format!("{prefix}{}:{}", end.address, end.port);
        vec!["--net-allow".into(), rule.into()]
    };
    match network {
        Network::None => Vec::new(),
        Network::Connects(end) if end.transport == Transport::Udp => rule("udp://", end),
        Network::Connects(end) => rule("", end),
        Network::Listens(end) if end.transport == Transport::Udp => {
            vec!["--net-allow".into(), "udp://*:*".into()]
        }
        Network::Listens(end) => vec!["--net-allow-bind".into(), end.port.to_string().into()],
    }
}

fn grant_flag(grant: &FileGrant) -> Vec<OsString> {
    let words = |flag: &str| vec![flag.into(), OsString::from(&grant.host)];
    match grant.access {
        Access::Read | Access::ReadIfThere => words("--fs-read"),
        Access::Write => [words("--fs-read"), words("--fs-write")].concat(),
        Access::Protect | Access::Hide | Access::Exec | Access::Ipc => Vec::new(),
    }
}

fn limit_flags(limits: &Limits) -> Vec<OsString> {
    let flags = [
        ("--max-memory", limits.memory_bytes.map(format_size)),
        (
            "--max-processes",
            limits.processes.map(|count| count.to_string()),
        ),
        (
            "--max-open-files",
            limits.files.map(|count| count.to_string()),
        ),
        (
            "--timeout",
            limits.time.map(|time| time.as_secs().max(1).to_string()),
        ),
    ];
    let typed = flags
        .into_iter()
        .filter_map(|(flag, value)| Some([flag.into(), value?.into()]));
    typed.flatten().collect()
}
