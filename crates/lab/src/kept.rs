//! Reading a run that was kept, by whomever: what is read and what is made of it has a bound.

use crate::{
    environment::Environment,
    folder::{ENVIRONMENT, PACKED_SAMPLES, SAMPLES, SUMMARY},
    outcome::Outcome,
    rows::rows,
    sample::{Reading, Run, Samples},
};
use anyhow::{Context, ensure};
use flate2::read::GzDecoder;
use rustix::fs::{Mode, OFlags};
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

/// The lab has a few dozen.
const MOST_ROWS: usize = 1000;
/// The largest of the lab's own has 100 KB.
const MOST_SUMMARY_BYTES: u64 = 8 << 20;
/// The largest of the lab's own has 5 MB.
const MOST_SAMPLES_BYTES: u64 = 64 << 20;
/// Of all rows together.
const MOST_RUN_BYTES: u64 = 256 << 20;
/// The lab's own take half of it.
const MOST_TABLE_COLUMNS: usize = 200;

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
        let mut left_bytes = MOST_RUN_BYTES;
        let read = |folder: &PathBuf| read_row(folder, &environment, &mut left_bytes);
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
    let place = known.iter().position(|row| row.name == name);
    (place.unwrap_or(known.len()), name.to_owned())
}

fn row_folders(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let fault = || format!("host: cannot read {}", path.display());
    let entries = fs::read_dir(path).with_context(fault)?;
    let mut folders = Vec::new();
    for entry in entries {
        let folder = entry.with_context(fault)?.path();
        if samples_of(&folder).is_file() {
            folders.push(folder);
        }
        ensure!(
            folders.len() <= MOST_ROWS,
            "usage: {} has more than {MOST_ROWS} rows, which no run of the lab has",
            path.display()
        );
    }
    Ok(folders)
}

/// Packed, unless something ended the lab before it had packed them.
fn samples_of(folder: &Path) -> PathBuf {
    let plain = folder.join(SAMPLES);
    match plain.is_file() {
        true => plain,
        false => folder.join(PACKED_SAMPLES),
    }
}

/// A row that something ended before its summary was written has its samples and no figures.
fn read_row(
    folder: &Path,
    environment: &Environment,
    left_bytes: &mut u64,
) -> anyhow::Result<KeptRow> {
    let summary = folder.join(SUMMARY);
    let outcome = if summary.is_file() {
        let outcome: Outcome = read_json(&summary)?;
        ensure!(
            !outcome.row.is_empty(),
            "{} is not as the lab wrote it: it names no row",
            summary.display()
        );
        let mut tables = outcome.tables.iter();
        ensure!(
            tables.all(|(_, table)| table.width() <= MOST_TABLE_COLUMNS),
            "{} is not as the lab wrote it: a table is wider than {MOST_TABLE_COLUMNS} columns",
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
        samples: read_samples(&samples_of(folder), left_bytes)?,
    })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = read(path, MOST_SUMMARY_BYTES)?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not as the lab wrote it", path.display()))
}

/// The last line may be half of one, where something ended the lab while it wrote.
fn read_samples(path: &Path, left_bytes: &mut u64) -> anyhow::Result<Samples> {
    let text = read(path, MOST_SAMPLES_BYTES.min(*left_bytes))?;
    *left_bytes -= text.len() as u64;
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
    Ok(complete_rounds(runs))
}

fn read(path: &Path, most_bytes: u64) -> anyhow::Result<String> {
    read_at_most(path, most_bytes).with_context(|| format!("host: cannot read {}", path.display()))
}

/// Nobody is waited for: there may be a FIFO by now. What is packed is no larger unpacked.
fn read_at_most(path: &Path, most_bytes: u64) -> anyhow::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "it is not a regular file");
    let ensure_small = |bytes: u64| {
        ensure!(
            bytes <= most_bytes,
            "it is larger than any that the lab writes"
        );
        Ok(())
    };
    ensure_small(metadata.len())?;
    let mut text = String::new();
    let is_packed = path.extension().is_some_and(|end| end == "gz");
    let read = match is_packed {
        true => GzDecoder::new(file)
            .take(most_bytes + 1)
            .read_to_string(&mut text)?,
        false => file.take(most_bytes + 1).read_to_string(&mut text)?,
    };
    ensure_small(read as u64)?;
    Ok(text)
}

/// The readings of a round, by who told them.
type Round = BTreeMap<usize, Vec<Reading>>;

/// The rounds that have a run of every contender who was there to the end, without the warm-up. A number that says
/// which round it was takes no room, whatever it is.
fn complete_rounds(runs: Vec<Run>) -> Samples {
    let mut contenders = Vec::new();
    let mut places = HashMap::new();
    let mut rounds: BTreeMap<usize, Round> = BTreeMap::new();
    for run in runs {
        let place = *places.entry(run.contender.clone()).or_insert_with(|| {
            contenders.push(run.contender);
            contenders.len() - 1
        });
        if !run.warm_up {
            rounds
                .entry(run.round)
                .or_default()
                .insert(place, run.readings);
        }
    }
    let sat_out = who_sat_out(&rounds);
    let stayed = who_stayed(&rounds, &sat_out, contenders.len());
    let places: Vec<usize> = (0..contenders.len()).filter(|one| stayed[*one]).collect();
    let contenders = places.iter().map(|place| contenders[*place].clone());
    let mut samples = Samples::new(contenders.collect());
    for (number, mut round) in rounds.into_iter().filter(|_| !places.is_empty()) {
        let readings = places.iter().enumerate().map(|(index, place)| {
            if sat_out.get(place).is_some_and(|from| *from <= number) {
                samples.sit_out(index);
                return Some(Vec::new());
            }
            round.remove(place)
        });
        if let Some(readings) = readings.collect() {
            samples.push_round(readings);
        }
    }
    samples
}

/// From which round on somebody sat out, who told nothing then.
fn who_sat_out(rounds: &BTreeMap<usize, Round>) -> HashMap<usize, usize> {
    let mut sat_out = HashMap::new();
    for (number, round) in rounds {
        let silent = round.iter().filter(|(_, readings)| readings.is_empty());
        for (place, _) in silent {
            sat_out.entry(*place).or_insert(*number);
        }
    }
    sat_out
}

/// Whoever is missing in a round with another one after it, and did not sit out by then, failed and was left out.
fn who_stayed(
    rounds: &BTreeMap<usize, Round>,
    sat_out: &HashMap<usize, usize>,
    contenders: usize,
) -> Vec<bool> {
    let last = rounds.last_key_value().map_or(0, |(last, _)| *last);
    let mut seen = vec![0; contenders];
    let until = |place: &usize| sat_out.get(place).map_or(last, |from| last.min(*from));
    for (number, round) in rounds {
        for place in round.keys().filter(|place| *number < until(place)) {
            seen[*place] += 1;
        }
    }
    let seen = seen.into_iter().enumerate();
    seen.map(|(place, seen)| seen == until(&place)).collect()
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
        let [bare, ours] = [0, 1].map(|index: usize| runs[index].contender.clone());
        let samples = complete_rounds(runs.to_vec());
        assert_eq!(samples.rounds(), 1);
        assert_eq!(samples.series(&bare, "wall"), [1.0]);
        assert_eq!(samples.series(&ours, "wall"), [2.0]);
    }

    #[test]
    fn whoever_is_missing_in_between_is_left_out() {
        let runs = [
            run(0, false, "bare", 1.0),
            run(0, false, "palisade run", 2.0),
            run(1, false, "bare", 3.0),
            run(2, false, "bare", 5.0),
            run(2, false, "palisade run", 6.0),
        ];
        let bare = runs[0].contender.clone();
        let samples = complete_rounds(runs.to_vec());
        assert_eq!(samples.contenders(), std::slice::from_ref(&bare));
        assert_eq!(samples.series(&bare, "wall"), [1.0, 3.0, 5.0]);
    }

    #[test]
    fn whoever_sat_out_keeps_the_rounds_before() {
        let silent = |round, subject| Run {
            readings: Vec::new(),
            ..run(round, false, subject, 0.0)
        };
        let runs = [
            run(0, false, "bubblewrap", 7.0),
            run(0, false, "bare", 1.0),
            silent(1, "bubblewrap"),
            run(1, false, "bare", 3.0),
            run(2, false, "bare", 5.0),
            run(3, false, "bare", 7.0),
        ];
        let [peer, bare] = [0, 1].map(|index: usize| runs[index].contender.clone());
        let samples = complete_rounds(runs.to_vec());
        assert_eq!(samples.series(&bare, "wall"), [1.0, 3.0, 5.0, 7.0]);
        assert_eq!(samples.series(&peer, "wall"), [7.0]);
        assert!(samples.sits_out(0) && !samples.sits_out(1));
        let lost = [
            runs[1].clone(),
            runs[2].clone(),
            runs[3].clone(),
            runs[4].clone(),
        ];
        let samples = complete_rounds(lost.to_vec());
        assert_eq!(
            samples.contenders(),
            std::slice::from_ref(&bare),
            "a round of the peer's is missing"
        );
    }

    /// A number in a file makes no room for as many rounds.
    #[test]
    fn a_round_of_any_number_takes_no_room() {
        for round in [1 << 40, usize::MAX] {
            let runs = vec![
                run(round, false, "bare", 1.0),
                run(round - 1, false, "bare", 1.0),
            ];
            assert_eq!(complete_rounds(runs).rounds(), 0);
        }
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
        row.finish(&outcome, "shown").unwrap();
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

    /// A packed file may unfold to a thousand times its size.
    #[test]
    fn packed_samples_are_bounded_by_what_they_unfold_to() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder(parent.path());
        let path = samples_of(&folder.path().join("syscalls"));
        assert!(path.ends_with(PACKED_SAMPLES));
        let line = serde_json::to_string(&run(0, false, "bare", 1.0)).unwrap() + "\n";
        let bytes = line.len() as u64;
        assert_eq!(read_at_most(&path, bytes).unwrap(), line);
        let error = read_at_most(&path, bytes - 1).unwrap_err().to_string();
        assert!(error.contains("larger than any"), "{error}");
    }
}
