//! The warden: PID 1 of an arena. Makes the fixtures, launches, looks, judges, reports.
//!
//! It is the suite's own executable, started again with `--warden`; it writes one line of
//! JSON, an [`Outcome`], to its stdout. When it ends, the kernel ends all that is left in
//! the arena.

mod accomplice;
mod run;

use std::env;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};

use accomplice::Accomplice;

use crate::attack::Attack;
use crate::attacks;
use crate::fixtures::{CACHES, Fixture, Fixtures, Layout};
use crate::outcome::Outcome;
use crate::policy::{Grant, Policy};
use crate::process::Process;
use crate::tools::{FilledGrant, Launch, Tool};
use crate::user::User;

/// First argument that turns the suite's executable into the warden.
pub(crate) const FLAG: &str = "--warden";
/// Environment of the warden, and so of the launcher: what must not reach the guest.
pub(crate) const SECRET: &str = "PALISADE_SUITE_SECRET";
/// Environment: the content of the granted file.
pub(crate) const TOKEN: &str = "PALISADE_SUITE_TOKEN";
/// How long the kernel may take to give back what an earlier guest had.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(10);

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
    let layout = layout_of(order)?;
    raise_pids()?;
    close_off(&layout)?;
    order.tool.prepare_arena()?;
    layout.make()?;
    if order.attack.fixtures.contains(&Fixture::Servers) {
        let role = match order.attack.fixtures.contains(&Fixture::SecondLink) {
            true => "links-up",
            false => "loopback-up",
        };
        raise_links(&layout, role)?;
    }
    drop_privileges_to_pass_on()?;
    let mut fixtures = Fixtures::set_up(&layout, order.attack.fixtures)?;
    let launch = launch_of(order, &layout, &fixtures);
    let program = launcher(order, &layout)?;
    if order.tool.is_container() {
        // The victim of the flaw that gave it its name is the runtime (CVE-2019-5736).
        fixtures.watch_program(&program, &layout.path("{tools}").join(order.tool.name()));
    }
    let words = command_words(order, &layout, &fixtures, &launch, &program)?;
    let _accomplice = Accomplice::of(order, &layout, &fixtures, &program)?;

    let processes_before = Process::all().len();
    let mut outcome = Outcome::default();
    for _ in 0..order.launches() {
        await_quota(order, &layout)?;
        outcome = run::run_once(&layout, &fixtures, order, &words, processes_before)?;
        if order.tool.is_container() && !outcome.begun && podman_blames_program(&outcome) {
            outcome.exit_code = Some(REFUSED_BY_ENGINE);
        }
        if outcome.seen {
            break;
        }
    }
    outcome.command = words.join(" ");
    Ok(outcome)
}

/// As many as the arena's time allows: an engine takes some tenths of a second.
const MOST_ENGINE_LAUNCHES: usize = 6;
/// What podman ends with where it could not start a container.
const REFUSED_BY_ENGINE: i32 = 125;

/// Podman takes a runtime's "No such file or directory" or "Permission denied" for the program's, whatever it was about, and ends
/// as a shell would.
fn podman_blames_program(outcome: &Outcome) -> bool {
    matches!(outcome.exit_code, Some(126 | 127)) && outcome.stderr.contains("OCI ")
}

/// Waits until the user has what the attack will take away. The kernel gives back what an earlier guest
/// took when it frees that guest's namespaces, after the guest's end, and has no event for it.
fn await_quota(order: &Order, layout: &Layout) -> io::Result<()> {
    let Some(what) = order.attack.witness.shared_quota() else {
        return Ok(());
    };
    let until = Instant::now() + GIVEN_BACK_WITHIN;
    while layout.lacks(what) {
        if Instant::now() > until {
            return Err(io::Error::other(format!(
                "the user had no {what} left before the launch"
            )));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

impl Order {
    /// Without a wall the guest races for itself; yet what an earlier guest had may be given back after
    /// this one found no more.
    fn launches(&self) -> usize {
        if self.tool.is_no_wall() {
            let takes_quota = self.attack.witness.shared_quota().is_some();
            if takes_quota { 3 } else { 1 }
        } else if self.tool.is_container() {
            self.attack.launches.min(MOST_ENGINE_LAUNCHES)
        } else {
            self.attack.launches
        }
    }
}

fn layout_of(order: &Order) -> io::Result<Layout> {
    let word = |name| env::var(name).map_err(|_| io::Error::other(format!("{name} is not set")));
    Ok(Layout {
        base: order.base.clone(),
        nonce: order.nonce.clone(),
        secret: word(SECRET)?,
        token: word(TOKEN)?,
        switch_to: order.user.id_to_take(),
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
fn close_off(layout: &Layout) -> io::Result<()> {
    mount_case(layout)?;
    tmpfs(Path::new("/tmp"), c"size=256m,mode=1777")?;
    tmpfs(Path::new("/dev/shm"), c"size=128m,mode=1777")?;
    let caches = layout.base.join(CACHES);
    mount_bind(&caches, &caches)?;
    mount_remount("/", MountFlags::BIND | MountFlags::RDONLY, c"")?;
    Ok(())
}

fn tmpfs(path: &Path, options: &CStr) -> io::Result<()> {
    let flags = MountFlags::empty();
    Ok(mount("arena", path, c"tmpfs", flags, Some(options))?)
}

/// Where the files are made: memory, or a folder of the disk that only its owner can enter from
/// elsewhere. Root's palisade gives granted files another owner, and a kernel before 6.3 can't do
/// that on a tmpfs.
fn mount_case(layout: &Layout) -> io::Result<()> {
    let case = layout.path("{case}");
    if kernel_version() >= (6, 3) {
        return tmpfs(&case, c"size=256m,mode=755");
    }
    let folder = layout.base.join("disk").join(&layout.nonce);
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

fn raise_links(layout: &Layout, role: &str) -> io::Result<()> {
    let up = Command::new(layout.path("{tools}/fixture"))
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

fn launch_of(order: &Order, layout: &Layout, fixtures: &Fixtures) -> Launch {
    let grants = order.attack.grants(order.policy);
    Launch {
        grants: filled(grants, layout, fixtures),
        guest_arguments: guest_arguments(order, layout, fixtures),
        bin: layout.path("{bin}"),
        fixture_program: layout.path("{tools}/fixture"),
        folder: layout.path("{case}/tool"),
        uid: layout.user(),
        has_terminal: order.attack.fixtures.contains(&Fixture::Terminal),
    }
}

fn filled(
    grants: impl IntoIterator<Item = Grant>,
    layout: &Layout,
    fixtures: &Fixtures,
) -> Vec<FilledGrant> {
    let fill = |template: &str| fixtures.fill(&layout.expand(template));
    let grants = grants.into_iter();
    grants.map(|grant| FilledGrant::new(grant, fill)).collect()
}

/// `ATTACK NONCE KEY=VALUE…`; the guest takes the first value of a key.
fn guest_arguments(order: &Order, layout: &Layout, fixtures: &Fixtures) -> Vec<String> {
    const ALWAYS: &[&str] = &[
        "secret={outside}/secret",
        "outside={outside}",
        "readable={readable}",
        "scratch={scratch}",
        "granted={readable}/granted",
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
    words.extend(templates.map(|template| layout.expand(template)));
    words.extend(fixtures.arguments().iter().cloned());
    words
}

/// The launcher's command line, behind the flaws that the attack asks for.
fn command_words(
    order: &Order,
    layout: &Layout,
    fixtures: &Fixtures,
    launch: &Launch,
    program: &Path,
) -> io::Result<Vec<String>> {
    let mut words = flaws(order, layout, fixtures);
    if !words.is_empty() {
        let program = layout.expand("{tools}/fixture");
        words.splice(0..0, [program, "launch".to_owned()]);
        words.push("--".to_owned());
    }
    words.splice(0..0, host_without_namespaces(order, layout, launch));
    fs::create_dir(&launch.folder)?;
    words.extend(order.tool.command_line(program, launch));
    layout.give_away(&launch.folder)?;
    Ok(words)
}

/// Takes user namespaces away from all that comes after, and only then becomes the launcher's
/// user: an ordinary one could do the former only together with what makes set-uid files harmless.
fn host_without_namespaces(order: &Order, layout: &Layout, launch: &Launch) -> Vec<String> {
    if !order.tool.lacks_namespaces() {
        return Vec::new();
    }
    let program = layout.expand("{tools}/fixture");
    let user = launch.uid.to_string();
    [&program, "without-namespaces", &user, "--"]
        .map(str::to_owned)
        .to_vec()
}

/// A copy of the tool's executable that belongs to whoever starts it, and so to the
/// attack that overwrites it.
fn launcher(order: &Order, layout: &Layout) -> io::Result<PathBuf> {
    if order.tool.is_no_wall() {
        return Ok(PathBuf::new());
    }
    let installed = layout.path("{tools}").join(order.tool.name());
    let Some(copy) = order
        .tool
        .copy_to_lose(&installed, &layout.path("{case}"))?
    else {
        return Ok(installed);
    };
    layout.give_away(&copy)?;
    Ok(copy)
}

fn flaws(order: &Order, layout: &Layout, fixtures: &Fixtures) -> Vec<String> {
    let mut words = Vec::new();
    for fixture in order.attack.fixtures {
        match fixture {
            Fixture::Flaw(flaw) => words.push(fixtures.fill(&layout.expand(flaw))),
            Fixture::Terminal => words.push(layout.expand("terminal={case}/typed")),
            _ => {}
        }
    }
    words
}
