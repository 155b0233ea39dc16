//! Bodies that are read from a file while they are sent.
//!
//! What the kernel has in memory is read at once, on the worker's thread; for the rest a blocking thread waits.
//! After each piece the file is looked at: if it is not the one whose length was promised, the body breaks off,
//! and the connection with it.

use super::load::{self, Fault, PIECE_BYTES, Stamp, Wait};
use crate::body::BodyError;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    cell::RefCell,
    ops::Range,
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::task::JoinHandle;

/// Buffers that a thread keeps for the next pieces.
const MOST_BUFFERS: usize = 32;

thread_local! {
    static BUFFERS: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A part of a body.
#[derive(Debug)]
pub(super) enum Piece {
    /// What is there already.
    Ready(Bytes),
    /// These bytes of the file.
    OfFile(Range<u64>),
}

/// Why a body broke off.
#[derive(Debug, thiserror::Error)]
enum BrokenOff {
    #[error(
        "the file was changed while it was sent: \
         whoever changes it should write a new one and rename(2) it"
    )]
    Changed,
    #[error("the file can't be read any more: {0:?}")]
    Unreadable(Fault),
}

/// A body of pieces of one file.
#[derive(Debug)]
pub(super) struct FileBody {
    /// Those that are left, the next one last.
    pieces: Vec<Piece>,
    source: Source,
    stamp: Stamp,
    left: u64,
}

#[derive(Debug)]
enum Source {
    File(Arc<OwnedFd>),
    /// A blocking thread has the file for now.
    Waiting(JoinHandle<Read>),
    None,
}

/// What a read came to, and what it was lent.
#[derive(Debug)]
struct Read {
    file: Arc<OwnedFd>,
    buffer: Buffer,
    count: Result<usize, Fault>,
}

impl Piece {
    fn bytes(&self) -> u64 {
        match self {
            Self::Ready(bytes) => bytes.len() as u64,
            Self::OfFile(range) => range.end - range.start,
        }
    }
}

impl FileBody {
    /// `file` must be there if any of the pieces is of it.
    pub(super) fn new(mut pieces: Vec<Piece>, file: Option<Arc<OwnedFd>>, stamp: Stamp) -> Self {
        pieces.reverse();
        Self {
            left: pieces.iter().map(Piece::bytes).sum(),
            pieces,
            source: file.map_or(Source::None, Source::File),
            stamp,
        }
    }

    /// How many bytes are left.
    pub(super) fn bytes(&self) -> u64 {
        self.left
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        let range = match self.pieces.pop() {
            None => return Poll::Ready(None),
            Some(Piece::Ready(bytes)) => return Poll::Ready(Some(Ok(bytes))),
            Some(Piece::OfFile(range)) => range,
        };
        let read = self.poll_read(context, &range);
        let Poll::Ready(read) = read else {
            self.pieces.push(Piece::OfFile(range));
            return Poll::Pending;
        };
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                self.pieces.clear();
                return Poll::Ready(Some(Err(error)));
            }
        };
        let next = range.start + bytes.len() as u64;
        if next < range.end {
            self.pieces.push(Piece::OfFile(next..range.end));
        }
        Poll::Ready(Some(Ok(bytes)))
    }

    /// Reads some of a range, at least one byte.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        range: &Range<u64>,
    ) -> Poll<Result<Bytes, BrokenOff>> {
        let wanted = (range.end - range.start).min(PIECE_BYTES as u64) as usize;
        loop {
            let read = match std::mem::replace(&mut self.source, Source::None) {
                Source::None => return Poll::Ready(Err(BrokenOff::Unreadable(Fault::Busy))),
                Source::File(file) => {
                    Read::new(file, Buffer::take(), range.start, wanted, Wait::Never)
                }
                Source::Waiting(mut waiting) => match Pin::new(&mut waiting).poll(context) {
                    Poll::Pending => {
                        self.source = Source::Waiting(waiting);
                        return Poll::Pending;
                    }
                    // The runtime ends.
                    Poll::Ready(Err(_)) => {
                        return Poll::Ready(Err(BrokenOff::Unreadable(Fault::Busy)));
                    }
                    Poll::Ready(Ok(read)) => read,
                },
            };
            if read.count != Err(Fault::WouldWait) {
                return Poll::Ready(self.check(read));
            }
            let (Read { file, buffer, .. }, offset) = (read, range.start);
            let reading = move || Read::new(file, buffer, offset, wanted, Wait::May);
            self.source = Source::Waiting(tokio::task::spawn_blocking(reading));
        }
    }

    /// Takes what was read for what was promised, if the file is still the same.
    fn check(&mut self, read: Read) -> Result<Bytes, BrokenOff> {
        let Read {
            file,
            buffer,
            count,
        } = read;
        let count = count.map_err(BrokenOff::Unreadable)?;
        let (_, stamp) = load::look(&file).map_err(|error| BrokenOff::Unreadable(error.into()))?;
        if count == 0 || !stamp.has_content_of(&self.stamp) {
            return Err(BrokenOff::Changed);
        }
        self.source = Source::File(file);
        Ok(buffer.into_bytes(count))
    }
}

impl Read {
    fn new(file: Arc<OwnedFd>, mut buffer: Buffer, offset: u64, bytes: usize, wait: Wait) -> Self {
        let count = load::read_at(&file, &mut buffer.bytes[..bytes], offset, wait);
        Self {
            file,
            buffer,
            count,
        }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let piece = ready!(self.poll_piece(context));
        Poll::Ready(piece.map(|piece| {
            let bytes = piece?;
            self.left -= bytes.len() as u64;
            Ok(Frame::data(bytes))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Room for a piece, which goes back to a thread's own when nobody needs it any more.
#[derive(Debug)]
struct Buffer {
    bytes: Box<[u8]>,
    filled: usize,
}

impl Buffer {
    fn take() -> Self {
        let kept = BUFFERS.with_borrow_mut(Vec::pop);
        Self {
            bytes: kept.unwrap_or_else(|| vec![0; PIECE_BYTES].into()),
            filled: 0,
        }
    }

    fn into_bytes(mut self, filled: usize) -> Bytes {
        self.filled = filled;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // At a thread's end it has no place for them any more.
        let _ = BUFFERS.try_with(|buffers| match buffers.try_borrow_mut() {
            Ok(mut buffers) if buffers.len() < MOST_BUFFERS => buffers.push(bytes),
            _ => {}
        });
    }
}
