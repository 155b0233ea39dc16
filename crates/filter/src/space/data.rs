//! Values by key, with a number that tells whether one was changed.

use crate::settings::SharedBounds;
use bytes::Bytes;
use palisade_engine::lock::lock;
use std::{collections::HashMap, sync::Mutex};

/// What a key costs beside its own bytes and its value's.
const ENTRY_BYTES: usize = 128;

/// The data of one `vm_id`.
#[derive(Debug)]
pub(crate) struct Data {
    entries: Mutex<Entries>,
    most_bytes: usize,
    most_keys: usize,
    key_bytes: usize,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<Box<[u8]>, (Bytes, u32)>,
    bytes: usize,
    last_cas: u32,
}

/// A value was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetError {
    /// Somebody has changed it since.
    Changed,
    /// There is no room.
    Full,
}

impl Data {
    pub(super) fn new(bounds: &SharedBounds) -> Self {
        Self {
            entries: Mutex::default(),
            most_bytes: bounds.data_bytes,
            most_keys: bounds.data_keys,
            key_bytes: bounds.key_bytes,
        }
    }

    /// The value of a key and its number.
    pub(crate) fn get(&self, key: &[u8]) -> Option<(Bytes, u32)> {
        if key.len() > self.key_bytes {
            return None;
        }
        lock(&self.entries).by_key.get(key).cloned()
    }

    /// Stores a value. With a number other than 0, only if that is the present value's; a key that is not
    /// there takes any, as Envoy has it.
    pub(crate) fn set(&self, key: &[u8], value: &[u8], cas: u32) -> Result<(), SetError> {
        let entry_bytes = value.len() + key.len() + ENTRY_BYTES;
        if key.len() > self.key_bytes || entry_bytes > self.most_bytes {
            return Err(SetError::Full);
        }
        // Others do not wait for it.
        let value = Bytes::copy_from_slice(value);
        let mut entries = lock(&self.entries);
        let present = entries.by_key.get(key);
        let present_bytes = match present {
            Some((_, number)) if cas != 0 && cas != *number => return Err(SetError::Changed),
            Some((value, _)) => value.len() + key.len() + ENTRY_BYTES,
            None if entries.by_key.len() >= self.most_keys => return Err(SetError::Full),
            None => 0,
        };
        let bytes = entries.bytes - present_bytes + entry_bytes;
        if bytes > self.most_bytes {
            return Err(SetError::Full);
        }
        entries.bytes = bytes;
        entries.last_cas = entries.last_cas.checked_add(1).unwrap_or(1);
        let stored = (value, entries.last_cas);
        match entries.by_key.get_mut(key) {
            Some(present) => *present = stored,
            None => drop(entries.by_key.insert(key.into(), stored)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Data {
        Data::new(&SharedBounds {
            data_bytes: 2 * ENTRY_BYTES + 10,
            data_keys: 2,
            ..SharedBounds::default()
        })
    }

    #[test]
    fn a_value_that_was_changed_since_is_not_overwritten() {
        let data = data();
        assert_eq!(data.get(b"k"), None);
        data.set(b"k", b"1", 0).unwrap();
        let (value, cas) = data.get(b"k").unwrap();
        assert_eq!(&*value, b"1");
        data.set(b"k", b"2", cas).unwrap();
        assert_eq!(data.set(b"k", b"3", cas), Err(SetError::Changed));
        assert_eq!(&*data.get(b"k").unwrap().0, b"2");
        data.set(b"k", b"4", 0).unwrap();
        assert_ne!(data.get(b"k").unwrap().1, cas);
    }

    #[test]
    fn bytes_and_keys_are_bounded_and_freed() {
        let data = data();
        data.set(b"a", b"12345678", 0).unwrap();
        assert_eq!(data.set(b"b", b"1", 0), Err(SetError::Full));
        data.set(b"a", b"", 0).unwrap();
        data.set(b"b", b"1", 0).unwrap();
        assert_eq!(data.set(b"c", b"", 0), Err(SetError::Full));
        assert_eq!(data.set(b"a", &[0; 20], 0), Err(SetError::Full));
        assert_eq!(&*data.get(b"a").unwrap().0, b"");
    }
}
