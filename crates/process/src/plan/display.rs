//! The plan for people: a line a step. A path with a line break in it makes no second one.

use super::{Plan, profile::CHROMIUM_SCRIPT};
use palisade_policy::write_line;
use palisade_wall::ChromiumFlags;
use palisade_wall::Level;
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_line(
            formatter,
            format_args!("run       {}", self.command.join(" ")),
        )?;
        write_line(
            formatter,
            format_args!("as        uid {}, gid {} inside", self.uid, self.gid),
        )?;
        write_line(
            formatter,
            format_args!("in        {}", self.guest_cwd().display()),
        )?;
        for placeholder in &self.placeholders {
            let path = placeholder.path.display();
            let kind = if placeholder.folder { "folder" } else { "file" };
            let line = match placeholder.to_fill {
                true => {
                    format!("make      the folder {path} on the host")
                }
                false => format!("hold      {path} on the host by an empty {kind}"),
            };
            write_line(formatter, format_args!("{line}"))?;
        }
        for step in self.steps.iter() {
            write_line(formatter, format_args!("{step}"))?;
        }
        if let Some(home) = &self.writable_home {
            let home = home.display();
            write_line(
                formatter,
                format_args!(
                    "warning   all of {home} is granted for writing, start-up files and keys too"
                ),
            )?;
        }
        for path in &self.absent {
            let path = path.display();
            write_line(
                formatter,
                format_args!("absent    {path} is not there: nothing is granted"),
            )?;
        }
        if let Some(folder) = &self.temporary {
            let folder = folder.display();
            write_line(
                formatter,
                format_args!("temporary a folder in {folder}, removed at the end"),
            )?;
        }
        if !self.kept_for_git.is_empty() {
            let paths = self.kept_for_git.iter().map(|path| path.to_string_lossy());
            let paths: Vec<_> = paths.collect();
            write_line(
                formatter,
                format_args!(
                    "keep      what git executes outside, unless --no-guard is given: {}",
                    paths.join(", ")
                ),
            )?;
        }
        if let Some(flags) = self.chromium_flags {
            self.write_chromium(formatter, flags)?;
        }
        for rule in self.network.to_string().lines() {
            write_line(formatter, format_args!("network   {rule}"))?;
        }
        for listener in &self.handed {
            let kind = if listener.internet { "tcp" } else { "local" };
            write_line(
                formatter,
                format_args!("network   pass on the {kind} socket {}", listener.name),
            )?;
        }
        if self.inherits_listeners {
            write_line(
                formatter,
                format_args!("network   pass on the sockets of LISTEN_FDS"),
            )?;
        }
        self.write_confinement(formatter)?;
        for row in self.enforcement.iter() {
            let level = match row.actual {
                Level::Full => "full",
                Level::Degraded => "DEGRADED",
                Level::None => "NONE",
            };
            write_line(
                formatter,
                format_args!(
                    "enforce   {:<11}{:<30} {level:<9}{}",
                    row.capability, row.requested, row.mechanism
                ),
            )?;
        }
        Ok(())
    }
}

impl Plan {
    fn write_chromium(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        flags: ChromiumFlags,
    ) -> fmt::Result {
        match flags {
            ChromiumFlags::Set => write_line(
                formatter,
                format_args!(
                    "chromium  {CHROMIUM_SCRIPT} sets --no-sandbox: its own sandbox needs user namespaces, which no guest \
                     makes; this wall is around all of it"
                ),
            ),
            ChromiumFlags::NoPlace => write_line(
                formatter,
                format_args!(
                    "chromium  no flag is set, for the domain has no place in /etc/chromium.d: give --no-sandbox yourself"
                ),
            ),
        }
    }

    fn write_confinement(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for limit in &*self.rlimits {
            write_line(
                formatter,
                format_args!("limit     {} {}", limit.name, limit.value),
            )?;
        }
        if let Some(processors) = self.affinity {
            write_line(formatter, format_args!("limit     processors {processors}"))?;
        }
        for placement in &self.cgroup.placements {
            for setting in &placement.settings {
                let parent = placement.parent.display();
                write_line(
                    formatter,
                    format_args!(
                        "cgroup    {parent}/{}* {} = {}",
                        placement.prefix, setting.file, setting.value
                    ),
                )?;
            }
        }
        write_line(
            formatter,
            format_args!("drop      every capability; no new privileges; new session keyring"),
        )?;
        if let Some(landlock) = &self.landlock {
            let paths: Vec<_> = landlock
                .rules
                .iter()
                .map(|rule| format!("{} {:#x}", rule.path.display(), rule.rights))
                .collect();
            write_line(
                formatter,
                format_args!(
                    "landlock  deny files {:#x}, tcp {:#x}, scopes {:#x}; except {}",
                    landlock.files,
                    landlock.network,
                    landlock.scopes,
                    paths.join(", ")
                ),
            )?;
            if self.special_files_ruled() {
                let words =
                    "landlock  its rights on files hold who makes sockets and FIFOs for the guest";
                write_line(formatter, format_args!("{words}"))?;
            }
        }
        if let Some(groups) = &self.seccomp {
            write_line(
                formatter,
                format_args!(
                    "seccomp   {}",
                    crate::seccomp::allow_list(groups).describe()
                ),
            )?;
        }
        let environment: Vec<_> = self.environment.shown().collect();
        write_line(
            formatter,
            format_args!("env       {}", environment.join(" ")),
        )?;
        let candidates: Vec<_> = self
            .candidates
            .iter()
            .map(|path| path.to_string_lossy())
            .collect();
        write_line(
            formatter,
            format_args!("exec      {}", candidates.join(" or ")),
        )
    }
}
