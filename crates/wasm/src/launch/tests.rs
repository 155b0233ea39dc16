use super::*;
use palisade_policy::Policy;
use palisade_process::ThisHost;
use palisade_wall::{Command, Denial, Ending, Process, REPORT_VERSION, Spec, Surroundings, Usage};

fn report(exit: Exit) -> Report {
    Report {
        version: REPORT_VERSION,
        wall: "process".into(),
        command: vec!["dir/prog.wasm".into()],
        called: None,
        exit,
        ending: Ending::Guest,
        exit_code: exit.shell_code(),
        trap: None,
        lost: None,
        enforcement: Vec::new(),
        denials: vec![Denial {
            process: Some(Process::new(7, b".palisade-worke")),
            ..Denial::default()
        }],
        phases: vec![Phase {
            name: "domain-gone".into(),
            done_us: 50.0,
        }],
        usage: Usage::default(),
        had: Vec::new(),
        granted: Vec::new(),
    }
}

fn completed(exit: Exit, told: &str) -> Result<Report, DomainError> {
    complete(report(exit), "dir/prog.wasm", 1_000, status::read(told))
}

#[test]
fn the_report_is_the_guests() {
    let report = completed(Exit::Code(0), "phase loaded 31000\n").unwrap();
    assert_eq!(report.wall, "wasm");
    let phases: Vec<_> = report
        .phases
        .iter()
        .map(|phase| (phase.name.as_str(), phase.done_us))
        .collect();
    assert_eq!(phases, [("loaded", 30.0), ("domain-gone", 50.0)]);
    let process = report.denials[0].process.as_ref().unwrap();
    assert_eq!((process.pid, process.name.as_str()), (7, "prog.wasm"));
}

#[test]
fn a_worker_tells_of_no_more_phases_than_a_report_has() {
    let report = completed(Exit::Code(0), &"phase x 1\n".repeat(1000)).unwrap();
    assert_eq!(report.phases.len(), MOST_PHASES);
}

#[test]
fn a_trap_is_told_and_acts_on_no_terminal() {
    let report = completed(
        Exit::Signal(6),
        "trap unreachable\u{1b}[2J; at abort\ntrap b\n",
    );
    let trap = report.unwrap().trap.unwrap();
    assert_eq!(trap, "unreachable\\u{1b}[2J; at abort");
}

#[test]
fn a_guest_that_was_not_run_is_an_error() {
    let error = completed(Exit::Code(125), "refused it imports a.b\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "guest: dir/prog.wasm cannot be run: it imports a.b"
    );
    let error = completed(Exit::Code(125), "refused policy: too few files: more\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy: dir/prog.wasm cannot be run: too few files: more"
    );
    let error = completed(Exit::Code(125), "stale other version\n").unwrap_err();
    assert!(error.to_string().starts_with("host: "), "{error}");
}

/// A worker that its guest took over can say so too: its end is the guest's then.
#[test]
fn what_is_said_of_a_guest_that_ran_changes_nothing() {
    for end in [Exit::Code(0), Exit::Signal(9)] {
        let report = completed(end, "refused x\nstale y\n").unwrap();
        assert_eq!(report.exit, end);
    }
    let plain = completed(Exit::Code(125), "").unwrap();
    assert_eq!(plain.exit, Exit::Code(125), "the guest's own code");
}

#[test]
fn nobody_waits_for_a_worker_that_holds_its_pipe() {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    rustix::io::write(&writer, b"phase loaded 1\n").unwrap();
    assert_eq!(read_status(reader), "phase loaded 1\n");
    drop(writer);
}

/// Whichever plan is launched in the end, what the compiler took is gone from the guest's time.
#[test]
fn the_guest_gets_what_is_left_of_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("prog.wasm");
    std::fs::write(&program, b"\0asm\x01\0\0\0").unwrap();
    let worker = folder.path().join("palisade-worker");
    std::fs::write(&worker, "").unwrap();
    let module = crate::module::Module::open(&program).unwrap().unwrap();
    let programs = Programs {
        compiler: worker.clone(),
        worker,
    };
    let policy = Policy::from_toml("limits.time = '1h'", "test", folder.path()).unwrap();
    let (command, surroundings) = (Command::new(program), Surroundings::default());
    let machine = Machine::probe();
    let spec = Spec::new(&policy, &command, &machine, &surroundings);
    let plan = crate::plan::make_plan(module, &spec, &ThisHost, &programs).unwrap();
    let now = Instant::now();
    let left = |until| plan.with_time_until(until).worker.time.unwrap();
    assert!(left(now + Duration::from_secs(60)) <= Duration::from_secs(60));
    assert!(left(now + Duration::from_secs(60)) > Duration::from_secs(1));
    assert_eq!(left(now), Duration::from_millis(1));
}
