//! The memory of processes while they run, as the kernel tells it.
//!
//! A page that several processes share counts for each of them in proportion (PSS), so that the sum over
//! a tree is what the tree takes. What the kernel itself keeps for a process is not in it: page tables,
//! open files, mounts, namespaces.

use anyhow::Context;
use std::fs;

/// One process of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// What the kernel calls it: the first 15 bytes of its executable's name.
    pub command: String,
    /// What it was called by who started it: the last part of its first word.
    pub called: String,
    /// What it holds.
    pub held: Held,
}

/// Memory in bytes, shared pages in proportion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// All that is resident or swapped out.
    pub bytes: u64,
    /// Without pages of files: those are there once, however many processes run the same program, and
    /// the kernel takes them back when it needs room.
    pub private_bytes: u64,
}

/// A process and all its descendants, parents first.
///
/// # Errors
///
/// When `/proc` does not tell what one of them holds.
pub fn tree_of(root: u32) -> anyhow::Result<Vec<Process>> {
    descendants(root, &parents()?)
        .into_iter()
        .filter(|one| {
            let status = text(*one, "status").unwrap_or_default();
            !has_ended(&status)
        })
        .map(process)
        .collect()
}

/// A process and all its descendants, parents first, of these pairs of process and parent.
pub(crate) fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        let children = parents.iter().filter(|(_, its)| *its == parent);
        tree.extend(children.map(|(child, _)| *child));
        next += 1;
    }
    tree
}

/// Whether it only waits to be waited for and holds nothing any more, or was killed and only waits for a processor to
/// end on: on a machine with much to do that takes as long as it likes.
fn has_ended(status: &str) -> bool {
    const SIGKILL: u64 = 1 << (9 - 1);
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
    let pending = field("SigPnd:").and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    field("VmRSS:").is_none() || pending.is_some_and(|pending| pending & SIGKILL != 0)
}

fn process(process: u32) -> anyhow::Result<Process> {
    let command = text(process, "comm")?.trim_end().to_owned();
    let words = text(process, "cmdline")?;
    let first = words.split('\0').next().unwrap_or_default();
    Ok(Process {
        called: first.rsplit('/').next().unwrap_or_default().to_owned(),
        command,
        held: held(process)?,
    })
}

/// Each process there is, and its parent.
pub(crate) fn parents() -> anyhow::Result<Vec<(u32, u32)>> {
    let entries = fs::read_dir("/proc").context("host: cannot list /proc")?;
    let processes = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // A process that is gone by now was no part of what stands still to be looked at.
    let with_parent = processes.filter_map(|one| Some((one, parent(&text(one, "stat").ok()?)?)));
    Ok(with_parent.collect())
}

/// `PID (COMMAND) STATE PARENT …`; a command may hold anything, also parentheses.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// The share of each page; where the kernel hides that from an ordinary user, all that is resident, which
/// is more.
fn held(process: u32) -> anyhow::Result<Held> {
    match text(process, "smaps_rollup") {
        Ok(rollup) => held_by(&rollup, ["Pss:", "Pss_File:", "SwapPss:"]),
        Err(_) => held_by(&text(process, "status")?, ["VmRSS:", "RssFile:", "VmSwap:"]),
    }
}

/// What the fields say of resident memory, of that part which is pages of files, and of swap.
fn held_by(text: &str, fields: [&str; 3]) -> anyhow::Result<Held> {
    let field_bytes = |field: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let kib = number.with_context(|| format!("host: no {field} of a process in /proc"))?;
        anyhow::Ok(kib << 10)
    };
    let [resident, of_files, swapped] = fields;
    let bytes = field_bytes(resident)? + field_bytes(swapped)?;
    Ok(Held {
        bytes,
        private_bytes: bytes.saturating_sub(field_bytes(of_files)?),
    })
}

fn text(process: u32, file: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{process}/{file}");
    let bytes = fs::read(&path).with_context(|| format!("host: cannot read {path}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn what_was_killed_has_ended_before_it_has_a_processor_to_end_on() {
        let status = |pending| format!("Name:\tcat\nVmRSS:\t 12 kB\nSigPnd:\t{pending:016x}\n");
        assert!(!has_ended(&status(0)));
        assert!(!has_ended(&status(1 << (15 - 1))));
        assert!(has_ended(&status(1 << (9 - 1) | 1)));
        assert!(has_ended("Name:\tcat\nSigPnd:\t0000000000000000\n"));
    }

    #[test]
    fn a_command_may_look_like_the_rest_of_the_line() {
        assert_eq!(parent("12 (cat) S 3 12 12"), Some(3));
        assert_eq!(parent("12 (a) S 9 (b) R 4 12 12"), Some(4));
        assert_eq!(parent("12"), None);
    }

    #[test]
    fn a_process_that_nobody_has_waited_for_holds_nothing() {
        let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        // Its end of the pipe closes while it ends; `wait` below is what takes it away.
        std::io::Read::read_to_end(&mut output, &mut Vec::new()).unwrap();
        while !text(child.id(), "stat").unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        let of = |process| has_ended(&text(process, "status").unwrap());
        assert!(of(child.id()) && !of(std::process::id()));
        child.wait().unwrap();
    }

    #[test]
    fn swapped_pages_count_and_pages_of_files_stand_apart() {
        let text = "Rss: 90 kB\nPss:      10 kB\nPss_File: 7 kB\nSwapPss: 2 kB\n";
        let held = held_by(text, ["Pss:", "Pss_File:", "SwapPss:"]).unwrap();
        assert_eq!((held.bytes, held.private_bytes), (12 << 10, 5 << 10));
        assert!(held_by(text, ["Pss:", "Pss_File:", "VmSwap:"]).is_err());
    }

    #[test]
    fn what_everybody_may_read_tells_of_a_process_too() {
        let held = held_by(
            &text(std::process::id(), "status").unwrap(),
            ["VmRSS:", "RssFile:", "VmSwap:"],
        );
        let held = held.unwrap();
        assert!(
            0 < held.private_bytes && held.private_bytes < held.bytes,
            "{held:?}"
        );
    }

    #[test]
    fn a_tree_holds_children_and_theirs() {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "(echo; cat; :) | (cat; :)"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Its line arrives when the last process of the tree runs.
        let mut byte = [0];
        let stdout = shell.stdout.as_mut().unwrap();
        std::io::Read::read_exact(stdout, &mut byte).unwrap();
        let tree = tree_of(shell.id()).unwrap();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(tree[0].called, "sh");
        assert!(tree.iter().any(|one| one.command == "cat"), "{tree:?}");
        assert!(
            tree.len() >= 3 && tree.iter().all(|one| one.held.bytes > 0),
            "{tree:?}"
        );
    }
}
