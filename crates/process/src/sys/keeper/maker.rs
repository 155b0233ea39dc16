//! Makes internet sockets in the host's network, as a member of the domain's memory group.
//!
//! What a socket holds, and the socket itself, is charged to the group of whoever made it
//! (`mem_cgroup_sk_alloc` in mm/memcontrol.c): made by the supervisor, the buffers of a guest's connections would be
//! the supervisor's. A process of its own, because a thread cannot be in another group (version 2). It holds nothing of the
//! guest's, sees no address, and ends with its supervisor's end of the socket.

use crate::{During, Failure, confine, domain, failed, kernel, record_from, send_record, wire};
use kernel::{Errno, Fd};
use wire::{Record, Step};

/// Descriptor of the socket to the supervisor.
const SOCKET: Fd = 3;

/// Forks the maker. Descriptors: its socket; then the group of version 2 to be born in, if the request says that there is
/// one, or `tasks` files to join.
pub(crate) fn begin(request: &Record, fds: &[Fd], filter: &[u8]) {
    let [socket, groups @ ..] = fds else { return };
    let is_born_in = request.words[0] != 0;
    let (born_in, tasks) = match groups.split_first() {
        Some((group, tasks)) if is_born_in => (Some(*group), tasks),
        _ => (None, groups),
    };
    match kernel::fork(0, born_in).during(Step::Clone, 3) {
        Ok(Some((_, pidfd))) => kernel::close(pidfd),
        Ok(None) => run(*socket, tasks, filter),
        Err(failure) => send_record(*socket, &failed(wire::KEEPER_FAILED, &failure), &[]),
    }
}

fn run(socket: Fd, tasks: &[Fd], filter: &[u8]) -> ! {
    if let Err(failure) = settle(socket, tasks, filter) {
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

fn settle(socket: Fd, tasks: &[Fd], filter: &[u8]) -> Result<(), Failure> {
    kernel::prctl(domain::SET_PARENT_DEATH_SIGNAL, kernel::SIGKILL as u64)
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
        kernel::close_from(SOCKET + 1)
    };
    keep_open().during(Step::Redirect, 6)?;
    confine::confine_keeper(None, filter).during(Step::Seccomp, 1)
}

/// Makes one socket; leaves with the supervisor.
fn answer() {
    let mut buffer = [0u8; wire::RECORD_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let Ok((length @ 1.., _)) = kernel::receive(SOCKET, &mut buffer, &mut fds) else {
        crate::exit(0)
    };
    let Some(request) = record_from(&buffer[..length]) else {
        crate::exit(125)
    };
    let [family, kind, protocol, ..] = request.words;
    match kernel::socket(family as u32, kind as u32, protocol as u32) {
        Ok(socket) => {
            let made = Record {
                kind: wire::SOCKET_MADE,
                ..Record::default()
            };
            // With the message the descriptor is the supervisor's too, or nobody's.
            send_record(SOCKET, &made, &[socket]);
            kernel::close(socket);
        }
        Err(errno) => send_record(SOCKET, &refusal(errno), &[]),
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
