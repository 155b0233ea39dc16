//! A few attacks against containers, by podman with palisade-oci: those on the runtime itself, and one of each kind that its own
//! filter holds where the engine brings none. All of them are `make container-attacks`.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use palisade_suite::arena::Arenas;
use palisade_suite::containers::policy_faced;
use palisade_suite::runner::{Judgement, Runner};
use palisade_suite::tools::{Runtime, Settings, Tool};
use palisade_suite::user::{User, lacks_root};
use palisade_suite::{attacks, warden};

const ATTACKS: [&str; 8] = [
    "exe-overwrite",
    "leaked-cwd",
    "dev-symlink",
    "ptrace-init",
    "clone3-newuser",
    "uring-setup",
    "socket-vsock",
    "key-add",
];
/// No filter but palisade's own.
const TOOL: Tool = Tool::Podman(Runtime::Palisade, Settings::Pod);

fn main() -> ExitCode {
    warden::enter_if_asked();
    let arguments = Arguments::from_args();
    let arenas = Arenas::prepare(&[TOOL]).expect("copy the guests to /var/tmp");
    let runner = Arc::new(Runner::new(arenas));
    let trials = ATTACKS.into_iter().flat_map(|name| trials(&runner, name));
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    // The last owner removes the control groups and the copies.
    drop(runner);
    conclusion.exit_code()
}

/// An attack and its control.
fn trials(runner: &Arc<Runner>, name: &'static str) -> [Trial; 2] {
    let attack = attacks::named(name).expect("an attack of the table");
    let [one, other] = [Arc::clone(runner), Arc::clone(runner)];
    let its_control = attack.clone();
    [
        Trial::ignorable_test(format!("{}/{name}", TOOL.name()), move || {
            completion(|| {
                let policy = policy_faced(TOOL, &attack).map_err(str::to_owned)?;
                Ok(one.judge(TOOL, &attack, policy, User::Root))
            })
        }),
        Trial::ignorable_test(format!("{}/{name}/control", TOOL.name()), move || {
            completion(|| Ok(other.judge_control(TOOL, &its_control, User::Root)))
        }),
    ]
}

/// Where the tool is not there, or nobody may drive it, the reason.
fn completion(judge: impl FnOnce() -> Result<Judgement, String>) -> Result<Completion, Failed> {
    let absent = TOOL.find().is_none().then(|| {
        "palisade-oci is not built: cargo build --workspace --bins, or set PALISADE_OCI_BIN"
            .to_owned()
    });
    if let Some(reason) = lacks_root().or(absent).or_else(|| TOOL.lacks()) {
        return Ok(Completion::ignored_with(reason));
    }
    match judge()? {
        Judgement::Holds => Ok(Completion::Completed),
        Judgement::Ignored(reason) => Ok(Completion::ignored_with(reason)),
        Judgement::Fails(why) => Err(why.into()),
    }
}
