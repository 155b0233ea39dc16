//! `palisade grant` and `palisade revoke`: a running guest is granted more, and less again.

use super::domains;
use crate::{args::GrantArgs, say};
use anyhow::{Context, anyhow, bail};
use palisade_command_line::FAILED;
use palisade_policy::{Access, FileGrant, visible};
use palisade_process::running::Change;
use std::path::PathBuf;

/// At a time: what is asked for and the answer are messages.
const MOST: usize = 64;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Grant,
    Revoke,
}

/// Grants of files as flags, whose paths mean the same to whoever stands in another folder.
fn of_files(flag: &str, access: Access, paths: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let base = std::env::current_dir().context("host: cannot tell the working directory")?;
    let flag = |path: &PathBuf| {
        let grant = FileGrant::parse(access, path, &base);
        let grant = grant.map_err(|error| anyhow!("usage: {flag}: {error}"))?;
        let is_text = [Some(&grant.host), grant.guest.as_ref()]
            .into_iter()
            .flatten()
            .all(|path| path.to_str().is_some());
        match is_text {
            true => Ok(format!("{flag} {grant}")),
            false => bail!(
                "usage: {flag}: {:?} is no text, and a guest that runs is granted no such path",
                path
            ),
        }
    };
    paths.iter().map(flag).collect()
}

/// Has it done, all that can be; says what cannot.
pub(crate) fn grant(args: &GrantArgs, what: What) -> anyhow::Result<u8> {
    let network = |flag: &'static str, values: &[String]| -> Vec<String> {
        let flags = values.iter().map(|value| format!("{flag} {value}"));
        flags.collect()
    };
    let flags = [
        network("--connect", &args.connect),
        network("--listen", &args.listen),
        of_files("--read", Access::Read, &args.read)?,
        of_files("--write", Access::Write, &args.write)?,
    ]
    .concat();
    if flags.len() > MOST {
        bail!("usage: at most {MOST} at a time");
    }
    let change = match what {
        What::Grant => Change {
            grant: flags,
            ..Change::default()
        },
        What::Revoke => Change {
            revoke: flags,
            ..Change::default()
        },
    };
    let changed = domains::find(&args.domain)?.change(&change)?;
    for (flag, why) in &changed.refused {
        say::line(&format!("policy: {}: {}", visible(flag), visible(why)));
    }
    if what == What::Revoke {
        let is_done = |flag: &str| changed.done.iter().any(|done| done.starts_with(flag));
        let kept = [
            (
                ["--connect ", "--listen "],
                "connections that are open stay",
            ),
            (
                ["--read ", "--write "],
                "files that are open stay so, and folders that a process stands in",
            ),
        ];
        let kept = kept
            .iter()
            .filter(|(flags, _)| flags.iter().any(|flag| is_done(flag)));
        kept.for_each(|(_, what)| say::line(&format!("note: {what}")));
    }
    Ok(if changed.refused.is_empty() {
        0
    } else {
        FAILED
    })
}
