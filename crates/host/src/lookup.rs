//! What requests are looked for by: the host that they ask for, and how their path begins.
//!
//! Which of many values fits takes a look for each dot of the host and each segment of the path, however many there are.
//! Hosts and paths of files are as [`config`](crate::config) reads them, those of requests as the edge forms them and
//! [`path::normalize`](crate::path::normalize) leaves them.

mod host_map;
mod path_map;
#[cfg(test)]
mod tests;

pub use host_map::{HostMap, covers_host};
pub use path_map::{PathMap, covers_path};

use http::Uri;
use percent_encoding::percent_decode_str;

/// What is left of a normal path when so many of its segments are taken away: it begins with a slash, or is empty where
/// the path ends with them.
pub fn rest(path: &str, segments: usize) -> &str {
    let mut slashes = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/');
    slashes
        .nth(segments)
        .map_or("", |(start, _)| &path[start..])
}

/// The segments of a path that routes are looked for by, each without escapes. Without any it fits everything, also `*`
/// and what has no path.
pub fn segments(path: &str) -> Vec<Box<[u8]>> {
    // As most are.
    if path == "/" {
        return Vec::new();
    }
    let text = normal_path(path);
    let text = text.trim_end_matches('/');
    let segments = text.split('/').skip(1);
    segments
        .map(|segment| percent_decode_str(segment).collect())
        .collect()
}

/// A route's path as requests have it, where that can be said.
fn normal_path(path: &str) -> String {
    let uri = path.parse::<Uri>().ok();
    let normal = uri.and_then(|uri| match crate::path::normalize(&uri) {
        Ok(Some(normal)) => Some(normal.path().to_owned()),
        _ => None,
    });
    normal.unwrap_or_else(|| path.to_owned())
}
