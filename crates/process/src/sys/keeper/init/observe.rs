//! What a guest tries in vain, seen by init: programs that lie where nothing is executed, and the network.
//!
//! The filter of a domain without a broker tells init of these calls (seccomp_unotify(2)). Init looks and lets them go on:
//! **its answer is never a verdict**. The walls behind it decide, which are mounts, an empty network and Landlock; so a
//! guest that changes what a pointer points to meanwhile gains nothing but a wrong line in its own report. Where a broker
//! has the listener, it passes the paths of programs on ([`wire::DOMAIN_LOOK`]), with the call where init has to know where its
//! thread stands.
//!
//! Init keeps the time, so nothing here waits: a path is followed as far as the kernel knows it by heart, and the
//! guest's memory is read only where no file system can stall that (`Layout::may_stall`). What is seen is kept in a
//! bounded list and told when the domain ends.
//!
//! A lookup is let into a trap: a socket that is connected to a name server's port seems connected, so that the C
//! library sends its question, and that fails at once.

mod list;
mod mounts;

use super::guest::Running;
use crate::{
    kernel,
    message::read_exactly,
    text::Text,
    wire::{self, seen},
};
use kernel::{Answer, CStr, Errno, Fd, Notified, POLLIN, PollFd, looked_at};
use list::List;
use mounts::Mounts;

/// A question with the longest name takes 271 bytes.
const MOST_QUESTION_BYTES: usize = 300;

/// What was seen, and what it takes to look.
pub(crate) struct Observer {
    listener: Option<Fd>,
    has_looked: bool,
    list: List,
    mounts: Mounts,
}

impl Observer {
    pub(crate) fn new(listener: Option<Fd>) -> Self {
        Self {
            listener,
            has_looked: false,
            list: List::default(),
            mounts: Mounts::default(),
        }
    }

    /// What to poll.
    pub(crate) fn polled(&self) -> PollFd {
        PollFd {
            fd: self.listener.unwrap_or(-1),
            events: POLLIN,
            revents: 0,
        }
    }

    /// Whether there was anything to look at: that is work for the guest.
    pub(crate) fn has_looked(&self) -> bool {
        self.has_looked
    }

    /// What there was to see.
    pub(crate) fn list(&self) -> &List {
        &self.list
    }

    /// Takes over what another observer of the domain's saw.
    pub(crate) fn take_over(&mut self, entries: &[u8], more: u64) {
        self.list.take_over(entries, more);
    }

    /// Looks at one call and answers it. Without one there is nobody left who could call.
    pub(crate) fn answer(&mut self, running: &Running, revents: i16) {
        let Some(listener) = self.listener else {
            return;
        };
        if revents & POLLIN == 0 {
            // It is closed with init, who has only the end to tell by now.
            self.listener = None;
            return;
        }
        if !core::mem::replace(&mut self.has_looked, true) {
            kernel::hand_over_processor(listener);
        }
        // It may have been taken back meanwhile.
        if let Ok(call) = kernel::notified(listener) {
            let answer = self.look_at(running, &call);
            kernel::answer_notified(listener, call.id, answer);
        }
    }

    fn look_at(&mut self, running: &Running, call: &Notified) -> Answer {
        let [first, second, ..] = call.arguments;
        match call.number {
            looked_at::EXECVE => self.execution_at(running, call, kernel::AT_FDCWD, first),
            looked_at::EXECVEAT => self.execution_at(running, call, first as Fd, second),
            looked_at::CONNECT => return self.connection(running, call),
            looked_at::SENDTO => self.datagram(running, call),
            looked_at::SENDMMSG => return self.datagrams(running, call),
            _ => {}
        }
        Answer::Continue
    }

    /// Of a path at this address.
    fn execution_at(&mut self, running: &Running, call: &Notified, folder: Fd, address: u64) {
        let mut bytes = [0; wire::MOST_PATH_BYTES];
        if let Some(path) = read_text(call.thread, address, &mut bytes) {
            self.execution(running, call.thread, folder, path);
        }
    }

    /// Of a path that begins in a folder of the thread's, unless it is absolute.
    pub(crate) fn execution(&mut self, running: &Running, thread: i32, folder: Fd, path: CStr) {
        if path.is_absolute() {
            return self.look(running, None, path);
        }
        let mut name = Text::default();
        name.number(thread as u64);
        match folder {
            kernel::AT_FDCWD => name.text(b"/cwd\0"),
            _ => name.text(b"/fd/").number(folder as u32 as u64).text(b"\0"),
        };
        if let Ok(folder) = open_proc(running, &name, kernel::O_PATH) {
            self.look(running, Some(folder), path);
            kernel::close(folder);
        }
    }

    /// Takes note of a program that lies where nothing is executed.
    pub(crate) fn look(&mut self, running: &Running, folder: Option<Fd>, path: CStr) {
        self.has_looked = true;
        let at = folder.unwrap_or(kernel::AT_FDCWD);
        let Some(file) = open_looked_at(running, at, path) else {
            return;
        };
        let about = kernel::statx_known(file);
        if about
            .is_ok_and(|about| is_program(about.mode) && self.mounts.refuse(running, about.mount))
        {
            let mut name = Text::default();
            name.text(b"self/fd/").number(file as u64).text(b"\0");
            let mut bytes = [0; List::MOST_BYTES];
            if let Some(length) = read_proc_link(running, &name, &mut bytes) {
                self.list.add(seen::EXECUTION, &[], &bytes[..length]);
            }
        }
        kernel::close(file);
    }

    /// `connect(fd, address, length)`.
    fn connection(&mut self, running: &Running, call: &Notified) -> Answer {
        let [fd, address, length, ..] = call.arguments;
        let Some(to) = Internet::read(call.thread, address, length) else {
            return Answer::Continue;
        };
        const SOCK_DGRAM: u32 = 2;
        let name = Name::of(running, call.thread);
        let is_datagram = kernel::socket_type(call.thread, fd) == Ok(SOCK_DGRAM);
        if is_datagram && to.is_name_server() {
            self.list.add(seen::LOOKUP, name.bytes(), &[]);
            return Answer::Done;
        }
        let kind = match is_datagram {
            true => seen::DATAGRAM,
            false => seen::STREAM,
        };
        self.list.add(kind, name.bytes(), to.bytes());
        Answer::Continue
    }

    /// `sendto(fd, data, length, flags, address, address length)`.
    fn datagram(&mut self, running: &Running, call: &Notified) {
        let [_, data, length, _, address, address_length] = call.arguments;
        let Some(to) = Internet::read(call.thread, address, address_length) else {
            return;
        };
        let name = Name::of(running, call.thread);
        match Question::read(call.thread, data, length).filter(|_| to.is_name_server()) {
            Some(question) => self
                .list
                .add(seen::QUESTION, name.bytes(), question.bytes()),
            None => self.list.add(seen::SENT, name.bytes(), to.bytes()),
        }
    }

    /// `sendmmsg(fd, messages, count, flags)`: the C library's questions for a name, of which the first has the name.
    fn datagrams(&mut self, running: &Running, call: &Notified) -> Answer {
        let mut header = [[0; 8]; 4];
        let mut part = [[0; 8]; 2];
        if !read_all(call.thread, call.arguments[1], header.as_flattened_mut()) {
            return Answer::Continue;
        }
        let [address, _, parts, count] = header.map(u64::from_ne_bytes);
        if address != 0 || count == 0 || !read_all(call.thread, parts, part.as_flattened_mut()) {
            return Answer::Continue;
        }
        let [data, length] = part.map(u64::from_ne_bytes);
        let Some(question) = Question::read(call.thread, data, length) else {
            return Answer::Continue;
        };
        let name = Name::of(running, call.thread);
        self.list
            .add(seen::QUESTION, name.bytes(), question.bytes());
        Answer::Failed(Errno::CONNREFUSED)
    }
}

/// What a path leads to, without waiting for a file system. Who mounts or renames something meanwhile, anywhere, has the
/// kernel give up: then once more.
pub(crate) fn open_known(at: Fd, path: CStr, flags: u32) -> kernel::Result<Fd> {
    const MORE_TRIES: usize = 7;
    let how = kernel::RESOLVE_CACHED | kernel::RESOLVE_NO_MAGICLINKS;
    let open = || kernel::open_resolved(at, path, flags, how);
    (0..MORE_TRIES).fold(open(), |outcome, _| match outcome {
        Err(Errno::AGAIN) => open(),
        outcome => outcome,
    })
}

/// The same, of a path that may end with a link which the kernel does not follow by heart, for its time of access is due, as a
/// new one's is: it is read, which notes the time, if it lies in memory or on a disk.
fn open_looked_at(running: &Running, at: Fd, path: CStr) -> Option<Fd> {
    match open_known(at, path, kernel::O_PATH) {
        Err(Errno::AGAIN) => {}
        outcome => return outcome.ok(),
    }
    let link = open_known(at, path, kernel::O_PATH | kernel::O_NOFOLLOW).ok()?;
    let is_local =
        kernel::statx_known(link).is_ok_and(|about| mounts::is_local(running, about.mount));
    let is_read = is_local && kernel::read_link(link, kernel::c!(""), &mut [0; 1]).is_ok();
    kernel::close(link);
    let again = is_read.then(|| open_known(at, path, kernel::O_PATH));
    again?.ok()
}

/// A regular file that somebody may execute.
fn is_program(mode: u16) -> bool {
    const S_IFMT: u16 = 0o170_000;
    const S_IFREG: u16 = 0o100_000;
    mode & S_IFMT == S_IFREG && mode & 0o111 != 0
}

fn read_text(thread: i32, address: u64, bytes: &mut [u8]) -> Option<CStr<'_>> {
    let length = kernel::read_memory(thread, address, bytes).ok()?;
    let end = bytes.get(..length)?.iter().position(|byte| *byte == 0)?;
    CStr::new(bytes.get(..=end)?).filter(|path| !path.is_empty())
}

fn read_all(thread: i32, address: u64, buffer: &mut [u8]) -> bool {
    kernel::read_memory(thread, address, buffer) == Ok(buffer.len())
}

/// A file of proc(5), by a name that ends with a NUL.
fn open_proc(running: &Running, name: &Text, flags: u32) -> kernel::Result<Fd> {
    in_proc(running, name, |at, path| kernel::open(at, path, flags, 0))
}

fn read_proc_link(running: &Running, name: &Text, buffer: &mut [u8]) -> Option<usize> {
    in_proc(running, name, |at, path| {
        kernel::read_link(at, path, buffer)
    })
    .ok()
}

fn in_proc<T>(
    running: &Running,
    name: &Text,
    act: impl FnOnce(Fd, CStr) -> kernel::Result<T>,
) -> kernel::Result<T> {
    if let Some(proc) = running.own_proc {
        return act(proc, CStr::new(name.bytes()).ok_or(Errno::INVAL)?);
    }
    let mut path = Text::default();
    path.text(b"/proc/").text(name.bytes());
    let path = CStr::new(path.bytes()).ok_or(Errno::INVAL)?;
    act(kernel::AT_FDCWD, path)
}

/// What a process is called.
#[derive(Default)]
struct Name {
    bytes: [u8; seen::NAME_BYTES],
    length: usize,
}

impl Name {
    fn of(running: &Running, thread: i32) -> Self {
        let mut path = Text::default();
        path.number(thread as u64).text(b"/comm\0");
        let mut name = Self::default();
        if let Ok(file) = open_proc(running, &path, kernel::O_RDONLY) {
            let length = kernel::read(file, &mut name.bytes).unwrap_or(0);
            // With the end of its line.
            name.length = length.saturating_sub(1);
            kernel::close(file);
        }
        name
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// An internet address as the kernel has it: `struct sockaddr_in` or `struct sockaddr_in6`.
struct Internet {
    bytes: [u8; Self::MOST_BYTES],
    length: usize,
}

impl Internet {
    const MOST_BYTES: usize = 28;

    fn read(thread: i32, address: u64, length: u64) -> Option<Self> {
        const AF_INET: [u8; 2] = 2u16.to_ne_bytes();
        const AF_INET6: [u8; 2] = 10u16.to_ne_bytes();
        let mut bytes = [0; Self::MOST_BYTES];
        // An `int` to the kernel.
        let length = length as u32 as usize;
        if !read_all(thread, address, bytes.get_mut(..length)?) {
            return None;
        }
        let is_whole = match [bytes[0], bytes[1]] {
            AF_INET => length >= 16,
            AF_INET6 => length == Self::MOST_BYTES,
            _ => false,
        };
        is_whole.then_some(Self { bytes, length })
    }

    fn is_name_server(&self) -> bool {
        const DOMAIN: [u8; 2] = 53u16.to_be_bytes();
        self.bytes[2..4] == DOMAIN
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A message that may be a question to a name server (RFC 1035, section 4.1.1). What it asks for is read outside, after
/// the domain's end.
struct Question {
    bytes: [u8; MOST_QUESTION_BYTES],
    length: usize,
}

impl Question {
    fn read(thread: i32, address: u64, length: u64) -> Option<Self> {
        let mut bytes = [0; MOST_QUESTION_BYTES];
        let length = usize::try_from(length).ok()?;
        if !read_all(thread, address, bytes.get_mut(..length)?) {
            return None;
        }
        let question = Self { bytes, length };
        question.looks_like_one().then_some(question)
    }

    /// No answer, an ordinary question, and one of them.
    fn looks_like_one(&self) -> bool {
        const ANSWER_OR_KIND: u8 = 0xf8;
        let [_, _, flags, _, counts @ ..] = self.bytes;
        self.length > 12 && flags & ANSWER_OR_KIND == 0 && counts[..6] == [0, 1, 0, 0, 0, 0]
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// For a path that the broker passes on: the message behind its record.
pub(crate) fn receive_path(socket: Fd, length: u64, buffer: &mut [u8]) -> Option<CStr<'_>> {
    let room = buffer.get_mut(..usize::try_from(length).ok()?)?;
    read_exactly(socket, room).ok()?;
    CStr::new(room).filter(|path| !path.is_empty())
}

const _: () = assert!(MOST_QUESTION_BYTES <= List::MOST_BYTES);
