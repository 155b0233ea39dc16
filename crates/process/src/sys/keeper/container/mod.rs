//! The keeper's own loop, and what all of it needs.

mod attend;
mod confine;
mod copy;
mod guest;
mod hook;
mod init;
mod message;
mod place;
mod proc;
mod root;
mod stage;
mod terminal;

use crate::{
    kernel,
    record::{record_bytes, record_from, send_record},
    title::Title,
    wire::{
        self, Record,
        container::{self, Step, create},
    },
};
use kernel::{Errno, Fd, POLLIN, PollFd};

/// Namespaces of a container, and the way to its supervisor.
const MOST_KEPT: usize = message::MOST_NAMESPACES + 1;

/// The control socket, as whoever creates the container arranged it.
const CONTROL: Fd = 0;
/// A pidfd of whoever creates it.
const CREATOR: Fd = 1;
/// `/dev/null`.
const NOTHING: Fd = 2;
/// What ends with the keeper: a pipe of which nobody else has the other end. Whoever gets at init gets no more by it.
const KEEPER: Fd = 3;
/// That other end. The door takes the numbers between.
const KEEPERS_END: Fd = 6;

/// A step that failed, which of its kind, and the kernel's answer.
struct Failure {
    step: Step,
    item: u32,
    errno: Errno,
}

/// Names the step in which a call failed.
trait During<T> {
    fn during(self, step: Step, item: u32) -> Result<T, Failure>;
}

impl<T> During<T> for kernel::Result<T> {
    fn during(self, step: Step, item: u32) -> Result<T, Failure> {
        self.map_err(|errno| Failure { step, item, errno })
    }
}

/// The container, as far as the keeper knows it.
struct Kept {
    /// Of its first process.
    pidfd: Fd,
    /// By which that hears what is asked for at the door.
    gate: Fd,
    /// Where its processes are listed, if its end is not theirs.
    processes: Option<Fd>,
    /// What it is in: how many, and of which kinds.
    kinds: [u64; 1 + MOST_KEPT],
    namespaces: [Fd; MOST_KEPT],
    /// Whoever created it has left.
    is_let_go: bool,
}

impl Kept {
    /// The way to who answers its calls on the network, or -1.
    fn supervisor(&self) -> Fd {
        let [count, kinds @ ..] = &self.kinds;
        let mut all = kinds[..*count as usize].iter().zip(self.namespaces);
        all.find(|(kind, _)| **kind == container::SUPERVISOR)
            .map_or(-1, |(_, fd)| fd)
    }
}

/// Serves whoever creates the container, then stays for as long as the container.
pub(crate) fn serve(title: Title) -> ! {
    let Ok(door) = open_door() else {
        crate::exit(125)
    };
    let mut kept: Option<Kept> = None;
    loop {
        let is_let_go = kept.as_ref().is_some_and(|kept| kept.is_let_go);
        let first = kept.as_ref().map_or(-1, |kept| kept.pidfd);
        // Who knocks before it is known what the container is in, and that it stays, waits.
        let [control, creator, knocks] = match is_let_go {
            true => [-1, -1, door],
            false => [CONTROL, CREATOR, -1],
        };
        let supervisor = kept.as_ref().map_or(-1, Kept::supervisor);
        let mut fds = [control, creator, knocks, first, supervisor].map(readable);
        let _ = kernel::poll(&mut fds, None);
        // Who answers its calls says nothing here: it has gone.
        if fds[3].revents != 0 || fds[4].revents != 0 {
            end(kept);
        }
        if fds[2].revents != 0 {
            pass_on(door, kept.as_ref());
        }
        // What was said comes before that nobody says any more.
        let is_deserted = match fds[0].revents {
            0 => fds[1].revents != 0,
            _ => !answer(&mut kept, title),
        };
        if is_deserted {
            end(kept);
        }
    }
}

/// What init knows the keeper's end by, and the door. Both ends of that are the keeper's, at fixed numbers: who comes takes a copy of the outer one (`door.rs`).
fn open_door() -> kernel::Result<Fd> {
    /// `PR_SET_PTRACER` (Yama.rst), and anybody.
    const SET_PTRACER: u32 = 0x5961_6d61;
    const ANYBODY: u64 = u64::MAX;
    let [ends, other] = kernel::pipe()?;
    kernel::duplicate_to(other, KEEPERS_END)?;
    kernel::close(other);
    if ends != KEEPER || kernel::message_pair()? != [wire::DOOR_INSIDE, wire::DOOR] {
        return Err(Errno::INVAL);
    }
    let _ = kernel::prctl(SET_PTRACER, ANYBODY);
    Ok(wire::DOOR_INSIDE)
}

/// Answers a request, or hands it to the first process. Who asked hears that the session is closed, where that does not take it.
fn pass_on(door: Fd, kept: Option<&Kept>) {
    let mut buffer = [0; wire::RECORD_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let Ok((length, count)) = kernel::receive(door, &mut buffer, &mut fds) else {
        return;
    };
    if let (Some(kept), [session]) = (kept, &fds[..count]) {
        let request = record_from(&buffer[..length]);
        if request.is_some_and(|request| request.kind == container::NAMESPACES) {
            let said = record(container::NAMESPACES, &kept.kinds);
            let namespaces = &kept.namespaces[..kept.kinds[0] as usize];
            let _ = kernel::send_at_once(*session, record_bytes(&said), namespaces);
        } else {
            let _ = kernel::send_at_once(kept.gate, &buffer[..length], &[*session]);
        }
    }
    fds[..count].iter().for_each(|fd| kernel::close(*fd));
}

/// Reads and answers one request; `false` when whoever creates the container has closed its end.
fn answer(kept: &mut Option<Kept>, title: Title) -> bool {
    let mut buffer = [0; wire::RECORD_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let (length, count) = match kernel::receive(CONTROL, &mut buffer, &mut fds) {
        Ok((0, _)) => return false,
        Ok(received) => received,
        Err(errno) => return errno == Errno::INTR,
    };
    let Some(request) = record_from(&buffer[..length]) else {
        return false;
    };
    let fds = &fds[..count];
    match request.kind {
        container::CREATE if kept.is_none() => {
            let made = stage::make(&request, fds, title);
            fds.iter().for_each(|fd| kernel::close(*fd));
            match made {
                Ok((made, record)) => {
                    send_record(CONTROL, &record, &[made.pidfd]);
                    // Who is in a container of others ends with it, or with its program.
                    match request.words[create::FLAGS] & container::ENTRANT {
                        0 => *kept = Some(made),
                        _ => return false,
                    }
                }
                Err(failure) => send_record(CONTROL, &failed(&failure), &[]),
            }
            true
        }
        container::LET_GO => {
            let Some(kept) = kept else { return false };
            kept.is_let_go = true;
            let [has_processes, count, kinds @ ..] = &request.words;
            let mut fds = fds.iter().copied();
            kept.processes = match has_processes {
                0 => None,
                _ => fds.next(),
            };
            let places = kept.namespaces.iter_mut().zip(fds).zip(kinds);
            for ((place, fd), kind) in places.take(*count as usize) {
                *place = fd;
                kept.kinds[1 + kept.kinds[0] as usize] = *kind;
                kept.kinds[0] += 1;
            }
            kernel::close(CONTROL);
            true
        }
        _ => false,
    }
}

/// Ends what is there, waits for it, and leaves.
fn end(kept: Option<Kept>) -> ! {
    if let Some(kept) = kept {
        kernel::pidfd_kill(kept.pidfd);
        let _ = kernel::poll(&mut [readable(kept.pidfd)], None);
        if let Some(processes) = kept.processes {
            end_listed(processes);
        }
    }
    crate::exit(0)
}

/// Ends what a control group lists, until it lists nothing: who forks away from it stays in it.
fn end_listed(processes: Fd) {
    const ROUNDS: u32 = 1000;
    for _ in 0..ROUNDS {
        let mut text = [0u8; 4096];
        let Ok(length @ 1..) = kernel::read_at(processes, &mut text, 0) else {
            return;
        };
        let numbers = text[..length].split(|byte| *byte == b'\n');
        for pid in numbers.filter_map(crate::text::number) {
            let _ = kernel::kill(pid as i32, kernel::SIGKILL);
        }
        // They are listed until they are waited for, by whoever is their parent by now.
        let _ = kernel::poll(&mut [], Some(1_000_000));
    }
}

fn readable(fd: Fd) -> PollFd {
    PollFd {
        fd,
        events: POLLIN,
        revents: 0,
    }
}

fn record(kind: u64, words: &[u64]) -> Record {
    let mut record = Record {
        kind,
        ..Record::default()
    };
    for (to, from) in record.words.iter_mut().zip(words) {
        *to = *from;
    }
    record
}

fn failed(failure: &Failure) -> Record {
    record(
        container::FAILED,
        &[
            failure.step as u64,
            failure.item.into(),
            failure.errno.0.into(),
        ],
    )
}
