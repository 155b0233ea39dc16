//! The streams of an instance, found by their contexts' numbers.
//!
//! A guest knows a stream by its number, and the server by the same. Numbers go up by one from stream to stream, and a
//! stream lies where its number says, as far as the slots go:
//!
//! ```text
//!  given: 2 to 10          slot    0   1   2   3   4   5   6   7
//!  open: 6, 9, 10          stream      9  10               6
//! ```
//!
//! A number whose slot is taken is not given, so that nothing has to be looked for: to find a stream is to look at
//! one slot. Half of the slots at least are free, and so each number that is left out is made up for by one that is not.

use super::{ROOT, Stream};

/// One stream is all that an instance has which one request has for itself.
const FIRST_SLOTS: usize = 2;

pub(crate) struct Streams {
    /// As many as a power of two.
    slots: Vec<Option<Stream>>,
    open: usize,
    /// The number that was given last.
    last: u32,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            slots: Self::free(FIRST_SLOTS),
            open: 0,
            last: ROOT,
        }
    }

    fn free(count: usize) -> Vec<Option<Stream>> {
        std::iter::repeat_with(|| None).take(count).collect()
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    /// Gives a stream a number that no other one has, and that none had which is over until all were given.
    pub(super) fn insert(&mut self, stream: impl FnOnce(u32) -> Stream) -> u32 {
        if self.open * 2 >= self.slots.len() {
            self.grow();
        }
        loop {
            self.last = self.last.wrapping_add(1).max(ROOT + 1);
            let at = self.slot(self.last);
            if let slot @ None = &mut self.slots[at] {
                *slot = Some(stream(self.last));
                self.open += 1;
                return self.last;
            }
        }
    }

    /// Puts a stream back that was removed, before another one is inserted.
    pub(super) fn put_back(&mut self, stream: Stream) {
        let at = self.slot(stream.context);
        self.open += usize::from(self.slots[at].is_none());
        self.slots[at] = Some(stream);
    }

    pub(super) fn remove(&mut self, context: u32) -> Option<Stream> {
        let at = self.slot(context);
        let stream = self.slots[at].take_if(|stream| stream.context == context)?;
        self.open -= 1;
        Some(stream)
    }

    pub(crate) fn get(&self, context: u32) -> Option<&Stream> {
        let stream = self.slots[self.slot(context)].as_ref();
        stream.filter(|stream| stream.context == context)
    }

    pub(crate) fn get_mut(&mut self, context: u32) -> Option<&mut Stream> {
        let at = self.slot(context);
        let stream = self.slots[at].as_mut();
        stream.filter(|stream| stream.context == context)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().flatten()
    }

    fn slot(&self, context: u32) -> usize {
        context as usize & (self.slots.len() - 1)
    }

    /// Two that differ in their slots differ in them when there are twice as many.
    #[cold]
    fn grow(&mut self) {
        let more = Self::free(self.slots.len() * 2);
        for stream in std::mem::replace(&mut self.slots, more)
            .into_iter()
            .flatten()
        {
            let at = self.slot(stream.context);
            self.slots[at] = Some(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn open(streams: &mut Streams) -> u32 {
        streams.insert(|context| Stream::new(context, None))
    }

    #[test]
    fn each_has_a_number_of_its_own_however_many_there_are() {
        let mut streams = Streams::new();
        let numbers: HashSet<_> = (0..1000).map(|_| open(&mut streams)).collect();
        assert_eq!((numbers.len(), streams.len()), (1000, 1000));
        assert!(!numbers.contains(&0) && !numbers.contains(&ROOT));
        for number in &numbers {
            assert_eq!(streams.get(*number).unwrap().context, *number);
            assert!(streams.remove(*number).is_some());
            assert!(streams.get(*number).is_none() && streams.remove(*number).is_none());
        }
        assert_eq!((streams.len(), streams.iter().count()), (0, 0));
    }

    #[test]
    fn one_that_stays_is_found_and_its_slot_is_passed_over() {
        let mut streams = Streams::new();
        let stays = open(&mut streams);
        for _ in 0..1000 {
            let passes = open(&mut streams);
            assert_eq!(streams.get_mut(passes).unwrap().context, passes);
            assert_eq!(streams.get(stays).unwrap().context, stays);
            streams.remove(passes).unwrap();
        }
        assert_eq!(streams.slots.len(), 4, "two are open at one time at most");
    }

    #[test]
    fn a_number_that_is_over_means_nothing_though_its_slot_is_taken() {
        let mut streams = Streams::new();
        let over = open(&mut streams);
        streams.remove(over).unwrap();
        let mut other = open(&mut streams);
        while streams.slot(other) != streams.slot(over) {
            streams.remove(other).unwrap();
            other = open(&mut streams);
        }
        assert!(streams.get(over).is_none() && streams.get_mut(over).is_none());
        assert!(streams.remove(over).is_none() && streams.get(other).is_some());
    }

    #[test]
    fn numbers_begin_anew_after_the_last() {
        let mut streams = Streams::new();
        let first = open(&mut streams);
        assert_eq!(first, ROOT + 1);
        streams.last = u32::MAX - 1;
        let numbers: Vec<_> = (0..4).map(|_| open(&mut streams)).collect();
        assert_eq!(numbers[0], u32::MAX);
        assert!(numbers[1..].iter().all(|number| *number > first));
    }
}
