//! Programs that are components, in the worker as the wasm wall starts it, but with no wall round it.

#[path = "component/guests.rs"]
mod guests;
#[path = "component/worker.rs"]
mod worker;

use guests::Missing;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use palisade_wasm::status::Status;
use std::{
    fs,
    io::Write,
    os::unix::{fs::symlink, process::ExitStatusExt},
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};
use worker::{Run, Worker};

fn main() -> ExitCode {
    let trials = vec![
        command("list", arguments_and_environment_are_told),
        command("copy", input_is_read_to_its_end),
        command("poll", input_is_waited_for),
        command("files", files_are_made_read_and_removed),
        command("escape", no_path_leads_out),
        command("exit", an_exit_code_is_kept),
        command("abort", a_trap_is_a_signal),
        command("unfinished", nothing_written_is_lost),
        command("grow", memory_has_its_limit),
        command("sleep", a_wait_ends_with_the_worker),
        command("random", random_bytes_are_random),
        Trial::test("component/no program", what_is_no_program_is_refused),
        Trial::test("component/import", a_missing_import_is_refused),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test of `guests/component/command.c`.
fn command(name: &str, test: fn(&Worker)) -> Trial {
    Trial::ignorable_test(format!("component/{name}"), move || {
        match guests::command() {
            Ok(code) => test(&Worker::new(code)),
            Err(Missing(reason)) => return Ok(Completion::ignored_with(reason)),
        }
        Ok::<_, Failed>(Completion::Completed)
    })
}

fn arguments_and_environment_are_told(worker: &Worker) {
    let run = worker.run(&["list", "two words", ""]);
    assert!(
        run.stdout
            .starts_with("argument prog.wasm\nargument list\nargument two words\nargument \n")
    );
    assert!(run.stdout.contains("variable GREETING=hello\n"));
    assert!(!run.stdout.contains("LISTEN_FDS"), "{}", run.stdout);
    assert_eq!(run.code(), Some(0));
    let phases: Vec<_> = run.phases().collect();
    assert_eq!(phases, ["engine", "loaded", "linked", "started"]);
}

fn input_is_read_to_its_end(worker: &Worker) {
    // More than one read gives, and more than a pipe holds.
    let words = "many words ".repeat(20_000);
    let run = worker.run_with_input(&["copy"], words.as_bytes());
    assert_eq!(run.stdout, words);
    assert_eq!(run.stderr, "end of input\n");
    // A file is read as well as a pipe, and an empty one.
    let file = worker.folder().join("file");
    fs::write(&file, &words).expect("write the file");
    assert_eq!(worker.run_with_file(&["copy"], &file).stdout, words);
    assert_eq!(
        worker
            .run_with_file(&["copy"], Path::new("/dev/null"))
            .stdout,
        ""
    );
}

fn input_is_waited_for(worker: &Worker) {
    let mut started = worker.start(&["poll"]);
    let mut input = started.take_input();
    // What the guest waits for comes when it waits, or before: both are right.
    thread::sleep(Duration::from_millis(50));
    input.write_all(b"late").expect("write to the guest");
    drop(input);
    let run = started.wait();
    assert_eq!(run.stdout, "polled 1\nlate");
}

fn files_are_made_read_and_removed(worker: &Worker) {
    let run = worker.run(&["files"]);
    assert_eq!(
        run.stdout,
        "open 0\nwrite 0\nseek 0\nread 0\nbytes written\nmkdir 0\nrename 0\nstat 0\nsize 7\n\
         absent -1 No such file or directory\nunlink 0\nrmdir 0\n"
    );
}

fn no_path_leads_out(worker: &Worker) {
    let folder = worker.folder();
    fs::write(folder.join("../secret"), "secret").expect("write the secret");
    fs::create_dir(folder.join("../sibling")).expect("make the sibling");
    fs::write(folder.join("inside"), "").expect("write the file");
    fs::create_dir(folder.join("inner")).expect("make the folder");
    symlink("/", folder.join("out")).expect("make the link");
    let run = worker.run(&["escape"]);
    for line in run.stdout.lines() {
        let denied = line.ends_with(" -1 Operation not permitted");
        // A link within may say what it likes, and one that could not be made is not there.
        let harmless = [
            "symbolic link 0",
            "through that -1 No such file or directory",
        ];
        assert!(denied || harmless.contains(&line), "{line}");
    }
    assert_eq!(run.stdout.lines().count(), 17);
    // The witness: nothing came in or went out.
    let secret = fs::read_to_string(folder.join("../secret"));
    assert_eq!(secret.expect("read the secret"), "secret");
    for made in ["../made", "../inside", "../inner", "secret"] {
        let made = folder.join(made);
        assert!(fs::symlink_metadata(&made).is_err(), "{}", made.display());
    }
    assert!(folder.join("../sibling").is_dir());
}

fn an_exit_code_is_kept(worker: &Worker) {
    // The adapter says only whether it went well: `exit-with-code` is newer, of WASI 0.2.12.
    for (code, told) in [(0, 0), (1, 1), (7, 1)] {
        assert_eq!(worker.run(&["exit", &code.to_string()]).code(), Some(told));
    }
}

fn a_trap_is_a_signal(worker: &Worker) {
    let run = worker.run(&["abort"]);
    assert_eq!(run.status.signal(), Some(6));
    assert!(
        matches!(run.told.last(), Some(Status::Trap(text)) if text.contains("unreachable") && text.contains("abort")),
        "{:?}",
        run.told
    );
}

fn nothing_written_is_lost(worker: &Worker) {
    let run = worker.run(&["unfinished"]);
    assert_eq!(
        (run.stdout.as_str(), run.status.signal()),
        ("no line", Some(6))
    );
}

fn memory_has_its_limit(worker: &Worker) {
    let run = worker.limited(64 << 20).run(&["grow"]);
    assert_eq!(
        (run.stdout.as_str(), run.code()),
        ("malloc -1 Out of memory\n", Some(0))
    );
}

fn a_wait_ends_with_the_worker(worker: &Worker) {
    let mut started = worker.start(&["sleep"]);
    started.wait_for_start();
    let began = Instant::now();
    started.kill();
    assert_eq!(started.wait().status.signal(), Some(9));
    assert!(began.elapsed() < Duration::from_secs(5));
}

fn random_bytes_are_random(worker: &Worker) {
    let run = worker.run(&["random"]);
    assert_eq!(run.stdout, "getentropy 0\nsum is something\n");
}

fn refusal(text: &str) -> String {
    let run = Worker::new(guests::compile(
        &wat::parse_str(text).expect("read the text"),
    ))
    .run(&[]);
    assert_eq!(run.code(), Some(125));
    match run.told.as_slice() {
        [.., Status::Refused(text)] => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn what_is_no_program_is_refused() -> Result<(), Failed> {
    assert!(refusal("(component)").contains("exports no `wasi:cli/run`"));
    Ok(())
}

fn a_missing_import_is_refused() -> Result<(), Failed> {
    let text = refusal(
        r#"(component
            (import "host:other/thing" (instance $thing (export "f" (func))))
            (core module $m (func (export "run") (result i32) (i32.const 0)))
            (core instance $i (instantiate $m))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $run (export "run" (func $run)))
            (export "wasi:cli/run@0.2.0" (instance $run)))"#,
    );
    assert!(text.contains("host:other/thing"), "{text}");
    Ok(())
}

impl Run {
    fn code(&self) -> Option<i32> {
        self.status.code()
    }

    fn phases(&self) -> impl Iterator<Item = &str> {
        self.told.iter().filter_map(|line| match line {
            Status::Phase { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }
}
