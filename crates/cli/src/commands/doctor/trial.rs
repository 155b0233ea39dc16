//! Domains that are made to see whether they can be.

use super::facts::{FolderTrial, Stage, Trial};
use anyhow::{Context, bail};
use palisade_policy::{
    Access, Capability, ConnectGrant, FileGrant, HostPattern, IpNetwork, Policy, Ports, Transport,
    WallKind,
};
use palisade_process::{KeeperError, LaunchError, LaunchStep, Launcher, Machine, Tier};
use palisade_wall::{Cause, Command, Ending, Error, Prepared, Report, Spec, Streams, Surroundings};
use palisade_walls::make_plan;
use rustix::fs::MemfdFlags;
use std::{
    fs::File,
    io::Write,
    net::Ipv4Addr,
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
    time::Duration,
};

/// More than the slowest machine needs; a guest that hangs shall not hold the doctor up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a granted folder appears inside a trial domain.
const GRANTED: &str = "/granted";

/// Makes a domain as `run` would. What is judged by itself is left out of it: a kernel without
/// Landlock can still be one with namespaces.
pub(super) fn try_domain(machine: &Machine, seccomp_available: bool) -> Trial {
    outcome_of(run_trial(machine, least(machine, seccomp_available)))
}

/// Whether `run` finds no namespaces here.
pub(in crate::commands) fn lacks_namespaces(machine: &Machine) -> bool {
    let trial = run_trial(machine, least(machine, machine.has_seccomp()));
    let error = trial.as_ref().err();
    let error = error.and_then(|error| error.downcast_ref::<Error>());
    error.is_some_and(|error| error.cause() == Cause::NoNamespaces)
}

/// A policy that asks for no mechanism that the kernel has not.
fn least(machine: &Machine, seccomp_available: bool) -> Policy {
    let mut policy = Policy::default();
    if machine.landlock_abi.is_none() {
        policy.allow_degraded.insert(Capability::Landlock);
    }
    if !seccomp_available {
        policy.allow_degraded.insert(Capability::Seccomp);
    }
    policy
}

/// Makes a domain as `run --allow-degraded namespaces` would where there are none.
pub(super) fn try_bare_domain(machine: &Machine) -> Trial {
    outcome_of(run_trial(&best_tier(machine, false), Policy::default()))
}

fn best_tier(machine: &Machine, has_namespaces: bool) -> Machine {
    let tier = match has_namespaces {
        true => machine.tier,
        false => Tier::Bare,
    };
    Machine {
        tier,
        ..machine.clone()
    }
}

/// Makes one whose network calls palisade answers, in the best tier there is.
pub(super) fn try_network(machine: &Machine, has_namespaces: bool) -> Trial {
    let machine = best_tier(machine, has_namespaces);
    let mut policy = Policy::default();
    // Nobody is asked: the guest does not connect.
    policy.grants.connect.push(ConnectGrant::Internet {
        transport: Transport::Tcp,
        host: HostPattern::Network(IpNetwork::of_address(Ipv4Addr::LOCALHOST.into())),
        ports: Ports::one(1),
    });
    outcome_of(run_trial(&machine, policy))
}

/// Compiles and runs a module that does nothing, in the best tier there is.
pub(super) fn try_wasm(machine: &Machine, has_namespaces: bool) -> Trial {
    outcome_of(run_module(&best_tier(machine, has_namespaces)))
}

/// `(module (func (export "_start")))`
const MODULE: [u8; 36] = *b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x04\x01\x02\0\x0b";

fn run_module(machine: &Machine) -> anyhow::Result<()> {
    let mut module = File::from(rustix::fs::memfd_create("trial", MemfdFlags::CLOEXEC)?);
    module.write_all(&MODULE)?;
    let path = format!("/proc/self/fd/{}", module.as_raw_fd());
    let policy = Policy {
        wall: Some(WallKind::Wasm),
        ..Policy::default()
    };
    let (policy, command) = (within_patience(policy), Command::new(path));
    let plan = make_plan(&Spec::new(&policy, &command, machine, &at_root()))?;
    let launcher = Launcher::new(machine.clone());
    // There are no folders below it: nothing is kept.
    let prepared = plan.prepare(&launcher, Some(Path::new("/dev/null")))?;
    let domain = plan.launch(&prepared, &launcher, &streams(&null()?))?;
    ended_by_itself(&domain.wait()?)
}

fn outcome_of(trial: anyhow::Result<()>) -> Trial {
    match trial {
        Ok(()) => Trial::Stood,
        Err(error) => Trial::Failed {
            at: stage_of(&error),
            message: reason(&error),
        },
    }
}

/// Messages of palisade's give the cause, and advice after a semicolon; here the advice is ours.
fn reason(error: &anyhow::Error) -> String {
    let message = error.to_string();
    let reason = message.split("; ").next().unwrap_or_default();
    reason.into()
}

/// Grants the working directory for writing, as root: then its files must change their owner.
pub(super) fn try_folder(
    machine: &Machine,
    file_system_of: impl Fn(&Path) -> String,
) -> Option<FolderTrial> {
    let folder = std::env::current_dir()
        .ok()
        .filter(|_| machine.tier == Tier::Privileged)?;
    let mut policy = Policy::default();
    policy.grants.files.push(FileGrant {
        access: Access::Write,
        host: folder.clone(),
        guest: Some(GRANTED.into()),
    });
    // Some folders can't be granted at all, the root among them: they say nothing about owners.
    policy.validate().ok()?;
    let refusal = run_trial(machine, policy).err().map(|error| reason(&error));
    Some(FolderTrial {
        file_system: file_system_of(&folder),
        folder,
        refusal,
    })
}

fn run_trial(machine: &Machine, policy: Policy) -> anyhow::Result<()> {
    let launcher = Launcher::new(machine.clone());
    let (policy, command) = (within_patience(policy), Command::new("true"));
    let plan = make_plan(&Spec::new(&policy, &command, machine, &at_root()))?;
    let domain = match plan.launch(&Prepared::default(), &launcher, &streams(&null()?)) {
        // A system without `true`; the wall stood when it was looked for.
        Err(error) if error.cause() == Cause::NotFound => return Ok(()),
        launched => launched?,
    };
    ended_by_itself(&domain.wait()?)
}

fn within_patience(mut policy: Policy) -> Policy {
    policy.limits.time = Some(PATIENCE);
    policy
}

fn at_root() -> Surroundings {
    Surroundings {
        cwd: Some(PathBuf::from("/")),
        ..Surroundings::default()
    }
}

fn null() -> anyhow::Result<File> {
    let mut options = File::options();
    let opened = options.read(true).write(true).open("/dev/null");
    opened.context("host: cannot open /dev/null")
}

fn streams(null: &File) -> Streams<'_> {
    Streams {
        stdin: null.as_fd(),
        stdout: null.as_fd(),
        stderr: null.as_fd(),
        terminal: None,
        passed: &[],
        questions: None,
        journal: None,
    }
}

fn ended_by_itself(report: &Report) -> anyhow::Result<()> {
    match report.ending {
        Ending::Guest => Ok(()),
        ending => bail!("wall: the trial guest did not end by itself ({ending:?})"),
    }
}

fn stage_of(error: &anyhow::Error) -> Stage {
    let error = error.downcast_ref::<Error>();
    match error.and_then(Error::downcast_ref::<LaunchError>) {
        Some(LaunchError::Keeper(KeeperError::Park { .. } | KeeperError::MapIds(_))) => {
            Stage::Namespaces
        }
        Some(LaunchError::Keeper(_)) => Stage::Keeper,
        Some(LaunchError::BuildRoot {
            step: LaunchStep::MountProc,
            ..
        }) => Stage::Proc,
        Some(LaunchError::BuildRoot { .. } | LaunchError::Build { .. }) => Stage::Root,
        _ => Stage::Guest,
    }
}
