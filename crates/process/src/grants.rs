//! Grants to a guest that runs, by whoever may operate its domain: what is asked of its supervisor, and the answer.
//!
//! ```text
//! palisade grant ──session──▶ keeper's door ──gate──▶ init ──domain socket──▶ supervisor
//!       ▲                                                                        │ Gate::give, Files::give
//!       └────────────────────────────── one line ────────────────────────────────┘
//! ```
//!
//! Who may come to the door is the kernel's to say (`wire.rs`), and no guest may. Keeper and init pass the session on and read
//! nothing of it.

mod decision;
pub(crate) mod files;
pub(crate) mod holder;

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    net::{RecvFlags, SendFlags},
};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

/// A request is shorter.
pub(crate) const MOST_BYTES: usize = 64 * 1024;

/// Why nothing is granted to most guests.
pub(crate) const NOT_GRANTABLE: &str = "the guest was not started with --grantable or --ask";

/// What is asked for: flags with their values, `--connect tcp://example.com:443`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// To be granted.
    #[serde(default)]
    pub grant: Vec<String>,
    /// To be taken back.
    #[serde(default)]
    pub revoke: Vec<String>,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// What was done.
    pub done: Vec<String>,
    /// What was not, and why.
    pub refused: Vec<(String, String)>,
}

impl Changed {
    pub(crate) fn extend(&mut self, other: Self) {
        self.done.extend(other.done);
        self.refused.extend(other.refused);
    }

    pub(crate) fn of<'a>(all: impl Iterator<Item = (&'a String, Result<(), String>)>) -> Self {
        let mut changed = Self::default();
        for (flag, outcome) in all {
            match outcome {
                Ok(()) => changed.done.push(flag.clone()),
                Err(why) => changed.refused.push((flag.clone(), why)),
            }
        }
        changed
    }

    pub(crate) fn refused(change: &Change, why: &str) -> Self {
        let all = change.grant.iter().chain(&change.revoke);
        Self::of(all.map(|flag| (flag, Err(why.to_owned()))))
    }
}

/// Answers a session that has come. Nobody waits for whoever asked: the request is there already, and there is room for the
/// answer.
pub(crate) fn answer(session: &OwnedFd, change: impl FnOnce(&Change) -> Changed) {
    // One that was given up is not carried out later.
    let mut peer = [PollFd::new(session, PollFlags::RDHUP)];
    let at_once = Timespec::default();
    if rustix::event::poll(&mut peer, Some(&at_once)) != Ok(0) {
        return;
    }
    let mut buffer = vec![0; MOST_BYTES];
    let received = rustix::net::recv(session, &mut buffer, RecvFlags::DONTWAIT);
    let Ok((length, _)) = received else { return };
    let Ok(request) = serde_json::from_slice(&buffer[..length]) else {
        return;
    };
    let answer = serde_json::to_vec(&change(&request)).unwrap_or_default();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    // Whoever asked may have gone.
    let _ = rustix::net::send(session, &answer, flags);
}
