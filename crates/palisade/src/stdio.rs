//! What a guest gets as its standard streams.

use crate::Error;
use rustix::fs::{Mode, OFlags};
use std::{
    io::{IsTerminal, PipeReader, PipeWriter},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

/// One standard stream of a guest.
#[derive(Debug)]
pub struct Stdio(Kind);

#[derive(Debug)]
enum Kind {
    Null,
    Inherit,
    Piped,
    Descriptor(OwnedFd),
}

impl Stdio {
    /// `/dev/null`.
    pub fn null() -> Self {
        Self(Kind::Null)
    }

    /// This process's own. A terminal is passed on for writing only, and never as stdin.
    pub fn inherit() -> Self {
        Self(Kind::Inherit)
    }

    /// A pipe; the other end is in the [`Domain`](crate::Domain).
    pub fn piped() -> Self {
        Self(Kind::Piped)
    }

    /// Whether all that is written there is read through this library, or by nobody.
    pub(crate) fn is_countable(&self) -> bool {
        matches!(self.0, Kind::Null | Kind::Piped)
    }

    pub(crate) fn for_reading(&self) -> Result<(OwnedFd, Option<PipeWriter>), Error> {
        match &self.0 {
            Kind::Null => Ok((open("/dev/null", OFlags::RDONLY)?, None)),
            Kind::Inherit if std::io::stdin().is_terminal() => Err(Error::StdinIsTerminal),
            Kind::Inherit => Ok((std::io::stdin().as_fd().try_clone_to_owned()?, None)),
            Kind::Piped => {
                let (reader, writer) = std::io::pipe()?;
                Ok((reader.into(), Some(writer)))
            }
            Kind::Descriptor(descriptor) => Ok((descriptor.try_clone()?, None)),
        }
    }

    pub(crate) fn for_writing(
        &self,
        own: BorrowedFd<'_>,
    ) -> Result<(OwnedFd, Option<PipeReader>), Error> {
        match &self.0 {
            Kind::Null => Ok((open("/dev/null", OFlags::WRONLY)?, None)),
            // A terminal is usually open for reading too: whoever has it could read what is typed.
            Kind::Inherit if own.is_terminal() => Ok((
                open(
                    &format!("/proc/self/fd/{}", own.as_raw_fd()),
                    OFlags::WRONLY | OFlags::NOCTTY,
                )?,
                None,
            )),
            Kind::Inherit => Ok((own.try_clone_to_owned()?, None)),
            Kind::Piped => {
                let (reader, writer) = std::io::pipe()?;
                Ok((writer.into(), Some(reader)))
            }
            Kind::Descriptor(descriptor) => Ok((descriptor.try_clone()?, None)),
        }
    }
}

impl<T: Into<OwnedFd>> From<T> for Stdio {
    fn from(descriptor: T) -> Self {
        Self(Kind::Descriptor(descriptor.into()))
    }
}

fn open(path: &str, flags: OFlags) -> std::io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        path,
        flags | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}
