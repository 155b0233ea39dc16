//! The figures of a command, and the table of them. Pure.

use crate::{
    figure::Figure,
    notation::{milliseconds, short},
    rows::{BARE, ratio_cell},
    sample::{Contender, Samples, Unit},
    statistics::median,
    table::Table,
};

/// From before the process is made until it has been waited for.
pub(super) const WALL: &str = "wall";
/// The same of a program that ends at once.
pub(super) const START: &str = "start";
/// User and system time of all processes.
pub(super) const CPU: &str = "cpu";
/// The largest resident set of a single process.
pub(super) const MEMORY: &str = "memory";

const MEASURES: [(&str, Unit); 4] = [
    (WALL, Unit::Microseconds),
    (START, Unit::Microseconds),
    (CPU, Unit::Microseconds),
    (MEMORY, Unit::Bytes),
];

/// What the table is of.
pub(super) const TITLE: &str = "Medians, and times bare with its 95 % interval:";
/// What the columns are.
pub(super) const LEGEND: &str = "
bare     no wall at all; × bare compares with it, 95 % is the interval of that
whole    from start to end, the median
start    a program that ends at once, under the same rules, in the same rounds
running  whole less start, as far as the two can be told apart
CPU      processor time of all processes
MiB      memory of the largest process
";

/// Whoever runs the command so, if somebody does.
pub(super) fn subject<'a>(samples: &'a Samples, name: &str) -> Option<&'a Contender> {
    samples.contenders().iter().find(|one| one.subject == name)
}

/// Every measure of everybody who has it.
pub(super) fn figures(samples: &Samples) -> Vec<Figure> {
    let bare = subject(samples, BARE);
    let contenders = samples.contenders().iter();
    let pairs = contenders.flat_map(|one| MEASURES.map(|measure| (one, measure)));
    pairs
        .filter(|(one, (measure, _))| !samples.series(one, measure).is_empty())
        .map(|(one, measure)| {
            let baseline = bare.filter(|bare| *bare != one);
            Figure::of(samples, one, baseline, measure, None)
        })
        .collect()
}

/// Long runs are shown in s, others in ms.
#[derive(Clone, Copy)]
enum Scale {
    Seconds,
    Milliseconds,
}

impl Scale {
    fn of(samples: &Samples) -> Self {
        const LONG_US: f64 = 10e6;
        let first = samples.contenders().first();
        let whole_us = first.map_or(0.0, |one| median(&samples.series(one, WALL)));
        match whole_us >= LONG_US {
            true => Self::Seconds,
            false => Self::Milliseconds,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
        }
    }

    fn cell(self, us: f64) -> String {
        match self {
            Self::Seconds => milliseconds(us / 1000.0),
            Self::Milliseconds => milliseconds(us),
        }
    }
}

/// A line for each contender. Memory that is no more than `least_bytes` can't be told from less.
pub(super) fn table(samples: &Samples, least_bytes: f64) -> Table {
    let scale = Scale::of(samples);
    let unit = scale.unit();
    let mut table = Table::new([
        "".to_owned(),
        format!("whole {unit}"),
        "× bare".to_owned(),
        "95 %".to_owned(),
        "start ms".to_owned(),
        format!("running {unit}"),
        format!("CPU {unit}"),
        "MiB".to_owned(),
    ]);
    let bare = subject(samples, BARE);
    for one in samples.contenders() {
        let of = |measure| samples.series(one, measure);
        let (whole_us, start_us) = (median(&of(WALL)), median(&of(START)));
        let baseline = bare.filter(|bare| *bare != one);
        let figure = Figure::of(samples, one, baseline, MEASURES[0], None);
        table.line([
            one.subject.clone(),
            scale.cell(whole_us),
            ratio_cell(Some(&figure)),
            figure.ratio_interval(),
            milliseconds(start_us),
            scale.cell(whole_us - start_us).replace('-', "−"),
            known(&of(CPU), |us| scale.cell(us)),
            known(&of(MEMORY), |bytes| memory(bytes, least_bytes)),
        ]);
    }
    table
}

fn known(values: &[f64], cell: impl Fn(f64) -> String) -> String {
    match values.is_empty() {
        true => "-".to_owned(),
        false => cell(median(values)),
    }
}

fn memory(bytes: f64, least_bytes: f64) -> String {
    const MIB: f64 = (1u64 << 20) as f64;
    match bytes <= least_bytes {
        true => format!("≤ {}", short(least_bytes / MIB)),
        false => short(bytes / MIB),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sample::Reading;

    /// Rounds in which `walls` holds, for each contender, its whole time and its start in ms.
    pub(in crate::cost) fn rounds(walls: &[(&str, f64, f64)], noise: &[f64]) -> Samples {
        let contenders = walls
            .iter()
            .map(|(subject, ..)| Contender::new("bzip2", subject));
        let mut samples = Samples::new(contenders.collect());
        for noise_ms in noise {
            let of_round = walls.iter().map(|(subject, whole_ms, start_ms)| {
                let mut readings = vec![
                    Reading::one_us(START, start_ms * 1e3),
                    Reading::one_us(WALL, (whole_ms + noise_ms) * 1e3),
                ];
                if *subject != "runsc" {
                    readings.push(Reading::one_us(CPU, whole_ms * 0.9e3));
                    readings.push(Reading {
                        measure: MEMORY.to_owned(),
                        unit: Unit::Bytes,
                        values: vec![whole_ms * 40_000.0],
                    });
                }
                readings
            });
            samples.push_round(of_round.collect());
        }
        samples
    }

    #[test]
    fn the_table_shows_start_and_running_apart() {
        let samples = rounds(
            &[
                ("bare", 500.0, 0.4),
                ("palisade run", 501.5, 1.3),
                ("bubblewrap", 503.0, 3.4),
                ("runsc", 900.0, 120.0),
            ],
            &[0.0, 1.0, -1.0, 2.0, 0.5],
        );
        let table = table(&samples, 19.05 * (1 << 20) as f64);
        assert!(table.width() <= crate::table::MOST_COLUMNS);
        insta::assert_snapshot!(table, @"
              whole ms  × bare         95 %  start ms  running ms  CPU ms   MiB
───────────────────────────────────────────────────────────────────────────────
bare             500.5                          0.400       500.1   450.0  19.1
palisade run     502.0   1.003  1.003–1.003     1.300       500.7   451.4  19.1
bubblewrap       503.5   1.006  1.006–1.006     3.400       500.1   452.7  19.2
runsc            900.5   1.799  1.797–1.802     120.0       780.5       -     -
");
        assert_eq!(figures(&samples).len(), 14);
    }

    #[test]
    fn long_runs_are_shown_in_seconds() {
        let samples = rounds(
            &[("bare", 12_000.0, 0.4), ("palisade run", 12_001.0, 1.3)],
            &[0.0; 3],
        );
        insta::assert_snapshot!(table(&samples, 0.0), @"
              whole s  × bare         95 %  start ms  running s  CPU s  MiB
───────────────────────────────────────────────────────────────────────────
bare            12.00                          0.400      12.00  10.80  458
palisade run    12.00   1.000  1.000–1.000     1.300      12.00  10.80  458
");
    }

    #[test]
    fn without_a_bare_run_there_is_no_ratio() {
        let samples = rounds(&[("wasmtime", 20.0, 5.0)], &[0.0; 3]);
        insta::assert_snapshot!(table(&samples, 0.0), @"
          whole ms  × bare  95 %  start ms  running ms  CPU ms  MiB
───────────────────────────────────────────────────────────────────
wasmtime     20.00                   5.000       15.00   18.00  0.8
");
        assert!(
            figures(&samples)
                .iter()
                .all(|figure| figure.ratio.is_none())
        );
    }
}
