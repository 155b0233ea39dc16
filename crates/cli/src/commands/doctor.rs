//! `palisade doctor`: what this machine offers a wall, what is missing and how to get it.
//!
//! ```text
//!   the machine ──gather──▶ Facts ──diagnose──▶ Diagnosis ──▶ table and advice, or JSON
//!              (a trial domain,     (pure)
//!               /proc, /sys)
//! ```
//!
//! Whether the wall works is tried, not guessed: the trial domain is one that `run` would make.
//! Everything else says why it does not, or what a limit would need.

mod advice;
mod container;
mod diagnosis;
mod facts;
mod gather;
mod limits;
mod mechanisms;
mod namespaces;
mod show;
#[cfg(test)]
mod tests;
mod trial;

use crate::{args::DoctorArgs, say};
use diagnosis::diagnose;
pub(super) use trial::lacks_namespaces;

/// Prints the diagnosis; gives 0 if `run` works here with the full wall, else 1.
pub(crate) fn doctor(args: DoctorArgs) -> anyhow::Result<u8> {
    let facts = gather::facts();
    let diagnosis = diagnose(&facts);
    let what = "the diagnosis";
    match args.json {
        true => say::print_json(&show::json(&diagnosis, &facts)?, what)?,
        false => say::print(&diagnosis.to_string(), what)?,
    };
    Ok(u8::from(!diagnosis.full_wall))
}
