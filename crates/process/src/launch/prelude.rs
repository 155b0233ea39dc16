//! What a domain can have done before it knows its guest.

use super::{
    encode::{Steps, Writer, encode_confinement, encode_guest_ahead},
    mounts,
};
use crate::{
    Tier,
    plan::{Plan, StreamFiles},
};

/// The part of a launch that a parked domain has carried out, or shall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prelude {
    /// The instructions; none for a domain that only has its namespaces.
    pub(super) bytes: Vec<u8>,
    /// They end with the guest's process, which is confined and waits for its program.
    pub(super) has_guest: bool,
}

impl Prelude {
    /// Instructions must fit into one message to the keeper.
    const MOST_BYTES: usize = 60 * 1024;

    /// As much as can be done for the plan: the root, unless mounts come from the supervisor or a
    /// placeholder must be there first; the guest's process, unless it depends on more than the plan.
    /// `streams_need_init` where streams are more than passed on: an input file is opened anew before the
    /// host's paths are gone.
    pub(super) fn of(
        plan: &Plan,
        seccomp: &[u8],
        files: StreamFiles,
        streams_need_init: bool,
    ) -> Self {
        let root_depends_on_host = !plan.placeholders.is_empty() || mounts::are_needed(plan);
        if plan.tier == Tier::Bare || root_depends_on_host || streams_need_init {
            return Self::default();
        }
        let mut steps = Writer::with_room_for(&plan.steps);
        Steps::of(plan).encode(&mut steps);
        let mut bytes = steps.finish();
        // Mounts that are guarded are looked at once more before there is a guest.
        let has_guest = plan.guarded().is_empty()
            && !plan.terminal
            && !plan.passes_descriptors()
            && plan.cgroup.placements.is_empty()
            && files == StreamFiles::default();
        if has_guest {
            bytes.extend(encode_confinement(plan, seccomp, files, None));
            bytes.extend(encode_guest_ahead());
        }
        if bytes.len() > Self::MOST_BYTES {
            return Self::default();
        }
        // It is kept.
        bytes.shrink_to_fit();
        Self { bytes, has_guest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}
