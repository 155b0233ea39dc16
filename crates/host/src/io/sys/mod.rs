//! What hyper and tokio read into, each under the other's name.
#![allow(
    unsafe_code,
    reason = "hyper's buffers are filled through pointers that may not be initialised"
)]

use hyper::rt::ReadBufCursor;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, ReadBuf};

/// Reads into hyper's buffer, without a copy in between and without filling it with zeros before; gives the
/// number of bytes.
pub(crate) fn poll_read<R: AsyncRead + ?Sized>(
    reader: Pin<&mut R>,
    context: &mut Context<'_>,
    buffer: &mut ReadBufCursor<'_>,
) -> Poll<io::Result<usize>> {
    poll_read_some(reader, context, buffer, |bytes| bytes.len())
}

/// The same with a look at what was read before hyper has it: so many bytes are kept as `look` says.
pub(crate) fn poll_read_some<R: AsyncRead + ?Sized>(
    reader: Pin<&mut R>,
    context: &mut Context<'_>,
    buffer: &mut ReadBufCursor<'_>,
    look: impl FnOnce(&mut [u8]) -> usize,
) -> Poll<io::Result<usize>> {
    // SAFETY: `ReadBuf::uninit` takes what may not be initialised, and nothing in it ever becomes
    // uninitialised: a reader can only fill it (tokio::io::ReadBuf).
    let mut unfilled = ReadBuf::uninit(unsafe { buffer.as_mut() });
    ready!(reader.poll_read(context, &mut unfilled))?;
    let there = unfilled.filled().len();
    let count = look(unfilled.filled_mut()).min(there);
    // SAFETY: at least so many bytes were filled, and thereby initialised, from the cursor's place on.
    unsafe { buffer.advance(count) };
    Poll::Ready(Ok(count))
}
