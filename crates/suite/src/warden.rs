//! The warden: PID 1 of an arena. Lays the stage, launches, looks, judges, reports.
//!
//! It is the suite's own executable, started again with `--warden`; it writes one line of
//! JSON, an [`Outcome`], to its stdout. When it ends, the kernel ends all that is left in
//! the arena.

mod accomplice;
mod props;
mod run;
mod servers;

use std::env;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};

use crate::arena::CACHES;
use accomplice::Accomplice;

use crate::attack::{Attack, Grant, Policy, Prop, User};
use crate::attacks;
use crate::outcome::Outcome;
use crate::stage::{ORDINARY_ID, Stage};
use crate::tools::{Launch, Placed, Tool};
use crate::witness::process::Process;

pub(crate) use props::Props;
pub(crate) use run::Run;

/// First argument that turns the suite's executable into the warden.
pub(crate) const FLAG: &str = "--warden";
/// Environment of the warden, and so of the launcher: what must not reach the guest.
pub(crate) const SECRET: &str = "PALISADE_SUITE_SECRET";
/// Environment: the content of the granted file.
pub(crate) const TOKEN: &str = "PALISADE_SUITE_TOKEN";

/// What a witness looks at.
pub(crate) struct Scene<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) props: &'a Props,
    pub(crate) run: &'a Run,
    pub(crate) processes_before: usize,
}

impl Scene<'_> {
    pub(crate) fn knows_port(&self, port: u64) -> bool {
        self.props.knows_port(port)
    }
}

/// One run to make, as the runner tells the warden.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) tool: Tool,
    pub(crate) attack: Attack,
    pub(crate) policy: Policy,
    pub(crate) user: User,
    pub(crate) base: PathBuf,
    pub(crate) nonce: String,
}

impl Order {
    /// As the warden's command line, the flag included.
    pub(crate) fn to_arguments(&self) -> [String; 7] {
        [
            FLAG.to_owned(),
            self.tool.name().to_owned(),
            self.attack.name.to_owned(),
            self.policy.name().to_owned(),
            self.user.name().to_owned(),
            self.base.display().to_string(),
            self.nonce.clone(),
        ]
    }

    fn from_arguments(mut words: impl Iterator<Item = String>) -> Option<Self> {
        Some(Self {
            tool: Tool::named(&words.next()?)?,
            attack: attacks::named(&words.next()?)?,
            policy: Policy::named(&words.next()?)?,
            user: User::named(&words.next()?)?,
            base: words.next()?.into(),
            nonce: words.next()?,
        })
    }
}

/// If this process was started as a warden, does its work and does not return.
///
/// To be called first in the `main` of every executable that uses the [`crate::runner`].
pub fn enter_if_asked() {
    let mut words = env::args().skip(1);
    if words.next().as_deref() != Some(FLAG) {
        return;
    }
    let outcome = match Order::from_arguments(words) {
        Some(order) => hold(&order)
            .unwrap_or_else(|e| Outcome::void(format!("the warden could not set up: {e}"))),
        None => Outcome::void("the warden did not understand its order"),
    };
    println!(
        "{}",
        serde_json::to_string(&outcome).expect("an outcome is plain data")
    );
    std::process::exit(0);
}

/// Makes the run that was ordered.
fn hold(order: &Order) -> io::Result<Outcome> {
    let stage = stage_of(order)?;
    raise_pids()?;
    close_off(&stage)?;
    order.tool.prepare_arena();
    stage.lay()?;
    if order.attack.props.contains(&Prop::Servers) {
        let role = match order.attack.props.contains(&Prop::SecondLink) {
            true => "links-up",
            false => "loopback-up",
        };
        raise_links(&stage, role)?;
    }
    drop_privileges_to_pass_on()?;
    let props = Props::set_up(&stage, &order.attack)?;
    let launch = launch_of(order, &stage, &props);
    let program = launcher(order, &stage)?;
    let words = command_words(order, &stage, &props, &launch, &program)?;
    let _accomplice = Accomplice::of(order, &stage, &props, &program)?;

    let processes_before = Process::all().len();
    let mut outcome = Outcome::default();
    for _ in 0..order.launches() {
        outcome = run::run_once(&stage, &props, order, &words, processes_before)?;
        if outcome.seen {
            break;
        }
    }
    outcome.command = words.join(" ");
    Ok(outcome)
}

impl Order {
    /// Without a wall the guest races for itself.
    fn launches(&self) -> usize {
        if self.tool.is_no_wall() {
            1
        } else {
            self.attack.launches
        }
    }
}

fn stage_of(order: &Order) -> io::Result<Stage> {
    let word = |name| env::var(name).map_err(|_| io::Error::other(format!("{name} is not set")));
    let is_root = rustix::process::geteuid().is_root();
    Ok(Stage {
        base: order.base.clone(),
        nonce: order.nonce.clone(),
        secret: word(SECRET)?,
        token: word(TOKEN)?,
        switch_to: (is_root && order.user == User::Ordinary).then_some(ORDINARY_ID),
    })
}

/// Lets the arena's process ids begin where a domain's will not reach, so that a victim's id
/// inside a domain means nobody, and not by chance the guest itself.
fn raise_pids() -> io::Result<()> {
    const LAST_PID: &str = "9000";
    fs::write("/proc/sys/kernel/ns_last_pid", LAST_PID)
}

/// Makes the arena's own places writable, and everything else of the host read-only.
///
/// The root mount is this mount namespace's copy: the host's stays as it is.
fn close_off(stage: &Stage) -> io::Result<()> {
    lay_ground(stage)?;
    tmpfs(Path::new("/tmp"), c"size=256m,mode=1777")?;
    tmpfs(Path::new("/dev/shm"), c"size=128m,mode=1777")?;
    let caches = stage.base.join(CACHES);
    mount_bind(&caches, &caches)?;
    mount_remount("/", MountFlags::BIND | MountFlags::RDONLY, c"")?;
    Ok(())
}

fn tmpfs(path: &Path, options: &CStr) -> io::Result<()> {
    let flags = MountFlags::empty();
    Ok(mount("arena", path, c"tmpfs", flags, Some(options))?)
}

/// Where the stage is laid: memory, or a folder of the disk that only its owner can enter from
/// elsewhere. Root's palisade gives granted files another owner, and a kernel before 6.3 can't do
/// that on a tmpfs.
fn lay_ground(stage: &Stage) -> io::Result<()> {
    let case = stage.path("{case}");
    if kernel_version() >= (6, 3) {
        return tmpfs(&case, c"size=256m,mode=755");
    }
    let folder = stage.base.join("disk").join(&stage.nonce);
    fs::create_dir(&folder)?;
    Ok(mount_bind(&folder, &case)?)
}

/// `6.1.0-28-amd64` is `(6, 1)`.
fn kernel_version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse().ok());
    (next().unwrap_or(0), next().unwrap_or(0))
}

fn raise_links(stage: &Stage, role: &str) -> io::Result<()> {
    let up = Command::new(stage.path("{tools}/stagehand"))
        .arg(role)
        .status()?;
    if up.success() {
        Ok(())
    } else {
        Err(io::Error::other("the links do not come up"))
    }
}

/// In an arena of an ordinary user the warden has ambient capabilities for the set-up;
/// victims and the launcher must not inherit them.
fn drop_privileges_to_pass_on() -> io::Result<()> {
    Ok(rustix::thread::clear_ambient_capability_set()?)
}

fn launch_of(order: &Order, stage: &Stage, props: &Props) -> Launch {
    let grants = order.attack.grants(order.policy);
    Launch {
        grants: placed(grants, stage, props),
        guest_arguments: guest_arguments(order, stage, props),
        bin: stage.path("{bin}"),
        stagehand: stage.path("{tools}/stagehand"),
        folder: stage.path("{case}/tool"),
        uid: stage.user(),
    }
}

fn placed(grants: impl IntoIterator<Item = Grant>, stage: &Stage, props: &Props) -> Vec<Placed> {
    let fill = |template: &str| props.fill(&stage.expand(template));
    let grants = grants.into_iter();
    grants.map(|grant| Placed::new(grant, fill)).collect()
}

/// `ATTACK NONCE KEY=VALUE…`; the guest takes the first value of a key.
fn guest_arguments(order: &Order, stage: &Stage, props: &Props) -> Vec<String> {
    const ALWAYS: &[&str] = &[
        "secret={outside}/secret",
        "outside={outside}",
        "fixtures={fixtures}",
        "scratch={scratch}",
        "granted={fixtures}/granted",
        "tool={outside}/tool",
    ];
    let naive: &[&str] = if order.tool.is_no_wall() {
        order.attack.naive_arguments
    } else {
        &[]
    };
    let control = order.attack.control_arguments(order.policy);
    let templates = control
        .iter()
        .chain(naive)
        .chain(order.attack.arguments)
        .chain(ALWAYS);
    let mut words = vec![order.attack.name.to_owned(), order.nonce.clone()];
    words.extend(templates.map(|template| stage.expand(template)));
    words.extend(props.arguments().iter().cloned());
    words
}

/// The launcher's command line, behind the flaws that the attack asks for.
fn command_words(
    order: &Order,
    stage: &Stage,
    props: &Props,
    launch: &Launch,
    program: &Path,
) -> io::Result<Vec<String>> {
    let mut words = flaws(order, stage, props);
    if !words.is_empty() {
        let stagehand = stage.expand("{tools}/stagehand");
        words.splice(0..0, [stagehand, "launch".to_owned()]);
        words.push("--".to_owned());
    }
    words.splice(0..0, host_without_namespaces(order, stage, launch));
    fs::create_dir(&launch.folder)?;
    words.extend(order.tool.command_line(program, launch));
    stage.give_away(&launch.folder)?;
    Ok(words)
}

/// Takes user namespaces away from all that comes after, and only then becomes the launcher's
/// user: an ordinary one could do the former only together with what makes set-uid files harmless.
fn host_without_namespaces(order: &Order, stage: &Stage, launch: &Launch) -> Vec<String> {
    if !order.tool.lacks_namespaces() {
        return Vec::new();
    }
    let stagehand = stage.expand("{tools}/stagehand");
    let user = launch.uid.to_string();
    [&stagehand, "without-namespaces", &user, "--"]
        .map(str::to_owned)
        .to_vec()
}

/// A copy of the tool's executable that belongs to whoever starts it, and so to the
/// attack that overwrites it.
fn launcher(order: &Order, stage: &Stage) -> io::Result<PathBuf> {
    if order.tool.is_no_wall() {
        return Ok(PathBuf::new());
    }
    let installed = stage.path("{tools}").join(order.tool.name());
    if !matches!(order.tool, Tool::Palisade | Tool::Bare) {
        return Ok(installed);
    }
    let copy = stage.path("{case}/launcher");
    fs::copy(installed, &copy)?;
    stage.give_away(&copy)?;
    Ok(copy)
}

fn flaws(order: &Order, stage: &Stage, props: &Props) -> Vec<String> {
    let mut words = Vec::new();
    for prop in order.attack.props {
        match prop {
            Prop::Flaw(flaw) => words.push(props.fill(&stage.expand(flaw))),
            Prop::Terminal => words.push(stage.expand("terminal={case}/typed")),
            _ => {}
        }
    }
    words
}
