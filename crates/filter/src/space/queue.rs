//! Queues: first in, first out; whoever registered one last is told when there is something.

use crate::{Notify, settings::SharedBounds};
use bytes::Bytes;
use palisade_engine::lock::lock;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

/// The queues of one `vm_id`.
pub(crate) struct Queues {
    queues: Mutex<ByNumber>,
    most: usize,
    most_bytes: usize,
    most_values: usize,
    name_bytes: usize,
}

/// A queue's number is its index and one: 0 is none.
#[derive(Default)]
struct ByNumber {
    numbers: HashMap<Box<[u8]>, u32>,
    queues: Vec<Queue>,
}

#[derive(Default)]
struct Queue {
    values: VecDeque<Bytes>,
    bytes: usize,
    registrant: Option<Arc<Registrant>>,
}

/// An instance that has registered queues. Several may be told in one way, a filter's instance and the next one in its
/// place; what one of them registered is not the other's.
pub(crate) struct Registrant(Arc<dyn Notify>);

impl Registrant {
    pub(crate) fn new(notify: &Arc<dyn Notify>) -> Arc<Self> {
        Arc::new(Self(Arc::clone(notify)))
    }
}

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl ByNumber {
    fn queue(&mut self, number: u32) -> Option<&mut Queue> {
        let index = (number as usize).checked_sub(1)?;
        self.queues.get_mut(index)
    }
}

impl Queues {
    pub(super) fn new(bounds: &SharedBounds) -> Self {
        Self {
            queues: Mutex::default(),
            most: bounds.queues,
            most_bytes: bounds.queue_bytes,
            most_values: bounds.queue_length,
            name_bytes: bounds.name_bytes,
        }
    }

    /// The number of a queue, which is made if there is none. What waits in it stays.
    pub(crate) fn register(
        &self,
        name: &[u8],
        registrant: Option<&Arc<Registrant>>,
    ) -> Result<u32, Full> {
        if name.len() > self.name_bytes {
            return Err(Full);
        }
        let mut queues = lock(&self.queues);
        let number = match queues.numbers.get(name) {
            Some(number) => *number,
            None if queues.queues.len() >= self.most => return Err(Full),
            None => {
                queues.queues.push(Queue::default());
                let number = queues.queues.len() as u32;
                queues.numbers.insert(name.into(), number);
                number
            }
        };
        if let Some(queue) = queues.queue(number) {
            queue.registrant = registrant.cloned();
        }
        Ok(number)
    }

    /// The number of a queue.
    pub(crate) fn resolve(&self, name: &[u8]) -> Option<u32> {
        if name.len() > self.name_bytes {
            return None;
        }
        lock(&self.queues).numbers.get(name).copied()
    }

    /// Puts a value in and tells the registrant. `None`: there is no such queue.
    pub(crate) fn enqueue(&self, number: u32, value: &[u8]) -> Option<Result<(), Full>> {
        let mut queues = lock(&self.queues);
        let queue = queues.queue(number)?;
        let bytes = queue.bytes + value.len();
        if bytes > self.most_bytes || queue.values.len() >= self.most_values {
            return Some(Err(Full));
        }
        queue.bytes = bytes;
        queue.values.push_back(Bytes::copy_from_slice(value));
        let registrant = queue.registrant.clone();
        drop(queues);
        if let Some(registrant) = registrant {
            registrant.0.queue_ready(number);
        }
        Some(Ok(()))
    }

    /// Takes the oldest value out. `None`: there is no such queue.
    pub(crate) fn dequeue(&self, number: u32) -> Option<Option<Bytes>> {
        let mut queues = lock(&self.queues);
        let queue = queues.queue(number)?;
        let value = queue.values.pop_front();
        queue.bytes -= value.as_ref().map_or(0, Bytes::len);
        Some(value)
    }

    /// Forgets a registrant that is gone.
    pub(crate) fn unregister(&self, registrant: &Arc<Registrant>) {
        for queue in &mut lock(&self.queues).queues {
            let is_it = |present: &Arc<Registrant>| Arc::ptr_eq(present, registrant);
            if queue.registrant.as_ref().is_some_and(is_it) {
                queue.registrant = None;
            }
        }
    }
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Queues")
            .field("queues", &lock(&self.queues).queues.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Told(AtomicU32);

    impl Notify for Told {
        fn queue_ready(&self, queue: u32) {
            self.0.store(queue, Ordering::SeqCst);
        }
    }

    fn queues() -> Queues {
        Queues::new(&SharedBounds {
            queues: 2,
            queue_bytes: 4,
            queue_length: 2,
            name_bytes: 3,
            ..SharedBounds::default()
        })
    }

    #[test]
    fn values_come_out_as_they_went_in_and_the_last_registrant_is_told() {
        let queues = queues();
        let (first, last) = (Arc::new(Told::default()), Arc::new(Told::default()));
        let of = |told: &Arc<Told>| Registrant::new(&(Arc::clone(told) as Arc<dyn Notify>));
        let number = queues.register(b"q", Some(&of(&first))).unwrap();
        let registrant = of(&last);
        assert_eq!(queues.register(b"q", Some(&registrant)), Ok(number));
        assert_eq!(queues.resolve(b"q"), Some(number));
        queues.enqueue(number, b"1").unwrap().unwrap();
        queues.enqueue(number, b"2").unwrap().unwrap();
        assert_eq!(last.0.load(Ordering::SeqCst), number);
        assert_eq!(first.0.load(Ordering::SeqCst), 0);
        assert_eq!(queues.dequeue(number), Some(Some(Bytes::from_static(b"1"))));
        queues.unregister(&registrant);
        last.0.store(0, Ordering::SeqCst);
        queues.enqueue(number, b"3").unwrap().unwrap();
        assert_eq!(last.0.load(Ordering::SeqCst), 0);
        assert_eq!(queues.dequeue(number), Some(Some(Bytes::from_static(b"2"))));
        assert_eq!(queues.dequeue(number), Some(Some(Bytes::from_static(b"3"))));
        assert_eq!(queues.dequeue(number), Some(None));
    }

    #[test]
    fn what_does_not_exist_is_not_found_and_what_has_no_room_is_refused() {
        let queues = queues();
        for number in [0, 1, u32::MAX] {
            assert_eq!(queues.enqueue(number, b""), None);
            assert_eq!(queues.dequeue(number), None);
        }
        assert_eq!(queues.resolve(b"q"), None);
        assert_eq!(queues.register(b"long", None), Err(Full));
        let number = queues.register(b"a", None).unwrap();
        queues.register(b"b", None).unwrap();
        assert_eq!(queues.register(b"c", None), Err(Full));
        assert_eq!(queues.enqueue(number, b"12345"), Some(Err(Full)));
        queues.enqueue(number, b"").unwrap().unwrap();
        queues.enqueue(number, b"1234").unwrap().unwrap();
        assert_eq!(queues.enqueue(number, b""), Some(Err(Full)));
    }
}
