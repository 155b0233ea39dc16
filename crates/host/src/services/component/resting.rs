//! Components of a worker that keep what they answer with: what was not asked for longest gives it up.
//!
//! Each takes a few KiB for its clients, bounds and contexts, which are made anew in some µs.

use super::ComponentService;
use std::{
    cell::RefCell,
    collections::VecDeque,
    rc::{Rc, Weak},
};

/// On each worker.
const MOST: usize = 1024;

thread_local! {
    /// The one that began first, or was asked for when it was to go, comes last.
    static LIVE: RefCell<VecDeque<Weak<ComponentService>>> = const { RefCell::new(VecDeque::new()) };
}

/// A component has begun; another one rests if there are too many.
pub(super) fn note(service: &Rc<ComponentService>) {
    let resting = LIVE.with_borrow_mut(|live| {
        live.push_back(Rc::downgrade(service));
        take_resting(live)
    });
    // Not while they are looked at: what is dropped may tell its host something.
    drop(resting);
}

/// What is to go. Each may be asked once more, so that this ends.
fn take_resting(live: &mut VecDeque<Weak<ComponentService>>) -> Option<Rc<super::Live>> {
    for _ in 0..2 * live.len() {
        if live.len() <= MOST {
            return None;
        }
        let oldest = live.pop_front()?;
        let Some(service) = oldest.upgrade() else {
            continue;
        };
        let is_used = service.is_used.replace(false);
        let is_idle =
            |kept: &mut Rc<super::Live>| Rc::strong_count(kept) == 1 && kept.worker.is_idle();
        let resting = match is_used {
            true => None,
            false => service.live.borrow_mut().take_if(is_idle),
        };
        match resting {
            Some(resting) => return Some(resting),
            None => live.push_back(oldest),
        }
    }
    None
}
