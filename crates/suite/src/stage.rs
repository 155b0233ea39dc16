//! The stage: files that an attack finds, laid on a tmpfs that lives as long as the arena.
//!
//! ```text
//! {case}/outside   what no policy grants: secret, tool, host.sock, victim
//!        fixtures  granted to read by the minimum policy
//!        scratch   granted to write by the generous policy; bin/ for programs, run/ for sockets
//!        rooted    a root, with places for what policies grant
//!        paths     names that a careless policy confuses
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

/// The uid and gid of the ordinary half when the suite runs as root: nobody else's.
pub(crate) const ORDINARY_ID: u32 = 61_873;
/// The uid and gid that the setuid and setgid fixtures belong to.
pub(crate) const STRANGER_ID: u32 = 61_999;
/// CAP_NET_RAW, the capability of the file-capability fixture.
pub(crate) const FILE_CAPABILITY: u32 = 13;

/// Directories below `{case}`.
const DIRECTORIES: &[&str] = &[
    "outside",
    "fixtures",
    "fixtures/masked",
    "scratch",
    "scratch/bin",
    "scratch/run",
    "scratch/.git",
    "scratch/.git/hooks",
    "bare",
    "bare/objects",
    "bare/refs",
    "bare/hooks",
    "linked",
    "scratch/dev",
    "scratch/root",
    "rooted",
    "rooted/guest",
    "rooted/dev",
    "rooted/proc",
    "rooted/tmp",
    "scratch/sub",
    "scratch/sub/target",
    "paths",
    "paths/dir",
    "paths/dir-secret",
    "paths/glob",
    "paths/line",
    "paths/line\nbreak",
    "paths/case",
    "paths/CASE",
    "paths/other",
    "paths/other/deep",
    "paths/dotted",
];

/// Symlinks below `{case}`: name, target template.
const SYMLINKS: &[(&str, &str)] = &[
    ("scratch/dev/null", "{outside}/secret"),
    ("scratch/dev/console", "{outside}/secret"),
    ("scratch/dev/tty", "{outside}/secret"),
    ("scratch/dev/ptmx", "{outside}/secret"),
    ("scratch/root/dev", "{outside}"),
    ("scratch/link", "{outside}"),
    ("scratch/sub-link", "{outside}"),
    ("scratch/relative-link", "../outside"),
    ("second", "{case}/bare"),
    ("paths/dotted/link", "{case}/paths/other/deep"),
];

/// Files below `{case}`: name, content template.
const FILES: &[(&str, &str)] = &[
    ("outside/secret", "{secret}\n"),
    ("fixtures/granted", "granted {token}\n"),
    ("bare/HEAD", "ref: refs/heads/main\n"),
    ("bare/config", "# as it was\n"),
    ("linked/.git", "gitdir: {scratch}/.git\n"),
    ("scratch/.bashrc", "# as it was\n"),
    ("scratch/policy.toml", "# grants nothing\n"),
    ("paths/dir-secret/secret", "{secret}\n"),
    ("paths/glob/secret", "{secret}\n"),
    ("paths/line/secret", "{secret}\n"),
    ("paths/CASE/secret", "{secret}\n"),
    ("paths/other/secret", "{secret}\n"),
    ("paths/dir/secret", "{token}\n"),
    ("paths/line\nbreak/secret", "{token}\n"),
    ("paths/case/secret", "{token}\n"),
];

/// Where everything lies in one run, and what its secrets are.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) base: PathBuf,
    /// Known to the guest; marks what it leaves behind.
    pub(crate) nonce: String,
    /// Not known to the guest: what it is after.
    pub(crate) secret: String,
    /// Not known either, but in a file that the minimum policy grants.
    pub(crate) token: String,
    /// The uid and gid to start the launcher with, if they are not the warden's own.
    pub(crate) switch_to: Option<u32>,
}

impl Stage {
    /// Fills in `{case}`, `{bin}`, `{tools}`, `{outside}`, `{fixtures}`, `{scratch}`, `{nonce}`, …
    pub(crate) fn expand(&self, template: &str) -> String {
        let base = self.base.display();
        let mut text = template.to_owned();
        for folder in ["outside", "fixtures", "scratch", "paths"] {
            text = text.replace(&format!("{{{folder}}}"), &format!("{base}/case/{folder}"));
        }
        for folder in ["case", "bin", "tools"] {
            text = text.replace(&format!("{{{folder}}}"), &format!("{base}/{folder}"));
        }
        text.replace("{nonce}", &self.nonce)
            .replace("{secret}", &self.secret)
            .replace("{token}", &self.token)
    }

    pub(crate) fn path(&self, template: &str) -> PathBuf {
        self.expand(template).into()
    }

    /// Lays every file, owned by whoever starts the launcher.
    pub(crate) fn lay(&self) -> io::Result<()> {
        let case = self.path("{case}");
        for directory in DIRECTORIES {
            fs::create_dir(case.join(directory))?;
        }
        for granted in ["{bin}", "{fixtures}", "{scratch}", "{outside}"] {
            fs::create_dir_all(self.path(&format!("{{case}}/rooted{granted}")))?;
        }
        for (name, target) in SYMLINKS {
            symlink(self.expand(target), case.join(name))?;
        }
        for (name, content) in FILES {
            fs::write(case.join(name), self.expand(content))?;
        }
        self.lay_attribute(&case.join("outside/secret"));
        self.lay_programs(&case)?;
        rustix::fs::mknodat(
            CWD,
            case.join("scratch/fifo"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )?;
        self.give_away(&case)
    }

    /// Where the kernel's tmpfs has no attributes of users (before Linux 6.6) the attack on it is
    /// refused with no wall, and says so.
    fn lay_attribute(&self, file: &Path) {
        let secret = self.secret.as_bytes();
        let _ = rustix::fs::setxattr(file, "user.secret", secret, XattrFlags::empty());
    }

    fn lay_programs(&self, case: &Path) -> io::Result<()> {
        fs::copy(self.path("{tools}/stagehand"), case.join("outside/victim"))?;
        let tool = case.join("outside/tool");
        fs::write(&tool, self.expand("#!/bin/sh\necho {secret}\n"))?;
        fs::set_permissions(tool, fs::Permissions::from_mode(0o755))
    }

    /// Gives `path`, and all below it, to whoever starts the launcher.
    pub(crate) fn give_away(&self, path: &Path) -> io::Result<()> {
        let Some(id) = self.switch_to else {
            return Ok(());
        };
        lchown(path, Some(id), Some(id))?;
        if path.symlink_metadata()?.is_dir() {
            for entry in fs::read_dir(path)? {
                self.give_away(&entry?.path())?;
            }
        }
        Ok(())
    }

    /// Copies of the guest with privileges of their own, in `{fixtures}`.
    pub(crate) fn lay_privileged(&self) -> io::Result<()> {
        const SETUID: u32 = 0o4755;
        const SETGID: u32 = 0o2755;
        for (name, mode) in [("setuid", SETUID), ("setgid", SETGID), ("filecaps", 0o755)] {
            let path = self.path("{fixtures}").join(name);
            fs::copy(self.path("{bin}/hostile"), &path)?;
            lchown(&path, Some(STRANGER_ID), Some(STRANGER_ID))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
        let path = self.path("{fixtures}/filecaps");
        rustix::fs::setxattr(
            path,
            "security.capability",
            &file_capability(),
            XattrFlags::empty(),
        )?;
        Ok(())
    }

    /// The role of the suite's C side, as whoever starts the launcher.
    pub(crate) fn stagehand(&self, role: &str) -> Command {
        let mut command = Command::new(self.path("{tools}/stagehand"));
        command.arg(role).stdin(Stdio::null());
        self.as_user(&mut command);
        command
    }

    /// Who starts the launcher.
    pub(crate) fn user(&self) -> u32 {
        self.switch_to
            .unwrap_or_else(|| rustix::process::geteuid().as_raw())
    }

    /// Lets `command` start with the uid and gid of this half, and no further group.
    pub(crate) fn as_user(&self, command: &mut Command) {
        use std::os::unix::process::CommandExt;
        if let Some(id) = self.switch_to {
            // A root parent that sets a uid also drops the supplementary groups.
            command.uid(id).gid(id);
        }
    }

    /// Whether whoever starts the launcher gets none of what the kernel counts for each user.
    pub(crate) fn lacks(&self, what: &str) -> bool {
        const REFUSED: i32 = 1;
        let asked = self.stagehand("take").arg(what).status();
        asked.is_ok_and(|status| status.code() == Some(REFUSED))
    }

    /// Whether the user's keyring holds a key named by the nonce.
    pub(crate) fn finds_key(&self) -> bool {
        self.stagehand("find-key")
            .arg(&self.nonce)
            .status()
            .is_ok_and(|status| status.success())
    }
}

/// `struct vfs_cap_data` of revision 2 (capabilities(7)): one permitted, effective bit.
fn file_capability() -> [u8; 20] {
    const REVISION_2_EFFECTIVE: u32 = 0x0200_0001;
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&REVISION_2_EFFECTIVE.to_le_bytes());
    bytes[4..8].copy_from_slice(&(1_u32 << FILE_CAPABILITY).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::Stage;

    #[test]
    fn templates_name_places_and_words() {
        let stage = Stage {
            base: "/base".into(),
            nonce: "n1".into(),
            secret: "s1".into(),
            token: "t1".into(),
            switch_to: None,
        };
        assert_eq!(
            stage.expand("{scratch}/bin:{bin}"),
            "/base/case/scratch/bin:/base/bin"
        );
        assert_eq!(stage.expand("{nonce}:{secret}:{token}"), "n1:s1:t1");
    }
}
