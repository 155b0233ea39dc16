//! Attack × wall × policy × user → verdict.
//!
//! `none/ATTACK/USER`, `process/ATTACK/POLICY/USER` and `process/ATTACK/control/USER`, and the
//! latter two again as `bare/…`: the process wall where there are no namespaces. A case that
//! would prove nothing on this machine is reported as ignored, with the reason.
//!
//! `PALISADE_BIN` names the binary under test; otherwise it is the one that cargo built
//! beside this suite. `PALISADE_SUITE_TOOL` names another tool to drive instead of both, such
//! as `bubblewrap`.

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use palisade_suite::arena::Ground;
use palisade_suite::attack::{Attack, Policy, User};
use palisade_suite::runner::{Judgement, Runner};
use palisade_suite::tools::Tool;
use palisade_suite::{attacks, warden};

fn main() -> ExitCode {
    warden::enter_if_asked();
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(2, NonZero::get);
    arguments.test_threads.get_or_insert(processors);

    let tools = tools_under_test();
    let ground = Ground::prepare(&tools).expect("copy the guests to /var/tmp");
    let runner = Arc::new(Runner::new(ground));
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
        Err(_) => vec![Tool::Palisade, Tool::Bare],
    }
}

fn trials(runner: &Arc<Runner>, tools: &[Tool]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for attack in attacks::all() {
        for user in User::BOTH {
            trials.push(without_wall(runner, attack.clone(), user));
            for tool in tools {
                for policy in Policy::FACED {
                    trials.push(behind_wall(runner, *tool, attack.clone(), policy, user));
                }
                trials.push(control(runner, *tool, attack.clone(), user));
            }
        }
    }
    trials
}

fn without_wall(runner: &Arc<Runner>, attack: Attack, user: User) -> Trial {
    let runner = Arc::clone(runner);
    let name = format!("none/{}/{}", attack.name, user.name());
    Trial::ignorable_test(name, move || {
        completion(runner.judge_without_wall(Tool::None, &attack, user))
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
        completion(runner.judge(tool, &attack, policy, user))
    })
}

fn control(runner: &Arc<Runner>, tool: Tool, attack: Attack, user: User) -> Trial {
    let runner = Arc::clone(runner);
    let name = format!("{}/{}/control/{}", tool.name(), attack.name, user.name());
    Trial::ignorable_test(name, move || {
        installed(tool)?;
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

fn completion(judgement: Judgement) -> Result<Completion, Failed> {
    match judgement {
        Judgement::Holds => Ok(Completion::Completed),
        Judgement::Ignored(reason) => Ok(Completion::ignored_with(reason)),
        Judgement::Fails(why) => Err(why.into()),
    }
}
