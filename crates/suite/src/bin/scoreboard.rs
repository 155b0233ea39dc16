//! The scoreboard: every attack that succeeds with no wall, against every installed tool.
//!
//! ```text
//! scoreboard [--policy nothing|minimum|generous] [--user root|ordinary] [--only WORD] [--each] [--why TOOL]
//! ```
//!
//! Prints per section how many attacks each tool held, with `--each` every verdict, and with
//! `--why` what stopped each attack on that tool. The tools run at their strictest general settings, see [`palisade_suite::tools`]; a grant or
//! limit that a tool has no word for is left out. The numbers say what a tool does with
//! these attacks under this policy, not how good it is at what it was made for.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use palisade_suite::arena::Arenas;
use palisade_suite::attack::Attack;
use palisade_suite::catalogue::ROWS;
use palisade_suite::outcome::Verdict;
use palisade_suite::policy::Policy;
use palisade_suite::runner::Runner;
use palisade_suite::tools::Tool;
use palisade_suite::user::User;
use palisade_suite::{attacks, warden};

const USAGE: &str = "usage: scoreboard [--policy nothing|minimum|generous] [--user root|ordinary] [--only WORD] [--each] [--why TOOL]";

/// What was asked for.
struct Question {
    policy: Policy,
    user: User,
    only: String,
    each: bool,
    why: Option<Tool>,
}

/// One attack's verdicts, tool by tool.
type Verdicts = BTreeMap<usize, Vec<Verdict>>;

fn main() -> ExitCode {
    warden::enter_if_asked();
    match ask(std::env::args().skip(1)) {
        Some(question) => score(&question),
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn ask(mut words: impl Iterator<Item = String>) -> Option<Question> {
    let user = if rustix::process::geteuid().is_root() {
        User::Root
    } else {
        User::Ordinary
    };
    let mut question = Question {
        policy: Policy::Generous,
        user,
        only: String::new(),
        each: false,
        why: None,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--policy" => question.policy = Policy::named(&words.next()?)?,
            "--user" => question.user = User::named(&words.next()?)?,
            "--only" => question.only = words.next()?,
            "--why" => question.why = Some(Tool::named(&words.next()?)?),
            "--each" => question.each = true,
            _ => return None,
        }
    }
    Some(question)
}

fn score(question: &Question) -> ExitCode {
    let tools: Vec<_> = Tool::ALL
        .into_iter()
        .filter(|tool| !tool.lacks_namespaces() && !tool.runs_modules() && !tool.is_container())
        .filter(|tool| tool.find().is_some())
        .collect();
    let arenas = match Arenas::prepare(&tools) {
        Ok(arenas) => arenas,
        Err(e) => {
            eprintln!("scoreboard: the guests cannot be copied to /var/tmp: {e}");
            return ExitCode::FAILURE;
        }
    };
    let rows: Vec<_> = attacks::all()
        .into_iter()
        .filter(|attack| {
            attack.name.contains(&question.only) && !attack.is_granted(question.policy)
        })
        .collect();
    let verdicts = run_all(&Runner::new(arenas), &rows, &tools, question);
    print_board(&rows, &tools, &verdicts, question);
    ExitCode::SUCCESS
}

/// Runs every attack against every tool, as many at a time as there are processors.
fn run_all(runner: &Runner, rows: &[Attack], tools: &[Tool], question: &Question) -> Verdicts {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Verdicts::new());
    let work = || {
        while let Some(attack) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            let one = against_all(runner, attack, tools, question);
            let index = rows
                .iter()
                .position(|row| row.name == attack.name)
                .unwrap_or(0);
            verdicts
                .lock()
                .expect("no worker panics")
                .insert(index, one);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, NonZero::get) {
            scope.spawn(work);
        }
    });
    verdicts.into_inner().expect("no worker panics")
}

/// Empty where the attack does not even succeed with no wall.
fn against_all(
    runner: &Runner,
    attack: &Attack,
    tools: &[Tool],
    question: &Question,
) -> Vec<Verdict> {
    let bare = runner.outcome(Tool::None, attack, Policy::Generous, question.user);
    if bare.verdict() != Verdict::Allowed {
        return Vec::new();
    }
    tools
        .iter()
        .map(|tool| {
            runner
                .outcome(*tool, attack, question.policy, question.user)
                .verdict()
        })
        .collect()
}

fn print_board(rows: &[Attack], tools: &[Tool], verdicts: &Verdicts, question: &Question) {
    println!(
        "policy {}, started as {}",
        question.policy.name(),
        question.user.name()
    );
    print_line(
        "attacks held",
        tools.iter().map(|tool| tool.name().to_owned()),
    );
    let mut sections: Vec<_> = ROWS.iter().map(|row| row.0).collect();
    sections.dedup();
    for section in sections {
        let here = |index: &usize| section_of(&rows[*index]) == section;
        let counted: Vec<_> = verdicts
            .iter()
            .filter(|(index, row)| here(index) && !row.is_empty())
            .collect();
        if question.each {
            for (index, row) in &counted {
                print_line(
                    &format!("  {}", rows[**index].name),
                    row.iter().map(|v| mark(v).to_owned()),
                );
            }
        }
        let ran = |tool: usize| {
            counted
                .iter()
                .filter(move |(_, row)| !matches!(row[tool], Verdict::Void(_)))
        };
        let held = |tool: usize| {
            ran(tool)
                .filter(|(index, row)| is_held(&rows[**index], &row[tool]))
                .count()
        };
        print_line(
            section,
            (0..tools.len()).map(|tool| format!("{}/{}", held(tool), ran(tool).count())),
        );
    }
    if let Some(column) = tools.iter().position(|tool| Some(*tool) == question.why) {
        for (index, row) in verdicts.iter().filter(|(_, row)| !row.is_empty()) {
            println!("{:<26}{:?}", rows[*index].name, row[column]);
        }
    }
    let unproven = verdicts.values().filter(|row| row.is_empty()).count();
    println!("{unproven} attacks left out: this machine refuses them with no wall too");
}

fn section_of(attack: &Attack) -> &'static str {
    ROWS[attack.entry - 1].0
}

fn print_line(name: &str, cells: impl Iterator<Item = String>) {
    let cells: String = cells.map(|cell| format!("{cell:>12}")).collect();
    println!("{name:<26}{cells}");
}

/// A launcher that refuses to start holds only the attacks on its start.
fn is_held(attack: &Attack, verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Denied(_) => true,
        Verdict::Refused(_) => attack.refusal_counts,
        Verdict::Allowed | Verdict::Void(_) => false,
    }
}

fn mark(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Allowed => "ESCAPED",
        Verdict::Denied(_) => "held",
        Verdict::Refused(_) => "refused",
        Verdict::Void(_) => "void",
    }
}
