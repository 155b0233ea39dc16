//! Who this process is on this machine, and what a domain is ordered with for that.

use crate::wire;
use rustix::thread::CapabilitySet;

/// The guest's uid and gid inside a domain of root's.
const GUEST_ID: u32 = 1000;

/// In place of an init's pid and the time.
pub(crate) const NOBODY: (u32, u64) = (0, 0);

/// How much a domain of this process can be given. The first two are full walls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Root: namespaces, and for each domain a host uid of its own.
    Privileged,
    /// An ordinary user: namespaces by way of a user namespace.
    UserNamespace,
    /// No namespaces: Landlock and seccomp alone.
    Bare,
}

/// Who this process is, and what it may make of that: all that a domain is ordered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) tier: Tier,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Standing {
    /// Asks the kernel.
    pub(crate) fn of_this_process() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let tier = if uid == 0 && may_give_uids() {
            Tier::Privileged
        } else {
            Tier::UserNamespace
        };
        let gid = rustix::process::getegid().as_raw();
        Self { tier, uid, gid }
    }

    /// As root the guest is nobody in particular; an ordinary user's guest keeps the user's ids, so that its files look like its
    /// own. Without a user namespace there are no other ids to give.
    pub(crate) fn ids_inside(self) -> (u32, u32) {
        if self.tier == Tier::Bare {
            return (self.uid, self.gid);
        }
        let or_guest = |id| if id == 0 { GUEST_ID } else { id };
        (or_guest(self.uid), or_guest(self.gid))
    }
}

/// What a parked domain is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParkOrder {
    /// Give the domain a host uid and gid of its own.
    pub(crate) own_uid: bool,
    /// Make no namespaces: held by Landlock and seccomp alone.
    pub(crate) bare: bool,
    /// Domains follow one another: each end does not wait for the mounts to be taken down, and the next one is made then.
    pub(crate) ahead: bool,
    /// Uid inside the domain.
    pub(crate) uid: u32,
    /// Gid inside the domain.
    pub(crate) gid: u32,
}

impl ParkOrder {
    /// For a process of this standing.
    pub(crate) fn of(standing: Standing, ahead: bool) -> Self {
        let (uid, gid) = standing.ids_inside();
        Self {
            own_uid: standing.tier == Tier::Privileged,
            bare: standing.tier == Tier::Bare,
            ahead,
            uid,
            gid,
        }
    }

    /// Writes the words of a [`wire::KEEPER_PARK`], of a process with these effective ids.
    pub(crate) fn write(
        &self,
        (outer_uid, outer_gid): (u32, u32),
        (init, made_ns): (u32, u64),
        to: &mut dyn FnMut(usize, u64),
    ) {
        let made_of = if self.bare {
            wire::PARK_BARE
        } else {
            wire::PARK_NETWORK | wire::PARK_CGROUP
        };
        let own = if self.own_uid { wire::PARK_OWN_UID } else { 0 };
        let ahead = if self.ahead {
            wire::PARK_KEEP_MOUNTS | wire::PARK_FOLLOW
        } else {
            0
        };
        to(0, made_of | own | ahead);
        to(1, u64::from(self.uid));
        to(2, u64::from(self.gid));
        to(3, u64::from(outer_uid));
        to(4, u64::from(outer_gid));
        to(wire::PARK_AFTER, u64::from(init));
        to(wire::PARK_AFTER_MADE, made_ns);
    }
}

/// Whether this root is the host's: it has the capabilities, and the uids that domains get exist in
/// its user namespace. Root in a rootless container has neither.
fn may_give_uids() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETUID | CapabilitySet::SETGID;
    let held = rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed));
    held && std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_own_uids(&map))
}

fn maps_own_uids(uid_map: &str) -> bool {
    const MOST_PIDS: u64 = 1 << 22;
    let last = wire::OWN_UID_BASE + MOST_PIDS;
    uid_map.lines().any(|line| {
        let mut numbers = line
            .split_whitespace()
            .map(|number| number.parse::<u64>().unwrap_or(0));
        let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        first <= wire::OWN_UID_BASE && last <= first + count
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_keeps_its_ids_and_root_s_guest_is_nobody_in_particular() {
        let inside = |tier, uid, gid| Standing { tier, uid, gid }.ids_inside();
        assert_eq!(inside(Tier::UserNamespace, 1001, 1002), (1001, 1002));
        assert_eq!(inside(Tier::Privileged, 0, 0), (GUEST_ID, GUEST_ID));
        let without_its_powers = inside(Tier::UserNamespace, 0, 5);
        assert_eq!(without_its_powers, (GUEST_ID, 5));
    }

    #[test]
    fn only_a_map_that_has_the_uids_of_domains_counts() {
        assert!(maps_own_uids("         0          0 4294967295\n"));
        assert!(
            !maps_own_uids("0 1000 1\n1 100000 65536\n"),
            "a rootless container"
        );
        assert!(!maps_own_uids(""));
    }
}
