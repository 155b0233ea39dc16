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
    records_bytes(core::slice::from_ref(record))
}

pub(crate) fn records_bytes(records: &[Record]) -> &[u8] {
    // SAFETY: `Record` is 32 words without padding, so every byte of it is initialised.
    unsafe { core::slice::from_raw_parts(records.as_ptr().cast::<u8>(), size_of_val(records)) }
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
