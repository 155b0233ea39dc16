//! Parts of a file that a request asks for
//! ([RFC 9110, section 14](https://www.rfc-editor.org/rfc/rfc9110#section-14)).

use http::{HeaderMap, header::RANGE};
use std::ops::Range;

/// Of more ranges than this none is served, but the whole file: a response is never bigger than the file by
/// more than their heads, and nobody honest asks for more.
const MOST_RANGES: usize = 16;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Everything: there is no range, or none that can be understood.
    Whole,
    /// One part.
    One(Range<u64>),
    /// Parts that don't overlap.
    Several(Vec<Range<u64>>),
    /// Only what lies behind the end: 416.
    Nothing,
}

/// Reads the field `Range` for a file of so many bytes.
pub(super) fn asked(headers: &HeaderMap, bytes: u64) -> Asked {
    let mut fields = headers.get_all(RANGE).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return Asked::Whole;
    };
    match field.to_str().ok().and_then(|field| parse(field, bytes)) {
        None => Asked::Whole,
        Some(ranges) => match ranges.as_slice() {
            [] => Asked::Nothing,
            [range] => Asked::One(range.clone()),
            _ => Asked::Several(ranges),
        },
    }
}

/// Those ranges of a list that begin within the file; `None` if the list is none, or too long.
fn parse(field: &str, bytes: u64) -> Option<Vec<Range<u64>>> {
    let (unit, list) = field.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let specs = list
        .split(',')
        .map(str::trim)
        .filter(|spec| !spec.is_empty());
    let mut ranges = Vec::new();
    let mut count = 0;
    for spec in specs {
        ranges.extend(parse_one(spec, bytes)?);
        count += 1;
        if count > MOST_RANGES {
            return None;
        }
    }
    (count > 0).then(|| without_overlaps(ranges))
}

/// `2-5`, `2-` or `-5`. The outer `None`: none of them; the inner: behind the end.
fn parse_one(spec: &str, bytes: u64) -> Option<Option<Range<u64>>> {
    let (first, last) = spec.split_once('-')?;
    let range = match (first.trim(), last.trim()) {
        ("", count) => bytes.saturating_sub(parse_number(count)?)..bytes,
        (first, "") => parse_number(first)?..bytes,
        (first, last) => {
            let (first, last) = (parse_number(first)?, parse_number(last)?);
            if first > last {
                return None;
            }
            first..last.saturating_add(1).min(bytes)
        }
    };
    Some((range.start < range.end).then_some(range))
}

/// Digits. What is more than any file has counts as the most that can be said.
fn parse_number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Ranges in their order, or joined and sorted if any two touch: nothing is sent twice.
fn without_overlaps(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted = ranges.clone();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    match joined.len() == ranges.len() {
        true => ranges,
        false => joined,
    }
}

#[cfg(test)]
mod tests;
