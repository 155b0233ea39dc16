//! What the guest gets as its standard streams, and what of them it must not hold itself.

mod file;
mod kind;
mod pipe;

use crate::{
    Tier,
    followed::Followed,
    launch_error::LaunchError,
    parts::Parts,
    plan::StreamFiles,
    relay::{Lane, NAMES, Relay},
    wire,
};
pub(super) use file::Reopened;
use kind::Kind;
use palisade_wall::Streams;
use pipe::Parent;
use rustix::{fs::Mode, io::Errno, pipe::PipeFlags};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

/// What the guest's streams are, decided and made ready before there is a guest.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    root_is_granted: bool,
    given: [BorrowedFd<'a>; 3],
    /// What the guest gets instead.
    replaced: [Option<OwnedFd>; 3],
    pub(super) files: StreamFiles,
    /// The input file that init opens anew.
    pub(super) reopened: Option<Reopened>,
    /// The input file of which the guest reads a view: the original, and the view if it is there already.
    followed: Option<(OwnedFd, Option<OwnedFd>, u64)>,
    /// Sockets of the host's, each with the streams that it is.
    sockets: Vec<Socket>,
    lanes: Vec<Lane>,
    /// Of the relayed outputs: what it is, and its number.
    outputs: Vec<((u64, u64), usize)>,
    parent: Parent,
}

#[derive(Debug)]
struct Socket {
    given: OwnedFd,
    identity: (u64, u64),
    mask: u32,
}

impl<'a> Ready<'a> {
    /// `root_is_granted` where rules of Landlock's about the root are about a folder of the host's, in which an
    /// output file may lie.
    pub(super) fn of(
        streams: &Streams<'a>,
        tier: Tier,
        root_is_granted: bool,
    ) -> Result<Self, LaunchError> {
        let given = [streams.stdin, streams.stdout, streams.stderr];
        let mut ready = Self {
            root_is_granted,
            given,
            replaced: [None, None, None],
            files: StreamFiles::default(),
            reopened: None,
            followed: None,
            sockets: Vec::new(),
            lanes: Vec::new(),
            outputs: Vec::new(),
            parent: Parent::default(),
        };
        let terminal = streams.terminal.as_ref();
        let by_terminal = terminal.map_or([false; 3], |terminal| terminal.replaces);
        let mut passed = None;
        for (number, fd) in given.into_iter().enumerate() {
            let is_known = passed.is_some_and(|passed| passed == fd.as_raw_fd());
            if !by_terminal[number] && !is_known && ready.add(number, fd, tier)? {
                passed = Some(fd.as_raw_fd());
            }
        }
        Ok(ready)
    }

    /// Whether it is handed over as it is, by whatever number.
    fn add(&mut self, number: usize, fd: BorrowedFd<'_>, tier: Tier) -> Result<bool, LaunchError> {
        let bad = |errno| LaunchError::BadStream {
            stream: NAMES[number],
            errno,
        };
        match Kind::of(NAMES[number], fd)? {
            Kind::Passed => return Ok(true),
            Kind::Relayed => self.relay(number, fd, tier, false).map_err(bad)?,
            Kind::Pipe(pipe) if pipe.is_relayed(tier, &self.parent) => {
                self.relay(number, fd, tier, true).map_err(bad)?;
            }
            Kind::Pipe(_) => {
                if tier == Tier::Privileged {
                    pipe::let_reopen(fd, number == 0);
                }
            }
            Kind::Socket { identity } => self.add_socket(number, fd, identity).map_err(bad)?,
            Kind::File(file) => {
                self.files.may_stall |= number == 0 && file.may_stall(fd);
                self.add_file(number, fd, tier, file)?;
            }
        }
        Ok(false)
    }

    fn add_file(
        &mut self,
        number: usize,
        fd: BorrowedFd<'_>,
        tier: Tier,
        file: file::File,
    ) -> Result<(), LaunchError> {
        let bad = |errno| LaunchError::BadStream {
            stream: NAMES[number],
            errno,
        };
        match file.fate(number, fd, tier) {
            file::Fate::Input => Ok(()),
            file::Fate::Output if self.root_is_granted => {
                self.relay(number, fd, tier, false).map_err(bad)
            }
            file::Fate::Output => {
                self.files.output = true;
                Ok(())
            }
            file::Fate::Reopened(reopened) => {
                let original = fd.try_clone_to_owned().map_err(|_| bad(Errno::MFILE))?;
                self.followed = Some((original, None, reopened.offset));
                self.reopened = Some(reopened);
                Ok(())
            }
            file::Fate::View { view, offset } => {
                let original = fd.try_clone_to_owned().map_err(|_| bad(Errno::MFILE))?;
                let copy = view.try_clone().map_err(|_| bad(Errno::MFILE))?;
                self.followed = Some((original, Some(copy), offset));
                self.replaced[number] = Some(view);
                Ok(())
            }
            file::Fate::Relayed => self.relay(number, fd, tier, false).map_err(bad),
        }
    }

    /// A pipe of the guest's own in place of the stream. As root the guest has a user of its own, who may
    /// open it again all the same (`/dev/stdout`): nobody else gets to see it.
    ///
    /// What goes to the same place goes through the same pipe, or its order would be lost.
    fn relay(
        &mut self,
        number: usize,
        fd: BorrowedFd<'_>,
        tier: Tier,
        is_pipe: bool,
    ) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(fd)?;
        let identity = (stat.st_dev, stat.st_ino);
        let mut outputs = self.outputs.iter();
        if let Some((_, same)) = outputs.find(|(other, _)| *other == identity)
            && let Some(pipe) = &self.replaced[*same]
        {
            let pipe = rustix::io::fcntl_dupfd_cloexec(pipe, 3)?;
            self.replaced[number] = Some(pipe);
            return Ok(());
        }
        let given = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
        let (from, to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        if tier == Tier::Privileged {
            rustix::fs::fchmod(&from, Mode::from_raw_mode(0o666))?;
        }
        let (guests, lane) = match number {
            0 if is_pipe => (from, Lane::between_pipes(given, to)?),
            0 => {
                let guests = rustix::io::fcntl_dupfd_cloexec(&from, 3)?;
                (from, Lane::into_pipe(given, to, guests)?)
            }
            _ => {
                self.outputs.push((identity, number));
                (to, Lane::out_of_pipe(number, from, given, is_pipe)?)
            }
        };
        self.replaced[number] = Some(guests);
        self.lanes.push(lane);
        Ok(())
    }

    /// Under inetd(8) one socket is all three streams, and so is its pair inside.
    fn add_socket(
        &mut self,
        number: usize,
        fd: BorrowedFd<'_>,
        identity: (u64, u64),
    ) -> Result<(), Errno> {
        let mut sockets = self.sockets.iter_mut();
        if let Some(socket) = sockets.find(|socket| socket.identity == identity) {
            socket.mask |= 1 << number;
            return Ok(());
        }
        self.sockets.push(Socket {
            given: rustix::io::fcntl_dupfd_cloexec(fd, 3)?,
            identity,
            mask: 1 << number,
        });
        Ok(())
    }

    /// What goes with the launch message, in the order of the streams.
    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 3] {
        let or_given = |number: usize| match &self.replaced[number] {
            Some(fd) => fd.as_fd(),
            None => self.given[number],
        };
        [0, 1, 2].map(or_given)
    }

    /// The streams that each pair of sockets is for.
    pub(super) fn pairs(&self) -> impl Iterator<Item = u32> {
        self.sockets.iter().map(|socket| socket.mask)
    }

    /// Whether init has more to do than to pass them on.
    pub(super) fn needs_init(&self) -> bool {
        self.reopened.is_some() || !self.sockets.is_empty()
    }

    /// Once the guest runs: what follows its input file, and what relays. `input` and `pairs` come from
    /// init.
    pub(super) fn begin(
        self,
        input: Option<OwnedFd>,
        pairs: Vec<(OwnedFd, OwnedFd)>,
        parts: Parts,
        landlock_abi: Option<u32>,
    ) -> io::Result<(Option<Followed>, Option<Relay>)> {
        let followed = self.followed.and_then(|(original, view, offset)| {
            let view = view.or(input)?;
            Some(Followed::new(original, view, offset))
        });
        let mut lanes = self.lanes;
        for (socket, (ours, guests)) in self.sockets.into_iter().zip(pairs) {
            let number = socket.mask.trailing_zeros() as usize;
            lanes.extend(Lane::of_sockets(number, socket.given, ours, guests)?);
        }
        // The guest's ends are closed here: those of pipes end with the guest.
        drop(self.replaced);
        let relay = (!lanes.is_empty())
            .then(|| Relay::start(lanes, parts, landlock_abi))
            .transpose()?;
        Ok((followed, relay))
    }
}

/// Keeps the wire module's count of streams and this one together.
const _: () = assert!(NAMES.len() < wire::MAX_FDS);
