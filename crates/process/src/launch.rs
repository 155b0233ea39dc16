//! Carrying a plan out: from a parked domain to a running guest.

pub(crate) mod encode;
mod listeners;
mod mounts;
mod prelude;
mod streams;

use streams::Reopened;

use crate::{
    Tier,
    broker::{self, maker::Maker},
    clock::monotonic_ns,
    domain::{Domain, StartedWords, Successor},
    held::{self, Held},
    keeper::{Keeper, KeeperError, Ordered, ParkOrder},
    launch_error::LaunchError,
    machine::Machine,
    parts::Parts,
    plan::{Plan, StreamFiles},
    record::receive_record,
    seccomp::Groups,
    wire::{self, Step, started},
};
use listeners::Listeners;
use palisade_wall::Streams;
use prelude::Prelude;
use rustix::{
    io::Errno,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
};
use std::{
    cell::LazyCell,
    collections::VecDeque,
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Starts domains, one at a time or from several threads. Dropping it ends the keeper once the last
/// domain made with it is gone.
#[derive(Debug)]
pub struct Launcher {
    keeper: Mutex<Option<Arc<Keeper>>>,
    machine: Machine,
    /// Domains that were ordered and not used yet, oldest first.
    ordered: Arc<Mutex<VecDeque<Ahead>>>,
    parks_ahead: bool,
    /// One guest is all that it will ever start.
    is_for_one: bool,
    /// Where the parts are that serve its guests.
    parts: Parts,
    /// The filter compiled last: domains of one kind have the same.
    filter: Mutex<Option<(Groups, Arc<[u8]>)>>,
}

impl Launcher {
    /// A launcher whose keeper starts with the first domain. Where control groups are delegated to
    /// this process (version 2), it must not have children before the first launch with a limit.
    pub fn new(machine: Machine) -> Self {
        Self {
            keeper: Mutex::default(),
            machine,
            ordered: Arc::default(),
            parks_ahead: false,
            is_for_one: false,
            parts: Parts::default(),
            filter: Mutex::default(),
        }
    }

    /// After the end of each guest, have a domain made for another one of the same plan. Not sooner:
    /// making a domain keeps a processor busy that the guest may want.
    #[must_use]
    pub fn park_ahead(mut self) -> Self {
        self.parks_ahead = true;
        self
    }

    /// Have names looked up, tunnels to wildcards served and streams relayed by processes forked from this
    /// one, not by threads, if this is the only thread of its process when it launches a guest that needs
    /// that.
    #[must_use]
    pub fn serve_apart(mut self) -> Self {
        self.parts = Parts::Processes;
        self
    }

    /// A launcher for one guest on this machine. It starts the keeper and has it make the domain,
    /// without waiting for either: namespaces are made while the caller still plans. The keeper
    /// leaves with the guest.
    ///
    /// # Errors
    ///
    /// When the keeper can't be started.
    pub fn for_one_guest() -> Result<Self, LaunchError> {
        // The keeper first: its start takes longer than looking at the machine.
        let keeper = Keeper::start()?;
        let launcher = Self {
            keeper: Mutex::new(Some(Arc::new(keeper))),
            is_for_one: true,
            ..Self::new(Machine::probe())
        };
        launcher.order(Prelude::default())?;
        Ok(launcher)
    }

    fn keeper(&self) -> Result<Arc<Keeper>, LaunchError> {
        let mut keeper = lock(&self.keeper);
        if keeper.is_none() {
            *keeper = Some(Arc::new(Keeper::start()?));
        }
        keeper.clone().ok_or(LaunchError::InitGone)
    }

    /// Whether its keeper runs already. One that is started later has what this process ignores and
    /// blocks by then, and so have its guests.
    pub fn has_keeper(&self) -> bool {
        lock(&self.keeper).is_some()
    }

    /// A launcher that makes no namespaces: for a host that refuses them, where the user accepted
    /// that ([`palisade_policy::Capability::Namespaces`]).
    pub fn without_namespaces(&self) -> Self {
        Self {
            parts: self.parts,
            ..Self::new(Machine {
                tier: Tier::Bare,
                ..self.machine.clone()
            })
        }
    }

    /// The machine it was started on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Has the keeper make one more domain in advance, for a launch of this plan or of one that
    /// differs only in its program, arguments, environment and working directory. Its file system is
    /// built then and its first process confined, so that little more than execve(2) is left to do.
    /// What it costs while it waits is two small processes and their namespaces. A launch with files
    /// for standard streams, or of another plan, lets the domain go and makes one of its own.
    ///
    /// # Errors
    ///
    /// When the keeper is gone.
    pub fn park(&self, plan: &Plan) -> Result<(), LaunchError> {
        let files = StreamFiles::default();
        let filter = self.filter_of(plan, files)?;
        self.order(Prelude::of(plan, &filter, files, false))
    }

    fn order(&self, prelude: Prelude) -> Result<(), LaunchError> {
        let ahead = Ahead::order(&*self.keeper()?, &self.park_order(), prelude)?;
        lock(&self.ordered).push_back(ahead);
        Ok(())
    }

    fn park_order(&self) -> ParkOrder {
        let tier = self.machine.tier;
        let (uid, gid) = crate::plan::inside_ids(&self.machine);
        ParkOrder {
            own_uid: tier == Tier::Privileged,
            bare: tier == Tier::Bare,
            keep_mounts: self.parks_ahead,
            uid,
            gid,
        }
    }

    /// The domain ordered longest ago if it suits, else a fresh one.
    fn take_ahead(&self, suits: impl Fn(&Prelude) -> bool) -> Result<Ahead, LaunchError> {
        loop {
            let next = lock(&self.ordered).pop_front();
            match next {
                Some(ahead) if suits(&ahead.prelude) => return Ok(ahead),
                // Built for another plan: closing its socket lets it go.
                Some(_) => {}
                None => self.order(Prelude::default())?,
            }
        }
    }

    fn hold(&self, plan: &Plan) -> Result<Held, LaunchError> {
        if !held::is_needed(plan) {
            return Ok(Held::default());
        }
        if plan.precedes_keeper() {
            return Held::hold(plan, None);
        }
        Held::hold(plan, Some(&self.keeper()?))
    }

    fn filter_of(&self, plan: &Plan, files: StreamFiles) -> Result<Arc<[u8]>, LaunchError> {
        let Some(wanted) = plan.seccomp_groups(files) else {
            return Ok(Arc::default());
        };
        let mut filter = lock(&self.filter);
        match &*filter {
            Some((groups, program)) if *groups == wanted => Ok(Arc::clone(program)),
            _ => {
                let program: Arc<[u8]> = wanted.program()?.into();
                *filter = Some((wanted, Arc::clone(&program)));
                Ok(program)
            }
        }
    }

    /// Waits until a domain that was parked is ready, so that the next launch need not.
    ///
    /// # Errors
    ///
    /// When it could not be made.
    pub fn wait_until_parked(&self) -> Result<(), LaunchError> {
        let keeper = self.keeper()?;
        if let Some(ahead) = lock(&self.ordered).front_mut() {
            keeper.confirm()?;
            ahead.wait_until_ready()?;
        }
        Ok(())
    }

    /// A domain whose init is born in a control group of version 2: any other way in waits for an
    /// RCU grace period.
    fn order_in(&self, cgroup: BorrowedFd<'_>) -> Result<Ahead, LaunchError> {
        let order = self.park_order();
        Ok(Ahead {
            domain: self.keeper()?.order(&order, Some(cgroup), &[])?,
            prelude: Prelude::default(),
        })
    }

    /// Starts the plan's guest.
    ///
    /// # Errors
    ///
    /// When a step of the plan fails. Nothing of the domain is left then.
    pub fn launch(&self, plan: &Plan, streams: &Streams<'_>) -> Result<Domain, LaunchError> {
        let ready = streams::Ready::of(streams, self.machine.tier, plan.root_is_granted())?;
        let files = ready.files;
        let seccomp = self.filter_of(plan, files)?;
        let mut held = self.hold(plan)?;
        let needs_init = ready.needs_init();
        let wanted = LazyCell::new(|| Prelude::of(plan, &seccomp, files, needs_init));
        let ahead = match held.cgroup_to_be_born_in()? {
            Some(cgroup) => self.order_in(cgroup.as_fd())?,
            // A domain that has only its namespaces suits every launch.
            None => self.take_ahead(|done| done.is_empty() || *done == *wanted)?,
        };
        let Ahead {
            mut domain,
            prelude: done,
        } = ahead;
        let keeper = self.keeper()?;
        held.tell(plan, &keeper)?;
        let mounts = if mounts::are_needed(plan) {
            keeper.confirm()?;
            mounts::prepare(&keeper, plan, domain.parked()?.host_uid)?
        } else {
            mounts::Prepared::default()
        };
        // The keeper has time now, and nobody waits for it.
        let maker = match plan.is_brokered() {
            true => Some(maker_of(plan, &held, &keeper)?),
            false => None,
        };
        let tasks = held.cgroups_to_join()?;
        let counter = held.cpu_counter()?;
        let listeners = Listeners::of(plan, streams.passed)?;
        let mut network = broker::Prepared::of(plan, &self.machine).map_err(LaunchError::Broker)?;
        let mut fds = ready.fds().to_vec();
        let mounts_from = fds.len() as u32;
        fds.extend(mounts.fds());
        let tasks_from = fds.len() as u32;
        fds.extend(tasks.iter().map(AsFd::as_fd));
        let tasks = tasks_from..fds.len() as u32;
        let counter_at = fds.len() as u32;
        fds.extend(counter.iter().map(|counter| counter.file.as_fd()));
        let counter = counter
            .as_ref()
            .map(|counter| (counter_at, counter.unit_ns));
        let listeners_from = fds.len() as u32;
        fds.extend(listeners.fds());
        fds.extend(listeners.others());

        let mut body = Vec::new();
        if done.is_empty() {
            let attached = |index| mounts.position(index).map(|place| place + mounts_from);
            body = encode::encode_steps(plan, ready.reopened.as_ref(), attached);
        }
        if !done.has_guest {
            body.extend(encode::encode_pairs(ready.pairs()));
            body.extend(encode::encode_surroundings(
                tasks,
                counter,
                streams.terminal.as_ref(),
            ));
            body.extend(encode::encode_confinement(
                plan,
                &seccomp,
                files,
                held.temporary(),
            ));
        }
        let (count, others) = (listeners.count(), listeners.others().len());
        body.extend(encode::encode_passed(listeners_from, count, others));
        let mut variables = held.variables();
        variables.extend(network.iter().flat_map(|network| network.environment()));
        // The last, as its receiver expects.
        listeners.add_variables(&mut variables);
        body.extend(encode::encode_program(plan, &variables));
        // The domain need not exist yet: its socket keeps the message.
        match send_launch(&domain.socket, &body, &fds) {
            // Whatever failed before has left its reason in the socket.
            Err(Errno::PIPE | Errno::CONNRESET) => {}
            sent => sent.map_err(LaunchError::Send)?,
        }
        let sent_ns = monotonic_ns();
        let ordered_ns = domain.ordered_ns;
        keeper.confirm()?;
        // What fails from here on ends it, and waits until nothing of it is left.
        let mut domain = Domain::new(
            Arc::clone(&keeper),
            domain.into_parts()?,
            plan,
            held,
            self.machine.landlock_abi,
        );
        // While init works, and before there is a guest that could take away what this needs.
        if let Some(network) = &mut network {
            network.serve(self.parts).map_err(LaunchError::Broker)?;
        }
        let Started {
            words,
            terminal,
            listener,
            hosts_file,
            input,
            pairs,
        } = await_start(domain.socket(), plan)?;
        domain.has_started(terminal, (ordered_ns, sent_ns), words);
        // Its copies of the guest's ends must go before anybody waits for their end.
        drop(fds);
        // Before there are threads.
        let flow = ready
            .begin(input, pairs, self.parts, self.machine.landlock_abi)
            .map_err(LaunchError::Relay)?;
        let broker = listener
            .zip(network.zip(maker))
            .map(|(listener, (network, maker))| {
                network.start(listener, hosts_file, plan, domain.socket(), maker)
            })
            .transpose()
            .map_err(LaunchError::Broker)?;
        domain.held().sweep(plan);
        let successor = self.parks_ahead.then(|| {
            let ordered = Arc::clone(&self.ordered);
            successor(ordered, self.park_order(), wanted.clone())
        });
        let domain = domain.followed_by(successor).with_broker(broker);
        let domain = domain.with_streams(flow);
        Ok(if self.is_for_one {
            domain.last_of_keeper()
        } else {
            domain
        })
    }
}

/// A domain made ahead of its launch.
#[derive(Debug)]
struct Ahead {
    domain: Ordered,
    prelude: Prelude,
}

impl Ahead {
    fn order(keeper: &Keeper, order: &ParkOrder, prelude: Prelude) -> Result<Self, KeeperError> {
        let domain = keeper.order(order, None, &prelude.bytes)?;
        Ok(Self { domain, prelude })
    }

    fn wait_until_ready(&mut self) -> Result<(), KeeperError> {
        self.domain.parked()?;
        if self.prelude.is_empty() {
            return Ok(());
        }
        // Whether it says that it is ready or that it failed: the launch reads it.
        self.domain.wait_for_init()
    }
}

/// Orders a domain for the launch after this one, unless one waits already.
fn successor(
    ordered: Arc<Mutex<VecDeque<Ahead>>>,
    order: ParkOrder,
    prelude: Prelude,
) -> Successor {
    Successor::new(move |keeper| {
        let mut ordered = lock(&ordered);
        if ordered.is_empty() {
            // A keeper that is gone says so at the next launch.
            ordered.extend(Ahead::order(keeper, &order, prelude).ok());
        }
    })
}

/// Who opens what the broker must not; and makes the guest's sockets of the host's network, where their memory
/// is limited.
fn maker_of(plan: &Plan, held: &Held, keeper: &Keeper) -> Result<Maker, LaunchError> {
    let need = &plan.held_by_cgroup;
    let memory_bytes = need.memory_bytes.filter(|_| plan.makes_host_sockets());
    let (born_in, tasks) = held.groups_of_ours(memory_bytes.is_some())?;
    let born_in = born_in.as_ref().map(AsFd::as_fd);
    let tasks: Vec<_> = tasks.iter().map(AsFd::as_fd).collect();
    let socket = keeper.order_maker(born_in, &tasks)?;
    let is_in_group = born_in.is_some() || !tasks.is_empty();
    Ok(Maker::ordered(socket, memory_bytes, is_in_group))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves the queue whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send_launch(socket: &OwnedFd, body: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
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

/// What init says when the guest's program runs.
struct Started {
    words: StartedWords,
    terminal: Option<OwnedFd>,
    /// Where the guest's calls on the network arrive.
    listener: Option<OwnedFd>,
    /// The domain's own, open for writing, where it has names whose addresses may change.
    hosts_file: Option<OwnedFd>,
    /// The input file, as the guest has it.
    input: Option<OwnedFd>,
    /// Sockets in place of streams: our end and the guest's of each.
    pairs: Vec<(OwnedFd, OwnedFd)>,
}

fn await_start(socket: &OwnedFd, plan: &Plan) -> Result<Started, LaunchError> {
    let received = receive_record(socket.as_fd()).map_err(LaunchError::Receive)?;
    let (record, mut fds) = received.ok_or(LaunchError::InitGone)?;
    match record.kind {
        wire::INIT_READY => await_start(socket, plan),
        wire::INIT_STARTED => {
            let attached = record.words[started::ATTACHED];
            let mut take = |bit| (attached & bit != 0).then(|| fds.pop_front()).flatten();
            let (terminal, listener) =
                (take(wire::ATTACHED_TERMINAL), take(wire::ATTACHED_LISTENER));
            let (hosts_file, input) = (take(wire::ATTACHED_FILE), take(wire::ATTACHED_INPUT));
            let pairs = (0..record.words[started::PAIRS])
                .map_while(|_| fds.pop_front().zip(fds.pop_front()))
                .collect();
            Ok(Started {
                words: record.words,
                terminal,
                listener,
                hosts_file,
                input,
                pairs,
            })
        }
        wire::INIT_FAILED => {
            let [step, item, errno, ..] = record.words;
            let errno = Errno::from_raw_os_error(errno as i32);
            Err(LaunchError::of_step(
                Step::from_number(step),
                item as usize,
                errno,
                plan,
            ))
        }
        _ => Err(LaunchError::InitGone),
    }
}
