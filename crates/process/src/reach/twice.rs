//! Grants that lead to the same files by two paths, of which one gives what the other withholds.
//!
//! The policy has compared names; here is compared what they stand for.

use super::Reach;
use crate::{host::Mounts, layout::Shown, paths::join, plan_error::PlanError};
use std::path::{Path, PathBuf};

/// What a mount of the guest's shows: its own file or folder, or what the host has mounted below that.
struct Part<'a> {
    shown: Shown<'a>,
    on_host: PathBuf,
    inside: PathBuf,
}

impl Reach<'_> {
    /// Refuses such grants.
    pub(crate) fn refuse_second_names(&self) -> Result<(), PlanError> {
        self.refuse_seen_names()?;
        if !self.layout.writes_to_host() {
            return Ok(());
        }
        self.read_mount_table()?;
        self.refuse_open_names()?;
        self.refuse_open_guards()?;
        self.refuse_open_meeting_places()?;
        self.refuse_executable_names()
    }

    pub(super) fn read_mount_table(&self) -> Result<&Mounts, PlanError> {
        if let Some(mounts) = self.mounts.get() {
            return Ok(mounts);
        }
        let mounts = self.host.mounts();
        let mounts =
            mounts.map_err(|errno| PlanError::missing(Path::new("/proc/self/mountinfo"), errno))?;
        Ok(self.mounts.get_or_init(|| Mounts::new(mounts)))
    }

    /// A hidden path that the guest sees by another name, or something in it.
    fn refuse_seen_names(&self) -> Result<(), PlanError> {
        if self.layout.hidden().next().is_some() {
            self.read_mount_table()?;
        }
        for (guest, on_host) in self.layout.hidden() {
            if self.layout.copies(on_host) {
                return Err(PlanError::SeenByAnotherName {
                    guest: guest.into(),
                    other: on_host.into(),
                });
            }
            let at_it = self.find_inside(on_host, self.layout.host_mounts());
            let mut at_it = at_it.into_iter();
            let seen = at_it.find(|(shown, inside)| self.layout.is_uncovered(*shown, inside));
            let seen = seen.map(|(_, inside)| inside);
            if let Some(other) = seen.or_else(|| self.find_seen_below(on_host)) {
                return Err(PlanError::SeenByAnotherName {
                    guest: guest.into(),
                    other,
                });
            }
        }
        Ok(())
    }

    /// A mount that shows something of what lies below a hidden path.
    fn find_seen_below(&self, on_host: &Path) -> Option<PathBuf> {
        let identity = self.identify(on_host);
        let mut shown = self.parts(self.layout.host_mounts());
        let seen = shown.find(|part| {
            let names = self.names(&part.on_host);
            !self.below(&names, on_host, identity).is_empty()
        });
        seen.map(|part| part.inside)
    }

    /// A protected path that the guest could change by another name.
    fn refuse_open_names(&self) -> Result<(), PlanError> {
        for (guest, on_host) in self.layout.protected() {
            let at_it = self.find_open(&on_host);
            if let Some(other) = at_it.or_else(|| self.find_open_below(guest, &on_host)) {
                return Err(PlanError::OpenByAnotherName {
                    guest: guest.into(),
                    other,
                });
            }
        }
        Ok(())
    }

    /// The same for what palisade guards of its own accord, but for what the policy grants by its own name.
    fn refuse_open_guards(&self) -> Result<(), PlanError> {
        for (guest, on_host) in self.layout.guarded() {
            let written = self.find_inside(&on_host, self.layout.write_grants());
            let mut open = written.into_iter().filter(|(shown, inside)| {
                !shown.found.canonical.starts_with(&on_host) && !self.layout.is_read_only(inside)
            });
            if let Some((_, other)) = open.next() {
                return Err(PlanError::GuardOpenByAnotherName {
                    guest: guest.into(),
                    other,
                });
            }
        }
        Ok(())
    }

    /// A folder for sockets into which the guest could move one of the host's: within one mount that is possible.
    fn refuse_open_meeting_places(&self) -> Result<(), PlanError> {
        for (guest, on_host) in self.layout.ipc_on_host() {
            let written = self.find_inside(&on_host, self.layout.write_grants());
            let mut open = written.into_iter().filter(|(shown, inside)| {
                self.layout.is_uncovered(*shown, inside) && !self.layout.is_for_sockets(inside)
            });
            if let Some((_, other)) = open.next() {
                return Err(PlanError::MeetingPlaceByAnotherName {
                    guest: guest.into(),
                    other,
                });
            }
        }
        Ok(())
    }

    /// What the guest could write by one path and execute by another, at which the same files are mounted to be read:
    /// `--read tools --write tools:/work`.
    fn refuse_executable_names(&self) -> Result<(), PlanError> {
        match self.find_executable() {
            Some((guest, other)) => Err(PlanError::ExecutableByAnotherName { guest, other }),
            None => Ok(()),
        }
    }

    /// The write grant, and the path to execute.
    fn find_executable(&self) -> Option<(PathBuf, PathBuf)> {
        let written = || {
            let grants = self.layout.write_grants();
            grants.filter(|grant| !self.layout.is_executable(grant.guest))
        };
        let is_met =
            |(shown, inside): &(Shown<'_>, PathBuf)| self.layout.is_uncovered(*shown, inside);
        // What is written lies in what is read, or what is read in what is written.
        let by_written = self.parts(written()).find_map(|part| {
            let read = self.find_inside(&part.on_host, self.layout.read_mounts());
            let executed = read.into_iter().find(is_met);
            executed.map(|(_, inside)| (part.shown.guest.into(), inside))
        });
        by_written.or_else(|| {
            let mut read = self.parts(self.layout.read_mounts());
            read.find_map(|part| {
                let by_write = self.find_inside(&part.on_host, written());
                let (grant, _) = by_write.into_iter().find(is_met)?;
                Some((grant.guest.into(), part.inside))
            })
        })
    }

    /// A path inside by which the guest could write to what lies at one of the host's.
    fn find_open(&self, on_host: &Path) -> Option<PathBuf> {
        let written = self.find_inside(on_host, self.layout.write_grants());
        let mut inside = written.into_iter().map(|(_, inside)| inside);
        inside.find(|inside| !self.layout.is_read_only(inside))
    }

    /// The same of what lies below a protected path. A grant nested in it at its own place was asked for.
    fn find_open_below(&self, protected: &Path, on_host: &Path) -> Option<PathBuf> {
        let identity = self.identify(on_host);
        let mut written = self.parts(self.layout.write_grants());
        let open = written.find(|part| {
            let below = self.below(&self.names(&part.on_host), on_host, identity);
            let mut own = below.iter().map(|below| join(protected, below));
            own.any(|own| own != part.inside)
        });
        open.map(|part| part.inside)
    }

    /// As far as nothing else is mounted over them inside.
    fn parts<'b>(
        &'b self,
        mounts: impl Iterator<Item = Shown<'b>> + 'b,
    ) -> impl Iterator<Item = Part<'b>> + 'b {
        mounts
            .flat_map(|shown| {
                let root = &shown.found.canonical;
                let mounted = self.mounts().points_below(root);
                std::iter::once(root.as_path())
                    .chain(mounted)
                    .map(move |on_host| Part {
                        shown,
                        on_host: on_host.into(),
                        inside: join(shown.guest, on_host.strip_prefix(root).unwrap_or(on_host)),
                    })
            })
            .filter(|part| self.layout.is_uncovered(part.shown, &part.inside))
    }
}

#[cfg(test)]
mod tests;
