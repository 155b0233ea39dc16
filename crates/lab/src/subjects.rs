//! What a workload is run in: no wall, palisade, or a peer. One small file each turns a policy
//! into that tool's command line.
//!
//! A peer gets the flags that make it a fair comparison: the same files visible, no network, every
//! namespace it offers. What it does not offer is said as a warning, never made up for.

mod bare;
mod bubblewrap;
mod palisade;

pub use bare::Bare;
pub use bubblewrap::Bubblewrap;
pub use palisade::Palisade;

use palisade_policy::Policy;
use palisade_wall::Command;
use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Something that runs a command.
pub trait Subject {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// The command line that runs `command` under as much of `policy` as it can hold.
    fn command_line(&self, policy: &Policy, command: &Command) -> Vec<OsString>;
}

/// The first line that `program --version` prints.
fn version_of(program: &Path) -> Option<String> {
    let output = std::process::Command::new(program)
        .arg("--version")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(ToOwned::to_owned)
}

/// An executable of this name in `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn words_of(command: &Command) -> impl Iterator<Item = OsString> {
    std::iter::once(&command.program)
        .chain(&command.arguments)
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::{Access, Capability, FileGrant, Grants, Limits};
    use std::time::Duration;

    fn everything() -> Policy {
        let grant = |access, path: &str| FileGrant {
            access,
            host: path.into(),
            guest: None,
        };
        Policy {
            grants: Grants {
                files: vec![
                    grant(Access::Read, "/tmp/lab"),
                    grant(Access::Write, "/tmp/lab/open"),
                    grant(Access::Protect, "/tmp/lab/open/.git"),
                ],
                ..Grants::nothing()
            },
            limits: Limits {
                memory_bytes: Some(512 << 20),
                time: Some(Duration::from_secs(600)),
                ..Limits::default()
            },
            allow_degraded: [Capability::Memory].into(),
            ..Policy::default()
        }
    }

    fn line(subject: &dyn Subject, policy: &Policy) -> String {
        let command = Command {
            program: "/tmp/lab/true".into(),
            arguments: vec!["now".into()],
        };
        subject
            .command_line(policy, &command)
            .join(" ".as_ref())
            .into_string()
            .unwrap()
    }

    #[test]
    fn bare_is_the_command_itself() {
        assert_eq!(line(&Bare, &everything()), "/tmp/lab/true now");
    }

    #[test]
    fn palisade_gets_the_policy_as_flags() {
        let palisade = Palisade::new("/bin/palisade".into());
        insta::assert_snapshot!(line(&palisade, &everything()), @"/bin/palisade run --no-system --read /tmp/lab --write /tmp/lab/open --protect /tmp/lab/open/.git --memory 512M --time 10m --allow-degraded memory -- /tmp/lab/true now");
        insta::assert_snapshot!(line(&palisade, &Policy::default()), @"/bin/palisade run -- /tmp/lab/true now");
    }

    #[test]
    fn bubblewrap_gets_the_grants_after_its_own_folders() {
        let bubblewrap = Bubblewrap::new("/bin/bwrap".into());
        insta::assert_snapshot!(line(&bubblewrap, &everything()), @"/bin/bwrap --unshare-all --die-with-parent --new-session --cap-drop ALL --proc /proc --dev /dev --tmpfs /tmp --ro-bind /tmp/lab /tmp/lab --bind /tmp/lab/open /tmp/lab/open -- /tmp/lab/true now");
        assert!(line(&bubblewrap, &Policy::default()).contains("--ro-bind /usr /usr"));
    }
}
