//! What a run changed of a project: told by comparing the copy, not by the guest's word.

use super::checkout::Checkout;
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// More folders than these are the project.
const MOST: usize = 8;
/// Folders of a project in which something was made, changed or removed, by their paths in it.
#[derive(Debug)]
pub(super) struct Changes {
    folders: BTreeSet<PathBuf>,
    /// The project, and the copy as the run left it.
    places: [PathBuf; 2],
    checkout: Checkout,
    /// What it lacks was not copied.
    is_fresh: bool,
}

impl Changes {
    /// Of the copy since it was made, as a fresh checkout or as a whole. What is no file, folder or link was not copied, and is passed
    /// over.
    pub(super) fn between(
        source: &Path,
        copy: &Path,
        checkout: Checkout,
        is_fresh: bool,
    ) -> io::Result<Self> {
        let mut changes = Self {
            folders: BTreeSet::new(),
            places: [source, copy].map(Into::into),
            checkout,
            is_fresh,
        };
        changes.compare(source, copy, Path::new(""))?;
        Ok(changes)
    }

    fn compare(&mut self, source: &Path, copy: &Path, below: &Path) -> io::Result<()> {
        let mut old = names(source)?;
        if self.is_fresh {
            let is_folder = |name: &OsStr| {
                let about = source.join(name).symlink_metadata();
                about.is_ok_and(|about| about.is_dir())
            };
            old.retain(|name| !self.checkout.is_without(name, is_folder(name)));
        }
        let new = match names(copy) {
            // The guest has closed it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.folders.insert(below.into());
                return Ok(());
            }
            new => new?,
        };
        let mut has_changed = false;
        for name in new {
            let (was, is) = (source.join(&name), copy.join(&name));
            let is_new = !old.remove(&name);
            // In a folder that the guest has closed nothing can be looked at.
            let Some(now) = is.symlink_metadata().ok().filter(|_| !is_new) else {
                has_changed = true;
                continue;
            };
            let before = was.symlink_metadata()?;
            match before.is_dir() && now.is_dir() {
                true => self.compare(&was, &is, &below.join(&name))?,
                false => has_changed |= !is_same((&was, &before), (&is, &now)),
            }
        }
        has_changed |= old.iter().any(|name| was_copied(&source.join(name)));
        if has_changed {
            self.folders.insert(below.into());
        }
        Ok(())
    }

    /// Folders that hold all of it, and these besides, and are there in a fresh checkout; none within another. The project itself
    /// is the empty path.
    pub(super) fn to_be_written(&self, besides: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let folders = self.folders.union(besides);
        let outermost = outermost(folders.map(|folder| self.there(folder)).collect());
        match outermost.len() > MOST {
            true => vec![PathBuf::new()],
            false => outermost,
        }
    }

    /// The part of a folder's path that a fresh checkout has.
    fn there(&self, folder: &Path) -> PathBuf {
        folder
            .iter()
            .take_while(|name| !self.checkout.is_without(name, true))
            .collect()
    }

    /// Whether a folder is there after the run, as far as that is known: only the project was copied.
    pub(super) fn has_folder(&self, folder: &Path) -> bool {
        let [source, copy] = &self.places;
        match folder.strip_prefix(source) {
            Ok(below) => copy.join(below).is_dir(),
            Err(_) => true,
        }
    }

    /// Whether a file of the project's is there after the run; of what lies elsewhere it is not known.
    pub(super) fn is_left(&self, file: &Path) -> bool {
        let [source, copy] = &self.places;
        file.strip_prefix(source)
            .is_ok_and(|below| copy.join(below).is_file())
    }

    /// Whether anything at or below a path has changed.
    pub(super) fn touch(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| folder.starts_with(path))
    }
}

/// Those that do not lie in another one.
pub(super) fn outermost(paths: BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut outermost: Vec<PathBuf> = Vec::new();
    // What lies in a folder comes right behind it.
    for path in paths {
        if outermost.last().is_none_or(|last| !path.starts_with(last)) {
            outermost.push(path);
        }
    }
    outermost
}

fn names(folder: &Path) -> io::Result<BTreeSet<OsString>> {
    let entries = fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.file_name())).collect()
}

/// A copy has the times of what it was made of.
fn is_same((was, before): (&Path, &Metadata), (is, now): (&Path, &Metadata)) -> bool {
    if before.is_symlink() && now.is_symlink() {
        return fs::read_link(was).ok() == fs::read_link(is).ok();
    }
    let of = |data: &Metadata| {
        (
            data.file_type(),
            data.len(),
            data.mtime(),
            data.mtime_nsec(),
        )
    };
    of(before) == of(now)
}

fn was_copied(path: &Path) -> bool {
    let Ok(data) = path.symlink_metadata() else {
        return false;
    };
    let readable = || rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok();
    data.is_symlink() || (data.is_file() || data.is_dir()) && readable()
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_command_line::workplace::Workplace;

    fn changes(change: impl Fn(&Path)) -> Changes {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "Makefile",
            "src/a.c",
            "src/deep/b.c",
            "target/old",
            "docs/x",
        ] {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "text").unwrap();
        }
        let ignored = "/obj/\n*.o\n# no\nmade\nbuild-*-x/\n*\n";
        fs::write(folder.path().join(".gitignore"), ignored).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket"));
        let copy = Workplace::copy_of(folder.path().into(), "").unwrap();
        change(&copy.inside());
        let checkout = Checkout::of(folder.path());
        Changes::between(folder.path(), &copy.inside(), checkout, false).unwrap()
    }

    fn written(change: impl Fn(&Path)) -> Vec<String> {
        let folders = changes(change).to_be_written(&BTreeSet::new()).into_iter();
        folders
            .map(|folder| folder.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn what_lies_in_another_one_is_left_out() {
        let paths = ["a", "a/b", "a/b/c", "a-b", "c/d", "c/d/e"].map(PathBuf::from);
        let expected = ["a", "a-b", "c/d"].map(PathBuf::from);
        assert_eq!(outermost(paths.into()), expected);
    }

    #[test]
    fn what_stays_as_it_is_has_not_changed() {
        assert_eq!(written(|_| {}), [""; 0]);
    }

    #[test]
    fn folders_in_which_something_changes() {
        assert_eq!(
            written(|copy| fs::write(copy.join("src/a.c"), "other").unwrap()),
            ["src"]
        );
        assert_eq!(
            written(|copy| fs::remove_file(copy.join("docs/x")).unwrap()),
            ["docs"]
        );
        let both = |copy: &Path| {
            fs::write(copy.join("src/new"), "").unwrap();
            fs::write(copy.join("src/deep/new"), "").unwrap();
            fs::create_dir(copy.join("docs/made")).unwrap();
        };
        assert_eq!(written(both), ["docs", "src"]);
        assert!(changes(both).touch(Path::new("src")) && !changes(both).touch(Path::new("target")));
    }

    #[test]
    fn what_a_fresh_checkout_has_not_is_made_in_what_it_has() {
        assert_eq!(
            written(|copy| fs::write(copy.join("target/new"), "").unwrap()),
            [""]
        );
        let ignored = |copy: &Path| {
            fs::create_dir(copy.join("src/obj")).unwrap();
            fs::write(copy.join("src/obj/a.o"), "").unwrap();
        };
        assert_eq!(written(ignored), ["src"]);
        let by_pattern = |copy: &Path| {
            fs::create_dir_all(copy.join("docs/cmake.o")).unwrap();
            fs::write(copy.join("docs/x"), "other").unwrap();
        };
        assert_eq!(written(by_pattern), ["docs"]);
        assert_eq!(
            written(|copy| fs::create_dir(copy.join("new")).unwrap()),
            [""]
        );
    }
}
