//! What the server and its children hold: once a second under load, and before and after it.

use super::{Counts, Seen};
use crate::fixture::{PATIENCE, Places};
use crate::raw_http::{Request, exchange};
use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs, thread,
    time::{Duration, Instant},
};

/// By how much each figure may have grown over the part that is judged: what caches and chance come to. How many
/// connections clients hold goes up and down with each round of trouble, so that the server's descriptors are those beside
/// them.
const SLACK: [(Figure, f64); 6] = [
    (|sample| sample.server.resident_kib, 16.0 * 1024.0),
    (|sample| sample.beside_connections(), 40.0),
    (|sample| sample.server.threads, 4.0),
    (|sample| sample.children.resident_kib, 16.0 * 1024.0),
    (|sample| sample.children.descriptors, 40.0),
    (|sample| sample.children.threads, 4.0),
];
const FIGURES: [&str; 6] = [
    "resident_kib",
    "descriptors_beside_connections",
    "threads",
    "children_resident_kib",
    "children_descriptors",
    "children_threads",
];

/// What one more program takes of each: a keeper, what begins the domain and the program; in the server a thread, as long as
/// it starts it or waits for its end.
const A_PROGRAM: [f64; 6] = [64.0, 2.0, 1.0, 4.0 * 1024.0, 12.0, 3.0];
/// What a tenant may come to hold that is asked now and then: half of what one may hold that rests.
const A_TENANT: [f64; 6] = [4.0, 0.0, 0.0, 0.0, 0.0, 0.0];

/// What may be there after the load and was not before: connections to the server behind, which are kept for a while,
/// and the descriptors of a program that was started anew.
const SLACK_AT_REST: u64 = 12;

type Figure = fn(&Sample) -> u64;

pub(super) struct Sample {
    second: u64,
    server: Holds,
    /// All processes below the server: keepers, what begins a domain, programs, compilers.
    children: Holds,
    /// Of clients, as the server counts them.
    connections: u64,
    good: u64,
    trouble: u64,
    failures: usize,
}

impl Sample {
    fn beside_connections(&self) -> u64 {
        self.server.descriptors.saturating_sub(self.connections)
    }
}

/// What processes hold. The descriptors of those that this user may not look into are not counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holds {
    processes: u64,
    resident_kib: u64,
    descriptors: u64,
    threads: u64,
}

impl Holds {
    fn of(processes: &[u32]) -> Self {
        let mut holds = Self::default();
        for process in processes {
            let proc = format!("/proc/{process}");
            // It may have ended since.
            let Ok(status) = fs::read_to_string(format!("{proc}/status")) else {
                continue;
            };
            holds.processes += 1;
            holds.resident_kib += number(&status, "VmRSS:");
            holds.threads += number(&status, "Threads:");
            let descriptors = fs::read_dir(format!("{proc}/fd"));
            holds.descriptors += descriptors.map_or(0, |entries| entries.count() as u64);
        }
        holds
    }

    /// What does not change where nothing happens.
    fn rests(self) -> [u64; 3] {
        [self.processes, self.descriptors, self.threads]
    }
}

/// The number behind a name. What is about to end has no memory any more.
fn number(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.map_or(0, |word| word.parse().expect("a number"))
}

/// All processes below this one.
pub(super) fn descendants(process: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in pids {
        if let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) {
            let parent = number(&status, "PPid:") as u32;
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = children.remove(&process).unwrap_or_default();
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        found.extend(children.remove(pid).unwrap_or_default());
        at += 1;
    }
    found
}

fn connections(server: &Places) -> u64 {
    let answer = exchange(&server.admin, &Request::new("GET", "/metrics"));
    let figures = answer.expect("an answer of the admin socket").text();
    figure(&figures, "palisade_connections")
}

pub(super) fn watch(server: &Places, seen: &Seen, time: Duration) -> Vec<Sample> {
    let began = Instant::now();
    let mut samples = Vec::new();
    while began.elapsed() < time {
        thread::sleep(Duration::from_secs(1));
        let counts = seen.counts();
        samples.push(Sample {
            second: began.elapsed().as_secs(),
            server: Holds::of(&[server.process]),
            children: Holds::of(&descendants(server.process)),
            connections: connections(server),
            good: counts.all_good(),
            trouble: counts.trouble.values().sum(),
            failures: counts.failures.len(),
        });
    }
    samples
}

/// What the server and its children hold once nobody asks any more, and nothing has changed for a second.
pub(super) fn at_rest(server: &Places) -> [Holds; 2] {
    let (began, mut still_since, mut last) = (Instant::now(), Instant::now(), None);
    loop {
        let process = server.process;
        let holds = [Holds::of(&[process]), Holds::of(&descendants(process))];
        let connections = connections(server);
        let same = |last: [Holds; 2]| last.map(Holds::rests) == holds.map(Holds::rests);
        if connections > 0 || !last.is_some_and(same) {
            still_since = Instant::now();
        }
        if still_since.elapsed() > Duration::from_secs(1) {
            return holds;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "no rest, with {connections} connections: {holds:?}"
        );
        last = Some(holds);
        thread::sleep(Duration::from_millis(50));
    }
}

/// Nothing of what the load took is still held.
pub(super) fn assert_given_back(before: [Holds; 2], after: [Holds; 2]) {
    assert_given_back_but(before, after, 0);
}

/// The same, but for what so many programs more may take that run on.
pub(super) fn assert_given_back_but(before: [Holds; 2], after: [Holds; 2], programs: u64) {
    // A keeper, what begins the domain and the program, with a few descriptors each.
    let slack = SLACK_AT_REST + programs * 12;
    for (whose, (before, after)) in ["server", "children"]
        .iter()
        .zip(before.into_iter().zip(after))
    {
        let mut figures = before.rests().into_iter().zip(after.rests());
        assert!(
            figures.all(|(before, after)| after <= before + slack),
            "at rest the {whose} held {before:?}, and after the load {after:?}"
        );
    }
}

/// Writes them, a line each, to the file that `PALISADE_SOAK_SAMPLES` names.
pub(super) fn keep(samples: &[Sample]) {
    let Some(path) = env::var_os("PALISADE_SOAK_SAMPLES") else {
        return;
    };
    let mut text = format!(
        "second\tgood\ttrouble\tfailures\tchildren\t{}\n",
        FIGURES.join("\t")
    );
    for sample in samples {
        let figures = SLACK.map(|(figure, _)| figure(sample).to_string());
        let _ = writeln!(
            text,
            "{}\t{}\t{}\t{}\t{}\t{}",
            sample.second,
            sample.good,
            sample.trouble,
            sample.failures,
            sample.children.processes,
            figures.join("\t")
        );
    }
    fs::write(path, text).expect("write the samples");
}

/// Says on stderr what happened.
pub(super) fn summarize(samples: &[Sample], counts: &Counts, figures: &str) {
    let mut text = String::from("\nanswered as they must be\n");
    for (kind, times) in &counts.good {
        let _ = writeln!(text, "{times:>10}  {kind}");
    }
    text += "trouble, each with the end that it must have\n";
    for (kind, times) in &counts.trouble {
        let _ = writeln!(text, "{times:>10}  {kind}");
    }
    let result = |result: &str| figure(figures, &format!("palisade_reloads_total{{{result}}}"));
    let _ = writeln!(
        text,
        "reloads: {} done, {} refused; requests that failed: {}",
        result("result=\"ok\""),
        result("result=\"failed\""),
        counts.failures.len()
    );
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        for ((name, (figure, _)), growth) in FIGURES.iter().zip(SLACK).zip(growths(samples)) {
            let (first, last) = (figure(first), figure(last));
            let _ = writeln!(
                text,
                "{name}: {first} at the start, {last} at the end, {growth:+.0} by the fit"
            );
        }
    }
    eprintln!("{text}");
}

/// A figure of `/metrics`, by its name and labels.
pub(super) fn figure(figures: &str, name: &str) -> u64 {
    let value = figures
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no {name} in\n{figures}"));
    value.parse().expect("a number")
}

/// The part that is judged: what comes after the first third, in which caches fill.
fn judged(samples: &[Sample]) -> &[Sample] {
    &samples[samples.len() / 3..]
}

fn growths(samples: &[Sample]) -> [f64; 6] {
    let judged = judged(samples);
    SLACK.map(|(figure, _)| {
        let points: Vec<_> = judged
            .iter()
            .map(|sample| (sample.second as f64, figure(sample) as f64))
            .collect();
        growth(&points)
    })
}

/// What a line through the points grows by, from the first to the last: the median of the slopes of all pairs (Theil and
/// Sen), which no single sample can turn.
fn growth(points: &[(f64, f64)]) -> f64 {
    let mut slopes = Vec::new();
    for (at, (x, y)) in points.iter().enumerate() {
        let later = points[at + 1..].iter().filter(|(later, _)| later > x);
        slopes.extend(later.map(|(later_x, later_y)| (later_y - y) / (later_x - x)));
    }
    slopes.sort_by(f64::total_cmp);
    let (Some(slope), Some(first), Some(last)) =
        (slopes.get(slopes.len() / 2), points.first(), points.last())
    else {
        return 0.0;
    };
    slope * (last.0 - first.0)
}

/// Nothing grows.
pub(super) fn assert_flat(samples: &[Sample]) {
    assert_flat_but(samples, 0, 0);
}

/// The same, but for what so many programs more may take that run on, and so many tenants.
pub(super) fn assert_flat_but(samples: &[Sample], programs: usize, tenants: usize) {
    assert!(judged(samples).len() >= 3, "too few samples to tell");
    let growths = growths(samples);
    for (at, (name, (_, slack))) in FIGURES.iter().zip(SLACK).enumerate() {
        let growth = growths[at];
        let slack = slack + A_PROGRAM[at] * programs as f64 + A_TENANT[at] * tenants as f64;
        assert!(growth <= slack, "{name} grew by {growth:.0}");
    }
}

/// What grows is seen to grow, and what jumps once is not.
pub(crate) fn growth_is_told_from_chance() {
    let line = |step: f64| (0..30).map(move |x| (f64::from(x), 100.0 + step * f64::from(x)));
    assert!((growth(&line(2.0).collect::<Vec<_>>()) - 58.0).abs() < 1e-9);
    let mut jumps: Vec<_> = line(0.0).collect();
    jumps[29].1 = 1e9;
    jumps[11].1 = 0.0;
    assert!(growth(&jumps).abs() < 1e-9);
    assert!(growth(&[]).abs() < 1e-9);
}
