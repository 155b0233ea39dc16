//! Whom a call in a container is made as: a container has users of its own, and their sockets tell who they are
//! (`SO_PEERCRED`).

use super::guest::Status;
use crate::wire::caller::{MOST_GROUPS, WORDS};
use rustix::io::Errno;
use std::{fs, io};

/// Whom the numbers of this process's user namespace are in a container's (user_namespaces(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ids {
    users: Vec<Range>,
    groups: Vec<Range>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    inside: u32,
    outside: u32,
    count: u32,
}

impl Ids {
    /// Those of the namespace that this process is in.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub(crate) fn of_process(pid: u32) -> io::Result<Self> {
        let ranges = |file| {
            let text = fs::read_to_string(format!("/proc/{pid}/{file}"))?;
            io::Result::Ok(text.lines().filter_map(Range::parse).collect())
        };
        Ok(Self {
            users: ranges("uid_map")?,
            groups: ranges("gid_map")?,
        })
    }
}

impl Range {
    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self {
            inside: next()?,
            outside: next()?,
            count: next()?,
        })
    }

    fn inside(self, id: u32) -> Option<u32> {
        let offset = id.checked_sub(self.outside)?;
        (offset < self.count).then(|| self.inside + offset)
    }
}

fn inside(ranges: &[Range], id: u32) -> Option<u32> {
    ranges.iter().find_map(|range| range.inside(id))
}

/// Words as [`crate::wire::caller`] has them. A group that means nothing inside gives nobody a right there.
pub(super) fn words(status: &Status, ids: &Ids) -> Result<Vec<u8>, Errno> {
    let uid = effective(status, "Uid:").and_then(|uid| inside(&ids.users, uid));
    let gid = effective(status, "Gid:").and_then(|gid| inside(&ids.groups, gid));
    let (Some(uid), Some(gid)) = (uid, gid) else {
        return Err(Errno::PERM);
    };
    let capabilities = status.field("CapEff:").unwrap_or_default();
    let capabilities = u64::from_str_radix(capabilities, 16).map_err(|_| Errno::SRCH)?;
    let groups = status.field("Groups:").unwrap_or_default();
    let groups = groups.split_whitespace().filter_map(|id| id.parse().ok());
    let groups: Vec<u32> = groups.filter_map(|id| inside(&ids.groups, id)).collect();
    if groups.len() > MOST_GROUPS {
        return Err(Errno::PERM);
    }
    let head: [u32; WORDS] = [uid, gid, capabilities as u32, (capabilities >> 32) as u32];
    let words = head.into_iter().chain(groups);
    Ok(words.flat_map(u32::to_ne_bytes).collect())
}

/// The second of four: real, effective, saved, and of files.
fn effective(status: &Status, name: &str) -> Option<u32> {
    status.field(name)?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(line: &str) -> Range {
        Range::parse(line).unwrap()
    }

    #[test]
    fn a_number_outside_is_another_inside() {
        let ranges = [range("0 1000 1"), range("  1 100000 65536")];
        let cases = [
            (1000, Some(0)),
            (100_005, Some(6)),
            (0, None),
            (165_536, None),
        ];
        for (outside, expected) in cases {
            assert_eq!(inside(&ranges, outside), expected, "{outside}");
        }
        assert_eq!(range("0 0 4294967295").inside(u32::MAX), None);
    }
}
