//! Domains that are made to see whether they can be.

use super::facts::{FolderTrial, Stage, Trial};
use anyhow::{Context, bail};
use palisade_policy::{
    Access, Capability, ConnectGrant, FileGrant, HostPattern, IpNetwork, Policy, Ports, Transport,
};
use palisade_process::{
    KeeperError, LaunchError, LaunchStep, Launcher, Machine, Streams, ThisHost, Tier,
    plan::{Surroundings, make_plan},
};
use palisade_wall::{Command, Ending};
use std::{
    fs::File,
    net::Ipv4Addr,
    os::fd::AsFd,
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
    let mut policy = Policy::default();
    if machine.landlock_abi.is_none() {
        policy.allow_degraded.insert(Capability::Landlock);
    }
    if !seccomp_available {
        policy.allow_degraded.insert(Capability::Seccomp);
    }
    outcome_of(run_trial(machine, policy))
}

/// Makes a domain as `run --allow-degraded namespaces` would where there are none.
pub(super) fn try_bare_domain(machine: &Machine) -> Trial {
    let bare = Machine {
        tier: Tier::Bare,
        ..machine.clone()
    };
    outcome_of(run_trial(&bare, Policy::default()))
}

/// Makes one whose network calls palisade answers, in the best tier there is.
pub(super) fn try_network(machine: &Machine, has_namespaces: bool) -> Trial {
    let machine = match has_namespaces {
        true => machine.clone(),
        false => Machine {
            tier: Tier::Bare,
            ..machine.clone()
        },
    };
    let mut policy = Policy::default();
    // Nobody is asked: the guest does not connect.
    policy.grants.connect.push(ConnectGrant::Internet {
        transport: Transport::Tcp,
        host: HostPattern::Network(IpNetwork::of_address(Ipv4Addr::LOCALHOST.into())),
        ports: Ports::one(1),
    });
    outcome_of(run_trial(&machine, policy))
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

fn run_trial(machine: &Machine, mut policy: Policy) -> anyhow::Result<()> {
    policy.limits.time = Some(PATIENCE);
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .context("host: cannot open /dev/null")?;
    let launcher = Launcher::new(machine.clone());
    let surroundings = Surroundings {
        cwd: Some(PathBuf::from("/")),
        ..Surroundings::default()
    };
    let plan = make_plan(
        &policy,
        &Command::new("true"),
        machine,
        &surroundings,
        &ThisHost,
    )?;
    let streams = Streams {
        stdin: null.as_fd(),
        stdout: null.as_fd(),
        stderr: null.as_fd(),
        terminal: None,
        passed: &[],
    };
    let domain = match launcher.launch(&plan, &streams) {
        // A system without `true`; the wall stood when it was looked for.
        Err(LaunchError::NotFound { .. }) => return Ok(()),
        launched => launched?,
    };
    match domain.wait()?.ending {
        Ending::Guest => Ok(()),
        ending => bail!("wall: the trial guest did not end by itself ({ending:?})"),
    }
}

fn stage_of(error: &anyhow::Error) -> Stage {
    match error.downcast_ref::<LaunchError>() {
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
