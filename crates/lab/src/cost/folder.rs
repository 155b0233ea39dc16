//! The folder that a command runs in: a fresh copy for each run, or the user's own.
//!
//! A command that is run again finds what its last run left: `bzip2 -k FILE` fails the second time.
//! So each run begins with the folder as the user left it, and the user's own stays as it is.

use anyhow::{Context, bail};
use rustix::{fs::OFlags, process::geteuid};
use std::{
    cell::Cell,
    fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions},
    io::{self, ErrorKind},
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink},
    },
    path::{Path, PathBuf},
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

/// Where the command runs.
#[derive(Debug)]
pub struct Workplace {
    /// The user's folder.
    source: PathBuf,
    /// What holds the copy; `None` is the user's folder itself.
    copy: Option<TempDir>,
    /// Files that could not be copied.
    left_out: Cell<usize>,
}

impl Workplace {
    /// The folder itself: runs see what the runs before them left.
    pub fn in_place(source: PathBuf) -> Self {
        Self {
            source,
            copy: None,
            left_out: Cell::new(0),
        }
    }

    /// A copy, made anew for each run.
    ///
    /// # Errors
    ///
    /// When the folder is somebody's home or a folder of the system, larger than [`MOST_BYTES`] or
    /// [`MOST_FILES`], or when there is no room.
    pub fn copy_of(source: PathBuf) -> anyhow::Result<Self> {
        refuse_if_general(&source)?;
        let mut size = Size::default();
        size.add(&source);
        if size.is_too_much() {
            bail!(
                "usage: {} has more than {} MiB or {MOST_FILES} files in it, too much to copy before each run; {ADVICE}",
                source.display(),
                MOST_BYTES >> 20
            );
        }
        let copy = tempfile::Builder::new()
            .prefix("palisade-cost-")
            // The user's folder may lie in one that others cannot enter.
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(place_near(&source))
            .context("host: cannot make a folder for copies; set TMPDIR to one with room")?;
        let workplace = Self {
            source,
            copy: Some(copy),
            left_out: Cell::new(0),
        };
        workplace.refresh()?;
        Ok(workplace)
    }

    /// The user's folder.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The folder that the command runs in.
    pub fn inside(&self) -> PathBuf {
        let name = self.source.file_name().unwrap_or_default();
        match &self.copy {
            Some(copy) => copy.path().join(name),
            None => self.source.clone(),
        }
    }

    /// Whether runs are in a copy.
    pub fn is_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// A path of the user's, where runs find it.
    pub(super) fn moved(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.source) {
            Ok(below) if below.as_os_str().is_empty() => self.inside(),
            Ok(below) => self.inside().join(below),
            Err(_) => path.to_owned(),
        }
    }

    /// Where copies are, if that is not the folder's own disk.
    pub(super) fn is_elsewhere(&self) -> Option<&Path> {
        let copies = self.copy.as_ref()?.path();
        (device(copies) != device(&self.source)).then_some(copies)
    }

    /// How many files could not be copied.
    pub(super) fn left_out(&self) -> usize {
        self.left_out.get()
    }

    /// Makes the copy what the user's folder is.
    pub(super) fn refresh(&self) -> anyhow::Result<()> {
        let Some(copy) = &self.copy else {
            return Ok(());
        };
        let inside = self.inside();
        let fault = || {
            format!(
                "host: cannot copy {} to {}",
                self.source.display(),
                inside.display()
            )
        };
        remove(&inside).with_context(fault)?;
        let mut copying = Copying {
            skipped: identity(&fs::metadata(copy.path())?),
            left_out: 0,
        };
        copying.folder(&self.source, &inside).with_context(fault)?;
        self.left_out.set(copying.left_out);
        Ok(())
    }
}

const ADVICE: &str = "go to a folder with only what the command needs, or run in the folder itself with --in-place, where --cleanup COMMAND takes away what a run leaves";

fn refuse_if_general(source: &Path) -> anyhow::Result<()> {
    let home = std::env::home_dir().and_then(|home| fs::canonicalize(home).ok());
    if home.is_some_and(|home| home == source) {
        bail!(
            "usage: {} is your home, which is not copied for each run; {ADVICE}",
            source.display()
        );
    }
    if EVERYBODYS.iter().any(|folder| Path::new(folder) == source) {
        bail!(
            "usage: {} is a folder of the system, which is not copied for each run; {ADVICE}",
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
    fn add(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.path().symlink_metadata() else {
                continue;
            };
            self.files += 1;
            if data.is_file() {
                self.bytes += data.len();
            }
            if self.is_too_much() {
                return;
            }
            if data.is_dir() {
                self.add(&entry.path());
            }
        }
    }
}

/// Also what a run has made read-only.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_up(folder);
            fs::remove_dir_all(folder)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn open_up(folder: &Path) {
    // Whatever stays closed is told by the removal.
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if self.copy.is_some() {
            open_up(&self.inside());
        }
    }
}

/// Somebody who may write to the folder can put a link or a FIFO in the place of anything at any time: no
/// link is followed, no FIFO waited for, and what is in a folder is named by its descriptor.
struct Copying {
    /// Where copies are made: not part of one.
    skipped: (u64, u64),
    left_out: usize,
}

impl Copying {
    fn folder(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir(to)?;
        let folder = open_itself(from, OFlags::DIRECTORY)?;
        let inside = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        for entry in fs::read_dir(&inside)? {
            let entry = entry?;
            if identity(&entry.metadata()?) != self.skipped {
                self.entry(&entry.path(), &to.join(entry.file_name()))?;
            }
        }
        settle(&folder.metadata()?, to)
    }

    /// Links stay links; sockets, FIFOs, devices and what the user may not read are left out.
    fn entry(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let kind = from.symlink_metadata()?.file_type();
        let copied = if kind.is_dir() {
            self.folder(from, to)
        } else if kind.is_symlink() {
            fs::read_link(from).and_then(|target| symlink(target, to))
        } else if kind.is_file() {
            copy_file(from, to)
        } else {
            Err(ErrorKind::PermissionDenied.into())
        };
        match copied {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.left_out += 1;
                Ok(())
            }
            copied => copied,
        }
    }
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut file = open_itself(from, OFlags::empty())?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let mut copy = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(data.mode() & 0o777)
        .open(to)?;
    io::copy(&mut file, &mut copy)?;
    settle(&data, to)
}

fn open_itself(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

fn identity(data: &Metadata) -> (u64, u64) {
    (data.dev(), data.ino())
}

/// Owner, mode and time as they were: build tools look at them. A copied program is nobody else's: it does not run
/// as its owner.
fn settle(data: &Metadata, to: &Path) -> io::Result<()> {
    const RUNS_AS_OWNER: u32 = 0o6000;
    if geteuid().is_root() {
        lchown(to, Some(data.uid()), Some(data.gid()))?;
    }
    let kept = match data.is_dir() {
        true => 0o7777,
        false => 0o7777 & !RUNS_AS_OWNER,
    };
    fs::set_permissions(to, Permissions::from_mode(data.mode() & kept))?;
    let times = FileTimes::new().set_modified(data.modified()?);
    // A file that is not ours to write may keep its new time.
    match File::open(to).and_then(|file| file.set_times(times)) {
        Err(error) if error.kind() != ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let workplace = Workplace::copy_of(source.path().to_owned()).unwrap();
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
    fn nobody_else_reaches_a_copy() {
        let source = folder();
        let file = source.path().join("sub/file");
        fs::set_permissions(&file, Permissions::from_mode(0o6755)).unwrap();
        let workplace = Workplace::copy_of(source.path().to_owned()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(workplace.inside().parent().unwrap()), 0o700);
        assert_eq!(mode(&workplace.inside().join("sub/file")), 0o755);
    }

    #[test]
    fn what_is_no_file_is_left_out_and_counted() {
        let source = folder();
        let socket = std::os::unix::net::UnixListener::bind(source.path().join("socket"));
        let workplace = Workplace::copy_of(source.path().to_owned()).unwrap();
        assert_eq!(workplace.left_out(), 1);
        drop(socket);
    }

    #[test]
    fn paths_of_the_users_are_found_in_the_copy() {
        let source = folder();
        let workplace = Workplace::copy_of(source.path().to_owned()).unwrap();
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
        let error = Workplace::copy_of("/usr".into()).unwrap_err().to_string();
        assert!(error.contains("/usr is a folder of the system") && error.contains("--in-place"));
    }

    #[test]
    fn a_folder_that_is_too_large_is_not_copied() {
        let source = folder();
        let file = File::create(source.path().join("large")).unwrap();
        file.set_len(MOST_BYTES + 1).unwrap();
        let error = Workplace::copy_of(source.path().to_owned()).unwrap_err();
        assert!(error.to_string().contains("more than 1024 MiB"), "{error}");
    }
}
