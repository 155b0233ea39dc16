//! Whether the client of an HTTP/1 request is still there while nobody has answered it.
//!
//! ```text
//!  Unix socket: shut for writing only ▶ waits          closed ▶ gone
//!  TLS:         ended                                         ▶ gone
//!  TCP:         ended ──100 (Continue)──▶ silence ▶ waits     refused ▶ gone
//! ```
//!
//! hyper does not read while a request is answered. Of TCP the end of what a client sends says nothing: it may have shut
//! that direction and wait for its response. So it is told an interim response once, which every client of HTTP/1.1 passes
//! over (RFC 9110, section 15.2.1): the kernel of one that has gone refuses that.

use super::super::io::Stream;
use http::Version;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{SendFlags, send},
};
use std::{
    cell::{Cell, RefCell},
    os::fd::{AsFd, BorrowedFd},
    rc::Weak,
};

const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The client of a connection.
#[derive(Default)]
pub(super) struct Client {
    /// The connection's own, as long as that lives.
    socket: RefCell<Weak<RefCell<Stream>>>,
    has_tls: Cell<bool>,
    /// It may be told an interim response: it speaks HTTP/1.1, has had no head, and was not told one for this request.
    may_be_told: Cell<bool>,
}

impl Client {
    pub(super) fn connect(&self, socket: Weak<RefCell<Stream>>, has_tls: bool) {
        self.socket.replace(socket);
        self.has_tls.set(has_tls);
    }

    /// It has asked for something, in this version.
    pub(super) fn asked(&self, version: Version) {
        self.may_be_told.set(version == Version::HTTP_11);
    }

    /// It is about to have a head.
    pub(super) fn responded(&self) {
        self.may_be_told.set(false);
    }

    /// Whether it has gone. `is_stalled`: it has not taken all that was sent before.
    pub(super) fn is_gone(&self, is_stalled: bool) -> bool {
        let Some(stream) = self.socket.borrow().upgrade() else {
            return false;
        };
        let stream = stream.borrow();
        let seen = look(stream.as_fd());
        if seen.intersects(PollFlags::HUP | PollFlags::ERR) {
            return true;
        }
        if !seen.contains(PollFlags::RDHUP) || matches!(*stream, Stream::Unix(_)) {
            return false;
        }
        if !self.has_tls.get() && !is_stalled && self.may_be_told.replace(false) {
            // What is not taken now is not worth a second try.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = send(stream.as_fd(), INTERIM, flags);
        }
        self.has_tls.get()
    }
}

fn look(socket: BorrowedFd<'_>) -> PollFlags {
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut fds, Some(&at_once)) {
        Ok(_) => fds[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}
