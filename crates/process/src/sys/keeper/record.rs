//! Records as they are sent: see [`crate::wire::Record`].

use crate::{
    kernel::{self, Fd},
    wire::{self, Record},
};

/// Sends a record with descriptors; a peer that is gone is noticed by whoever polls next.
pub(crate) fn send_record(socket: Fd, record: &Record, fds: &[Fd]) {
    let _ = kernel::send(socket, record_bytes(record), fds);
}

pub(crate) fn record_bytes(record: &Record) -> &[u8] {
    // SAFETY: `Record` is 32 words without padding, so every byte of it is initialised.
    unsafe { core::slice::from_raw_parts((&raw const *record).cast::<u8>(), wire::RECORD_BYTES) }
}

pub(crate) fn record_from(bytes: &[u8]) -> Option<Record> {
    let (words, _) = bytes.get(..wire::RECORD_BYTES)?.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let mut record = Record {
        kind: words.next()?,
        ..Record::default()
    };
    for (to, from) in record.words.iter_mut().zip(words) {
        *to = from;
    }
    Some(record)
}
