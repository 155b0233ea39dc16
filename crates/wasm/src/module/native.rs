//! The file looked at last that is no WebAssembly: who starts guests one after another mostly starts the same program.
//!
//! What is remembered only spares a look. A file that is WebAssembly now although nothing of what tells says so goes to the
//! process wall, as if its owner had asked for that: the kernel executes no such file, but where somebody has registered an
//! interpreter for it (binfmt_misc), and then within what the policy grants.

use super::{Module, ModuleError};
use rustix::fs::{FileType, Stat};
use std::{
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
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

/// The one of this process.
pub(super) static NATIVE: Remembered = Remembered::new();

/// What is remembered.
pub(super) struct Remembered {
    last: Mutex<Option<State>>,
    /// The first file is not remembered, which takes a call: the command looks at one alone.
    has_looked: AtomicBool,
}

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

impl Remembered {
    const fn new() -> Self {
        Self {
            last: Mutex::new(None),
            has_looked: AtomicBool::new(false),
        }
    }

    /// Whether what was found is remembered.
    pub(super) fn has(&self, found: &Stat) -> bool {
        let last = *self.last();
        last.is_some() && last == State::of(found)
    }

    /// Opens `path` if it is WebAssembly, as [`Module::open`]; remembers it if it is none.
    pub(super) fn open(&self, path: &Path) -> Result<Option<Module>, ModuleError> {
        self.open_at(SystemTime::now(), path)
    }

    fn open_at(&self, now: SystemTime, path: &Path) -> Result<Option<Module>, ModuleError> {
        let Ok(file) = super::open(path) else {
            return Ok(None);
        };
        let is_second = self.has_looked.swap(true, Ordering::Relaxed);
        let stat = is_second.then(|| rustix::fs::fstat(&file).ok()).flatten();
        let state = stat.as_ref().and_then(State::of);
        let module = Module::of_file(path, file)?;
        let settled = state.filter(|state| state.is_settled(now));
        if module.is_none() && settled.is_some() {
            *self.last() = settled;
        }
        Ok(module)
    }

    fn last(&self) -> MutexGuard<'_, Option<State>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const ELF: &[u8] = b"\x7fELF\x02\x01\x01\0";

    const MODULE: &[u8] = b"\0asm\x01\0\0\0";

    /// When what is there now has been left alone for long enough.
    fn later() -> SystemTime {
        SystemTime::now() + 2 * SETTLED
    }

    fn look(path: impl AsRef<Path>) -> Stat {
        rustix::fs::lstat(path.as_ref()).unwrap()
    }

    #[test]
    fn what_was_looked_at_is_known_until_it_changes() {
        let (program, native) = (tempfile::NamedTempFile::new().unwrap(), Remembered::new());
        fs::write(&program, ELF).unwrap();
        assert!(native.open_at(later(), program.path()).unwrap().is_none());
        assert!(!native.has(&look(&program)), "who looks once");
        assert!(
            native
                .open_at(SystemTime::now(), program.path())
                .unwrap()
                .is_none()
        );
        assert!(!native.has(&look(&program)));
        assert!(native.open_at(later(), program.path()).unwrap().is_none());
        assert!(native.has(&look(&program)));
        // As soon as the kernel's clock has ticked.
        while native.has(&look(&program)) {
            fs::write(&program, MODULE).unwrap();
        }
        assert!(native.open_at(later(), program.path()).unwrap().is_some());
    }

    #[test]
    fn a_module_and_what_is_no_file_are_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let (module, native) = (folder.path().join("a.wasm"), Remembered::new());
        fs::write(&module, MODULE).unwrap();
        for _ in 0..2 {
            assert!(native.open_at(later(), &module).unwrap().is_some());
        }
        for none in [
            folder.path(),
            &folder.path().join("gone"),
            Path::new("/dev/null"),
        ] {
            assert!(native.open_at(later(), none).unwrap().is_none());
            assert_eq!(*native.last(), None, "{}", none.display());
        }
        assert!(!native.has(&look(folder.path())));
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
