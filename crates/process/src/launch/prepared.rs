//! What launches of one plan have in common, made once.

use super::{Launcher, prelude::Prelude};
use crate::{
    launch_error::LaunchError,
    layout::Layout,
    plan::{Identity, Plan, StreamFiles},
};
use std::sync::Arc;

/// For streams that are no files, of which most launches are.
#[derive(Debug)]
pub(crate) struct Prepared {
    of: Identity,
    /// The program of the system-call filter.
    pub(super) seccomp: Arc<[u8]>,
    pub(super) prelude: Arc<Prelude>,
    /// What a domain that is one of many keeps of the layout.
    pub(super) kept_layout: Arc<Layout>,
}

impl Prepared {
    /// `None` of a plan that has no file system of its own, and where no domain waits for a launch: a start takes milliseconds
    /// then, and this would be memory of each plan's. Nor of one whose guest gets some of the processors that the thread has
    /// which launches it.
    pub(crate) fn of(plan: &Plan, launcher: &Launcher) -> Result<Option<Self>, LaunchError> {
        let is_kept = launcher.parks_ahead && plan.affinity.is_none();
        let Some(layout) = plan.layout().filter(|_| is_kept) else {
            return Ok(None);
        };
        let files = StreamFiles::default();
        let seccomp = launcher.filter_of(plan, files)?;
        Ok(Some(Self {
            of: plan.identity.noted(),
            prelude: Arc::new(Prelude::of(plan, &seccomp, files, false)),
            seccomp,
            kept_layout: Arc::new(layout.without_contents()),
        }))
    }

    /// Whether it was made of this plan, whatever its arguments were, and no copy that may have been changed.
    pub(super) fn is_of(&self, plan: &Plan) -> bool {
        self.of.is(&plan.identity)
    }
}
