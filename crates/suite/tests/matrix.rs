//! Attack × wall × policy × user → verdict.
//!
//! `none/ATTACK/USER`, `process/ATTACK/POLICY/USER` and `process/ATTACK/control/USER`, and the
//! latter two again as `bare/…`: the process wall where there are no namespaces. Modules do the same
//! as `none-wasm/…` and `wasm/…`. A case that would prove nothing on this machine is reported as
//! ignored, with the reason.
//!
//! The minimum lies between nothing and generous. An attack that it does not grant faces it only where
//! `PALISADE_SUITE_EVERY_POLICY` is set, as `make nightly` does: a quarter of all cases, and each of them with a stricter
//! and a laxer one beside it.
//!
//! `PALISADE_BIN` names the binary under test; otherwise it is the one that cargo built
//! beside this suite. `PALISADE_SUITE_TOOL` names another tool to drive instead of both, such
//! as `bubblewrap`.

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use palisade_suite::arena::Arenas;
use palisade_suite::attack::Attack;
use palisade_suite::policy::Policy;
use palisade_suite::runner::{Judgement, Runner};
use palisade_suite::tools::Tool;
use palisade_suite::user::User;
use palisade_suite::{NO_WASM_GUESTS, attacks, warden};

fn main() -> ExitCode {
    warden::enter_if_asked();
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(2, NonZero::get);
    // More than half of a run is waiting: for namespaces to go, and for what might still arrive.
    arguments
        .test_threads
        .get_or_insert(processors + processors.div_ceil(2));

    let tools = tools_under_test();
    let arenas = Arenas::prepare(&tools).expect("copy the guests to /var/tmp");
    let runner = Arc::new(Runner::new(arenas));
    let conclusion = libtest_mimic::run(&arguments, trials(&runner, &tools));
    // The last owner removes the control groups and the copies.
    drop(runner);
    conclusion.exit_code()
}

fn tools_under_test() -> Vec<Tool> {
    match std::env::var("PALISADE_SUITE_TOOL") {
        Ok(name) => vec![
            Tool::named(&name).unwrap_or_else(|| panic!("PALISADE_SUITE_TOOL: no tool '{name}'")),
        ],
        Err(_) => vec![Tool::Palisade, Tool::Bare, Tool::Wasm],
    }
}

fn trials(runner: &Arc<Runner>, tools: &[Tool]) -> Vec<Trial> {
    let mut trials = Vec::new();
    let (of_modules, of_programs): (Vec<_>, Vec<_>) =
        tools.iter().partition(|tool| tool.runs_modules());
    add_trials(&mut trials, runner, &of_programs, &attacks::all());
    add_trials(&mut trials, runner, &of_modules, &attacks::modules());
    trials
}

fn add_trials(trials: &mut Vec<Trial>, runner: &Arc<Runner>, tools: &[Tool], attacks: &[Attack]) {
    let Some(first) = tools.first() else {
        return;
    };
    // Also the tier without namespaces is compared with no wall at all.
    let without = if first.runs_modules() {
        Tool::WorkerAlone
    } else {
        Tool::None
    };
    for attack in attacks {
        for user in User::BOTH {
            trials.push(without_wall(runner, without, attack.clone(), user));
            for tool in tools {
                for policy in policies_faced(attack) {
                    trials.push(behind_wall(runner, *tool, attack.clone(), policy, user));
                }
                trials.push(control(runner, *tool, attack.clone(), user));
            }
        }
    }
}

fn policies_faced(attack: &Attack) -> Vec<Policy> {
    let faces_every = std::env::var_os("PALISADE_SUITE_EVERY_POLICY").is_some();
    let faces = |policy: &Policy| {
        faces_every || *policy != Policy::Minimum || attack.is_granted(Policy::Minimum)
    };
    Policy::FACED.into_iter().filter(faces).collect()
}

fn without_wall(runner: &Arc<Runner>, tool: Tool, attack: Attack, user: User) -> Trial {
    let runner = Arc::clone(runner);
    let name = format!("{}/{}/{}", tool.name(), attack.name, user.name());
    Trial::ignorable_test(name, move || {
        if let Some(reason) = lacks_guest(tool) {
            return Ok(Completion::ignored_with(reason));
        }
        completion(runner.judge_without_wall(tool, &attack, user))
    })
}

fn behind_wall(
    runner: &Arc<Runner>,
    tool: Tool,
    attack: Attack,
    policy: Policy,
    user: User,
) -> Trial {
    let runner = Arc::clone(runner);
    let name = format!(
        "{}/{}/{}/{}",
        tool.name(),
        attack.name,
        policy.name(),
        user.name()
    );
    Trial::ignorable_test(name, move || {
        installed(tool)?;
        if let Some(reason) = lacks_guest(tool) {
            return Ok(Completion::ignored_with(reason));
        }
        completion(runner.judge(tool, &attack, policy, user))
    })
}

fn control(runner: &Arc<Runner>, tool: Tool, attack: Attack, user: User) -> Trial {
    let runner = Arc::clone(runner);
    let name = format!("{}/{}/control/{}", tool.name(), attack.name, user.name());
    Trial::ignorable_test(name, move || {
        installed(tool)?;
        if let Some(reason) = lacks_guest(tool) {
            return Ok(Completion::ignored_with(reason));
        }
        completion(runner.judge_control(tool, &attack, user))
    })
}

fn installed(tool: Tool) -> Result<(), Failed> {
    match tool.find() {
        Some(_) => Ok(()),
        None => Err(format!(
            "{} is not there: build it (cargo build -p palisade-cli) or set PALISADE_BIN",
            tool.name()
        )
        .into()),
    }
}

/// Why there is no module to run, or nothing that runs it.
fn lacks_guest(tool: Tool) -> Option<&'static str> {
    if !tool.runs_modules() {
        return None;
    }
    let no_worker = Tool::WorkerAlone.find().is_none();
    NO_WASM_GUESTS.or_else(|| {
        no_worker.then_some("palisade-worker is not built: cargo build --workspace --bins")
    })
}

fn completion(judgement: Judgement) -> Result<Completion, Failed> {
    match judgement {
        Judgement::Holds => Ok(Completion::Completed),
        Judgement::Ignored(reason) => Ok(Completion::ignored_with(reason)),
        Judgement::Fails(why) => Err(why.into()),
    }
}
