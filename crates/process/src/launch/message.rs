//! What init is sent for a launch: instructions, and the descriptors that they name by their positions.

use super::{
    encode::{self, Steps, Writer},
    listeners::Listeners,
    mounts,
    prelude::Prelude,
    streams::Ready,
};
use crate::{cgroup::CpuCounter, clock::monotonic_ns, launch_error::LaunchError, plan::Plan, wire};
use palisade_wall::Terminal;
use rustix::{
    io::Errno,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
};
use std::{
    ffi::OsString,
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// What there is to tell.
pub(super) struct Contents<'a> {
    pub(super) plan: &'a Plan,
    /// What the domain has done already.
    pub(super) done: &'a Prelude,
    /// The program of the system-call filter.
    pub(super) seccomp: &'a [u8],
    pub(super) streams: &'a Ready<'a>,
    pub(super) terminal: Option<&'a Terminal>,
    pub(super) mounts: &'a mounts::Prepared,
    /// Of the control groups to join.
    pub(super) tasks: &'a [OwnedFd],
    pub(super) counter: Option<&'a CpuCounter>,
    pub(super) listeners: &'a Listeners<'a>,
    /// A folder of the host's that is made for the guest.
    pub(super) temporary: Option<&'a Path>,
    /// Variables that the plan does not know of.
    pub(super) variables: Vec<OsString>,
}

/// The message.
pub(super) struct Message<'a> {
    body: Vec<u8>,
    fds: Vec<BorrowedFd<'a>>,
}

impl<'a> Message<'a> {
    /// Writes it. The descriptors are those of streams, mounts, control groups, the counter and listeners, in
    /// this order.
    pub(super) fn of(contents: &Contents<'a>) -> Self {
        let &Contents {
            plan,
            done,
            streams,
            mounts,
            tasks,
            counter,
            listeners,
            ..
        } = contents;
        let mut fds = streams.fds().to_vec();
        let mounts_from = fds.len() as u32;
        fds.extend(mounts.fds());
        let tasks_from = fds.len() as u32;
        fds.extend(tasks.iter().map(AsFd::as_fd));
        let counter_at = fds.len() as u32;
        let tasks = tasks_from..counter_at;
        fds.extend(counter.iter().map(|counter| counter.file.as_fd()));
        let counter = counter.map(|counter| (counter_at, counter.unit_ns));
        let listeners_from = fds.len() as u32;
        fds.extend(listeners.fds());
        fds.extend(listeners.others());

        // Whoever is made before a terminal is opened has no controlling one; and what it takes to build the root is none of a
        // group's that is joined.
        let can_be_beside = done.is_empty() && contents.terminal.is_none() && tasks.is_empty();
        let beside = can_be_beside
            .then(|| encode::encode_confinement_beside(plan, contents.seccomp, streams.files))
            .flatten();
        let mut body = match done.is_empty() {
            true => Writer::with_room_for(&plan.steps),
            false => Writer::default(),
        };
        let steps = Steps {
            plan,
            reopened: streams.reopened.as_ref(),
            attached: |index| mounts.position(index).map(|place| place + mounts_from),
        };
        match &beside {
            Some([first, _]) => steps.encode_beside(&mut body, first),
            None if done.is_empty() => steps.encode(&mut body),
            None => {}
        }
        if !done.has_guest {
            body.append(&encode::encode_pairs(streams.pairs()));
            body.append(&encode::encode_surroundings(
                tasks,
                counter,
                contents.terminal,
            ));
            body.append(&match beside {
                Some([_, last]) => last,
                None => encode::encode_confinement(
                    plan,
                    contents.seccomp,
                    streams.files,
                    contents.temporary,
                ),
            });
        }
        let (count, others) = (listeners.count(), listeners.others().len());
        body.append(&encode::encode_passed(listeners_from, count, others));
        body.append(&encode::encode_program(plan, &contents.variables));
        Self {
            body: body.finish(),
            fds,
        }
    }

    /// Sends it to a domain, which need not exist yet: its socket keeps the message. Gives when it was sent, in ns of
    /// the monotonic clock.
    pub(super) fn send(&self, socket: &OwnedFd) -> Result<u64, LaunchError> {
        match self.try_send(socket) {
            // Whatever failed before has left its reason in the socket.
            Err(Errno::PIPE | Errno::CONNRESET) => {}
            sent => sent.map_err(LaunchError::Send)?,
        }
        Ok(monotonic_ns())
    }

    fn try_send(&self, socket: &OwnedFd) -> rustix::io::Result<()> {
        let Self { body, fds } = self;
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(wire::MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::TOOBIG);
        }
        let header = encode::header(body.len(), fds.len());
        // At once: a message in two parts wakes the other end twice.
        let parts = [IoSlice::new(&header), IoSlice::new(body)];
        let sent = rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
        let mut rest = body.get(sent.saturating_sub(header.len())..).unwrap_or(&[]);
        while !rest.is_empty() {
            let sent =
                rustix::io::retry_on_intr(|| rustix::net::send(socket, rest, SendFlags::NOSIGNAL))?;
            rest = &rest[sent..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
