//! Where operators ask: no guest is led there, and no client by an upstream server.
//!
//! A configuration that grants it is refused. But a name may lead there only when it is looked up, a link only when it
//! is followed, and a port that the kernel chooses is nobody's before. So who connects for guests looks once more at the
//! address or the file that it really is.

use crate::config::Address;
use palisade_network::Withheld;
use rustix::fs::Stat;
use std::{
    os::fd::AsFd,
    path::Path,
    sync::{PoisonError, RwLock},
};

/// Sockets of operators in the file system, of this process: one at most, but while it changes.
static FILES: RwLock<Vec<Kept>> = RwLock::new(Vec::new());

#[derive(Debug)]
struct Kept {
    file: File,
    has_token: bool,
}

/// A file, whatever it is called: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File(u64, u64);

impl File {
    /// The one that a path leads to, links or not.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        rustix::fs::stat(path).ok().map(|stat| Self::of(&stat))
    }

    /// The one that is open.
    pub(crate) fn opened(file: impl AsFd) -> Option<Self> {
        rustix::fs::fstat(file).ok().map(|stat| Self::of(&stat))
    }

    fn of(stat: &Stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }
}

/// Keeps a socket of operators from others until it is dropped.
#[derive(Debug)]
pub(crate) enum Operators {
    /// A port, whose number is all that it is.
    Port { _withheld: Withheld },
    /// A file.
    File(File),
    /// A port that wants a token: it answers nobody who has none.
    Guarded,
}

impl Operators {
    /// Keeps what listens at this address; `None`: there is no file.
    pub(crate) fn at(address: &Address, has_token: bool) -> Option<Self> {
        match address {
            Address::Internet(_) if has_token => Some(Self::Guarded),
            Address::Internet(address) => Some(Self::Port {
                _withheld: Withheld::new(*address),
            }),
            Address::Unix(path) => {
                let file = File::at(path)?;
                let mut files = FILES.write().unwrap_or_else(PoisonError::into_inner);
                files.push(Kept { file, has_token });
                Some(Self::File(file))
            }
        }
    }
}

impl Drop for Operators {
    fn drop(&mut self) {
        let Self::File(own) = self else {
            return;
        };
        let mut files = FILES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = files.iter().position(|kept| kept.file == *own) {
            files.remove(at);
        }
    }
}

/// Whether operators ask there without a token.
pub(crate) fn answers_everybody(file: File) -> bool {
    is_kept(file, |kept| !kept.has_token)
}

/// Whether operators ask there.
pub(crate) fn is_operators(file: File) -> bool {
    is_kept(file, |_| true)
}

fn is_kept(file: File, which: impl Fn(&Kept) -> bool) -> bool {
    let files = FILES.read().unwrap_or_else(PoisonError::into_inner);
    files.iter().any(|kept| kept.file == file && which(kept))
}
