//! Names and values that a guest gives again and again: most set the same fields with each request, and to check and copy
//! them takes longer than a call into the guest.

use super::names;
use crate::abi::Status;
use http::{HeaderName, HeaderValue};

/// Each for those whose marks lead there.
const PLACES: usize = 8;
/// What is longer is not kept.
const MOST_BYTES: usize = 64;

/// What one instance gave of late.
#[derive(Default)]
pub(crate) struct Known {
    names: [Place<HeaderName>; PLACES],
    values: [Place<HeaderValue>; PLACES],
}

/// Something that was given twice in a row, and the mark of what was given last. What is another one each time is not kept.
struct Place<T> {
    last: u64,
    kept: Option<T>,
}

impl<T> Default for Place<T> {
    fn default() -> Self {
        let (last, kept) = (0, None);
        Self { last, kept }
    }
}

impl Known {
    pub(super) fn field(
        &mut self,
        key: &[u8],
        value: &[u8],
    ) -> Result<(HeaderName, HeaderValue), Status> {
        let name = obtain(
            &mut self.names,
            key,
            |name| name.as_str().as_bytes(),
            names::name,
        )?;
        let value = obtain(&mut self.values, value, HeaderValue::as_bytes, names::value)?;
        Ok((name, value))
    }
}

fn obtain<T: Clone>(
    places: &mut [Place<T>; PLACES],
    given: &[u8],
    bytes: impl FnOnce(&T) -> &[u8],
    make: impl FnOnce(&[u8]) -> Result<T, Status>,
) -> Result<T, Status> {
    if given.len() > MOST_BYTES {
        return make(given);
    }
    let mark = mark(given);
    let place = &mut places[(mark >> 32) as usize % PLACES];
    if let Some(kept) = &place.kept
        && bytes(kept) == given
    {
        return Ok(kept.clone());
    }
    let made = make(given)?;
    if std::mem::replace(&mut place.last, mark) == mark {
        place.kept = Some(made.clone());
    }
    Ok(made)
}

/// Of the length and of both ends: what is looked up by it is compared as a whole.
fn mark(given: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let most = given.len().min(8);
    let ends = word(&given[..most]) ^ word(&given[given.len() - most..]).rotate_left(23);
    (ends ^ given.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_again_is_the_same() {
        let mut known = Known::default();
        let long = "v".repeat(MOST_BYTES + 1);
        let fields = [
            ("x-a", "1"),
            ("X-A", "1"),
            ("x-b", ""),
            ("server", &long),
            ("x-c", "3"),
        ];
        for _ in 0..4 {
            for (key, value) in fields {
                let (name, found) = known.field(key.as_bytes(), value.as_bytes()).unwrap();
                assert_eq!(name, HeaderName::from_bytes(key.as_bytes()).unwrap());
                assert_eq!(found, value);
            }
            assert_eq!(known.field(b"x a", b"1").unwrap_err(), Status::BadArgument);
            assert_eq!(
                known.field(b"x-a", b"1\n").unwrap_err(),
                Status::BadArgument
            );
        }
    }

    #[test]
    fn what_has_the_same_mark_is_told_apart() {
        let mut known = Known::default();
        let values = ["12345678-a-12345678", "12345678-b-12345678"];
        assert_eq!(mark(values[0].as_bytes()), mark(values[1].as_bytes()));
        for value in values.iter().cycle().take(8) {
            assert_eq!(known.field(b"x-a", value.as_bytes()).unwrap().1, value);
        }
    }

    #[test]
    fn what_is_another_one_each_time_is_not_kept() {
        let mut known = Known::default();
        for value in 0..100 {
            known
                .field(b"x-request-id", value.to_string().as_bytes())
                .unwrap();
        }
        let kept = known
            .values
            .iter()
            .filter(|place| place.kept.is_some())
            .count();
        assert_eq!(kept, 0);
    }
}
