//! A host program that starts guests for as long as it lives. Alone in its file: what is counted is the process's.

use palisade::{Domain, Exit, Stdio};
use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Enough to see what one start leaves behind, few enough to wait for.
const STARTS: usize = 1000;
/// Until allocators and caches have what they keep.
const FIRST: usize = 100;
/// The test's own and the one that runs it.
const OWN_THREADS: usize = 2;

/// What a process holds.
#[derive(Debug)]
struct Holdings {
    descriptors: usize,
    threads: usize,
    children: usize,
    resident_kb: u64,
    mappings: usize,
}

impl Holdings {
    fn now() -> Self {
        let own = Path::new("/proc/self");
        let count = |name| fs::read_dir(own.join(name)).unwrap().count();
        let text = |name| fs::read_to_string(own.join(name)).unwrap();
        let status = text("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.unwrap().trim().trim_end_matches(" kB");
        Self {
            descriptors: count("fd"),
            threads: count("task"),
            children: fs::read_to_string("/proc/thread-self/children")
                .unwrap()
                .split_whitespace()
                .count(),
            resident_kb: kilobytes.parse().unwrap(),
            mappings: text("maps").lines().count(),
        }
    }

    /// What is held once the storm's threads are gone. The kernel may list a thread for a moment after it was
    /// joined; one that stays is still counted at the end of the wait.
    fn settled() -> Self {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let now = Self::now();
            if now.threads <= OWN_THREADS || Instant::now() > deadline {
                return now;
            }
            thread::yield_now();
        }
    }
}

fn start(number: usize) {
    let script = format!("echo {number}; exit 3");
    let domain = Domain::builder("/bin/sh").args(["-c", &script]);
    // Every second one has limits that need more than a process.
    let domain = match number % 2 {
        0 => domain,
        _ => domain.connect("tcp://127.0.0.1:9".parse().unwrap()),
    };
    let guest = domain.stdout(Stdio::piped()).spawn().unwrap();
    let output = guest.wait_with_output().unwrap();
    assert_eq!(output.report.exit, Exit::Code(3));
    assert_eq!(output.stdout, format!("{number}\n").into_bytes());
}

/// Threads that start guests, end them, wait for a while or let them go, all at once.
fn storm() {
    const THREADS: usize = 8;
    const EACH: usize = 25;
    let act = |thread: usize| {
        for number in 0..EACH {
            let end = (thread + number) % 5;
            let script = if end == 4 { "exit 4" } else { "exec sleep 60" };
            let builder = Domain::builder("/bin/sh").args(["-c", script]);
            let mut guest = builder.stdin(Stdio::piped()).spawn().unwrap();
            match end {
                0 => drop(guest),
                1 => {
                    guest.kill().unwrap();
                    assert_eq!(guest.wait().unwrap().exit, Exit::Signal(9));
                }
                2 => {
                    let early = guest.wait_timeout(Duration::from_millis(1)).unwrap();
                    assert!(early.is_none(), "it sleeps");
                }
                3 => assert!(guest.try_wait().unwrap().is_none()),
                _ => {
                    let output = guest.wait_with_output().unwrap();
                    assert_eq!(output.report.exit, Exit::Code(4));
                }
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || act(thread)))
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_thousand_starts_and_a_storm_leave_nothing() {
    (0..FIRST).for_each(start);
    storm();
    let before = Holdings::settled();
    (FIRST..STARTS).for_each(start);
    storm();
    let after = Holdings::settled();
    let seen = format!("{before:?}, then {after:?}");
    assert_eq!(before.descriptors, after.descriptors, "{seen}");
    assert!(after.threads <= OWN_THREADS, "{seen}");
    assert_eq!(before.children, after.children, "{seen}");
    assert!(after.mappings <= before.mappings + 8, "{seen}");
    assert!(after.resident_kb < before.resident_kb + 4096, "{seen}");
}
