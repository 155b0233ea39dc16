//! Files of code that stay as they are, for who has them mapped.
//!
//! | a file is held by | against |
//! |---|---|
//! | a read lease (fcntl(2), `F_SETLEASE`) | whoever has it open for writing, or mapped so: there is no lease then |
//! | a copy in memory, sealed (memfd_create(2)) | everybody; it takes memory |
//!
//! A lease is had for files of the caller's own, on file systems of this machine. Where there is none, and where the file
//! system lets nobody execute, the copy stands in for the file.
//!
//! Once the file is mapped and the lease is given back, who can open it for writing anew changes what is mapped, or cuts it
//! off, which ends whoever has it mapped (SIGBUS). That takes the user's own rights in a folder that no guest may write to:
//! who has these can end the process and read its memory as well.

use crate::{
    compile::{self, again, memory_file},
    sys::lease::Leased,
};
use rustix::fs::{SealFlags, StatVfsMountFlags};
use std::{fs::File, io, os::unix::fs::FileExt};

/// A file that nobody changes now.
#[derive(Debug)]
pub(crate) enum Held {
    /// As long as this lives.
    Leased(Leased),
    /// For ever.
    Sealed(File),
}

impl Held {
    /// This file, open for reading, or a copy of it.
    pub(crate) fn of(file: File) -> io::Result<Self> {
        let mount = rustix::fs::fstatvfs(&file)?;
        if mount.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Self::copy_of(&file);
        }
        match Leased::take(file) {
            Ok(leased) => Ok(Self::Leased(leased)),
            Err((file, _)) => Self::copy_of(&file),
        }
    }

    /// These bytes in memory.
    pub(crate) fn of_bytes(bytes: &[u8]) -> io::Result<Self> {
        let memory = memory()?;
        memory.write_all_at(bytes, 0)?;
        seal(memory)
    }

    fn copy_of(file: &File) -> io::Result<Self> {
        let mut memory = memory()?;
        io::copy(&mut again(file)?, &mut memory)?;
        seal(memory)
    }

    /// What is in memory already, or a copy there, opened for reading.
    pub(crate) fn sealed(&self) -> io::Result<File> {
        match self {
            Self::Leased(leased) => again(Self::copy_of(leased.file())?.file()),
            Self::Sealed(file) => again(file),
        }
    }

    pub(crate) fn file(&self) -> &File {
        match self {
            Self::Leased(leased) => leased.file(),
            Self::Sealed(file) => file,
        }
    }
}

fn memory() -> io::Result<File> {
    memory_file("palisade-code").map_err(|error| match error {
        compile::CompileError::MemoryFile(errno) => errno.into(),
        error => io::Error::other(error),
    })
}

fn seal(file: File) -> io::Result<Held> {
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(Held::Sealed(file))
}

#[cfg(test)]
mod tests;
