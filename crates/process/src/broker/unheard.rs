//! Calls that a signal takes back.
//!
//! The thread handles its signal, and then either makes the same call again, by itself (`SA_RESTART`,
//! signal(7)) or by the program's will, or does something else. Nothing tells which. What was done of the
//! call is done all the same, so the same call again is told what came of it, or waits for that, and is
//! not carried out a second time: a second `bind` would fail.

use crate::sys::notify::Notification;
use rustix::io::Errno;
use std::collections::HashMap;

/// What became of calls that nobody may wait for any more, by their threads.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    results: HashMap<u32, (Arguments, Result<i64, Errno>)>,
    waiting: HashMap<u32, Waiting>,
}

/// Number and arguments of a call.
type Arguments = (i32, [u64; 6]);

/// A thread's last call, which is not decided yet.
#[derive(Debug)]
struct Waiting {
    arguments: Arguments,
    /// The kernel's name for it.
    id: u64,
    /// Its name now that the thread has made it again.
    answer_to: u64,
    /// Something was done already, and what comes of it is waited for.
    is_begun: bool,
}

/// What is known of a call that arrives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Nothing.
    New,
    /// It was made before and returns this.
    Done(Result<i64, Errno>),
    /// It was made before and is under way.
    UnderWay,
}

impl Unheard {
    /// More results are not kept: a thread whose result is lost is told what a second call comes to.
    const MOST: usize = 64;

    /// A thread has one call at a time: this one is its last from here on.
    pub(super) fn arrives(&mut self, call: &Notification) -> Arrival {
        if self.results.is_empty() && self.waiting.is_empty() {
            return Arrival::New;
        }
        let arguments = arguments_of(call);
        if let Some((before, result)) = self.results.remove(&call.thread)
            && before == arguments
        {
            return Arrival::Done(result);
        }
        match self.waiting.get_mut(&call.thread) {
            Some(before) if before.is_begun && before.arguments == arguments => {
                before.answer_to = call.id;
                Arrival::UnderWay
            }
            _ => {
                self.waiting.remove(&call.thread);
                Arrival::New
            }
        }
    }

    /// This call waits from here on.
    pub(super) fn begin_wait(&mut self, call: &Notification, is_begun: bool) {
        let waiting = Waiting {
            arguments: arguments_of(call),
            id: call.id,
            answer_to: call.id,
            is_begun,
        };
        self.waiting.insert(call.thread, waiting);
    }

    /// The call to answer for this one that waits; `None` once its thread has made another.
    pub(super) fn answer_to(&self, call: &Notification) -> Option<u64> {
        let waiting = self.waiting.get(&call.thread)?;
        (waiting.id == call.id).then_some(waiting.answer_to)
    }

    /// This call, which is its thread's last, does not wait any more.
    pub(super) fn end_wait(&mut self, call: &Notification) {
        self.waiting.remove(&call.thread);
    }

    /// Its thread did not wait for this result.
    pub(super) fn put(&mut self, call: &Notification, result: Result<i64, Errno>) {
        if self.results.len() >= Self::MOST {
            self.results.clear();
        }
        let result = (arguments_of(call), result);
        self.results.insert(call.thread, result);
    }
}

fn arguments_of(call: &Notification) -> Arguments {
    (call.call, call.arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: u64, number: i32) -> Notification {
        let mut call = Notification::default();
        (call.id, call.thread, call.call) = (id, 7, number);
        call
    }

    #[test]
    fn the_same_call_again_is_told_the_result_once() {
        let mut unheard = Unheard::default();
        unheard.put(&call(1, 42), Ok(3));
        assert_eq!(unheard.arrives(&call(2, 42)), Arrival::Done(Ok(3)));
        assert_eq!(unheard.arrives(&call(3, 42)), Arrival::New);
    }

    #[test]
    fn another_call_makes_an_old_result_void() {
        let mut unheard = Unheard::default();
        unheard.put(&call(1, 42), Ok(3));
        assert_eq!(unheard.arrives(&call(2, 43)), Arrival::New);
        assert_eq!(unheard.arrives(&call(3, 42)), Arrival::New);
    }

    #[test]
    fn the_same_call_again_waits_for_what_is_under_way() {
        let mut unheard = Unheard::default();
        unheard.begin_wait(&call(1, 42), true);
        assert_eq!(unheard.answer_to(&call(1, 42)), Some(1));
        assert_eq!(unheard.arrives(&call(2, 42)), Arrival::UnderWay);
        assert_eq!(unheard.answer_to(&call(1, 42)), Some(2));
        unheard.end_wait(&call(1, 42));
        assert_eq!(unheard.arrives(&call(3, 42)), Arrival::New);
    }

    #[test]
    fn what_is_not_begun_is_left_to_the_same_call_again() {
        let mut unheard = Unheard::default();
        unheard.begin_wait(&call(1, 42), false);
        assert_eq!(unheard.arrives(&call(2, 42)), Arrival::New);
        assert_eq!(unheard.answer_to(&call(1, 42)), None);
        unheard.begin_wait(&call(2, 42), true);
        assert_eq!(unheard.arrives(&call(3, 43)), Arrival::New);
        assert_eq!(unheard.answer_to(&call(2, 42)), None);
    }
}
