//! A listener that is the program's own.

use super::{
    ProgramError, connections, consumption::Consumption, endpoint::still_listens, guest::Guest,
};
use crate::client::sys::watch_readable;
use crate::config::Address;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{AtFlags, CWD, FileType},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

const BACKLOG: i32 = 4096;

/// An open socket that only the program accepts connections from.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    asked_for: Address,
    address: Address,
    _file: Option<SocketFile>,
}

/// A socket's file, removed when it is dropped.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Listener {
    pub(super) fn bind(address: &Address) -> Result<Self, ProgramError> {
        let bound = match address {
            Address::Internet(address) => bind_internet(*address),
            Address::Unix(path) => bind_local(path),
        };
        let (socket, address_of_socket, file) = bound.map_err(|source| ProgramError::Listen {
            address: match address {
                Address::Internet(address) => address.to_string(),
                Address::Unix(path) => path.display().to_string(),
            },
            source,
        })?;
        Ok(Self {
            socket,
            asked_for: address.clone(),
            address: address_of_socket,
            _file: file,
        })
    }

    /// As the configuration has it.
    pub(super) fn asked_for(&self) -> &Address {
        &self.asked_for
    }

    /// Where it is, also if the kernel chose the port.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Whether it still accepts connections: a program may have shut its socket down for good.
    pub(super) fn is_sound(&self) -> bool {
        still_listens(&self.socket)
    }

    /// The same socket, for the program.
    pub(super) fn socket_for_guest(&self) -> Result<OwnedFd, ProgramError> {
        // A program may have shut it down, or made the queue of those who wait shorter.
        let listens = rustix::net::listen(&self.socket, BACKLOG);
        if listens.is_err() || !self.is_sound() {
            return Err(ProgramError::Socket(io::Error::other(
                "the program has shut its listener down for good; restart the server",
            )));
        }
        self.socket.try_clone().map_err(ProgramError::Socket)
    }

    /// A TCP listener that was shut down keeps its address, and can listen there again.
    fn restore(&self) {
        if !self.is_sound() {
            // If it can't, whoever starts the program says so.
            let _ = rustix::net::listen(&self.socket, BACKLOG);
        }
    }

    /// Waits until somebody is connected or wants to be.
    pub(super) async fn is_called(&self) {
        loop {
            self.restore();
            // Registered anew each time, so that what waits already makes an edge.
            let registered = self.socket.try_clone();
            let registered = registered.and_then(watch_readable);
            let waited = match &registered {
                Ok(socket) => socket.readable().await.map(drop),
                // No descriptor is left: by the clock then.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Ok(())
                }
            };
            if waited.is_ok() && self.has_caller() {
                return;
            }
        }
    }

    /// Whether somebody wants to be connected.
    pub(super) fn has_caller(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }
}

type Bound = (OwnedFd, Address, Option<SocketFile>);

fn bind_internet(address: SocketAddr) -> io::Result<Bound> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() && !address.ip().is_unspecified() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, Address::Internet(bound), None))
}

/// A file that nobody listens at is what a server that was killed left behind.
fn bind_local(path: &Path) -> io::Result<Bound> {
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) if is_left_behind(path) => {
            rustix::fs::unlink(path)?;
            rustix::net::bind(&socket, &address)?;
        }
        bound => bound?,
    }
    rustix::net::listen(&socket, BACKLOG)?;
    let file = identity_of(path)?.map(|identity| SocketFile {
        path: path.into(),
        identity,
    });
    Ok((socket, Address::Unix(path.into()), file))
}

fn is_left_behind(path: &Path) -> bool {
    let is_socket = identity_of(path).is_ok_and(|identity| identity.is_some());
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(|error| refused(&error))
}

/// Device and inode, of a socket.
fn identity_of(path: &Path) -> io::Result<Option<(u64, u64)>> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    Ok(is_socket.then_some((stat.st_dev, stat.st_ino)))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody else's by now stays.
        if identity_of(&self.path).is_ok_and(|identity| identity == Some(self.identity)) {
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// `true` once the program is idle, and then it is stopped and asked to end; `false` when it has ended.
pub(super) async fn runs_until_idle(
    guest: &mut Guest,
    address: &Address,
    idle_time: Option<Duration>,
) -> bool {
    let step = idle_time.map(|idle_time| (idle_time / 4).max(SHORTEST_STEP));
    let mut used = None;
    let mut since = Instant::now();
    loop {
        let slot = guest.slot().asked();
        let is_asked = tokio::select! {
            biased;
            () = guest.ends() => return false,
            () = slot.notified() => true,
            () = step_over(step) => false,
        };
        if let (false, Some(idle_time)) = (is_asked, idle_time) {
            let now = ticks(guest.pid()).await;
            // What cannot be told is not taken for idleness.
            if now.is_none() || now != used {
                (used, since) = (now, Instant::now());
            }
            if since.elapsed() < idle_time {
                continue;
            }
        }
        if is_free(address) {
            if ends_free(guest, address).await {
                return true;
            }
            since = Instant::now();
        }
        guest.slot().decline();
    }
}

const SHORTEST_STEP: Duration = Duration::from_millis(5);

/// Until the next look; for ever where there is none.
async fn step_over(step: Option<Duration>) {
    match step {
        Some(step) => tokio::time::sleep(step).await,
        None => std::future::pending().await,
    }
}

/// Asks it to end, if nobody is connected while it stands still: whoever connects from then on waits for the next
/// process, and whoever did before is seen.
async fn ends_free(guest: &mut Guest, address: &Address) -> bool {
    let is_stopped = guest.stop().await;
    let is_free = is_stopped && is_free(address);
    guest.go_on(is_free);
    is_free
}

/// Processor time of all its processes. There may be many to be looked at: others are not kept waiting for that.
async fn ticks(pid: u32) -> Option<u64> {
    let looked = tokio::task::spawn_blocking(move || Consumption::of_tree(pid)).await;
    looked.ok().flatten().map(|consumption| consumption.ticks)
}

fn is_free(address: &Address) -> bool {
    connections::count(address).is_ok_and(|count| count == 0)
}
