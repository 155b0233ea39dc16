//! What is denied to a container, written down: a line of JSON each, once, up to a bound. A guest may try as much as it likes.

use crate::lock::lock;
use palisade_network::{Observation, Observations};
use palisade_policy::visible_json;
use palisade_wall::journal::Entry;
use std::{
    collections::BTreeMap,
    fs::File,
    io::Write as _,
    sync::{Arc, Mutex},
};

/// So many different ones of the network, and so many that filters refuse: neither leaves no room for the other.
const MOST: usize = 256;
/// Of those that filters refuse so many of one call.
const MOST_OF_CALL: usize = 8;

/// Where they are told.
#[derive(Debug)]
pub(crate) struct Denials {
    file: Mutex<File>,
    of_network: Mutex<Told>,
    refused: Mutex<Told>,
}

/// What was told of, by call and target.
#[derive(Debug, Default)]
struct Told {
    calls: BTreeMap<String, Vec<String>>,
    count: usize,
    is_full: bool,
}

/// Whether something is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    Yes,
    /// For the first time that there is more.
    ThereIsMore,
    No,
}

impl Told {
    fn add(&mut self, call: &str, target: &str, most_of_call: usize) -> Telling {
        let targets = self.calls.get(call).map_or(&[][..], Vec::as_slice);
        if targets.iter().any(|known| known == target) {
            return Telling::No;
        }
        if self.count < MOST && targets.len() < most_of_call {
            self.count += 1;
            let targets = self.calls.entry(call.to_owned()).or_default();
            targets.push(target.to_owned());
            return Telling::Yes;
        }
        match std::mem::replace(&mut self.is_full, true) {
            true => Telling::No,
            false => Telling::ThereIsMore,
        }
    }
}

impl Denials {
    pub(crate) fn to(file: File) -> Arc<Self> {
        Arc::new(Self {
            file: Mutex::new(file),
            of_network: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    /// Tells of a call that a filter refuses.
    pub(super) fn refused(&self, call: &str, target: &str, entry: impl FnOnce() -> Entry) {
        let telling = lock(&self.refused).add(call, target, MOST_OF_CALL);
        self.tell(telling, entry);
    }

    fn of_network(&self, one: &Observation) {
        let (call, target) = (one.call.to_string(), one.target.to_string());
        let telling = lock(&self.of_network).add(&call, &target, MOST);
        self.tell(telling, || super::verdict_on(one));
    }

    fn tell(&self, telling: Telling, entry: impl FnOnce() -> Entry) {
        let entry = match telling {
            Telling::Yes => entry(),
            Telling::ThereIsMore => Entry::Lost { count: 1 },
            Telling::No => return,
        };
        if let Ok(line) = serde_json::to_string(&entry) {
            let line = format!("{}\n", visible_json(&line));
            // A disk that is full keeps nobody from what is granted.
            let _ = lock(&self.file).write_all(line.as_bytes());
        }
    }
}

/// Those of the network, told as they are denied.
pub(crate) fn observations(denials: &Arc<Denials>) -> Observations {
    let denials = Arc::clone(denials);
    Observations::of_refusals().heard_by(false, move |one: &Observation| {
        if !one.probe {
            denials.of_network(one);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_leaves_room_for_others() {
        let mut told = Told::default();
        for number in 0..MOST_OF_CALL {
            let target = number.to_string();
            assert_eq!(told.add("ioctl", &target, MOST_OF_CALL), Telling::Yes);
            assert_eq!(told.add("ioctl", &target, MOST_OF_CALL), Telling::No);
        }
        assert_eq!(
            told.add("ioctl", "more", MOST_OF_CALL),
            Telling::ThereIsMore
        );
        assert_eq!(told.add("ioctl", "still more", MOST_OF_CALL), Telling::No);
        assert_eq!(told.add("mount", "", MOST_OF_CALL), Telling::Yes);
    }

    #[test]
    fn there_is_a_bound_on_all() {
        let mut told = Told::default();
        for number in 0..MOST {
            assert_eq!(told.add("connect", &number.to_string(), MOST), Telling::Yes);
        }
        assert_eq!(told.add("bind", "one", MOST), Telling::ThereIsMore);
        assert_eq!(told.add("bind", "two", MOST), Telling::No);
    }
}
