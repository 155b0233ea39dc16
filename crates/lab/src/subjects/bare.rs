//! No wall at all.

use super::{Subject, words_of};
use crate::network::Network;
use palisade_policy::Policy;
use palisade_wall::Command;
use std::{ffi::OsString, path::Path};

/// The program itself.
#[derive(Clone, Copy, Debug)]
pub struct Bare;

impl Subject for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn command_line(
        &self,
        _policy: &Policy,
        command: &Command,
        _network: &Network,
        _room: &Path,
    ) -> anyhow::Result<Vec<OsString>> {
        Ok(words_of(command).collect())
    }
}
