//! Machine code for a module, made by a child that is granted nothing.
//!
//! What it reads is the guest's, and a compiler is a large program: it runs behind the process wall,
//! sees no file but its own, and what it may use is bounded. Module and code pass in memory files, so
//! nobody waits for anybody, and `RLIMIT_FSIZE` bounds what comes out.

use crate::{module::read_at_most, status::not_run};
use palisade_policy::{Access, Capability, FileGrant, Policy};
use palisade_process::{
    DomainError, LaunchError, Launcher, Machine, ThisHost, Tier,
    plan::{Options, Plan, PlanError, Rlimit, make_plan},
};
use palisade_wall::{Command, Ending, Exit, Purpose, Report, Spec, Streams, Surroundings};
use rustix::{
    fs::{MemfdFlags, Mode, OFlags},
    io::Errno,
};
use std::{
    collections::BTreeSet,
    fs::File,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// Memory of the compiler: fifty times what the largest of common programs need.
const MEMORY_BYTES: u64 = 2 << 30;
/// Wall-clock and processor time.
const TIME: Duration = Duration::from_secs(300);
/// The largest code.
const CODE_BYTES: u64 = 1 << 30;
/// Threads, one for each processor.
const THREADS: u32 = 256;
/// What the compiler may say.
const REASON_BYTES: u64 = 4096;
/// Where it finds itself.
const INSIDE: &str = "/palisade-compiler";

/// There is no code.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum CompileError {
    #[error("{}", not_run(path, reason))]
    Refused { path: PathBuf, reason: String },
    #[error("guest: {} takes more than {} s to compile", path.display(), TIME.as_secs())]
    Time { path: PathBuf },
    #[error(
        "limit: {} took longer to compile than --time allows, and did not run; raise it for the first run: \
         compiled code is kept",
        path.display()
    )]
    TimeLimit { path: PathBuf },
    #[error(
        "guest: the compiler was ended by signal {signal} over {}: it may need more than {} MiB, or be wrong about \
         this module",
        path.display(), MEMORY_BYTES >> 20
    )]
    Signal { path: PathBuf, signal: u8 },
    #[error("host: cannot make a memory file for the compiler: {0}")]
    MemoryFile(#[source] Errno),
    #[error("host: cannot read what the compiler wrote: {0}")]
    Read(#[source] std::io::Error),
    #[error("the compiler's domain: {0}")]
    Plan(#[from] PlanError),
    #[error("the compiler's domain: {0}")]
    Launch(#[from] LaunchError),
    #[error("the compiler's domain: {0}")]
    Domain(#[from] DomainError),
}

/// The domain of the compiler: nothing but the compiler, for this long at most.
///
/// # Errors
///
/// When this machine can't make it.
pub fn plan(
    compiler: &Path,
    purpose: Purpose,
    machine: &Machine,
    allow_degraded: &BTreeSet<Capability>,
    time: Option<Duration>,
) -> Result<Plan, PlanError> {
    let is_bare = machine.tier == Tier::Bare;
    let inside = if is_bare { compiler } else { Path::new(INSIDE) };
    let mut policy = Policy::nothing();
    policy.grants.files.push(FileGrant {
        access: Access::Read,
        host: compiler.into(),
        guest: Some(inside.into()),
    });
    policy.grants.cwd = Some("/".into());
    policy.limits.time = Some(time.unwrap_or(TIME));
    policy.limits.file_size_bytes = Some(CODE_BYTES);
    policy.limits.processes = (!is_bare).then_some(THREADS);
    policy.allow_degraded = allow_degraded.clone();
    let command = command(inside, purpose);
    let surroundings = Surroundings::default();
    let options = Options {
        without_proc: true,
        rlimits: own_limits(),
        runner: None,
    };
    make_plan(
        &Spec::new(&policy, &command, machine, &surroundings),
        &ThisHost,
        &options,
    )
}

/// One process: what bounds it bounds the domain. A control group could not be had at any time.
fn own_limits() -> Vec<Rlimit> {
    /// setrlimit(2).
    const RLIMIT_CPU: u32 = 0;
    const RLIMIT_DATA: u32 = 2;
    vec![
        Rlimit {
            resource: RLIMIT_DATA,
            name: "DATA",
            value: MEMORY_BYTES,
        },
        Rlimit {
            resource: RLIMIT_CPU,
            name: "CPU",
            value: TIME.as_secs(),
        },
    ]
}

fn command(compiler: &Path, purpose: Purpose) -> Command {
    Command {
        arguments: vec![purpose.word().into()],
        ..Command::new(compiler)
    }
}

/// Compiles `module`, the file at `path`, `within` this time if that is less than any compiler has.
///
/// # Errors
///
/// When the compiler refuses the module, needs too much, or can't be run behind a wall here.
pub fn compile(
    module: &[u8],
    path: &Path,
    purpose: Purpose,
    compiler: &Path,
    machine: &Machine,
    allow_degraded: &BTreeSet<Capability>,
    within: Option<Duration>,
) -> Result<Vec<u8>, CompileError> {
    let within = within.filter(|time| *time < TIME);
    let input = memory_file("palisade-module")?;
    input
        .write_all_at(module, 0)
        .map_err(|error| CompileError::MemoryFile(errno_of(&error)))?;
    let (code, words) = (
        memory_file("palisade-code")?,
        memory_file("palisade-words")?,
    );
    let streams = Streams {
        stdin: input.as_fd(),
        stdout: code.as_fd(),
        stderr: words.as_fd(),
        terminal: None,
        passed: &[],
        questions: None,
        journal: None,
    };
    let plan_on = |machine: &Machine| plan(compiler, purpose, machine, allow_degraded, within);
    let may_fall_back = allow_degraded.contains(&Capability::Namespaces);
    let report = run(&streams, machine, may_fall_back, plan_on)?;
    let words = || read_at_most(&again(&words)?, REASON_BYTES);
    judge(&report, path, within, || {
        let words = words().unwrap_or_default();
        String::from_utf8_lossy(&words).trim_end().to_owned()
    })?;
    let code = again(&code).and_then(|code| read_at_most(code, CODE_BYTES + 1));
    let code = code.map_err(CompileError::Read)?;
    match code.is_empty() {
        false => Ok(code),
        true => Err(CompileError::Refused {
            path: path.into(),
            reason: "the compiler made nothing of it".into(),
        }),
    }
}

fn run(
    streams: &Streams<'_>,
    machine: &Machine,
    may_fall_back: bool,
    plan_on: impl Fn(&Machine) -> Result<Plan, PlanError>,
) -> Result<Report, CompileError> {
    let launcher = Launcher::new(machine.clone());
    let domain = match launcher.launch(&plan_on(machine)?, streams) {
        Err(error) if error.is_for_lack_of_namespaces() && may_fall_back => {
            let bare = launcher.without_namespaces();
            bare.launch(&plan_on(bare.machine())?, streams)?
        }
        launched => launched?,
    };
    Ok(domain.wait()?)
}

fn judge(
    report: &Report,
    path: &Path,
    within: Option<Duration>,
    reason: impl FnOnce() -> String,
) -> Result<(), CompileError> {
    const SIGXCPU: u8 = 24;
    let path = PathBuf::from(path);
    match (report.ending, report.exit) {
        (Ending::TimeLimit, _) if within.is_some() => Err(CompileError::TimeLimit { path }),
        (Ending::TimeLimit, _) | (_, Exit::Signal(SIGXCPU)) => Err(CompileError::Time { path }),
        (_, Exit::Code(0)) => Ok(()),
        (_, Exit::Code(_)) => Err(CompileError::Refused {
            path,
            reason: reason(),
        }),
        (_, Exit::Signal(signal)) => Err(CompileError::Signal { path, signal }),
    }
}

/// An anonymous file in memory.
pub(crate) fn memory_file(name: &str) -> Result<File, CompileError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let created = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3 the flag was unknown.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        created => created,
    };
    created.map(File::from).map_err(CompileError::MemoryFile)
}

/// The same file, opened for reading from its start.
pub(crate) fn again(file: impl AsFd) -> std::io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened: OwnedFd = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(opened.into())
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
