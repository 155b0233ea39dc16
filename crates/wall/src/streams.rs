//! What the guest gets as its standard streams.

use crate::journal::Journal;
use rustix::termios::Termios;
use std::{os::fd::BorrowedFd, sync::Arc};

/// What the guest gets as its standard streams.
///
/// - Pipes, files and the memory devices (`/dev/null` and its like) are passed on. An input file is opened
///   anew, without the means to change it: what the guest reads of it moves the offset of the one given
///   here when it has ended.
/// - What else is made of bytes (a connected socket, a terminal, another device, a file that no path leads
///   to) is not handed over: somebody relays between it and a pair of sockets or a pipe of the guest's.
/// - What is not is refused.
#[derive(Debug)]
pub struct Streams<'a> {
    /// Standard input.
    pub stdin: BorrowedFd<'a>,
    /// Standard output.
    pub stdout: BorrowedFd<'a>,
    /// Standard error.
    pub stderr: BorrowedFd<'a>,
    /// A terminal of the guest's own in place of some of them.
    pub terminal: Option<Terminal>,
    /// First the listening sockets that the plan hands over ([`crate::Surroundings::handed`]), then
    /// descriptors that the program finds open after all of its listeners. The latter only for a plan that
    /// says so.
    pub passed: &'a [BorrowedFd<'a>],
    /// Where questions are asked ([`crate::ask`]), of a plan that says so: a connected local stream socket.
    pub questions: Option<BorrowedFd<'a>>,
    /// Where what happens is written down, of a plan that says so.
    pub journal: Option<&'a Arc<Journal>>,
}

/// A terminal of the guest's own.
#[derive(Clone, Debug)]
pub struct Terminal {
    /// Height in lines.
    pub rows: u16,
    /// Width in columns.
    pub columns: u16,
    /// Which of stdin, stdout and stderr it replaces.
    pub replaces: [bool; 3],
    /// How it treats keys and output.
    pub settings: Termios,
    /// The guest starts in front. In the background it is stopped by SIGTTIN or SIGTTOU when it
    /// reads or sets the terminal, and told so by [`crate::Event::Stopped`].
    pub in_front: bool,
}
