//! Reading a run that was kept.

use crate::{
    environment::Environment,
    folder::{ENVIRONMENT, SAMPLES, SUMMARY},
    outcome::Outcome,
    rows::rows,
    sample::{Reading, Run, Samples},
};
use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A run folder, read.
#[derive(Clone, Debug)]
pub struct KeptRun {
    /// Where it lies.
    pub path: PathBuf,
    /// The machine.
    pub environment: Environment,
    /// Its rows, in the order of `palisade bench --list`.
    pub rows: Vec<KeptRow>,
}

/// One row of a run folder, read.
#[derive(Clone, Debug)]
pub struct KeptRow {
    /// Figures, tables and warnings.
    pub outcome: Outcome,
    /// The complete rounds.
    pub samples: Samples,
}

impl KeptRun {
    /// Reads a run folder, or a single row of one.
    ///
    /// # Errors
    ///
    /// When it is no such folder, or a file in it says something else than the lab wrote.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let is_row = path.join(SUMMARY).is_file();
        let whole = if is_row {
            path.canonicalize()?.parent().map(Path::to_owned)
        } else {
            Some(path.to_owned())
        };
        let whole = whole.unwrap_or_default();
        ensure!(
            whole.join(ENVIRONMENT).is_file(),
            "usage: {} is no folder of a run: it has no {ENVIRONMENT}; `palisade bench` makes such folders below runs",
            path.display()
        );
        let environment: Environment = read_json(&whole.join(ENVIRONMENT))?;
        let folders = if is_row {
            vec![path.to_owned()]
        } else {
            row_folders(path)?
        };
        let read = |folder: &PathBuf| read_row(folder, &environment);
        let mut rows = folders
            .iter()
            .map(read)
            .collect::<anyhow::Result<Vec<_>>>()?;
        rows.sort_by_key(|row| place_of(&row.outcome.row));
        Ok(Self {
            path: path.to_owned(),
            environment,
            rows,
        })
    }
}

/// Rows that are not known any more come last, by name.
fn place_of(name: &str) -> (usize, String) {
    let known = rows();
    let place = known.iter().position(|row| row.name() == name);
    (place.unwrap_or(known.len()), name.to_owned())
}

fn row_folders(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let fault = || format!("host: cannot read {}", path.display());
    let entries = fs::read_dir(path).with_context(fault)?;
    let mut folders = Vec::new();
    for entry in entries {
        let folder = entry.with_context(fault)?.path();
        if folder.join(SAMPLES).is_file() {
            folders.push(folder);
        }
    }
    Ok(folders)
}

/// A row that something ended before its summary was written has its samples and no figures.
fn read_row(folder: &Path, environment: &Environment) -> anyhow::Result<KeptRow> {
    let summary = folder.join(SUMMARY);
    let outcome = if summary.is_file() {
        let outcome: Outcome = read_json(&summary)?;
        ensure!(
            !outcome.row.is_empty(),
            "{} is not as the lab wrote it: it names no row",
            summary.display()
        );
        outcome
    } else {
        let name = folder.file_name().unwrap_or_default();
        Outcome {
            row: name.to_string_lossy().into_owned(),
            failed: Some("it was ended before it was over".to_owned()),
            ..Outcome::default()
        }
    };
    Ok(KeptRow {
        outcome: Outcome {
            environment: environment.clone(),
            folder: folder.to_owned(),
            ..outcome
        },
        samples: read_samples(&folder.join(SAMPLES))?,
    })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = read(path)?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not as the lab wrote it", path.display()))
}

/// The last line may be half of one, where something ended the lab while it wrote.
fn read_samples(path: &Path) -> anyhow::Result<Samples> {
    let text = read(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let run = |(index, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| {
            format!(
                "{}:{} is not as the lab wrote it",
                path.display(),
                index + 1
            )
        })
    };
    let lines = whole.lines().enumerate();
    let runs: Vec<Run> = lines.map(run).collect::<anyhow::Result<_>>()?;
    Ok(complete_rounds(&runs))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("host: cannot read {}", path.display()))
}

/// The rounds that have a run of every contender who was there to the end, without the warm-up.
fn complete_rounds(runs: &[Run]) -> Samples {
    let mut contenders = Vec::new();
    for run in runs {
        if !contenders.contains(&run.contender) {
            contenders.push(run.contender.clone());
        }
    }
    let mut rounds: Vec<Vec<Option<Vec<Reading>>>> = Vec::new();
    for run in runs.iter().filter(|run| !run.warm_up) {
        if rounds.len() <= run.round {
            rounds.resize(run.round + 1, vec![None; contenders.len()]);
        }
        let place = contenders.iter().position(|one| *one == run.contender);
        if let Some(place) = place {
            rounds[run.round][place] = Some(run.readings.clone());
        }
    }
    // Whoever is missing in a round with another one after it failed and was left out.
    let earlier = &rounds[..rounds.len().saturating_sub(1)];
    let stayed: Vec<bool> = (0..contenders.len())
        .map(|place| earlier.iter().all(|round| round[place].is_some()))
        .collect();
    let mut is_staying = stayed.iter();
    contenders.retain(|_| is_staying.next() == Some(&true));
    let mut samples = Samples::new(contenders);
    for round in rounds {
        let readings = round.into_iter().zip(&stayed);
        let readings = readings.filter(|(_, stayed)| **stayed);
        if let Some(readings) = readings.map(|(readings, _)| readings).collect() {
            samples.push_round(readings);
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{folder::RunFolder, sample::Contender};

    fn run(round: usize, warm_up: bool, subject: &str, value_us: f64) -> Run {
        Run {
            round,
            turn: 0,
            warm_up,
            contender: Contender::new("true", subject),
            at_us: 1,
            readings: vec![Reading::one_us("wall", value_us)],
        }
    }

    #[test]
    fn only_complete_rounds_count() {
        let runs = [
            run(0, true, "bare", 9.0),
            run(0, true, "palisade run", 9.0),
            run(0, false, "palisade run", 2.0),
            run(0, false, "bare", 1.0),
            run(1, false, "bare", 3.0),
        ];
        let samples = complete_rounds(&runs);
        assert_eq!(samples.rounds(), 1);
        assert_eq!(samples.series(&runs[0].contender, "wall"), [1.0]);
        assert_eq!(samples.series(&runs[1].contender, "wall"), [2.0]);
    }

    /// A run with one row that ended and one that something killed in the middle of a line.
    fn folder(parent: &Path) -> RunFolder {
        let folder = RunFolder::create(parent, "2026-01-31", "thinkpad").unwrap();
        folder.write_environment(&Environment::default()).unwrap();
        let mut row = folder.create_row("syscalls").unwrap();
        row.record(&run(0, false, "bare", 1.0)).unwrap();
        let outcome = Outcome {
            row: "syscalls".into(),
            rounds: 1,
            ..Outcome::default()
        };
        row.write_summary(&outcome, "shown").unwrap();
        let mut killed = folder.create_row("start").unwrap();
        killed.record(&run(0, false, "bare", 1.0)).unwrap();
        let path = killed.path().join(SAMPLES);
        let line = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{line}{}", &line[..20])).unwrap();
        folder
    }

    #[test]
    fn a_run_is_read_with_what_was_left_of_it() {
        let parent = tempfile::tempdir().unwrap();
        let kept = KeptRun::read(folder(parent.path()).path()).unwrap();
        let rows: Vec<_> = kept
            .rows
            .iter()
            .map(|row| (row.outcome.row.as_str(), row.samples.rounds()))
            .collect();
        assert_eq!(rows, [("start", 1), ("syscalls", 1)]);
        assert!(kept.rows[0].outcome.failed.is_some() && kept.rows[1].outcome.failed.is_none());
    }

    #[test]
    fn a_single_row_can_be_read() {
        let parent = tempfile::tempdir().unwrap();
        let path = folder(parent.path()).path().join("syscalls");
        let kept = KeptRun::read(&path).unwrap();
        assert_eq!(kept.rows.len(), 1);
        assert_eq!(kept.rows[0].outcome.row, "syscalls");
    }

    #[test]
    fn a_summary_of_an_older_palisade_is_read_and_another_file_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder(parent.path());
        let summary = folder.path().join("syscalls/summary.json");
        fs::write(&summary, r#"{"row":"syscalls","rounds":7}"#).unwrap();
        let kept = KeptRun::read(folder.path()).unwrap();
        assert_eq!(kept.rows[1].outcome.rounds, 7);
        fs::write(&summary, "{}").unwrap();
        let error = KeptRun::read(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("it names no row"), "{error}");
    }

    #[test]
    fn another_folder_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let error = KeptRun::read(parent.path()).unwrap_err().to_string();
        assert!(error.contains("is no folder of a run"), "{error}");
    }

    #[test]
    fn a_line_that_was_tampered_with_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder(parent.path());
        fs::write(folder.path().join("syscalls/samples.jsonl"), "{}\n").unwrap();
        let error = KeptRun::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("syscalls/samples.jsonl:1 is not"), "{error}");
    }
}
