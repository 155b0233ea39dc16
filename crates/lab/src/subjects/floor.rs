//! A row's floor: the program that does the least around a command.

use super::{Subject, words_of};
use crate::{figure::FLOOR, network::Network};
use palisade_policy::Policy;
use palisade_wall::Command;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// One of `lab/workloads/floor-*.c`, which takes the command as its last arguments.
#[derive(Clone, Debug)]
pub struct FloorProgram {
    program: PathBuf,
    /// What it is told before.
    words: Vec<OsString>,
}

impl FloorProgram {
    /// The one at `program`.
    pub(crate) fn new(program: PathBuf) -> Self {
        Self {
            program,
            words: Vec::new(),
        }
    }

    /// The same, doing more.
    pub(crate) fn with(&self, words: Vec<OsString>) -> Self {
        let mut more = self.clone();
        more.words.extend(words);
        more
    }

    /// The same where all but the command is made ahead and then waits to be told.
    pub(crate) fn parked(&self, command: &Command) -> Vec<OsString> {
        self.with(vec!["--parked".into()]).line(command)
    }

    /// The command in it.
    pub(crate) fn line(&self, command: &Command) -> Vec<OsString> {
        let program = [self.program.clone().into()].into_iter();
        let words = self.words.iter().cloned();
        program.chain(words).chain(words_of(command)).collect()
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
        Ok(self.line(command))
    }
}
