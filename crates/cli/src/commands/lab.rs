//! `palisade bench` and `palisade cost`: execute the lab with what was typed, which this command has read and found
//! right.

use super::program::execute;
use anyhow::Context;
use palisade_wasm::programs;

/// The lab is told first which palisade to measure where no flag names one. Returns only if there is no lab.
pub(super) fn measure() -> anyhow::Result<u8> {
    let own = std::env::current_exe().context("host: cannot tell where palisade itself lies")?;
    let typed = std::env::args_os().skip(1);
    execute(programs::LAB, std::iter::once(own.into()).chain(typed))
}
