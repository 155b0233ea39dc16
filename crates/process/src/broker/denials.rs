//! What is denied to a container, written down: a line of JSON each, once, up to a bound. A guest may try as much as it likes.

use crate::lock::lock;
use palisade_network::{Observation, Observations};
use palisade_wall::journal::Entry;
use std::{
    collections::BTreeSet,
    fs::File,
    io::Write as _,
    sync::{Arc, Mutex},
};

/// So many different ones.
const MOST: usize = 256;

/// Where they are told.
#[derive(Debug)]
pub(crate) struct Denials {
    file: Mutex<File>,
    told: Mutex<BTreeSet<(String, String)>>,
}

impl Denials {
    pub(crate) fn to(file: File) -> Arc<Self> {
        Arc::new(Self {
            file: Mutex::new(file),
            told: Mutex::default(),
        })
    }

    /// Tells what this gives, unless the same call was told of with the same target; beyond the bound that there was more.
    pub(super) fn tell(&self, call: &str, target: &str, entry: impl FnOnce() -> Entry) {
        let is_one_more = {
            let mut told = lock(&self.told);
            let what = (call.to_owned(), target.to_owned());
            if told.len() > MOST || !told.insert(what) {
                return;
            }
            told.len() > MOST
        };
        let entry = match is_one_more {
            true => Entry::Lost { count: 1 },
            false => entry(),
        };
        if let Ok(line) = serde_json::to_string(&entry) {
            // A disk that is full keeps nobody from what is granted.
            let _ = lock(&self.file).write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// Those of the network, told as they are denied.
pub(crate) fn observations(denials: &Arc<Denials>) -> Observations {
    let denials = Arc::clone(denials);
    Observations::of_refusals().heard_by(false, move |one: &Observation| {
        if !one.probe {
            let (call, target) = (one.call.to_string(), one.target.to_string());
            denials.tell(&call, &target, || super::verdict_on(one));
        }
    })
}
