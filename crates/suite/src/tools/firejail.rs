//! firejail without a profile: private home and devices, no network, no root, seccomp.
//!
//! It cannot place a path elsewhere, so the guest runs from its place on the host, and
//! `--whitelist` shows what is granted.

use std::path::Path;

use super::{Launch, Placed, text};

const STRICT: &[&str] = &[
    "--quiet",
    "--noprofile",
    "--net=none",
    "--noroot",
    "--nonewprivs",
    "--caps.drop=all",
    "--seccomp",
    "--private-dev",
    "--private-tmp",
    "--ipc-namespace",
    "--rmenv=PALISADE_SUITE_SECRET",
    "--rmenv=PALISADE_SUITE_TOKEN",
];

pub(super) fn command_line(program: &Path, launch: &Launch) -> Vec<String> {
    let mut words = vec![text(program)];
    words.extend(STRICT.iter().map(|word| (*word).to_owned()));
    words.push(format!("--whitelist={}", text(&launch.bin)));
    words.push(format!("--read-only={}", text(&launch.bin)));
    words.extend(launch.grants.iter().flat_map(flags));
    words.push("--".to_owned());
    words.extend(launch.guest_at(&text(&launch.bin)));
    words
}

fn flags(grant: &Placed) -> Vec<String> {
    match grant {
        Placed::Read { host, guest } if host == guest => {
            vec![format!("--whitelist={host}"), format!("--read-only={host}")]
        }
        Placed::Write { host, guest } if host == guest => vec![format!("--whitelist={host}")],
        Placed::Protect(path) => vec![format!("--read-only={path}")],
        Placed::Env(entry) => vec![format!("--env={entry}")],
        Placed::Limit("processes", count) => vec![format!("--rlimit-nproc={count}")],
        Placed::Limit("files", count) => vec![format!("--rlimit-nofile={count}")],
        Placed::Limit("memory", size) => vec![format!("--rlimit-as={size}")],
        Placed::Limit("file-size", size) => vec![format!("--rlimit-fsize={size}")],
        Placed::Limit("cpu-time", time) => vec![format!("--rlimit-cpu={}", time.trim_end_matches('s'))],
        _ => vec![],
    }
}
