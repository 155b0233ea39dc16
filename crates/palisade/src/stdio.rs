//! What a guest gets as its standard streams.

use crate::Error;
use rustix::fs::{Mode, OFlags};
use std::{
    cell::OnceCell,
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

/// `/dev/null`, opened once for all streams of one guest that are it, as daemon(3) does. Guests share none: flags of an open file
/// are whoever's has it (fcntl(2), `F_SETFL`).
#[derive(Default)]
pub(crate) struct Null(OnceCell<OwnedFd>);

impl Null {
    fn open(&self) -> Result<Given<'_>, Error> {
        let null = match self.0.get() {
            Some(null) => null,
            None => {
                let opened = open("/dev/null", OFlags::RDWR)?;
                self.0.get_or_init(|| opened)
            }
        };
        Ok(Given::Null(null.as_fd()))
    }
}

/// What a guest gets as a stream.
pub(crate) enum Given<'a> {
    Null(BorrowedFd<'a>),
    Own(OwnedFd),
}

impl AsFd for Given<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Null(null) => *null,
            Self::Own(descriptor) => descriptor.as_fd(),
        }
    }
}

impl From<OwnedFd> for Given<'_> {
    fn from(descriptor: OwnedFd) -> Self {
        Self::Own(descriptor)
    }
}

impl Stdio {
    /// `/dev/null`, for reading and writing.
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

    pub(crate) fn for_reading<'a>(
        &self,
        null: &'a Null,
    ) -> Result<(Given<'a>, Option<PipeWriter>), Error> {
        let given = match &self.0 {
            Kind::Null => null.open()?,
            Kind::Inherit if std::io::stdin().is_terminal() => return Err(Error::StdinIsTerminal),
            Kind::Inherit => std::io::stdin().as_fd().try_clone_to_owned()?.into(),
            Kind::Piped => {
                let (reader, writer) = std::io::pipe()?;
                return Ok((Given::Own(reader.into()), Some(writer)));
            }
            Kind::Descriptor(descriptor) => descriptor.try_clone()?.into(),
        };
        Ok((given, None))
    }

    pub(crate) fn for_writing<'a>(
        &self,
        own: BorrowedFd<'_>,
        null: &'a Null,
    ) -> Result<(Given<'a>, Option<PipeReader>), Error> {
        let given = match &self.0 {
            Kind::Null => null.open()?,
            // A terminal is usually open for reading too: whoever has it could read what is typed.
            Kind::Inherit if own.is_terminal() => open(
                &format!("/proc/self/fd/{}", own.as_raw_fd()),
                OFlags::WRONLY | OFlags::NOCTTY,
            )?
            .into(),
            Kind::Inherit => own.try_clone_to_owned()?.into(),
            Kind::Piped => {
                let (reader, writer) = std::io::pipe()?;
                return Ok((Given::Own(writer.into()), Some(reader)));
            }
            Kind::Descriptor(descriptor) => descriptor.try_clone()?.into(),
        };
        Ok((given, None))
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
