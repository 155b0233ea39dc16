//! What a guest writes to stdout and stderr: lines of the service's log.

use crate::{
    host::{Host, Stream},
    sys::OnThread,
};
use bytes::Bytes;
use palisade_engine::lock::lock;
use palisade_policy::visible;
use std::{
    io,
    pin::Pin,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
};
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    async_trait,
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamResult},
};

/// A longer line is cut into several.
const LINE_BYTES: usize = 8 << 10;
/// What one write takes.
const WRITE_BYTES: usize = 64 << 10;

/// Both streams of one instance.
pub(crate) struct Journal {
    host: OnThread<Rc<dyn Host>>,
    most_bytes: u64,
    lines: Mutex<Lines>,
}

/// What was written since the last line's end.
#[derive(Default)]
struct Lines {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Of this request.
    written_bytes: u64,
}

impl Lines {
    fn of(&mut self, stream: Stream) -> &mut Vec<u8> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr | Stream::Wall => &mut self.stderr,
        }
    }
}

impl Journal {
    /// At most so many bytes for each request.
    pub(crate) fn new(host: Rc<dyn Host>, most_bytes: u64) -> Self {
        Self {
            host: OnThread::new(host),
            most_bytes,
            lines: Mutex::default(),
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        lock(&self.lines)
    }

    fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut lines = self.lines();
        let before = lines.written_bytes;
        lines.written_bytes = before.saturating_add(bytes.len() as u64);
        if before > self.most_bytes {
            return;
        }
        let left = usize::try_from(self.most_bytes - before).unwrap_or(usize::MAX);
        let taken = &bytes[..bytes.len().min(left)];
        for piece in taken.split_inclusive(|byte| *byte == b'\n') {
            let line = lines.of(stream);
            line.extend_from_slice(piece);
            while line.len() >= LINE_BYTES {
                let rest = line.split_off(LINE_BYTES);
                self.end_line(stream, line);
                *line = rest;
            }
            if line.last() == Some(&b'\n') {
                self.end_line(stream, line);
            }
        }
        if taken.len() < bytes.len() {
            self.host.get().log(
                Stream::Wall,
                "policy: the rest of what it wrote is dropped: limits.output is used up",
            );
        }
    }

    /// Names and words in it are the guest's: what a terminal would act on is made visible.
    fn end_line(&self, stream: Stream, line: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        self.host.get().log(stream, &visible(text));
        line.clear();
    }

    /// A request ends, and with it a line that it has not ended.
    pub(crate) fn finish(&self) {
        let mut lines = self.lines();
        if lines.written_bytes == 0 {
            return;
        }
        lines.written_bytes = 0;
        for stream in [Stream::Stdout, Stream::Stderr] {
            let line = lines.of(stream);
            if !line.is_empty() {
                self.end_line(stream, line);
            }
        }
    }
}

/// A guest that is ended in the middle of a line has written that much.
impl Drop for Journal {
    fn drop(&mut self) {
        self.finish();
    }
}

/// One of the streams.
#[derive(Clone)]
pub(crate) struct Output {
    pub(crate) journal: Arc<Journal>,
    pub(crate) stream: Stream,
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.journal.write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = &bytes[..bytes.len().min(WRITE_BYTES)];
        self.journal.write(self.stream, taken);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
