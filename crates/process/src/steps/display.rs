//! A step for people: a line. A path with a line break in it makes no second one.

use super::{Attributes, Step};
use palisade_policy::visible;
use std::{fmt, path::Path};

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&visible(&Raw(self).to_string()))
    }
}

/// A step with paths as they are.
struct Raw<'a>(&'a Step);

impl fmt::Display for Raw<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Step::MakeRoot { size_bytes, inodes } => {
                write!(formatter, "tmpfs     / {size_bytes} bytes, {inodes} files")
            }
            Step::MakeFolder { path, mode } => {
                write!(formatter, "folder    {} {mode:o}", path.display())
            }
            Step::MakeSymlink { path, target } => {
                write!(
                    formatter,
                    "symlink   {} -> {}",
                    path.display(),
                    target.display()
                )
            }
            Step::WriteFile {
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
            Step::Mount {
                source,
                attributes,
                target,
                ..
            } if source == target => {
                write!(formatter, "mount     {} ({attributes})", target.display())
            }
            Step::Mount {
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
            Step::Remount { target, set, clear } => write_remount(formatter, target, *set, *clear),
            Step::Hide { target, names, .. } => {
                let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
                write!(
                    formatter,
                    "hide      in {}: {}",
                    target.display(),
                    names.join(", ")
                )
            }
            Step::Cover { target, .. } => write!(formatter, "cover     {}", target.display()),
            Step::Watch { target } => write!(formatter, "watch     {}", target.display()),
            Step::Guard { targets } => {
                let paths: Vec<_> = targets.iter().map(|path| path.to_string_lossy()).collect();
                write!(
                    formatter,
                    "guard     end the domain when one is moved, replaced or removed outside: {}",
                    paths.join(", ")
                )
            }
            Step::MountProc { target } => write!(
                formatter,
                "proc      {} (ro,nosuid,nodev,noexec)",
                target.display()
            ),
            Step::OpenProc => formatter.write_str("proc      for init alone, at no path"),
            Step::MountTerminals { target } => write!(formatter, "devpts    {}", target.display()),
            Step::Show { source, target, .. } => write!(
                formatter,
                "show      {} at {}",
                source.display(),
                target.display()
            ),
            Step::LeaveHost { root: None } => {
                formatter.write_str("leave     the host's file system; / becomes read-only")
            }
            Step::LeaveHost { root: Some(root) } => {
                write!(
                    formatter,
                    "leave     the host's file system; {} becomes /",
                    root.display()
                )
            }
            Step::NameHost { name } => write!(formatter, "hostname  {name}"),
        }
    }
}

fn write_remount(
    formatter: &mut fmt::Formatter<'_>,
    target: &Path,
    set: Attributes,
    clear: Attributes,
) -> fmt::Result {
    match (set, clear) {
        (Attributes::NONE, Attributes::NONE) => write!(formatter, "pin       {}", target.display()),
        (set, Attributes::NONE) => write!(formatter, "remount   {} (+{set})", target.display()),
        (_, clear) => write!(formatter, "remount   {} (-{clear})", target.display()),
    }
}
