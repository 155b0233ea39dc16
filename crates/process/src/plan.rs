//! The plan: every step the wall will take on this machine, as data.
//!
//! A plan is made without changing anything and without privilege; `palisade explain` prints it and
//! golden tests compare it. [`crate::Launcher`] carries it out.

mod bounds;
mod calls;
mod display;
mod early;
mod enforcement;
mod environment;
mod frame;
mod landlock;
mod memory;
mod options;
mod own_files;
pub(crate) mod profile;
mod program;
mod shared;

pub use crate::{
    plan_error::PlanError,
    steps::{Attributes, Placeholder, Step},
};
pub use early::{forbids_early_start, may_start_early};
pub use environment::Environment;
pub use landlock::{Landlock, LandlockRule};
pub(crate) use memory::Memory;
pub use options::{Instructions, Options, Runner};
pub(crate) use own_files::hosts_file;
pub use palisade_wall::Relied;
pub use profile::of as profile_files;
pub use shared::Shared;

use crate::{
    cgroup,
    host::{Host, Kind, Mounts, ThisHost},
    layout::{self, Arrangement, Layout},
    machine::{Machine, Tier},
    paths::normalized,
    reach::Reach,
    seccomp::Groups,
    sys,
    view::Check,
    wire::MOST_MEETING_PLACES,
};
use palisade_network::Network;
use palisade_policy::{Capability, FileGrant, Policy, Profile};
use palisade_wall::{
    ChromiumFlags, Command, Enforcement, HandedListener, Spec, Surroundings, WriteGrant,
};
use serde::Serialize;
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// What policies and reports call the wall.
pub(crate) const NAME: &str = "process";

/// What is known of the surroundings of a guest whose files are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watched {
    /// Its user's home.
    pub(crate) home: Option<PathBuf>,
    /// What it takes for its own.
    pub(crate) home_inside: Option<PathBuf>,
    /// What that user keeps from every guest, beside what everybody keeps.
    pub(crate) sensitive: Vec<String>,
    /// The folder that it was started in, where it stands elsewhere because that is not granted.
    pub(crate) started_in: Option<PathBuf>,
}

/// Which plan something was made of. One of other arguments is the same.
#[derive(Debug, Default)]
pub(crate) struct Identity(Arc<()>);

impl Identity {
    /// The same, for what is made of the plan.
    pub(crate) fn noted(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A copy may be changed, and is another plan.
impl Clone for Identity {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Every step of one launch. It is not to be changed once it was launched: what launches of it have in common is made once.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    #[serde(skip)]
    pub(crate) identity: Identity,
    /// The command, for reports.
    pub command: Vec<String>,
    /// What its starter calls the guest.
    #[serde(skip)]
    pub(crate) name: Option<String>,
    /// What the wall is called that whoever looks at running domains is told of.
    #[serde(skip)]
    pub(crate) told_wall: &'static str,
    /// How much of a domain there will be.
    pub tier: Tier,
    /// Whom the guest runs as, inside.
    pub uid: u32,
    /// The group it runs as, inside.
    pub gid: u32,
    /// Empty files and folders on the host that keep protected paths from coming into being.
    pub placeholders: Vec<Placeholder>,
    /// The file system, in order.
    pub steps: Shared<Vec<Step>>,
    /// The Landlock domain.
    pub landlock: Option<Landlock>,
    /// The system-call filter; `None` only where the user wrote `--allow-degraded seccomp`.
    pub seccomp: Option<Groups>,
    /// What the network grants came to.
    pub network: Network,
    /// The guest finds the sockets open that palisade was started with (`LISTEN_FDS`).
    pub inherits_listeners: bool,
    /// Sockets that the launch hands over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handed: Vec<HandedListener>,
    /// A TCP port of the domain's own loopback that the guest may listen at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner_port: Option<u16>,
    /// The program finds more descriptors open than streams and listeners: [`palisade_wall::Streams::passed`].
    #[serde(skip)]
    pub passes: bool,
    /// Resource limits of each process.
    pub rlimits: Shared<Vec<Rlimit>>,
    /// Run on this many processors at most.
    pub affinity: Option<usize>,
    /// The control groups that hold limits of the whole domain, and which limits.
    pub cgroup: Shared<cgroup::Plan>,
    /// The limits that the control groups hold.
    pub held_by_cgroup: cgroup::Need,
    /// Wall-clock limit.
    pub time: Option<Duration>,
    /// Processor-time limit.
    pub cpu_time: Option<Duration>,
    /// Limit on bytes of stdout and stderr.
    pub output_bytes: Option<u64>,
    /// The guest's working directory.
    pub cwd: PathBuf,
    /// Paths to try for the program, in order.
    #[serde(serialize_with = "texts")]
    pub candidates: Vec<OsString>,
    /// The program's own name and its arguments.
    #[serde(serialize_with = "texts")]
    pub arguments: Vec<OsString>,
    /// `NAME=VALUE` each.
    pub environment: Shared<Environment>,
    /// The guest gets a terminal of its own.
    pub terminal: bool,
    /// Per capability: requested and actual.
    pub enforcement: Shared<Vec<Enforcement>>,
    /// Inside, what lies on the host and may be connected to: granted sockets, and folders for sockets.
    #[serde(skip)]
    pub(crate) meeting_places: Vec<PathBuf>,
    /// Where the guest of a runner starts, if the runner starts elsewhere.
    #[serde(skip)]
    guest_cwd: Option<PathBuf>,
    /// What is enforced around a runner, before what it holds itself was added.
    #[serde(skip)]
    pub(crate) around_runner: Option<Shared<Vec<Enforcement>>>,
    /// What profiles grant beside the policy, as far as it is there.
    #[serde(skip)]
    pub(crate) of_profiles: Vec<FileGrant>,
    /// What git executes in a checkout, and the guest finds read-only although the policy does not protect it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_for_git: Vec<PathBuf>,
    /// Where on the host a temporary folder is made for the guest, and removed with what it left there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temporary: Option<PathBuf>,
    /// Paths of grants that may be missing, and are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<PathBuf>,
    /// The starter's home, where all of it is granted for writing and the policy does not say that this is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writable_home: Option<PathBuf>,
    /// Whoever starts it is asked about what no grant covers, and has so long to answer.
    #[serde(skip)]
    pub(crate) asks: Option<Duration>,
    /// About files, too.
    #[serde(skip)]
    pub(crate) asks_files: bool,
    /// More may be granted while the guest runs.
    #[serde(skip)]
    pub(crate) grantable: bool,
    /// What is used outside of the wall, which no such grant lets the guest change.
    #[serde(skip)]
    pub(crate) relied: Vec<PathBuf>,
    /// What happens is written down.
    #[serde(skip)]
    pub(crate) tells: bool,
    /// The files that the guest asks for are watched.
    #[serde(skip)]
    pub(crate) watched: Option<Watched>,
    /// Whether Chromium is told to do without its own sandbox, where the policy asks for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chromium_flags: Option<ChromiumFlags>,
    #[serde(skip)]
    guarded: Vec<PathBuf>,
    #[serde(skip)]
    layout: Option<Arc<Layout>>,
}

impl Plan {
    /// A copy that is changed in nothing but its arguments.
    fn of_same(&self) -> Self {
        Self {
            identity: self.identity.noted(),
            ..self.clone()
        }
    }

    /// The same without arguments: others take their place.
    fn without_arguments(&self) -> Self {
        Self {
            command: Vec::new(),
            arguments: Vec::new(),
            ..self.of_same()
        }
    }
}

/// One resource limit of setrlimit(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rlimit {
    /// `RLIMIT_*`.
    pub resource: u32,
    /// Its name without the prefix.
    pub name: &'static str,
    /// Soft and hard limit alike.
    pub value: u64,
}

/// Makes a plan.
///
/// # Errors
///
/// When the policy names a path that is not there or can't be mounted where it says, or asks for
/// what this machine can't enforce and the user did not accept less.
pub fn make_plan(
    spec: &Spec<'_, Machine>,
    host: &dyn Host,
    options: &Options<'_>,
) -> Result<Plan, PlanError> {
    let mut plan = match &options.runner {
        None => plan_domain(spec, host, environment::of_guest, 0)?,
        Some(runner) => {
            let tier = spec.machine.tier;
            let own = Spec {
                policy: &runner.policy(spec.policy, tier),
                command: &runner.command(tier),
                ..*spec
            };
            // Only what was granted is there, none of the variables that every program gets.
            plan_domain(&own, host, environment::only_granted, runner.threads)?
        }
    };
    plan.command = spec.command.words();
    plan.apply(options, host)?;
    Ok(plan)
}

fn plan_domain(
    spec: &Spec<'_, Machine>,
    host: &dyn Host,
    variables: impl FnOnce(&Policy, &Surroundings, &dyn Host) -> Environment,
    own_threads: u64,
) -> Result<Plan, PlanError> {
    let Spec {
        policy,
        command,
        machine,
        surroundings,
        ..
    } = *spec;
    policy.validate()?;
    if surroundings.inner_port.is_some() && machine.tier == Tier::Bare {
        return Err(PlanError::PortNeedsNamespaces);
    }
    let watches = surroundings.watch || surroundings.asks_files;
    if watches {
        calls::refuse_watching(policy, machine)?;
    }
    let grantable = surroundings.grantable || surroundings.asks.is_some();
    if grantable {
        calls::refuse_asking(policy, machine)?;
    }
    let asked_for = policy.grants.files.len();
    let policy = &profile::with_grants(policy, surroundings);
    let network = Network {
        asks: grantable,
        ..Network::resolve(
            &policy.grants.connect,
            &policy.grants.listen,
            host.resolver(),
        )?
    };
    if surroundings.can_freeze && !policy.grants.listen.is_empty() {
        return Err(PlanError::FrozenListener);
    }
    let mut layout = Layout::resolve(policy, host, Check::of(machine.tier))?;
    if grantable {
        layout.may_grow();
    }
    if machine.tier == Tier::Bare {
        layout.drop_guards();
    }
    let (uid, gid) = machine.standing().ids_inside();
    let has_profile = policy.grants.profiles.contains(&Profile::Chromium);
    let mut chromium_flags = has_profile.then_some(ChromiumFlags::NoPlace);
    if machine.tier != Tier::Bare {
        own_files::add_own_files(&mut layout, policy, &network, (uid, gid))?;
        chromium_flags = profile::set_chromium_flags(&mut layout, policy, host);
    }
    let terminals =
        surroundings.terminal || policy.grants.devices.iter().any(|device| device.is_pts());
    if terminals {
        layout.add_terminal(host);
    }
    let mut arrangement = match machine.tier {
        Tier::Bare => Arrangement::default(),
        _ => layout.arrange(host)?,
    };
    let reach = Reach::new(&layout, host);
    refuse_reach(&reach, &network, host)?;
    // By sockets that are handed over others may hand over more.
    let is_met = grantable || !surroundings.handed.is_empty() || calls::inherits_listeners(policy);
    let clone3 = calls::allows_clone3(policy, machine, &layout, &reach, is_met);
    let environment = variables(policy, surroundings, host);
    let cwd = working_directory(policy, surroundings, &layout);
    let home_inside = environment.value_of("HOME").map(PathBuf::from);
    let stands_there = surroundings.cwd.as_deref() == Some(&*cwd);
    let limits = &policy.limits;
    let host_network = calls::host_network(policy, machine, &layout, &network, surroundings);
    let has_sockets = host_network.is_some_and(|network| network.tcp || network.udp);
    let share = bounds::share(
        policy,
        machine,
        has_sockets,
        own_threads,
        surroundings.can_freeze,
    )?;
    let guarded = arrangement.guarded.clone();
    let meeting_places = meeting_places(&layout, machine)?;
    let mut plan = Plan {
        identity: Identity::default(),
        command: command.words(),
        name: surroundings.name.clone(),
        told_wall: NAME,
        tier: machine.tier,
        uid,
        gid,
        placeholders: std::mem::take(&mut arrangement.placeholders),
        steps: if machine.tier == Tier::Bare {
            Shared::default()
        } else {
            frame::frame(limits, arrangement, terminals, frame::masks(host)?).into()
        },
        landlock: landlock::domain(policy, machine, &layout, host)?,
        seccomp: Some(Groups {
            cpu_affinity_fixed: share.affinity.is_some(),
            host_network,
            watched: watches,
            clone3,
            ..calls::groups(policy, machine, &layout)
        }),
        network,
        inherits_listeners: calls::inherits_listeners(policy),
        handed: surroundings.handed.clone(),
        inner_port: surroundings.inner_port,
        passes: false,
        rlimits: bounds::rlimits(limits, &share, &machine.quotas).into(),
        affinity: share.affinity,
        cgroup: share.cgroup.into(),
        held_by_cgroup: share.need,
        time: limits.time,
        cpu_time: share.cpu_time,
        output_bytes: limits.output_bytes,
        candidates: candidates(&command.program, &environment),
        arguments: arguments(command),
        environment: environment.into(),
        cwd,
        terminal: surroundings.terminal,
        enforcement: Shared::default(),
        meeting_places,
        guest_cwd: None,
        around_runner: None,
        of_profiles: policy.grants.files[asked_for..]
            .iter()
            .filter(|grant| !layout.absent().contains(&grant.host))
            .cloned()
            .collect(),
        kept_for_git: layout.guards().map(Path::to_path_buf).collect(),
        temporary: match machine.tier {
            Tier::Bare => temporary(policy, &layout, host),
            _ => None,
        },
        absent: layout.absent().to_vec(),
        asks: surroundings.asks,
        asks_files: surroundings.asks_files,
        grantable,
        relied: relied(surroundings, host),
        tells: surroundings.tells,
        watched: watches.then(|| Watched {
            home: profile::home(surroundings),
            sensitive: surroundings.sensitive.clone(),
            home_inside,
            started_in: (surroundings.cwd.clone())
                .filter(|_| policy.grants.cwd.is_none() && !stands_there),
        }),
        writable_home: writable_home(policy, surroundings, &layout),
        chromium_flags,
        guarded,
        layout: Some(Arc::new(layout)),
    };
    if policy.allow_degraded.contains(&Capability::Seccomp) && !machine.has_seccomp() {
        if plan.has_brokered_network() {
            return Err(PlanError::NetworkNeedsSeccomp);
        }
        plan.seccomp = None;
    }
    if plan.observer_may_stall()
        && let Some(groups) = &mut plan.seccomp
    {
        groups.observed = false;
    }
    plan.enforcement = enforcement::of_plan(&plan, policy, machine).into();
    Ok(plan)
}

/// Of a start [`refuse_reach`] asks for what resolves names where there are any: some may be granted later.
fn relied(surroundings: &Surroundings, host: &dyn Host) -> Vec<PathBuf> {
    let named = surroundings.relied.iter().cloned();
    named.chain(host.resolver().files()).collect()
}

/// Init knows as many by their mounts; without namespaces there are none to know them by.
fn meeting_places(layout: &Layout, machine: &Machine) -> Result<Vec<PathBuf>, PlanError> {
    let places = layout.meeting_places();
    match places.len() {
        count if machine.tier != Tier::Bare && count > MOST_MEETING_PLACES => {
            Err(PlanError::TooManySockets { count })
        }
        _ => Ok(places),
    }
}

/// Where a guest that sees the host's file system gets a temporary folder, unless the policy says where it has one,
/// or how much it may hold: nothing bounds a folder of the host's.
fn temporary(policy: &Policy, layout: &Layout, host: &dyn Host) -> Option<PathBuf> {
    let folder = Path::new("/tmp");
    let is_said = policy.grants.env.iter().any(|grant| grant.name == "TMPDIR");
    let is_needed = !is_said && policy.limits.tmp_size_bytes.is_none() && layout.is_private(folder);
    let found = host.find(folder).ok().filter(|_| is_needed)?;
    let is_folder = found.kind == Kind::Folder && found.canonical == folder;
    (is_folder && !is_shown(folder, layout, host)).then(|| folder.into())
}

/// Whether what lies in a folder of the host's is shown to the guest, by whatever name: the rights of both would hold there,
/// and what is granted for reading may be executed. Where nobody can tell, it may be.
fn is_shown(folder: &Path, layout: &Layout, host: &dyn Host) -> bool {
    let Ok(mounts) = host.mounts() else {
        return true;
    };
    let others = Mounts::new(mounts).other_paths(folder);
    let mut names = others.iter().map(PathBuf::as_path).chain([folder]);
    names.any(|name| {
        let mut shown = layout.host_mounts();
        shown.any(|shown| name.starts_with(&shown.found.canonical))
    })
}

/// Refuses grants by which the guest could change what is read or executed outside the wall while it runs, and those
/// that lead to the same files by two paths of which one gives more.
fn refuse_reach(reach: &Reach<'_>, network: &Network, host: &dyn Host) -> Result<(), PlanError> {
    if network.has_names()
        && let Some(relied) = reach.find(host.resolver().files().into_iter().map(Relied::Content))
    {
        let path = relied.into_path();
        return Err(PlanError::ResolverInReach { path });
    }
    reach.refuse_second_names()
}

/// The first of these that a guest with this policy could change. For whoever uses paths while guests run; a plan sees
/// to those that every start relies on.
///
/// # Errors
///
/// When the policy names what does not exist.
pub fn find_changeable(
    policy: &Policy,
    relied: impl IntoIterator<Item = Relied>,
    host: &dyn Host,
) -> Result<Option<Relied>, PlanError> {
    // What a view of the host's files shows is not written to, nor what profiles add.
    let mut layout = Layout::resolve(policy, host, Check::Modes)?;
    // In some tiers there are none.
    layout.drop_guards();
    Ok(Reach::new(&layout, host).find(relied))
}

/// What files of the host's are among the guest's standard streams. They are known at the launch only.
/// They lie outside the domain's root, and `/proc/self/fd` opens them anew on the host's own mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFiles {
    /// One is open for writing: it must not become a program, nor be read.
    pub output: bool,
    /// The input is one whose pages a process may have to answer for: init reads none of the guest's memory then.
    pub may_stall: bool,
}

/// Refuses grants through which a program that opens paths in a guest's name would open its own memory.
///
/// # Errors
///
/// When there is such a grant.
pub fn refuse_proc(policy: &Policy, host: &dyn Host) -> Result<(), PlanError> {
    layout::refuse_proc(policy, host)
}

/// The program's own name and what follows it.
fn arguments(command: &Command) -> Vec<OsString> {
    let program = std::iter::once(&command.program);
    program.chain(&command.arguments).cloned().collect()
}

impl Plan {
    /// Makes it that of the same program with other arguments.
    fn set_arguments(&mut self, command: &Command) {
        self.command = command.words();
        self.arguments = arguments(command);
    }

    /// Whether the guest finds the host's `path` under the same name.
    pub fn shows(&self, path: &Path) -> bool {
        self.layout
            .as_ref()
            .is_some_and(|layout| layout.shows(path))
    }

    /// The guest's working directory, as it sees it.
    pub fn guest_cwd(&self) -> &Path {
        self.guest_cwd.as_deref().unwrap_or(&self.cwd)
    }

    /// Whether the guest has private folders to write to.
    pub fn has_private_folder(&self) -> bool {
        let is_there = |layout: &Layout| layout.is_private(Path::new("/tmp"));
        self.tier != Tier::Bare && self.layout.as_deref().is_some_and(is_there)
    }

    /// Whether the guest can make no sockets and FIFOs in a private folder of its own, because something below it is
    /// granted for writing; `None` where it has no such folder.
    pub fn refuses_sockets_in(&self, folder: &Path) -> Option<bool> {
        let layout = self.layout.as_ref()?;
        let is_there = self.tier != Tier::Bare && layout.is_private(folder);
        let landlock = self.landlock.as_ref().filter(|_| is_there)?;
        Some(landlock.denies_sockets_in(folder))
    }

    /// Whether the guest could change what the host's absolute `path` leads to: the file itself, or any folder or link
    /// on the way, by whatever name.
    pub fn can_change(&self, path: &Path) -> bool {
        self.find_changeable([path.into()]).is_some()
    }

    /// The first of these paths for which that is so.
    pub fn find_changeable(&self, paths: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
        let found = self.find_relied(paths.into_iter().map(Relied::Content));
        found.map(Relied::into_path)
    }

    /// The first of these that the guest could change.
    pub fn find_relied(&self, relied: impl IntoIterator<Item = Relied>) -> Option<Relied> {
        let layout = self.layout.as_ref()?;
        Reach::new(layout, &ThisHost).find(relied)
    }

    /// The paths whose mounts somebody outside could take away, as the guest knows them, in the order in which init
    /// does.
    pub(crate) fn guarded(&self) -> &[PathBuf] {
        &self.guarded
    }

    /// Whether this step makes the hosts file of names whose addresses may change.
    pub(crate) fn keeps(&self, step: &Step) -> bool {
        let is_hosts = |path: &Path| path == Path::new(own_files::HOSTS_FILE);
        let has_names = !self.network.pins.is_empty();
        has_names && matches!(step, Step::WriteFile { path, .. } if is_hosts(path))
    }

    /// The limit on processors, however it is held.
    pub(crate) fn processors(&self) -> Option<f64> {
        let affinity = self.affinity.map(|processors| processors as f64);
        self.held_by_cgroup.cpu_cores.or(affinity)
    }

    /// Whether the program finds descriptors open beside its streams.
    pub(crate) fn passes_descriptors(&self) -> bool {
        self.passes
            || self.inherits_listeners
            || !self.handed.is_empty()
            || self.network.listen.iter().any(|rule| rule.ready)
    }

    /// How many sockets the program finds open beside its streams.
    pub fn count_listeners(&self) -> usize {
        let most = || sys::count_inherited().min(sys::MOST_INHERITED);
        let inherited = self.inherits_listeners.then(most);
        self.handed.len() + self.network.ready_listeners().len() + inherited.unwrap_or(0)
    }

    /// Whether a granted folder is the root.
    pub(crate) fn root_is_granted(&self) -> bool {
        let is_granted = |step: &Step| matches!(step, Step::LeaveHost { root: Some(_) });
        self.steps.iter().any(is_granted)
    }

    /// Whether the supervisor answers calls of the guest's.
    pub(crate) fn is_brokered(&self) -> bool {
        let in_sight = self
            .seccomp
            .is_some_and(|groups| groups.host_sockets_in_sight);
        in_sight
            || self.special_files_ruled()
            || self.is_watched()
            || self.is_told_of()
            || self.has_brokered_network()
    }

    /// The rules that the guest's own process is under, where those of the plan hold what init's child does for it.
    pub(crate) fn landlock_of_guest(&self) -> Option<Landlock> {
        let landlock = self.landlock.as_ref();
        let landlock = landlock.filter(|_| self.special_files_ruled())?;
        Some(landlock.clone().without_files())
    }

    /// Whether Landlock's rules on files hold what init's child does for the guest, and not the guest's own process.
    pub(crate) fn special_files_ruled(&self) -> bool {
        self.seccomp
            .is_some_and(|groups| groups.special_files_ruled)
    }

    /// Whether files may be granted while the guest runs: those of a wall's own program are opened when it starts.
    pub(crate) fn is_granted_files(&self) -> bool {
        self.grantable && self.told_wall == NAME && self.tier != Tier::Bare
    }

    /// Whether somebody looks at what the guest executes and connects to, for the report.
    pub(crate) fn is_observed(&self) -> bool {
        self.seccomp.is_some_and(|groups| groups.observed)
    }

    /// Whether calls that are looked at are told of while the guest runs, which init does not.
    fn is_told_of(&self) -> bool {
        self.tells && self.is_observed()
    }

    /// Whether the supervisor takes note of the files that the guest asks for.
    pub(crate) fn is_watched(&self) -> bool {
        self.seccomp.is_some_and(|groups| groups.watched)
    }

    /// What `--exec` takes, so that the guest may execute the plan's program, if that is what keeps it from that.
    pub(crate) fn exec_grant(&self) -> Option<PathBuf> {
        let layout = self.layout.as_ref()?;
        self.candidates.iter().find_map(|program| {
            let program = normalized(&self.cwd.join(program));
            let place = layout.exec_grant(&program)?;
            layout.is_program(&program, &ThisHost).then(|| place.into())
        })
    }

    /// What `--exec` takes, so that the guest may execute and map what lies at a path inside: the place around it that it
    /// can write to. `None` where it may already, as without mounts: Landlock does not ask what is mapped.
    pub fn exec_place(&self, path: &Path) -> Option<&Path> {
        let layout = self.layout.as_ref().filter(|_| self.tier != Tier::Bare)?;
        layout.exec_grant(path)
    }

    /// The host's folders that the guest can write to, and from which it can execute and load nothing.
    pub fn write_grants_without_exec(&self) -> Vec<WriteGrant> {
        let layout = self.layout.iter();
        let grants = layout.flat_map(|layout| layout.write_grants());
        let folders = grants.filter(|grant| grant.found.kind == Kind::Folder);
        let closed = folders.filter(|grant| self.exec_place(grant.guest) == Some(grant.guest));
        let told = closed.map(|grant| WriteGrant {
            guest: grant.guest.into(),
            host: grant.found.canonical.clone(),
        });
        told.collect()
    }

    /// Init keeps the time and reads the guest's memory to look at its calls: nothing may be mapped there that somebody has
    /// to answer for. A broker has a thread of its own for that.
    fn observer_may_stall(&self) -> bool {
        let is_init = self.is_observed() && !self.is_brokered();
        is_init
            && self
                .layout
                .as_ref()
                .is_some_and(|layout| layout.may_stall())
    }

    /// Where the guest's files come from.
    pub(crate) fn layout(&self) -> Option<&Arc<Layout>> {
        self.layout.as_ref()
    }

    /// Whether some of them are about the host's network.
    pub(crate) fn has_brokered_network(&self) -> bool {
        let network = self.seccomp.and_then(|groups| groups.host_network);
        network.is_some_and(|network| network.brokered)
    }

    /// Whether sockets of the host's are made for the guest.
    pub(crate) fn makes_host_sockets(&self) -> bool {
        let network = self.seccomp.and_then(|groups| groups.host_network);
        network.is_some_and(|network| network.brokered && (network.tcp || network.udp))
    }

    /// The filter of a guest with these files for standard streams. Such a file may belong to the user
    /// that the guest runs as; as root a domain has a user of its own, who owns nothing.
    pub(crate) fn seccomp_groups(&self, files: StreamFiles) -> Option<Groups> {
        let own_files = files.output && self.tier != Tier::Privileged;
        let groups = self.seccomp?;
        Some(Groups {
            guard_chmod: groups.guard_chmod || own_files,
            observed: groups.observed && (self.is_brokered() || !files.may_stall),
            ..groups
        })
    }
}

/// The folder that palisade was started in, if it or anything below it was granted: what was typed
/// relative to it is found then. Else the root.
fn working_directory(policy: &Policy, surroundings: &Surroundings, layout: &Layout) -> PathBuf {
    if let Some(cwd) = &policy.grants.cwd {
        return cwd.clone();
    }
    surroundings
        .cwd
        .clone()
        .filter(|cwd| layout.shows(cwd) || layout.leads_to_grant(cwd))
        .unwrap_or_else(|| "/".into())
}

/// By the letter: it is for a warning.
fn writable_home(policy: &Policy, surroundings: &Surroundings, layout: &Layout) -> Option<PathBuf> {
    let home = profile::home(surroundings).filter(|_| policy.grants.guard)?;
    let is_written = layout
        .write_grants()
        .any(|grant| home.starts_with(&grant.found.canonical));
    is_written.then_some(home)
}

/// Where a program of this name may lie: itself if it has a slash, else each folder of `PATH`.
fn candidates(program: &OsStr, environment: &[OsString]) -> Vec<OsString> {
    if program.as_encoded_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    let path = environment
        .iter()
        .find_map(|variable| strip_prefix(variable, "PATH="));
    std::env::split_paths(&path.unwrap_or_default())
        .map(|folder| folder.join(program).into_os_string())
        .collect()
}

fn strip_prefix(variable: &OsStr, prefix: &str) -> Option<OsString> {
    use std::os::unix::ffi::OsStrExt;
    variable
        .as_bytes()
        .strip_prefix(prefix.as_bytes())
        .map(|rest| OsStr::from_bytes(rest).into())
}

fn texts<S: serde::Serializer>(words: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(words.iter().map(|word| word.to_string_lossy()))
}

#[cfg(test)]
mod tests;
