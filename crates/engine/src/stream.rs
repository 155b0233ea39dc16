//! The standard streams of a component: straight to the descriptors, with no thread between.
//!
//! wasmtime-wasi's own stdin reads in a thread of its own, so that each line hops twice; its stdout keeps
//! what a line has not ended yet, and a guest that traps would lose it.

use bytes::Bytes;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::BorrowedFd,
    io::Errno,
};
use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};
use tokio::io::{
    AsyncRead, AsyncWrite, Interest, ReadBuf,
    unix::{AsyncFd, TryIoError},
};
use wasmtime_wasi::{
    async_trait,
    cli::{IsTerminal, StdinStream, StdoutStream},
    p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult},
};

/// The most that one read gives, or one write takes: the host holds that much for a guest.
const CHUNK_BYTES: usize = 64 << 10;

/// Standard input.
#[derive(Clone)]
pub(crate) struct Input(Arc<Source>);

struct Source {
    descriptor: BorrowedFd<'static>,
    /// Made at the first wait. None: a file or a device that never makes a reader wait.
    waiter: OnceLock<Option<AsyncFd<BorrowedFd<'static>>>>,
}

impl Input {
    /// Reads from this descriptor, which this process keeps open.
    pub(crate) fn new(descriptor: BorrowedFd<'static>) -> Self {
        Self(Arc::new(Source {
            descriptor,
            waiter: OnceLock::new(),
        }))
    }
}

impl Source {
    #[expect(
        deprecated,
        reason = "its successor is unsafe and asks that the descriptor stay open, which this type says"
    )]
    fn waiter(&self) -> Option<&AsyncFd<BorrowedFd<'static>>> {
        self.waiter
            .get_or_init(|| AsyncFd::with_interest(self.descriptor, Interest::READABLE).ok())
            .as_ref()
    }

    /// Whether a read would return at once. The descriptor is not set non-blocking: that is a property of
    /// the open file, which others share.
    fn is_ready(&self) -> io::Result<bool> {
        let mut polled = [PollFd::from_borrowed_fd(self.descriptor, PollFlags::IN)];
        Ok(poll(&mut polled, Some(&Timespec::default()))? > 0)
    }

    /// Reads what is there; `WouldBlock` when nothing is.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.is_ready()? {
            true => Ok(rustix::io::retry_on_intr(|| {
                rustix::io::read(self.descriptor, &mut *buffer)
            })?),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl IsTerminal for Input {
    fn is_terminal(&self) -> bool {
        rustix::termios::isatty(self.0.descriptor)
    }
}

impl StdinStream for Input {
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Input {
    async fn ready(&mut self) {
        let Some(waiter) = self.0.waiter() else {
            return;
        };
        // An error counts as ready: the read tells it.
        while let (Ok(false), Ok(mut guard)) = (self.0.is_ready(), waiter.readable().await) {
            if matches!(self.0.is_ready(), Ok(false)) {
                guard.clear_ready();
            }
        }
    }
}

#[async_trait]
impl InputStream for Input {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let mut buffer = vec![0; size.min(CHUNK_BYTES)];
        match self.0.read(&mut buffer) {
            Ok(0) if size > 0 => Err(StreamError::Closed),
            Ok(length) => {
                buffer.truncate(length);
                Ok(buffer.into())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Bytes::new()),
            Err(error) => Err(StreamError::LastOperationFailed(error.into())),
        }
    }
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let source = &self.0;
        loop {
            match source.read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|length| buffer.advance(length))),
            }
            let Some(waiter) = source.waiter() else {
                // Never ready and cannot be waited for: nothing known is so.
                return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
            };
            let mut guard = ready!(waiter.poll_read_ready(context))?;
            // Data that came since the read above must not be cleared away with the old readiness.
            let _: Result<_, TryIoError> = guard.try_io(|_| match source.is_ready()? {
                true => Ok(()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            });
        }
    }
}

/// Standard output or error. A write waits as a native program's does: whoever reads slowly stops the
/// guest, all of its tasks.
#[derive(Clone, Copy)]
pub(crate) struct Output(BorrowedFd<'static>);

impl Output {
    /// Writes to this descriptor, which this process keeps open.
    pub(crate) fn new(descriptor: BorrowedFd<'static>) -> Self {
        Self(descriptor)
    }

    fn write(self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(self.0, bytes) {
                Err(Errno::INTR) => {}
                // Whoever shares the open file set it non-blocking.
                Err(Errno::AGAIN) => {
                    let mut polled = [PollFd::from_borrowed_fd(self.0, PollFlags::OUT)];
                    rustix::io::retry_on_intr(|| poll(&mut polled, None))?;
                }
                written => return Ok(written?),
            }
        }
    }

    fn write_all(self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.write(bytes)?;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        rustix::termios::isatty(self.0)
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(*self)
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(*self)
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.write_all(&bytes).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => StreamError::Closed,
            _ => StreamError::LastOperationFailed(error.into()),
        })
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK_BYTES)
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready((*self).write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
