//! Output that is counted on its way: only under `--output`; without it the guest writes straight to
//! where palisade would have.

use super::terminal::Outer;
use rustix::{
    event::PollFlags,
    io::Errno,
    pipe::{PipeFlags, SpliceFlags},
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most bytes passed on in one go.
const CHUNK_BYTES: usize = 64 * 1024;

/// The guest's output streams that pass through palisade, and how much they may still carry.
#[derive(Debug)]
pub(super) struct Counted {
    streams: Vec<Stream>,
    limit_bytes: Option<u64>,
    passed_bytes: u64,
    failure: Option<(&'static str, Errno)>,
}

#[derive(Debug)]
struct Stream {
    /// 1 or 2.
    number: u32,
    guest_end: Option<OwnedFd>,
    our_end: OwnedFd,
    /// Where it goes to has no room: bytes wait until it has, and so does the guest.
    waits_for_room: bool,
    /// Some files (opened for appending, some devices) can't be spliced to.
    spliceable: bool,
}

/// What came of moving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// Some were moved, more may come.
    Some,
    /// All that may be moved were.
    LimitReached,
}

impl Counted {
    /// Pipes for the streams that are not terminals, if output is limited.
    pub(super) fn under(
        limit_bytes: Option<u64>,
        outer: Option<&Outer>,
    ) -> rustix::io::Result<Self> {
        let mut streams = Vec::new();
        if limit_bytes.is_some() {
            let replaced = outer.map_or([false; 3], Outer::replaces);
            for number in [1u32, 2]
                .into_iter()
                .filter(|number| !replaced[*number as usize])
            {
                streams.push(Stream::new(number)?);
            }
        }
        Ok(Self {
            streams,
            limit_bytes,
            passed_bytes: 0,
            failure: None,
        })
    }

    /// The guest's end of a counted stream.
    pub(super) fn stream(&self, number: u32) -> Option<BorrowedFd<'_>> {
        self.streams
            .iter()
            .find(|stream| stream.number == number)?
            .guest_end
            .as_ref()
            .map(AsFd::as_fd)
    }

    /// Once the guest has its ends, ours must go, or no end of file is ever seen.
    pub(super) fn let_go_of_guest_ends(&mut self) {
        for stream in &mut self.streams {
            stream.guest_end = None;
        }
    }

    /// What to wait for on each stream.
    pub(super) fn waits(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.streams.iter().map(|stream| {
            if stream.waits_for_room {
                (stream.destination(), PollFlags::OUT)
            } else {
                (stream.our_end.as_fd(), PollFlags::IN)
            }
        })
    }

    /// Gives up what has not passed.
    pub(super) fn close(&mut self) {
        self.streams.clear();
    }

    /// The stream of which not everything could be written, and why. A reader that is gone is no failure.
    pub(super) fn failure(&self) -> Option<(&'static str, Errno)> {
        self.failure
    }

    /// Whether every stream has come to its end.
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Bytes passed on, if they are counted.
    pub(super) fn passed_bytes(&self) -> Option<u64> {
        self.limit_bytes.map(|_| self.passed_bytes)
    }

    /// How many bytes may still pass.
    pub(super) fn left_bytes(&self) -> usize {
        let left = self
            .limit_bytes
            .map_or(u64::MAX, |limit| limit - self.passed_bytes);
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Counts bytes that another way took.
    pub(super) fn count(&mut self, bytes: usize) {
        self.passed_bytes += bytes as u64;
    }

    /// Moves what is there from the streams at these positions. A stream whose reader or writer is
    /// gone is closed.
    pub(super) fn move_ready(&mut self, ready: &[bool]) -> Moved {
        let mut position = 0;
        let mut outcome = Moved::Some;
        let (limit, mut passed) = (self.limit_bytes.unwrap_or(u64::MAX), self.passed_bytes);
        let mut failure = self.failure;
        self.streams.retain_mut(|stream| {
            let is_ready = ready.get(position).copied().unwrap_or(false);
            position += 1;
            if !is_ready {
                return true;
            }
            let left = usize::try_from(limit - passed).unwrap_or(usize::MAX);
            if left == 0 {
                // Readable beyond the limit: a byte too many, or just the end of the stream.
                if !stream.is_at_end() {
                    outcome = Moved::LimitReached;
                }
                return false;
            }
            stream.waits_for_room = false;
            match stream.pass_on(left.min(CHUNK_BYTES)) {
                Ok(0) => false,
                Ok(moved) => {
                    passed += moved as u64;
                    true
                }
                Err(Errno::INTR) => true,
                Err(Errno::AGAIN) => {
                    stream.waits_for_room = true;
                    true
                }
                Err(Errno::PIPE) => false,
                Err(errno) => {
                    failure = failure.or(Some((stream.name(), errno)));
                    false
                }
            }
        });
        self.passed_bytes = passed;
        self.failure = failure;
        outcome
    }
}

impl Stream {
    fn new(number: u32) -> rustix::io::Result<Self> {
        let (our_end, guest_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self {
            number,
            guest_end: Some(guest_end),
            our_end,
            waits_for_room: false,
            spliceable: true,
        })
    }

    fn pass_on(&mut self, most_bytes: usize) -> rustix::io::Result<usize> {
        // A reader that is slow must not keep palisade from hearing signals.
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let to = self.destination();
        if self.spliceable {
            match rustix::pipe::splice(&self.our_end, None, to, None, most_bytes, flags) {
                Err(Errno::INVAL) => self.spliceable = false,
                outcome => return outcome,
            }
        }
        let mut buffer = vec![0; most_bytes];
        let length = rustix::io::read(&self.our_end, &mut buffer)?;
        write_all(to, &buffer[..length])?;
        Ok(length)
    }

    fn destination(&self) -> BorrowedFd<'static> {
        if self.number == 1 {
            rustix::stdio::stdout()
        } else {
            rustix::stdio::stderr()
        }
    }

    fn name(&self) -> &'static str {
        match self.number {
            1 => "stdout",
            _ => "stderr",
        }
    }

    fn is_at_end(&self) -> bool {
        rustix::io::ioctl_fionread(&self.our_end).is_ok_and(|bytes| bytes == 0)
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(to, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}
