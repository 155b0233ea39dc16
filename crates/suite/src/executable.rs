//! Programs that tests put somewhere and execute at once.
//!
//! Linux does not execute a file that anybody has open for writing (`ETXTBSY`, execve(2)). A test
//! that writes a program itself may have shared that descriptor, through a fork, with a child of
//! another test's that has yet to execute: <https://github.com/golang/go/issues/22315>. Who never
//! had it open for writing shares nothing, so a process of its own writes it.

use std::{
    io::{self, Write},
    path::Path,
    process::{Command, Stdio},
};

/// Copies a program, with its mode.
///
/// # Errors
///
/// When cp(1) cannot be started, or says on stderr why it failed.
pub fn copy_program(from: &Path, to: &Path) -> io::Result<()> {
    let status = Command::new("cp").arg("--").args([from, to]).status()?;
    status.success().then_some(()).ok_or_else(|| {
        let (from, to) = (from.display(), to.display());
        io::Error::other(format!("cp of {from} to {to}: {status}"))
    })
}

/// Writes a program: a script, say, that everybody may read and execute.
///
/// # Errors
///
/// When install(1) cannot be started, or says on stderr why it failed.
pub fn write_program(content: &[u8], to: &Path) -> io::Result<()> {
    let mut command = Command::new("install");
    command.args(["-m", "755", "--", "/dev/stdin"]).arg(to);
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(content));
    let status = child.wait()?;
    written.transpose()?;
    status.success().then_some(()).ok_or_else(|| {
        let to = to.display();
        io::Error::other(format!("install of {to}: {status}"))
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, process::Command};

    use super::{copy_program, write_program};

    #[test]
    fn what_was_put_there_runs() {
        let folder = tempfile::tempdir().unwrap();
        let [written, copied] = ["written", "copied"].map(|name| folder.path().join(name));
        write_program(b"#!/bin/sh\necho here\n", &written).unwrap();
        copy_program(&written, &copied).unwrap();
        for program in [written, copied] {
            let mode = fs::metadata(&program).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
            assert_eq!(Command::new(program).output().unwrap().stdout, b"here\n");
        }
    }

    #[test]
    fn what_cannot_be_put_there_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("no/such");
        assert!(copy_program(&folder.path().join("none"), &there).is_err());
        assert!(write_program(b"", &there).is_err());
    }
}
