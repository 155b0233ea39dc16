//! A further grant of a file or folder, to a guest that runs.
//!
//! It is one mount, and nothing that was there before changes: no other mount is covered, and nothing that was granted for writing is
//! taken away. What takes more than that, takes a start.

use super::{HostPath, Layout, MountPoint, arrange, guard};
use crate::{
    host::{Found, Host, Kind},
    plan_error::PlanError,
    steps::Attributes,
};
use palisade_policy::{Access, FileGrant, Grants, Policy, PolicyError};
use std::path::{Path, PathBuf};

/// Why a guest that runs cannot be granted something.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub(crate) enum GrowError {
    #[error("{0} takes a start of the guest")]
    TakesAStart(&'static str),
    #[error("{} is granted already", .0.display())]
    IsGranted(PathBuf),
    #[error("the guest may execute what lies in {} already, and may not what it writes: grant that for writing as a whole, or at another start", .0.display())]
    IsExecuted(PathBuf),
    #[error("{} is protected", .0.display())]
    IsProtected(PathBuf),
    #[error("{} is hidden from the guest", .0.display())]
    IsHidden(PathBuf),
    #[error("{} is granted for writing, and a grant takes nothing away", .0.display())]
    TakesAway(PathBuf),
    #[error("{} lies below it, which the guest has already: name what it lacks", .0.display())]
    Covers(PathBuf),
    #[error("the guest has its own {}: grant it at another path with PATH:GUEST", .0.display())]
    IsOfTheDomain(PathBuf),
    #[error("git executes what lies in {}, so palisade would keep it from the guest, which takes a start", .0.display())]
    HoldsGit(PathBuf),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// What a grant takes: one mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Where, inside.
    pub(crate) guest: PathBuf,
    pub(crate) found: Found,
    pub(crate) attributes: Attributes,
    /// Whose files the guest shall own inside, where palisade runs as root.
    pub(crate) owner: Option<(u32, u32)>,
    /// Its permission bits let anybody use it.
    pub(crate) open_to_all: bool,
    /// A place to mount on may have to be made: all that leads there is the domain's own.
    pub(crate) may_make: bool,
    /// It lies in a folder that the guest writes to.
    pub(crate) is_among_own: bool,
}

impl Layout {
    /// More may be granted while the guest runs. What holds a guest that writes to the host's disk, and meets its sockets there,
    /// has to be there from the start.
    pub(crate) fn may_grow(&mut self) {
        self.grows = true;
    }

    /// The same with one grant more, for a guest that runs behind this one.
    ///
    /// # Errors
    ///
    /// When that is more than a mount, or cannot be granted at any time.
    pub(crate) fn grown(
        &self,
        grant: &FileGrant,
        host: &dyn Host,
    ) -> Result<(Self, Growth), GrowError> {
        let guest = grant.guest_path();
        refuse_what_takes_a_start(grant)?;
        alone(grant).validate()?;
        let mut grown = self.clone();
        grown.add_grant(grant, host)?;
        let Some(MountPoint::Host(source)) = grown.mount_points.get(guest) else {
            return Err(GrowError::TakesAStart("this"));
        };
        let source = source.clone();
        if !matches!(source.found.kind, Kind::File | Kind::Folder) {
            return Err(GrowError::TakesAStart("a socket or a FIFO"));
        }
        self.refuse_links(guest)?;
        self.refuse_what_is_there(guest, &source)?;
        grown.formerly.extend(self.covered_by(guest, &source));
        let around = self.host_path(guest.parent().unwrap_or(guest));
        if let Some(around) = &around {
            let point = around.join(guest.file_name().unwrap_or_default());
            arrange::check_place(host, guest, &point, source.found.kind)?;
        }
        if source.writable {
            self.refuse_guards(host, &source.found)?;
        }
        grown.refuse_links_in_grant((guest, &source), host)?;
        let growth = Growth {
            guest: guest.into(),
            attributes: grown.attributes(guest, &source),
            owner: arrange::owner_to_map(host, &source),
            open_to_all: arrange::is_open_to_all(&source.found, source.writable),
            may_make: around.is_none() && !self.has_root(),
            is_among_own: self.is_among_own(guest),
            found: source.found,
        };
        Ok((grown, growth))
    }

    /// The same without what lies at a path, where there is what there was before.
    pub(crate) fn put_back(&mut self, guest: &Path, before: &Self) {
        if let Some(MountPoint::Host(place)) = self.mount_points.get(guest)
            && place.writable
        {
            self.formerly.push(place.clone());
        }
        match before.mount_points.get(guest) {
            Some(place) => drop(self.mount_points.insert(guest.into(), place.clone())),
            None => drop(self.mount_points.remove(guest)),
        }
    }

    /// The same with what the guest may hold open for writing, at paths of nobody's.
    pub(crate) fn with_former(&self) -> Self {
        let mut all = self.clone();
        for (number, place) in self.formerly.iter().enumerate() {
            let nowhere = PathBuf::from(format!("/.formerly-granted/{number}"));
            all.mount_points
                .insert(nowhere, MountPoint::Host(place.clone()));
        }
        all
    }

    fn is_among_own(&self, guest: &Path) -> bool {
        let is_private = |path: &Path| self.mount_points.get(path) == Some(&MountPoint::Private);
        guest.ancestors().skip(1).any(is_private)
    }

    /// What of the host's is not found at a path any more, and may be open.
    fn covered_by(&self, guest: &Path, wanted: &HostPath) -> Option<HostPath> {
        let is_same = self.host_path(guest).as_ref() == Some(&wanted.found.canonical);
        match self.nearest(guest.ancestors()) {
            Some((_, MountPoint::Host(host))) if !is_same => Some(host.clone()),
            _ => None,
        }
    }

    fn refuse_what_is_there(&self, guest: &Path, wanted: &HostPath) -> Result<(), GrowError> {
        let mut places = self.mount_points.keys().chain(self.ipc.iter());
        let below = places.find(|place| *place != guest && place.starts_with(guest));
        if let Some(below) = below {
            return Err(match self.is_hidden(below) {
                true => GrowError::IsHidden(below.clone()),
                false => GrowError::Covers(below.clone()),
            });
        }
        let own = || Err(GrowError::IsOfTheDomain(guest.into()));
        // Landlock lets the guest make sockets and FIFOs wherever it may in such a folder.
        if wanted.writable && self.is_among_own(guest) {
            return Err(GrowError::TakesAStart(
                "to write below the guest's own /tmp or /dev/shm",
            ));
        }
        let is_same = self.host_path(guest).as_ref() == Some(&wanted.found.canonical);
        match self.nearest(guest.ancestors()) {
            Some((_, MountPoint::Host(host))) if host.granted && host.writable => {
                match wanted.writable && is_same {
                    true => Err(GrowError::IsGranted(guest.into())),
                    false => Err(GrowError::TakesAway(guest.into())),
                }
            }
            // A folder that is open there is one of the mount below.
            Some((place, MountPoint::Host(_)))
                if wanted.writable && is_same && place != guest && !self.is_executable(guest) =>
            {
                Err(GrowError::IsExecuted(place.into()))
            }
            Some((_, MountPoint::Host(host))) if host.granted && !wanted.writable && is_same => {
                Err(GrowError::IsGranted(guest.into()))
            }
            Some((_, MountPoint::Host(_))) => Ok(()),
            Some((place, MountPoint::Private)) if place == guest => own(),
            Some((_, MountPoint::Private)) | None => Ok(()),
            Some((_, MountPoint::Protected)) => Err(GrowError::IsProtected(guest.into())),
            Some((_, MountPoint::Hidden(_))) => Err(GrowError::IsHidden(guest.into())),
            Some((_, MountPoint::Own | MountPoint::Executable)) => own(),
        }
    }

    fn refuse_guards(&self, host: &dyn Host, found: &Found) -> Result<(), GrowError> {
        let is_guarded = self.keeps_git && found.kind == Kind::Folder;
        let mut guards = is_guarded
            .then(|| guard::of_folder(host, &found.canonical))
            .into_iter()
            .flatten();
        guards
            .next()
            .map_or(Ok(()), |path| Err(GrowError::HoldsGit(path)))
    }
}

/// A policy of nothing else.
fn alone(grant: &FileGrant) -> Policy {
    Policy {
        grants: Grants {
            files: vec![grant.clone()],
            ..Grants::nothing()
        },
        ..Policy::default()
    }
}

fn refuse_what_takes_a_start(grant: &FileGrant) -> Result<(), GrowError> {
    let what = match grant.access {
        _ if grant.is_root() => "a root",
        Access::Read | Access::Write => return Ok(()),
        Access::ReadIfThere => "what may be missing",
        Access::Protect => "--protect",
        Access::Hide => "--hide",
        Access::Exec => "--exec",
        Access::Ipc => "--ipc",
    };
    Err(GrowError::TakesAStart(what))
}
