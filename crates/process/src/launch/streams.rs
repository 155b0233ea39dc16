//! What the guest gets as its standard streams.

use super::LaunchError;
use crate::plan::StreamFiles;
use rustix::{
    fs::{FileType, OFlags},
    termios::Termios,
};
use std::os::fd::BorrowedFd;

/// What the guest gets as its standard streams.
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
    /// First the listening sockets that the plan hands over ([`crate::plan::Plan::handed`]), then
    /// descriptors that the program finds open after all of its listeners. The latter only for a plan that
    /// says so: [`crate::plan::Plan::passes`].
    pub passed: &'a [BorrowedFd<'a>],
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

impl Streams<'_> {
    /// The files of the host's among the streams that no terminal replaces. A folder among them would
    /// be a way out, `openat(0, "..")`, and is refused.
    pub(super) fn files(&self) -> Result<StreamFiles, LaunchError> {
        let replaced = self
            .terminal
            .as_ref()
            .map_or([false; 3], |terminal| terminal.replaces);
        let streams = [
            ("stdin", self.stdin),
            ("stdout", self.stdout),
            ("stderr", self.stderr),
        ];
        let mut files = StreamFiles::default();
        for ((stream, fd), replaced) in streams.into_iter().zip(replaced) {
            if !replaced {
                files = files.and(file_of(stream, fd)?);
            }
        }
        Ok(files)
    }
}

fn file_of(stream: &'static str, fd: BorrowedFd<'_>) -> Result<StreamFiles, LaunchError> {
    let bad = |errno| LaunchError::BadStream { stream, errno };
    let stat = rustix::fs::fstat(fd).map_err(bad)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Err(LaunchError::StreamIsFolder { stream }),
        FileType::RegularFile => {
            let access = rustix::fs::fcntl_getfl(fd).map_err(bad)? & OFlags::RWMODE;
            Ok(StreamFiles {
                read_only: access == OFlags::RDONLY,
                writable: access != OFlags::RDONLY,
                unread: access == OFlags::WRONLY && stat.st_size > 0,
            })
        }
        _ => Ok(StreamFiles::default()),
    }
}
