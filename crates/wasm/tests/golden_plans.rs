//! Plans for machines that are made up, as `palisade explain` prints them.
//!
//! `INSTA_UPDATE=always` writes the snapshots anew; look at what changed before you commit it.

use palisade_policy::Policy;
use palisade_process::{Machine, plan::Options, seccomp::Groups};
use palisade_wall::{Command, Enforcement, Spec, Surroundings, View};
use palisade_wasm::{
    module::Module,
    plan::{Plan, WasmPlanError, make_plan},
    programs::Programs,
};
use std::fs;

#[path = "../../process/tests/golden/mod.rs"]
mod golden;
use golden::{Table, policy, steps, surroundings, user};

const MODULE: &[u8] = b"\0asm\x01\0\0\0";
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

fn home() -> Table {
    Table::with_home()
        .folder("/home/ada/work")
        .folder("/srv")
        .folder("/srv/data")
        .folder("/opt")
        .folder("/opt/palisade")
        .file("/home/ada/one", "1")
        .file("/opt/palisade/palisade-worker", "worker")
}

fn module(head: &[u8]) -> Module {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prog.wasm");
    fs::write(&path, head).unwrap();
    let mut module = Module::open(&path).unwrap().unwrap();
    module.path = "/home/ada/prog.wasm".into();
    module
}

fn plan_of(head: &[u8], machine: &Machine, text: &str) -> Result<Plan, WasmPlanError> {
    let command = Command {
        program: "prog.wasm".into(),
        arguments: vec!["--flag".into()],
    };
    let programs = Programs {
        worker: "/opt/palisade/palisade-worker".into(),
        compiler: "/opt/palisade/palisade-compiler".into(),
    };
    make_plan(
        module(head),
        &Spec::new(&policy(text), &command, machine, &surroundings()),
        &home(),
        &programs,
    )
}

fn order(text: &str) -> String {
    let plan = plan_of(MODULE, &user(), text).unwrap();
    let words = plan.order.to_arguments();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

fn refusal(text: &str) -> String {
    plan_of(MODULE, &user(), text).unwrap_err().to_string()
}

#[test]
fn a_whole_plan() {
    let plan = plan_of(
        MODULE,
        &user(),
        "[grants]\nread = ['work', '/srv/data:/data']\n[limits]\nfiles = 16\nprocesses = 1",
    );
    insta::assert_snapshot!(plan.unwrap());
}

/// The same mechanisms around the worker as around any program.
#[test]
fn the_worker_is_behind_the_whole_process_wall() {
    let plan = plan_of(MODULE, &user(), "").unwrap();
    let spec = Spec {
        policy: &Policy::default(),
        command: &Command::new("true"),
        machine: &user(),
        surroundings: &Surroundings::default(),
        libexec: None,
    };
    let native = palisade_process::plan::make_plan(&spec, &home(), &Options::default()).unwrap();
    // A worker executes nothing and asks for no names: nobody looks. Its threads are few.
    let observed = |groups: Groups| Groups {
        observed: false,
        clone3: false,
        ..groups
    };
    assert_eq!(plan.worker.seccomp, native.seccomp.map(observed));
    assert_eq!(plan.worker.landlock, native.landlock);
    assert!(plan.worker.enforcement.starts_with(&native.enforcement));
    let (inside, outside) = (steps(&plan.worker), steps(&native));
    let lost: Vec<_> = outside
        .iter()
        .filter(|step| !inside.contains(step))
        .collect();
    let new: Vec<_> = inside
        .iter()
        .filter(|step| !outside.contains(step))
        .collect();
    insta::assert_snapshot!(format!("{lost:#?}\n{new:#?}"));
}

#[test]
fn the_guest_finds_the_folders_of_its_root_open() {
    let orders = [
        "",
        "system = false\n[grants]\nwrite = ['work']",
        "system = false\ncwd = '/data'\n[grants]\nread = ['/srv/data:/data', 'one:/etc/one']",
    ];
    insta::assert_snapshot!(orders.map(order).join("\n"));
}

#[test]
fn descriptors_come_behind_listeners() {
    let listening = "system = false\n[grants]\nlisten = ['tcp://127.0.0.1:80,ready', 'tcp://localhost:81,ready']";
    insta::assert_snapshot!(order(listening));
}

#[test]
fn limits_are_the_guests_and_the_worker_has_room() {
    let plan = plan_of(MODULE, &user(), "[limits]\nfiles = 16\nprocesses = 1").unwrap();
    assert_eq!(
        plan.order.files,
        Some(16 + plan.order.folders().count() as u64)
    );
    let limit = |name| {
        let mut limits = plan.worker.rlimits.iter();
        limits.find(|limit| limit.name == name).unwrap().value
    };
    assert!(limit("NOFILE") >= 16 + plan.order.folders().count() as u64 + 5);
    assert!(limit("NPROC") > 2);
}

#[test]
fn grants_that_mean_nothing_are_told() {
    let text = "[grants]\nwrite = ['work']\nexec = ['work']\nipc = ['work']\nconnect = ['tcp://192.0.2.1:1']\nlisten = ['tcp://127.0.0.1:80']\n[limits]\nprocesses = 4";
    let notes = |head| plan_of(head, &user(), text).unwrap().notes.join("\n");
    insta::assert_snapshot!(format!("{}\n\n{}", notes(MODULE), notes(COMPONENT)));
}

#[test]
fn what_a_guest_would_need_and_cannot_have_is_refused() {
    let said = [
        "profiles = ['palisade']",
        "[grants]\ndevice = ['pts']",
        "cwd = '/tmp'\n[grants]\nread = ['one:/one']",
        "[grants]\nread = ['gone']",
        "[grants]\nexec = ['/usr']",
    ]
    .map(|text| format!("{}\n    {}\n", text.replace('\n', ", "), refusal(text)));
    insta::assert_snapshot!(said.concat());
}

#[test]
fn a_file_in_the_root_is_found_from_the_root() {
    assert!(plan_of(MODULE, &user(), "cwd = '/'\n[grants]\nread = ['one:/one']").is_ok());
}

#[test]
fn a_guest_gets_the_granted_variables_and_no_others() {
    let variables = |text| plan_of(MODULE, &user(), text).unwrap().worker.environment;
    assert!(variables("[grants]\nread = ['.']").is_empty());
    let granted = "profiles = ['python']\n[grants]\nenv = ['A=1', 'LANG', 'ABSENT']";
    assert_eq!(
        **variables(granted),
        ["A=1", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"]
    );
}

/// The first folder that is open is where Go's programs begin.
#[test]
fn the_working_directory_comes_first() {
    let first = |text| plan_of(MODULE, &user(), text).unwrap().order.preopens[0].clone();
    assert_eq!(first("[grants]\nread = ['.']").as_os_str(), "/home/./ada");
    assert_eq!(first("cwd = '/usr'").as_os_str(), "/./usr");
    assert_eq!(first("system = false").as_os_str(), "/");
}

#[test]
fn a_folder_as_the_root() {
    let plan = |text| plan_of(MODULE, &user(), text).unwrap().to_string();
    let plans = [
        "[grants]\nwrite = ['work:/']",
        "cwd = '/data'\n[grants]\nread = ['.:/', '/srv/data:/work']",
    ]
    .map(plan);
    insta::assert_snapshot!(plans.join("\n"));
}

/// The worker starts elsewhere than its guest, and holds some limits itself: neither is what its user asks for.
#[test]
fn what_is_shown_of_a_plan_is_the_guests() {
    let text = "cwd = '/work'\n[grants]\nwrite = ['.:/']\n[limits]\nprocesses = 1";
    let plan = plan_of(MODULE, &user(), text).unwrap();
    assert_eq!(plan.worker.cwd.as_os_str(), "/");
    assert_eq!(View::cwd(&plan.worker).as_os_str(), "/work");
    assert!(plan.to_string().contains("\nin        /work\n"));
    let is_workers = |row: &Enforcement| {
        row.mechanism.contains("worker") || ["isolation", "host-calls"].contains(&&*row.capability)
    };
    assert!(plan.worker.enforcement().iter().any(is_workers));
    assert!(!plan.worker.process_wall().iter().any(is_workers));
}

/// Without namespaces it is: nothing unmounts it, and nothing of it is handed over.
#[test]
fn no_report_says_that_there_is_no_proc_where_there_is() {
    let told = |is_of_host| {
        palisade_wasm::plan::enforcement(is_of_host)[0]
            .mechanism
            .clone()
    };
    assert!(told(false).contains("there is no /proc"));
    assert!(!told(true).contains("there is no"));
}
