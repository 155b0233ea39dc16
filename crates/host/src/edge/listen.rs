//! Sockets that listen: TCP, one a worker; Unix sockets, and sockets that this process was started with, one
//! for all workers.

mod inherited;
mod unix_file;

#[cfg(test)]
mod tests;

use super::sys;
use crate::config::Address;
use rustix::{
    fs::{self, Mode},
    io::Errno,
    net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};
use std::{
    fmt,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};
use unix_file::{Lock, SocketFile, remove_stale, set_mode};

/// Connections that the kernel keeps until they are accepted; it takes `net.core.somaxconn` if that is less.
const BACKLOG: i32 = 4096;

/// Permissions of a Unix socket's file, where none are asked for: its owner's alone.
const DEFAULT_MODE: u32 = 0o600;

/// Why it is impossible to listen on an address.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum ListenError {
    #[error("{0} is in use by another program: end it, or take another address")]
    InUse(Name),
    #[error("permission denied to listen on {address}: use a port from 1024 up, or start as root")]
    Privileged { address: Name, source: Errno },
    #[error("cannot listen at {address}: take an address of this machine")]
    Listen { address: Name, source: Errno },
    #[error("{} is no socket: remove it, or take another path", .0.display())]
    NotASocket(PathBuf),
    #[error("cannot make {}, which keeps other servers from the socket beside it: take a folder that this process may write", path.display())]
    Lock { path: PathBuf, source: Errno },
    #[error("{} is named twice in `listeners`", .0)]
    Twice(Name),
}

impl ListenError {
    pub(crate) fn twice(address: &Address) -> Self {
        Self::Twice(Name(address.clone()))
    }
}

/// An address as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub(crate) Address);

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Internet(address) => write!(formatter, "{address}"),
            Address::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// Takes over the sockets that a service manager passed, for [`Listening::bind`]. To be called before this
/// process starts another, which would get them too; else the first bind does it.
pub fn adopt_inherited() {
    inherited::adopt();
}

/// An address that is listened on. Dropping it removes the file of a Unix socket.
#[derive(Debug)]
pub struct Listening {
    address: Address,
    sockets: Vec<OwnedFd>,
    file: Option<SocketFile>,
    /// Whoever passed it still has it, and may pass it to the next server.
    is_lent: bool,
}

impl Listening {
    /// Listens at an address, with a socket for each of `count` threads. Port 0 takes a free one. `mode` is of
    /// a Unix socket's file.
    ///
    /// # Errors
    ///
    /// If somebody else listens there, or the system refuses.
    pub fn bind(address: &Address, mode: Option<u32>, count: usize) -> Result<Self, ListenError> {
        if let Some(inherited) = inherited::take(address) {
            let mut listening = Self::share(address.clone(), inherited, count, None)?;
            listening.is_lent = true;
            return Ok(listening);
        }
        match address {
            Address::Internet(socket_address) => Self::bind_internet(*socket_address, count),
            Address::Unix(path) => Self::bind_unix(path, mode, count),
        }
    }

    fn bind_internet(address: SocketAddr, count: usize) -> Result<Self, ListenError> {
        let fail = |source| internet_error(address, source);
        // Only the first is bound without SO_REUSEPORT, so that it fails where another server listens, with
        // the option or without.
        let first = internet_socket(address).map_err(fail)?;
        net::bind(&first, &address).map_err(fail)?;
        let actual = local_address(&first).unwrap_or(address);
        if count > 1 {
            sockopt::set_socket_reuseport(&first, true).map_err(fail)?;
        }
        net::listen(&first, BACKLOG).map_err(fail)?;
        let mut sockets = vec![first];
        for _ in 1..count {
            sockets.push(another_internet_socket(actual).map_err(fail)?);
        }
        Ok(Self {
            address: Address::Internet(actual),
            sockets,
            file: None,
            is_lent: false,
        })
    }

    fn bind_unix(path: &Path, mode: Option<u32>, count: usize) -> Result<Self, ListenError> {
        let address = Address::Unix(path.to_owned());
        let fail = |source| listen_error(&address, source);
        let lock = Lock::take(path)?;
        remove_stale(path)?;
        let mode = file_mode(mode);
        let socket = unix_socket(path, mode).map_err(fail)?;
        let file = SocketFile::new(path, lock).map_err(fail)?;
        set_mode(path, mode).map_err(fail)?;
        net::listen(&socket, BACKLOG).map_err(fail)?;
        Self::share(address, socket, count, Some(file))
    }

    /// One socket for all threads.
    fn share(
        address: Address,
        socket: OwnedFd,
        count: usize,
        file: Option<SocketFile>,
    ) -> Result<Self, ListenError> {
        let fail = |source| listen_error(&address, source);
        let mut sockets = vec![socket];
        for _ in 1..count {
            let copy = rustix::io::fcntl_dupfd_cloexec(&sockets[0], 3).map_err(fail)?;
            sockets.push(copy);
        }
        Ok(Self {
            address,
            sockets,
            file,
            is_lent: false,
        })
    }

    /// The address, with the port that it really is.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The sockets, in threads' order.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Gives a Unix socket's file other permissions.
    pub(crate) fn set_mode(&self, mode: Option<u32>) {
        if let Some(file) = &self.file {
            // Its owner may have removed it; then nobody connects, whatever its permissions.
            let _ = set_mode(&file.path, file_mode(mode));
        }
    }

    /// A copy of a thread's socket.
    pub(crate) fn socket(&self, worker: usize) -> Result<OwnedFd, ListenError> {
        rustix::io::fcntl_dupfd_cloexec(&self.sockets[worker], 3)
            .map_err(|source| listen_error(&self.address, source))
    }

    /// Lets no further client in. Who is in the queue, or was answered by the kernel, can still be accepted
    /// from the copies.
    pub(crate) fn close_to_new(mut self) {
        self.file = None;
        if matches!(self.address, Address::Internet(_)) && !self.is_lent {
            for socket in &self.sockets {
                // Where the kernel does not let us, the worst is a client whose connection is reset.
                let _ = sys::refuse_new_connections(socket);
            }
        }
    }
}

/// Whether the kernel lets this user choose what comes to a socket: some let no ordinary user. Where it does not, a client
/// that connects in the very moment in which an address goes may be reset.
pub fn may_filter_sockets() -> bool {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None);
    socket.is_ok_and(|socket| sys::refuse_new_connections(&socket).is_ok())
}

fn file_mode(mode: Option<u32>) -> Mode {
    Mode::from_raw_mode(mode.unwrap_or(DEFAULT_MODE))
}

fn listen_error(address: &Address, source: Errno) -> ListenError {
    let address = Name(address.clone());
    match source {
        Errno::ADDRINUSE => ListenError::InUse(address),
        _ => ListenError::Listen { address, source },
    }
}

fn internet_error(address: SocketAddr, source: Errno) -> ListenError {
    let address = Address::Internet(address);
    match source {
        Errno::ACCESS | Errno::PERM => ListenError::Privileged {
            address: Name(address),
            source,
        },
        _ => listen_error(&address, source),
    }
}

/// A TCP socket with what accepted connections inherit from it.
fn internet_socket(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    if address.is_ipv6() {
        // `[::]` and `0.0.0.0` are two addresses, whatever net.ipv6.bindv6only says.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

fn another_internet_socket(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = internet_socket(address)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A Unix socket with a file, which has this mode from its first moment on, or less by the umask.
fn unix_socket(path: &Path, mode: Mode) -> Result<OwnedFd, Errno> {
    let name = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // A socket's own mode is that of the file to come, less the umask.
    fs::fchmod(&socket, mode)?;
    net::bind(&socket, &name)?;
    Ok(socket)
}

fn local_address(socket: impl AsFd) -> Option<SocketAddr> {
    SocketAddr::try_from(net::getsockname(socket).ok()?).ok()
}
