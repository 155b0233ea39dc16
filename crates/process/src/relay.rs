//! Who passes on the bytes of standard streams which the guest must not hold itself: a process, where this
//! one has a single thread, or else a thread.
//!
//! ```text
//!  outside                       relay                         guest
//!  socket  ◀──────────────▶  two lanes, one each way  ◀───▶  a local socket of the domain's
//!  device, nameless file ──▶       one lane          ────▶  a pipe
//! ```
//!
//! A socket of the host's can be disconnected and sent elsewhere, asked for the host's interfaces, and
//! carries descriptors; none of that passes a relay of bytes.
//!
//! - **What the guest does not read stays outside** for who reads next, as it does without a relay: bytes
//!   from a socket are only looked at (`MSG_PEEK`) until the guest has taken them, a file is sought back.
//! - **An end passes as what it is:** shutdown(2) on one side is shutdown(2) on the other.
//! - **Nothing is lost at the end:** when the guest is gone its last words are still written, however long
//!   the other side takes to read them; the supervisor decides how long it waits.
//! - **A terminal is read by a thread.** To a process of another session none is the one that its keys come
//!   from, and in the background it would not be stopped (SIGTTIN).

mod lane;

pub(crate) use lane::Lane;

use crate::{
    confine::{Kept, Walls},
    parts::Parts,
    sys::{Forked, fork, with_signals_blocked},
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec},
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::mpsc,
    thread,
    time::Duration,
};

/// What the standard streams are called, by their numbers.
pub(crate) const NAMES: [&str; 3] = ["stdin", "stdout", "stderr"];

/// What could not be passed on: of which stream, and why.
pub(crate) type Failure = (usize, Errno);

/// A running relay. Without it a thread goes on until all is passed on, and a process ends.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Readable for the other side when the guest is gone.
    stop: OwnedFd,
    /// Has the relay's last word, and hangs up when all has been passed on.
    done: OwnedFd,
    _ends_with_this: Option<Forked>,
}

impl Relay {
    /// Begins to relay, within what a relay needs.
    ///
    /// # Errors
    ///
    /// When no thread or process can be made, or it can't be confined.
    pub(crate) fn start(
        lanes: Vec<Lane>,
        parts: Parts,
        landlock_abi: Option<u32>,
    ) -> io::Result<Self> {
        let walls = Kept::of_relay().walls(landlock_abi);
        let walls = walls.map_err(io::Error::other)?;
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
        let (done, running) = rustix::net::socketpair(family, SocketType::STREAM, flags, None)?;
        let mut relaying = Relaying {
            lanes,
            stop: stop.try_clone()?,
            running,
        };
        let mut process = None;
        if parts == Parts::Processes && !relaying.lanes.iter().any(Lane::has_terminal) {
            let kept: Vec<RawFd> = relaying.descriptors().chain(walls.descriptor()).collect();
            match fork(c"palisade-relay", &kept, || {
                with_signals_blocked(|| relaying.run_within(&walls));
            }) {
                Err(Errno::BUSY) => {}
                forked => process = Some(forked?),
            }
        }
        if process.is_none() {
            relaying.start_thread(walls)?;
        }
        Ok(Self {
            stop,
            done,
            _ends_with_this: process,
        })
    }

    /// The guest is gone: what it left is passed on, and nothing more.
    pub(crate) fn stop(&self) {
        // It cannot be full: a count of 2^64 - 1.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Hangs up when all has been passed on.
    pub(crate) fn done(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }

    /// Waits until then, no longer than so; tells whether it was worth it.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let most = Timespec::try_from(most).unwrap_or_default();
        let mut fds = [PollFd::new(&self.done, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&most))) == Ok(1)
    }

    /// What could not be written where the guest's output goes, once all else has been passed on. One that ended
    /// without a last word (it was killed) has lost what nobody knows.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let mut told = [0; TOLD_BYTES];
        let look = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.done, &mut told, look) {
            Ok((TOLD_BYTES, _)) => decode(told),
            // It goes on.
            Err(Errno::AGAIN) => None,
            _ => Some(UNKNOWN),
        }
    }
}

/// What somebody else said, or nobody.
const UNKNOWN: Failure = (1, Errno::IO);

/// A last word: the failed stream's number and the error's, or nothing but zeros.
const TOLD_BYTES: usize = 8;

fn encode(failure: Option<Failure>) -> [u8; TOLD_BYTES] {
    let both = failure.map_or(0, |(number, errno)| {
        (number as u64) << 32 | errno.raw_os_error() as u64
    });
    both.to_ne_bytes()
}

/// Somebody else may speak for a relay that is a process.
fn decode(told: [u8; TOLD_BYTES]) -> Option<Failure> {
    let told = u64::from_ne_bytes(told);
    let (number, errno) = ((told >> 32) as usize, told as u32);
    // MAX_ERRNO in include/linux/err.h.
    match errno {
        0 if number == 0 => None,
        1..=4095 if number < 3 => Some((number, Errno::from_raw_os_error(errno as i32))),
        _ => Some(UNKNOWN),
    }
}

/// What a relay works on.
struct Relaying {
    lanes: Vec<Lane>,
    stop: OwnedFd,
    running: OwnedFd,
}

impl Relaying {
    fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let own = [&self.stop, &self.running].map(AsRawFd::as_raw_fd);
        own.into_iter()
            .chain(self.lanes.iter().flat_map(Lane::descriptors))
    }

    /// The process. One that could not be confined passes nothing on.
    fn run_within(&mut self, walls: &Walls) {
        match walls.around_this_thread() {
            Ok(()) => self.run(),
            Err(_) => self.tell(Some((1, Errno::PERM))),
        }
    }

    fn start_thread(mut self, walls: Walls) -> io::Result<()> {
        const STACK_BYTES: usize = 64 * 1024;
        let builder = thread::Builder::new().name("palisade-relay".into());
        let (begin, begun) = mpsc::channel();
        let run = move || {
            let confined = walls.around_this_thread();
            let goes_on = confined.is_ok();
            let _ = begin.send(confined);
            if goes_on {
                self.run();
            }
        };
        with_signals_blocked(|| builder.stack_size(STACK_BYTES).spawn(run))?;
        let begun = begun.recv().map_err(io::Error::other)?;
        begun.map_err(io::Error::other)
    }

    fn tell(&self, failure: Option<Failure>) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // Whoever does not hear it any more does not want to.
        let _ = rustix::net::send(&self.running, &encode(failure), flags);
    }

    fn run(&mut self) {
        let mut failure = None;
        let mut stopped = false;
        while !self.lanes.is_empty() {
            let ready = match self.wait(stopped) {
                Ok(ready) => ready,
                Err(errno) => {
                    failure.get_or_insert((1, errno));
                    break;
                }
            };
            let (signalled, ready) = ready
                .split_first()
                .map_or((false, &[][..]), |split| (!split.0.is_empty(), split.1));
            if signalled && !stopped {
                stopped = true;
                self.lanes.iter_mut().for_each(Lane::guest_is_gone);
            }
            let mut events = ready.chunks(2);
            self.lanes.retain_mut(|lane| {
                let events = events.next().unwrap_or(&[]);
                let happened = events.iter().any(|event| !event.is_empty());
                match if happened || lane.must_look() {
                    lane.go()
                } else {
                    Ok(true)
                } {
                    Ok(goes_on) => goes_on,
                    Err(failed) => {
                        failure.get_or_insert(failed);
                        false
                    }
                }
            });
        }
        self.tell(failure);
    }

    /// What happened on the stop, then on two descriptors of each lane.
    fn wait(&self, stopped: bool) -> rustix::io::Result<Vec<PollFlags>> {
        let own = if stopped {
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        let mut fds = vec![PollFd::new(&self.stop, own)];
        let mut looks = false;
        for lane in &self.lanes {
            looks |= lane.must_look();
            fds.extend(
                lane.waits()
                    .map(|(fd, events)| PollFd::from_borrowed_fd(fd, events)),
            );
        }
        let at_once = Timespec::default();
        let most = looks.then_some(&at_once);
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, most))?;
        Ok(fds.iter().map(PollFd::revents).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::{
        fs::{MemfdFlags, SeekFrom},
        io::{read, write},
        net::{Shutdown, shutdown},
        pipe::{PipeFlags, pipe_with},
    };

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Within its filter and rules.
    fn relay(lanes: Vec<Lane>) -> Relay {
        Relay::start(lanes, Parts::Threads, crate::sys::landlock_abi()).unwrap()
    }

    fn pipe() -> (OwnedFd, OwnedFd) {
        pipe_with(PipeFlags::CLOEXEC).unwrap()
    }

    fn sockets() -> (OwnedFd, OwnedFd) {
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
        rustix::net::socketpair(family, SocketType::STREAM, flags, None).unwrap()
    }

    fn file(content: &[u8]) -> OwnedFd {
        let file = rustix::fs::memfd_create("file", MemfdFlags::CLOEXEC).unwrap();
        write(&file, content).unwrap();
        rustix::fs::seek(&file, SeekFrom::Start(0)).unwrap();
        file
    }

    /// So many bytes, however they come.
    fn read_exactly(from: &OwnedFd, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let mut length = 0;
        while length < count {
            length += match read(from, &mut bytes[length..]).unwrap() {
                0 => panic!("it ends after {length} bytes"),
                length => length,
            };
        }
        bytes
    }

    #[test]
    fn a_pipe_is_relayed_within_its_walls() {
        let ((outer, feed), (guests, inner)) = (pipe(), pipe());
        let ((output, guests_output), (shown, outside)) = (pipe(), pipe());
        let relay = relay(vec![
            Lane::between_pipes(outer, inner).unwrap(),
            Lane::out_of_pipe(1, output, outside, true).unwrap(),
        ]);
        for words in [b"one", b"two"] {
            write(&feed, words).unwrap();
            assert_eq!(read_exactly(&guests, 3), words);
            write(&guests_output, words).unwrap();
            assert_eq!(read_exactly(&shown, 3), words);
        }
        relay.stop();
        assert!(relay.wait(PATIENCE));
        assert_eq!(relay.failure(), None);
    }

    #[test]
    fn a_file_is_relayed_within_its_walls() {
        let (input, output) = (file(b"0123456789"), file(b""));
        let ((guests, inner), (from, guests_output)) = (pipe(), pipe());
        let copy = guests.try_clone().unwrap();
        let relay = relay(vec![
            Lane::into_pipe(input.try_clone().unwrap(), inner, copy).unwrap(),
            Lane::out_of_pipe(1, from, output.try_clone().unwrap(), false).unwrap(),
        ]);
        assert_eq!(read_exactly(&guests, 4), b"0123");
        write(&guests_output, b"said").unwrap();
        relay.stop();
        assert!(relay.wait(PATIENCE));
        assert_eq!(rustix::fs::tell(&input), Ok(4));
        rustix::fs::seek(&output, SeekFrom::Start(0)).unwrap();
        assert_eq!(read_exactly(&output, 4), b"said");
    }

    /// More than a socket holds: the relay hears what the guest has taken.
    #[test]
    fn a_socket_is_relayed_within_its_walls() {
        let ((outside, given), (guests, ours)) = (sockets(), sockets());
        let copy = guests.try_clone().unwrap();
        let relay = relay(Lane::of_sockets(0, given, ours, copy).unwrap().into());
        const PIECE_BYTES: usize = 64 * 1024;
        for _ in 0..16 {
            write(&outside, &[7; PIECE_BYTES]).unwrap();
            assert_eq!(read_exactly(&guests, PIECE_BYTES), [7; PIECE_BYTES]);
        }
        write(&guests, b"answer").unwrap();
        assert_eq!(read_exactly(&outside, 6), b"answer");
        shutdown(&outside, Shutdown::Write).unwrap();
        assert_eq!(read(&guests, &mut [0; 1]), Ok(0));
        relay.stop();
        assert!(relay.wait(PATIENCE));
    }

    #[test]
    fn a_failure_is_told_at_the_end_and_stays() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let (output, guests_output) = pipe();
        let lane = Lane::out_of_pipe(2, output, full.unwrap().into(), false).unwrap();
        write(&guests_output, b"lost").unwrap();
        let relay = relay(vec![lane]);
        assert!(relay.wait(PATIENCE));
        for _ in 0..2 {
            assert_eq!(relay.failure(), Some((2, Errno::NOSPC)));
        }
    }

    #[test]
    fn without_a_last_word_all_may_be_lost() {
        for failure in [None, Some((0, Errno::PIPE)), Some((2, Errno::NOSPC))] {
            assert_eq!(decode(encode(failure)), failure);
        }
        for (number, errno) in [(3, 1), (1, 0), (0, 4096), (u64::MAX >> 32, u32::MAX)] {
            let told: u64 = number << 32 | u64::from(errno);
            assert_eq!(
                decode(told.to_ne_bytes()),
                Some(UNKNOWN),
                "{number} {errno}"
            );
        }
        let (done, running) = sockets();
        let relay = Relay {
            stop: running.try_clone().unwrap(),
            done,
            _ends_with_this: None,
        };
        assert_eq!(relay.failure(), None, "it goes on");
        shutdown(&running, Shutdown::Both).unwrap();
        assert_eq!(relay.failure(), Some(UNKNOWN));
    }
}
