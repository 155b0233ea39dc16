//! One source behind both walls: `equality/PROBE/CASE/USER`; and modules that no compiler makes:
//! `module/NAME/USER`.
//!
//! `PALISADE_BLESS=1` writes down what is seen behind the process wall. `PALISADE_BIN` names the binary under test;
//! otherwise it is the one that cargo built beside this suite.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use palisade_suite::equality::expected::{self, Sections};
use palisade_suite::equality::{Case, CaseRunner, Observation, Wall, all, contrast, differences};
use palisade_suite::guests::Probe;
use palisade_suite::modules::{self, Module};
use palisade_suite::user::{User, lacks_root};

/// What one run of the suite needs and finds.
struct Bench {
    runner: CaseRunner,
    /// Where expectations are to be renewed: what was seen.
    blessed: Option<Mutex<BTreeMap<&'static str, Sections>>>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(2, NonZero::get);
    arguments.test_threads.get_or_insert(processors);

    let bench = Arc::new(Bench {
        runner: CaseRunner::prepare().expect("copy the guests to /var/tmp"),
        blessed: std::env::var_os("PALISADE_BLESS").map(|_| Mutex::default()),
    });
    let conclusion = libtest_mimic::run(&arguments, trials(&bench));
    bench.write_blessed();
    conclusion.exit_code()
}

fn trials(bench: &Arc<Bench>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in all() {
        for user in User::BOTH {
            let bench = Arc::clone(bench);
            let name = format!("equality/{}/{}", case.title(), user.name());
            trials.push(Trial::ignorable_test(name, move || {
                bench.judge(&case, user)
            }));
        }
    }
    trials.extend(trials_of_modules(bench));
    trials
}

fn trials_of_modules(bench: &Arc<Bench>) -> Vec<Trial> {
    let lacking = bench.runner.lacks_wasm();
    let made = match lacking {
        Some(_) => Vec::new(),
        None => modules::all(&bench.runner.whole_module()).expect("read portable.wasm"),
    };
    let mut trials = Vec::new();
    for module in made.into_iter().map(Arc::new) {
        for user in User::BOTH {
            let (bench, module) = (Arc::clone(bench), Arc::clone(&module));
            let name = format!("module/{}/{}", module.name, user.name());
            trials.push(Trial::ignorable_test(name, move || {
                bench.judge_module(&module, user)
            }));
        }
    }
    if let Some(reason) = lacking {
        let ignored = move || Ok(Completion::ignored_with(reason));
        trials.push(Trial::ignorable_test("module", ignored));
    }
    trials
}

/// Root's half is not run by anybody else.
fn is_others(user: User) -> Option<String> {
    (user == User::Root).then(lacks_root).flatten()
}

impl Bench {
    fn judge_module(&self, module: &Module, user: User) -> Result<Completion, Failed> {
        if let Some(reason) = is_others(user) {
            return Ok(Completion::ignored_with(reason));
        }
        module.judge(&self.runner.run_module(module, user)?)?;
        Ok(Completion::Completed)
    }

    fn judge(&self, case: &Case, user: User) -> Result<Completion, Failed> {
        if let Some(reason) = is_others(user) {
            return Ok(Completion::ignored_with(reason));
        }
        if let Some(reason) = self.runner.lacks(case, Wall::Process) {
            return Ok(Completion::ignored_with(reason));
        }
        let native = self.runner.observe(case, Wall::Process, user)?;
        case.judge(Wall::Process, &native)
            .map_err(|why| failure("process", &why, &native))?;
        if let Some(reason) = native.refused_by_host() {
            return Ok(Completion::ignored_with(reason));
        }
        self.compare_with_expected(case, user, &native)?;
        if let Some(reason) = self.runner.lacks(case, Wall::Wasm) {
            return Ok(Completion::ignored_with(reason));
        }
        let wasm = self.runner.observe(case, Wall::Wasm, user)?;
        case.judge(Wall::Wasm, &wasm)
            .map_err(|why| failure("wasm", &why, &wasm))?;
        differences::compare(case, &native.lines, &wasm.lines)
            .map_err(|why| failure("wasm", &why, &wasm))?;
        Ok(Completion::Completed)
    }

    fn compare_with_expected(
        &self,
        case: &Case,
        user: User,
        native: &Observation,
    ) -> Result<(), Failed> {
        if let Some(blessed) = &self.blessed {
            let mut blessed = blessed.lock().unwrap_or_else(PoisonError::into_inner);
            let sections = blessed.entry(case.probe.name()).or_default();
            sections.insert(
                format!("{}/{}", case.name, user.name()),
                native.lines.clone(),
            );
            return Ok(());
        }
        let sections = expected::read(case.probe)?;
        let wanted = expected::of_case(&sections, case, user)
            .ok_or("no expectation yet: PALISADE_BLESS=1 writes one")?;
        if *wanted == native.lines {
            return Ok(());
        }
        Err(failure("process", &contrast(wanted, &native.lines), native))
    }

    fn write_blessed(&self) {
        let Some(blessed) = &self.blessed else {
            return;
        };
        let blessed = blessed.lock().unwrap_or_else(PoisonError::into_inner);
        for probe in Probe::ALL {
            if let Some(sections) = blessed.get(probe.name()) {
                expected::write(*probe, sections).expect("write the expectations");
            }
        }
    }
}

fn failure(wall: &str, why: &str, seen: &Observation) -> Failed {
    let lines: String = seen
        .lines
        .iter()
        .map(|line| format!("    {}\n", line.0))
        .collect();
    format!(
        "behind the {wall} wall:\n{why}\nall that was seen:\n{lines}stderr:\n{}",
        seen.stderr
    )
    .into()
}
