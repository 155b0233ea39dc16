//! Files that were sent a moment ago, still open: the next request for one need not wait for who opens them.

use super::load::{self, Stamp};
use palisade_engine::lock::lock;
use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// So many of one folder.
const MOST: usize = 64;
/// So long after they were asked for last: the space of a file that is removed is not free before.
const TIME: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct One {
    stamp: Stamp,
    file: Arc<OwnedFd>,
    used: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Held {
    files: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: Vec<One>,
    /// Somebody closes them.
    is_watched: bool,
}

impl Held {
    /// The file that was in this state, if it is still.
    pub(super) fn get(&self, stamp: &Stamp) -> Option<Arc<OwnedFd>> {
        let files = &mut self.files().all;
        let at = files.iter().position(|one| one.stamp == *stamp)?;
        let is_same = load::look(&files[at].file).is_ok_and(|(_, now)| now == *stamp);
        if !is_same {
            files.swap_remove(at);
            return None;
        }
        files[at].used = Instant::now();
        Some(Arc::clone(&files[at].file))
    }

    /// Keeps one for a moment, if there is room.
    pub(super) fn put(self: &Arc<Self>, stamp: Stamp, file: &Arc<OwnedFd>) {
        let mut files = self.files();
        if files.all.len() >= MOST {
            return;
        }
        files.all.push(One {
            stamp,
            file: Arc::clone(file),
            used: Instant::now(),
        });
        if !std::mem::replace(&mut files.is_watched, true) {
            let held = Arc::clone(self);
            tokio::spawn(async move { held.let_go().await });
        }
    }

    /// Closes what nobody asks for any more, until there is nothing left.
    async fn let_go(&self) {
        loop {
            tokio::time::sleep(TIME).await;
            let mut files = self.files();
            files.all.retain(|one| one.used.elapsed() < TIME);
            files.is_watched = !files.all.is_empty();
            if !files.is_watched {
                return;
            }
        }
    }

    fn files(&self) -> MutexGuard<'_, Open> {
        lock(&self.files)
    }
}
