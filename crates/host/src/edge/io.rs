//! A connection's bytes: the socket, TLS on it, and what hyper reads and writes.

use super::{
    heads::{Heads, Unclear},
    watch::{Closing, Watch},
};
use crate::io::{poll_read, poll_read_some};
use bytes::{Buf, BytesMut};
use hyper::rt::ReadBufCursor;
use std::{
    cell::RefCell,
    future::poll_fn,
    io::{self, IoSlice},
    os::fd::{AsFd, BorrowedFd},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::server::TlsStream;

/// What a client is told whose request's head does not come to its end.
const HEAD_LATE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// An accepted connection.
pub(in crate::edge) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// An accepted connection that tells its watch what it takes.
pub(super) struct Socket {
    /// The watch looks at it, between two turns of the connection's.
    stream: Rc<RefCell<Stream>>,
    watch: Rc<Watch>,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Socket {
    pub(super) fn new(stream: Stream, watch: Rc<Watch>) -> Self {
        let stream = Rc::new(RefCell::new(stream));
        watch.connect(Rc::downgrade(&stream));
        Self { stream, watch }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(_)) => self.watch.wrote(),
            Poll::Pending => self.watch.write_stalled(),
            Poll::Ready(Err(_)) => {}
        }
        written
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.watch.present_closing() == Closing::Reset
            && let Stream::Tcp(stream) = &*self.stream.borrow()
        {
            // Else the kernel would keep trying to send what the client does not take.
            let _ = stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self.stream.borrow_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut *self.stream.borrow_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        self.note(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut *self.stream.borrow_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        };
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.stream.borrow_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// A socket, with TLS or without.
pub(super) enum Transport {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Transport {
    fn socket(&mut self) -> &mut Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_mut().0,
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }
}

/// How far the end of a connection has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Not begun.
    Open,
    /// Everything was sent; what the client still sends is thrown away, for a close before it has read our
    /// answer would take that from it (RFC 9112, section 9.6).
    Lingering,
    /// Nothing is left to do.
    Ended,
}

/// What hyper reads and writes.
pub(super) struct Wire {
    transport: Transport,
    watch: Rc<Watch>,
    /// Read before the protocol was known, or put in the place of a head that is refused.
    first: BytesMut,
    /// Of HTTP/1.
    heads: Option<Box<Heads>>,
    read_end: bool,
    told_late: bool,
    ending: Ending,
}

impl Wire {
    pub(super) fn new(
        transport: Transport,
        mut first: BytesMut,
        is_http2: bool,
        watch: Rc<Watch>,
    ) -> Self {
        let mut heads = (!is_http2).then(|| Box::new(Heads::new()));
        if let Some(Unclear { at }) = heads
            .as_mut()
            .and_then(|heads| heads.look(&mut first).err())
        {
            first.truncate(at);
            first.extend_from_slice(Heads::REFUSED);
            watch.sweep().metrics.refused.add(1);
        }
        Self {
            transport,
            watch,
            first,
            heads,
            read_end: false,
            told_late: false,
            ending: Ending::Open,
        }
    }

    /// Reads, and looks at heads: how many bytes came, and whether what is from some place on was left out.
    fn poll_look(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBufCursor<'_>,
    ) -> Poll<io::Result<(usize, bool)>> {
        let Some(heads) = &mut self.heads else {
            let count = match &mut self.transport {
                Transport::Plain(socket) => poll_read(Pin::new(socket), context, buffer),
                Transport::Tls(stream) => poll_read(Pin::new(stream), context, buffer),
            };
            return count.map_ok(|count| (count, false));
        };
        let (mut there, mut unclear) = (0, false);
        let look = |bytes: &mut [u8]| {
            there = bytes.len();
            match heads.look(bytes) {
                Ok(()) => there,
                Err(Unclear { at }) => {
                    unclear = true;
                    at
                }
            }
        };
        let read = match &mut self.transport {
            Transport::Plain(socket) => poll_read_some(Pin::new(socket), context, buffer, look),
            Transport::Tls(stream) => poll_read_some(Pin::new(stream), context, buffer, look),
        };
        read.map_ok(|_| (there, unclear))
    }

    fn take_first(&mut self, buffer: &mut ReadBufCursor<'_>) {
        let count = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..count]);
        self.first.advance(count);
        if self.first.is_empty() {
            self.first = BytesMut::new();
        }
    }

    /// Closes, in the order that lets the client read all that was sent. Does nothing the second time.
    pub(super) async fn end(mut self) {
        if self.ending == Ending::Ended {
            return;
        }
        poll_fn(|context| match self.watch.closing(context) {
            Closing::Drop | Closing::Reset => Poll::Ready(()),
            // The client may be gone.
            _ => hyper::rt::Write::poll_shutdown(Pin::new(&mut self), context).map(|_| ()),
        })
        .await;
    }

    /// Says that the head came too late, as far as the socket takes it.
    fn tell_late(&mut self, context: &mut Context<'_>) {
        if !self.told_late {
            self.told_late = true;
            let _ = self.transport.poll_write(context, HEAD_LATE);
            let _ = self.transport.poll_flush(context);
        }
    }

    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut waste = [0; 4096];
        while !self.read_end {
            let mut waste = ReadBuf::new(&mut waste);
            let read = ready!(Pin::new(self.transport.socket()).poll_read(context, &mut waste));
            self.read_end = read.is_err() || waste.filled().is_empty();
        }
        Poll::Ready(())
    }
}

impl hyper::rt::Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = &mut *self;
        if !wire.first.is_empty() {
            wire.take_first(&mut buffer);
            return Poll::Ready(Ok(()));
        }
        if wire.watch.present_closing() == Closing::HeadLate {
            wire.tell_late(context);
            return Poll::Ready(Ok(()));
        }
        if !wire.watch.may_read(context) {
            return Poll::Pending;
        }
        let (there, unclear) = ready!(wire.poll_look(context, &mut buffer))?;
        wire.watch.read_bytes(there);
        match there {
            0 => wire.read_end = true,
            _ => wire.watch.read(),
        }
        if unclear {
            wire.first = BytesMut::from(Heads::REFUSED);
            wire.watch.sweep().metrics.refused.add(1);
            // Nothing at all would be the connection's end.
            wire.take_first(&mut buffer);
        }
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wire = &mut *self;
        let transport = &mut wire.transport;
        let write = |context: &mut Context<'_>| transport.poll_write(context, bytes);
        wire.watch.write_in_turn(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wire = &mut *self;
        let transport = &mut wire.transport;
        let write = |context: &mut Context<'_>| match transport {
            Transport::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        };
        wire.watch.write_in_turn(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = &mut *self;
        if wire.ending == Ending::Open {
            let shut = ready!(match &mut wire.transport {
                Transport::Plain(socket) => Pin::new(socket).poll_shutdown(context),
                Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            });
            wire.ending = if shut.is_ok() {
                Ending::Lingering
            } else {
                Ending::Ended
            };
            shut?;
            wire.watch.linger();
        }
        if wire.ending == Ending::Lingering {
            ready!(wire.poll_linger(context));
            wire.ending = Ending::Ended;
        }
        Poll::Ready(Ok(()))
    }
}
