//! Bytes both ways between two streams, until both have said all.

use std::{
    io::{self, PipeReader, Read, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};

use crate::wait::until_ready;

const BUFFER_BYTES: usize = 32 << 10;

/// How long a tunnel may be silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    /// While both sides may speak.
    pub(super) open: Duration,
    /// Once one has said all.
    pub(super) half_closed: Duration,
}

/// Copies both ways, `first` before anything else of the client's. When one side has said all, the
/// other is told so, and may go on.
///
/// # Errors
/// When a side breaks off, both are silent for too long, or the other end of `lifeline` is closed.
pub(super) fn copy_both_ways(
    client: &TcpStream,
    server: &TcpStream,
    first: Vec<u8>,
    lifeline: &PipeReader,
    idle: Idle,
) -> io::Result<()> {
    client.set_nonblocking(true)?;
    server.set_nonblocking(true)?;
    let mut up = Flow::new(client, server, first);
    let mut down = Flow::new(server, client, Vec::new());
    loop {
        up.advance()?;
        down.advance()?;
        if up.is_done() && down.is_done() {
            return Ok(());
        }
        let silence = match up.is_done() || down.is_done() {
            true => idle.half_closed,
            false => idle.open,
        };
        wait(
            client,
            server,
            &up,
            &down,
            lifeline,
            Instant::now() + silence,
        )?;
    }
}

fn wait(
    client: &TcpStream,
    server: &TcpStream,
    up: &Flow<'_>,
    down: &Flow<'_>,
    lifeline: &PipeReader,
    deadline: Instant,
) -> io::Result<()> {
    let flags = |reading: bool, writing: bool| {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, reading);
        flags.set(PollFlags::OUT, writing);
        flags
    };
    let ends = [
        (client, flags(up.wants_to_read(), down.wants_to_write())),
        (server, flags(down.wants_to_read(), up.wants_to_write())),
    ];
    let mut sources = vec![PollFd::new(lifeline, PollFlags::IN)];
    // One that nothing is wanted of would still report its end, again and again.
    let wanted = ends.iter().filter(|(_, flags)| !flags.is_empty());
    sources.extend(wanted.map(|(stream, flags)| PollFd::new(*stream, *flags)));
    until_ready(&mut sources, deadline)?;
    match sources[0].revents().is_empty() {
        true => Ok(()),
        false => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

/// One direction.
struct Flow<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    /// What is read and not written yet is `buffer[start..end]`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There may be more to read.
    Open,
    /// All is read.
    Read,
    /// All is written, and the reader is told so.
    Done,
}

impl<'a> Flow<'a> {
    fn new(from: &'a TcpStream, to: &'a TcpStream, first: Vec<u8>) -> Self {
        let end = first.len();
        let mut buffer = first;
        buffer.resize(end.max(BUFFER_BYTES), 0);
        Self {
            from,
            to,
            buffer,
            start: 0,
            end,
            state: State::Open,
        }
    }

    fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn wants_to_read(&self) -> bool {
        self.state == State::Open && self.start == self.end
    }

    fn wants_to_write(&self) -> bool {
        self.start < self.end
    }

    /// Reads and writes as far as that goes without waiting, but not forever: the other direction
    /// has its turn after one buffer.
    fn advance(&mut self) -> io::Result<()> {
        if self.wants_to_read() {
            self.read()?;
        }
        while self.wants_to_write() {
            match unless_would_block(self.to.write(&self.buffer[self.start..self.end]))? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(count) => self.start += count,
                None => return Ok(()),
            }
        }
        if self.state == State::Read {
            self.state = State::Done;
            // The other side may be gone already, having said all.
            let _ = self.to.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        match unless_would_block(self.from.read(&mut self.buffer))? {
            Some(0) => self.state = State::Read,
            Some(count) => (self.start, self.end) = (0, count),
            None => {}
        }
        Ok(())
    }
}

fn unless_would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        result => result.map(Some),
    }
}
