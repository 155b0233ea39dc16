//! Whether a guest that runs may be granted a file or folder.

use crate::{
    host::Host,
    layout::{GrowError, Growth, Layout},
    plan_error::PlanError,
    reach::Reach,
    steps::Attributes,
};
use palisade_policy::{Access, FileGrant};
use palisade_wall::Relied;
use std::path::PathBuf;

/// Why it may not.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub(crate) enum NotGranted {
    #[error("the guest can change what {} leads to: name it by a path that leads through nothing of the guest's", .0.display())]
    IsChangeable(PathBuf),
    #[error("the guest may hold open what lies in {}, and execute it, and may not what it writes: grant it at another start", .0.display())]
    IsExecuted(PathBuf),
    #[error("the guest could change {}, which is used outside of the wall", .0.display())]
    IsReliedOn(PathBuf),
    #[error(transparent)]
    Grow(#[from] GrowError),
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The layout with it, and the mount that it takes. `relied` is used outside of the wall.
pub(crate) fn decide(
    layout: &Layout,
    grant: &FileGrant,
    relied: &[PathBuf],
    host: &dyn Host,
) -> Result<(Layout, Growth), NotGranted> {
    refuse_changeable(layout, grant, host)?;
    let (grown, mut growth) = layout.grown(grant, host)?;
    let reach = Reach::new(&grown, host);
    if grant.access == Access::Write
        && let Some(relied) = reach.find(relied.iter().cloned().map(Relied::Content))
    {
        return Err(NotGranted::IsReliedOn(relied.into_path()));
    }
    reach.refuse_second_names()?;
    // What it holds open of former grants it can still write to, or execute.
    let with_former = grown.with_former();
    match Reach::new(&with_former, host).refuse_second_names() {
        Ok(()) => Ok((grown, growth)),
        Err(_) if grant.access == Access::Write => Err(NotGranted::IsExecuted(grant.host.clone())),
        Err(_) => {
            growth.attributes = growth.attributes | Attributes::NOEXEC;
            Ok((grown, growth))
        }
    }
}

/// Where the guest can write, it chooses what a path leads to.
fn refuse_changeable(
    layout: &Layout,
    grant: &FileGrant,
    host: &dyn Host,
) -> Result<(), NotGranted> {
    let found = host.find(&grant.host);
    let found = found.map_err(|errno| PlanError::missing(&grant.host, errno))?;
    let is_own = layout.host_path(grant.guest_path()).as_ref() == Some(&found.canonical);
    let with_former = layout.with_former();
    let reach = Reach::new(&with_former, host);
    match !is_own && reach.can_change(&Relied::Place(grant.host.clone())) {
        true => Err(NotGranted::IsChangeable(grant.host.clone())),
        false => Ok(()),
    }
}
