//! The keeper's door: where somebody who did not start a domain asks for something about it.
//!
//! What is asked for is passed on to the domain's init and understood there. The door has no name: see `wire.rs`.

use crate::{Failure, failed, kernel, record_bytes, record_from, wire};
use kernel::{Errno, Fd, Result};
use wire::Step;

/// `PR_SET_PTRACER` (Yama.rst), and anybody.
const SET_PTRACER: u32 = 0x5961_6d61;
const ANYBODY: u64 = u64::MAX;

/// Opens it; gives the inner end.
///
/// Where ptrace(2) is for parents only (Yama), the door would be shut to everybody. Who may come then is still the
/// kernel's to say, as it does without Yama: a process of this user, in this user namespace, under no rules of Landlock.
pub(crate) fn open() -> Result<Fd> {
    let ends = kernel::message_pair()?;
    if ends != [wire::DOOR_INSIDE, wire::DOOR] {
        return Err(Errno::INVAL);
    }
    // A kernel without Yama does not know it.
    let _ = kernel::prctl(SET_PTRACER, ANYBODY);
    Ok(wire::DOOR_INSIDE)
}

/// Passes one request on, with its descriptor, to the gate of the init with that pid. Whoever asked hears at once if there is no such domain, and the keeper
/// waits for nobody.
pub(crate) fn answer(door: Fd, gate_of: impl FnOnce(i32) -> Option<Fd>) {
    let mut buffer = [0; wire::RECORD_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let Ok((length, count)) = kernel::receive(door, &mut buffer, &mut fds) else {
        return;
    };
    let fds = &fds[..count];
    let request = record_from(&buffer[..length]);
    if let (Some(request), [session]) = (request, fds) {
        let gate = gate_of(request.words[0] as i32);
        let passed = match (request.kind, gate) {
            (wire::DOOR_EXEC | wire::DOOR_END | wire::DOOR_SUPERVISOR, Some(gate)) => {
                kernel::send_at_once(gate, record_bytes(&request), &[*session])
            }
            (_, None) => Err(Errno::SRCH),
            _ => Err(Errno::NOSYS),
        };
        if let Err(errno) = passed {
            refuse(*session, errno);
        }
    }
    fds.iter().for_each(|fd| kernel::close(*fd));
}

fn refuse(session: Fd, errno: Errno) {
    let failure = Failure {
        step: Step::Enter,
        item: 0,
        errno,
    };
    let refusal = failed(wire::INIT_FAILED, &failure);
    let _ = kernel::send_at_once(session, record_bytes(&refusal), &[]);
}
