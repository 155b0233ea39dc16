//! What a workload is run in: no wall, palisade, or a peer. One small file each turns a policy
//! into that tool's command line.
//!
//! A peer gets the flags that make it a fair comparison: the same files visible, no network, every
//! namespace it offers, no capabilities, those of the limits that it knows. What it does not offer is
//! said as a warning, never made up for.

mod bare;
mod bridged;
mod bubblewrap;
mod containers;
mod firejail;
mod floor;
mod javascript;
mod palisade;
mod pasta;
mod peer;
mod sandlock;
mod wasmtime;

pub use bare::Bare;
pub(crate) use bubblewrap::SameView;
pub use floor::FloorProgram;
pub(crate) use floor::steps_of;
pub use palisade::Palisade;
pub(crate) use palisade::{LIBEXEC, limit_flags, policy_flags};
pub use peer::{InstalledPeer, PEERS, Peer, find_peers, peer};

pub(crate) use wasmtime::is_wasm;

use crate::{limit::within, network::Network};
use palisade_policy::{EnvGrant, Policy};
use palisade_wall::Command;
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Something that runs a command.
pub trait Subject {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// Whether the process of the command line waits for all that it starts: else nobody can tell
    /// what they used.
    fn waits_for_all(&self) -> bool {
        true
    }

    /// What ends what is left of a command line whose process was killed, if anything can be.
    fn line_to_end(&self, _killed: &[OsString]) -> Option<Vec<OsString>> {
        None
    }

    /// Whether it is for ordinary users only.
    fn refuses_root(&self) -> bool {
        false
    }

    /// Whether it is a network that the lab makes for it.
    fn has_network_of_the_lab(&self) -> bool {
        false
    }

    /// Where a guest that must not be root becomes somebody else, if the lab is root.
    fn leaves_root(&self) -> LeavesRoot {
        LeavesRoot::First
    }

    /// The command line that runs `command` under as much of `policy` as it can hold, with no more of
    /// the network than `network` where it can hold that. It may name
    /// files that it needs and lays out in `room`, an empty folder that stays as long as the line is
    /// used. The line is to be run in the policy's working directory, with the variables that it
    /// grants and nothing else in the environment.
    ///
    /// # Errors
    ///
    /// When those files can't be written.
    fn command_line(
        &self,
        policy: &Policy,
        command: &Command,
        network: &Network,
        room: &Path,
    ) -> anyhow::Result<Vec<OsString>>;
}

/// Where a guest that must not be root becomes somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavesRoot {
    /// The command line is that user's already.
    First,
    /// Just before the guest: what is before it needs root.
    Last,
    /// The wall does it itself for each guest.
    ByItself,
}

/// Who a guest that must not be root is, if the lab is root: `nobody`.
pub(crate) const NOBODY: u32 = 65_534;

/// The environment that a policy's grants make: what has no value is passed on, if it is there.
pub(crate) fn variables(policy: &Policy) -> Vec<(String, OsString)> {
    let value = |grant: &EnvGrant| {
        let given = grant.value.clone().map(OsString::from);
        Some((
            grant.name.clone(),
            given.or_else(|| env::var_os(&grant.name))?,
        ))
    };
    policy.grants.env.iter().filter_map(value).collect()
}

/// The first line that `program --version` prints.
fn version_of(program: &Path) -> Option<String> {
    version_by(program, "--version")
}

/// The same by another flag; some print it on stderr.
pub(crate) fn version_by(program: &Path, flag: &str) -> Option<String> {
    const LIMIT: Duration = Duration::from_secs(5);
    let ask = || Ok(std::process::Command::new(program).arg(flag).output()?);
    let output = within(Some(LIMIT), ask).ok()?;
    let told = match output.stdout.is_empty() {
        true => output.stderr,
        false => output.stdout,
    };
    let text = String::from_utf8(told).ok()?;
    text.lines().next().map(ToOwned::to_owned)
}

/// A program's name and the number in what it says of its version: `nginx version: nginx/1.22.1` is
/// `nginx 1.22.1`. The name alone where there is none.
pub(crate) fn named_version(name: &str, told: &str) -> String {
    let is_divider = |letter: char| letter.is_whitespace() || ",()/=_".contains(letter);
    let number = told.split(is_divider).find_map(|word| {
        let number = word.strip_prefix('v').unwrap_or(word);
        let is_number = number.starts_with(|letter: char| letter.is_ascii_digit());
        (is_number && number.contains('.')).then_some(number)
    });
    match number {
        Some(number) => format!("{name} {number}"),
        None => name.to_owned(),
    }
}

/// An executable of this name in `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The same of a program that is no user's: servers lie elsewhere.
pub(crate) fn server_program(name: &str) -> Option<PathBuf> {
    const POSTGRES: &str = "/usr/lib/postgresql";
    let versions = fs::read_dir(POSTGRES).into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|one| one.path().join("bin")).collect();
    versions.sort();
    let newest = versions.pop();
    let folders = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = folders
        .into_iter()
        .chain(newest)
        .map(|folder| folder.join(name));
    on_path(name).or_else(|| places.find(|path| path.is_file()))
}

fn words_of(command: &Command) -> impl Iterator<Item = OsString> {
    std::iter::once(&command.program)
        .chain(&command.arguments)
        .cloned()
}

/// `--flag=VALUE` as one word.
fn joined(flag: &str, value: impl AsRef<std::ffi::OsStr>) -> OsString {
    let mut word = OsString::from(flag);
    word.push("=");
    word.push(value);
    word
}

#[cfg(test)]
mod tests;
