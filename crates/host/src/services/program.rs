//! Programs behind the process wall, as services.
//!
//! One process, or what it starts, answers for all workers. A thread of its own, the [`Supervisor`]'s, starts
//! and ends it; the path of a request meets no lock and no other thread while the program runs.
//!
//! ```text
//!                    a request waits             started
//!        ┌──▶ Idle ───────────────────▶ Starting ────────▶ Running ◀─▶ answers, is asked for its health
//!        │                                 │  ▲               │ │
//!        │ nobody has asked for            │  │ back-off      │ └─ no response within start_time: ended;
//!        │ idle_time: whoever is inside    │  │ is over       │    unwell too often: replaced
//!        │ is waited for, then             ▼  │               ▼
//!        │ SIGTERM, then SIGKILL         Resting ◀──────── it died
//!        └──────────────────────────────────────────────── Running
//! ```
//!
//! The program finds a listening Unix socket open as descriptor 3, with `LISTEN_FDS=1` and its own pid in
//! `LISTEN_PID`, as systemd passes them (sd_listen_fds(3)), and speaks HTTP/1.1 there. It needs no grant for
//! it. Workers keep connections to it, so that it must serve several at one time, or close each behind its
//! answer. The socket outlives a process that dies: what was queued and not accepted is answered by the next
//! one.
//!
//! **What a request gets.** While the program is not there it waits, for `start_time` at most; when it would
//! take longer, or the program cannot be started at all, it gets 503 and is told when to come again. Cut off
//! by a death it gets 502, unless it is idempotent and has no body to come: then it is sent once more. A
//! program that runs and takes too long, for its first response longer than `start_time`, gives 504.
//!
//! **A program that is not well** is replaced: requests go to the next process, and those inside are given some
//! seconds to finish.
//!
//! **Many programs.** One that nobody has asked for is a value and no more: it is looked after from its first request
//! on. How many run is bounded for all together (`alive`): those used least lately rest for others. Nobody wakes up
//! for one that runs and is idle, but when its `idle_time` is over.
//!
//! **`direct`.** The listener of that address is the program's own: the server binds it, waits for a first
//! connection, and starts the program with that very socket as descriptor 3. From then on no byte
//! passes through the server. The socket stays open here too, so that connections wait while there is no
//! program. It is idle when for `idle_time` it has used no processor time and nobody is connected. What it
//! speaks is its own affair; there are no filters and no health checks. A route may lead to it all the same:
//! workers are clients of that listener then, as any other.
//!
//! **`port`.** The program finds no socket. It binds a port of its own, at the loopback of its domain, which has no other
//! network. Each connection of a worker's is made there with a socket that the domain's init makes and passes
//! out. Requests come once the port answers; connections are one process's, and end with it.
//!
//! | | through the server | `direct` |
//! |---|---|---|
//! | filters, limits of connections, TLS, HTTP/2 | yes | no |
//! | its own speed | less by one more socket | all of it |
//! | requests while it starts or after it died | wait, or are sent once more | connections wait; those it had are gone |

mod alive;
mod back_off;
mod connections;
mod consumption;
mod direct;
mod endpoint;
mod guest;
mod health;
mod life;
mod liveness;
mod service;
mod shared;
mod supervisor;

pub(crate) use endpoint::paths as endpoint_paths;
pub use service::ProgramService;
pub use shared::{ProgramMetrics, State};
pub use supervisor::Supervisor;

use crate::{
    config::{self, Address, FaultBudget},
    stamp::{ExactStamp, Stamp},
};
use palisade_engine::lock::lock;
use palisade_policy::Policy;
use palisade_process::Machine;
use palisade_wall::journal::Entry;
use palisade_walls::Plan;
use shared::Shared;
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
};
use tokio::sync::watch;

/// What a program is and may do.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The service's name.
    pub name: String,
    /// What is run, and when.
    pub program: config::Program,
    /// What it may reach and use. `limits.time` bounds the life of a process: it is started again then.
    pub policy: Policy,
    /// How often it may die.
    pub faults: FaultBudget,
    /// Where worker and compiler lie, for WebAssembly; `None`: in the usual places.
    pub libexec: Option<PathBuf>,
}

/// Where a program's lines go.
pub trait Output: Send + Sync {
    /// A line that the program wrote, as it is, less its end. Longer ones than 8 KiB come in parts. Must
    /// not block.
    fn line(&self, is_stderr: bool, line: &str);

    /// What the supervisor has to say about the program.
    fn notice(&self, text: &str);

    /// Whether [`Output::event`] is to be called.
    fn wants_events(&self) -> bool {
        false
    }

    /// What has happened to a process of it: its start, what it was denied, limits that it has reached, its end. Must not block.
    fn event(&self, event: Entry) {
        let _ = event;
    }
}

/// Who is asked about each start once it is planned: a plan names files, and its launch takes no others in their place.
pub trait Check: std::fmt::Debug + Send + Sync {
    /// Whether the program of this full name may be started by this plan, which was made for this policy.
    ///
    /// # Errors
    /// Why not, whose fault it is and what to do.
    fn check(&self, name: &str, policy: &Policy, plan: &Plan) -> Result<(), String>;
}

/// A program could not be made ready or started.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum ProgramError {
    #[error("policy: the command is empty; name a program")]
    NoCommand,
    #[error(
        "policy: the guest finds no program {0:?}: install it, correct `command`, or grant the folder that it lies in for \
         reading"
    )]
    Missing(String),
    #[error(transparent)]
    Wall(#[from] palisade_wall::Error),
    #[error("{0}")]
    Refused(String),
    #[error("host: cannot make a socket for the program: {0}")]
    Socket(#[source] io::Error),
    #[error("host: cannot listen at {address}: {source}; see who has it")]
    Listen { address: String, source: io::Error },
    #[error("host: cannot make pipes for the program's lines: {0}")]
    Pipe(#[source] io::Error),
    #[error("host: the supervisor's thread has ended")]
    NoSupervisor,
}

/// Files, and which they were.
type Files = Vec<(PathBuf, Option<Stamp>)>;

fn files(plan: &Plan) -> Files {
    plan.fixed_files().into_iter().map(stamped).collect()
}

/// What decides which files those are, as it was when they were looked for.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Where they were looked for.
    looked_for: Vec<(PathBuf, Option<ExactStamp>)>,
    /// What is granted, and what lies there: whatever is in it.
    granted: Vec<(PathBuf, Option<(u64, u64)>)>,
}

impl Seen {
    fn of(plan: &Plan, policy: &Policy) -> Self {
        let looked_for = plan.looked_for().into_iter();
        let files = policy.grants.files.iter().map(|grant| &grant.host);
        let granted = files.chain(&policy.grants.cwd).cloned();
        Self {
            looked_for: looked_for.map(exactly).collect(),
            granted: granted.map(identified).collect(),
        }
    }

    fn is_current(&self) -> bool {
        let mut files = self.looked_for.iter();
        let mut granted = self.granted.iter();
        files.all(|(path, stamp)| ExactStamp::of(path) == *stamp)
            && granted.all(|(path, known)| identity(path) == *known)
    }
}

fn stamped(path: PathBuf) -> (PathBuf, Option<Stamp>) {
    let stamp = Stamp::of(&path);
    (path, stamp)
}

/// Whether it may be executed counts here, too.
fn exactly(path: PathBuf) -> (PathBuf, Option<ExactStamp>) {
    let stamp = ExactStamp::of(&path);
    (path, stamp)
}

fn identified(path: PathBuf) -> (PathBuf, Option<(u64, u64)>) {
    let identity = identity(&path);
    (path, identity)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(path).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// A program as a service, for all workers. Dropping it ends the program once nobody is inside any more.
///
/// Made, opened and begun one after the other: what is only loaded, and may never serve, touches nothing that
/// serves now.
#[derive(Debug)]
pub struct Program {
    shared: Arc<Shared>,
    /// Where clients reach it without the server, once that is open.
    listener: OnceLock<Arc<direct::Listener>>,
    /// What it is started from, as it was when this was planned.
    files: Files,
    seen: Mutex<Seen>,
    /// Its end is the supervisor's sign that nobody needs the program.
    needed: watch::Sender<()>,
}

impl Program {
    /// Plans a program: the policy is checked on this machine, and nothing is changed.
    ///
    /// # Errors
    ///
    /// When the policy cannot be carried out here, or the program is not there.
    pub fn new(
        settings: Settings,
        output: Arc<dyn Output>,
        machine: &Machine,
    ) -> Result<Self, ProgramError> {
        Self::checked(settings, output, machine, None)
    }

    /// The same, and `check` is asked about this plan and that of each start.
    ///
    /// # Errors
    ///
    /// As those of [`Program::new`], and what `check` says.
    pub fn checked(
        settings: Settings,
        output: Arc<dyn Output>,
        machine: &Machine,
        check: Option<Arc<dyn Check>>,
    ) -> Result<Self, ProgramError> {
        let shared = Arc::new(Shared::new(settings, output));
        shared.set_check(check);
        let plan = shared.recipe()?.plan(machine)?;
        let files = files(&plan);
        if files.is_empty() {
            let command = shared.settings.program.command.first();
            return Err(ProgramError::Missing(command.cloned().unwrap_or_default()));
        }
        let seen = Mutex::new(Seen::of(&plan, &shared.settings.policy));
        Ok(Self {
            shared,
            files,
            seen,
            listener: OnceLock::new(),
            needed: watch::Sender::new(()),
        })
    }

    /// Opens its `direct` listener, if it is to have one: before workers are told of the program. One of
    /// `others` that listens at that address shares its own.
    ///
    /// # Errors
    ///
    /// When the address is taken.
    pub fn open<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> Result<(), ProgramError> {
        let Some(address) = &self.settings().program.direct else {
            return Ok(());
        };
        let mut listeners = others.into_iter().filter_map(|other| other.listener.get());
        let shared = listeners
            .find(|listener| listener.asked_for() == address && listener.is_sound())
            .map_or_else(
                || direct::Listener::bind(address).map(Arc::new),
                |listener| Ok(Arc::clone(listener)),
            )?;
        self.listener.get_or_init(|| shared);
        Ok(())
    }

    /// Has this one asked about each start from now on.
    pub fn set_check(&self, check: Option<Arc<dyn Check>>) {
        self.shared.set_check(check);
    }

    /// Has it started when it is asked for, from now on. What its `predecessor` has done and has cost is counted
    /// to it.
    pub fn begin(&self, supervisor: &Supervisor, predecessor: Option<&Self>) {
        if let Some(predecessor) = predecessor {
            self.shared.succeed(&predecessor.shared);
        }
        let listener = self.listener.get().cloned();
        supervisor.look_after(&self.shared, listener, self.needed.subscribe());
    }

    /// What it was made with: one whose settings are the same need not be made anew.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Whether a start would still find the program, and what its arguments name, as it was.
    ///
    /// A plan takes much longer than a look at what decides about these files: one is made only where something of that is
    /// other than it was, or somebody is to be asked about it.
    pub fn is_current(&self, machine: &Machine) -> bool {
        if !self.shared.is_checked() && lock(&self.seen).is_current() {
            return true;
        }
        let recipe = self.shared.recipe().ok();
        let Some(plan) = recipe.and_then(|recipe| recipe.plan(machine).ok()) else {
            return false;
        };
        let is_current = files(&plan) == self.files;
        if is_current {
            *lock(&self.seen) = Seen::of(&plan, &self.settings().policy);
        }
        is_current
    }

    /// What it does, has done and has cost until now.
    pub fn metrics(&self) -> ProgramMetrics {
        self.shared.metrics()
    }

    /// The address of its own listener, for one that the kernel chose a port for.
    pub fn direct_address(&self) -> Option<&Address> {
        self.listener.get().map(|listener| listener.address())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.shared.give_up();
    }
}
