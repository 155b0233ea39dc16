//! `palisade why`: a report in sentences.

pub(super) mod apply;
pub(super) mod opens;
pub(super) mod remedy;
mod sentences;

use super::{disk::Disk, last};
use crate::{args::WhyArgs, say};
use anyhow::{Context, bail};
use palisade_command_line::read;
use palisade_policy::visible;
use palisade_wall::{REPORT_VERSION, Report};
use serde::Deserialize;
use serde_json::Value;
use std::{io, path::Path};

/// More than any report has, with a command line of the longest (2 MiB), and little enough to be held.
const MOST_REPORT_BYTES: u64 = 16 << 20;

/// Explains the end and each denial of a report, and what would have allowed it; or writes that to a policy.
pub(crate) fn why(args: &WhyArgs) -> anyhow::Result<u8> {
    let mut report = match &args.report {
        Some(file) => read_report(file)?,
        None => read_last()?,
    };
    let disk = Disk::here()?;
    remedy::withhold(&mut report, &disk);
    let missed = remedy::missed(&report, &disk);
    match &args.apply {
        Some(file) => apply::apply(file, &missed, args.yes),
        None => {
            let text = sentences::explain(&report, &missed) + &remedy::describe(&missed, &report);
            say::print(&text, "the explanation")
        }
    }
}

/// What the last run at a terminal left.
fn read_last() -> anyhow::Result<Report> {
    let file = last::open().context(
        "usage: there is no report of a run that failed at a terminal: name one (`palisade run --report FILE` writes it)",
    )?;
    let shown = "the last run's report";
    let bytes = read::read_at_most(file, MOST_REPORT_BYTES);
    parse(
        &bytes.with_context(|| format!("host: cannot read {shown}"))?,
        shown,
    )
}

fn read_report(path: &Path) -> anyhow::Result<Report> {
    let is_stdin = path == Path::new("-");
    let shown = match is_stdin {
        true => "stdin".to_owned(),
        false => visible(&path.to_string_lossy()).into_owned(),
    };
    let bytes = match is_stdin {
        true => read::read_at_most(io::stdin(), MOST_REPORT_BYTES),
        false => read::read_regular_file(path, MOST_REPORT_BYTES),
    };
    let bytes = bytes.with_context(|| {
        format!(
            "usage: cannot read {shown} (`palisade run --report` writes a report; `-` is stdin)"
        )
    })?;
    parse(&bytes, &shown)
}

/// The version is looked at first: what a later one has besides may be unknown here.
fn parse(bytes: &[u8], shown: &str) -> anyhow::Result<Report> {
    let refuse = |error: serde_json::Error| {
        let error = error.to_string();
        anyhow::anyhow!(
            "usage: {shown} is not a report of `palisade run --report`: {}",
            visible(&error)
        )
    };
    let head: Head = serde_json::from_slice(bytes).map_err(refuse)?;
    match head.version.as_ref().and_then(Value::as_u64) {
        Some(version) if version > u64::from(REPORT_VERSION) => bail!(
            "usage: {shown} is a report of version {version}, and this palisade reads up to \
             {REPORT_VERSION}: use the one that wrote it, or a newer one"
        ),
        _ => serde_json::from_slice(bytes).map_err(refuse),
    }
}

/// What every version has. The rest is passed over here: held as a tree it would take many times its size.
#[derive(Deserialize)]
struct Head {
    version: Option<Value>,
}

#[cfg(test)]
mod tests;
