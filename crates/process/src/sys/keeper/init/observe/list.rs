//! The list of what was seen, bounded.

use crate::{kernel, wire::seen};

/// Entries of [`seen`], in memory that is taken for the first one.
#[derive(Default)]
pub(crate) struct List {
    memory: Option<&'static mut [u8]>,
    count: usize,
    more: u64,
}

impl List {
    pub(super) const MOST_BYTES: usize = seen::ENTRY_BYTES - seen::BYTES;

    /// The entries, and how many tries there were beside them.
    pub(crate) fn entries(&self) -> (&[u8], u64) {
        let memory = self.memory.as_deref().unwrap_or_default();
        let entries = memory.get(..self.count * seen::ENTRY_BYTES);
        (entries.unwrap_or_default(), self.more)
    }

    pub(super) fn add(&mut self, kind: u64, name: &[u8], bytes: &[u8]) {
        self.put(&entry(kind, name, bytes));
    }

    /// Takes over what somebody else has in a list of his own, `more` tries beside its entries.
    pub(super) fn take_over(&mut self, entries: &[u8], more: u64) {
        let (entries, _) = entries.as_chunks::<{ seen::ENTRY_BYTES }>();
        entries.iter().for_each(|entry| self.put(entry));
        self.more = self.more.saturating_add(more);
    }

    fn put(&mut self, entry: &Entry) {
        if self.memory.is_none() {
            self.memory = kernel::allocate(seen::MOST * seen::ENTRY_BYTES).ok();
        }
        let times = word(entry, seen::COUNT);
        let memory = self.memory.as_deref_mut().unwrap_or_default();
        let (entries, _) = memory.as_chunks_mut::<{ seen::ENTRY_BYTES }>();
        let known = &mut entries[..self.count];
        if let Some(same) = known.iter_mut().find(|known| is_same(known, entry)) {
            let count = word(same, seen::COUNT).saturating_add(times);
            write(same, seen::COUNT, &count.to_ne_bytes());
        } else if let Some(place) = entries.get_mut(self.count) {
            *place = *entry;
            self.count += 1;
        } else {
            self.more = self.more.saturating_add(times);
        }
    }
}

type Entry = [u8; seen::ENTRY_BYTES];

fn entry(kind: u64, name: &[u8], bytes: &[u8]) -> Entry {
    let mut entry = [0; seen::ENTRY_BYTES];
    write(&mut entry, seen::KIND, &kind.to_ne_bytes());
    write(&mut entry, seen::COUNT, &1u64.to_ne_bytes());
    write(&mut entry, seen::NAME, name);
    write(
        &mut entry,
        seen::LENGTH,
        &(bytes.len() as u64).to_ne_bytes(),
    );
    write(&mut entry, seen::BYTES, bytes);
    entry
}

/// But for the count. The same question has another number each time, at the beginning.
fn is_same(one: &Entry, other: &Entry) -> bool {
    const NUMBER_BYTES: usize = 2;
    let from = match word(one, seen::KIND) {
        seen::QUESTION => seen::BYTES + NUMBER_BYTES,
        _ => seen::BYTES,
    };
    one[..seen::COUNT] == other[..seen::COUNT]
        && one[seen::NAME..seen::BYTES] == other[seen::NAME..seen::BYTES]
        && one[from..] == other[from..]
}

fn write(entry: &mut Entry, at: usize, bytes: &[u8]) {
    if let Some(place) = entry.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn word(entry: &Entry, at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&entry[at..at + 8]);
    u64::from_ne_bytes(bytes)
}
