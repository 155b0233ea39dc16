//! A running guest, and the report of its end.

mod report;
mod start;
mod told;

pub(crate) use start::{StartTimes, StartedWords, Successor};

use crate::{
    Tier,
    broker::{Broker, Observed},
    cgroup::{self, Freezer, MemoryMeter},
    clock::monotonic_ns,
    confine::ConfineError,
    denials,
    followed::Followed,
    grants::{
        self, Change, Changed, NOT_GRANTABLE,
        files::{Files, is_of_files},
    },
    held::Held,
    host::ThisHost,
    inside::InnerNetwork,
    keeper::{Keeper, Parked},
    layout::Layout,
    plan::{Plan, Shared, Watched},
    record::{next_record, receive_exactly, receive_record, record_bytes},
    relay::{NAMES, Relay},
    seen::Seen,
    wire::{self, Record, ended},
};
use palisade_wall::{
    Denial, Ending, Enforcement, Event, Had, Report, TerminalPosition,
    journal::{Entry, Journal},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    net::SendFlags,
    process::Signal,
};
use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// How long the end of a domain waits for a slow reader of what its guest wrote to a relayed stream.
const PATIENCE: Duration = Duration::from_secs(3);

/// Within this, giving things up would only hold up the end of a guest that ends at once.
const BRIEFLY: Duration = Duration::from_micros(200);

/// Why a guest's files are as they were at its start.
const NO_FILES: &str = "it is WebAssembly, whose folders are opened at its start, or was not started with --grantable or --ask";

/// The wall failed while a guest ran. The guest is ended then.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DomainError {
    /// The socket to init.
    #[error("wall: cannot talk to the domain: {0}")]
    Talk(#[source] Errno),
    /// Init ended without a word.
    #[error("wall: the domain's init was killed from outside; the guest ended with it")]
    InitGone,
    /// A wall that runs its guests in a program of its own could not run this one.
    #[error("{0}")]
    NotRun(String),
}

/// What a wall built on this one makes of a report.
pub struct ReportHook(Box<MakeOfReport>);

/// Of the report, and of when the domain was ordered, in ns of the monotonic clock.
type MakeOfReport = dyn FnOnce(Report, u64) -> Result<Report, DomainError> + Send + Sync;

impl ReportHook {
    /// Calls `make` with the report, and with when the domain was ordered, in ns of the monotonic clock.
    pub fn new(
        make: impl FnOnce(Report, u64) -> Result<Report, DomainError> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(make))
    }
}

impl fmt::Debug for ReportHook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ReportHook")
    }
}

/// A running guest. Dropping it ends the guest and everything the guest started.
#[derive(Debug)]
pub struct Domain {
    keeper: Arc<Keeper>,
    /// Stream to init.
    socket: Arc<OwnedFd>,
    parked: Parked,
    held: Held,
    terminal: Option<OwnedFd>,
    start: StartTimes,
    command: Vec<String>,
    enforcement: Shared<Vec<Enforcement>>,
    guarded: Vec<PathBuf>,
    layout: Option<Arc<Layout>>,
    /// What init saw.
    seen: Seen,
    last_words: Option<[u64; wire::RECORD_WORDS]>,
    output_limit_reached: bool,
    counted: cgroup::Usage,
    bare: bool,
    landlock_abi: Option<u32>,
    successor: Option<Successor>,
    broker: Option<Broker>,
    observed: Observed,
    watched: Option<Watched>,
    /// Files that are granted while it runs.
    files: Option<Arc<Files>>,
    /// What happens to it is told here.
    journal: Option<Arc<Journal>>,
    told_wall: &'static str,
    /// What it asked for and did not get.
    lost_files: Vec<Denial>,
    /// What it had of granted places.
    had: Vec<Had>,
    /// The input file of which the guest reads a view.
    followed: Option<Followed>,
    relay: Option<Relay>,
    /// The relay that nobody waits for any more.
    left: Option<Relay>,
    report_hook: Option<ReportHook>,
    /// Nobody needs the keeper after this domain.
    is_last: bool,
    /// Its launcher waits for what is left after init's last words.
    is_told_early: bool,
    gone: bool,
    /// When the kernel had ended init, in ns of the monotonic clock; 0 if nobody waited for that.
    gone_ns: u64,
    /// Until when its end waits for a slow reader.
    patience_ends: Option<Instant>,
    /// What came of it, once it has been waited for.
    outcome: Option<Result<Report, DomainError>>,
}

impl Domain {
    pub(crate) fn new(
        keeper: Arc<Keeper>,
        (socket, parked): (OwnedFd, Parked),
        plan: &Plan,
        held: Held,
        (layout, landlock_abi): (Option<Arc<Layout>>, Option<u32>),
    ) -> Self {
        Self {
            keeper,
            socket: Arc::new(socket),
            parked,
            held,
            terminal: None,
            start: StartTimes::default(),
            command: plan.command.clone(),
            enforcement: plan.enforcement.clone(),
            guarded: plan.guarded().to_vec(),
            layout,
            seen: Seen::default(),
            last_words: None,
            output_limit_reached: false,
            counted: cgroup::Usage::default(),
            bare: plan.tier == Tier::Bare,
            landlock_abi,
            successor: None,
            broker: None,
            observed: Observed::default(),
            watched: plan.watched.clone(),
            files: None,
            journal: None,
            told_wall: plan.told_wall,
            lost_files: Vec::new(),
            had: Vec::new(),
            followed: None,
            relay: None,
            left: None,
            report_hook: None,
            is_last: false,
            is_told_early: false,
            gone: false,
            gone_ns: 0,
            patience_ends: None,
            outcome: None,
        }
    }

    /// Its guest's program runs.
    pub(crate) fn has_started(
        &mut self,
        terminal: Option<OwnedFd>,
        ordered_and_sent_ns: (u64, u64),
        words: StartedWords,
    ) {
        self.terminal = terminal;
        self.start = StartTimes::new(&self.parked, ordered_and_sent_ns, words);
    }

    /// Tells of its start, and from now on of what happens.
    pub(crate) fn tell_in(&mut self, journal: Option<&Arc<Journal>>) {
        let Some(journal) = journal else { return };
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since_epoch = since_epoch.unwrap_or_default().as_micros();
        journal.write(Entry::Start {
            time_us: u64::try_from(since_epoch).unwrap_or(u64::MAX),
            id: self.parked.pid,
            wall: self.told_wall.into(),
            command: self.command.clone(),
        });
        self.journal = Some(Arc::clone(journal));
    }

    /// The stream to init.
    pub(crate) fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Where its guest's files come from.
    pub(crate) fn layout(&self) -> Option<&Arc<Layout>> {
        self.layout.as_ref()
    }

    /// What is made on the host for it.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Another one is made after it.
    pub(crate) fn followed_by(&mut self, successor: Successor) {
        self.successor = Some(successor);
    }

    pub(crate) fn with_broker(mut self, broker: Option<Broker>) -> Self {
        self.broker = broker;
        self
    }

    pub(crate) fn with_files(mut self, files: Option<Arc<Files>>) -> Self {
        self.files = files;
        self
    }

    pub(crate) fn with_streams(mut self, flow: (Option<Followed>, Option<Relay>)) -> Self {
        (self.followed, self.relay) = flow;
        self
    }

    pub(crate) fn last_of_keeper(mut self, is_told_early: bool) -> Self {
        // What is held on the host is the keeper's to remove should this process die before it has.
        self.is_last = self.held.is_empty();
        self.is_told_early = is_told_early;
        self
    }

    /// The same domain, whose report will pass through `hook`.
    #[must_use]
    pub fn with_report_hook(mut self, hook: ReportHook) -> Self {
        self.report_hook = Some(hook);
        self
    }

    /// Takes from the keeper, and from the calling thread and all that it starts, what seeing this domain to
    /// its end does not need: programs, processes, sockets, and files but those that are open. It can't be
    /// undone, and its launcher starts no further domain. `listed` are folders, which may be open by `O_PATH`: what
    /// lies below them can still be listed, and not read.
    ///
    /// Nothing is taken where the guest has ended by then, or within 0.2 ms, in which nothing is done: well, with no trace of it
    /// anywhere and nothing left to do for it.
    ///
    /// # Errors
    ///
    /// When the kernel refuses. The thread may have lost something by then.
    pub fn confine_supervisor_to(&self, listed: &[BorrowedFd<'_>]) -> Result<(), ConfineError> {
        if self.is_last && self.is_told_early {
            self.keeper.keep_network_of(self.parked.pidfd.as_fd());
        }
        if self.ends_without_trace_by(Instant::now() + BRIEFLY) {
            return Ok(());
        }
        let kept = self.held.kept().and_list(listed.iter().copied());
        let walls = kept.walls(self.landlock_abi)?;
        if let Some(broker) = &self.broker {
            broker.settle().map_err(ConfineError::Settle)?;
        }
        walls.around_keeper(&self.keeper)?;
        walls.around_this_thread()
    }

    /// The master end of the guest's terminal, once.
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Hangs up once all that the guest wrote to relayed streams ([`palisade_wall::Streams`]) has reached the outside,
    /// after [`Event::Ended`]; `None` where nothing is relayed. [`Domain::wait`] waits for it as well, but for
    /// a few seconds only: whoever is to read it may not.
    pub fn relayed(&self) -> Option<BorrowedFd<'_>> {
        self.relay.as_ref().map(Relay::done)
    }

    /// Leaves off waiting for that. It goes on for as long as this domain, and what is a thread for as long as
    /// this process lives.
    pub fn leave_relayed(&mut self) {
        self.left = self.relay.take();
    }

    /// The stream of which not everything could be written outside, and why.
    pub fn relay_failure(&self) -> Option<(&'static str, Errno)> {
        let (number, errno) = self.relay.as_ref()?.failure()?;
        Some((NAMES[number], errno))
    }

    /// Pid of the domain's first process, on the host.
    pub fn pid(&self) -> u32 {
        self.parked.pid
    }

    /// The same, and when the keeper began to make it, in ns of the monotonic clock.
    pub(crate) fn made(&self) -> (u32, u64) {
        (self.parked.pid, self.parked.made_ns.0)
    }

    /// Whom its guest runs as on the host.
    pub(crate) fn host_uid(&self) -> u32 {
        self.parked.host_uid
    }

    /// Its own network, where it has one.
    ///
    /// # Errors
    ///
    /// When there are no more descriptors.
    pub fn inner_network(&self) -> std::io::Result<Option<InnerNetwork>> {
        let socket = (!self.bare).then(|| Arc::clone(&self.socket));
        Ok(socket.map(InnerNetwork::new))
    }

    /// What tells its memory, where a group counts it.
    pub fn memory_meter(&self) -> Option<MemoryMeter> {
        self.held.memory_meter()
    }

    /// What stops all of it where it is, if it was started so that it can be.
    pub fn freezer(&self) -> Option<Freezer> {
        self.held.freezer()
    }

    /// Sends the guest's process group a signal.
    ///
    /// # Errors
    ///
    /// When the domain has ended.
    pub fn signal(&self, number: i32) -> Result<(), DomainError> {
        self.send(wire::DOMAIN_SIGNAL, number as u64)
    }

    /// Continues the guest's process group, at this position on its terminal from then on.
    /// [`Event::Continued`] answers.
    ///
    /// # Errors
    ///
    /// When the domain has ended.
    pub fn resume(&self, position: TerminalPosition) -> Result<(), DomainError> {
        let place = match position {
            TerminalPosition::Same => wire::PLACE_SAME,
            TerminalPosition::Foreground => wire::PLACE_FRONT,
            TerminalPosition::Background => wire::PLACE_BACKGROUND,
        };
        self.send(wire::DOMAIN_CONTINUE, place)
    }

    /// Ends the guest and everything it started.
    ///
    /// # Errors
    ///
    /// When the domain has ended.
    pub fn kill(&self) -> Result<(), DomainError> {
        self.send(wire::DOMAIN_KILL, 0)
    }

    /// Ends the guest because it wrote more than it may.
    pub fn end_for_output(&mut self) {
        self.output_limit_reached = true;
        if let Some(Ok(report)) = &mut self.outcome {
            report.ending = Ending::OutputLimit;
            report.exit_code = report.ending.shell_code(report.exit);
        }
        // It may have ended by itself in the meantime; the report names the limit all the same.
        let _ = self.kill();
    }

    fn send(&self, kind: u64, word: u64) -> Result<(), DomainError> {
        let bytes = record_bytes(kind, &[word]);
        rustix::net::send(&*self.socket, &bytes, SendFlags::NOSIGNAL)
            .map(drop)
            .map_err(DomainError::Talk)
    }

    /// Waits for the next thing to happen. [`Domain::as_fd`] tells when this does not block.
    ///
    /// # Errors
    ///
    /// When init cannot be talked to.
    pub fn next_event(&mut self) -> Result<Event, DomainError> {
        if self.last_words.is_some() {
            return Ok(Event::Ended);
        }
        let received = receive_record(self.socket.as_fd()).map_err(DomainError::Talk)?;
        if let Some((record, sessions)) = &received
            && record.kind == wire::INIT_ASKED
        {
            sessions.iter().for_each(|session| self.answer(session));
            return Ok(Event::Asked);
        }
        let event = self.understand(received.map(|(record, _)| record));
        if let (Event::Ended, Some(relay)) = (event, &self.relay) {
            relay.stop();
        }
        Ok(event)
    }

    /// Somebody asks for grants who did not start the domain.
    fn answer(&self, session: &OwnedFd) {
        grants::answer(session, |change| self.change(change));
    }

    /// Grants more, or takes back what was granted so.
    pub(crate) fn change(&self, change: &Change) -> Changed {
        let Some(broker) = &self.broker else {
            return Changed::refused(change, NOT_GRANTABLE);
        };
        let part = |flags: &[String], of_files| {
            let part = flags.iter().filter(|flag| is_of_files(flag) == of_files);
            part.cloned().collect::<Vec<_>>()
        };
        let of = |of_files| Change {
            grant: part(&change.grant, of_files),
            revoke: part(&change.revoke, of_files),
        };
        let mut changed = broker.change(&of(false));
        changed.extend(self.change_files(&of(true)));
        changed
    }

    fn change_files(&self, change: &Change) -> Changed {
        let Some(files) = &self.files else {
            return Changed::refused(change, NO_FILES);
        };
        let given = change
            .grant
            .iter()
            .map(|flag| (flag, files.give(flag, &ThisHost)));
        let taken = change
            .revoke
            .iter()
            .map(|flag| (flag, files.take_back(flag)));
        let changed = Changed::of(given.chain(taken));
        if let Some(broker) = &self.broker {
            broker.files_changed(files);
        }
        changed
    }

    fn understand(&mut self, record: Option<Record>) -> Event {
        match record {
            Some(record) if record.kind == wire::INIT_STOPPED => {
                Event::Stopped(record.words[0] as i32)
            }
            Some(record) if record.kind == wire::INIT_CONTINUED => Event::Continued,
            Some(record) if record.kind == wire::INIT_ENDED => {
                self.last_words = Some(record.words);
                self.seen = self.receive_seen(&record.words);
                if self.is_last {
                    // While init leaves too, rather than after it.
                    self.keeper.leave_to_this(self.parked.pidfd.as_fd());
                }
                Event::Ended
            }
            // Init is gone without a word; what became of it shows when the domain is gone too.
            _ => Event::Ended,
        }
    }

    /// What follows the last record. If init has none to say any more, nothing was seen.
    fn receive_seen(&self, words: &[u64; wire::RECORD_WORDS]) -> Seen {
        let count = usize::try_from(words[ended::SEEN]).unwrap_or(0);
        let mut entries = vec![0; count.min(wire::seen::MOST) * wire::seen::ENTRY_BYTES];
        let received = receive_exactly(self.socket.as_fd(), &mut entries);
        match received {
            Ok(()) => Seen::read(&entries, words[ended::MORE]),
            Err(_) => Seen::default(),
        }
    }

    /// Waits until the guest has ended and nothing of the domain is left, then reports. Of a launcher that parks ahead
    /// ([`Launcher::park_ahead`](crate::Launcher::park_ahead)) the domain's first process, which is palisade's, may
    /// still be ending then, and with it what the guest had mounted.
    ///
    /// # Errors
    ///
    /// When the domain was ended from outside, or the wall's own program could not run the guest.
    pub fn wait(mut self) -> Result<Report, DomainError> {
        if let Some(outcome) = self.outcome.take() {
            return outcome;
        }
        while self.next_event()? != Event::Ended {}
        self.conclude()
    }

    /// Waits for that, no longer than `most`; `None` while the guest runs. It takes what [`Domain::next_event`] would
    /// give. What it has told once, the report or why there is none, it tells again.
    ///
    /// # Errors
    ///
    /// As [`Domain::wait`].
    pub fn wait_timeout(&mut self, most: Duration) -> Result<Option<Report>, DomainError> {
        // Later than any clock gets is never.
        let deadline = Instant::now().checked_add(most);
        if self.outcome.is_none() {
            if !self.is_gone_by(deadline)? {
                return Ok(None);
            }
            self.outcome = Some(self.conclude());
        }
        self.outcome.clone().transpose()
    }

    /// Waits until nothing is left to wait for, or it is too late.
    fn is_gone_by(&mut self, deadline: Option<Instant>) -> Result<bool, DomainError> {
        while self.last_words.is_none() {
            if !is_ready_by(self.socket.as_fd(), deadline) {
                return Ok(false);
            }
            // Also where init is gone without a word.
            if self.next_event()? == Event::Ended {
                break;
            }
        }
        if let Some(broker) = &mut self.broker {
            broker.dismiss();
        }
        let is_gone = self.leaves_alone() || is_ready_by(self.parked.pidfd.as_fd(), deadline);
        Ok(is_gone && self.is_relayed_by(deadline))
    }

    /// Whether what is left ends by itself, and this need not wait for it: init has reaped all others, and nothing on the host
    /// is to be removed. A launcher that parks ahead has the keeper wait for it; one for a single guest waits when it is
    /// dropped.
    fn leaves_alone(&self) -> bool {
        let is_waited_for = self.successor.is_some() || (self.is_last && self.is_told_early);
        is_waited_for
            && self.last_words.is_some()
            && !self.bare
            && self.held.is_empty()
            && self.broker.is_none()
            && self.files.is_none()
    }

    /// Whether the guest ends until then, and all that is left to do is to tell that: it has succeeded, was refused nothing that
    /// anybody is told of, and has nothing on the host that is read, looked at or removed.
    fn ends_without_trace_by(&self, deadline: Instant) -> bool {
        let is_alone = self.is_last
            && !self.bare
            && self.broker.is_none()
            && self.files.is_none()
            && self.watched.is_none()
            && self.relay.is_none()
            && self.followed.is_none();
        let has_ended_well = |record: Record| {
            let told = [ended::REASON, ended::STATUS, ended::SEEN, ended::MORE];
            record.kind == wire::INIT_ENDED
                && told.map(|word| record.words[word]) == [wire::REASON_GUEST, 0, 0, 0]
        };
        is_alone
            && is_ready_by(self.socket.as_fd(), Some(deadline))
            && next_record(self.socket.as_fd()).is_some_and(has_ended_well)
    }

    /// Whether all has been passed on, or whoever is to read it had the time.
    fn is_relayed_by(&mut self, deadline: Option<Instant>) -> bool {
        let enough = self.patience_ends();
        let Some(relay) = &self.relay else {
            return true;
        };
        relay.stop();
        let until = deadline.map_or(enough, |deadline| deadline.min(enough));
        is_ready_by(relay.done(), Some(until)) || Instant::now() >= enough
    }

    fn patience_ends(&mut self) -> Instant {
        *self
            .patience_ends
            .get_or_insert_with(|| Instant::now() + PATIENCE)
    }

    /// Takes down what is left, and reports.
    fn conclude(&mut self) -> Result<Report, DomainError> {
        // While the kernel takes the domain down.
        if let Some(broker) = &mut self.broker {
            broker.dismiss();
        }
        self.finish();
        self.look_for_files();
        let report = match self.last_words {
            Some(words) => self.report(&words),
            // The kernel ends init too when the domain is out of memory: on version 2 all of its
            // group, on version 1 whom it chooses.
            None if self.ran_out_of_memory() => self.report(&killed_words()),
            None => return Err(DomainError::InitGone),
        };
        let report = match self.report_hook.take() {
            Some(ReportHook(make)) => make(report, self.start.ordered_ns)?,
            None => report,
        };
        if let Some(journal) = &self.journal {
            told::tell_of_end(journal, &report, (&self.seen, self.layout.as_deref()));
        }
        Ok(report)
    }

    /// What of the files that a watched guest asked for the host has.
    fn look_for_files(&mut self) {
        let grown = self.files.as_ref().map(|files| files.layout());
        let layout = grown.as_ref().or(self.layout.as_deref());
        if let (Some(watched), Some(layout)) = (&self.watched, layout) {
            let mut notes = std::mem::take(&mut self.observed.files);
            self.had = notes.take_had();
            self.lost_files = denials::of_files(notes, layout, watched);
        }
    }

    /// Waits for the last process and removes what was made on the host.
    fn finish(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        if !self.leaves_alone() {
            is_ready_by(self.parked.pidfd.as_fd(), None);
            self.gone_ns = monotonic_ns();
        }
        self.finish_streams();
        if let Some(broker) = &mut self.broker {
            self.observed = broker.finish();
        }
        if let Some(files) = &self.files {
            self.observed.granted.extend(files.finish());
            let granted = &mut self.observed.granted;
            granted.sort_by_key(|granted| granted.at_us);
        }
        self.counted = self.held.usage(self.watched.is_some());
        self.held.remove();
        if let Some(successor) = self.successor.take() {
            successor.follow(&self.keeper, self.parked.pidfd.as_fd());
        }
    }

    fn finish_streams(&mut self) {
        let enough = self.patience_ends();
        if let Some(relay) = &self.relay {
            relay.stop();
            relay.wait(enough.saturating_duration_since(Instant::now()));
        }
        if let Some(followed) = self.followed.take() {
            followed.catch_up();
        }
    }
}

impl AsFd for Domain {
    /// Readable when [`Domain::next_event`] has something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if !self.gone {
            // Without a pid namespace only init knows what else to end, so it is asked.
            if self.bare {
                let _ = self.kill();
            } else {
                let _ = rustix::process::pidfd_send_signal(&self.parked.pidfd, Signal::KILL);
            }
            self.finish();
        }
    }
}

/// Waits until it can be read, or it is too late; `None` is never.
pub(crate) fn is_ready_by(fd: BorrowedFd<'_>, deadline: Option<Instant>) -> bool {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        match rustix::event::poll(&mut fds, left.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return ready == Ok(1),
        }
    }
}

fn killed_words() -> [u64; wire::RECORD_WORDS] {
    let mut words = [0; wire::RECORD_WORDS];
    words[ended::STATUS] = Signal::KILL.as_raw() as u64;
    words[ended::GUEST_END_NS] = monotonic_ns();
    words[ended::REAPED_NS] = words[ended::GUEST_END_NS];
    words
}
