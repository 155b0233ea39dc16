//! The system's own lookup, getaddrinfo(3), in a process of its own.
//!
//! It may load any library that /etc/nsswitch.conf names. Loaded here, such a library would run in
//! the supervisor, and into a static binary none can be loaded safely: it would bring another C
//! library along. getent(1) comes with the C library and calls just that.

use std::{
    io::{self, Read},
    net::IpAddr,
    os::fd::BorrowedFd,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::ResolveError;
use crate::{sys::spawn_apart, wait::until_readable};
use palisade_policy::HostName;

/// As long as the C library waits for a name server that does not answer, twice.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long it may take to die. The kernel does not let go of one that waits for a dead file server.
const DEATH_TIMEOUT: Duration = Duration::from_secs(1);

/// Far more addresses than a name has.
const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// Where it may lie. It runs outside the wall, and folders of `PATH` may be granted to guests: a virtual
/// environment's `bin`, `node_modules/.bin`.
const PROGRAMS: [&str; 3] = [
    "/usr/bin/getent",
    "/bin/getent",
    "/run/current-system/sw/bin/getent",
];

/// All of its environment: on some systems it is a shell script. The C library's own variables
/// (`LOCALDOMAIN`, `RES_OPTIONS`, `HOSTALIASES`, `GCONV_PATH`, `LD_*`) name files or change answers, and the
/// part of the lookup that palisade makes itself never read them.
const ENVIRONMENT: (&str, &str) = ("PATH", "/usr/bin:/bin");

/// What it reads, loads and asks, besides what the lookup itself reads: ld.so(8), nsswitch.conf(5). Of each
/// folder of libraries the one file that every program loads.
pub(super) const FILES: [&str; 15] = [
    PROGRAMS[0],
    PROGRAMS[1],
    PROGRAMS[2],
    "/etc/ld.so.preload",
    "/etc/ld.so.cache",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/var/run/nscd/socket",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/lib64/libc.so.6",
    "/usr/lib64/libc.so.6",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/libc.so.6",
    "/usr/lib/libc.so.6",
];

/// The addresses that the system knows for `name`, completed by a search domain unless it is whole.
pub(super) fn look_up(name: &HostName, is_whole: bool) -> Result<Vec<IpAddr>, ResolveError> {
    let mut programs = PROGRAMS.into_iter();
    let program = programs.find(|program| Path::new(program).is_file());
    let dot = if is_whole { "." } else { "" };
    look_up_by(
        Command::new(program.ok_or(ResolveError::NoProgram)?)
            .arg("ahosts")
            .arg(format!("{name}{dot}")),
        TIMEOUT,
    )
}

/// Runs it with nothing of the caller's: no variable, folder, descriptor, session or privilege.
fn look_up_by(command: &mut Command, timeout: Duration) -> Result<Vec<IpAddr>, ResolveError> {
    command
        .env_clear()
        .env(ENVIRONMENT.0, ENVIRONMENT.1)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let no_answer = |error: io::Error| ResolveError::NoAnswer(format!("getent: {error}"));
    let mut child = spawn_apart(command).map_err(no_answer)?;
    let output = read_output(&mut child, Instant::now() + timeout);
    // A child that has closed its output is as good as gone; one that has not is of no more use.
    end(child);
    match parse(&output.map_err(no_answer)?) {
        addresses if addresses.is_empty() => Err(ResolveError::NotFound),
        addresses => Ok(addresses),
    }
}

/// Ends it and all that it started. Nobody waits longer for its death than [`DEATH_TIMEOUT`].
fn end(mut child: Child) {
    // It leads a group of its own, which exists for as long as it was not waited for.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    if has_died(&child, Instant::now() + DEATH_TIMEOUT) {
        let _ = child.wait();
        return;
    }
    let reap = move || child.wait();
    // Without a thread it stays a zombie until the supervisor ends.
    let _ = thread::Builder::new().name("getent".into()).spawn(reap);
}

fn has_died(child: &Child, deadline: Instant) -> bool {
    pidfd_open(Pid::from_child(child), PidfdFlags::empty())
        .is_ok_and(|pidfd| until_readable(&pidfd, None::<&BorrowedFd<'_>>, deadline).is_ok())
}

fn read_output(child: &mut Child, deadline: Instant) -> io::Result<String> {
    let mut stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut output = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        until_readable(&stdout, None::<&BorrowedFd<'_>>, deadline)?;
        match stdout.read(&mut buffer)? {
            0 => return Ok(String::from_utf8_lossy(&output).into_owned()),
            count if output.len() + count > MAX_OUTPUT_BYTES => {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            count => output.extend(&buffer[..count]),
        }
    }
}

/// The first word of each line, each address once. One with a zone is left out: a name cannot
/// grant it.
fn parse(output: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let words = output
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    for address in words.filter_map(|word| word.parse().ok()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration) -> Result<Vec<IpAddr>, ResolveError> {
        look_up_by(Command::new("/bin/sh").arg("-c").arg(script), timeout)
    }

    #[test]
    fn each_address_once() {
        let output = "192.0.2.1       STREAM a.example\n192.0.2.1       DGRAM\n\
                      2001:db8::1     STREAM\nfe80::1%eth0    STREAM\n";
        let addresses: Vec<String> = parse(output).iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["192.0.2.1", "2001:db8::1"]);
    }

    #[test]
    fn the_system_knows_localhost() {
        let addresses = look_up(&"localhost".parse().unwrap(), false).unwrap();
        assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
    }

    #[test]
    fn a_lookup_that_hangs_or_talks_too_much_is_ended() {
        let hangs = shell("exec sleep 1000", Duration::from_millis(20));
        assert_eq!(
            hangs,
            Err(ResolveError::NoAnswer("getent: timed out".into()))
        );
        let endless = shell("exec yes 192.0.2.1", Duration::from_secs(60));
        assert_eq!(
            endless,
            Err(ResolveError::NoAnswer("getent: file too large".into()))
        );
        assert_eq!(
            shell("exit 2", Duration::from_secs(60)),
            Err(ResolveError::NotFound)
        );
    }

    #[test]
    fn a_lookup_has_nothing_of_the_callers() {
        // Not to be closed when a program is executed: as who started palisade may have left one.
        let left_open = rustix::io::dup(io::stderr()).unwrap();
        let tells = format!(
            "test \"$(pwd)\" = / && \
             test \"$(/usr/bin/env -u PWD -u OLDPWD -u _ -u SHLVL)\" = PATH=/usr/bin:/bin && \
             ! test -e /proc/self/fd/{} && \
             read pid name state parent group session rest </proc/self/stat && \
             test $$ = $session && test $$ = $group && \
             grep -q ^NoNewPrivs:.1 /proc/self/status && \
             echo 192.0.2.1",
            std::os::fd::AsRawFd::as_raw_fd(&left_open)
        );
        let told = shell(&tells, Duration::from_secs(60));
        assert_eq!(told, Ok(vec!["192.0.2.1".parse().unwrap()]));
    }

    #[test]
    fn what_a_lookup_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let tells = format!("sleep 1000 & echo $! >{}; exec sleep 1000", pid.display());
        let hangs = shell(&tells, Duration::from_secs(1));
        assert!(hangs.is_err(), "{hangs:?}");
        let pid: i32 = std::fs::read_to_string(pid)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // Killed with the other, and dead soon; one that is gone already cannot be opened.
        let soon = Instant::now() + Duration::from_secs(60);
        if let Ok(pidfd) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) {
            until_readable(&pidfd, None::<&BorrowedFd<'_>>, soon).unwrap();
        }
    }
}
