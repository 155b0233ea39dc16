//! bubblewrap at its strictest: every namespace, a session of its own, no capability.
//!
//! It has no limits, no rule inside a writable folder, and no policy file.

use std::path::Path;

use super::{FilledGrant, Launch, text};

const STRICT: &[&str] = &[
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--clearenv",
    "--cap-drop",
    "ALL",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
];
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"];

pub(super) fn command_line(program: &Path, launch: &Launch) -> Vec<String> {
    let mut words = vec![text(program)];
    words.extend(STRICT.iter().map(|word| (*word).to_owned()));
    if launch.has_system() {
        for folder in SYSTEM {
            words.extend([
                "--ro-bind-try".to_owned(),
                folder.to_owned(),
                folder.to_owned(),
            ]);
        }
    }
    words.extend(launch.grants.iter().flat_map(flags));
    words.push("--".to_owned());
    words.extend(launch.guest_at("/guest"));
    words
}

fn flags(grant: &FilledGrant) -> Vec<String> {
    let words: &[&str] = match grant {
        FilledGrant::Read { host, guest } => &["--ro-bind", host, guest],
        FilledGrant::Write { host, guest } => &["--bind", host, guest],
        FilledGrant::Protect(path) if Path::new(path).exists() => &["--ro-bind", path, path],
        FilledGrant::Env(entry) => {
            let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
            &["--setenv", name, value]
        }
        FilledGrant::Cwd(path) => &["--chdir", path],
        FilledGrant::Limit("tmp-size", size) => return tmp_of(size),
        _ => &[],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A sized `/tmp` over the default one; sizes in the table are whole megabytes.
fn tmp_of(size: &str) -> Vec<String> {
    let megabytes: u64 = size.trim_end_matches('M').parse().unwrap_or(0);
    ["--size", &(megabytes << 20).to_string(), "--tmpfs", "/tmp"]
        .map(str::to_owned)
        .to_vec()
}
