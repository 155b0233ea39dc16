//! Which namespaces a container has of its own, which it joins, and whom its users are.

use super::ContainerError;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use serde::Serialize;
use std::{
    fmt::Write as _,
    fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::PathBuf,
    process::{Command, Stdio},
};

/// A kind of namespace (namespaces(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is explained by the manual page")]
pub enum Namespace {
    User,
    Cgroup,
    Ipc,
    Uts,
    Network,
    Pid,
    Time,
    Mount,
}

impl Namespace {
    /// All of them, in the order in which they are entered: what is mounted where counts to the last.
    pub const ALL: [Self; 8] = [
        Self::User,
        Self::Cgroup,
        Self::Ipc,
        Self::Uts,
        Self::Network,
        Self::Pid,
        Self::Time,
        Self::Mount,
    ];

    pub(super) fn flag(self) -> u64 {
        let flag = match self {
            Self::User => libc::CLONE_NEWUSER,
            Self::Cgroup => libc::CLONE_NEWCGROUP,
            Self::Ipc => libc::CLONE_NEWIPC,
            Self::Uts => libc::CLONE_NEWUTS,
            Self::Network => libc::CLONE_NEWNET,
            Self::Pid => libc::CLONE_NEWPID,
            Self::Time => libc::CLONE_NEWTIME,
            Self::Mount => libc::CLONE_NEWNS,
        };
        flag as u64
    }

    /// Its file in `/proc/PID/ns`.
    pub fn file(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Cgroup => "cgroup",
            Self::Ipc => "ipc",
            Self::Uts => "uts",
            Self::Network => "net",
            Self::Pid => "pid",
            Self::Time => "time",
            Self::Mount => "mnt",
        }
    }
}

/// A row of `/proc/PID/uid_map` (user_namespaces(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IdRange {
    /// The first id inside.
    pub inside: u32,
    /// Whom that is outside.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

/// The namespaces of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Namespaces {
    /// Its own.
    pub made: Vec<Namespace>,
    /// Others', each by a file.
    pub joined: Vec<(Namespace, PathBuf)>,
    /// Users of a user namespace of its own.
    pub users: Vec<IdRange>,
    /// Groups of it.
    pub groups: Vec<IdRange>,
}

impl Namespaces {
    /// Whether it has one of this kind that is not its starter's.
    pub fn has(&self, kind: Namespace) -> bool {
        self.owns(kind) || self.joined.iter().any(|(joined, _)| *joined == kind)
    }

    /// Whether it has one of this kind of its own.
    pub fn owns(&self, kind: Namespace) -> bool {
        self.made.contains(&kind)
    }

    /// Each with its `CLONE_NEW*`.
    pub(super) fn open_joined(&self) -> Result<Vec<(u64, OwnedFd)>, ContainerError> {
        let open = |(kind, path): &(Namespace, PathBuf)| {
            rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map(|namespace| (kind.flag(), namespace))
                .map_err(|errno| ContainerError::OpenNamespace {
                    kind: kind.file(),
                    path: path.clone(),
                    errno,
                })
        };
        self.joined.iter().map(open).collect()
    }

    /// Says whom the users of this process's new namespace are.
    pub(super) fn map(&self, pid: u32) -> Result<(), ContainerError> {
        if !self.owns(Namespace::User) {
            return Ok(());
        }
        // Without privilege over the ranges the kernel takes one line, and only with `setgroups` denied.
        let groups = write_map(pid, "gid_map", &self.groups, "newgidmap");
        if let Err(Errno::PERM) = groups {
            let path = format!("/proc/{pid}/setgroups");
            fs::write(path, "deny").map_err(|error| mapping("setgroups", &error))?;
            write_map(pid, "gid_map", &self.groups, "newgidmap").map_err(|errno| {
                ContainerError::MapIds {
                    file: "gid_map",
                    errno,
                }
            })?;
        } else {
            groups.map_err(|errno| ContainerError::MapIds {
                file: "gid_map",
                errno,
            })?;
        }
        write_map(pid, "uid_map", &self.users, "newuidmap").map_err(|errno| {
            ContainerError::MapIds {
                file: "uid_map",
                errno,
            }
        })
    }
}

/// Whether this process is in it already: a user namespace cannot be entered twice (setns(2)).
pub(super) fn is_own(kind: u64, namespace: &OwnedFd) -> bool {
    let own = Namespace::ALL.iter().find(|known| known.flag() == kind);
    let own = own.and_then(|known| fs::metadata(format!("/proc/self/ns/{}", known.file())).ok());
    let about = rustix::fs::fstat(namespace);
    own.zip(about.ok())
        .is_some_and(|(own, about)| own.ino() == about.st_ino && own.dev() == about.st_dev)
}

fn mapping(file: &'static str, error: &std::io::Error) -> ContainerError {
    ContainerError::MapIds {
        file,
        errno: Errno::from_io_error(error).unwrap_or(Errno::IO),
    }
}

/// Who may not write the whole map has it written by the program that may (newuidmap(1)), if there is one.
fn write_map(pid: u32, file: &str, ranges: &[IdRange], program: &str) -> Result<(), Errno> {
    let mut text = String::new();
    for range in ranges {
        let _ = writeln!(text, "{} {} {}", range.inside, range.outside, range.count);
    }
    match fs::write(format!("/proc/{pid}/{file}"), &text) {
        Ok(()) => Ok(()),
        Err(_) if ranges.len() > 1 => {
            let status = Command::new(program)
                .arg(pid.to_string())
                .args(text.split_ascii_whitespace())
                .stdin(Stdio::null())
                .status();
            match status {
                Ok(status) if status.success() => Ok(()),
                _ => Err(Errno::ACCESS),
            }
        }
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}
