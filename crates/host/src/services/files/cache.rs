//! A bounded map from paths.
//!
//! When it is full, entries are asked in turn: what was used since it was last asked has another turn,
//! what was not goes. So asking for many paths once does not drive out what is asked for often.

use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
    rc::Rc,
};

/// What an entry costs beside its path and what it says itself: map, headers, names.
const ENTRY_BYTES: usize = 2048;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Entries.
    pub(super) entries: usize,
    /// Memory, about.
    pub(super) bytes: usize,
}

/// The map.
#[derive(Debug)]
pub(super) struct Cache<T> {
    slots: HashMap<Rc<str>, Slot<T>>,
    /// Each path of `slots` once.
    turns: VecDeque<Rc<str>>,
    bytes: usize,
    bounds: Bounds,
}

#[derive(Debug)]
struct Slot<T> {
    value: T,
    bytes: usize,
    is_used: Cell<bool>,
}

impl<T> Cache<T> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            slots: HashMap::new(),
            turns: VecDeque::new(),
            bytes: 0,
            bounds,
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<&T> {
        let slot = self.slots.get(path)?;
        slot.is_used.set(true);
        Some(&slot.value)
    }

    /// Keeps a value, in place of the path's present one. One that is too big by itself is not kept.
    pub(super) fn insert(&mut self, path: &str, value: T, bytes: usize) {
        let bytes = bytes + path.len() + ENTRY_BYTES;
        if bytes > self.bounds.bytes || self.bounds.entries == 0 {
            self.remove(path);
            return;
        }
        if let Some(slot) = self.slots.get_mut(path) {
            self.bytes = self.bytes - slot.bytes + bytes;
            (slot.value, slot.bytes) = (value, bytes);
            slot.is_used.set(true);
            self.make_room(0, 0);
        } else {
            self.make_room(1, bytes);
            self.insert_new(path.into(), value, bytes);
        }
    }

    /// Drops what has to go for so much more.
    fn make_room(&mut self, entries: usize, bytes: usize) {
        while self.slots.len() + entries > self.bounds.entries
            || self.bytes + bytes > self.bounds.bytes
        {
            self.drop_one();
        }
    }

    fn insert_new(&mut self, path: Rc<str>, value: T, bytes: usize) {
        self.bytes += bytes;
        self.turns.push_back(Rc::clone(&path));
        let slot = Slot {
            value,
            bytes,
            is_used: Cell::new(false),
        };
        self.slots.insert(path, slot);
    }

    pub(super) fn remove(&mut self, path: &str) {
        if let Some(slot) = self.slots.remove(path) {
            self.bytes -= slot.bytes;
            self.turns.retain(|turn| **turn != *path);
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.turns.clear();
        self.bytes = 0;
    }

    fn drop_one(&mut self) {
        while let Some(path) = self.turns.pop_front() {
            match self.slots.get(&path) {
                Some(slot) if slot.is_used.replace(false) => self.turns.push_back(path),
                _ => {
                    let dropped = self.slots.remove(&path);
                    self.bytes -= dropped.map_or(0, |slot| slot.bytes);
                    return;
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        assert_eq!(self.slots.len(), self.turns.len());
        assert_eq!(
            self.slots.values().map(|slot| slot.bytes).sum::<usize>(),
            self.bytes
        );
        (self.slots.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        entries: 4,
        bytes: 5 * ENTRY_BYTES,
    };

    #[test]
    fn neither_bound_is_passed() {
        let mut cache = Cache::new(BOUNDS);
        for number in 0..1000 {
            cache.insert(
                &format!("/{number}"),
                number,
                number * 7 % (3 * ENTRY_BYTES),
            );
            let (entries, bytes) = cache.size();
            assert!((1..=BOUNDS.entries).contains(&entries) && bytes <= BOUNDS.bytes);
            assert_eq!(cache.get(&format!("/{number}")), Some(&number));
        }
        // What grows in its place drives out others.
        cache.insert("/999", 0, 4 * ENTRY_BYTES - 4);
        assert_eq!(cache.size(), (1, 5 * ENTRY_BYTES));
        cache.insert("/big", 0, BOUNDS.bytes);
        assert_eq!(cache.get("/big"), None);
    }

    #[test]
    fn what_is_asked_for_often_stays() {
        let mut cache = Cache::new(BOUNDS);
        cache.insert("/often", 0, 0);
        for number in 0..100 {
            assert_eq!(cache.get("/often"), Some(&0), "{number}");
            cache.insert(&format!("/{number}"), number, 0);
        }
    }

    #[test]
    fn a_path_is_there_once_however_often_it_comes_and_goes() {
        let mut cache = Cache::new(BOUNDS);
        for number in 0..100 {
            cache.insert("/a", number, number);
            assert_eq!(cache.size(), (1, number + 2 + ENTRY_BYTES));
            if number % 3 == 0 {
                cache.remove("/a");
                assert_eq!((cache.size(), cache.get("/a")), ((0, 0), None));
            }
        }
    }
}
