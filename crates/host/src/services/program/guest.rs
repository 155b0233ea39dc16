//! One process of a program: its start, its lines, its end.

use super::{
    Check, Output, ProgramError, Settings,
    alive::{Meter, Slot, Turn},
    shared::Shared,
};
use crate::{
    client::{Inside, sys::watch_readable},
    config::Rest,
    withheld::{File, is_operators},
};
use palisade_policy::{Capability, ConnectGrant, Policy};
use palisade_process::{Launcher, Machine};
use palisade_wall::{
    Cause, Command, Domain, Ending, Error, Event, Freezer, HandedListener, Report, Spec, Streams,
    Surroundings, TerminalPosition, journal::Journal,
};
use palisade_walls::{Plan, make_plan};
use rustix::{
    fs::{Mode, OFlags},
    io::FdFlags,
    pipe::PipeFlags,
    process::Signal,
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, unix::AsyncFd},
    net::unix::pipe,
    task::JoinHandle,
};

/// How long a program may take to end by itself once it is asked to.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// How long its last lines may take to be passed on.
const LAST_LINES: Duration = Duration::from_secs(1);
/// What a socket is called that the program is given.
const LISTENER_NAME: &str = "http";
/// A longer line comes in parts.
const MOST_LINE_BYTES: usize = 8 << 10;

/// What is started, each time anew: files that were replaced since are found then.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    /// The service's full name.
    name: String,
    command: Command,
    policy: Policy,
    surroundings: Surroundings,
    libexec: Option<PathBuf>,
    /// Asked about each plan.
    check: Option<Arc<dyn Check>>,
}

impl Recipe {
    pub(super) fn new(
        settings: &Settings,
        check: Option<Arc<dyn Check>>,
    ) -> Result<Self, ProgramError> {
        let mut words = settings.program.command.iter();
        let mut command = Command::new(words.next().ok_or(ProgramError::NoCommand)?);
        command.arguments = words.map(Into::into).collect();
        let is_internet = matches!(
            settings.program.direct,
            Some(crate::config::Address::Internet(_))
        );
        Ok(Self {
            name: settings.name.clone(),
            check,
            command,
            policy: settings.policy.clone(),
            surroundings: Surroundings {
                handed: match settings.program.port {
                    Some(_) => Vec::new(),
                    None => vec![HandedListener {
                        name: LISTENER_NAME.into(),
                        internet: is_internet,
                    }],
                },
                inner_port: settings.program.port,
                name: Some(settings.name.to_string()),
                can_freeze: settings.program.rest == Rest::Freeze,
                ..Surroundings::here(false)
            },
            libexec: settings.libexec.clone(),
        })
    }

    /// Every step of a start on this machine. What is checked is what will be mounted: a plan names files by what they
    /// are, and a launch takes nothing else that has come to lie at their paths.
    pub(super) fn plan(&self, machine: &Machine) -> Result<Plan, ProgramError> {
        let plan = make_plan(&Spec {
            policy: &self.policy,
            command: &self.command,
            machine,
            surroundings: &self.surroundings,
            libexec: self.libexec.as_deref(),
        })?;
        self.refuse_operators()?;
        if let Some(check) = &self.check {
            let checked = check.check(&self.name, &self.policy, &plan);
            checked.map_err(ProgramError::Refused)?;
        }
        Ok(plan)
    }

    /// A link may lead to another socket by now than when the configuration was loaded.
    fn refuse_operators(&self) -> Result<(), ProgramError> {
        let granted = self.policy.grants.connect.iter();
        let mut sockets = granted.filter_map(|grant| match grant {
            ConnectGrant::Unix(socket) => Some(&socket.host),
            _ => None,
        });
        let is_operators = |path: &&PathBuf| File::at(path).is_some_and(is_operators);
        match sockets.find(is_operators) {
            None => Ok(()),
            Some(path) => Err(ProgramError::Refused(format!(
                "policy: {} is the socket of this server's operators: grant another one",
                path.display()
            ))),
        }
    }

    /// Starts it. Blocks, for a millisecond or for as long as a compiler takes.
    fn launch(
        &self,
        launcher: &Launcher,
        (streams, journal): (&Ends, Option<&Arc<Journal>>),
    ) -> Result<Box<dyn Domain>, ProgramError> {
        let launched = self.launch_by(launcher, (streams, journal));
        let may_lack = self.policy.allow_degraded.contains(&Capability::Namespaces);
        match launched {
            Err(ProgramError::Wall(error)) if may_lack && error.cause() == Cause::NoNamespaces => {
                self.launch_by(&launcher.without_namespaces(), (streams, journal))
            }
            launched => launched,
        }
    }

    fn launch_by(
        &self,
        launcher: &Launcher,
        (ends, journal): (&Ends, Option<&Arc<Journal>>),
    ) -> Result<Box<dyn Domain>, ProgramError> {
        let plan = self.plan(launcher.machine())?;
        let prepared = plan.prepare(launcher, None)?;
        let passed: Vec<_> = ends.listener.iter().map(AsFd::as_fd).collect();
        let streams = Streams {
            stdin: ends.null.as_fd(),
            stdout: ends.stdout.as_fd(),
            stderr: ends.stderr.as_fd(),
            terminal: None,
            questions: None,
            journal,
            passed: &passed,
        };
        Ok(plan.launch(&prepared, launcher, &streams)?)
    }
}

/// The guest's ends of everything.
struct Ends {
    null: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// `None`: it makes one itself.
    listener: Option<OwnedFd>,
}

/// A running process of a program. Dropping it ends it at once.
#[derive(Debug)]
pub(super) struct Guest {
    domain: Box<dyn Domain>,
    /// Readable when the domain has something to tell.
    news: AsyncFd<OwnedFd>,
    lines: Vec<JoinHandle<()>>,
    overspent: Option<Rc<tokio::sync::Notify>>,
    /// There if it may stand still.
    freezer: Option<Arc<dyn Freezer>>,
    /// Its room, until nothing of it is left.
    slot: Slot,
}

impl Guest {
    /// Starts a process that accepts connections from `listener`, or from a port of its own.
    pub(super) async fn start(
        shared: &Arc<Shared>,
        launcher: &Arc<Launcher>,
        listener: Option<OwnedFd>,
        (slot, turn): (Slot, Turn),
    ) -> Result<Self, ProgramError> {
        if let Some(listener) = &listener {
            // What an earlier one set stays set: it is the socket's, not the descriptor's.
            make_blocking(listener).map_err(ProgramError::Socket)?;
        }
        let (out, stdout) = pipe().map_err(ProgramError::Pipe)?;
        let (err, stderr) = pipe().map_err(ProgramError::Pipe)?;
        let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let ends = Ends {
            null: null.map_err(|errno| ProgramError::Pipe(errno.into()))?,
            stdout,
            stderr,
            listener,
        };
        let launch = {
            let (shared, launcher) = (Arc::clone(shared), Arc::clone(launcher));
            let journal = journal_of(&shared.output);
            move || {
                shared
                    .recipe()?
                    .launch(&launcher, (&ends, journal.as_ref()))
            }
        };
        let launched = within_turn(tokio::task::spawn_blocking(launch), turn).await;
        let domain = launched.map_err(|_| ProgramError::NoSupervisor)??;
        let news = domain.as_fd().try_clone_to_owned();
        let news = news.and_then(watch_readable);
        let budget = Rc::new(Budget {
            left: std::cell::Cell::new(shared.settings.policy.limits.output_bytes),
            spent: Rc::default(),
        });
        let read = |end, is_stderr| {
            let output = Arc::clone(&shared.output);
            tokio::task::spawn_local(relay(end, is_stderr, output, Rc::clone(&budget)))
        };
        let lines = vec![read(out, false), read(err, true)];
        slot.measure(Meter {
            counted: domain.memory_meter().map(Arc::from),
            pid: domain.pid(),
            most_bytes: shared
                .settings
                .policy
                .limits
                .memory_bytes
                .unwrap_or(u64::MAX),
        });
        Ok(Self {
            freezer: domain.freezer().map(Arc::from),
            domain,
            news: news.map_err(ProgramError::Socket)?,
            lines,
            overspent: Some(Rc::clone(&budget.spent)),
            slot,
        })
    }

    /// Its room.
    pub(super) fn slot(&self) -> &Slot {
        &self.slot
    }

    pub(super) fn pid(&self) -> u32 {
        self.domain.pid()
    }

    /// Where it listens at a port of its own.
    pub(super) fn inside(&self, port: u16) -> io::Result<Inside> {
        let network = self.domain.inner_network()?;
        // A plan with such a port has namespaces.
        let network = network.ok_or(io::ErrorKind::Unsupported)?;
        Ok(Inside::new(network, port))
    }

    /// Waits for its end, whatever brings it about.
    pub(super) async fn ends(&mut self) {
        let spent = self.overspent.clone();
        let is_spent = async {
            match &spent {
                Some(spent) => spent.notified().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(is_spent);
        loop {
            tokio::select! {
                event = next_event(&self.news, &mut *self.domain) => {
                    if !matches!(event, Ok(Event::Stopped(_) | Event::Continued | Event::Asked)) {
                        return;
                    }
                }
                () = &mut is_spent, if self.overspent.is_some() => {
                    self.overspent = None;
                    self.domain.end_for_output();
                }
            }
        }
    }

    /// Stops all of it where it is, until [`Guest::thaw`].
    ///
    /// # Errors
    ///
    /// When it would not stop, and goes on; or has ended.
    pub(super) async fn freeze(&self) -> io::Result<()> {
        const PATIENCE: Duration = Duration::from_millis(500);
        let freezer = self.freezer.clone().ok_or(io::ErrorKind::Unsupported)?;
        let frozen = tokio::task::spawn_blocking(move || freezer.freeze(PATIENCE)).await;
        frozen.map_err(io::Error::other)?
    }

    /// Lets all of it go on, whether it was frozen or not.
    pub(super) fn thaw(&self) {
        if let Some(freezer) = &self.freezer {
            // One that has ended needs nothing.
            let _ = freezer.thaw();
        }
    }

    /// Stops its first process's group by a signal, which it may hear of; `false` when it would not stop.
    pub(super) async fn stop(&mut self) -> bool {
        const PATIENCE: Duration = Duration::from_millis(200);
        if self.domain.signal(Signal::STOP.as_raw()).is_err() {
            return false;
        }
        let stopped = next_event(&self.news, &mut *self.domain);
        matches!(
            tokio::time::timeout(PATIENCE, stopped).await,
            Ok(Ok(Event::Stopped(_)))
        )
    }

    /// Lets it go on after that, asked to end or not.
    pub(super) fn go_on(&self, is_to_end: bool) {
        // One that has ended needs neither.
        if is_to_end {
            let _ = self.domain.signal(Signal::TERM.as_raw());
        }
        let _ = self.domain.signal(Signal::CONT.as_raw());
        let _ = self.domain.resume(TerminalPosition::Same);
    }

    /// Asks it to end, and ends it when it does not.
    pub(super) async fn finish(mut self, grace: Duration) -> Result<Report, Error> {
        self.slot.ends();
        self.thaw();
        let _ = self.domain.signal(Signal::TERM.as_raw());
        if tokio::time::timeout(grace, self.ends()).await.is_err() {
            let _ = self.domain.kill();
        }
        self.report().await
    }

    /// Ends it at once.
    pub(super) async fn kill(self) -> Result<Report, Error> {
        self.thaw();
        // It may have ended by itself in the meantime.
        let _ = self.domain.kill();
        self.report().await
    }

    /// Waits until nothing of it is left.
    pub(super) async fn report(self) -> Result<Report, Error> {
        let Self {
            domain,
            news,
            lines,
            slot,
            ..
        } = self;
        slot.ends();
        drop(news);
        let report = tokio::task::spawn_blocking(move || domain.wait()).await;
        drop(slot);
        last_lines(lines).await;
        report.unwrap_or_else(|_| Err(stopped()))
    }
}

/// Where it is told what happens to a process, if somebody wants to know.
fn journal_of(output: &Arc<dyn Output>) -> Option<Arc<Journal>> {
    let output = Arc::clone(output);
    let is_wanted = output.wants_events();
    is_wanted.then(|| Arc::new(Journal::heard_by(move |event| output.event(event))))
}

/// Waits for a launch. One that takes long, for it has something to be compiled, gives its turn to others.
async fn within_turn<T>(launch: JoinHandle<T>, turn: Turn) -> Result<T, tokio::task::JoinError> {
    const LONGEST_TURN: Duration = Duration::from_millis(250);
    tokio::pin!(launch);
    match tokio::time::timeout(LONGEST_TURN, &mut launch).await {
        Ok(launched) => launched,
        Err(_) => {
            drop(turn);
            launch.await
        }
    }
}

/// Waits for what is left in the pipes. Everybody in the domain is gone, and that is all there will be, unless
/// the guest has handed an end of one to somebody outside.
async fn last_lines(mut lines: Vec<JoinHandle<()>>) {
    let rest = async {
        for line in &mut lines {
            let _ = line.await;
        }
    };
    if tokio::time::timeout(LAST_LINES, rest).await.is_err() {
        lines.iter().for_each(JoinHandle::abort);
    }
}

async fn next_event(news: &AsyncFd<OwnedFd>, domain: &mut dyn Domain) -> Result<Event, Error> {
    // Looked at first: what has come already makes no edge any more.
    while !is_readable(domain) {
        let mut told = news.readable().await.map_err(|_| stopped())?;
        told.clear_ready();
    }
    domain.next_event()
}

fn is_readable(domain: &dyn Domain) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut fds = [PollFd::from_borrowed_fd(domain.as_fd(), PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// The runtime stops, and nobody waits for the domain any more.
fn stopped() -> Error {
    Error::new(Cause::Other, "host: the supervisor stops")
}

/// How an end is told of.
pub(super) fn tell(report: &Result<Report, Error>) -> String {
    match report {
        Ok(report) => match report.ending {
            Ending::Guest => format!("ended with {}", report.exit),
            Ending::TimeLimit => "was ended: the time limit".into(),
            Ending::CpuTimeLimit => "was ended: the limit on processor time".into(),
            Ending::OutputLimit => "was ended: the limit on output".into(),
            Ending::MemoryLimit => "was ended: the limit on memory".into(),
            Ending::Supervisor => "was ended".into(),
            Ending::Operator => "was ended by `palisade kill`".into(),
            Ending::Unprotected => {
                "was ended: a protected path was replaced or moved outside".into()
            }
        },
        Err(error) => error.to_string(),
    }
}

fn make_blocking(listener: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(listener)?;
    rustix::fs::fcntl_setfl(listener, flags - OFlags::NONBLOCK)?;
    Ok(rustix::io::fcntl_setfd(listener, FdFlags::CLOEXEC)?)
}

fn pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    Ok((pipe::Receiver::from_owned_fd(reader)?, writer))
}

/// The limit on output, of both streams together.
#[derive(Debug)]
struct Budget {
    left: std::cell::Cell<Option<u64>>,
    spent: Rc<tokio::sync::Notify>,
}

impl Budget {
    fn spend(&self, bytes: usize) {
        let Some(left) = self.left.get() else {
            return;
        };
        if bytes as u64 > left {
            self.spent.notify_one();
        }
        self.left.set(Some(left.saturating_sub(bytes as u64)));
    }
}

/// Passes lines on until the last writer is gone.
async fn relay(
    mut end: pipe::Receiver,
    is_stderr: bool,
    output: Arc<dyn Output>,
    budget: Rc<Budget>,
) {
    let mut held = Vec::new();
    loop {
        if held.is_empty() {
            // Most programs say nothing most of the time, and there may be many.
            held = Vec::new();
            if end.readable().await.is_err() {
                break;
            }
        }
        held.reserve(MOST_LINE_BYTES - held.len());
        match end.read_buf(&mut held).await {
            Ok(0) | Err(_) => break,
            Ok(length) => budget.spend(length),
        }
        let kept = pass_lines(&held, |line| output.line(is_stderr, line));
        held.drain(..kept);
        if held.len() >= MOST_LINE_BYTES {
            output.line(is_stderr, &String::from_utf8_lossy(&held));
            held.clear();
        }
        // One that writes without end must not keep the supervisor from the others.
        tokio::task::yield_now().await;
    }
    if !held.is_empty() {
        output.line(is_stderr, &String::from_utf8_lossy(&held));
    }
}

/// Gives every whole line; returns how many bytes they were.
fn pass_lines(bytes: &[u8], mut pass: impl FnMut(&str)) -> usize {
    let mut done = 0;
    while let Some(length) = bytes[done..].iter().position(|byte| *byte == b'\n') {
        let line = &bytes[done..done + length];
        pass(&String::from_utf8_lossy(
            line.strip_suffix(b"\r").unwrap_or(line),
        ));
        done += length + 1;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_passed_whole() {
        let mut lines = Vec::new();
        let done = pass_lines(b"one\r\n\ntwo\nthr", |line| lines.push(line.to_owned()));
        assert_eq!(
            (done, lines),
            (10, vec!["one".into(), String::new(), "two".into()])
        );
    }

    #[derive(Default)]
    struct Lines(std::sync::Mutex<Vec<String>>);

    impl Lines {
        fn count(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }

    impl Output for Lines {
        fn line(&self, _: bool, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
        fn notice(&self, _: &str) {}
    }

    fn on_thread(act: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, act);
    }

    /// A task that relays what is written to the other end.
    fn relayed(heard: &Arc<Lines>) -> (JoinHandle<()>, OwnedFd) {
        let (out, writer) = pipe().unwrap();
        let budget = Rc::new(Budget {
            left: std::cell::Cell::new(None),
            spent: Rc::default(),
        });
        let relayed = relay(out, false, Arc::clone(heard) as _, budget);
        (tokio::task::spawn_local(relayed), writer)
    }

    #[test]
    fn somebody_outside_who_holds_a_pipe_is_not_waited_for() {
        let heard = Arc::new(Lines::default());
        on_thread(async {
            let (task, outside) = relayed(&heard);
            rustix::io::write(&outside, b"last\n").unwrap();
            last_lines(vec![task]).await;
            drop(outside);
        });
        assert_eq!(*heard.0.lock().unwrap(), ["last"]);
    }

    #[test]
    fn lines_without_end_leave_others_their_turn() {
        const ALL: usize = 60_000;
        let heard = Arc::new(Lines::default());
        on_thread(async {
            let (task, writer) = relayed(&heard);
            assert_eq!(rustix::io::write(&writer, &[b'\n'; ALL]).unwrap(), ALL);
            while heard.count() == 0 {
                tokio::task::yield_now().await;
            }
            assert!(heard.count() < ALL / 2, "{}", heard.count());
            drop(writer);
            task.await.unwrap();
        });
        assert_eq!(heard.count(), ALL);
    }
}
