//! A row's floor: the program that does the least around a command.

use super::{Subject, words_of};
use crate::{figure::FLOOR, network::Network};
use palisade_policy::Policy;
use palisade_wall::Command;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// One of `lab/workloads/floor-*.c`, which takes the command as its arguments.
#[derive(Clone, Debug)]
pub struct FloorProgram(pub PathBuf);

impl FloorProgram {
    /// The same where all but the command is made ahead and then waits to be told.
    pub(crate) fn parked(&self, command: &Command) -> Vec<OsString> {
        let lead: [OsString; 2] = [self.0.clone().into(), "--parked".into()];
        lead.into_iter().chain(words_of(command)).collect()
    }
}

impl Subject for FloorProgram {
    fn name(&self) -> &'static str {
        FLOOR
    }

    fn command_line(
        &self,
        _policy: &Policy,
        command: &Command,
        _network: &Network,
        _room: &Path,
    ) -> anyhow::Result<Vec<OsString>> {
        let program = [self.0.clone().into()].into_iter();
        Ok(program.chain(words_of(command)).collect())
    }
}
