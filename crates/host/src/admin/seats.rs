//! Room for connections to the admin socket, which nobody can keep from an operator.
//!
//! Who comes when all seats are taken gets one all the same: who said least loses his. So a client that says nothing, or
//! takes its answer slowly, is in nobody's way.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU8, Ordering},
};
use tokio::{sync::Notify, task::AbortHandle};

/// Connections at one time.
pub(super) const MOST: usize = 64;

/// How far a connection has come. Who is further goes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It has not sent a whole request.
    Silent,
    /// It has its answer, and takes it.
    Answered,
    /// It is being answered.
    Asked,
}

impl Stage {
    const ALL: [Self; 3] = [Self::Silent, Self::Answered, Self::Asked];
}

/// All seats of a socket.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// The oldest first.
    seats: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    number: u64,
    stage: Arc<AtomicU8>,
    /// `None` for the moment in which its task is made.
    task: Option<AbortHandle>,
}

/// A connection's seat, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    number: u64,
    stage: Arc<AtomicU8>,
    moved: Notify,
    seats: Seats,
}

impl Seats {
    /// A seat, which is another connection's where all are taken: that one ends.
    pub(super) fn take(&self) -> Seat {
        let mut taken = self.taken();
        if taken.seats.len() >= MOST {
            taken.end_one();
        }
        let number = taken.next;
        taken.next += 1;
        let stage = Arc::new(AtomicU8::new(Stage::Silent as u8));
        taken.seats.push(Place {
            number,
            stage: Arc::clone(&stage),
            task: None,
        });
        Seat {
            number,
            stage,
            moved: Notify::new(),
            seats: self.clone(),
        }
    }

    /// That this task has the seat of this number.
    pub(super) fn is_of(&self, number: u64, task: AbortHandle) {
        let mut taken = self.taken();
        let mut seats = taken.seats.iter_mut();
        // It may have ended already.
        if let Some(place) = seats.find(|place| place.number == number) {
            place.task = Some(task);
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Ends the oldest of those that have come least far.
    fn end_one(&mut self) {
        let stage = |place: &Place| place.stage.load(Ordering::Relaxed);
        let least = self.seats.iter().enumerate();
        let Some((at, _)) = least.min_by_key(|(at, place)| (stage(place), *at)) else {
            return;
        };
        if let Some(task) = self.seats.remove(at).task {
            task.abort();
        }
    }
}

impl Seat {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// It has come so far.
    pub(super) fn reaches(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
        self.moved.notify_one();
    }

    /// Waits until it has come further than when this was waited for last.
    pub(super) async fn moves_on(&self) {
        self.moved.notified().await;
    }

    pub(super) fn stage(&self) -> Stage {
        let stage = self.stage.load(Ordering::Relaxed);
        let known = Stage::ALL.into_iter().find(|known| *known as u8 == stage);
        known.unwrap_or(Stage::Silent)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.seats.retain(|place| place.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_said_least_and_came_first_goes_for_who_comes() {
        let seats = Seats::default();
        let all: Vec<_> = (0..MOST).map(|_| seats.take()).collect();
        let is_there = |seat: &Seat| {
            let taken = seats.taken();
            taken.seats.iter().any(|place| place.number == seat.number)
        };
        all[0].reaches(Stage::Asked);
        all[1].reaches(Stage::Answered);
        let late = seats.take();
        let gone = |is_there: &dyn Fn(&Seat) -> bool| -> Vec<_> {
            let seats = all.iter().filter(|seat| !is_there(seat));
            seats.map(Seat::number).collect()
        };
        assert_eq!(gone(&is_there), [2], "the first that is silent");
        for seat in all.iter().skip(2).chain([&late]) {
            seat.reaches(Stage::Asked);
        }
        let _another = seats.take();
        assert_eq!(gone(&is_there), [1, 2], "the one that has its answer");
        drop(late);
        let _fits = seats.take();
        assert_eq!(gone(&is_there), [1, 2], "one has left");
        assert_eq!(all[3].stage(), Stage::Asked);
        assert!(is_there(&all[0]));
    }
}
