//! The folder of a run: everything that is needed to check its figures, or to take them again.
//!
//! ```text
//! runs/2026-01-31-start/
//!   environment.json   the machine, the tools, the command
//!   samples.jsonl      one run a line, as it was taken
//!   summary.json       figures and warnings
//!   table.txt          what was printed
//! ```

use crate::{environment::Environment, sample::Run};
use anyhow::Context;
use serde::Serialize;
use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

/// A folder that samples are being written to.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    samples: File,
}

impl RunFolder {
    /// Makes `DATE-ROW` below `parent`, or `DATE-ROW-2` and so on: no run is written over.
    ///
    /// # Errors
    ///
    /// When it cannot be written to.
    pub fn create(parent: &Path, date: &str, row: &str) -> anyhow::Result<Self> {
        let fault = || {
            format!(
                "host: cannot keep samples below {}; choose another folder with --out",
                parent.display()
            )
        };
        fs::create_dir_all(parent).with_context(fault)?;
        let path = new_folder(parent, &format!("{date}-{row}")).with_context(fault)?;
        let samples = File::create_new(path.join("samples.jsonl")).with_context(fault)?;
        Ok(Self { path, samples })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one run down.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn record(&mut self, run: &Run) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(run)?;
        line.push(b'\n');
        self.samples
            .write_all(&line)
            .with_context(|| self.fault("samples.jsonl"))
    }

    /// Writes the machine down.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn write_environment(&self, environment: &Environment) -> anyhow::Result<()> {
        self.write("environment.json", &json(environment)?)
    }

    /// Writes the figures down, for programs and as they were printed.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn write_summary(&self, summary: &impl Serialize, table: &str) -> anyhow::Result<()> {
        self.write("summary.json", &json(summary)?)?;
        self.write("table.txt", table)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        fs::write(self.path.join(name), text).with_context(|| self.fault(name))
    }

    fn fault(&self, name: &str) -> String {
        format!("host: cannot write {}", self.path.join(name).display())
    }
}

fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn new_folder(parent: &Path, name: &str) -> std::io::Result<PathBuf> {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    for name in std::iter::once(name.to_owned()).chain(numbered) {
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Contender, Reading};

    #[test]
    fn no_run_is_written_over() {
        let parent = tempfile::tempdir().unwrap();
        let create =
            || RunFolder::create(&parent.path().join("runs"), "2026-01-31", "start").unwrap();
        let names = [create(), create(), create()]
            .map(|folder| folder.path().file_name().unwrap().to_owned());
        assert_eq!(
            names,
            [
                "2026-01-31-start",
                "2026-01-31-start-2",
                "2026-01-31-start-3"
            ]
        );
    }

    #[test]
    fn samples_are_on_disk_as_soon_as_they_are_recorded() {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(parent.path(), "2026-01-31", "start").unwrap();
        let run = |round| Run {
            round,
            turn: 0,
            warm_up: false,
            contender: Contender::new("true", "bare"),
            at_us: 1,
            readings: vec![Reading::one_us("wall", 2.5)],
        };
        for round in 0..2 {
            folder.record(&run(round)).unwrap();
        }
        let text = fs::read_to_string(folder.path().join("samples.jsonl")).unwrap();
        let runs: Vec<Run> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(runs, [run(0), run(1)]);
    }

    #[test]
    fn a_folder_that_cannot_be_made_names_the_way_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = RunFolder::create(file.path(), "2026-01-31", "start").unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("choose another folder with --out"),
            "{error}"
        );
    }
}
