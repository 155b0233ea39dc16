//! A running guest.

use crate::{Cause, Error, Report};
use rustix::io::Errno;
use std::{
    fmt, io,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

const NOT_GRANTABLE: &str = "policy: the guest was not started so that it can be granted more";

/// A guest behind a wall. Dropping it ends the guest and everything the guest started.
///
/// Its descriptor ([`AsFd`]) is readable when [`Domain::next_event`] has something.
pub trait Domain: AsFd + fmt::Debug + Send {
    /// Pid of the domain's first process, on the host.
    fn pid(&self) -> u32;

    /// The master end of the guest's terminal, once.
    fn take_terminal(&mut self) -> Option<OwnedFd>;

    /// A way into its own network, where it has one.
    ///
    /// # Errors
    ///
    /// When there are no more descriptors.
    fn inner_network(&self) -> io::Result<Option<Box<dyn InnerNetwork>>>;

    /// What tells the memory of the whole domain, where something counts it: under a limit on memory that the kernel
    /// holds for all its processes together.
    fn memory_meter(&self) -> Option<Box<dyn MemoryMeter>> {
        None
    }

    /// What stops the whole domain where it is, if it was started so that it can be
    /// ([`crate::Surroundings::can_freeze`]).
    fn freezer(&self) -> Option<Box<dyn Freezer>> {
        None
    }

    /// Grants the guest more while it runs, as a flag says it (`--connect tcp://example.com:443`), where it was started so that it can be
    /// ([`crate::Surroundings::grantable`]).
    ///
    /// # Errors
    ///
    /// When it was not, or this is nothing that a guest which runs can be given.
    fn give(&self, flag: &str) -> Result<(), Error> {
        let _ = flag;
        Err(Error::new(Cause::Other, NOT_GRANTABLE))
    }

    /// Takes back what was granted so. What is open stays open.
    ///
    /// # Errors
    ///
    /// When nothing was granted by this flag while the guest runs.
    fn take_back(&self, flag: &str) -> Result<(), Error> {
        let _ = flag;
        Err(Error::new(Cause::Other, NOT_GRANTABLE))
    }

    /// Takes from the calling thread and all that it starts, and from whatever else of palisade's sees to this domain,
    /// what seeing it to its end does not need: programs, processes, sockets, and files but those that are open. It
    /// can't be undone, and its launcher starts no further domain. `listed` are folders, which may be open by `O_PATH`:
    /// what lies below them can still be listed, and not read.
    ///
    /// # Errors
    ///
    /// When the kernel refuses. The thread may have lost something by then.
    fn confine_supervisor(&self, listed: &[BorrowedFd<'_>]) -> Result<(), Error>;

    /// Sends the guest's process group a signal, by its number.
    ///
    /// # Errors
    ///
    /// When the domain has ended.
    fn signal(&self, number: i32) -> Result<(), Error>;

    /// Continues the guest's process group, at this position on its terminal from then on. [`Event::Continued`]
    /// follows.
    ///
    /// # Errors
    ///
    /// When the domain has ended.
    fn resume(&self, position: TerminalPosition) -> Result<(), Error>;

    /// Ends the guest and everything it started.
    ///
    /// # Errors
    ///
    /// When the domain has ended.
    fn kill(&self) -> Result<(), Error>;

    /// Ends the guest because it wrote more than it may.
    fn end_for_output(&mut self);

    /// Waits for the next thing to happen.
    ///
    /// # Errors
    ///
    /// When the domain cannot be heard any more.
    fn next_event(&mut self) -> Result<Event, Error>;

    /// Hangs up once all that the guest wrote to relayed streams ([`crate::Streams`]) has reached the outside, after
    /// [`Event::Ended`]; `None` where nothing is relayed. [`Domain::wait`] waits for it as well, but for a few seconds
    /// only: whoever is to read it may not.
    fn relayed(&self) -> Option<BorrowedFd<'_>>;

    /// Leaves off waiting for that. It goes on for as long as this domain, and what is a thread for as long as this
    /// process lives.
    fn leave_relayed(&mut self);

    /// The stream of which not everything could be written outside, and why.
    fn relay_failure(&self) -> Option<(&'static str, Errno)>;

    /// Waits until the guest has ended and nothing of the domain is left, then reports.
    ///
    /// # Errors
    ///
    /// When the wall itself failed while the guest ran; the guest is ended then.
    fn wait(self: Box<Self>) -> Result<Report, Error>;

    /// Waits for that, no longer than `most`; `None` while the guest runs. It takes what [`Domain::next_event`] would
    /// give. What it has told once, the report or why there is none, it tells again.
    ///
    /// # Errors
    ///
    /// As [`Domain::wait`].
    fn wait_timeout(&mut self, most: Duration) -> Result<Option<Report>, Error>;
}

/// The network of one domain: a loopback, and nothing else.
pub trait InnerNetwork: fmt::Debug + Send + Sync {
    /// Asks for a TCP socket that does not block, to connect to this address of the loopback's. What this gives is
    /// readable once the socket can be taken.
    ///
    /// # Errors
    ///
    /// When the domain has ended, or there are no more descriptors.
    fn ask(&self, family_of: IpAddr) -> io::Result<OwnedFd>;

    /// The socket that was asked for. Blocks until it is there.
    ///
    /// # Errors
    ///
    /// When the domain has ended, or may have no more sockets.
    fn take(&self, asked: OwnedFd) -> io::Result<OwnedFd>;
}

/// The memory of one domain, whatever its processes do to hide it.
pub trait MemoryMeter: fmt::Debug + Send + Sync {
    /// What it has now, in bytes: that of all its processes, files of its own file systems and what the kernel keeps for
    /// them, without pages of files that can be let go at once. `None` once it has ended.
    fn bytes(&self) -> Option<u64>;
}

/// Stops all processes of one domain at once and lets them go on. They notice that time has passed, and those that wait in
/// calls which SIGSTOP would interrupt are told so (`EINTR`, signal(7)).
///
/// A frozen domain runs nothing and keeps its memory. SIGKILL ends it as any other, and so does dropping it; it hears no other
/// signal, takes no order and holds no limit on time before it is thawed.
pub trait Freezer: fmt::Debug + Send + Sync {
    /// Stops them. Blocks until all have stopped, and not longer than `most`.
    ///
    /// # Errors
    ///
    /// When some would not stop in that time, and then all go on; or the domain has ended.
    fn freeze(&self, most: Duration) -> io::Result<()>;

    /// Lets them go on. Takes µs.
    ///
    /// # Errors
    ///
    /// When the domain has ended.
    fn thaw(&self) -> io::Result<()>;
}

/// Something that happened in a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The guest was stopped by this signal and waits for SIGCONT.
    Stopped(i32),
    /// The guest was continued, as asked by [`Domain::resume`]. Stops told of since then have been taken back, and so is
    /// one by a key that reached its terminal earlier.
    Continued,
    /// The guest has ended; [`Domain::wait`] gives the report at once, or says why there is none.
    Ended,
    /// Somebody asked something of the wall, and was answered.
    Asked,
}

/// Where the guest's process group is on its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalPosition {
    /// Where it was.
    Same,
    /// In front: the terminal's keys are its own.
    Foreground,
    /// In the background, where it is stopped by SIGTTIN or SIGTTOU when it reads or sets the terminal.
    Background,
}
