//! What a domain's waiting calls hold of its messages.
//!
//! The copies are the supervisor's, and no limit on the guest's memory counts them. So there are few: of what
//! goes into a stream a piece may wait, which send(2) may send alone; of datagrams, what there is room for.

use rustix::io::Errno;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Of all waiting calls of one domain, in bytes.
const MOST: usize = 2 << 20;
/// Of one that goes into a stream.
const PIECE: usize = 64 << 10;

/// Room for messages that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    taken: Arc<AtomicUsize>,
}

/// Room that a message takes until this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    room: Room,
    bytes: usize,
}

impl Room {
    /// For the data of a message, of which a piece is left if it goes into a stream.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` where too much waits already.
    pub(super) fn take_for(&self, data: &mut Vec<u8>, is_stream: bool) -> Result<Taken, Errno> {
        if is_stream {
            data.truncate(PIECE);
            data.shrink_to_fit();
        }
        self.take(data.len())
    }

    fn take(&self, bytes: usize) -> Result<Taken, Errno> {
        let more = |taken: usize| taken.checked_add(bytes).filter(|all| *all <= MOST);
        let order = Ordering::Relaxed;
        match self.taken.fetch_update(order, order, more) {
            Ok(_) => Ok(Taken {
                room: self.clone(),
                bytes,
            }),
            Err(_) => Err(Errno::NOBUFS),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_a_stream_and_a_whole_datagram_wait() {
        let room = Room::default();
        let mut data = vec![0; PIECE + 1];
        let taken = room.take_for(&mut data, false).unwrap();
        assert_eq!((data.len(), taken.bytes), (PIECE + 1, PIECE + 1));
        let taken = room.take_for(&mut data, true).unwrap();
        assert_eq!((data.len(), taken.bytes), (PIECE, PIECE));
    }

    #[test]
    fn what_waits_is_bounded_and_makes_room_when_it_goes() {
        let room = Room::default();
        let one = room.take(MOST - 1).unwrap();
        let _other = room.take(1).unwrap();
        for bytes in [1, MOST, usize::MAX] {
            assert_eq!(room.take(bytes).map(drop), Err(Errno::NOBUFS));
        }
        drop(one);
        assert!(room.take(MOST - 1).is_ok());
        assert_eq!(room.take(MOST).map(drop), Err(Errno::NOBUFS));
    }
}
