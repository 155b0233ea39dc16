//! `exec`: a further process in a container.

use super::{
    create::{nothing, preserved, streams, write_pid},
    run::attend,
};
use crate::{
    bundle::{check_rights, known, of_process},
    cli::{self, Global},
    console,
    log::Log,
    state::{Folder, State},
    surroundings::Surroundings,
    wasm,
};
use anyhow::{Context, bail};
use oci_spec::runtime::{Capability, Process, Spec, User};
use palisade_process::container::{self, Given, Namespace, Namespaces, Status, Terminal};
use rustix::process::{Pid, PidfdFlags};
use std::{fs, os::fd::AsFd, process::ExitCode};

pub(super) fn run(global: &Global, asked: &cli::Exec) -> anyhow::Result<ExitCode> {
    let folder = Folder::of(global, &asked.id)?;
    let state = folder.read()?;
    match state.status() {
        Status::Running => {}
        Status::Created => bail!("policy: cannot exec in a container that was not started"),
        Status::Stopped => bail!("policy: cannot exec in a stopped container"),
    }
    if state.groups.is_frozen() && !asked.ignore_paused {
        bail!("policy: cannot exec in a paused container (use --ignore-paused to override)");
    }
    let spec = folder.config()?;
    let log = Log::new(global);
    let mut process = process(asked, &spec, &log)?;
    let program = wasm::Program::of_process(&state, &spec, &mut process)?;
    let in_front = !asked.detach;
    let has_terminal = process.terminal().unwrap_or(false);
    let socket = match (&asked.console_socket, has_terminal) {
        (Some(path), true) => Some(console::connect(path)?),
        (Some(_), false) => bail!("policy: --console-socket is given, and there is no terminal"),
        (None, true) if !in_front => {
            bail!(
                "policy: a terminal without --console-socket takes somebody who relays it: leave out --detach"
            )
        }
        (None, _) => None,
    };
    if let Some(broker) = &state.kept.broker {
        check_rights(&process, broker.has_users)?;
    }
    let mut plan = of_process(
        &spec,
        &process,
        &state.rootfs,
        &seen(&state),
        &Surroundings::probe(),
        &state.kept,
    )?;
    plan.without_proc = state.runs_wasm;
    let code = match &program {
        Some(program) => {
            program.instruct(&mut plan, asked.preserve_fds)?;
            Some(program.code(&spec, &state.bundle, &log)?)
        }
        None => None,
    };
    let kept = preserved(asked.preserve_fds)?;
    let nothing = nothing(has_terminal)?;
    let given = Given {
        streams: streams(nothing.as_ref(), &kept, code.as_ref()),
        groups: state.groups.below(&asked.cgroup)?.open()?,
        ..Given::default()
    };
    let terminal = has_terminal.then(|| terminal(&process));
    let keeper = state
        .keeper
        .context("policy: cannot exec in a stopped container")?;
    let entered = container::enter((keeper.pid, &|| keeper.runs()), &plan, terminal, given)?;
    if let (Some(socket), Some(master)) = (&socket, &entered.terminal) {
        console::send(socket, master.as_fd())?;
    }
    if let Some(path) = &asked.pid_file {
        write_pid(path, entered.pid)?;
    }
    if asked.detach {
        return Ok(ExitCode::SUCCESS);
    }
    let pid = Pid::from_raw(entered.pid as i32).context("wall: the process has no pid")?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let master = entered.terminal.filter(|_| socket.is_none());
    attend(entered.pid, &pidfd, master)
}

fn terminal(process: &Process) -> Terminal {
    let (rows, columns) = match process.console_size() {
        Some(size) => (size.height() as u16, size.width() as u16),
        None => (0, 0),
    };
    Terminal {
        rows,
        columns,
        owner: process.user().uid(),
        at_console: false,
    }
}

/// Only whether the network is the host's matters to a process.
fn seen(state: &State) -> Namespaces {
    let own = (!state.has_hosts_network).then_some(Namespace::Network);
    Namespaces {
        made: own.into_iter().collect(),
        ..Namespaces::default()
    }
}

/// The file's process, or the container's with what the flags say.
fn process(asked: &cli::Exec, spec: &Spec, log: &Log) -> anyhow::Result<Process> {
    if let Some(path) = &asked.process {
        let text = fs::read(path).with_context(|| format!("policy: cannot read {path:?}"))?;
        let name = path.display().to_string();
        let mut process: Process = known(&text, &name, |warning| log.warning(&warning))
            .with_context(|| format!("policy: {path:?}"))?;
        if asked.tty {
            process.set_terminal(Some(true));
        }
        return Ok(process);
    }
    let mut process = spec
        .process()
        .clone()
        .context("policy: there is no process")?;
    if asked.command.is_empty() {
        bail!("policy: there is nothing to execute");
    }
    process.set_args(Some(asked.command.clone()));
    process.set_terminal(Some(asked.tty));
    if let Some(cwd) = &asked.cwd {
        process.set_cwd(cwd.clone());
    }
    if !asked.env.is_empty() {
        let mut environment = process.env().clone().unwrap_or_default();
        environment.extend(asked.env.iter().cloned());
        process.set_env(Some(environment));
    }
    if let Some(user) = &asked.user {
        let mut chosen = User::default();
        let (uid, gid) = match user.split_once(':') {
            Some((uid, gid)) => (uid, Some(gid)),
            None => (user.as_str(), None),
        };
        let number = |text: &str| {
            text.parse::<u32>()
                .with_context(|| format!("policy: --user {user:?} is not UID[:GID]"))
        };
        chosen.set_uid(number(uid)?);
        if let Some(gid) = gid {
            chosen.set_gid(number(gid)?);
        }
        process.set_user(chosen);
    }
    if !asked.additional_gids.is_empty() {
        let mut user = process.user().clone();
        user.set_additional_gids(Some(asked.additional_gids.clone()));
        process.set_user(user);
    }
    if asked.no_new_privs {
        process.set_no_new_privileges(Some(true));
    }
    if let Some(profile) = &asked.apparmor {
        process.set_apparmor_profile(Some(profile.clone()));
    }
    if let Some(label) = &asked.process_label {
        process.set_selinux_label(Some(label.clone()));
    }
    add_capabilities(&mut process, &asked.cap)?;
    Ok(process)
}

fn add_capabilities(process: &mut Process, names: &[String]) -> anyhow::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let mut sets = process.capabilities().clone().unwrap_or_default();
    for name in names {
        let capability: Capability = serde_json::from_value(name.clone().into())
            .with_context(|| format!("policy: --cap {name:?}"))?;
        let with = |set: &Option<oci_spec::runtime::Capabilities>| {
            let mut set = set.clone().unwrap_or_default();
            set.insert(capability);
            Some(set)
        };
        let (bounding, effective, permitted) = (
            with(sets.bounding()),
            with(sets.effective()),
            with(sets.permitted()),
        );
        sets.set_bounding(bounding);
        sets.set_effective(effective);
        sets.set_permitted(permitted);
    }
    process.set_capabilities(Some(sets));
    Ok(())
}
