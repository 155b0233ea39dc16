//! `create`: everything up to the start of the program.

use crate::{
    bundle::{self, Bundle, Making},
    cgroup::Groups,
    cli::{self, Global, Rootless},
    console, hooks,
    log::Log,
    policy::{self, Kept},
    state::{DENIALS, Folder, State},
    surroundings::{Surroundings, is_initial_root},
    wasm,
};
use anyhow::{Context, bail};
use oci_spec::runtime::{LinuxResources, Spec};
use palisade_process::container::{
    self, Begun, Created, Creator, Given, Identity, Namespace, Network, Plan, Supervisor,
};
use rustix::fs::{Mode, OFlags};
use std::{
    fs,
    io::Write as _,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

pub(super) fn run(global: &Global, asked: &cli::Create, log: &Log) -> anyhow::Result<()> {
    let created = create(global, &Asked::new(asked, false), log)?;
    drop(created);
    Ok(())
}

/// What both `create` and `run` ask for.
pub(super) struct Asked<'a> {
    pub(super) id: &'a str,
    pub(super) bundle: &'a Path,
    pub(super) pid_file: Option<&'a Path>,
    pub(super) making: &'a cli::Making,
    /// Whoever asked relays the terminal itself.
    pub(super) in_front: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn new(asked: &'a cli::Create, in_front: bool) -> Self {
        Self {
            id: &asked.id,
            bundle: &asked.bundle.bundle,
            pid_file: asked.pid_file.as_deref(),
            making: &asked.making,
            in_front,
        }
    }
}

/// Whoever creates it, asked on the way.
struct Engine<'a> {
    state: State,
    folder: &'a Folder,
    bundle: &'a Bundle,
    lenient: bool,
    console: Option<&'a OwnedFd>,
    pid_file: Option<&'a Path>,
}

impl Engine<'_> {
    fn has_systemd_make_groups(&self, pid: u32) -> anyhow::Result<()> {
        let mut groups = self.state.groups.clone();
        if groups.unit.is_none() {
            return Ok(());
        }
        groups.adopt(pid)?;
        groups.make(resources(&self.bundle.spec), self.lenient)
    }

    fn run_hooks(&self, pid: u32) -> anyhow::Result<()> {
        let Some(all) = self.bundle.spec.hooks() else {
            return Ok(());
        };
        #[allow(
            deprecated,
            reason = "engines still use it, and the specification still has it"
        )]
        let before = all.prestart();
        let document = self.state.document("creating", Some(pid));
        let folder = &self.bundle.folder;
        hooks::run("prestart", before.as_ref(), &document, folder)?;
        let runtime = all.create_runtime().as_ref();
        hooks::run("createRuntime", runtime, &document, folder)
    }

    /// All that others know the container by. From here on `delete` ends it.
    fn tell(&mut self, created: &Created) -> anyhow::Result<()> {
        self.state.init = Identity::of(created.pid);
        self.state.keeper = Identity::of(created.keeper);
        self.folder.write(&self.state)?;
        if let (Some(socket), Some(terminal)) = (self.console, &created.terminal) {
            console::send(socket, terminal.as_fd())?;
        }
        self.pid_file
            .map_or(Ok(()), |path| write_pid(path, created.pid))
    }
}

impl Creator for Engine<'_> {
    fn state(&self, pid: u32, at_start: bool) -> String {
        let status = if at_start { "created" } else { "creating" };
        self.state.document(status, Some(pid)).to_string()
    }

    fn on_first(&mut self, pid: u32) -> Result<(), String> {
        self.has_systemd_make_groups(pid).map_err(in_words)
    }

    fn on_namespaces(&mut self, pid: u32) -> Result<(), String> {
        self.run_hooks(pid).map_err(in_words)
    }

    fn on_created(&mut self, created: &Created) -> Result<(), String> {
        self.tell(created).map_err(in_words)
    }
}

fn in_words(error: anyhow::Error) -> String {
    format!("{error:#}")
}

/// Whether this user does without control groups that nobody lets it make.
pub(super) fn is_lenient(global: &Global) -> bool {
    match global.rootless {
        Rootless::True => true,
        Rootless::False => false,
        Rootless::Auto => !is_initial_root(),
    }
}

pub(super) fn create(global: &Global, asked: &Asked<'_>, log: &Log) -> anyhow::Result<Created> {
    let mut prepared = Prepared::of(global, asked, log)?;
    let console = console_socket(asked, prepared.bundle.has_terminal())?;
    let folder = Folder::make(global, asked.id)?;
    let _lock = folder.lock()?;
    let made = prepared.make(asked, &folder, console.as_ref());
    if made.is_err() {
        // What was made is taken down again; that this fails too is no news beside the first failure.
        let _ = prepared.groups.remove();
        let _ = folder.remove();
    }
    made
}

/// All that is known before anything is made: what is refused is refused by then.
struct Prepared {
    bundle: Bundle,
    making: Making,
    surroundings: Surroundings,
    lenient: bool,
    groups: Groups,
    network: Option<Network>,
    kept: Kept,
    program: Option<wasm::Program>,
    plan: Plan,
    /// Machine code of a program that is WebAssembly.
    code: Option<fs::File>,
}

impl Prepared {
    fn of(global: &Global, asked: &Asked<'_>, log: &Log) -> anyhow::Result<Self> {
        let mut bundle = bundle::load(asked.bundle)?;
        for warning in &bundle.warnings {
            log.warning(warning);
        }
        let own = policy::Asked::of(&bundle.spec)?;
        if own.narrow(&mut bundle.spec)? {
            bundle.text = serde_json::to_vec(&bundle.spec)?;
        }
        let program = wasm::Program::of_bundle(&bundle)?;
        if program.is_some() {
            wasm::adapt(&mut bundle.spec);
        }
        let surroundings = Surroundings::probe();
        let linux = bundle.spec.linux().as_ref();
        let linux = linux.context("policy: there is no linux")?;
        let path = linux.cgroups_path().as_deref();
        let groups = match global.systemd_cgroup {
            true => Groups::plan_unit(path, asked.id, !surroundings.is_initial_root)?,
            false => Groups::plan(path, asked.id)?,
        };
        let making = Making {
            id: asked.id.into(),
            without_pivot: asked.making.no_pivot,
            keeps_keyring: asked.making.no_new_keyring,
            preserved: asked.making.preserve_fds,
        };
        let network = own.network()?;
        let kept = own.kept(network.as_ref(), &Folder::path(global, asked.id)?);
        let with = (&groups, &kept);
        let plan = wasm::plan(program.as_ref(), &bundle, with, &making, &surroundings)?;
        let code = program
            .as_ref()
            .map(|program| program.code(&bundle.spec, &bundle.folder, log));
        Ok(Self {
            code: code.transpose()?,
            lenient: is_lenient(global),
            bundle,
            making,
            surroundings,
            groups,
            network,
            kept,
            program,
            plan,
        })
    }

    fn make(
        &mut self,
        asked: &Asked<'_>,
        folder: &Folder,
        console: Option<&OwnedFd>,
    ) -> anyhow::Result<Created> {
        folder.keep_config(&self.bundle.text)?;
        // Before there is anything that would be left.
        self.groups.claim()?;
        let supervisor = self.begin_supervisor(folder)?;
        let mut state = self.state(asked.id)?;
        folder.write(&state)?;
        let begun = Begun::of(&self.plan)?;
        // What systemd makes it makes around a process.
        if self.groups.unit.is_none() {
            let resources = resources(&self.bundle.spec);
            self.groups.make(resources, self.lenient)?;
        }
        // Without those groups that nobody lets it make; with what the supervisor has told.
        if self.groups.all.len() != state.groups.all.len() || supervisor.is_some() {
            self.plan_anew()?;
        }
        state.groups = self.groups.clone();
        state.has_hosts_network = !self.plan.namespaces.has(Namespace::Network);
        let mut engine = Engine {
            state,
            folder,
            bundle: &self.bundle,
            lenient: self.lenient,
            console,
            pid_file: asked.pid_file,
        };
        let preserved = preserved(self.making.preserved)?;
        let nothing = nothing(self.bundle.has_terminal())?;
        let given = Given {
            streams: streams(nothing.as_ref(), &preserved, self.code.as_ref()),
            // Systemd has put the process there itself.
            groups: match self.groups.unit {
                None => self.groups.open()?,
                Some(_) => Vec::new(),
            },
            supervisor: supervisor.as_ref().map(Supervisor::channel),
            processes: self.processes()?,
        };
        Ok(container::create(begun, &self.plan, given, &mut engine)?)
    }

    fn plan_anew(&mut self) -> anyhow::Result<()> {
        self.plan = wasm::plan(
            self.program.as_ref(),
            &self.bundle,
            (&self.groups, &self.kept),
            &self.making,
            &self.surroundings,
        )?;
        Ok(())
    }

    /// What is written down of it while it is made.
    fn state(&self, id: &str) -> anyhow::Result<State> {
        let spec = &self.bundle.spec;
        let root = spec.root().as_ref().context("policy: there is no root")?;
        Ok(State {
            id: id.into(),
            bundle: self.bundle.folder.clone(),
            created: jiff::Timestamp::now().to_string(),
            init: None,
            keeper: None,
            groups: self.groups.clone(),
            rootfs: self.bundle.folder.join(root.path()),
            has_hosts_network: false,
            runs_wasm: self.program.is_some(),
            annotations: spec.annotations().clone().unwrap_or_default(),
            kept: self.kept.clone(),
        })
    }

    /// Where the processes of its group are listed, where they are not ended by the container's own PID 1.
    fn processes(&self) -> anyhow::Result<Option<OwnedFd>> {
        let is_needed = self.groups.unit.is_none() && !self.plan.namespaces.owns(Namespace::Pid);
        let file = self.groups.processes_file().filter(|_| is_needed);
        file.map(|path| {
            rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .with_context(|| format!("host: cannot open {path:?}"))
        })
        .transpose()
    }

    /// Who answers what the container's filters leave to it, where they leave anything.
    fn begin_supervisor(&mut self, folder: &Folder) -> anyhow::Result<Option<Supervisor>> {
        const FOR_OWNER: u32 = 0o600;
        if !self.kept.asks() {
            return Ok(None);
        }
        let (spec, process) = (&self.bundle.spec, &self.plan.process);
        let network = self.network.take();
        let supervisor = Supervisor::begin(container::Grants {
            processors: processors(spec),
            memory_bytes: memory_bytes(spec),
            hosts: files_of_names(spec, network.as_ref(), folder)?,
            denials: folder.new_file(DENIALS, "", FOR_OWNER)?,
            refusals: bundle::refusals(spec, process, &self.kept)?,
            attendant: bundle::attendant(spec, process)?,
            network,
        })?;
        self.kept.supervisor = Identity::of(supervisor.pid());
        if let Some(broker) = &mut self.kept.broker {
            broker.environment = supervisor.environment().to_vec();
            broker.has_users = self.plan.namespaces.has(Namespace::User);
        }
        Ok(Some(supervisor))
    }
}

fn resources(spec: &Spec) -> Option<&LinuxResources> {
    spec.linux().as_ref()?.resources().as_ref()
}

/// How many processors its quota comes to.
fn processors(spec: &Spec) -> Option<f64> {
    /// The kernel's default (cpu.cfs_period_us).
    const PERIOD_US: u64 = 100_000;
    let cpu = resources(spec)?.cpu().as_ref()?;
    let (quota, period) = (cpu.quota()?, cpu.period().unwrap_or(PERIOD_US));
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// What its memory is limited to.
fn memory_bytes(spec: &Spec) -> Option<u64> {
    let limit = resources(spec)?.memory().as_ref()?.limit()?;
    u64::try_from(limit).ok().filter(|bytes| *bytes > 0)
}

/// Makes its `/etc/hosts` and `/etc/resolv.conf`, where grants take their place. The first follows what names stand for.
fn files_of_names(
    spec: &Spec,
    network: Option<&Network>,
    folder: &Folder,
) -> anyhow::Result<Option<(fs::File, String)>> {
    const FOR_ALL: u32 = 0o644;
    let Some(network) = network else {
        return Ok(None);
    };
    if let Some(text) = network.resolver_file() {
        folder.new_file(policy::RESOLVER, &text, FOR_ALL)?;
    }
    let head = policy::hosts_head(spec);
    let names = network.hosts_file().unwrap_or_default();
    let hosts = folder.new_file(policy::HOSTS, &format!("{head}{names}"), FOR_ALL)?;
    Ok(Some((hosts, head)))
}

fn console_socket(asked: &Asked<'_>, terminal: bool) -> anyhow::Result<Option<OwnedFd>> {
    match (&asked.making.console_socket, terminal) {
        (Some(path), true) => console::connect(path).map(Some),
        (Some(_), false) => {
            bail!("policy: --console-socket is given, and process.terminal is false")
        }
        (None, true) if !asked.in_front => {
            bail!("policy: process.terminal is true, and there is no --console-socket")
        }
        (None, _) => Ok(None),
    }
}

/// The three streams and what else the program finds open, machine code of WebAssembly last. With a terminal none of them is this
/// process's own: whoever reads what `create` says, to its end, would wait for the container's.
pub(super) fn streams<'a>(
    nothing: Option<&'a OwnedFd>,
    preserved: &'a [OwnedFd],
    code: Option<&'a fs::File>,
) -> Vec<BorrowedFd<'a>> {
    let streams = match nothing {
        Some(nothing) => [nothing.as_fd(); 3],
        None => [
            rustix::stdio::stdin(),
            rustix::stdio::stdout(),
            rustix::stdio::stderr(),
        ],
    };
    streams
        .into_iter()
        .chain(preserved.iter().map(AsFd::as_fd))
        .chain(code.map(AsFd::as_fd))
        .collect()
}

/// What stands for the streams until they are a terminal.
pub(super) fn nothing(has_terminal: bool) -> anyhow::Result<Option<OwnedFd>> {
    let open = || rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let nothing = has_terminal.then(open).transpose();
    nothing.context("host: cannot open /dev/null")
}

/// Copies of those from 3 on.
pub(super) fn preserved(count: u32) -> anyhow::Result<Vec<OwnedFd>> {
    let open = |number: u32| {
        let path = PathBuf::from(format!("/proc/self/fd/{number}"));
        crate::sys::duplicate(number as i32)
            .with_context(|| format!("policy: --preserve-fds: {path:?} is not open"))
    };
    (3..3 + count).map(open).collect()
}

/// Whoever waits for the file gets all of it.
pub(super) fn write_pid(path: &Path, pid: u32) -> anyhow::Result<()> {
    let name = path
        .file_name()
        .context("policy: --pid-file names no file")?;
    let mut new = std::ffi::OsString::from(".");
    new.push(name);
    new.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(new);
    // Nothing that lies there is followed or written to.
    fs::File::create_new(&new)
        .and_then(|mut file| file.write_all(pid.to_string().as_bytes()))
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| format!("host: cannot write {path:?}"))
}
