//! What `palisade` and `palisade-lab` have in common: the arguments of verbs that both read, the files that those
//! name, the copies of folders that commands run in, and the one door to stdout and stderr.
//!
//! `palisade` reads what was typed, answers `--help` and refuses what is wrong; it executes the lab with the same words.
//! So no workload of the lab is linked into the command that starts guests.

#![forbid(unsafe_code)]

pub mod args;
pub mod env_files;
pub mod home;
pub mod read;
pub mod say;
pub mod workplace;

/// Exit code for everything that is palisade's refusal or failure, not the guest's end.
pub const FAILED: u8 = 125;
