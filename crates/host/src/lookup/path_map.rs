//! Values by the beginning of a path, in whole segments. What is escaped is compared as what it means.

use super::segments;
use percent_encoding::percent_decode_str;
use std::{borrow::Cow, collections::HashMap};

/// Values by the beginning of a path.
#[derive(Clone, Debug)]
pub struct PathMap<T> {
    here: Option<T>,
    further: HashMap<Box<[u8]>, PathMap<T>>,
}

impl<T> Default for PathMap<T> {
    fn default() -> Self {
        Self {
            here: None,
            further: HashMap::new(),
        }
    }
}

impl<T> PathMap<T> {
    /// The value of a path as it is written in a file.
    pub fn entry(&mut self, path: &str) -> &mut T
    where
        T: Default,
    {
        let mut map = self;
        for segment in segments(path) {
            map = map.further.entry(segment).or_default();
        }
        map.here.get_or_insert_default()
    }

    /// Looks at the value of each beginning of a normal path, the shortest first.
    pub fn for_each_fitting<'a>(&'a self, path: &str, mut look: impl FnMut(&'a T)) {
        let mut map = self;
        let mut rest = path.split('/').skip(1);
        loop {
            if let Some(value) = &map.here {
                look(value);
            }
            // Where nothing goes further, nothing of the path is looked at.
            let next = match map.further.is_empty() {
                true => None,
                false => rest.next(),
            };
            let next = next.and_then(|segment| map.further.get(&*decoded(segment)));
            match next {
                Some(next) => map = next,
                None => return,
            }
        }
    }

    /// The value of the longest beginning of a normal path.
    pub fn longest(&self, path: &str) -> Option<&T> {
        let mut longest = None;
        self.for_each_fitting(path, |value| longest = Some(value));
        longest
    }
}

/// Few segments have escapes.
fn decoded(segment: &str) -> Cow<'_, [u8]> {
    percent_decode_str(segment).into()
}

/// Whether every request for path `inner` is one for `outer`, as files write paths.
pub fn covers_path(outer: &str, inner: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    outer == "/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
