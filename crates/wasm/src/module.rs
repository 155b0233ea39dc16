//! Which program a user means, and whether it is WebAssembly.

mod native;

use native::NATIVE;
use palisade_policy::{Policy, WallKind};
use palisade_process::paths::{join, normalized};
use palisade_wall::Surroundings;
use rustix::{
    fs::{FileType, Mode, OFlags, Stat},
    io::Errno,
};
use serde::Serialize;
use std::{
    ffi::OsStr,
    fs::File,
    io::Read,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

/// No program is larger: compilers and language runtimes are up to 60 MB.
pub const MOST_MODULE_BYTES: u64 = 256 << 20;

/// `\0asm`, the version and the layer.
const HEAD_BYTES: usize = 8;

/// What a WebAssembly file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A core module: WASI preview 1.
    Module,
    /// A component: WASI 0.2 or 0.3.
    Component,
}

impl Kind {
    /// Reads the first bytes of a file; `None` if it is not WebAssembly. The upper half of the version
    /// field is the layer.
    pub fn of_head(head: &[u8]) -> Option<Self> {
        match head {
            [0, b'a', b's', b'm', _, _, 1, 0, ..] => Some(Self::Component),
            [0, b'a', b's', b'm', ..] => Some(Self::Module),
            _ => None,
        }
    }
}

/// A WebAssembly file, open.
#[derive(Clone, Debug, Serialize)]
pub struct Module {
    /// Where it lies on the host.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    #[serde(skip)]
    file: Arc<File>,
}

/// There is no module to run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum ModuleError {
    #[error(
        "policy: the wasm wall runs WebAssembly, and {} is none: leave `wall` out, and palisade chooses by the file",
        program.display()
    )]
    IsNative { program: PathBuf },
    #[error(
        "policy: the process wall runs native programs, and {} is WebAssembly: leave `wall` out, and palisade \
         chooses by the file",
        program.display()
    )]
    IsWasm { program: PathBuf },
    #[error("policy: {} was not found on the host: name the module's file", program.display())]
    NotFound { program: PathBuf },
    #[error("host: {} cannot be read: {errno}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("guest: {} is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("guest: {} is larger than {} MiB, which no module may be", path.display(), MOST_MODULE_BYTES >> 20)]
    TooLarge { path: PathBuf },
    #[error("host: {} changed while it was read; run again if that was you", path.display())]
    Changed { path: PathBuf },
}

/// Finds the module that `program` names; `None` if it is a native program's name. With a slash it is
/// a path as the guest sees it, or the host's where the guest sees none: the first that is there decides, native or
/// not. Without one it is a native program's, found by
/// `PATH`, unless it ends in `.wasm`: then it is a file of the current folder.
///
/// One file is opened at most, and eight bytes of it are read, before it is known to be WebAssembly.
///
/// # Errors
///
/// When the wall that the policy names does not suit the file, or the file can't be read.
pub fn find(
    program: &OsStr,
    policy: &Policy,
    surroundings: &Surroundings,
) -> Result<Option<Module>, ModuleError> {
    let places = places(program, policy, surroundings).into_iter();
    let mut there = places.filter_map(|path| Some((look_at(&path)?, path)));
    let place = there.next();
    let module = place.as_ref().map(|(look, path)| match look {
        Ok(stat) if NATIVE.has(stat) => Ok(None),
        _ => NATIVE.open(path),
    });
    let module = module.and_then(Result::transpose);
    match (policy.wall, module) {
        (None | Some(WallKind::Wasm), Some(module)) => module.map(Some),
        (None | Some(WallKind::Process), None) => Ok(None),
        (Some(WallKind::Process), Some(Ok(_))) => Err(ModuleError::IsWasm {
            program: program.into(),
        }),
        // What can't be read is for the guest's own side to say.
        (Some(WallKind::Process), Some(Err(_))) => Ok(None),
        (Some(WallKind::Wasm), None) => {
            let program = PathBuf::from(program);
            Err(match place {
                Some(_) => ModuleError::IsNative { program },
                None => ModuleError::NotFound { program },
            })
        }
    }
}

/// What a path means, if something: a link too, which may lead somewhere inside, and what can't be looked at.
fn look_at(path: &Path) -> Option<Result<Stat, Errno>> {
    match rustix::fs::lstat(path) {
        Err(Errno::NOENT | Errno::NOTDIR) => None,
        look => Some(look),
    }
}

/// Paths of the host to try, in order.
fn places(program: &OsStr, policy: &Policy, surroundings: &Surroundings) -> Vec<PathBuf> {
    let has_slash = program.as_encoded_bytes().contains(&b'/');
    let is_named_so = program.as_encoded_bytes().ends_with(b".wasm");
    // A file of the current folder that has the name of a native program must not be taken for it.
    if !has_slash && !is_named_so && policy.wall != Some(WallKind::Wasm) {
        return Vec::new();
    }
    let outside = surroundings.cwd.clone().unwrap_or_default();
    let typed = outside.join(program);
    let inside = policy.grants.cwd.as_ref().unwrap_or(&outside);
    let granted = host_path(policy, &normalized(&inside.join(program)));
    granted
        .filter(|path| *path != typed)
        .into_iter()
        .chain([typed])
        .collect()
}

/// Where on the host the guest's `path` lies, by the deepest grant at or above it.
fn host_path(policy: &Policy, path: &Path) -> Option<PathBuf> {
    let files = policy.grants.files.iter();
    let shown = files.filter(|grant| grant.access.maps_host_path());
    let around = shown.filter(|grant| path.starts_with(grant.guest_path()));
    let grant = around.max_by_key(|grant| grant.guest_path().components().count())?;
    let rest = path.strip_prefix(grant.guest_path()).ok()?;
    Some(join(&grant.host, rest))
}

impl Module {
    /// Opens `path` if it is WebAssembly, without waiting for anybody: it may be a FIFO.
    ///
    /// # Errors
    ///
    /// When it is WebAssembly and no regular file.
    pub fn open(path: &Path) -> Result<Option<Self>, ModuleError> {
        match open(path) {
            Ok(file) => Self::of_file(path, file),
            Err(_) => Ok(None),
        }
    }

    /// Where the file lies that is open, without links; nowhere, an empty path, if the kernel does not tell.
    pub(crate) fn place(&self) -> PathBuf {
        let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        std::fs::read_link(open).unwrap_or_default()
    }

    /// The same of what somebody has opened at `path`, with `O_NONBLOCK`.
    ///
    /// # Errors
    ///
    /// When it is WebAssembly and no regular file.
    pub fn of_file(path: &Path, file: OwnedFd) -> Result<Option<Self>, ModuleError> {
        let mut head = [0; HEAD_BYTES];
        let read = rustix::io::read(&file, &mut head).unwrap_or(0);
        let Some(kind) = Kind::of_head(&head[..read]) else {
            return Ok(None);
        };
        let unreadable = |errno| ModuleError::Unreadable {
            path: path.into(),
            errno,
        };
        let stat = rustix::fs::fstat(&file).map_err(unreadable)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ModuleError::NotAFile { path: path.into() });
        }
        Ok(Some(Self {
            path: path.into(),
            kind,
            file: Arc::new(file.into()),
        }))
    }

    /// How long its file is now, in bytes.
    ///
    /// # Errors
    ///
    /// When that can't be told.
    pub fn file_bytes(&self) -> Result<u64, ModuleError> {
        let stat = rustix::fs::fstat(self.file.as_fd());
        let stat = stat.map_err(|errno| ModuleError::Unreadable {
            path: self.path.clone(),
            errno,
        })?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Reads all of it.
    ///
    /// # Errors
    ///
    /// When it can't be read, is too large, or changes meanwhile.
    pub fn read(&self) -> Result<Vec<u8>, ModuleError> {
        let path = || self.path.clone();
        let unreadable = |errno| ModuleError::Unreadable {
            path: path(),
            errno,
        };
        let size = self.file_bytes()?;
        if size > MOST_MODULE_BYTES {
            return Err(ModuleError::TooLarge { path: path() });
        }
        let mut bytes = vec![0; size as usize];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) if Kind::of_head(&bytes) == Some(self.kind) => Ok(bytes),
            Ok(()) => Err(ModuleError::Changed { path: path() }),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(ModuleError::Changed { path: path() })
            }
            Err(error) => Err(unreadable(
                Errno::from_io_error(&error).unwrap_or(Errno::IO),
            )),
        }
    }
}

fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Reads at most so many bytes.
pub(crate) fn read_at_most(from: impl Read, most_bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
