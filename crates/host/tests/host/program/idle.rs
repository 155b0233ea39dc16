//! What programs cost that nobody asks.

use super::*;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// A program that stays for an hour.
fn stays() -> Settings {
    let mut settings = settings(&[]);
    settings.program.idle_time = Some(Duration::from_secs(3600));
    settings
}

fn count(of: &str) -> usize {
    fs::read_dir(format!("/proc/self/{of}")).unwrap().count()
}

fn names_of_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")));
    names
        .flatten()
        .map(|name| name.trim_end().to_owned())
        .collect()
}

fn number_of(file: &Path, field: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

#[test]
fn a_program_that_nobody_has_asked_for_is_no_more_than_its_settings() {
    const COUNT: usize = 2000;
    const MOST_BYTES: u64 = 8192;
    alone_in_a_process(
        "program::idle::a_program_that_nobody_has_asked_for_is_no_more_than_its_settings",
        async {
            let host = Host::start(stays());
            let before = (count("fd"), count("task"));
            let resident = || number_of("/proc/self/status".as_ref(), "VmRSS:") * 1024;
            let at_first = resident();
            let programs: Vec<_> = (0..COUNT).map(|_| host.begin(stays(), None)).collect();
            assert_eq!((count("fd"), count("task")), before);
            let each = resident().saturating_sub(at_first) / COUNT as u64;
            assert!(each <= MOST_BYTES, "{each} bytes each");
            body_of(
                get(
                    &service_of(&programs[COUNT / 2], Duration::from_secs(30)),
                    "/",
                )
                .await,
            )
            .await;
            let started = programs.iter().map(|program| program.metrics().starts);
            assert_eq!(started.sum::<u64>(), 1);
        },
    );
}

/// Of all threads here but this one, and of all processes below: how often each has gone to sleep.
fn sleeps() -> BTreeMap<PathBuf, u64> {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut processes = vec![PathBuf::from("/proc/self")];
    let mut sleeps = BTreeMap::new();
    while let Some(process) = processes.pop() {
        let Ok(tasks) = fs::read_dir(process.join("task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace();
            processes.extend(children.map(|pid| PathBuf::from(format!("/proc/{pid}"))));
            if task.file_name().to_str() != Some(&own) {
                let status = task.path().join("status");
                let count = number_of(&status, "voluntary_ctxt_switches:");
                sleeps.insert(task.path(), count);
            }
        }
    }
    sleeps
}

#[test]
fn programs_that_run_and_are_idle_wake_nobody() {
    alone_in_a_process(
        "program::idle::programs_that_run_and_are_idle_wake_nobody",
        sleep_well(),
    );
}

async fn sleep_well() {
    const COUNT: usize = 12;
    /// Nobody wakes up in this time: it is what is measured.
    const NIGHT: Duration = Duration::from_secs(3);
    let host = Host::start(stays());
    let before = count("fd");
    let programs: Vec<_> = (0..COUNT).map(|_| host.begin(stays(), None)).collect();
    for program in &programs {
        // Its worker's connections end with it.
        body_of(get(&service_of(program, Duration::from_secs(30)), "/").await).await;
    }
    // Until threads that were needed for the start have ended.
    let slept = loop {
        let evening = sleeps();
        tokio::time::sleep(NIGHT).await;
        let morning = sleeps();
        if evening == morning {
            break morning;
        }
    };
    assert!(
        slept.len() >= 2 * COUNT,
        "init and guest of each: {slept:?}"
    );
    let names = names_of_threads();
    let named = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    assert_eq!(
        (named("palisade-broker"), named("palisade-parked")),
        (0, 1),
        "{names:?}"
    );
    let descriptors = count("fd") - before;
    assert!(
        descriptors <= COUNT * 11 + 4,
        "{descriptors} of {COUNT} programs"
    );
    for program in &programs {
        let longest =
            body_of(get(&service_of(program, Duration::from_secs(30)), "/call/3").await).await;
        assert!(
            !longest.starts_with(b"-"),
            "its calls are answered again: {longest:?}"
        );
    }
}

/// It calls as fast as it can, with several threads, while a quiet one begins to call.
#[test]
fn a_guest_that_floods_its_broker_keeps_no_other_from_its_verdict() {
    let host = Host::start(stays());
    let noisy: Vec<_> = (0..3).map(|_| host.begin(stays(), None)).collect();
    on_worker(async {
        for program in &noisy {
            body_of(get(&service_of(program, Duration::from_secs(30)), "/storm").await).await;
        }
        let service = host.service();
        for _ in 0..3 {
            // Longer than its broker's thread waits for further calls.
            tokio::time::sleep(Duration::from_millis(1100)).await;
            let longest = body_of(get(&service, "/call/50").await).await;
            let longest: i64 = std::str::from_utf8(&longest).unwrap().parse().unwrap();
            assert!((0..500_000).contains(&longest), "{longest} µs");
        }
    });
}
