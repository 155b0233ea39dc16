//! What a program's processes use while they run, by what `/proc` tells of them (proc(5)).

use palisade_process::running::own_memory_bytes;
use std::fs;

/// What the living processes of a domain have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Consumption {
    /// Processor time, that of their ended children included, in clock ticks.
    pub(super) ticks: u64,
    /// Memory that is theirs alone, in bytes.
    pub(super) memory_bytes: u64,
}

impl Consumption {
    /// Of the process `pid` and all below it; `None` where this cannot be told, or there are too many of them.
    pub(super) fn of_tree(pid: u32) -> Option<Self> {
        let mut sum = Self::of(pid)?;
        // A guest could start processes and threads faster than they are looked at.
        let mut looks = MOST_LOOKS;
        let mut rest = children(pid, &mut looks)?;
        while let Some(child) = rest.pop() {
            looks = looks.checked_sub(1)?;
            // One that ended in between is in its parent's account. What cannot be read hides nothing below it.
            let one = Self::of(child).unwrap_or_default();
            sum.ticks += one.ticks;
            sum.memory_bytes += one.memory_bytes;
            rest.extend(children(child, &mut looks).unwrap_or_default());
        }
        (looks > 0).then_some(sum)
    }

    fn of(pid: u32) -> Option<Self> {
        // A name is any bytes.
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Some(Self {
            ticks: ticks(&String::from_utf8_lossy(&stat))?,
            memory_bytes: own_memory_bytes(pid)?,
        })
    }

    /// Processor time in µs.
    pub(super) fn cpu_us(&self) -> u64 {
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        self.ticks.saturating_mul(1_000_000) / per_second
    }
}

/// utime, stime, cutime and cstime: fields 14 to 17, counted behind the name, which may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    const FIRST_BEHIND_NAME: usize = 3;
    let (_, behind) = stat.rsplit_once(')')?;
    let times = behind
        .split_whitespace()
        .skip(14 - FIRST_BEHIND_NAME)
        .take(4);
    times.map(|time| time.parse::<u64>().ok()).sum()
}

/// Processes and threads that are looked at: as many as take some tens of milliseconds.
const MOST_LOOKS: usize = 4096;

/// Children of all its threads.
fn children(pid: u32, looks: &mut usize) -> Option<Vec<u32>> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        *looks = looks.checked_sub(1)?;
        let path = task.ok()?.path().join("children");
        let text = fs::read_to_string(path).ok()?;
        children.extend(
            text.split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
    }
    Some(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_hold_anything() {
        let stat = "7 (a) b) 1 2 3) S 1 7 7 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(127));
        assert_eq!(ticks("7 (short"), None);
    }

    /// What a process calls itself hides neither it nor what is below it.
    #[test]
    fn a_process_of_any_name_is_seen() {
        use std::{io::Read, process::Stdio};
        let script = "printf '\\377\\376' > /proc/$$/comm; echo named; read line";
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 6];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        let name = fs::read(format!("/proc/{}/comm", child.id())).unwrap();
        let used = Consumption::of_tree(child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(name, b"\xff\xfe\n");
        assert!(used.unwrap().memory_bytes > 0, "{used:?}");
    }

    #[test]
    fn a_busy_process_and_its_children_are_seen() {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "sh -c 'while :; do :; done' & wait"])
            .spawn()
            .unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let busy = loop {
            let used = Consumption::of_tree(child.id()).unwrap();
            if used.ticks > 2 || std::time::Instant::now() > deadline {
                break used;
            }
            std::thread::yield_now();
        };
        let grandchildren = children(child.id(), &mut { MOST_LOOKS }).unwrap();
        for pid in &grandchildren {
            let pid = rustix::process::Pid::from_raw(*pid as i32).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
        assert_eq!(grandchildren.len(), 1);
        assert!(busy.ticks > 2 && busy.memory_bytes > 0, "{busy:?}");
        assert!(busy.cpu_us() >= busy.ticks);
    }
}
