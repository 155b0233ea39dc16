//! The file looked at last that is no WebAssembly: who starts guests one after another mostly starts the same program.
//!
//! What is remembered only spares a look. Of a file that changed all the same, and is WebAssembly now, the process wall
//! is asked for, in which the kernel executes no such file.

use super::{Module, ModuleError};
use rustix::fs::{FileType, Stat};
use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

/// What a file was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    device: u64,
    inode: u64,
    bytes: i64,
    /// When its content or anything else about it changed, after 1970.
    changed: Duration,
}

/// A file may be written twice in one tick of the kernel's clock, and look the same: before it has been left alone for so long,
/// it is not remembered.
const SETTLED: Duration = Duration::from_secs(1);

/// The one that was looked at last.
pub(super) static LAST: Native = Native::new();

/// A native program that is known to be one.
pub(super) struct Native(Mutex<Option<State>>);

impl State {
    /// `None` for what is no regular file, or has not changed since 1970.
    fn of(stat: &Stat) -> Option<Self> {
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let seconds = u64::try_from(stat.st_ctime).ok()?;
        let nanoseconds = u32::try_from(stat.st_ctime_nsec).ok()?;
        is_file.then_some(Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            bytes: stat.st_size,
            changed: Duration::new(seconds, nanoseconds),
        })
    }

    fn is_settled(&self, now: SystemTime) -> bool {
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        self.changed.saturating_add(SETTLED) < now
    }
}

impl Native {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Whether it is what was found.
    pub(super) fn is(&self, stat: &Stat) -> bool {
        let known = *self.known();
        known.is_some() && known == State::of(stat)
    }

    /// Opens `path` if it is WebAssembly, as [`Module::open`]; remembers it if it is none.
    pub(super) fn open(&self, path: &Path) -> Result<Option<Module>, ModuleError> {
        let Ok(file) = super::open(path) else {
            return Ok(None);
        };
        let state = rustix::fs::fstat(&file).ok().as_ref().and_then(State::of);
        let module = Module::of_file(path, file)?;
        let settled = state.filter(|state| state.is_settled(SystemTime::now()));
        if module.is_none() && settled.is_some() {
            *self.known() = settled;
        }
        Ok(module)
    }

    fn known(&self) -> MutexGuard<'_, Option<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NATIVE: &[u8] = b"\x7fELF\x02\x01\x01\0";

    /// A program that has been as it is for a while.
    fn settled() -> (tempfile::NamedTempFile, Native) {
        let program = tempfile::NamedTempFile::new().unwrap();
        fs::write(&program, NATIVE).unwrap();
        let native = Native::new();
        while {
            assert!(native.open(program.path()).unwrap().is_none());
            native.known().is_none()
        } {
            std::thread::yield_now();
        }
        (program, native)
    }

    fn look(path: impl AsRef<Path>) -> Stat {
        rustix::fs::lstat(path.as_ref()).unwrap()
    }

    #[test]
    fn what_was_looked_at_is_known_until_it_changes() {
        let (program, native) = settled();
        assert!(native.is(&look(&program)));
        fs::write(&program, b"\0asm\x01\0\0\0").unwrap();
        assert!(!native.is(&look(&program)));
        assert!(native.open(program.path()).unwrap().is_some());
    }

    #[test]
    fn a_module_and_what_is_no_file_are_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let (module, native) = (folder.path().join("a.wasm"), Native::new());
        fs::write(&module, b"\0asm\x01\0\0\0").unwrap();
        let before = fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        fs::File::open(&module).unwrap().set_times(before).unwrap();
        assert!(native.open(&module).unwrap().is_some());
        assert!(native.open(folder.path()).unwrap().is_none());
        assert!(native.open(&folder.path().join("gone")).unwrap().is_none());
        assert!(native.known().is_none());
        assert!(!native.is(&look(folder.path())));
    }

    #[test]
    fn a_file_is_remembered_once_it_was_left_alone_for_a_while() {
        let state = |seconds| State {
            device: 1,
            inode: 2,
            bytes: 3,
            changed: Duration::new(seconds, 1),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        let settled = [7, 8, 9, 10, 11, u64::MAX].map(|changed| state(changed).is_settled(now));
        assert_eq!(settled, [true, true, false, false, false, false]);
    }
}
