//! From a keeper to the first process of a container: a process between them joins namespaces, makes the others, and is gone.

use super::{During, Failure, Kept, failed, init, record, record_from, send_record};
use crate::{
    kernel,
    title::Title,
    wire::{
        self, Record,
        container::{self, Step, create},
    },
};
use kernel::{Errno, Fd};

/// Gives what the keeper has of it, and the record for who asked.
pub(super) fn make(request: &Record, fds: &[Fd], title: Title) -> Result<(Kept, Record), Failure> {
    let gate = kernel::message_pair().during(Step::Spawn, 0)?;
    let Some((pid, stage)) = kernel::fork_sibling(0).during(Step::Spawn, 1)? else {
        if let Err(failure) = become_first(request, fds, gate, title) {
            send_record(gate[0], &failed(&failure), &[]);
        }
        crate::exit(0)
    };
    kernel::close(stage);
    kernel::close(gate[0]);
    let heard = hear(gate[1]);
    match heard {
        Ok((first, pidfd)) => {
            let kept = Kept {
                pidfd,
                gate: gate[1],
                processes: None,
                kinds: [0; _],
                namespaces: [-1; _],
                is_let_go: false,
            };
            Ok((kept, record(container::CREATED, &[first, pid as u64])))
        }
        Err(failure) => {
            kernel::close(gate[1]);
            Err(failure)
        }
    }
}

/// What the process in between has to say.
fn hear(gate: Fd) -> Result<(u64, Fd), Failure> {
    let mut buffer = [0; wire::RECORD_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let (length, count) = kernel::receive(gate, &mut buffer, &mut fds).during(Step::Spawn, 2)?;
    match (record_from(&buffer[..length]), &fds[..count]) {
        (Some(said), [pidfd]) if said.kind == container::CREATED => Ok((said.words[0], *pidfd)),
        (Some(said), _) if said.kind == container::FAILED => Err(Failure {
            step: Step::from_number(said.words[0]),
            item: said.words[1] as u32,
            errno: Errno(said.words[2] as u32),
        }),
        _ => Err(Errno::INVAL).during(Step::Spawn, 3),
    }
}

fn become_first(request: &Record, fds: &[Fd], gate: [Fd; 2], title: Title) -> Result<(), Failure> {
    let flags = request.words[create::FLAGS];
    let count = request.words[create::JOINED] as usize;
    let kinds = request.words.get(create::JOINED + 1..).unwrap_or(&[]);
    let kinds = kinds.get(..count).ok_or(Errno::INVAL);
    let (kinds, [channel, joined @ ..]) = (kinds.during(Step::Decode, 0)?, fds) else {
        return Err(Errno::INVAL).during(Step::Decode, 1);
    };
    // Where there are processes of others already, nobody may look into what comes to be among them (CVE-2016-9962): its
    // memory is of the keeper's user namespace, in which nobody of theirs has a right. What is forked from it is as hidden.
    if flags & (container::ENTRANT | container::SHARED_PROCESSES) != 0 {
        init::hide()?;
    }
    join(joined, kinds)?;
    if kinds.contains(&kernel::CLONE_NEWUSER) {
        // Until then it is the host's root, by its number.
        kernel::set_ids(0, 0).during(Step::SetIds, 0)?;
        init::hide()?;
    }
    let made = request.words[create::MADE];
    let sysfs = match flags & container::WITH_SYSFS {
        0 => None,
        _ => Some(make_sysfs().during(Step::Mount, u32::MAX)?),
    };
    let Some((pid, pidfd)) = kernel::fork_sibling(made).during(Step::MakeNamespaces, 0)? else {
        init::run(*channel, gate, sysfs, (flags, made), title)
    };
    let said = record(container::CREATED, &[pid as u64]);
    send_record(gate[0], &said, &[pidfd]);
    Ok(())
}

/// A namespace is entered by who has rights in the user namespace that owns it: before one is entered, or after.
fn join(namespaces: &[Fd], kinds: &[u64]) -> Result<(), Failure> {
    let both = || (0u32..).zip(namespaces.iter().zip(kinds));
    let is_user = |kind: &u64| *kind == kernel::CLONE_NEWUSER;
    let mut refused = 0u64;
    for (item, (namespace, kind)) in both().filter(|(_, (_, kind))| !is_user(kind)) {
        if kernel::enter_namespace(*namespace, *kind).is_err() {
            refused |= 1 << item;
        }
    }
    for (item, (namespace, kind)) in both() {
        if is_user(kind) || refused & 1 << item != 0 && kinds.iter().all(|kind| !is_user(kind)) {
            kernel::enter_namespace(*namespace, *kind).during(Step::JoinNamespace, item)?;
            refused &= !(1 << item);
        }
    }
    for (item, (namespace, kind)) in both().filter(|(item, _)| refused & 1 << item != 0) {
        kernel::enter_namespace(*namespace, *kind).during(Step::JoinNamespace, item)?;
    }
    Ok(())
}

fn make_sysfs() -> kernel::Result<Fd> {
    let fs = kernel::fsopen(kernel::c!("sysfs"))?;
    let attributes =
        kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV | kernel::MOUNT_ATTR_NOEXEC;
    let mount = kernel::fsmount(fs, attributes);
    kernel::close(fs);
    mount
}
