//! The supervisor's end of the process that makes descriptors for a broker: see `sys/keeper/maker.rs`.
//!
//! Most guests never ask for what needs it. So it is begun with the first call that does, unless the keeper could not do
//! that any more by then, or the process is to be a member of the domain's groups.

use crate::lock::lock;
use crate::{
    keeper::Keeper,
    record::{receive_record, record_bytes},
    seccomp, wire,
};
use rustix::{io::Errno, net::SendFlags, net::sockopt};
use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// It is there to answer at once. Under a limit on processors it may have to wait for its share.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same when it begins, beside a guest that does.
const PATIENCE_AT_FIRST: Duration = Duration::from_secs(20);

/// The part of a domain's memory that may be in connections which nobody has accepted, if all are full.
const SHARE_OF_WAITING: u64 = 16;
/// The default of `net.ipv4.tcp_rmem`: nobody reads from them, so it does not grow.
const RECEIVE_BUFFER_BYTES: u64 = 128 * 1024;

/// A process that makes what a broker needs and must not make itself. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Maker {
    /// One asks at a time.
    asking: Mutex<Asking>,
    /// What the domain may have, where the process is a member of its memory group.
    memory_bytes: Option<u64>,
    /// It is a member of some control group, which cannot be removed before it has left.
    is_in_group: bool,
}

#[derive(Debug)]
struct Asking {
    process: Process,
    /// Of the last request. An answer that came too late has another.
    number: u64,
}

#[derive(Debug)]
enum Process {
    /// Nobody has needed it yet; this one begins it.
    Later(Arc<Keeper>),
    /// At the other end of this.
    Asked(OwnedFd),
    /// It has been told to leave, or never was.
    Gone,
}

impl Maker {
    /// One that is begun once it is needed, as a member of no group.
    pub(crate) fn later(keeper: &Arc<Keeper>) -> Self {
        Self {
            asking: Mutex::new(Asking {
                process: Process::Later(Arc::clone(keeper)),
                number: 0,
            }),
            memory_bytes: None,
            is_in_group: false,
        }
    }

    /// Has it begun now, if it has not been: the keeper may not be able to later.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.asking().begin()
    }

    /// The one that was ordered at the other end of this socket; in the memory group of a domain of so much, if
    /// there is one.
    pub(crate) fn ordered(socket: OwnedFd, memory_bytes: Option<u64>, is_in_group: bool) -> Self {
        Self {
            asking: Mutex::new(Asking {
                process: Process::Asked(socket),
                number: 0,
            }),
            memory_bytes,
            is_in_group,
        }
    }

    /// Whether sockets are made here, so that their memory is the domain's.
    pub(super) fn makes_sockets(&self) -> bool {
        self.memory_bytes.is_some()
    }

    /// How many connections may wait to be accepted. The kernel charges a connection to whoever accepts it
    /// (`inet_csk_accept`), and what was sent on it before to nobody.
    pub(super) fn backlog(&self, asked: i32) -> i32 {
        let most = self.memory_bytes.map_or(u64::MAX, |memory_bytes| {
            (memory_bytes / SHARE_OF_WAITING / RECEIVE_BUFFER_BYTES).max(1)
        });
        // Negative is much, to the kernel.
        (asked as u32).min(u32::try_from(most).unwrap_or(u32::MAX)) as i32
    }

    /// Has it confine itself, and waits for that.
    pub(super) fn begin(&self) -> io::Result<()> {
        match &self.asking().process {
            Process::Asked(socket) => confine(socket),
            Process::Later(_) | Process::Gone => Ok(()),
        }
    }

    /// A new socket, whose memory is the domain's. Out of memory its kernel ends it, as it ends the guest.
    pub(super) fn make(&self, family: u32, kind: u32, protocol: u32) -> Result<OwnedFd, Errno> {
        let made = self.ask(wire::MAKE_SOCKET, [family, kind, protocol].map(u64::from));
        made?.pop_front().ok_or(Errno::NOMEM)
    }

    /// What a thread is called, and its status: see proc_pid_comm(5) and proc_pid_status(5).
    pub(super) fn names_of(&self, thread: u32) -> Result<[File; 2], Errno> {
        self.files_of(thread, wire::of_thread::NAMES)
    }

    /// Where a thread stands.
    pub(super) fn folder_of(&self, thread: u32) -> Result<OwnedFd, Errno> {
        let [folder] = self.files_of(thread, wire::of_thread::FOLDER)?;
        Ok(folder)
    }

    /// What a thread takes for the root.
    pub(super) fn root_of(&self, thread: u32) -> Result<OwnedFd, Errno> {
        let [root] = self.files_of(thread, wire::of_thread::ROOT)?;
        Ok(root)
    }

    /// A thread's memory, to write to, and what is mapped there.
    pub(super) fn memory_of(&self, thread: u32) -> Result<[File; 2], Errno> {
        self.files_of(thread, wire::of_thread::MEMORY)
    }

    /// Has it leave.
    pub(super) fn dismiss(&self) {
        let mut asking = self.asking();
        match &asking.process {
            Process::Asked(socket) => {
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
            }
            Process::Later(_) | Process::Gone => asking.process = Process::Gone,
        }
    }

    /// Waits until it has left its group, if it is in one.
    pub(super) fn wait(&self) {
        let asking = self.asking();
        let Process::Asked(socket) = &asking.process else {
            return;
        };
        while self.is_in_group && matches!(receive_record(socket.as_fd()), Ok(Some(_))) {}
    }

    /// What is known of a descriptor of a thread's, proc_pid_fdinfo(5).
    pub(super) fn descriptor_of(&self, thread: u32, number: u32) -> Result<File, Errno> {
        let words = [thread.into(), wire::of_thread::DESCRIPTOR, number.into()];
        let made = self.ask(wire::OPEN_OF_THREAD, words)?.pop_front();
        made.map(File::from).ok_or(Errno::NOMEM)
    }

    fn files_of<const COUNT: usize, F: From<OwnedFd>>(
        &self,
        thread: u32,
        which: u64,
    ) -> Result<[F; COUNT], Errno> {
        let files = self.ask(wire::OPEN_OF_THREAD, [thread.into(), which])?;
        let files: Vec<F> = files.into_iter().map(F::from).collect();
        files.try_into().map_err(|_| Errno::NOMEM)
    }

    fn ask<const COUNT: usize>(
        &self,
        request: u64,
        words: [u64; COUNT],
    ) -> Result<VecDeque<OwnedFd>, Errno> {
        let mut asking = self.asking();
        asking.begin().map_err(|_| Errno::NOMEM)?;
        asking.number += 1;
        let words: Vec<u64> = [asking.number].into_iter().chain(words).collect();
        let request = record_bytes(request, &words);
        let Process::Asked(socket) = &asking.process else {
            return Err(Errno::NOMEM);
        };
        rustix::net::send(socket, &request, SendFlags::NOSIGNAL).map_err(|_| Errno::NOMEM)?;
        hear(socket, wire::MADE, asking.number)
    }

    fn asking(&self) -> MutexGuard<'_, Asking> {
        // A number that was not used does no harm.
        lock(&self.asking)
    }
}

impl Asking {
    /// Has the process made and confined, if it never was.
    fn begin(&mut self) -> io::Result<()> {
        let Process::Later(keeper) = &self.process else {
            return Ok(());
        };
        let socket = keeper.order_maker(None, &[]).map_err(io::Error::other)?;
        confine(&socket)?;
        self.process = Process::Asked(socket);
        Ok(())
    }
}

/// Has the process at the other end confine itself, and waits for that.
fn confine(socket: &OwnedFd) -> io::Result<()> {
    let filter = seccomp::program(&seccomp::maker()).map_err(io::Error::other)?;
    let begin = [&record_bytes(wire::MAKER_BEGIN, &[])[..], &filter].concat();
    rustix::net::send(socket, &begin, SendFlags::NOSIGNAL)?;
    let wait_for =
        |patience| sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(patience));
    wait_for(PATIENCE_AT_FIRST)?;
    hear(socket, wire::MAKER_READY, 0)?;
    Ok(wait_for(PATIENCE)?)
}

/// The answer to the request of this number.
fn hear(socket: &OwnedFd, expected: u64, number: u64) -> Result<VecDeque<OwnedFd>, Errno> {
    loop {
        let received = receive_record(socket.as_fd());
        let (record, fds) = received.ok().flatten().ok_or(Errno::NOMEM)?;
        match record.kind {
            _ if record.words[wire::ANSWER_TO] != number => {}
            kind if kind == expected => return Ok(fds),
            _ => return Err(Errno::from_raw_os_error(record.words[2] as i32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn ends() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    }

    #[test]
    fn fewer_connections_wait_where_there_is_less_memory() {
        let most = |memory_bytes| Maker::ordered(ends().0, Some(memory_bytes), false).backlog(4096);
        assert_eq!([16 << 20, 1 << 30].map(most), [8, 512]);
        assert_eq!(most(4096), 1);
        let maker = Maker::ordered(ends().0, Some(1 << 30), false);
        assert_eq!([0, 5, -1].map(|asked| maker.backlog(asked)), [0, 5, 512]);
        let unlimited = Maker::ordered(ends().0, None, false);
        assert_eq!([5, -1].map(|asked| unlimited.backlog(asked)), [5, -1]);
    }

    /// Killed for want of memory, say.
    #[test]
    fn without_its_process_there_are_no_sockets() {
        let (ours, other) = ends();
        let maker = Maker::ordered(ours, Some(1 << 20), false);
        drop(other);
        let made = maker.make(2, 1, 0);
        assert_eq!(made.map(drop), Err(Errno::NOMEM));
    }

    /// And an answer to somebody who does not wait any more is nobody's.
    #[test]
    fn what_the_kernel_refuses_is_refused() {
        let (ours, other) = ends();
        let maker = Maker::ordered(ours, Some(1 << 20), false);
        let errno = u64::from(Errno::MFILE.raw_os_error().unsigned_abs());
        let late = record_bytes(wire::MADE, &[0; 4]);
        rustix::net::send(&other, &late, SendFlags::NOSIGNAL).unwrap();
        let answer = record_bytes(wire::KEEPER_FAILED, &[0, 0, errno, 1]);
        rustix::net::send(&other, &answer, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(maker.make(2, 1, 0).map(drop), Err(Errno::MFILE));
    }
}
