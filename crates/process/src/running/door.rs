//! Asking at a keeper's door.

use super::{Change, Changed, Further, Known, RunningDomain, Session};
use crate::{
    cgroup, grants,
    record::{receive_record, record_bytes},
    wire,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        SocketFlags, SocketType, sockopt,
    },
    process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal},
};
use std::{
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// How long an init may take to end its domain before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A domain could not be ended or entered.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
#[non_exhaustive]
pub enum OperateError {
    #[error("host: the domain has ended: `palisade ps` lists those that run")]
    Gone,
    #[error(
        "host: the kernel lets this process not ask the domain's keeper ({0}): that takes the right to trace it (ptrace(2)), which \
         kernel.yama.ptrace_scope of 2 or 3, a container without SYS_PTRACE, or Landlock around this process takes away"
    )]
    Shut(#[source] Errno),
    #[error("host: the domain's keeper has no door: it is of another version of palisade")]
    NoDoor,
    #[error(
        "wall: the domain does not end, and SIGKILL did not end it: is its control group frozen?"
    )]
    Stuck,
    #[error(
        "host: who started the domain does not answer: it is of another version of palisade, or waits for something else"
    )]
    NoAnswer,
    #[error("wall: cannot talk to the domain: {0}")]
    Talk(#[source] Errno),
    #[error(
        "guest: the guest is WebAssembly, run by a worker that may execute nothing: there is no program to start beside it"
    )]
    NoPrograms,
    #[error("policy: {0:?} is not found in the domain")]
    NotFound(String),
    #[error("policy: {path:?} cannot be executed in the domain: {errno}")]
    CannotExecute {
        path: String,
        #[source]
        errno: Errno,
    },
    #[error("wall: the process cannot be started ({step}): {errno}")]
    Start {
        step: String,
        #[source]
        errno: Errno,
    },
}

impl RunningDomain {
    /// Ends it and everything in it, and waits until nothing of it runs. Its supervisor reports the end as an operator's.
    ///
    /// # Errors
    ///
    /// When it has ended already, or does not.
    pub fn kill(&self) -> Result<(), OperateError> {
        let processes = self.hold()?;
        // Without the door init cannot be asked, and the end is as by SIGKILL.
        let asked = processes.door().and_then(|door| {
            let (ours, theirs) = pair()?;
            ask(&door, wire::DOOR_END, self.id, theirs.as_fd())?;
            Ok(ours)
        });
        // One that is frozen hears it then. Whoever froze it may do so again, and SIGKILL ends it all the same.
        let _ = cgroup::thaw(self.id);
        if asked.is_ok() && processes.has_ended_within(PATIENCE)? {
            return Ok(());
        }
        match rustix::process::pidfd_send_signal(&processes.init, Signal::KILL) {
            Ok(()) => {}
            Err(Errno::SRCH) => return Ok(()),
            Err(errno) => return Err(OperateError::Talk(errno)),
        }
        match processes.has_ended_within(PATIENCE)? {
            true => Ok(()),
            false => Err(OperateError::Stuck),
        }
    }

    /// Starts a further process in it.
    ///
    /// # Errors
    ///
    /// When the domain has ended, nobody may ask for that, or the process can't be started.
    pub fn exec(&self, further: &Further<'_>) -> Result<Session, OperateError> {
        if self.wall != crate::plan::NAME {
            return Err(OperateError::NoPrograms);
        }
        let door = self.hold()?.door()?;
        let (ours, theirs) = pair()?;
        ask(&door, wire::DOOR_EXEC, self.id, theirs.as_fd())?;
        drop(theirs);
        Session::begin(ours, further)
    }

    /// Grants its guest more, or takes back what was granted so: network and files, to a guest that was started so that it can be.
    ///
    /// # Errors
    ///
    /// When the domain has ended, nobody may ask for that, or who started it does not answer.
    pub fn change(&self, change: &Change) -> Result<Changed, OperateError> {
        let door = self.hold()?.door()?;
        let (ours, theirs) = pair()?;
        let request = serde_json::to_vec(change).unwrap_or_default();
        rustix::net::send(&ours, &request, SendFlags::NOSIGNAL).map_err(OperateError::Talk)?;
        ask(&door, wire::DOOR_SUPERVISOR, self.id, theirs.as_fd())?;
        drop(theirs);
        let mut fds = [PollFd::new(&ours, PollFlags::IN)];
        let patience = Timespec::try_from(PATIENCE).ok();
        let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, patience.as_ref()));
        let mut answer = vec![0; grants::MOST_BYTES];
        let length = match ready.map_err(OperateError::Talk)? {
            0 => 0,
            _ => {
                rustix::net::recv(&ours, &mut answer, RecvFlags::empty())
                    .map_err(OperateError::Talk)?
                    .0
            }
        };
        serde_json::from_slice(&answer[..length]).map_err(|_| OperateError::NoAnswer)
    }

    /// Makes sure that its processes are those that were found, and will not be others.
    fn hold(&self) -> Result<Held, OperateError> {
        let held = Held {
            init: open(self.init)?,
            keeper: open(self.keeper)?,
        };
        // What has these pids now is what the descriptors are of, for as long as it lives.
        let are_there = self.init.is_there() && self.keeper.is_there();
        match are_there && !has_ended(&held.init)? && !has_ended(&held.keeper)? {
            true => Ok(held),
            false => Err(OperateError::Gone),
        }
    }
}

/// A domain's processes, which no others can take the place of.
struct Held {
    init: OwnedFd,
    keeper: OwnedFd,
}

impl Held {
    fn door(&self) -> Result<OwnedFd, OperateError> {
        let door = rustix::process::pidfd_getfd(&self.keeper, wire::DOOR, PidfdGetfdFlags::empty());
        let door = door.map_err(|errno| match errno {
            Errno::SRCH => OperateError::Gone,
            Errno::BADF => OperateError::NoDoor,
            errno => OperateError::Shut(errno),
        })?;
        // What an older keeper has under this number is not a door.
        match sockopt::socket_type(&door) {
            Ok(SocketType::SEQPACKET) => Ok(door),
            _ => Err(OperateError::NoDoor),
        }
    }

    fn has_ended_within(&self, most: Duration) -> Result<bool, OperateError> {
        let timeout = Timespec::try_from(most).ok();
        wait_for_end(&self.init, timeout.as_ref())
    }
}

fn open(process: Known) -> Result<OwnedFd, OperateError> {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let opened = rustix::process::pidfd_open(pid.ok_or(OperateError::Gone)?, PidfdFlags::empty());
    opened.map_err(|errno| match errno {
        Errno::SRCH => OperateError::Gone,
        errno => OperateError::Talk(errno),
    })
}

fn has_ended(process: &OwnedFd) -> Result<bool, OperateError> {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    wait_for_end(process, Some(&at_once))
}

fn wait_for_end(process: &OwnedFd, most: Option<&Timespec>) -> Result<bool, OperateError> {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, most));
    ready.map(|ready| ready > 0).map_err(OperateError::Talk)
}

fn pair() -> Result<(OwnedFd, OwnedFd), OperateError> {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(OperateError::Talk)
}

fn ask(door: &OwnedFd, kind: u64, id: u32, session: BorrowedFd<'_>) -> Result<(), OperateError> {
    let record = record_bytes(kind, &[id.into()]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let session = [session];
    ancillary.push(SendAncillaryMessage::ScmRights(&session));
    let parts = [IoSlice::new(&record)];
    rustix::net::sendmsg(door, &parts, &mut ancillary, SendFlags::NOSIGNAL)
        .map(drop)
        .map_err(OperateError::Talk)
}

/// Reads what the other end says.
pub(super) fn hear(
    session: &OwnedFd,
) -> Result<Option<(wire::Record, Option<OwnedFd>)>, OperateError> {
    match receive_record(session.as_fd()) {
        Ok(heard) => Ok(heard.map(|(record, mut fds)| (record, fds.pop_front()))),
        // It went before it had read all.
        Err(Errno::CONNRESET) => Ok(None),
        Err(errno) => Err(OperateError::Talk(errno)),
    }
}
