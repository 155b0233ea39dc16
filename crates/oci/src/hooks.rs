//! Hooks that run outside: programs of the engine's, which get the container's state on stdin.

use crate::{log::Log, wait::has_ended_within};
use anyhow::{Context, bail};
use oci_spec::runtime::Hook;
use rustix::process::{Pid, PidfdFlags};
use std::{
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Runs them one after the other, each to its end.
pub(crate) fn run(
    kind: &str,
    hooks: Option<&Vec<Hook>>,
    state: &serde_json::Value,
    bundle: &Path,
) -> anyhow::Result<()> {
    let document = state.to_string();
    for hook in hooks.into_iter().flatten() {
        run_one(hook, &document, bundle)
            .with_context(|| format!("policy: the {kind} hook {:?}", hook.path()))?;
    }
    Ok(())
}

/// Runs them all: the container is there, or gone, whatever they say. What failed is told.
pub(crate) fn run_all(
    kind: &str,
    hooks: Option<&Vec<Hook>>,
    state: &serde_json::Value,
    bundle: &Path,
    log: &Log,
) {
    let document = state.to_string();
    for hook in hooks.into_iter().flatten() {
        if let Err(error) = run_one(hook, &document, bundle) {
            log.warning(&format!(
                "policy: the {kind} hook {:?}: {error:#}",
                hook.path()
            ));
        }
    }
}

fn run_one(hook: &Hook, state: &str, bundle: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(hook.path());
    if let Some((name, arguments)) = hook.args().as_ref().and_then(|args| args.split_first()) {
        command.arg0(name).args(arguments);
    }
    // One that says nothing of its environment has the engine's, as with other runtimes: it looks for programs there.
    if let Some(environment) = hook.env() {
        command.env_clear();
        for variable in environment {
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            command.env(name, value);
        }
    }
    let mut child = command
        .current_dir(bundle)
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot be executed")?;
    // One that does not read it has its reasons.
    if let Some(mut input) = child.stdin.take() {
        // With room for all of it nobody waits for one that hangs.
        let _ = rustix::pipe::fcntl_setpipe_size(&input, state.len());
        let _ = input.write_all(state.as_bytes());
    }
    if let Some(most) = hook.timeout() {
        let most = Duration::from_secs(u64::try_from(most).unwrap_or(0));
        let pid = Pid::from_raw(child.id() as i32).context("it has no pid")?;
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        if !has_ended_within(&process, most)? {
            child.kill()?;
            child.wait()?;
            bail!("did not end within {} s", most.as_secs());
        }
    }
    let status = child.wait()?;
    match status.success() {
        true => Ok(()),
        false => bail!("ended with {status}"),
    }
}
