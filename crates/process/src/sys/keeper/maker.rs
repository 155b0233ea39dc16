//! Makes descriptors for who answers a domain's calls: internet sockets of the host's network, as a member of
//! the domain's memory group, and files of the guest's threads in `/proc`.
//!
//! What a socket holds, and the socket itself, is charged to the group of whoever made it
//! (`mem_cgroup_sk_alloc` in mm/memcontrol.c): made by the supervisor, the buffers of a guest's connections
//! would be the supervisor's. A process of its own, because a thread cannot be in another group (version 2).
//!
//! Who answers reads what the guest says, and opens no files at all for that. Here numbers are heard, never a
//! path, an address or the guest's memory; as root no path leads out of `/proc` but through a process there. It
//! ends with its supervisor's end of the socket.

use crate::{
    During, Failure, failed, kernel, privileges, record_from, send_record, text::Text, wire,
};
use kernel::{CStr, Errno, Fd, c};
use wire::{Record, Step, of_thread};

/// Descriptor of the socket to the supervisor.
const SOCKET: Fd = 3;
/// Descriptor of `/proc`. The filter knows the number ([`wire::MAKERS_PROC`]).
const PROC: Fd = wire::MAKERS_PROC;
/// Some eight times what its filter takes.
const MOST_FILTER_BYTES: usize = 2048;

/// Forks the maker. Descriptors: its socket; then the group of version 2 to be born in, if the request says that there is
/// one, or `tasks` files to join.
pub(crate) fn begin(request: &Record, fds: &[Fd]) {
    let [socket, groups @ ..] = fds else { return };
    let is_born_in = request.words[0] != 0;
    let (born_in, tasks) = match groups.split_first() {
        Some((group, tasks)) if is_born_in => (Some(*group), tasks),
        _ => (None, groups),
    };
    match kernel::fork(0, born_in).during(Step::Clone, 3) {
        Ok(Some((_, pidfd))) => kernel::close(pidfd),
        Ok(None) => run(*socket, tasks),
        Err(failure) => send_record(*socket, &failed(wire::KEEPER_FAILED, &failure), &[]),
    }
}

fn run(socket: Fd, tasks: &[Fd]) -> ! {
    // Settled, it is where the supervisor looks for it.
    let outcome = match settle(socket, tasks) {
        Ok(()) => confine().map_err(|failure| (SOCKET, failure)),
        Err(failure) => Err((socket, failure)),
    };
    if let Err((socket, failure)) = outcome {
        send_record(socket, &failed(wire::KEEPER_FAILED, &failure), &[]);
        crate::exit(125)
    }
    let ready = Record {
        kind: wire::MAKER_READY,
        ..Record::default()
    };
    send_record(SOCKET, &ready, &[]);
    loop {
        answer();
    }
}

fn settle(socket: Fd, tasks: &[Fd]) -> Result<(), Failure> {
    kernel::prctl(privileges::SET_PARENT_DEATH_SIGNAL, kernel::SIGKILL as u64)
        .during(Step::Clone, 4)?;
    for tasks in tasks {
        kernel::write(*tasks, b"0").during(Step::JoinCgroup, 0)?;
    }
    let keep_open = || {
        if socket != SOCKET {
            kernel::duplicate_to(socket, SOCKET)?;
        }
        kernel::duplicate_to(crate::NOTHING, crate::CONTROL)?;
        kernel::duplicate_to(crate::NOTHING, crate::SUPERVISOR)?;
        kernel::close_from(SOCKET + 1)?;
        let flags = kernel::O_PATH | kernel::O_DIRECTORY;
        match kernel::open(kernel::AT_FDCWD, c!("/proc"), flags, 0)? {
            PROC => Ok(()),
            _ => Err(Errno::INVAL),
        }
    };
    keep_open().during(Step::Redirect, 6)?;
    // Only root may. What is open is the same folder, so that `..` ends there too.
    let _ = kernel::change_root(c!("/proc")).and_then(|()| kernel::change_directory(c!("/")));
    Ok(())
}

/// Waits for the supervisor's word, and takes everything else away.
fn confine() -> Result<(), Failure> {
    let mut buffer = [0u8; wire::RECORD_BYTES + MOST_FILTER_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let Ok((length @ 1.., _)) = kernel::receive(SOCKET, &mut buffer, &mut fds) else {
        crate::exit(0)
    };
    let begin = record_from(&buffer[..length]).filter(|record| record.kind == wire::MAKER_BEGIN);
    let filter = begin.and_then(|_| buffer.get(wire::RECORD_BYTES..length));
    let filter = filter.ok_or(Errno::INVAL).during(Step::Seccomp, 1)?;
    privileges::give_up(None, filter).during(Step::Seccomp, 1)
}

/// Makes what one request asks for; leaves with the supervisor.
fn answer() {
    let mut buffer = [0u8; wire::RECORD_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let Ok((length @ 1.., _)) = kernel::receive(SOCKET, &mut buffer, &mut fds) else {
        crate::exit(0)
    };
    let Some(request) = record_from(&buffer[..length]) else {
        crate::exit(125)
    };
    let [number, words @ ..] = &request.words;
    let mut made = Made::default();
    let outcome = match request.kind {
        wire::MAKE_SOCKET => made.socket(words),
        wire::OPEN_OF_THREAD => made.files(words),
        _ => Err(Errno::NOSYS),
    };
    let mut answer = match outcome {
        Ok(()) => Record {
            kind: wire::MADE,
            ..Record::default()
        },
        Err(errno) => {
            made.close();
            refusal(errno)
        }
    };
    answer.words[wire::ANSWER_TO] = *number;
    send_record(SOCKET, &answer, made.fds());
    // With the message they are the supervisor's too, or nobody's.
    made.close();
}

/// What goes with an answer.
#[derive(Default)]
struct Made {
    fds: [Fd; 2],
    count: usize,
}

impl Made {
    /// Family, type and protocol.
    fn socket(&mut self, words: &[u64]) -> kernel::Result<()> {
        let [family, kind, protocol, ..] = *words else {
            return Err(Errno::INVAL);
        };
        self.add(kernel::socket(family as u32, kind as u32, protocol as u32)?);
        Ok(())
    }

    /// A thread's number, and which of its files.
    fn files(&mut self, words: &[u64]) -> kernel::Result<()> {
        const O_RDONLY: u32 = 0;
        let [thread, which, descriptor, ..] = *words else {
            return Err(Errno::INVAL);
        };
        let files: &[(&[u8], u32)] = match which {
            of_thread::NAMES => &[(b"/comm\0", O_RDONLY), (b"/status\0", O_RDONLY)],
            of_thread::FOLDER => &[(b"/cwd\0", kernel::O_PATH)],
            of_thread::ROOT => &[(b"/root\0", kernel::O_PATH)],
            of_thread::MEMORY => &[(b"/mem\0", kernel::O_WRONLY), (b"/maps\0", O_RDONLY)],
            of_thread::DESCRIPTOR => {
                let mut path = Text::default();
                path.number(thread)
                    .text(b"/fdinfo/")
                    .number(descriptor)
                    .text(b"\0");
                let path = CStr::new(path.bytes()).ok_or(Errno::INVAL)?;
                self.add(kernel::open(PROC, path, O_RDONLY, 0)?);
                return Ok(());
            }
            _ => return Err(Errno::INVAL),
        };
        for (name, flags) in files {
            let mut path = Text::default();
            path.number(thread).text(name);
            let path = CStr::new(path.bytes()).ok_or(Errno::INVAL)?;
            self.add(kernel::open(PROC, path, *flags, 0)?);
        }
        Ok(())
    }

    fn add(&mut self, fd: Fd) {
        if let Some(place) = self.fds.get_mut(self.count) {
            *place = fd;
            self.count += 1;
        }
    }

    fn fds(&self) -> &[Fd] {
        &self.fds[..self.count]
    }

    fn close(&mut self) {
        self.fds().iter().for_each(|fd| kernel::close(*fd));
        self.count = 0;
    }
}

fn refusal(errno: Errno) -> Record {
    let mut record = Record {
        kind: wire::KEEPER_FAILED,
        ..Record::default()
    };
    record.words[2] = u64::from(errno.0);
    record
}
