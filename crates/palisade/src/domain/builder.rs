//! The builder: a policy and a command, step by step.

use super::asks::Asks;
use crate::{Capability, Domain, Error, Launcher, Machine, Profile, Report, Stdio, stdio::Null};
use palisade_policy::{
    Access, ConnectGrant, DeviceGrant, EnvGrant, FileGrant, ListenGrant, Policy,
};
use palisade_wall::{
    Cause, Command, Error as WallError, Plan, Prepared as Ready, Spec, Streams, Surroundings,
    ask::{Question, Verdict},
};
use palisade_walls::make_plan_for;
use palisade_wasm::programs::refuse_reach_of_found;
use std::{
    ffi::{OsStr, OsString},
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

/// A guest to be: what to run, what it may reach, what it may use.
///
/// Relative paths are taken from this process's working directory when [`Builder::spawn`] runs.
#[derive(Debug)]
#[must_use = "nothing runs until it is spawned"]
pub struct Builder {
    policy: Policy,
    command: Command,
    name: Option<String>,
    watches: bool,
    grantable: bool,
    asks: Option<Asks>,
    stdin: Stdio,
    stdout: Stdio,
    stderr: Stdio,
    launcher: Option<Arc<Launcher>>,
    libexec: Option<PathBuf>,
    caches: Option<PathBuf>,
}

impl Builder {
    pub(crate) fn new(program: OsString) -> Self {
        Self {
            policy: Policy::default(),
            command: Command::new(program),
            name: None,
            watches: false,
            grantable: false,
            asks: None,
            stdin: Stdio::null(),
            stdout: Stdio::inherit(),
            stderr: Stdio::inherit(),
            launcher: None,
            libexec: None,
            caches: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arguments.push(argument.as_ref().into());
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, arguments: I) -> Self {
        self.command.arguments.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().into()),
        );
        self
    }

    /// What the domain is called among those that run: `palisade ps` shows it, and `palisade kill` and `palisade exec` take
    /// it in place of an id.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Puts this policy in place of everything granted and limited so far.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Lets the guest read and execute a file or folder, under the same path inside.
    pub fn read(self, path: impl AsRef<Path>) -> Self {
        self.grant(Access::Read, path.as_ref(), None)
    }

    /// The same, and nothing if it does not exist.
    pub fn read_if_there(self, path: impl AsRef<Path>) -> Self {
        self.grant(Access::ReadIfThere, path.as_ref(), None)
    }

    /// Lets the guest read and execute `path`, which it sees as `guest`; as `/`, it is the guest's root.
    pub fn read_as(self, path: impl AsRef<Path>, guest: impl Into<PathBuf>) -> Self {
        self.grant(Access::Read, path.as_ref(), Some(guest.into()))
    }

    /// Lets the guest read and write a file or folder. What it writes there it can't execute.
    pub fn write(self, path: impl AsRef<Path>) -> Self {
        self.grant(Access::Write, path.as_ref(), None)
    }

    /// Lets the guest read and write `path`, which it sees as `guest`; as `/`, it is the guest's root.
    pub fn write_as(self, path: impl AsRef<Path>, guest: impl Into<PathBuf>) -> Self {
        self.grant(Access::Write, path.as_ref(), Some(guest.into()))
    }

    /// Keeps a path inside a writable folder as it is, also if it does not exist yet. The path is
    /// the guest's.
    pub fn protect(self, path: impl AsRef<Path>) -> Self {
        self.grant(Access::Protect, path.as_ref(), None)
    }

    /// Keeps a path from a guest that sees the folder around it: nothing is there. The path is the guest's, and may be a pattern
    /// such as `/work/**/*.pem` ([`palisade_policy::Pattern`]).
    pub fn hide(self, path: impl AsRef<Path>) -> Self {
        self.grant(Access::Hide, path.as_ref(), None)
    }

    /// Lets the guest execute what it writes below a writable path. The path is the guest's.
    pub fn exec(self, path: impl AsRef<Path>) -> Self {
        self.grant(Access::Exec, path.as_ref(), None)
    }

    /// Lets the guest make sockets and FIFOs below a writable path. The path is the guest's.
    pub fn ipc(self, path: impl AsRef<Path>) -> Self {
        self.grant(Access::Ipc, path.as_ref(), None)
    }

    fn grant(mut self, access: Access, path: &Path, guest: Option<PathBuf>) -> Self {
        self.policy.grants.files.push(FileGrant {
            access,
            host: path.into(),
            guest,
        });
        self
    }

    /// Sets an environment variable. Besides these a native guest has a short list: `PATH`, `HOME`,
    /// `USER` and the language. WebAssembly has none.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.policy.grants.env.push(EnvGrant {
            name: name.into(),
            value: Some(value.into()),
        });
        self
    }

    /// Passes a variable of this process on, if it is set.
    pub fn inherit_env(mut self, name: impl Into<String>) -> Self {
        self.policy.grants.env.push(EnvGrant {
            name: name.into(),
            value: None,
        });
        self
    }

    /// The guest's working directory, a path inside the domain.
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.policy.grants.cwd = Some(path.into());
        self
    }

    /// Lets the guest use a device node; the path `pts` stands for terminals of its own.
    pub fn device(mut self, path: impl Into<PathBuf>) -> Self {
        self.policy
            .grants
            .devices
            .push(DeviceGrant { path: path.into() });
        self
    }

    /// Lets the guest connect to a host, by a name, an address or a network, or to a socket file:
    ///
    /// ```
    /// use palisade::Domain;
    ///
    /// let guest = Domain::builder("curl")
    ///     .connect("tcp://example.com:443".parse()?)
    ///     .connect("unix:/run/postgresql/.s.PGSQL.5432".parse()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect(mut self, grant: ConnectGrant) -> Self {
        self.policy.grants.connect.push(grant);
        self
    }

    /// Lets the guest listen at an address of the host's, as `"tcp://127.0.0.1:8080".parse()?`.
    pub fn listen(mut self, grant: ListenGrant) -> Self {
        self.policy.grants.listen.push(grant);
        self
    }

    /// Hides the system's programs and libraries: for static programs.
    pub fn no_system(mut self) -> Self {
        self.policy.grants.system = false;
        self
    }

    /// Leaves git's hooks and settings in checkouts that are granted for writing to the guest.
    pub fn no_guard(mut self) -> Self {
        self.policy.grants.guard = false;
        self
    }

    /// Adds what a runtime needs.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.policy.grants.profiles.insert(profile);
        self
    }

    /// Memory of the whole domain, in bytes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.policy.limits.memory_bytes = Some(bytes);
        self
    }

    /// Processors, fractional: 0.5 is half of one.
    pub fn cpu(mut self, cores: f64) -> Self {
        self.policy.limits.cpu_cores = Some(cores);
        self
    }

    /// Processes and threads at one time.
    pub fn processes(mut self, count: u32) -> Self {
        self.policy.limits.processes = Some(count);
        self
    }

    /// Open files of each process.
    pub fn files(mut self, count: u64) -> Self {
        self.policy.limits.files = Some(count);
        self
    }

    /// Largest file the guest may write, in bytes.
    pub fn file_size(mut self, bytes: u64) -> Self {
        self.policy.limits.file_size_bytes = Some(bytes);
        self
    }

    /// Size of the private `/tmp` and `/dev/shm` together, in bytes.
    pub fn tmp_size(mut self, bytes: u64) -> Self {
        self.policy.limits.tmp_size_bytes = Some(bytes);
        self
    }

    /// Wall-clock time from start to end.
    pub fn time(mut self, time: Duration) -> Self {
        self.policy.limits.time = Some(time);
        self
    }

    /// Processor time of the whole domain.
    pub fn cpu_time(mut self, time: Duration) -> Self {
        self.policy.limits.cpu_time = Some(time);
        self
    }

    /// Bytes of stdout and stderr together, held by [`Domain::wait_with_output`]. Both are to be piped or
    /// [`Stdio::null`]: what goes elsewhere nobody counts, and a start is refused.
    pub fn output(mut self, bytes: u64) -> Self {
        self.policy.limits.output_bytes = Some(bytes);
        self
    }

    /// Goes on where this machine can enforce only less of a capability; the report says how much.
    pub fn allow_degraded(mut self, capability: Capability) -> Self {
        self.policy.allow_degraded.insert(capability);
        self
    }

    /// The guest's standard input; [`Stdio::null`] if this is not called.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// The guest's standard output; [`Stdio::inherit`] if this is not called.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = stdout.into();
        self
    }

    /// The guest's standard error; [`Stdio::inherit`] if this is not called.
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stderr = stderr.into();
        self
    }

    /// Starts the guest with a launcher of the caller's instead of the one this process shares. One
    /// that parks ahead ([`Launcher::park_ahead`]) has the next domain ready when it is asked for. For guests of one policy, whatever
    /// their arguments, a launcher remembers the plan, and looks at the host again to see whether it is still the same:
    ///
    /// ```no_run
    /// use palisade::{Domain, Launcher, Machine};
    /// use std::sync::Arc;
    ///
    /// let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    /// for job in ["1", "2", "3"] {
    ///     Domain::builder("convert").arg(job).launcher(Arc::clone(&launcher)).spawn()?.wait()?;
    /// }
    /// # Ok::<(), palisade::Error>(())
    /// ```
    pub fn launcher(mut self, launcher: Arc<Launcher>) -> Self {
        self.launcher = Some(launcher);
        self
    }

    /// Has the report tell of files that the guest asks for, which exist and are not granted. Each call of the guest's
    /// that names a file takes longer for it. For native programs.
    pub fn watch(mut self) -> Self {
        self.watches = true;
        self
    }

    /// The guest can be granted more while it runs: [`Domain::grant`], and `palisade grant` where this program waits for its domain. For
    /// native programs.
    pub fn grantable(mut self) -> Self {
        self.grantable = true;
        self
    }

    /// Asks about what the guest tries on the network and no grant covers, while its call waits: `answer` is called on a thread
    /// of its own, one question at a time. No answer within `patience` means no. For native programs.
    ///
    /// ```no_run
    /// use palisade::{Domain, Verdict};
    /// use std::time::Duration;
    ///
    /// let report = Domain::builder("npm")
    ///     .arg("ci")
    ///     .asks(Duration::from_secs(60), |question| match question.target.as_str() {
    ///         "tcp://registry.npmjs.org:443" => Verdict::Run,
    ///         _ => Verdict::No,
    ///     })
    ///     .spawn()?
    ///     .wait()?;
    /// # Ok::<(), palisade::Error>(())
    /// ```
    pub fn asks(
        mut self,
        patience: Duration,
        answer: impl Fn(&Question) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        self.asks = Some(Asks::new(patience, answer));
        self
    }

    /// Where `palisade-worker` and `palisade-compiler` lie, which run WebAssembly. Without it they are
    /// looked for where the variable `PALISADE_LIBEXEC` says, else beside this program.
    pub fn libexec(mut self, folder: impl Into<PathBuf>) -> Self {
        self.libexec = Some(folder.into());
        self
    }

    /// Keeps compiled WebAssembly in this folder, in a folder `palisade` of its own. Without it that is
    /// `XDG_CACHE_HOME`, else `~/.cache`. A guest must not be granted to write there.
    pub fn code_cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.caches = Some(folder.into());
        self
    }

    /// Every step that [`Builder::spawn`] would take, without taking any.
    ///
    /// # Errors
    ///
    /// When the policy names what does not exist or asks for what can't be enforced here.
    pub fn plan(&self) -> Result<Box<dyn Plan<Launcher = Launcher>>, Error> {
        self.plan_for(self.chosen_launcher())
    }

    fn plan_for(&self, launcher: &Launcher) -> Result<Box<dyn Plan<Launcher = Launcher>>, Error> {
        let mut policy = self.policy.clone();
        let files = policy.grants.files.iter_mut().map(|grant| &mut grant.host);
        let sockets = policy.grants.connect.iter_mut();
        let sockets = sockets.filter_map(|grant| match grant {
            ConnectGrant::Unix(socket) => Some(&mut socket.host),
            ConnectGrant::Internet { .. } | ConnectGrant::Public { .. } => None,
        });
        for path in files.chain(sockets) {
            *path = std::path::absolute(&path)?;
        }
        let spec = Spec {
            policy: &policy,
            command: &self.command,
            machine: launcher.machine(),
            surroundings: &Surroundings {
                name: self.name.clone(),
                watch: self.watches,
                grantable: self.grantable,
                asks: self.asks.as_ref().map(Asks::patience),
                ..Surroundings::asked_for_by(&policy)
            },
            libexec: self.libexec.as_deref(),
        };
        let plan = make_plan_for(&spec, launcher).map_err(Error::Plan)?;
        // A later guest of WebAssembly would run in what this one put there.
        refuse_reach_of_found(plan.view(), self.libexec.as_deref())
            .map_err(|error| Error::Plan(WallError::new(Cause::Other, error)))?;
        Ok(plan)
    }

    /// Starts the guest.
    ///
    /// # Errors
    ///
    /// When there is no plan, or a step of it fails. Nothing of the domain is left then.
    pub fn spawn(&self) -> Result<Domain, Error> {
        self.refuse_uncounted_output()?;
        let plan = self.plan()?;
        let ready = plan.prepare_in_time(self.chosen_launcher(), self.caches.as_deref());
        self.launch(&*plan, &ready.map_err(Error::Launch)?)
    }

    /// Starts the guest and waits until it has ended: [`Builder::spawn`] and [`Domain::wait`] in one, for whom there is nothing
    /// to do in between.
    ///
    /// A piped standard input is closed, and nobody reads other piped streams.
    ///
    /// ```no_run
    /// let report = palisade::Domain::builder("make").write("/srv/build").run()?;
    /// println!("it ended: {}", report.exit);
    /// # Ok::<(), palisade::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As those of the two.
    pub fn run(&self) -> Result<Report, Error> {
        self.spawn()?.wait()
    }

    /// Plans once for many starts of the same guest: the policy is checked, its grants are looked up and
    /// WebAssembly is compiled now, and [`Prepared::spawn`] does none of it again.
    ///
    /// # Errors
    ///
    /// As those of [`Builder::plan`].
    pub fn prepare(self) -> Result<Prepared, Error> {
        self.refuse_uncounted_output()?;
        let plan = self.plan()?;
        let ready = plan.prepare(self.chosen_launcher(), self.caches.as_deref());
        let ready = ready.map_err(Error::Launch)?;
        Ok(Prepared {
            builder: self,
            plan,
            ready,
        })
    }

    fn launch(&self, plan: &dyn Plan<Launcher = Launcher>, ready: &Ready) -> Result<Domain, Error> {
        let launcher = self.chosen_launcher();
        let null = Null::default();
        let (stdin, stdin_pipe) = self.stdin.for_reading(&null)?;
        let own = (std::io::stdout(), std::io::stderr());
        let (stdout, stdout_pipe) = self.stdout.for_writing(own.0.as_fd(), &null)?;
        let (stderr, stderr_pipe) = self.stderr.for_writing(own.1.as_fd(), &null)?;
        let questions = self.asks.as_ref().map(Asks::begin).transpose()?;
        let streams = Streams {
            stdin: stdin.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            terminal: None,
            passed: &[],
            questions: questions.as_ref().map(AsFd::as_fd),
            journal: None,
        };
        let may_lack = self.may_lack_namespaces();
        let launched = match plan.launch(ready, launcher, &streams) {
            Err(error) if error.cause() == Cause::NoNamespaces && may_lack => {
                let bare = launcher.without_namespaces();
                self.plan_for(&bare)?.launch(ready, &bare, &streams)
            }
            launched => launched,
        };
        let inner = launched.map_err(Error::Launch)?;
        let piped = [&stdout_pipe, &stderr_pipe].map(Option::is_some);
        Ok(Domain {
            inner,
            stdin: stdin_pipe,
            stdout: stdout_pipe,
            stderr: stderr_pipe,
            piped,
            output_bytes: plan.view().output_bytes(),
        })
    }

    fn refuse_uncounted_output(&self) -> Result<(), Error> {
        let mut streams = [("stdout", &self.stdout), ("stderr", &self.stderr)].into_iter();
        let uncounted = streams.find(|(_, stream)| !stream.is_countable());
        match (self.policy.limits.output_bytes, uncounted) {
            (Some(_), Some((name, _))) => Err(Error::OutputNotCounted(name)),
            _ => Ok(()),
        }
    }

    fn may_lack_namespaces(&self) -> bool {
        self.policy.allow_degraded.contains(&Capability::Namespaces)
    }

    fn chosen_launcher(&self) -> &Launcher {
        /// The keeper that all domains of this process share, unless they bring a launcher.
        static SHARED: OnceLock<Launcher> = OnceLock::new();
        match &self.launcher {
            Some(launcher) => launcher,
            None => SHARED.get_or_init(|| Launcher::new(Machine::probe())),
        }
    }
}

/// A guest that is planned, to be started again and again.
///
/// Each start is a domain of its own. What the plan names is what every one of them gets: a path that
/// is replaced on the host in the meantime is not looked up anew, and a file that is gone by then
/// fails the start.
///
/// ```no_run
/// use palisade::{Domain, Launcher, Machine};
/// use std::sync::Arc;
///
/// let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
/// let job = Domain::builder("/srv/jobs/check").read("/srv/jobs").launcher(launcher).prepare()?;
/// for _ in 0..1000 {
///     job.run()?;
/// }
/// # Ok::<(), palisade::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing runs until it is spawned"]
pub struct Prepared {
    builder: Builder,
    plan: Box<dyn Plan<Launcher = Launcher>>,
    ready: Ready,
}

impl Prepared {
    /// Starts the guest.
    ///
    /// # Errors
    ///
    /// When a step of the plan fails. Nothing of the domain is left then.
    pub fn spawn(&self) -> Result<Domain, Error> {
        self.builder.launch(&*self.plan, &self.ready)
    }

    /// Starts the guest and waits until it has ended, as [`Builder::run`] does.
    ///
    /// # Errors
    ///
    /// When a step of the plan fails, or the wall itself while the guest runs.
    pub fn run(&self) -> Result<Report, Error> {
        self.spawn()?.wait()
    }
}
