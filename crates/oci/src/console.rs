//! The other end of a container's terminal: sent to the engine, or relayed to the terminal that this program was started from.

use anyhow::Context;
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
        SocketFlags, SocketType,
    },
    termios::{OptionalActions, Termios},
};
use std::{
    fs::File,
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// Connects to the engine's socket, before anything is made.
pub(crate) fn connect(path: &Path) -> anyhow::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let address = SocketAddrUnix::new(path);
    let connected = match address {
        Ok(address) => rustix::net::connect(&socket, &address),
        // A name of 108 bytes is the longest: by its folder's descriptor it is shorter.
        Err(_) => connect_by_folder(&socket, path),
    };
    connected.with_context(|| format!("policy: cannot connect to the console socket {path:?}"))?;
    Ok(socket)
}

fn connect_by_folder(socket: &OwnedFd, path: &Path) -> rustix::io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::NAMETOOLONG);
    };
    let folder = File::open(parent).map_err(|_| Errno::NOENT)?;
    let short = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(name);
    rustix::net::connect(socket, &SocketAddrUnix::new(&short)?)
}

/// Sends it, with the name that engines look for none at.
pub(crate) fn send(socket: &OwnedFd, terminal: BorrowedFd<'_>) -> anyhow::Result<()> {
    let fds = [terminal];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    let name = [IoSlice::new(b"/dev/ptmx")];
    rustix::net::sendmsg(socket, &name, &mut ancillary, SendFlags::NOSIGNAL)
        .context("host: cannot send the terminal to the console socket")?;
    Ok(())
}

/// The size of this process's terminal, if it has one.
pub(crate) fn size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdin()).ok()?;
    Some((size.ws_row, size.ws_col))
}

/// Passes on what is typed and what is shown, until the container's program and all that it started have closed theirs.
pub(crate) struct Relay {
    master: OwnedFd,
    before: Option<Termios>,
}

impl Relay {
    pub(crate) fn new(master: OwnedFd) -> Self {
        let stdin = rustix::stdio::stdin();
        let before = rustix::termios::tcgetattr(stdin).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            let _ = rustix::termios::tcsetattr(stdin, OptionalActions::Now, &raw);
        }
        Self { master, before }
    }

    pub(crate) fn master(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }

    pub(crate) fn run(&self) {
        let mut is_typed = true;
        let mut buffer = [0u8; 8192];
        loop {
            let mut fds = vec![PollFd::new(&self.master, PollFlags::IN)];
            let stdin = rustix::stdio::stdin();
            if is_typed {
                fds.push(PollFd::from_borrowed_fd(stdin, PollFlags::IN));
            }
            match rustix::event::poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0] {
                match rustix::io::read(&self.master, &mut buffer) {
                    // EIO: nobody has the other end open any more.
                    Ok(0) | Err(_) => return,
                    Ok(length) => write_all(rustix::stdio::stdout(), &buffer[..length]),
                }
            }
            if ready.get(1) == Some(&true) {
                match rustix::io::read(stdin, &mut buffer) {
                    Ok(0) | Err(_) => is_typed = false,
                    Ok(length) => write_all(self.master.as_fd(), &buffer[..length]),
                }
            }
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let stdin = rustix::stdio::stdin();
            let _ = rustix::termios::tcsetattr(stdin, OptionalActions::Now, before);
        }
    }
}
