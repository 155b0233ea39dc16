//! Which members have series of their own, where there are too many for each to have some.
//!
//! ```text
//!  what each has counted ──observe──▶ growth since the last look ──▶ its own series   it has a place
//!                                                                └──▶ "(others)"      it has none
//! ```
//!
//! A counter of Prometheus never goes down. So what is divided is growth: a member that gets a place begins to count in
//! its own series, and what it did before stays in the series of the others. One that loses its place leaves its
//! series, and goes on there if it gets a place again. All series together are what all members did.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How often the least active member with a place may have to give it up. New series cost whoever stores them.
const REVIEW: Duration = Duration::from_secs(600);
/// The part of all places that one review may give to others.
const MOST_MOVED: usize = 4;
/// So many times as active has a member without a place to be as the one that gives its own up.
const CLEARLY_MORE: u64 = 2;

/// What has a place or none. Members without one are counted together by their group.
pub(super) trait Member: Clone + Ord {
    /// Whose series of the others it counts in.
    type Group: Copy + Ord;

    /// Its group.
    fn group(&self) -> Self::Group;

    /// How much it has done, by what it has counted.
    fn activity(counts: &[u64]) -> u64;
}

/// The members, `N` counters of each.
#[derive(Debug)]
pub(super) struct Places<M: Member, const N: usize> {
    known: BTreeMap<M, Known<N>>,
    others: BTreeMap<M::Group, [u64; N]>,
    reviewed: Option<Instant>,
}

#[derive(Debug)]
struct Known<const N: usize> {
    /// What it had counted at the last look.
    last: [u64; N],
    /// What of that it counted while it had a place.
    own: [u64; N],
    has_place: bool,
    /// Its activity up to the last review.
    reviewed: u64,
}

impl<M: Member, const N: usize> Default for Places<M, N> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            others: BTreeMap::new(),
            reviewed: None,
        }
    }
}

impl<const N: usize> Default for Known<N> {
    fn default() -> Self {
        Self {
            last: [0; N],
            own: [0; N],
            has_place: false,
            reviewed: 0,
        }
    }
}

impl<const N: usize> Known<N> {
    /// What it has counted since the last look. A member that was put in another's place may begin below: what is not
    /// known is not made up.
    fn grow(&mut self, counts: &[u64; N]) -> [u64; N] {
        let last = std::mem::replace(&mut self.last, *counts);
        std::array::from_fn(|at| counts[at].saturating_sub(last[at]))
    }
}

fn add<const N: usize>(sums: &mut [u64; N], more: &[u64; N]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

impl<M: Member, const N: usize> Places<M, N> {
    /// Notes what every member has counted by now, in order, and decides which of them have the `most` places.
    pub(super) fn observe(&mut self, members: &[(M, [u64; N])], most: usize, now: Instant) {
        let is_there = |member: &M| members.binary_search_by(|(other, _)| other.cmp(member));
        self.known.retain(|member, _| is_there(member).is_ok());
        for (member, _) in members {
            if !self.known.contains_key(member) {
                self.known.insert(member.clone(), Known::default());
            }
        }
        self.seat(members, most, now);
        for (member, counts) in members {
            self.count(member, counts);
        }
    }

    /// A member is forgotten. What it did last still counts.
    pub(super) fn leave(&mut self, member: &M, counts: &[u64; N]) {
        self.count(member, counts);
        self.known.remove(member);
    }

    /// What this member's own series have counted; `None`: it has none.
    pub(super) fn own(&self, member: &M) -> Option<&[u64; N]> {
        let known = self.known.get(member)?;
        known.has_place.then_some(&known.own)
    }

    /// What the series of the others have counted, if any did in this group.
    pub(super) fn others(&self, group: M::Group) -> Option<&[u64; N]> {
        self.others.get(&group)
    }

    fn count(&mut self, member: &M, counts: &[u64; N]) {
        let Some(known) = self.known.get_mut(member) else {
            return;
        };
        let grown = known.grow(counts);
        match known.has_place {
            true => add(&mut known.own, &grown),
            false => add(self.others.entry(member.group()).or_insert([0; N]), &grown),
        }
    }

    fn seat(&mut self, members: &[(M, [u64; N])], most: usize, now: Instant) {
        let is_due = |then: Instant| now.saturating_duration_since(then) >= REVIEW;
        let is_review = self.reviewed.is_none_or(is_due);
        if members.len() <= most {
            self.known
                .values_mut()
                .for_each(|known| known.has_place = true);
        } else {
            let mut seats = self.seats(members);
            seats.shrink_to(most);
            seats.fill_up_to(most);
            if is_review {
                seats.exchange(most.div_ceil(MOST_MOVED));
            }
        }
        if is_review {
            self.reviewed = Some(now);
            for (known, (_, counts)) in self.known.values_mut().zip(members) {
                known.reviewed = M::activity(counts);
            }
        }
    }

    /// All members, with and without a place, the more active the later. `members` are all that are known, in order.
    fn seats(&mut self, members: &[(M, [u64; N])]) -> Seats<'_> {
        let known = self.known.values_mut().zip(members);
        let all = known.map(|(known, (_, counts))| {
            let activity = M::activity(counts).saturating_sub(known.reviewed);
            (activity, &mut known.has_place)
        });
        let (mut seated, mut standing): (Vec<_>, Vec<_>) = all.partition(|(_, has)| **has);
        // Who comes later in order stands nearer to the door: equals have their places by order.
        standing.reverse();
        seated.reverse();
        standing.sort_by_key(|(activity, _)| *activity);
        seated.sort_by_key(|(activity, _)| *activity);
        Seats { seated, standing }
    }
}

/// Members by their activity since the last review, the most active last.
struct Seats<'a> {
    seated: Vec<(u64, &'a mut bool)>,
    standing: Vec<(u64, &'a mut bool)>,
}

impl Seats<'_> {
    /// The least active give their places up where there are fewer than before.
    fn shrink_to(&mut self, most: usize) {
        let too_many = self.seated.len().saturating_sub(most);
        for (_, has_place) in self.seated.drain(..too_many) {
            *has_place = false;
        }
    }

    /// Free places are for the most active; nobody who does nothing takes one.
    fn fill_up_to(&mut self, most: usize) {
        while self.seated.len() < most
            && let Some((activity, has_place)) = self.standing.pop_if(|(activity, _)| *activity > 0)
        {
            *has_place = true;
            let at = self.seated.partition_point(|(other, _)| *other <= activity);
            self.seated.insert(at, (activity, has_place));
        }
    }

    /// The least active hand their places over to those who are clearly more active.
    fn exchange(self, most_moved: usize) {
        let pairs = self.seated.into_iter().zip(self.standing.into_iter().rev());
        for ((less, leaves), (more, comes)) in pairs.take(most_moved) {
            if more <= less.saturating_mul(CLEARLY_MORE) {
                return;
            }
            *leaves = false;
            *comes = true;
        }
    }
}

#[cfg(test)]
mod tests;
