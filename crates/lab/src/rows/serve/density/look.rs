//! What can be seen of a server from outside: its memory, its threads' time, what it has open, what it answers to
//! operators.

use crate::memory::{Held, tree_of};
use anyhow::{Context, ensure};
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

/// What a tree of processes holds.
pub(super) fn held_by(root: u32) -> anyhow::Result<Held> {
    let tree = tree_of(root)?;
    let sum = |part: fn(&Held) -> u64| tree.iter().map(|one| part(&one.held)).sum();
    Ok(Held {
        bytes: sum(|held| held.bytes),
        private_bytes: sum(|held| held.private_bytes),
    })
}

/// How much of it is for other programs, by the kernel's estimate: what is gone from it is somebody's, the kernel's own
/// structures included.
pub(super) fn available_bytes() -> anyhow::Result<u64> {
    let told = fs::read_to_string("/proc/meminfo").context("host: cannot read /proc/meminfo")?;
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("host: no MemAvailable in /proc/meminfo")? << 10)
}

/// What a server's largest process has: that of its name is the one with the most mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Handles {
    pub(super) descriptors: u64,
    pub(super) mappings: u64,
}

impl Handles {
    pub(super) fn of(root: u32) -> anyhow::Result<Self> {
        let of = |process: &u32| {
            let maps = fs::read(format!("/proc/{process}/maps")).ok()?;
            let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
            Some(Self {
                descriptors: descriptors.count() as u64,
                mappings: maps.iter().filter(|byte| **byte == b'\n').count() as u64,
            })
        };
        let all = processes_of(root)?;
        let most = all.iter().filter_map(of).max_by_key(|one| one.mappings);
        most.context("host: /proc does not show what the server has open")
    }
}

/// What the threads of a tree did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Doings {
    /// On a processor.
    pub(super) ran_ns: u64,
    /// Times that one was put on a processor. Who is idle is put there when it is woken up; that it gave the processor
    /// up by its own will the kernel does not count where it was taken away just before.
    pub(super) wake_ups: u64,
}

impl Doings {
    pub(super) fn of(root: u32) -> anyhow::Result<Self> {
        let mut sum = Self::default();
        for process in processes_of(root)? {
            let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
                continue;
            };
            for thread in threads.flatten() {
                let one = Self::of_thread(&thread.path());
                sum.ran_ns += one.ran_ns;
                sum.wake_ups += one.wake_ups;
            }
        }
        Ok(sum)
    }

    /// Nothing of one that has ended meanwhile.
    fn of_thread(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
        // Time on a processor, time waited for one, and how often it was put there.
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut number = |place| numbers.nth(place).and_then(Result::ok).unwrap_or(0);
        Self {
            ran_ns: number(0),
            wake_ups: number(1),
        }
    }

    /// What was done since; threads that have ended took theirs with them.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            ran_ns: self.ran_ns.saturating_sub(before.ran_ns),
            wake_ups: self.wake_ups.saturating_sub(before.wake_ups),
        }
    }
}

/// A process and its descendants, by the lists of children that the kernel keeps.
fn processes_of(root: u32) -> anyhow::Result<Vec<u32>> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&process) = tree.get(next) {
        tree.extend(children_of(process));
        next += 1;
    }
    ensure!(
        Path::new(&format!("/proc/{root}")).exists(),
        "the server has ended"
    );
    Ok(tree)
}

fn children_of(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists = threads.filter_map(|one| fs::read_to_string(one.path().join("children")).ok());
    let all: Vec<String> = lists.collect();
    let numbers = all.iter().flat_map(|list| list.split_whitespace());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Longer than any answer at the admin socket takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a server answers to operators.
///
/// # Errors
///
/// When it is no 200.
pub(super) fn ask_admin(socket: &Path, method: &str, path: &str) -> anyhow::Result<String> {
    let mut stream = UnixStream::connect(socket).context("the server has no admin socket")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let mut answer = String::new();
    stream
        .write_all(request.as_bytes())
        .and_then(|()| stream.read_to_string(&mut answer))
        .with_context(|| format!("the server did not answer {method} {path}"))?;
    ensure!(
        answer.starts_with("HTTP/1.1 200"),
        "{method} {path} was answered with {answer:.300}"
    );
    Ok(answer)
}

/// Waits until a server's processes have had this time to themselves; gives how long it was.
pub(super) fn rest(time: Duration) -> Duration {
    let began = Instant::now();
    std::thread::sleep(time);
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_waits_is_woken_up_for_what_comes() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut exchange = || {
            let mut byte = [0];
            input.write_all(b"x").unwrap();
            output.read_exact(&mut byte).unwrap();
        };
        exchange();
        let before = Doings::of(child.id()).unwrap();
        (0..20).for_each(|_| exchange());
        let after = Doings::of(child.id()).unwrap().since(before);
        assert!(after.ran_ns > 0 && after.wake_ups >= 10, "{after:?}");
        let handles = Handles::of(child.id()).unwrap();
        assert!(
            handles.descriptors >= 3 && handles.mappings > 5,
            "{handles:?}"
        );
        drop(input);
        child.wait().unwrap();
        assert!(Doings::of(child.id()).is_err());
    }
}
