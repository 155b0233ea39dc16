//! `create`: everything up to the start of the program.

use crate::{
    bundle::{self, Bundle, Making},
    cgroup::Groups,
    cli::{self, Global, Rootless},
    console, hooks,
    log::Log,
    policy,
    state::{DENIALS, Folder, State},
    surroundings::{Surroundings, is_initial_root},
    wait::has_ended_within,
    wasm,
};
use anyhow::{Context, bail};
use oci_spec::runtime::Spec;
use palisade_process::container::{
    self, Begun, Created, Creator, Given, Identity, Namespace, Network, Plan, Supervisor,
};
use rustix::{
    fs::{Mode, OFlags},
    process::Signal,
};
use std::{
    fs,
    io::Write as _,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
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

/// Whoever creates it, for hooks.
struct Engine<'a> {
    state: &'a State,
    bundle: &'a Bundle,
    lenient: bool,
}

impl Creator for Engine<'_> {
    fn state(&self, pid: u32, at_start: bool) -> String {
        let status = if at_start { "created" } else { "creating" };
        self.state.document(status, Some(pid)).to_string()
    }

    fn on_first(&mut self, pid: u32) -> Result<(), String> {
        let mut groups = self.state.groups.clone();
        if groups.unit.is_none() {
            return Ok(());
        }
        let linux = self.bundle.spec.linux().as_ref();
        let resources = linux.and_then(|linux| linux.resources().as_ref());
        groups
            .adopt(pid)
            .and_then(|()| groups.make(resources, self.lenient))
            .map_err(|error| format!("{error:#}"))
    }

    fn on_namespaces(&mut self, pid: u32) -> Result<(), String> {
        let Some(all) = self.bundle.spec.hooks() else {
            return Ok(());
        };
        let document = self.state.document("creating", Some(pid));
        let folder = &self.bundle.folder;
        #[allow(
            deprecated,
            reason = "engines still use it, and the specification still has it"
        )]
        let before = all.prestart();
        hooks::run("prestart", before.as_ref(), &document, folder)
            .and_then(|()| {
                hooks::run(
                    "createRuntime",
                    all.create_runtime().as_ref(),
                    &document,
                    folder,
                )
            })
            .map_err(|error| format!("{error:#}"))
    }
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
    let spec = &bundle.spec;
    let surroundings = Surroundings::probe();
    let lenient = is_lenient(global);
    let linux = spec.linux().as_ref().context("policy: there is no linux")?;
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
    let mut kept = own.kept(network.as_ref(), &Folder::path(global, asked.id)?);
    // What is refused is refused before anything is made.
    let plan = |groups: &Groups, kept: &policy::Kept| {
        wasm::plan(
            program.as_ref(),
            &bundle,
            (groups, kept),
            &making,
            &surroundings,
        )
    };
    let planned = plan(&groups, &kept)?;
    let code = program.as_ref();
    let code = code.map(|program| program.code(spec, &bundle.folder, log));
    let code = code.transpose()?;
    let socket = console_socket(asked, bundle.has_terminal())?;
    let folder = Folder::make(global, asked.id)?;
    let _lock = folder.lock()?;
    let mut groups = groups;
    let made = (|| {
        folder.keep_config(&bundle.text)?;
        // Before there is anything that would be left.
        groups.claim()?;
        let supervisor = match kept.asks() {
            true => Some(begin_supervisor(spec, &planned, network, &kept, &folder)?),
            false => None,
        };
        kept.supervisor =
            (supervisor.as_ref()).and_then(|supervisor| Identity::of(supervisor.pid()));
        if let (Some(supervisor), Some(broker)) = (&supervisor, &mut kept.broker) {
            broker.environment = supervisor.environment().to_vec();
            broker.has_users = planned.namespaces.has(Namespace::User);
        }
        let root = spec.root().as_ref().context("policy: there is no root")?;
        let mut state = State {
            id: asked.id.into(),
            bundle: bundle.folder.clone(),
            created: jiff::Timestamp::now().to_string(),
            init: None,
            keeper: None,
            groups: groups.clone(),
            rootfs: bundle.folder.join(root.path()),
            has_hosts_network: false,
            runs_wasm: program.is_some(),
            annotations: spec.annotations().clone().unwrap_or_default(),
            kept: kept.clone(),
        };
        folder.write(&state)?;
        let begun = Begun::of(&planned)?;
        // What systemd makes it makes around a process.
        if groups.unit.is_none() {
            groups.make(linux.resources().as_ref(), lenient)?;
        }
        let planned = match groups.all.len() == state.groups.all.len() && supervisor.is_none() {
            true => planned,
            // Without those groups that nobody lets it make; with what the supervisor has told.
            false => plan(&groups, &kept)?,
        };
        state.groups = groups.clone();
        state.has_hosts_network = !planned.namespaces.has(Namespace::Network);
        let channel = supervisor.as_ref().map(Supervisor::channel);
        let passed = (channel, code.as_ref());
        let created = make(begun, &bundle, &planned, asked, passed, &state, lenient)?;
        state.init = Identity::of(created.pid);
        state.keeper = Identity::of(created.keeper);
        let told = (|| {
            folder.write(&state)?;
            if let (Some(socket), Some(terminal)) = (&socket, &created.terminal) {
                console::send(socket, terminal.as_fd())?;
            }
            asked
                .pid_file
                .map_or(Ok(()), |path| write_pid(path, created.pid))
        })();
        match told {
            Ok(()) => Ok(created),
            Err(error) => {
                end(&created);
                Err(error)
            }
        }
    })();
    if made.is_err() {
        // What was made is taken down again; that this fails too is no news beside the first failure.
        let _ = groups.remove();
        let _ = folder.remove();
    }
    made
}

/// Ends one that nobody will hear of: its keeper ends with its first process.
fn end(created: &Created) {
    const PATIENCE: Duration = Duration::from_secs(10);
    let _ = rustix::process::pidfd_send_signal(&created.pidfd, Signal::KILL);
    let _ = has_ended_within(&created.pidfd, PATIENCE);
}

/// Who answers what the container's filters leave to it.
fn begin_supervisor(
    spec: &Spec,
    plan: &Plan,
    network: Option<Network>,
    kept: &policy::Kept,
    folder: &Folder,
) -> anyhow::Result<Supervisor> {
    const FOR_ALL: u32 = 0o644;
    const FOR_OWNER: u32 = 0o600;
    /// The kernel's default (cpu.cfs_period_us).
    const PERIOD_US: u64 = 100_000;
    let hosts = network.as_ref().map(|network| {
        let head = policy::hosts_head(spec);
        let names = network.hosts_file().unwrap_or_default();
        let hosts = folder.new_file(policy::HOSTS, &format!("{head}{names}"), FOR_ALL)?;
        anyhow::Ok((hosts, head))
    });
    if let Some(text) = network.as_ref().and_then(Network::resolver_file) {
        folder.new_file(policy::RESOLVER, &text, FOR_ALL)?;
    }
    let resources = spec
        .linux()
        .as_ref()
        .and_then(|linux| linux.resources().as_ref());
    let memory = resources.and_then(|resources| resources.memory().as_ref()?.limit());
    let cpu = resources.and_then(|resources| resources.cpu().as_ref());
    let share = cpu.and_then(|cpu| Some((cpu.quota()?, cpu.period().unwrap_or(PERIOD_US))));
    let share = share.filter(|(quota, period)| *quota > 0 && *period > 0);
    let supervisor = Supervisor::begin(container::Grants {
        processors: share.map(|(quota, period)| quota as f64 / period as f64),
        memory_bytes: memory
            .and_then(|bytes| u64::try_from(bytes).ok())
            .filter(|bytes| *bytes > 0),
        hosts: hosts.transpose()?,
        denials: folder.new_file(DENIALS, "", FOR_OWNER)?,
        refusals: bundle::refusals(spec, &plan.process, kept)?,
        attendant: bundle::attendant(spec, &plan.process)?,
        network,
    })?;
    Ok(supervisor)
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

fn make(
    begun: Begun,
    bundle: &Bundle,
    plan: &Plan,
    asked: &Asked<'_>,
    (supervisor, code): (Option<BorrowedFd<'_>>, Option<&fs::File>),
    state: &State,
    lenient: bool,
) -> anyhow::Result<Created> {
    let groups = &state.groups;
    let preserved = preserved(asked.making.preserve_fds)?;
    let nothing = nothing(bundle.has_terminal())?;
    let is_made = groups.unit.is_none();
    // Elsewhere the container's PID 1 ends them all.
    let is_needed = is_made && !plan.namespaces.owns(Namespace::Pid);
    let processes = groups.processes_file().filter(|_| is_needed).map(|path| {
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .with_context(|| format!("host: cannot open {path:?}"))
    });
    let given = Given {
        streams: streams(nothing.as_ref(), &preserved, code),
        // Systemd has put the process there itself.
        groups: if is_made { groups.open()? } else { Vec::new() },
        supervisor,
        processes: processes.transpose()?,
    };
    let mut engine = Engine {
        state,
        bundle,
        lenient,
    };
    Ok(container::create(begun, plan, given, &mut engine)?)
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
