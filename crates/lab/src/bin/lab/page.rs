//! The page that `--html` names.

use anyhow::Context;
use palisade_command_line::say;
use palisade_lab::{KeptRun, page::page};
use std::{
    fs::{self, OpenOptions},
    path::Path,
};

/// That the page can be written shows before an hour of measuring, not after it. One that is there
/// stays until then.
pub(crate) fn try_page(file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).with_context(|| page_fault(file))
}

pub(crate) fn write_page(file: &Path, run: &KeptRun) -> anyhow::Result<()> {
    fs::write(file, page(run)).with_context(|| page_fault(file))?;
    say::line(&format!("the page is {}", file.display()));
    Ok(())
}

fn page_fault(file: &Path) -> String {
    format!("host: --html: cannot write {}", file.display())
}
