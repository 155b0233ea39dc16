//! One direction of one stream.

use super::Failure;
use rustix::{
    event::{
        PollFlags,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    fs::SeekFrom,
    io::Errno,
    net::{RecvFlags, SendFlags, Shutdown, sockopt},
    pipe::SpliceFlags,
};
use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::Arc,
};

/// Most bytes on their way in one direction.
const CHUNK_BYTES: usize = 64 * 1024;

/// Most bytes moved from pipe to pipe at once.
const SPLICE_BYTES: usize = 1 << 20;

/// One direction of one stream.
#[derive(Debug)]
pub(crate) enum Lane {
    /// From a socket to the guest's.
    FromSocket(FromSocket),
    /// From a device or file to the guest's pipe.
    FromFile(FromFile),
    /// From a pipe to the guest's.
    FromPipe(FromPipe),
    /// From the guest to the outside.
    Out(Out),
}

/// What to wait for on one descriptor.
type Wait<'a> = (BorrowedFd<'a>, PollFlags);

impl Lane {
    /// Both directions between a socket of the host's and a pair of which the guest has one end.
    pub(crate) fn of_sockets(
        number: usize,
        given: OwnedFd,
        ours: OwnedFd,
        guests: OwnedFd,
    ) -> rustix::io::Result<[Self; 2]> {
        // Data out of band would stay in a queue that poll(2) says can be read.
        sockopt::set_socket_oobinline(&ours, true)?;
        let (given, ours, guests) = (Arc::new(given), Arc::new(ours), Arc::new(guests));
        let taken = epoll::create(CreateFlags::CLOEXEC)?;
        let edge = EventFlags::OUT | EventFlags::ET;
        epoll::add(&taken, &*ours, EventData::new_u64(0), edge)?;
        Ok([
            Self::FromSocket(FromSocket {
                from: Arc::clone(&given),
                to: Arc::clone(&ours),
                guests: Arc::clone(&guests),
                taken,
                shown_bytes: 0,
            }),
            Self::Out(Out::new(
                number,
                Source::Socket { ours, guests },
                Sink::Socket(given),
            )),
        ])
    }

    /// Into a pipe of which the guest reads this end.
    pub(crate) fn into_pipe(
        from: OwnedFd,
        to: OwnedFd,
        guests: OwnedFd,
    ) -> rustix::io::Result<Self> {
        rustix::io::ioctl_fionbio(&to, true)?;
        Ok(Self::FromFile(FromFile {
            from,
            to: Some(to),
            guests,
            rest: Rest::default(),
            read_bytes: 0,
        }))
    }

    /// From one pipe into another that the guest reads. It holds one piece: then poll(2) tells when the
    /// guest has read that.
    pub(crate) fn between_pipes(from: OwnedFd, to: OwnedFd) -> rustix::io::Result<Self> {
        rustix::io::ioctl_fionbio(&to, true)?;
        rustix::pipe::fcntl_setpipe_size(&to, PIECE_BYTES)?;
        Ok(Self::FromPipe(FromPipe {
            from,
            to,
            shown_bytes: 0,
        }))
    }

    /// Out of a pipe that the guest writes, into a file or device, or else into a pipe.
    pub(crate) fn out_of_pipe(
        number: usize,
        from: OwnedFd,
        to: OwnedFd,
        into_pipe: bool,
    ) -> rustix::io::Result<Self> {
        rustix::io::ioctl_fionbio(&from, true)?;
        let sink = if into_pipe {
            Sink::Pipe(to)
        } else {
            Sink::File(to)
        };
        Ok(Self::Out(Out::new(number, Source::Pipe(from), sink)))
    }

    /// What it works on.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let all = match self {
            Self::FromSocket(lane) => vec![&*lane.from, &*lane.to, &*lane.guests, &lane.taken],
            Self::FromFile(lane) => [&lane.from, &lane.guests]
                .into_iter()
                .chain(&lane.to)
                .collect(),
            Self::FromPipe(lane) => vec![&lane.from, &lane.to],
            Self::Out(lane) => lane.descriptors(),
        };
        all.into_iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Whether it reads or writes a terminal.
    pub(super) fn has_terminal(&self) -> bool {
        match self {
            Self::FromFile(lane) => rustix::termios::isatty(&lane.from),
            Self::Out(lane) => {
                matches!(&lane.to, Sink::File(file) if rustix::termios::isatty(file))
            }
            Self::FromSocket(_) | Self::FromPipe(_) => false,
        }
    }

    /// What to wait for, on two descriptors.
    pub(super) fn waits(&self) -> [Wait<'_>; 2] {
        match self {
            Self::FromSocket(lane) => lane.waits(),
            Self::FromFile(lane) => lane.waits(),
            Self::FromPipe(lane) => lane.waits(),
            Self::Out(lane) => lane.waits(),
        }
    }

    /// Goes as far as it can now; `false` when it has come to its end.
    pub(super) fn go(&mut self) -> Result<bool, Failure> {
        match self {
            Self::FromSocket(lane) => Ok(lane.go()),
            Self::FromFile(lane) => Ok(lane.go()),
            Self::FromPipe(lane) => Ok(lane.go()),
            Self::Out(lane) => lane.go(),
        }
    }

    /// Nobody reads or writes at the guest's end any more.
    pub(super) fn guest_is_gone(&mut self) {
        match self {
            Self::FromSocket(lane) => lane.end(),
            Self::FromFile(lane) => lane.end(),
            Self::FromPipe(lane) => lane.end(),
            Self::Out(lane) => lane.is_last = true,
        }
    }

    /// Whether it has to go on without that anything happens: to find that it has come to its end.
    pub(super) fn must_look(&self) -> bool {
        match self {
            Self::Out(lane) => lane.is_last && lane.rest.is_empty() && !lane.waits_for_room,
            Self::FromPipe(lane) => lane.shown_bytes == OVER,
            Self::FromSocket(lane) => lane.shown_bytes == OVER,
            Self::FromFile(lane) => lane.rest.is_over,
        }
    }
}

/// Bytes that were taken and not passed on yet.
#[derive(Debug, Default)]
struct Rest {
    bytes: Vec<u8>,
    start: usize,
    is_over: bool,
}

impl Rest {
    fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    fn fill(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>,
    ) -> rustix::io::Result<usize> {
        self.start = 0;
        self.bytes.resize(CHUNK_BYTES, 0);
        let outcome = read(&mut self.bytes);
        self.bytes.truncate(*outcome.as_ref().unwrap_or(&0));
        outcome
    }

    /// `false` if the other side has no room for all of it.
    fn write(
        &mut self,
        mut write: impl FnMut(&[u8]) -> rustix::io::Result<usize>,
    ) -> rustix::io::Result<bool> {
        while !self.is_empty() {
            match write(&self.bytes[self.start..]) {
                Ok(written) => self.start += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }
}

/// Says in the place of a count that the lane is done.
const OVER: usize = usize::MAX;

/// Bytes are looked at, shown to the guest, and taken from the outside once the guest has taken them.
#[derive(Debug)]
pub(crate) struct FromSocket {
    from: Arc<OwnedFd>,
    to: Arc<OwnedFd>,
    /// The guest's end, to see what it has not read.
    guests: Arc<OwnedFd>,
    /// Readable when the guest has read a piece: poll(2) on the socket only tells of room.
    taken: OwnedFd,
    /// So many of the next bytes were shown.
    shown_bytes: usize,
}

impl FromSocket {
    fn waits(&self) -> [Wait<'_>; 2] {
        let fd = match self.shown_bytes {
            0 => self.from.as_fd(),
            _ => self.taken.as_fd(),
        };
        [(fd, PollFlags::IN); 2]
    }

    fn go(&mut self) -> bool {
        if self.shown_bytes == OVER {
            return false;
        }
        if self.shown_bytes > 0 {
            self.forget_event();
            if self.unread_bytes() > 0 {
                return true;
            }
            if !self.take(self.shown_bytes) {
                return false;
            }
        }
        self.show()
    }

    /// The event stays until it is fetched.
    fn forget_event(&self) {
        let mut events = [epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }];
        let at_once = rustix::event::Timespec::default();
        let _ = epoll::wait(&self.taken, &mut events, Some(&at_once));
    }

    fn unread_bytes(&self) -> usize {
        rustix::io::ioctl_fionread(&self.guests).map_or(0, |bytes| bytes as usize)
    }

    /// Shows the guest what is there.
    fn show(&mut self) -> bool {
        let mut bytes = vec![0; CHUNK_BYTES];
        let look = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.from, &mut *bytes, look) {
            Ok((0, _)) => {
                let _ = rustix::net::shutdown(&self.to, Shutdown::Write);
                false
            }
            Ok((length, _)) => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                match rustix::net::send(&self.to, &bytes[..length], flags) {
                    Ok(sent) => self.shown_bytes = sent,
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    // The guest reads no more (shutdown(2)).
                    Err(_) => return false,
                }
                true
            }
            Err(Errno::INTR | Errno::AGAIN) => true,
            Err(_) => {
                let _ = rustix::net::shutdown(&self.to, Shutdown::Write);
                false
            }
        }
    }

    /// Takes so many bytes from the outside.
    fn take(&mut self, mut count: usize) -> bool {
        self.shown_bytes = 0;
        let mut bytes = vec![0; count.min(CHUNK_BYTES)];
        while count > 0 {
            let most = count.min(CHUNK_BYTES);
            match rustix::net::recv(&self.from, &mut bytes[..most], RecvFlags::DONTWAIT) {
                // Somebody else took them.
                Ok((0, _)) => return true,
                Ok((length, _)) => count -= length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// Takes what the guest has read of the last piece.
    fn end(&mut self) {
        if self.shown_bytes != OVER {
            let read = self.shown_bytes.saturating_sub(self.unread_bytes());
            self.take(read);
        }
        self.shown_bytes = OVER;
    }
}

/// Bytes of a device or file; a file is sought back to where the guest stopped.
#[derive(Debug)]
pub(crate) struct FromFile {
    from: OwnedFd,
    /// Until the end of the file.
    to: Option<OwnedFd>,
    /// The guest's end, to see what it has not read.
    guests: OwnedFd,
    rest: Rest,
    read_bytes: i64,
}

impl FromFile {
    fn waits(&self) -> [Wait<'_>; 2] {
        match &self.to {
            Some(to) if !self.rest.is_empty() => [(to.as_fd(), PollFlags::OUT); 2],
            Some(_) => [(self.from.as_fd(), PollFlags::IN); 2],
            None => [(self.from.as_fd(), PollFlags::empty()); 2],
        }
    }

    fn go(&mut self) -> bool {
        let Some(to) = self.to.as_ref().filter(|_| !self.rest.is_over) else {
            return !self.rest.is_over;
        };
        if self.rest.is_empty() {
            match self.rest.fill(|bytes| rustix::io::read(&self.from, bytes)) {
                Ok(length @ 1..) => self.read_bytes += length as i64,
                Err(Errno::INTR | Errno::AGAIN) => {}
                // The end, or nothing that can be read: closing the pipe tells the guest. A file is sought
                // back later.
                Ok(_) | Err(_) => {
                    self.to = None;
                    return rustix::fs::tell(&self.from).is_ok();
                }
            }
        }
        self.rest
            .write(|bytes| rustix::io::write(to, bytes))
            .is_ok()
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.rest.is_over, true) {
            return;
        }
        let in_pipe = rustix::io::ioctl_fionread(&self.guests).unwrap_or(0);
        let unread = in_pipe as i64 + (self.rest.bytes.len() - self.rest.start) as i64;
        // The guest may have written into its own input.
        let unread = unread.min(self.read_bytes);
        if unread > 0 {
            // A device has no place to go back to.
            let _ = rustix::fs::seek(&self.from, SeekFrom::Current(-unread));
        }
    }
}

/// What a pipe of the smallest size holds.
const PIECE_BYTES: usize = 4096;

/// As [`FromSocket`], with tee(2) for the look.
#[derive(Debug)]
pub(crate) struct FromPipe {
    from: OwnedFd,
    to: OwnedFd,
    shown_bytes: usize,
}

impl FromPipe {
    fn waits(&self) -> [Wait<'_>; 2] {
        let to = self.to.as_fd();
        match self.shown_bytes {
            0 => [(self.from.as_fd(), PollFlags::IN), (to, PollFlags::empty())],
            _ => [(to, PollFlags::OUT); 2],
        }
    }

    fn go(&mut self) -> bool {
        if self.shown_bytes == OVER {
            return false;
        }
        // There is room with something unread in it: nobody reads it any more, or the guest has made it
        // larger (F_SETPIPE_SZ), after which poll(2) tells nothing.
        if self.shown_bytes > 0 && self.unread_bytes() > 0 {
            self.end();
            return false;
        }
        self.take(self.shown_bytes);
        let flags = SpliceFlags::NONBLOCK;
        match rustix::pipe::tee(&self.from, &self.to, PIECE_BYTES, flags) {
            Ok(shown @ 1..) => self.shown_bytes = shown,
            Err(Errno::INTR) => {}
            // Nothing is there, or no room: the guest has written into its own input, and would keep us busy.
            Err(Errno::AGAIN) => return self.unread_bytes() == 0,
            // No writer is left, or no reader.
            Ok(_) | Err(_) => return false,
        }
        true
    }

    fn unread_bytes(&self) -> usize {
        rustix::io::ioctl_fionread(&self.to).map_or(0, |bytes| bytes as usize)
    }

    fn take(&mut self, mut count: usize) {
        self.shown_bytes = 0;
        let mut bytes = [0; PIECE_BYTES];
        // They are there, unless somebody else took them: then nobody may wait.
        while count > 0 && rustix::io::ioctl_fionread(&self.from).is_ok_and(|there| there > 0) {
            let most = count.min(PIECE_BYTES);
            match rustix::io::read(&self.from, &mut bytes[..most]) {
                Ok(length @ 1..) => count -= length,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    fn end(&mut self) {
        if self.shown_bytes != OVER {
            self.take(self.shown_bytes.saturating_sub(self.unread_bytes()));
        }
        self.shown_bytes = OVER;
    }
}

/// Where the guest's output comes from.
#[derive(Debug)]
enum Source {
    Socket {
        ours: Arc<OwnedFd>,
        /// Kept open: then an end is what the guest said (shutdown(2)), and not that it is gone.
        guests: Arc<OwnedFd>,
    },
    Pipe(OwnedFd),
}

/// Where it goes to.
#[derive(Debug)]
enum Sink {
    Socket(Arc<OwnedFd>),
    Pipe(OwnedFd),
    File(OwnedFd),
}

#[derive(Debug)]
pub(crate) struct Out {
    number: usize,
    from: Source,
    to: Sink,
    rest: Rest,
    /// The pipe that it goes to is full.
    waits_for_room: bool,
    /// Nothing more is written to it: what is there is all.
    is_last: bool,
}

impl Out {
    fn new(number: usize, from: Source, to: Sink) -> Self {
        Self {
            number,
            from,
            to,
            rest: Rest::default(),
            waits_for_room: false,
            is_last: false,
        }
    }

    fn descriptors(&self) -> Vec<&OwnedFd> {
        let from = match &self.from {
            Source::Socket { ours, guests } => vec![&**ours, &**guests],
            Source::Pipe(pipe) => vec![pipe],
        };
        let to = match &self.to {
            Sink::Socket(socket) => &**socket,
            Sink::File(file) | Sink::Pipe(file) => file,
        };
        from.into_iter().chain([to]).collect()
    }

    fn waits(&self) -> [Wait<'_>; 2] {
        let from = match &self.from {
            Source::Socket { ours: socket, .. } => socket.as_fd(),
            Source::Pipe(pipe) => pipe.as_fd(),
        };
        let to = match &self.to {
            Sink::Socket(socket) => socket.as_fd(),
            Sink::File(file) | Sink::Pipe(file) => file.as_fd(),
        };
        if self.rest.is_empty() && !self.waits_for_room {
            [(from, PollFlags::IN), (from, PollFlags::IN)]
        } else {
            [(to, PollFlags::OUT), (to, PollFlags::OUT)]
        }
    }

    fn go(&mut self) -> Result<bool, Failure> {
        if let (Source::Pipe(from), Sink::Pipe(to)) = (&self.from, &self.to) {
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            return match rustix::pipe::splice(from, None, to, None, SPLICE_BYTES, flags) {
                Ok(moved) => {
                    self.waits_for_room = false;
                    Ok(moved > 0)
                }
                Err(Errno::INTR) => Ok(true),
                // It was readable, so there is no room; the last look finds nothing to move.
                Err(Errno::AGAIN) => {
                    let is_empty = rustix::io::ioctl_fionread(from).is_ok_and(|bytes| bytes == 0);
                    self.waits_for_room = !is_empty;
                    Ok(!(self.is_last && is_empty))
                }
                Err(_) => Ok(false),
            };
        }
        if self.rest.is_empty() {
            match self.fill() {
                Ok(0) => {
                    self.pass_end_on();
                    return Ok(false);
                }
                Ok(_) => {}
                Err(Errno::INTR) => return Ok(true),
                Err(Errno::AGAIN) => return Ok(!self.is_last),
                Err(_) => return Ok(false),
            }
        }
        match self.write() {
            Ok(_) => Ok(true),
            Err(errno) => {
                self.refuse_more();
                match errno {
                    // Whoever read it has gone.
                    Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Ok(false),
                    errno => Err((self.number, errno)),
                }
            }
        }
    }

    fn fill(&mut self) -> rustix::io::Result<usize> {
        match &self.from {
            Source::Socket { ours: socket, .. } => self.rest.fill(|bytes| {
                let received = rustix::net::recv(socket, bytes, RecvFlags::DONTWAIT);
                received.map(|(length, _)| length)
            }),
            Source::Pipe(pipe) => self.rest.fill(|bytes| rustix::io::read(pipe, bytes)),
        }
    }

    fn write(&mut self) -> rustix::io::Result<bool> {
        match &self.to {
            Sink::Socket(socket) => self.rest.write(|bytes| {
                rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }),
            Sink::File(file) | Sink::Pipe(file) => {
                self.rest.write(|bytes| rustix::io::write(file, bytes))
            }
        }
    }

    /// The guest said that it sends no more. Its end alone says nothing: others may hold the socket.
    fn pass_end_on(&self) {
        if let Sink::Socket(socket) = &self.to {
            let _ = rustix::net::shutdown(socket, Shutdown::Write);
        }
    }

    /// What the guest writes now fails, as it would without a relay. A pipe is closed for that.
    fn refuse_more(&self) {
        if let Source::Socket { ours, .. } = &self.from {
            let _ = rustix::net::shutdown(ours, Shutdown::Read);
            // What nobody reads would end the guest's socket with ECONNRESET instead of EPIPE.
            let mut bytes = vec![0; CHUNK_BYTES];
            while matches!(
                rustix::net::recv(ours, &mut *bytes, RecvFlags::DONTWAIT),
                Ok((1.., _))
            ) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::{
        net::{AddressFamily, SocketFlags, SocketType, socketpair},
        pipe::{PipeFlags, pipe_with},
    };

    fn pipe() -> (OwnedFd, OwnedFd) {
        pipe_with(PipeFlags::CLOEXEC).unwrap()
    }

    fn sockets() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    }

    fn read(fd: &OwnedFd, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let length = rustix::io::read(fd, &mut *bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn what_is_not_read_of_a_pipe_stays_in_it() {
        let ((outer, feed), (guests, inner)) = (pipe(), pipe());
        let next = outer.try_clone().unwrap();
        rustix::io::write(&feed, b"abcdef").unwrap();
        let mut lane = Lane::between_pipes(outer, inner).unwrap();
        assert_eq!(lane.go(), Ok(true));
        assert_eq!(read(&guests, 2), b"ab");
        lane.guest_is_gone();
        assert_eq!(read(&next, 10), b"cdef");
    }

    #[test]
    fn what_is_not_read_of_a_socket_stays_in_it() {
        let ((outer, feed), (ours, guests)) = (sockets(), sockets());
        let (next, guest) = (outer.try_clone().unwrap(), guests.try_clone().unwrap());
        rustix::io::write(&feed, b"abcdef").unwrap();
        let [mut lane, _back] = Lane::of_sockets(0, outer, ours, guests).unwrap();
        assert_eq!(lane.go(), Ok(true));
        assert_eq!(read(&guest, 2), b"ab");
        lane.guest_is_gone();
        assert_eq!(read(&next, 10), b"cdef");
    }

    /// Its pipe is its own, so it can write there too. The thread must not go round for that.
    #[test]
    fn a_guest_that_fills_its_own_input_ends_its_lane() {
        let ((outer, feed), (_guests, inner)) = (pipe(), pipe());
        let meddled = inner.try_clone().unwrap();
        rustix::io::write(&feed, b"sent").unwrap();
        let mut lane = Lane::between_pipes(outer, inner).unwrap();
        rustix::io::write(&meddled, b"own").unwrap();
        assert_eq!(lane.go(), Ok(false));
    }

    #[test]
    fn a_guest_that_enlarges_its_own_input_ends_its_lane() {
        let ((outer, feed), (guests, inner)) = (pipe(), pipe());
        rustix::io::write(&feed, b"sent").unwrap();
        let mut lane = Lane::between_pipes(outer, inner).unwrap();
        assert_eq!(lane.go(), Ok(true));
        rustix::pipe::fcntl_setpipe_size(&guests, 16 * PIECE_BYTES).unwrap();
        assert_eq!(lane.go(), Ok(false));
    }

    #[test]
    fn a_file_is_not_sought_back_further_than_it_was_read() {
        let file = tempfile();
        let (guests, inner) = pipe();
        let meddled = inner.try_clone().unwrap();
        rustix::fs::seek(&file, SeekFrom::Start(4)).unwrap();
        let mut lane = Lane::into_pipe(file.try_clone().unwrap(), inner, guests).unwrap();
        assert_eq!(lane.go(), Ok(true));
        rustix::io::write(&meddled, b"own bytes").unwrap();
        lane.guest_is_gone();
        assert_eq!(rustix::fs::tell(&file), Ok(4));
    }

    fn tempfile() -> OwnedFd {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("input", flags).unwrap();
        rustix::io::write(&file, b"0123456789").unwrap();
        file
    }
}
