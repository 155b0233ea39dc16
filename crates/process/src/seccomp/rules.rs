//! Rules by the numbers of their calls.

use super::filter::Rule;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// How many of the lowest numbers have a place of their own. The kernel's table is shorter.
const PLACES: u32 = 512;

/// At most one rule for a call. A list of what a guest may call is made at every start, of some four hundred rules: each has a place
/// by its number, and no tree grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    places: Box<[Option<Rule>]>,
    /// Those of higher numbers, which are nobody's.
    others: BTreeMap<u32, Rule>,
}

impl Rules {
    pub(super) fn new() -> Self {
        Self {
            places: (0..PLACES).map(|_| None).collect(),
            others: BTreeMap::new(),
        }
    }

    /// Puts a rule in the place of what was there before.
    pub(super) fn insert(&mut self, number: u32, rule: Rule) {
        match self.places.get_mut(number as usize) {
            Some(place) => *place = Some(rule),
            None => drop(self.others.insert(number, rule)),
        }
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Rule> {
        match self.places.get_mut(number as usize) {
            Some(place) => place.take(),
            None => self.others.remove(&number),
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&Rule> {
        match self.places.get(number as usize) {
            Some(place) => place.as_ref(),
            None => self.others.get(&number),
        }
    }

    /// By ascending number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Rule)> {
        let placed = (0..).zip(&self.places);
        let placed = placed.filter_map(|(number, place)| Some((number, place.as_ref()?)));
        placed.chain(self.others.iter().map(|(number, rule)| (*number, rule)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Rule)> {
        let placed = (0..).zip(&mut self.places);
        let placed = placed.filter_map(|(number, place)| Some((number, place.as_mut()?)));
        let others = self.others.iter_mut();
        placed.chain(others.map(|(number, rule)| (*number, rule)))
    }
}

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::Action;

    #[test]
    fn rules_are_by_ascending_number_and_the_last_one_counts() {
        let mut rules = Rules::new();
        for number in [PLACES, 7, u32::MAX, 0, PLACES - 1, 7] {
            rules.insert(number, Action::Errno(number as u16).into());
            rules.insert(number, Action::Allow.into());
        }
        let numbers: Vec<u32> = rules.iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [0, 7, PLACES - 1, PLACES, u32::MAX]);
        assert!(rules.iter().all(|(_, rule)| *rule == Action::Allow.into()));
        let changed = rules.iter_mut().map(|(number, _)| number);
        assert!(changed.eq(numbers));
    }

    #[test]
    fn a_rule_is_found_and_taken_wherever_it_lies() {
        for number in [0, PLACES - 1, PLACES, u32::MAX] {
            let mut rules = Rules::new();
            assert_eq!(rules.get(number), None);
            rules.insert(number, Action::Kill.into());
            assert_eq!(rules.get(number), Some(&Action::Kill.into()));
            assert_eq!(rules.remove(number), Some(Action::Kill.into()));
            assert_eq!(rules, Rules::new());
        }
    }

    #[test]
    fn the_kernel_s_calls_have_places() {
        let known = libc::SYS_clone3.max(libc::SYS_openat2);
        assert!(known < i64::from(PLACES));
    }
}
