//! The folder that a command runs in: a fresh copy for each run, or the user's own.
//!
//! A command that is run again finds what its last run left: `bzip2 -k FILE` fails the second time.
//! So each run begins with the folder as the user left it, and the user's own stays as it is.

mod mirror;

use crate::home::home_dir;
use anyhow::{Context, bail};
use mirror::Mirror;
use std::{
    cell::{Cell, RefCell},
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A folder with more in it is not copied before each run.
pub const MOST_BYTES: u64 = 1 << 30;
/// A folder with more files and folders in it isn't either.
pub const MOST_FILES: u64 = 50_000;

/// Folders of everybody: nobody means all that is in them.
const EVERYBODYS: [&str; 16] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/opt", "/proc", "/run", "/sbin",
    "/sys", "/tmp", "/usr", "/var", "/var/tmp",
];

/// What a copy has not, by its name, and by whether it is a folder.
pub type Without = Box<dyn Fn(&OsStr, bool) -> bool>;

/// Where the command runs.
pub struct Workplace {
    /// The user's folder.
    source: PathBuf,
    without: Without,
    /// What holds the copy; `None` is the user's folder itself.
    copy: Option<TempDir>,
    /// How it was left.
    mirror: RefCell<Mirror>,
    /// Files that could not be copied.
    left_out: Cell<usize>,
    /// How often it was copied, and how long that took together.
    copying: Cell<(u32, Duration)>,
}

impl Workplace {
    fn new(source: PathBuf, without: Without, copy: Option<TempDir>) -> Self {
        Self {
            source,
            without,
            copy,
            mirror: RefCell::default(),
            left_out: Cell::new(0),
            copying: Cell::default(),
        }
    }

    /// The folder itself: runs see what the runs before them left.
    pub fn in_place(source: PathBuf) -> Self {
        Self::new(source, Box::new(|_, _| false), None)
    }

    /// A copy, as the user left the folder before each run.
    ///
    /// # Errors
    ///
    /// When the folder is somebody's home or a folder of the system, larger than [`MOST_BYTES`] or
    /// [`MOST_FILES`], for which there is this advice, or when there is no room.
    pub fn copy_of(source: PathBuf, advice: &str) -> anyhow::Result<Self> {
        Self::copy_without(source, Box::new(|_, _| false), advice)
    }

    /// The same without what these names are of.
    ///
    /// # Errors
    ///
    /// As for [`Workplace::copy_of`].
    pub fn copy_without(source: PathBuf, without: Without, advice: &str) -> anyhow::Result<Self> {
        refuse_if_general(&source, advice)?;
        let mut size = Size::default();
        size.add(&source, &without);
        if size.is_too_much() {
            bail!(
                "usage: {} has more than {} MiB or {MOST_FILES} files in it, too much to copy before each run; {advice}",
                source.display(),
                MOST_BYTES >> 20
            );
        }
        let copy = tempfile::Builder::new()
            .prefix("palisade-copy-")
            // The user's folder may lie in one that others cannot enter.
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(place_near(&source))
            .context("host: cannot make a folder for copies; set TMPDIR to one with room")?;
        let workplace = Self::new(source, without, Some(copy));
        workplace.refresh()?;
        Ok(workplace)
    }

    /// The user's folder.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The folder that the command runs in.
    pub fn inside(&self) -> PathBuf {
        match &self.copy {
            Some(copy) => copy.path().join(self.name()),
            None => self.source.clone(),
        }
    }

    fn name(&self) -> &OsStr {
        self.source.file_name().unwrap_or_default()
    }

    /// Whether runs are in a copy.
    pub fn is_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// A path of the user's, where runs find it.
    pub fn moved(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.source) {
            Ok(below) if below.as_os_str().is_empty() => self.inside(),
            Ok(below) => self.inside().join(below),
            Err(_) => path.to_owned(),
        }
    }

    /// Where copies are, if that is not the folder's own disk.
    pub fn is_elsewhere(&self) -> Option<&Path> {
        let copies = self.copy.as_ref()?.path();
        (device(copies) != device(&self.source)).then_some(copies)
    }

    /// How many files could not be copied.
    pub fn left_out(&self) -> usize {
        self.left_out.get()
    }

    /// How often it was copied so far, and how long that took together.
    pub fn copying(&self) -> (u32, Duration) {
        self.copying.get()
    }

    /// Makes the copy what the user's folder is.
    ///
    /// # Errors
    ///
    /// When something of either can't be read or written.
    pub fn refresh(&self) -> anyhow::Result<()> {
        let Some(copy) = &self.copy else {
            return Ok(());
        };
        let began = Instant::now();
        let mut mirror = self.mirror.borrow_mut();
        let refreshed = mirror.refresh(&self.source, copy.path(), self.name(), &self.without);
        let left_out = refreshed.with_context(|| {
            let (source, inside) = (self.source.display(), self.inside());
            format!("host: cannot copy {source} to {}", inside.display())
        })?;
        self.left_out.set(left_out);
        let (copies, took) = self.copying.get();
        self.copying.set((copies + 1, took + began.elapsed()));
        Ok(())
    }
}

/// What a run has left in a copy, copied to a folder that is not there yet. Gives how many files could not be.
///
/// # Errors
///
/// When something cannot be read or written.
pub fn keep(left: &Path, folder: &Path) -> anyhow::Result<usize> {
    let (Some(around), Some(name)) = (folder.parent(), folder.file_name()) else {
        bail!("usage: {} is no folder that can be made", folder.display());
    };
    // One that somebody has made meanwhile is not written to.
    fs::create_dir(folder).with_context(|| format!("host: cannot make {}", folder.display()))?;
    let mut mirror = Mirror::default();
    let kept = mirror.refresh(left, around, name, &|_, _| false);
    kept.with_context(|| format!("host: cannot copy what was left to {}", folder.display()))
}

fn refuse_if_general(source: &Path, advice: &str) -> anyhow::Result<()> {
    let home = home_dir().and_then(|home| fs::canonicalize(home).ok());
    if home.is_some_and(|home| home == source) {
        bail!(
            "usage: {} is your home, which is not copied for each run; {advice}",
            source.display()
        );
    }
    if EVERYBODYS.iter().any(|folder| Path::new(folder) == source) {
        bail!(
            "usage: {} is a folder of the system, which is not copied for each run; {advice}",
            source.display()
        );
    }
    Ok(())
}

/// A place for temporary files, on the folder's own disk if there is one there: another disk would be
/// another measurement.
fn place_near(source: &Path) -> PathBuf {
    let first = std::env::temp_dir();
    let places = [first.clone(), "/var/tmp".into()];
    let is_near = |place: &PathBuf| device(place) == device(source);
    places.into_iter().find(is_near).unwrap_or(first)
}

fn device(path: &Path) -> Option<u64> {
    fs::metadata(path).map(|data| data.dev()).ok()
}

/// How much there is to copy.
#[derive(Default)]
struct Size {
    bytes: u64,
    files: u64,
}

impl Size {
    fn is_too_much(&self) -> bool {
        self.bytes > MOST_BYTES || self.files > MOST_FILES
    }

    /// Stops when it is too much. What can't be read is not copied either.
    fn add(&mut self, folder: &Path, without: &dyn Fn(&OsStr, bool) -> bool) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.path().symlink_metadata() else {
                continue;
            };
            if without(&entry.file_name(), data.is_dir()) {
                continue;
            }
            self.files += 1;
            if data.is_file() {
                self.bytes += data.len();
            }
            if self.is_too_much() {
                return;
            }
            if data.is_dir() {
                self.add(&entry.path(), without);
            }
        }
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if let Some(copy) = &self.copy {
            // What stays closed is told by nobody: its folder is for temporary files.
            let _ = mirror::remove_from(copy.path(), self.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, os::unix::fs::symlink};

    fn folder() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/file"), "as it was").unwrap();
        symlink("sub/file", folder.path().join("link")).unwrap();
        folder
    }

    #[test]
    fn each_run_finds_the_folder_as_the_user_left_it() {
        let source = folder();
        let workplace = Workplace::copy_of(source.path().to_owned(), "elsewhere").unwrap();
        let inside = workplace.inside();
        fs::write(inside.join("sub/file"), "changed").unwrap();
        fs::write(inside.join("new"), "").unwrap();
        fs::set_permissions(inside.join("sub"), Permissions::from_mode(0o500)).unwrap();
        workplace.refresh().unwrap();
        assert_eq!(
            fs::read_to_string(inside.join("link")).unwrap(),
            "as it was"
        );
        assert!(!inside.join("new").exists());
        assert_eq!(fs::read_dir(source.path()).unwrap().count(), 2);
        let time = |path: &Path| {
            fs::metadata(path.join("sub/file"))
                .unwrap()
                .modified()
                .unwrap()
        };
        assert_eq!(time(source.path()), time(&inside));
        drop(workplace);
        assert!(!inside.exists());
    }

    #[test]
    fn a_copy_is_without_what_is_named() {
        let source = folder();
        fs::create_dir(source.path().join("sub/made")).unwrap();
        fs::write(source.path().join("made"), "a file").unwrap();
        let large = File::create(source.path().join("sub/made/large")).unwrap();
        large.set_len(MOST_BYTES + 1).unwrap();
        let without = Box::new(|name: &OsStr, is_folder| is_folder && name == "made");
        let copy = Workplace::copy_without(source.path().into(), without, "").unwrap();
        let inside = copy.inside().join("sub");
        assert!(inside.join("file").exists() && !inside.join("made").exists());
        assert!(copy.inside().join("made").exists());
        fs::create_dir(inside.join("made")).unwrap();
        copy.refresh().unwrap();
        assert!(!inside.join("made").exists(), "what a run made of it goes");
    }

    #[test]
    fn nobody_else_reaches_a_copy() {
        let source = folder();
        let file = source.path().join("sub/file");
        fs::set_permissions(&file, Permissions::from_mode(0o6755)).unwrap();
        let workplace = Workplace::copy_of(source.path().to_owned(), "elsewhere").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(workplace.inside().parent().unwrap()), 0o700);
        assert_eq!(mode(&workplace.inside().join("sub/file")), 0o755);
    }

    #[test]
    fn what_is_no_file_is_left_out_and_counted() {
        let source = folder();
        let socket = std::os::unix::net::UnixListener::bind(source.path().join("socket"));
        let workplace = Workplace::copy_of(source.path().to_owned(), "elsewhere").unwrap();
        assert_eq!(workplace.left_out(), 1);
        drop(socket);
    }

    #[test]
    fn paths_of_the_users_are_found_in_the_copy() {
        let source = folder();
        let workplace = Workplace::copy_of(source.path().to_owned(), "elsewhere").unwrap();
        let inside = workplace.inside();
        assert_eq!(workplace.moved(source.path()), inside);
        assert_eq!(
            workplace.moved(&source.path().join("sub")),
            inside.join("sub")
        );
        assert_eq!(workplace.moved(Path::new("/usr")), Path::new("/usr"));
        let here = Workplace::in_place(source.path().to_owned());
        assert_eq!(here.moved(source.path()), source.path());
    }

    #[test]
    fn a_folder_of_everybody_is_not_copied() {
        let error = Workplace::copy_of("/usr".into(), "elsewhere")
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("/usr is a folder of the system") && error.contains("elsewhere"));
    }

    #[test]
    fn a_folder_that_is_too_large_is_not_copied() {
        let source = folder();
        let file = File::create(source.path().join("large")).unwrap();
        file.set_len(MOST_BYTES + 1).unwrap();
        let error = Workplace::copy_of(source.path().to_owned(), "elsewhere").err();
        let error = error.unwrap();
        assert!(error.to_string().contains("more than 1024 MiB"), "{error}");
    }
}
