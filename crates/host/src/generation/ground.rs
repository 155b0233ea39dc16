//! Which folders tenants have, by what they are and not by what they are called: by links, `..` and mounts one folder has
//! many names.

use rustix::fs::Stat;
use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

/// A folder, whatever it is called: its file system and its inode.
type Identity = (u64, u64);

/// A tenant's folder, and those in which it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ground {
    own: Identity,
    above: Vec<Identity>,
}

impl Ground {
    /// That of a folder, whose path has no links.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let mut found = folder.ancestors().map(identity);
        Some(Self {
            own: found.next()??,
            above: found.flatten().collect(),
        })
    }

    /// Whether this is the folder of which that is told.
    pub(super) fn is(&self, stat: &Stat) -> bool {
        (stat.st_dev, stat.st_ino) == self.own
    }

    #[cfg(test)]
    fn new(own: u64, above: &[u64]) -> Self {
        Self {
            own: (1, own),
            above: above.iter().map(|inode| (1, *inode)).collect(),
        }
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let stat: Stat = rustix::fs::stat(path).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// Whose folder is also that of another one, or lies in it, or has it in it; each with one such other. Asked are those of
/// whom `is_new` is true; who had his folder before keeps it.
pub(super) fn overlapping(
    grounds: &[Option<&Ground>],
    is_new: impl Fn(usize) -> bool,
) -> Vec<(usize, usize)> {
    let new: Vec<_> = (0..grounds.len()).filter(|at| is_new(*at)).collect();
    if new.is_empty() {
        return Vec::new();
    }
    let all = || {
        let all = grounds.iter().enumerate();
        all.filter_map(|(at, ground)| Some((at, (*ground)?)))
    };
    let mut by_own: HashMap<Identity, Vec<usize>> = HashMap::new();
    for (at, ground) in all() {
        by_own.entry(ground.own).or_default().push(at);
    }
    let own_of_new: HashSet<_> = new
        .iter()
        .filter_map(|at| grounds[*at])
        .map(|ground| ground.own)
        .collect();
    // Who lies in one of these.
    let mut within: HashMap<Identity, usize> = HashMap::new();
    for (at, ground) in all() {
        for above in &ground.above {
            if own_of_new.contains(above) {
                within.entry(*above).or_insert(at);
            }
        }
    }
    let other_than = |at: usize, found: &[usize]| found.iter().copied().find(|one| *one != at);
    let overlap = |at: usize| {
        let ground = grounds[at]?;
        let same = by_own.get(&ground.own);
        let same = same.and_then(|found| other_than(at, found));
        let mut above = ground.above.iter();
        let around = || above.find_map(|above| by_own.get(above)?.first().copied());
        let inside = || within.get(&ground.own).copied();
        Some((at, same.or_else(around).or_else(inside)?))
    };
    new.into_iter().filter_map(overlap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn folders_are_compared_by_what_they_are() {
        let grounds = [
            Ground::new(10, &[3, 2]),
            Ground::new(11, &[3, 2]),
            // Another name of the first.
            Ground::new(10, &[4, 2]),
            // In the second, by whatever path.
            Ground::new(20, &[11, 5, 2]),
            // Nobody's.
            Ground::new(12, &[3, 2]),
        ];
        let grounds: Vec<_> = grounds.iter().map(Some).chain([None]).collect();
        let of = |new: &[usize]| overlapping(&grounds, |at| new.contains(&at));
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[2]), [(2, 0)]);
        assert_eq!(of(&[0, 2]), [(0, 2), (2, 0)]);
        assert_eq!(of(&[3]), [(3, 1)]);
        assert_eq!(of(&[1]), [(1, 3)]);
        assert_eq!(of(&[4, 5]), []);
    }

    #[test]
    fn one_folder_is_one_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        symlink("a", at("link")).unwrap();
        let ground = |name: &str| Ground::of(&at(name)).unwrap();
        let stat = |name: &str| rustix::fs::stat(at(name)).unwrap();
        assert_eq!(ground("a").own, ground("link").own);
        assert_eq!(ground("a").own, ground("a/b/..").own);
        assert_eq!(ground("a").own, ground("a//").own);
        assert!(ground("a/b").above.contains(&ground("a").own));
        assert!(ground("a").is(&stat("link")) && !ground("a").is(&stat("a/b")));
        assert_eq!(Ground::of(&at("none")), None);
    }
}
