//! One launch: start, read, look while the guest holds, wait, look again.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};

use super::Order;
use crate::fixtures::{Fixture, Fixtures, Layout};
use crate::outcome::Outcome;
use crate::process::Process;
use crate::witness::{Run, Scene, Witness};

/// How much of stderr is reported; of all output, where both go to a terminal.
const KEPT_STDERR_BYTES: usize = 2_000;
/// What the launcher's end may take to reach its last process and its pipes.
const GRACE: Duration = Duration::from_millis(300);
/// How long an effect is looked for that the guest believes in; the fixtures pause between their own looks.
const BELIEVED_TIME: Duration = Duration::from_millis(500);

enum Event {
    Output(Vec<u8>),
    OutputClosed,
    Ended(ExitStatus),
}

/// A started launcher.
struct Launched {
    pid: Pid,
    started: Instant,
    deadline: Instant,
    events: Receiver<Event>,
    /// Closing it lets the guest go on.
    stdin: Option<ChildStdin>,
}

pub(super) fn run_once(
    layout: &Layout,
    fixtures: &Fixtures,
    order: &Order,
    words: &[String],
    processes_before: usize,
) -> io::Result<Outcome> {
    let errors = layout.path("{case}/stderr");
    let mut launched = launch(layout, fixtures, order, words, &errors)?;
    let mut run = Run {
        launcher: launched.pid.as_raw_pid(),
        ..Run::default()
    };
    let mut seen = false;
    while let Some(event) = launched.next_event() {
        let was_held = run.held;
        note(&mut run, event, launched.started);
        if run.held && !was_held {
            seen = order.attack.witness.seen_while_held(&Scene {
                layout,
                fixtures,
                run: &run,
                processes_before,
            });
            if order.attack.fixtures.contains(&Fixture::LauncherDies) {
                launched.kill()?;
            }
            launched.stdin = None;
        }
        if run.exit_code.is_some() {
            break;
        }
    }
    launched.conclude(&mut run, &layout.nonce);
    let scene = Scene {
        layout,
        fixtures,
        run: &run,
        processes_before,
    };
    seen |= seen_at_last(order.attack.witness, &scene);
    Ok(outcome(&run, seen, layout, &errors))
}

/// Whether the witness sees something. A guest that believes in its success is looked after again and again:
/// what it sent may be under way on a machine that has much to do.
fn seen_at_last(witness: Witness, scene: &Scene<'_>) -> bool {
    let until = Instant::now() + BELIEVED_TIME;
    loop {
        if witness.seen_afterwards(scene) {
            return true;
        }
        let believes = scene.run.exit_code == Some(0) && witness.is_a_message();
        if !believes || Instant::now() > until {
            return false;
        }
    }
}

fn outcome(run: &Run, seen: bool, layout: &Layout, errors: &Path) -> Outcome {
    Outcome {
        begun: run.said(&format!("begin {}", layout.nonce)),
        seen,
        exit_code: run.exit_code,
        lasted_ms: run.lasted_ms,
        survivors: run.survivors,
        stderr: fs::read(errors).map_or_else(|_| tail_of(&run.output), |bytes| tail_of(&bytes)),
        command: String::new(),
    }
}

impl Launched {
    /// The next event; none once the deadline passed.
    fn next_event(&self) -> Option<Event> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.events.recv_timeout(left).ok()
    }

    /// Ends the launcher without a chance to clean up.
    fn kill(&self) -> io::Result<()> {
        Ok(kill_process(self.pid, Signal::KILL)?)
    }

    /// After the launcher's end, or at the deadline: what is left?
    fn conclude(mut self, run: &mut Run, nonce: &str) {
        self.stdin = None;
        if run.exit_code.is_none() {
            run.lasted_ms = elapsed_ms(self.started);
            // It may have ended this very moment.
            let _ = kill_process(self.pid, Signal::KILL);
        }
        self.deadline = Instant::now() + GRACE;
        while !run.output_closed {
            match self.next_event() {
                // Killed by the warden is not how it ended.
                Some(Event::Ended(_)) => {}
                Some(event) => note(run, event, self.started),
                None => break,
            }
        }
        run.survivors = survivors(nonce, self.deadline);
    }
}

fn note(run: &mut Run, event: Event, started: Instant) {
    match event {
        Event::Output(bytes) => run.note_output(&bytes),
        Event::OutputClosed => run.output_closed = true,
        Event::Ended(status) => {
            run.exit_code = Some(exit_code(status));
            run.lasted_ms = elapsed_ms(started);
        }
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// The guest's processes that are alive at the deadline.
fn survivors(nonce: &str, deadline: Instant) -> usize {
    loop {
        let alive = Process::marked(nonce)
            .into_iter()
            .filter(|p| p.is_alive())
            .count();
        if alive == 0 || Instant::now() >= deadline {
            return alive;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn elapsed_ms(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn launch(
    layout: &Layout,
    fixtures: &Fixtures,
    order: &Order,
    words: &[String],
    errors: &Path,
) -> io::Result<Launched> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command.env("XDG_CACHE_HOME", layout.cache(order.user));
    surround(&mut command, layout, order.attack.fixtures);
    if !order.tool.lacks_namespaces() {
        layout.as_user(&mut command);
    }
    let terminal = order
        .attack
        .fixtures
        .contains(&Fixture::Terminal)
        .then(|| Terminal::open(layout))
        .transpose()?;
    match &terminal {
        // It leads a session of its own.
        Some(terminal) => terminal.give_to(&mut command)?,
        None => {
            // Never the warden's own group: signals to a group must not reach it.
            command.process_group(fixtures.group_to_join().unwrap_or(0));
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(File::create(errors)?);
        }
    }
    start(
        command,
        terminal,
        Duration::from_millis(order.attack.deadline_ms) * patience(),
    )
}

/// What a user's shell has set for the launcher.
fn surround(command: &mut Command, layout: &Layout, fixtures: &[Fixture]) {
    for fixture in fixtures {
        match fixture {
            Fixture::Variable(name, value) => drop(command.env(name, layout.expand(value))),
            Fixture::StartedIn(folder) => drop(command.current_dir(layout.path(folder))),
            _ => {}
        }
    }
}

/// How many times longer than usual a run may take: `PALISADE_SUITE_PATIENCE`, for machines that
/// are emulated.
fn patience() -> u32 {
    let asked = env::var("PALISADE_SUITE_PATIENCE");
    asked.ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

fn start(mut command: Command, terminal: Option<Terminal>, time: Duration) -> io::Result<Launched> {
    let mut child = command.spawn()?;
    let started = Instant::now();
    let pid = Pid::from_child(&child);
    let stdin = child.stdin.take();
    let (sender, events) = channel();
    match (child.stdout.take(), terminal) {
        (Some(output), _) => read_all(output, sender.clone()),
        (None, Some(terminal)) => read_all(terminal.master, sender.clone()),
        (None, None) => {}
    }
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            // Nobody listens any more once the verdict is made.
            let _ = sender.send(Event::Ended(status));
        }
    });
    Ok(Launched {
        pid,
        started,
        deadline: started + time,
        events,
        stdin,
    })
}

fn read_all(mut output: impl Read + Send + 'static, events: Sender<Event>) {
    thread::spawn(move || {
        let mut bytes = vec![0; 65_536];
        // A terminal's master reads EIO once every slave is closed.
        while let Ok(length @ 1..) = output.read(&mut bytes) {
            if events
                .send(Event::Output(bytes[..length].to_vec()))
                .is_err()
            {
                return;
            }
        }
        let _ = events.send(Event::OutputClosed);
    });
}

/// A terminal for a launcher that is started from a shell.
struct Terminal {
    master: File,
    slave: PathBuf,
}

impl Terminal {
    fn open(layout: &Layout) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = PathBuf::from(name.to_string_lossy().into_owned());
        layout.give_away(&slave)?;
        Ok(Self {
            master: File::from(master),
            slave,
        })
    }

    fn give_to(&self, command: &mut Command) -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let no_ctty = rustix::fs::OFlags::NOCTTY.bits().cast_signed();
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(no_ctty)
            .open(&self.slave)?;
        command
            .stdin(slave.try_clone()?)
            .stdout(slave.try_clone()?)
            .stderr(slave);
        Ok(())
    }
}

fn tail_of(bytes: &[u8]) -> String {
    let start = bytes.len().saturating_sub(KEPT_STDERR_BYTES);
    String::from_utf8_lossy(&bytes[start..]).into_owned()
}
