//! The plan for people: a line a step.

use super::{Plan, Step};
use palisade_wall::Level;
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "run       {}", self.command.join(" "))?;
        writeln!(
            formatter,
            "as        uid {}, gid {} inside",
            self.uid, self.gid
        )?;
        writeln!(formatter, "in        {}", self.cwd.display())?;
        for placeholder in &self.placeholders {
            let kind = if placeholder.folder { "folder" } else { "file" };
            writeln!(
                formatter,
                "hold      {} on the host by an empty {kind}",
                placeholder.path.display()
            )?;
        }
        for step in &self.steps {
            writeln!(formatter, "{step}")?;
        }
        for rule in self.network.to_string().lines() {
            writeln!(formatter, "network   {rule}")?;
        }
        for listener in &self.handed {
            let kind = if listener.internet { "tcp" } else { "local" };
            writeln!(
                formatter,
                "network   pass on the {kind} socket {}",
                listener.name
            )?;
        }
        if self.inherits_listeners {
            writeln!(formatter, "network   pass on the sockets of LISTEN_FDS")?;
        }
        self.write_confinement(formatter)?;
        for row in &self.enforcement {
            let level = match row.actual {
                Level::Full => "full",
                Level::Degraded => "DEGRADED",
                Level::None => "NONE",
            };
            writeln!(
                formatter,
                "enforce   {:<11}{:<30} {level:<9}{}",
                row.capability, row.requested, row.mechanism
            )?;
        }
        Ok(())
    }
}

impl Plan {
    fn write_confinement(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for limit in &self.rlimits {
            writeln!(formatter, "limit     {} {}", limit.name, limit.value)?;
        }
        if let Some(processors) = self.affinity {
            writeln!(formatter, "limit     processors {processors}")?;
        }
        for placement in &self.cgroup.placements {
            for setting in &placement.settings {
                let parent = placement.parent.display();
                writeln!(
                    formatter,
                    "cgroup    {parent}/{}* {} = {}",
                    placement.prefix, setting.file, setting.value
                )?;
            }
        }
        writeln!(
            formatter,
            "drop      every capability; no new privileges; new session keyring"
        )?;
        if let Some(landlock) = &self.landlock {
            let paths: Vec<_> = landlock
                .rules
                .iter()
                .map(|rule| format!("{} {:#x}", rule.path.display(), rule.rights))
                .collect();
            writeln!(
                formatter,
                "landlock  deny files {:#x}, tcp {:#x}, scopes {:#x}; except {}",
                landlock.files,
                landlock.network,
                landlock.scopes,
                paths.join(", ")
            )?;
        }
        if let Some(groups) = &self.seccomp {
            writeln!(
                formatter,
                "seccomp   {}",
                crate::seccomp::allow_list(groups).describe()
            )?;
        }
        let environment: Vec<_> = self
            .environment
            .iter()
            .map(|variable| variable.to_string_lossy())
            .collect();
        writeln!(formatter, "env       {}", environment.join(" "))?;
        let candidates: Vec<_> = self
            .candidates
            .iter()
            .map(|path| path.to_string_lossy())
            .collect();
        writeln!(formatter, "exec      {}", candidates.join(" or "))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakeRoot { size_bytes, inodes } => {
                write!(formatter, "tmpfs     / {size_bytes} bytes, {inodes} files")
            }
            Self::MakeFolder { path, mode } => {
                write!(formatter, "folder    {} {mode:o}", path.display())
            }
            Self::MakeSymlink { path, target } => {
                write!(
                    formatter,
                    "symlink   {} -> {}",
                    path.display(),
                    target.display()
                )
            }
            Self::WriteFile {
                path,
                mode,
                content,
            } => {
                write!(
                    formatter,
                    "file      {} {mode:o}, {} bytes",
                    path.display(),
                    content.len()
                )
            }
            Self::Mount {
                source,
                attributes,
                target,
                ..
            } if source == target => {
                write!(formatter, "mount     {} ({attributes})", target.display())
            }
            Self::Mount {
                source,
                attributes,
                target,
                ..
            } => {
                write!(
                    formatter,
                    "mount     {} at {} ({attributes})",
                    source.display(),
                    target.display()
                )
            }
            Self::Remount { target, set, clear } => write_remount(formatter, target, *set, *clear),
            Self::MountProc { target } => write!(
                formatter,
                "proc      {} (ro,nosuid,nodev,noexec)",
                target.display()
            ),
            Self::OpenProc => formatter.write_str("proc      for init alone, at no path"),
            Self::MountTerminals { target } => write!(formatter, "devpts    {}", target.display()),
            Self::LeaveHost => {
                formatter.write_str("leave     the host's file system; / becomes read-only")
            }
            Self::NameHost { name } => write!(formatter, "hostname  {name}"),
        }
    }
}

fn write_remount(
    formatter: &mut fmt::Formatter<'_>,
    target: &std::path::Path,
    set: super::Attributes,
    clear: super::Attributes,
) -> fmt::Result {
    use super::Attributes;
    match (set, clear) {
        (Attributes::NONE, Attributes::NONE) => write!(formatter, "pin       {}", target.display()),
        (set, Attributes::NONE) => write!(formatter, "remount   {} (+{set})", target.display()),
        (_, clear) => write!(formatter, "remount   {} (-{clear})", target.display()),
    }
}
