//! Carrying a plan out: from a parked domain to a running guest.

mod ahead;
pub(crate) mod encode;
mod listeners;
mod message;
mod mounts;
mod part;
mod prelude;
mod prepared;
mod streams;

use crate::lock::lock;
use streams::Reopened;

use crate::{
    Tier,
    broker::{self, Advisor, maker::Maker},
    cgroup::CpuCounter,
    denials::FileAdvisor,
    domain::{Domain, StartedWords, Successor, is_ready_by},
    grants::{files::Files, holder::Holder},
    held::{self, Held},
    keeper::{Keeper, Ordered},
    launch_error::LaunchError,
    layout::Layout,
    machine::Machine,
    parts::Parts,
    plan::{Memory, Plan, StreamFiles},
    record::receive_record,
    seccomp::Groups,
    standing::{ParkOrder, Standing},
    wire::{self, Step, started},
};
use ahead::{Ahead, Pool, Promise};
use listeners::Listeners;
use message::{Contents, Message};
use palisade_wall::{Streams, journal::Journal};
use prelude::Prelude;
pub(crate) use prepared::Prepared;
use rustix::io::Errno;
use std::{
    cell::LazyCell,
    ffi::OsString,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex},
};

/// Starts domains, one at a time or from several threads. Dropping it ends the keeper once the last
/// domain made with it is gone.
#[derive(Debug)]
pub struct Launcher {
    keeper: Mutex<Option<Arc<Keeper>>>,
    machine: Machine,
    /// Domains that were ordered and not used yet.
    pool: Arc<Mutex<Pool>>,
    parks_ahead: bool,
    /// One guest is all that it will ever start.
    is_for_one: bool,
    /// That guest's end is told at init's last words.
    tells_early: bool,
    /// Where the parts are that serve its guests.
    parts: Parts,
    /// The filter compiled last: domains of one kind have the same.
    filter: Mutex<Option<(Groups, Arc<[u8]>)>>,
    /// What was made of the plan that was launched last, where domains wait for the next of its kind.
    prepared: Mutex<Option<Arc<Prepared>>>,
    memory: Memory,
}

impl Launcher {
    /// A launcher whose keeper starts with the first domain. Where control groups are delegated to
    /// this process (version 2), it must not have children before the first launch with a limit.
    pub fn new(machine: Machine) -> Self {
        Self {
            keeper: Mutex::default(),
            machine,
            pool: Arc::default(),
            parks_ahead: false,
            is_for_one: false,
            tells_early: false,
            parts: Parts::default(),
            filter: Mutex::default(),
            prepared: Mutex::default(),
            memory: Memory::default(),
        }
    }

    /// After the end of each guest, have a domain made for another one of the same plan. Not sooner:
    /// making a domain keeps a processor busy that the guest may want. A guest's end is told when all of its processes are
    /// gone; the domain's first process, palisade's own, ends behind that.
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
    /// leaves with the guest, at its last words: until both it and the domain's first process are gone this process adopts what
    /// becomes an orphan below it (`PR_SET_CHILD_SUBREAPER`), and waits for them.
    ///
    /// # Errors
    ///
    /// When the keeper can't be started.
    pub fn for_one_guest() -> Result<Self, LaunchError> {
        // The keeper first: its start takes longer than looking at the machine.
        let keeper = Keeper::start()?;
        let (ordered, standing) = match keeper.take_begun() {
            Some(begun) => begun,
            None => {
                let standing = Standing::of_this_process();
                let order = ParkOrder::of(standing, false);
                (keeper.order(&order, None, &[])?, standing)
            }
        };
        let ahead = Ahead::of(ordered, Arc::default());
        let launcher = Self {
            keeper: Mutex::new(Some(Arc::new(keeper))),
            is_for_one: true,
            ..Self::new(Machine::probe_for(standing))
        };
        lock(&launcher.pool).push(ahead);
        Ok(launcher)
    }

    /// Of a launcher for one guest: have the guest's end told when all of its processes are gone, before the kernel has ended
    /// palisade's two and taken the mounts down. Dropping the launcher waits for that. A report has no `domain-gone` then.
    #[must_use]
    pub fn tell_early(mut self) -> Self {
        self.tells_early = true;
        self
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

    /// What it remembers of the plans that were made for it.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
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
        let ahead = self.order(Arc::new(Prelude::of(plan, &filter, files, false)))?;
        lock(&self.pool).push(ahead);
        Ok(())
    }

    fn order(&self, prelude: Arc<Prelude>) -> Result<Ahead, LaunchError> {
        Ok(Ahead::order(&*self.keeper()?, &self.park_order(), prelude)?)
    }

    fn park_order(&self) -> ParkOrder {
        ParkOrder::of(self.machine.standing(), self.parks_ahead)
    }

    /// The domain ordered longest ago if it suits, else a fresh one.
    fn take_ahead(&self, suits: impl Fn(&Arc<Prelude>) -> bool) -> Result<Ahead, LaunchError> {
        loop {
            let next = lock(&self.pool).take();
            match next {
                Some(ahead) if suits(&ahead.prelude) && ahead.is_begun() => return Ok(ahead),
                // Built for another plan: closing its socket lets it go.
                Some(_) => {}
                None => return self.order(Arc::default()),
            }
        }
    }

    /// What is made of a plan: that of the launch before, where that was of the same.
    fn prepare_once(&self, plan: &Plan) -> Result<Option<Arc<Prepared>>, LaunchError> {
        let last = lock(&self.prepared).clone();
        if let Some(last) = last.filter(|last| last.is_of(plan)) {
            return Ok(Some(last));
        }
        let prepared = Prepared::of(plan, self)?.map(Arc::new);
        let former = std::mem::replace(&mut *lock(&self.prepared), prepared.clone());
        // Not under the lock: there is much to give back.
        drop(former);
        Ok(prepared)
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
        // Others may launch meanwhile.
        let first = lock(&self.pool).take();
        if let Some(mut ahead) = first {
            keeper.confirm()?;
            let mut is_ready = ahead.wait_until_ready();
            if !matches!(is_ready, Ok(true)) {
                // What that one failed of may be long ago.
                ahead = self.order(ahead.prelude)?;
                is_ready = ahead.wait_until_ready();
            }
            if is_ready? {
                lock(&self.pool).give_back(ahead);
            }
        }
        Ok(())
    }

    /// A domain whose init is born in a control group of version 2: any other way in waits for an
    /// RCU grace period.
    fn order_in(&self, cgroup: BorrowedFd<'_>) -> Result<Ahead, LaunchError> {
        let order = self.park_order();
        let domain = self.keeper()?.order(&order, Some(cgroup), &[])?;
        Ok(Ahead::of(domain, Arc::default()))
    }

    /// Starts the plan's guest.
    ///
    /// # Errors
    ///
    /// When a step of the plan fails. Nothing of the domain is left then.
    pub fn launch(&self, plan: &Plan, streams: &Streams<'_>) -> Result<Domain, LaunchError> {
        self.launch_prepared(plan, None, streams)
    }

    /// The same of a plan for which some was made before.
    pub(crate) fn launch_prepared(
        &self,
        plan: &Plan,
        prepared: Option<&Prepared>,
        streams: &Streams<'_>,
    ) -> Result<Domain, LaunchError> {
        loop {
            let mut failed_before = false;
            match self.try_launch((plan, prepared), streams, &mut failed_before) {
                // There is one less that waits.
                Err(_) if failed_before => {}
                outcome => return outcome,
            }
        }
    }

    /// `failed_before` becomes true where the domain failed that was taken, before it had heard of this launch.
    fn try_launch(
        &self,
        (plan, prepared): (&Plan, Option<&Prepared>),
        streams: &Streams<'_>,
        failed_before: &mut bool,
    ) -> Result<Domain, LaunchError> {
        let ready = streams::Ready::of(streams, self.machine.tier, plan.root_is_granted())?;
        let (files, needs_init) = (ready.files, ready.needs_init());
        let is_plain = files == StreamFiles::default() && !needs_init;
        let given = prepared.filter(|one| one.is_of(plan));
        let of_launcher = match given {
            None if is_plain => self.prepare_once(plan)?,
            _ => None,
        };
        let prepared = given.or(of_launcher.as_deref()).filter(|_| is_plain);
        let seccomp = match prepared {
            Some(prepared) => Arc::clone(&prepared.seccomp),
            None => self.filter_of(plan, files)?,
        };
        let mut held = self.hold(plan)?;
        let wanted = LazyCell::new(|| match prepared {
            Some(prepared) => Arc::clone(&prepared.prelude),
            None => Arc::new(Prelude::of(plan, &seccomp, files, needs_init)),
        });
        let mut ahead = match held.cgroup_to_be_born_in()? {
            Some(cgroup) => self.order_in(cgroup.as_fd())?,
            // A domain that has only its namespaces suits every launch.
            None => self.take_ahead(|done| done.is_empty() || *done == *wanted)?,
        };
        // The one of a launcher for one guest was ordered for this launch: another would fail of the same.
        let has_waited = ahead.has_waited && !self.is_for_one;
        let keeper = self.keeper()?;
        held.tell(plan, &keeper)?;
        let gathered = Gathered::new(plan, (&keeper, self.is_for_one), &held, &mut ahead.domain);
        let gathered = gathered.inspect_err(|error| {
            *failed_before = has_waited && error.is_of_domain();
        })?;
        let listeners = Listeners::of(plan, streams.passed)?;
        let mut network =
            broker::Prepared::of(plan, &self.machine, streams.questions, streams.journal)
                .map_err(LaunchError::Broker)?;
        let message = Message::of(&Contents {
            plan,
            done: &ahead.prelude,
            seccomp: &seccomp,
            streams: &ready,
            terminal: streams.terminal.as_ref(),
            mounts: &gathered.mounts,
            tasks: &gathered.tasks,
            counter: gathered.counter.as_ref(),
            listeners: &listeners,
            temporary: held.temporary(),
            variables: variables(&held, network.as_ref(), &listeners),
        });
        let times = (ahead.domain.ordered_ns, message.send(&ahead.domain.socket)?);
        keeper.confirm()?;
        let mut is_ready = ahead.domain.is_ready() || ahead.prelude.is_empty();
        let parts = ahead.domain.into_parts().map_err(LaunchError::from);
        let (socket, mut parked) = parts.inspect_err(|error| {
            *failed_before = has_waited && error.is_of_domain();
        })?;
        // One that nobody wants is let go before the keeper comes to make it.
        let like_it = parked.next.take();
        let like_it = like_it.filter(|_| self.parks_ahead && ahead.prelude == *wanted);
        // Init has its own, and the guest may run for long.
        drop(message);
        drop((listeners, gathered.mounts, gathered.tasks, gathered.counter));
        // What fails from here on ends it, and waits until nothing of it is left.
        let mut domain = Domain::new(
            Arc::clone(&keeper),
            (socket, parked),
            plan,
            held,
            (
                self.layout_to_keep(plan, prepared),
                self.machine.landlock_abi,
            ),
        );
        // While init works, and before there is a guest that could take away what this needs.
        if let Some(network) = &mut network {
            network.serve(self.parts).map_err(LaunchError::Broker)?;
        }
        let started = await_start(domain.socket(), plan, &mut is_ready);
        let mut started = started.inspect_err(|error| {
            *failed_before = has_waited && !is_ready && !matches!(error, LaunchError::InitGone);
        })?;
        domain.has_started(started.terminal.take(), times, started.words);
        // Not before: the kernel keeps who was woken for this processor until this thread waits.
        if self.parks_ahead {
            let order = (self.park_order(), Arc::clone(&wanted));
            let promise = Promise::of(&domain, like_it, &keeper, &self.pool, order);
            let follow = move |keeper: &_, init: BorrowedFd<'_>| promise.follow(keeper, init);
            domain.followed_by(Successor::new(follow));
        }
        domain.tell_in(streams.journal);
        let served = (network, gathered.maker, streams.journal);
        let domain = self.attend(domain, plan, ready, started, served)?;
        Ok(match self.is_for_one {
            true => domain.last_of_keeper(self.tells_early),
            false => domain,
        })
    }

    /// What is known of the guest's files while it runs. One of many keeps no copies of what lies in them.
    fn layout_to_keep(&self, plan: &Plan, prepared: Option<&Prepared>) -> Option<Arc<Layout>> {
        let layout = plan.layout()?;
        Some(match prepared {
            _ if self.is_for_one => Arc::clone(layout),
            Some(prepared) => Arc::clone(&prepared.kept_layout),
            None => Arc::new(layout.without_contents()),
        })
    }

    /// Begins what serves a running guest: the relays of its streams, and the broker of its network.
    fn attend(
        &self,
        domain: Domain,
        plan: &Plan,
        ready: streams::Ready<'_>,
        started: Started,
        (network, maker, journal): (
            Option<broker::Prepared>,
            Option<Maker>,
            Option<&Arc<Journal>>,
        ),
    ) -> Result<Domain, LaunchError> {
        let Started {
            listener,
            hosts_file,
            namespaces,
            input,
            pairs,
            ..
        } = started;
        // Before there are threads.
        let flow = ready
            .begin(input, pairs, self.parts, self.machine.landlock_abi)
            .map_err(LaunchError::Relay)?;
        let files = namespaces.map(|(user, mounts)| {
            self.files_of(&domain, plan, [user.as_fd(), mounts.as_fd()], journal)
        });
        let files = files.transpose()?.flatten().map(Arc::new);
        let advisor = plan.watched.clone().filter(|_| plan.asks_files);
        let asked = files
            .as_ref()
            .zip(advisor)
            .map(|(files, watched)| (files, Box::new(FileAdvisor(watched)) as Box<dyn Advisor>));
        let broker = listener
            .zip(network.zip(maker))
            .map(|(listener, (network, maker))| {
                let init = (domain.socket(), domain.layout().cloned());
                network.start(
                    listener,
                    hosts_file,
                    broker::Callers::of(plan),
                    init,
                    maker,
                    asked,
                )
            })
            .transpose()
            .map_err(LaunchError::Broker)?;
        domain.held().sweep(plan);
        let domain = domain.with_broker(broker).with_files(files);
        Ok(domain.with_streams(flow))
    }

    /// Who grants a running guest files of the host's. Nobody waits for it: the guest runs.
    fn files_of(
        &self,
        domain: &Domain,
        plan: &Plan,
        namespaces: [BorrowedFd<'_>; 2],
        journal: Option<&Arc<Journal>>,
    ) -> Result<Option<Files>, LaunchError> {
        let Some(layout) = plan.layout() else {
            return Ok(None);
        };
        let host_uid = (plan.tier == Tier::Privileged).then(|| domain.host_uid());
        let holder = Holder::order(&*self.keeper()?, namespaces, host_uid)?;
        Ok(Some(Files::new(holder, layout, &plan.relied, journal)))
    }
}

/// What of the host's a launch passes on or uses.
struct Gathered {
    mounts: mounts::Prepared,
    maker: Option<Maker>,
    /// Of the control groups to join.
    tasks: Vec<OwnedFd>,
    counter: Option<CpuCounter>,
}

impl Gathered {
    fn new(
        plan: &Plan,
        (keeper, is_for_one): (&Arc<Keeper>, bool),
        held: &Held,
        domain: &mut Ordered,
    ) -> Result<Self, LaunchError> {
        let mounts = if mounts::are_needed(plan) {
            keeper.confirm()?;
            mounts::prepare(keeper, plan, domain.parked()?.host_uid)?
        } else {
            mounts::Prepared::default()
        };
        // The keeper has time now, and nobody waits for it.
        let maker = match plan.is_brokered() {
            true => Some(maker_of(plan, held, keeper, is_for_one)?),
            false => None,
        };
        Ok(Self {
            mounts,
            maker,
            tasks: held.cgroups_to_join()?,
            counter: held.cpu_counter()?,
        })
    }
}

/// Those that the plan does not know of.
fn variables(
    held: &Held,
    network: Option<&broker::Prepared>,
    listeners: &Listeners<'_>,
) -> Vec<OsString> {
    let mut variables = held.variables();
    variables.extend(network.into_iter().flat_map(broker::Prepared::environment));
    // The last, as its receiver expects.
    listeners.add_variables(&mut variables);
    variables
}

/// Who opens what the broker must not; and makes the guest's sockets of the host's network, where their memory
/// is limited.
fn maker_of(
    plan: &Plan,
    held: &Held,
    keeper: &Arc<Keeper>,
    is_for_one: bool,
) -> Result<Maker, LaunchError> {
    let need = &plan.held_by_cgroup;
    let memory_bytes = need.memory_bytes.filter(|_| plan.makes_host_sockets());
    let (born_in, tasks) = held.groups_of_ours(memory_bytes.is_some())?;
    let born_in = born_in.as_ref().map(AsFd::as_fd);
    let tasks: Vec<_> = tasks.iter().map(AsFd::as_fd).collect();
    let is_in_group = born_in.is_some() || !tasks.is_empty();
    // A host with many domains has no process for each that its guest may never need.
    if !is_in_group && !is_for_one {
        return Ok(Maker::later(keeper));
    }
    let socket = keeper.order_maker(born_in, &tasks)?;
    Ok(Maker::ordered(socket, memory_bytes, is_in_group))
}

/// What init says when the guest's program runs.
struct Started {
    words: StartedWords,
    terminal: Option<OwnedFd>,
    /// Where the guest's calls on the network arrive.
    listener: Option<OwnedFd>,
    /// The domain's own, open for writing, where it has names whose addresses may change.
    hosts_file: Option<OwnedFd>,
    /// The domain's user and mount namespaces, where files may be granted while it runs.
    namespaces: Option<(OwnedFd, OwnedFd)>,
    /// The input file, as the guest has it.
    input: Option<OwnedFd>,
    /// Sockets in place of streams: our end and the guest's of each.
    pairs: Vec<(OwnedFd, OwnedFd)>,
}

/// `is_ready` becomes true where init says that the prelude is carried out.
fn await_start(socket: &OwnedFd, plan: &Plan, is_ready: &mut bool) -> Result<Started, LaunchError> {
    // Who waits in recvmsg(2) is woken by init's reading the launch message, too (`unix_write_space`), and takes its processor.
    is_ready_by(socket.as_fd(), None);
    let received = receive_record(socket.as_fd()).map_err(LaunchError::Receive)?;
    let (record, mut fds) = received.ok_or(LaunchError::InitGone)?;
    match record.kind {
        wire::INIT_READY => {
            *is_ready = true;
            await_start(socket, plan, is_ready)
        }
        wire::INIT_STARTED => {
            let attached = record.words[started::ATTACHED];
            let mut take = |bit| (attached & bit != 0).then(|| fds.pop_front()).flatten();
            let (terminal, listener) =
                (take(wire::ATTACHED_TERMINAL), take(wire::ATTACHED_LISTENER));
            let hosts_file = take(wire::ATTACHED_FILE);
            let namespaces = take(wire::ATTACHED_NAMESPACES).zip(take(wire::ATTACHED_NAMESPACES));
            let input = take(wire::ATTACHED_INPUT);
            let pairs = (0..record.words[started::PAIRS])
                .map_while(|_| fds.pop_front().zip(fds.pop_front()))
                .collect();
            Ok(Started {
                words: record.words,
                terminal,
                listener,
                hosts_file,
                namespaces,
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
