//! The folder of a run: everything that is needed to check its figures, or to take them again.
//!
//! ```text
//! runs/2026-01-31-thinkpad/
//!   README.md          what this is: the machine, the verdicts, the command that makes it again
//!   environment.json   the machine, the tools, the command
//!   start/             one folder for each row
//!     samples.jsonl.gz one run a line, as it was taken
//!     summary.json     figures, tables and warnings
//!     table.txt        what was printed
//! ```
//!
//! It grows row by row: whatever ends the measuring leaves what came before it. As long as a row is measured, its samples
//! are plain lines in `samples.jsonl`.

use crate::{environment::Environment, outcome::Outcome, readme::readme, sample::Run};
use anyhow::Context;
use flate2::{Compression, write::GzEncoder};
use serde::Serialize;
use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

pub(crate) const ENVIRONMENT: &str = "environment.json";
pub(crate) const SAMPLES: &str = "samples.jsonl";
/// The same once the row is over.
pub(crate) const PACKED_SAMPLES: &str = "samples.jsonl.gz";
pub(crate) const SUMMARY: &str = "summary.json";
const TABLE: &str = "table.txt";
const README: &str = "README.md";

/// A folder that rows are being written to.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes `DATE-MACHINE` below `parent`, or `DATE-MACHINE-2` and so on: no run is written over.
    ///
    /// # Errors
    ///
    /// When it cannot be written to.
    pub fn create(parent: &Path, date: &str, machine: &str) -> anyhow::Result<Self> {
        let fault = || {
            format!(
                "host: cannot keep samples below {}; choose another folder with --out",
                parent.display()
            )
        };
        fs::create_dir_all(parent).with_context(fault)?;
        let path = new_folder(parent, &format!("{date}-{machine}")).with_context(fault)?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the machine down.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn write_environment(&self, environment: &Environment) -> anyhow::Result<()> {
        write(&self.path, ENVIRONMENT, &json(environment)?)
    }

    /// Says what is in the folder so far, and which rows are still to come.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn write_readme(
        &self,
        environment: &Environment,
        outcomes: &[Outcome],
        to_come: &[&str],
    ) -> anyhow::Result<()> {
        let text = readme(environment, outcomes, to_come);
        write(&self.path, README, &text)
    }

    /// Begins a row.
    ///
    /// # Errors
    ///
    /// When the disk refuses, or the row is there already.
    pub fn create_row(&self, row: &str) -> anyhow::Result<RowFolder> {
        let path = self.path.join(row);
        let samples = fs::create_dir(&path).and_then(|()| File::create_new(path.join(SAMPLES)));
        let samples = samples.with_context(|| fault(&path, SAMPLES))?;
        Ok(RowFolder { path, samples })
    }
}

/// The folder of one row, that samples are being written to.
#[derive(Debug)]
pub struct RowFolder {
    path: PathBuf,
    samples: File,
}

impl RowFolder {
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
            .with_context(|| fault(&self.path, SAMPLES))
    }

    /// Writes the figures down, for programs and as they are `shown`, and packs the samples.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn finish(&self, summary: &impl Serialize, shown: &str) -> anyhow::Result<()> {
        write(&self.path, SUMMARY, &json(summary)?)?;
        write(&self.path, TABLE, shown)?;
        let packed = self.pack_samples();
        packed.with_context(|| fault(&self.path, PACKED_SAMPLES))
    }

    /// The plain file goes last: where both are there, it is the whole one.
    fn pack_samples(&self) -> io::Result<()> {
        let plain = self.path.join(SAMPLES);
        let packed = File::create_new(self.path.join(PACKED_SAMPLES))?;
        let mut packed = GzEncoder::new(packed, Compression::best());
        io::copy(&mut File::open(&plain)?, &mut packed)?;
        packed.finish()?;
        fs::remove_file(plain)
    }
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    fs::write(folder.join(name), text).with_context(|| fault(folder, name))
}

fn fault(folder: &Path, name: &str) -> String {
    format!("host: cannot write {}", folder.join(name).display())
}

fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn new_folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
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
            || RunFolder::create(&parent.path().join("runs"), "2026-01-31", "thinkpad").unwrap();
        let names = [create(), create(), create()]
            .map(|folder| folder.path().file_name().unwrap().to_owned());
        assert_eq!(
            names,
            [
                "2026-01-31-thinkpad",
                "2026-01-31-thinkpad-2",
                "2026-01-31-thinkpad-3"
            ]
        );
    }

    #[test]
    fn samples_are_on_disk_as_soon_as_they_are_recorded() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "2026-01-31", "thinkpad").unwrap();
        let mut row = folder.create_row("start").unwrap();
        let run = |round| Run {
            round,
            turn: 0,
            warm_up: false,
            contender: Contender::new("true", "bare"),
            at_us: 1,
            readings: vec![Reading::one_us("wall", 2.5)],
        };
        for round in 0..2 {
            row.record(&run(round)).unwrap();
        }
        let text = fs::read_to_string(folder.path().join("start/samples.jsonl")).unwrap();
        let runs: Vec<Run> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(runs, [run(0), run(1)]);
    }

    #[test]
    fn a_row_is_not_written_over_either() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "2026-01-31", "thinkpad").unwrap();
        folder.create_row("start").unwrap();
        let error = folder.create_row("start").unwrap_err();
        assert!(
            error.to_string().ends_with("start/samples.jsonl"),
            "{error}"
        );
    }

    #[test]
    fn a_folder_that_cannot_be_made_names_the_way_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = RunFolder::create(file.path(), "2026-01-31", "thinkpad").unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("choose another folder with --out"),
            "{error}"
        );
    }
}
