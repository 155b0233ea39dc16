//! Whose call it is: the guest's threads, their descriptors and their memory.

use super::{maker::Maker, request::Source};
use crate::sys::{
    maps,
    notify::{self, Notification},
};
use palisade_network::Process;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, PidfdGetfdFlags},
};
use std::{
    collections::HashMap,
    fs::File,
    io::Read,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

/// How many threads' descriptors are kept for their next call. Few: a host with many domains has only
/// so many descriptors.
const MOST_KEPT: usize = 8;

/// The same for where they stand, which takes memory alone.
const MOST_FOLDERS: usize = 64;

/// The threads that have called.
#[derive(Debug, Default)]
pub(super) struct Threads {
    kept: HashMap<u32, OwnedFd>,
    /// Where they stand, as far as that was asked for.
    folders: HashMap<u32, PathBuf>,
}

impl Threads {
    /// The caller's own descriptor of this number: the same open socket, not another one.
    pub(super) fn descriptor(
        &mut self,
        maker: &Maker,
        listener: BorrowedFd<'_>,
        call: &Notification,
        number: u64,
    ) -> Result<OwnedFd, Errno> {
        // The kernel reads an `unsigned int` (struct fd in include/linux/file.h).
        let number = number as u32 as i32;
        if number < 0 {
            return Err(Errno::BADF);
        }
        if let Some(kept) = self.kept.get(&call.thread) {
            match get(kept, number) {
                // It has ended, and another thread has its number now.
                Err(Errno::SRCH) => {}
                got => return got,
            }
        }
        let (thread, is_thread) = open(maker, call.thread)?;
        let got = get(&thread, number);
        // The thread was found by its number, which is only surely its own while it waits.
        if !notify::is_waiting(listener, call.id) {
            return Err(Errno::SRCH);
        }
        if is_thread {
            self.keep(call.thread, thread);
        }
        got
    }

    /// Where a thread stands, if it is known.
    pub(super) fn folder(&self, thread: u32) -> Option<&Path> {
        self.folders.get(&thread).map(PathBuf::as_path)
    }

    pub(super) fn keep_folder(&mut self, thread: u32, folder: PathBuf) {
        if self.folders.len() >= MOST_FOLDERS {
            self.folders.clear();
        }
        self.folders.insert(thread, folder);
    }

    /// Some thread goes elsewhere, and others may go with it (`CLONE_FS`).
    pub(super) fn forget_folders(&mut self) {
        self.folders.clear();
    }

    fn keep(&mut self, number: u32, thread: OwnedFd) {
        if self.kept.len() >= MOST_KEPT {
            self.kept.clear();
        }
        self.kept.insert(number, thread);
    }
}

fn get(thread: &OwnedFd, number: i32) -> Result<OwnedFd, Errno> {
    rustix::process::pidfd_getfd(thread, number, PidfdGetfdFlags::empty())
}

/// Before Linux 6.9 only a process has a descriptor; its first thread has the same open files, unless
/// the guest unshared them. Tells whether it is the thread's own.
fn open(maker: &Maker, thread: u32) -> Result<(OwnedFd, bool), Errno> {
    match notify::open_thread(thread) {
        Err(Errno::INVAL) => {
            let status = Status::of(maker, thread).ok_or(Errno::SRCH)?;
            let leader = status.leader().ok_or(Errno::SRCH)?;
            let opened = rustix::process::pidfd_open(leader, PidfdFlags::empty())?;
            Ok((opened, false))
        }
        opened => Ok((opened?, true)),
    }
}

/// Who called, for a report: its number on the host and the name it gives itself.
pub(super) fn identify(maker: &Maker, thread: u32) -> Process {
    let mut name = Vec::new();
    let mut leader = None;
    if let Ok([mut comm, status]) = maker.names_of(thread) {
        let _ = comm.read_to_end(&mut name);
        leader = Status::read(status).and_then(|status| status.leader());
    }
    let name = String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name));
    Process {
        pid: leader.map_or(thread, |leader| leader.as_raw_nonzero().get() as u32),
        name: name.into_owned(),
    }
}

/// The file mode bits that the caller leaves out of what it makes.
pub(super) fn umask(maker: &Maker, thread: u32) -> Option<u32> {
    u32::from_str_radix(Status::of(maker, thread)?.field("Umask:")?, 8).ok()
}

/// How a call of a thread ends that has a signal to be delivered, if it has one.
pub(super) fn interrupted(maker: &Maker, thread: u32) -> Option<Errno> {
    /// `ERESTARTSYS`: the kernel begins the call anew, or has it fail with `EINTR`, as the signal's handler wants it. It must
    /// deliver one then, or the thread would see this number: of many threads another one may have taken it.
    const RESTART: Errno = Errno::from_raw_os_error(512);
    let status = Status::of(maker, thread)?;
    let due = status.due(Of::Process);
    let is_alone = status.field("Threads:") == Some("1");
    let errno = if is_alone { RESTART } else { Errno::INTR };
    (due != 0).then_some(errno)
}

/// How a call that was held ends where its thread has a signal to be delivered: by a number with which the kernel begins it anew on
/// the way out, whatever becomes of the signal (`arch_do_signal_or_restart`). One of the whole process is surely this
/// thread's only if it leads that: the kernel asks the leader first (`complete_signal`).
///
/// Nothing was begun that could go on by itself, as programs expect of a connect(2) that fails with `EINTR`. So only a signal that asks
/// a program to end, or an alarm, has it fail, where its handler wants that; a handler of others is run, and the call made again.
pub(super) fn after_signal(maker: &Maker, thread: u32) -> Option<Errno> {
    /// `ERESTARTSYS`: begun anew, or `EINTR`, as the handler has it (`SA_RESTART`).
    const AS_HANDLED: Errno = Errno::from_raw_os_error(512);
    /// `ERESTARTNOINTR`: begun anew.
    const ANEW: Errno = Errno::from_raw_os_error(513);
    const ENDING: [i32; 5] = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGALRM,
        libc::SIGTERM,
    ];
    let status = Status::of(maker, thread)?;
    let due = match status.field("Tgid:") == status.field("Pid:") {
        true => status.due(Of::Process),
        false => status.due(Of::Thread),
    };
    let ends = ENDING.iter().any(|signal| due & 1 << (signal - 1) != 0);
    match ends {
        _ if due == 0 => None,
        true => Some(AS_HANDLED),
        false => Some(ANEW),
    }
}

/// What proc_pid_status(5) says.
pub(super) struct Status(String);

/// Whose signals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Thread,
    /// And those of the process, which any of its threads may get.
    Process,
}

impl Status {
    /// Signals that are pending and not blocked, as a mask.
    fn due(&self, of: Of) -> u64 {
        let mask = |name| {
            let mask = self.field(name).unwrap_or_default();
            u64::from_str_radix(mask, 16).unwrap_or(0)
        };
        let shared = match of {
            Of::Thread => 0,
            Of::Process => mask("ShdPnd:"),
        };
        (mask("SigPnd:") | shared) & !mask("SigBlk:")
    }

    pub(super) fn of(maker: &Maker, thread: u32) -> Option<Self> {
        let [_, status] = maker.names_of(thread).ok()?;
        Self::read(status)
    }

    fn read(mut file: File) -> Option<Self> {
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Some(Self(text))
    }

    fn leader(&self) -> Option<Pid> {
        Pid::from_raw(self.field("Tgid:")?.parse().ok()?)
    }

    /// The process's own name stands in one of the lines, with its line breaks escaped.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        lines
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    }
}

impl Source for Notification {
    fn read(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        self.read_parts(&[(address, length)])
    }

    fn read_parts(&self, parts: &[(u64, usize)]) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; parts.iter().map(|part| part.1).sum()];
        notify::read_memory(self.thread, parts, &mut bytes)?;
        Ok(bytes)
    }
}

/// The caller's memory, to write to where the caller could: `/proc/PID/mem` alone writes to pages that are
/// protected, too (`FOLL_FORCE`), and process_vm_writev(2), which does not, finds memory by a number that may
/// be another process's by then.
///
/// Opened before the caller's descriptor is taken, both files are surely the caller's memory, and stay so
/// whoever has its number later. What the guest could write to a moment ago is its own to lose.
#[derive(Clone, Debug)]
pub(super) struct Memory(Arc<Files>);

#[derive(Debug)]
struct Files {
    memory: File,
    maps: File,
}

impl Memory {
    pub(super) fn of(maker: &Maker, thread: u32) -> Result<Self, Errno> {
        let files = maker.memory_of(thread);
        files.map(Self::new).map_err(|_| Errno::SRCH)
    }

    fn new([memory, maps]: [File; 2]) -> Self {
        Self(Arc::new(Files { memory, maps }))
    }

    /// `EFAULT` where the guest could not write itself: the same that the kernel would say.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let end = address
            .checked_add(bytes.len() as u64)
            .ok_or(Errno::FAULT)?;
        let mut at = address;
        while at < end {
            at = maps::writable_until(&self.0.maps, at)?.ok_or(Errno::FAULT)?;
        }
        let written = self.0.memory.write_all_at(bytes, address);
        written.map_err(|_| Errno::FAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a segment of this program that nothing may write to.
    static CONSTANT: [u8; 8] = *b"constant";

    #[test]
    fn nothing_is_written_where_the_guest_could_not() {
        let mem = File::options().write(true).open("/proc/self/mem").unwrap();
        let memory = Memory::new([mem, File::open("/proc/self/maps").unwrap()]);
        let mut result = vec![0u8; 8];
        let at = result.as_mut_ptr() as u64;
        assert_eq!(memory.write(at + 2, &[1, 2]), Ok(()));
        assert_eq!(std::hint::black_box(&mut result)[..5], [0, 0, 1, 2, 0]);

        let constant = std::hint::black_box(&CONSTANT).as_ptr() as u64;
        assert_eq!(memory.write(constant, b"CONSTANT"), Err(Errno::FAULT));
        assert_eq!(std::hint::black_box(&CONSTANT), b"constant");
        for nowhere in [0, u64::MAX - 1, u64::MAX] {
            assert_eq!(memory.write(nowhere, &[1]), Err(Errno::FAULT));
        }
    }
}
