//! Every attack against a container, by what starts it: palisade-oci, runc and crun behind the same podman.
//!
//! ```text
//! container-attacks [--settings podman|pod] [--only WORD]… [--tsv FILE] [--without-controls]
//! ```
//!
//! Each attack faces the widest policy that podman has words for, with podman's own settings and with those of a pod of
//! Kubernetes', and so does its control. What palisade-oci must hold and does not is a failure, and so is what it holds though
//! [`palisade_suite::containers`] says that no container does. Of the other runtimes it is only told. A run that
//! ends otherwise than expected is made once more: a machine with much to do can be late.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use palisade_suite::arena::Arenas;
use palisade_suite::attack::{Attack, Control};
use palisade_suite::catalogue::ROWS;
use palisade_suite::containers::{may_end_either_way, policy_faced, why_open};
use palisade_suite::outcome::Verdict;
use palisade_suite::policy::Policy;
use palisade_suite::runner::Runner;
use palisade_suite::tools::{Runtime, Settings, Tool};
use palisade_suite::user::User;
use palisade_suite::{attacks, warden};

const USAGE: &str = "usage: container-attacks [--settings podman|pod] [--only WORD]… [--tsv FILE] [--without-controls]";
const USER: User = User::Root;
/// How often a run is made that does not end as expected.
const TRIES: usize = 2;

struct Question {
    settings: Vec<Settings>,
    only: Vec<String>,
    tsv: Option<String>,
    controls: bool,
}

/// How one attack ended at one wall.
struct Cell {
    ended: Ended,
    /// How its control did; none where it was not asked.
    control: Option<Ended>,
    /// What is wrong with it, of palisade-oci alone.
    failure: Option<String>,
}

/// How a run ended, for people.
#[derive(Clone, PartialEq, Eq)]
enum Ended {
    GotOut,
    Held,
    Refused,
    NoWords(&'static str),
    Void(String),
}

/// One attack at every wall; none where this machine refuses it with no wall too.
struct Line {
    policy: Policy,
    cells: Option<Vec<Cell>>,
}

fn main() -> ExitCode {
    warden::enter_if_asked();
    let Some(question) = ask(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let walls = walls(&question.settings);
    if !walls.iter().any(|wall| is_ours(*wall)) {
        eprintln!("container-attacks: without palisade-oci nothing is told");
        return ExitCode::FAILURE;
    }
    match Arenas::prepare(&walls) {
        Ok(arenas) => face(&Runner::new(arenas), &walls, &question),
        Err(e) => {
            eprintln!("container-attacks: the guests cannot be copied to /var/tmp: {e}");
            ExitCode::FAILURE
        }
    }
}

fn ask(mut words: impl Iterator<Item = String>) -> Option<Question> {
    let mut question = Question {
        settings: Vec::new(),
        only: Vec::new(),
        tsv: None,
        controls: true,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--settings" => question.settings.push(match words.next()?.as_str() {
                "podman" => Settings::Engine,
                "pod" => Settings::Pod,
                _ => return None,
            }),
            "--only" => question.only.push(words.next()?),
            "--tsv" => question.tsv = Some(words.next()?),
            "--without-controls" => question.controls = false,
            _ => return None,
        }
    }
    if question.settings.is_empty() {
        question.settings = vec![Settings::Engine, Settings::Pod];
    }
    Some(question)
}

/// Those that can be driven; of the others the reason is told.
fn walls(settings: &[Settings]) -> Vec<Tool> {
    let all = Tool::ALL.into_iter();
    all.filter(|tool| matches!(tool, Tool::Podman(_, one) if settings.contains(one)))
        .filter(|tool| {
            let absent = || {
                tool.find()
                    .is_none()
                    .then(|| "it is not installed".to_owned())
            };
            let lack = absent().or_else(|| tool.lacks());
            if let Some(why) = &lack {
                eprintln!("container-attacks: {} is left out: {why}", tool.name());
            }
            lack.is_none()
        })
        .collect()
}

fn is_ours(tool: Tool) -> bool {
    matches!(tool, Tool::Podman(Runtime::Palisade, _))
}

fn face(runner: &Runner, walls: &[Tool], question: &Question) -> ExitCode {
    let is_asked = |attack: &Attack| {
        question.only.is_empty()
            || question
                .only
                .iter()
                .any(|word| attack.name.contains(word.as_str()))
    };
    let rows: Vec<_> = attacks::all().into_iter().filter(is_asked).collect();
    let lines = run_all(runner, &rows, walls, question.controls);
    let table = tsv(&rows, walls, &lines);
    if let Some(file) = &question.tsv
        && let Err(e) = fs::write(file, &table)
    {
        eprintln!("container-attacks: {file}: {e}");
        return ExitCode::FAILURE;
    }
    print_board(&rows, walls, &lines);
    match print_failures(&rows, walls, &lines) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Runs every attack at every wall, as many at a time as there are processors.
fn run_all(
    runner: &Runner,
    rows: &[Attack],
    walls: &[Tool],
    controls: bool,
) -> BTreeMap<usize, Line> {
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(BTreeMap::new());
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(attack) = rows.get(index) else {
            return;
        };
        let line = at_all(runner, attack, walls, controls);
        // Half an hour is long to look at nothing.
        eprint!("{}", tsv_line(attack, walls, &line));
        lines.lock().expect("no worker panics").insert(index, line);
    };
    thread::scope(|scope| {
        // More than half of a run is waiting.
        for _ in 0..thread::available_parallelism().map_or(2, NonZero::get) * 2 {
            scope.spawn(work);
        }
    });
    lines.into_inner().expect("no worker panics")
}

fn at_all(runner: &Runner, attack: &Attack, walls: &[Tool], controls: bool) -> Line {
    let policy = policy_faced(walls[0], attack).unwrap_or(Policy::Nothing);
    let bare = runner.outcome(Tool::None, attack, Policy::Generous, USER);
    let cell = |wall: &Tool| at_wall(runner, *wall, attack, controls);
    let cells = (bare.verdict() == Verdict::Allowed).then(|| walls.iter().map(cell).collect());
    Line { policy, cells }
}

fn at_wall(runner: &Runner, wall: Tool, attack: &Attack, controls: bool) -> Cell {
    let policy = match policy_faced(wall, attack) {
        Ok(policy) => policy,
        Err(why) => {
            return Cell {
                ended: Ended::NoWords(why),
                control: None,
                failure: None,
            };
        }
    };
    let succeeds = attack.is_granted(policy) || why_open(wall, attack).is_some();
    let (ended, mut failure) = run(runner, wall, attack, policy, succeeds);
    let (control, failed) = match controls {
        true => control_at(runner, wall, attack),
        false => (None, None),
    };
    failure = failure.or(failed).filter(|_| is_ours(wall));
    Cell {
        ended,
        control,
        failure,
    }
}

fn control_at(runner: &Runner, wall: Tool, attack: &Attack) -> (Option<Ended>, Option<String>) {
    let control = match attack.control {
        Control::NoGrant(neighbour) => attacks::control(neighbour),
        _ => attack.clone(),
    };
    if let Some(why) = wall.refusal(&control, Policy::Control) {
        return (Some(Ended::NoWords(why)), None);
    }
    let (ended, failure) = run(runner, wall, &control, Policy::Control, true);
    (
        Some(ended),
        failure.map(|why| format!("its control: {why}")),
    )
}

/// A run, and what is wrong with how it ended.
fn run(
    runner: &Runner,
    wall: Tool,
    attack: &Attack,
    policy: Policy,
    succeeds: bool,
) -> (Ended, Option<String>) {
    let mut last = (Ended::Void(String::new()), None);
    for attempt in 0..TRIES {
        if attempt > 0 {
            runner.forget(wall, attack, policy, USER);
        }
        let outcome = runner.outcome(wall, attack, policy, USER);
        let verdict = outcome.verdict();
        let ended = ended(attack, &verdict);
        let is_right = match ended {
            Ended::GotOut | Ended::Held if may_end_either_way(wall, attack) => true,
            Ended::GotOut => succeeds,
            Ended::Held => !succeeds && outcome.survivors == 0,
            _ => false,
        };
        if is_right {
            return (ended, None);
        }
        let wrong = format!(
            "{verdict:?}, {} left over\n  {}",
            outcome.survivors, outcome.command
        );
        last = (ended, Some(wrong));
    }
    last
}

/// A launcher that refuses to start has held only the attacks on its start.
fn ended(attack: &Attack, verdict: &Verdict) -> Ended {
    match verdict {
        Verdict::Allowed => Ended::GotOut,
        Verdict::Denied(_) => Ended::Held,
        Verdict::Refused(_) if attack.refusal_counts => Ended::Held,
        Verdict::Refused(_) => Ended::Refused,
        Verdict::Void(why) => Ended::Void(why.lines().last().unwrap_or_default().to_owned()),
    }
}

impl Ended {
    fn word(&self) -> &'static str {
        match self {
            Self::GotOut => "got out",
            Self::Held => "held",
            Self::Refused => "not started",
            Self::NoWords(_) => "no words",
            Self::Void(_) => "void",
        }
    }

    fn control_word(&self) -> &'static str {
        match self {
            Self::GotOut => "succeeds",
            Self::Held => "fails",
            other => other.word(),
        }
    }
}

/// A line for each attack: where it stands, and at each wall how it and its control ended.
fn tsv(rows: &[Attack], walls: &[Tool], lines: &BTreeMap<usize, Line>) -> String {
    let mut text = "attack\tsection\tpolicy\tno wall".to_owned();
    for wall in walls {
        let _ = write!(text, "\t{0}\t{0} control", wall.name());
    }
    text += "\texpected of palisade-oci\twhy\n";
    for (index, line) in lines {
        text += &tsv_line(&rows[*index], walls, line);
    }
    text
}

fn tsv_line(attack: &Attack, walls: &[Tool], line: &Line) -> String {
    let section = ROWS[attack.entry - 1].0;
    let start = format!("{}\t{section}\t{}", attack.name, line.policy.name());
    let Some(cells) = &line.cells else {
        let empty = "\t".repeat(2 * walls.len() + 2);
        return format!("{start}\trefused\t{}\n", &empty[1..]);
    };
    let mut text = start + "\tsucceeds";
    for cell in cells {
        let control = cell.control.as_ref().map_or("", Ended::control_word);
        let _ = write!(text, "\t{}\t{control}", cell.ended.word());
    }
    let (expected, why) = expectation(attack, walls, line.policy);
    text + &format!("\t{expected}\t{why}\n")
}

fn expectation(attack: &Attack, walls: &[Tool], policy: Policy) -> (&'static str, String) {
    let wall = walls
        .iter()
        .find(|wall| is_ours(**wall))
        .copied()
        .unwrap_or(Tool::None);
    let ours = walls.iter().filter(|wall| is_ours(**wall));
    let open: Vec<_> = ours.filter_map(|wall| why_open(*wall, attack)).collect();
    if let Err(why) = policy_faced(wall, attack) {
        return ("no words", why.to_owned());
    }
    if may_end_either_way(wall, attack) {
        return (
            "either",
            "other programs of root's share what it takes".to_owned(),
        );
    }
    if attack.is_granted(policy) {
        return ("got out", "the policy grants it".to_owned());
    }
    match open[..] {
        [] => ("held", String::new()),
        [why] if walls.iter().filter(|wall| is_ours(**wall)).count() > 1 => {
            ("got out of a pod", why.to_owned())
        }
        [why, ..] => ("got out", why.to_owned()),
    }
}

fn print_board(rows: &[Attack], walls: &[Tool], lines: &BTreeMap<usize, Line>) {
    print_line(
        "attacks held",
        walls.iter().map(|wall| wall.name().to_owned()),
    );
    for section in sections() {
        let here = |index: &usize| ROWS[rows[*index].entry - 1].0 == section;
        let cells: Vec<_> = lines
            .iter()
            .filter(|(index, _)| here(index))
            .filter_map(|(_, line)| line.cells.as_ref())
            .collect();
        if cells.is_empty() {
            continue;
        }
        print_line(section, (0..walls.len()).map(|wall| score(&cells, wall)));
    }
    print_differences(rows, walls, lines);
    let unproven = lines.values().filter(|line| line.cells.is_none()).count();
    println!("{unproven} attacks left out: this machine refuses them with no wall too");
}

/// Each once, in the catalogue's order.
fn sections() -> Vec<&'static str> {
    let mut sections = Vec::new();
    for (section, ..) in ROWS {
        if !sections.contains(section) {
            sections.push(*section);
        }
    }
    sections
}

/// Held, of those that it faced.
fn score(cells: &[&Vec<Cell>], wall: usize) -> String {
    let ended = cells.iter().map(|row| &row[wall].ended);
    let faced = ended.filter(|ended| matches!(ended, Ended::Held | Ended::GotOut));
    let (held, out): (Vec<_>, Vec<_>) = faced.partition(|ended| **ended == Ended::Held);
    format!("{}/{}", held.len(), held.len() + out.len())
}

/// Attacks that do not end alike everywhere, or got out of every container.
fn print_differences(rows: &[Attack], walls: &[Tool], lines: &BTreeMap<usize, Line>) {
    println!();
    print_line(
        "got out of",
        walls.iter().map(|wall| wall.name().to_owned()),
    );
    for (index, line) in lines {
        let Some(cells) = &line.cells else { continue };
        let plain = |cell: &Cell| matches!(cell.ended, Ended::Held | Ended::NoWords(_));
        if !cells.iter().all(plain) {
            print_line(
                rows[*index].name,
                cells.iter().map(|cell| cell.ended.word().to_owned()),
            );
        }
    }
    println!();
}

fn print_line(name: &str, cells: impl Iterator<Item = String>) {
    let cells: String = cells.map(|cell| format!("{cell:>17}")).collect();
    println!("{name:<26}{cells}");
}

fn print_failures(rows: &[Attack], walls: &[Tool], lines: &BTreeMap<usize, Line>) -> usize {
    let mut failures = 0;
    for (index, line) in lines {
        for (cell, wall) in line.cells.iter().flatten().zip(walls) {
            if let Some(why) = &cell.failure {
                failures += 1;
                println!(
                    "FAILED {}/{}: {}: {why}",
                    wall.name(),
                    rows[*index].name,
                    cell.ended.word()
                );
            }
        }
    }
    println!("{failures} failures");
    failures
}
