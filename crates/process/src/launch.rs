//! Carrying a plan out: from a parked domain to a running guest.

mod error;
mod mounts;
pub(crate) mod placeholder;

pub use error::LaunchError;

use crate::{
    Tier,
    domain::Domain,
    encode::{self, TerminalOrder},
    keeper::{Keeper, ParkOrder, Parked, receive_record},
    machine::Machine,
    plan::Plan,
    wire::{self, Step, started},
};
use placeholder::Held;
use rustix::{
    io::Errno,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
};
use std::{
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Instant,
};

/// Starts domains. It owns a keeper; dropping it, and every domain made with it, ends the keeper.
#[derive(Debug)]
pub struct Launcher {
    keeper: Arc<Keeper>,
    machine: Machine,
    began: Instant,
}

/// What the guest gets as its standard streams.
#[derive(Debug)]
pub struct Streams<'a> {
    /// Standard input.
    pub stdin: BorrowedFd<'a>,
    /// Standard output.
    pub stdout: BorrowedFd<'a>,
    /// Standard error.
    pub stderr: BorrowedFd<'a>,
    /// A terminal of the guest's own in place of some of them.
    pub terminal: Option<Terminal>,
}

/// A terminal of the guest's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Height in lines.
    pub rows: u16,
    /// Width in columns.
    pub columns: u16,
    /// Which of stdin, stdout and stderr it replaces.
    pub replaces: [bool; 3],
    /// Leave line ends alone: what shows the output translates them.
    pub raw_output: bool,
}

impl Launcher {
    /// Starts a keeper and has it park one domain, without waiting for either: namespaces are made
    /// while the caller still plans.
    ///
    /// # Errors
    ///
    /// When the keeper can't be started.
    pub fn start(machine: Machine) -> Result<Self, LaunchError> {
        let began = Instant::now();
        let launcher = Self { keeper: Arc::new(Keeper::start()?), machine, began };
        launcher.park()?;
        Ok(launcher)
    }

    /// The machine it was started on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Has the keeper make one more domain in advance; [`Launcher::launch`] uses one.
    ///
    /// # Errors
    ///
    /// When the keeper is gone.
    pub fn park(&self) -> Result<(), LaunchError> {
        Ok(self.keeper.order(&park_order(&self.machine))?)
    }

    /// Starts the plan's guest in the domain that was parked longest. Exactly one domain must have
    /// been parked for each launch: [`Launcher::start`] parks the first.
    ///
    /// # Errors
    ///
    /// When a step of the plan fails. Nothing of the domain is left then.
    pub fn launch(&self, plan: &Plan, streams: &Streams<'_>) -> Result<Domain, LaunchError> {
        let parked = self.keeper.parked()?;
        let mut leftovers = Held::default();
        let outcome = self.launch_parked(plan, streams, parked, &mut leftovers);
        if outcome.is_err() {
            leftovers.remove();
        }
        outcome
    }

    fn launch_parked(
        &self,
        plan: &Plan,
        streams: &Streams<'_>,
        parked: Parked,
        held: &mut Held,
    ) -> Result<Domain, LaunchError> {
        held.hold(&plan.placeholders)?;
        if !held.is_empty() {
            self.keeper.remember(parked.pid, &held.cleaning_list())?;
        }
        let mounts = match plan.tier {
            Tier::Privileged => mounts::prepare(&self.keeper, plan, parked.host_uid)?,
            _ => mounts::Prepared::default(),
        };
        let body = encode::encode(
            plan,
            &plan.seccomp_program()?,
            streams.terminal.map(terminal_order),
            |index| mounts.position(index).map(|position| position + STANDARD_STREAMS),
        );
        let mut fds = vec![streams.stdin, streams.stdout, streams.stderr];
        fds.extend(mounts.fds());
        send_launch(&parked.socket, &body, &fds).map_err(LaunchError::Send)?;
        let sent_ns = monotonic_ns();
        let (words, terminal) = await_start(&parked.socket, plan)?;
        let phases = phases(&parked, sent_ns, words);
        let held = std::mem::take(held);
        Ok(Domain::new(Arc::clone(&self.keeper), parked, plan, held, terminal, phases))
    }

    /// When this launcher began to start.
    pub fn began(&self) -> Instant {
        self.began
    }
}

/// The descriptors of stdin, stdout and stderr go first in a launch message.
const STANDARD_STREAMS: u32 = 3;

fn park_order(machine: &Machine) -> ParkOrder {
    let (uid, gid) = crate::plan::inside_ids(machine);
    ParkOrder { own_uid: machine.tier == Tier::Privileged, bare: machine.tier == Tier::Bare, uid, gid }
}

fn terminal_order(terminal: Terminal) -> TerminalOrder {
    let replaces = (0..).zip(terminal.replaces).map(|(bit, set)| u32::from(set) << bit).sum();
    TerminalOrder { rows: terminal.rows, columns: terminal.columns, replaces, raw_output: terminal.raw_output }
}

fn send_launch(socket: &OwnedFd, body: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(wire::MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOBIG);
    }
    let header = encode::header(body.len(), fds.len());
    // Header first and alone: init reads it and its descriptors in one call, then the body.
    rustix::net::sendmsg(socket, &[IoSlice::new(&header)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let mut rest = body;
    while !rest.is_empty() {
        let sent = rustix::io::retry_on_intr(|| rustix::net::send(socket, rest, SendFlags::NOSIGNAL))?;
        rest = &rest[sent..];
    }
    Ok(())
}

type StartedWords = [u64; wire::RECORD_WORDS];

fn await_start(socket: &OwnedFd, plan: &Plan) -> Result<(StartedWords, Option<OwnedFd>), LaunchError> {
    let received = receive_record(socket.as_fd()).map_err(LaunchError::Receive)?;
    let (record, mut fds) = received.ok_or(LaunchError::InitGone)?;
    match record.kind {
        wire::INIT_STARTED => Ok((record.words, fds.pop_front())),
        wire::INIT_FAILED => {
            let [step, item, errno, ..] = record.words;
            let errno = Errno::from_raw_os_error(errno as i32);
            Err(LaunchError::of_step(Step::from_number(step), item as usize, errno, plan))
        }
        _ => Err(LaunchError::InitGone),
    }
}

/// Moments of a start, in ns of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartTimes {
    pub(crate) park_began_ns: u64,
    pub(crate) park_done_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) received_ns: u64,
    pub(crate) root_ns: u64,
    pub(crate) pivot_ns: u64,
    pub(crate) exec_ns: u64,
}

fn phases(parked: &Parked, sent_ns: u64, words: StartedWords) -> StartTimes {
    StartTimes {
        park_began_ns: parked.made_ns.0,
        park_done_ns: parked.made_ns.1,
        sent_ns,
        received_ns: words[started::RECEIVED],
        root_ns: words[started::ROOT],
        pivot_ns: words[started::PIVOT],
        exec_ns: words[started::EXEC],
    }
}

pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
