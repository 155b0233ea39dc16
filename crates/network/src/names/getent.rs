//! The system's own lookup, getaddrinfo(3), in a process of its own.
//!
//! It may load any library that /etc/nsswitch.conf names. Loaded here, such a library would run in
//! the supervisor, and into a static binary none can be loaded safely: it would bring another C
//! library along. getent(1) comes with the C library and calls just that.

use std::{
    io::{self, Read},
    net::IpAddr,
    os::fd::BorrowedFd,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::ResolveError;
use crate::wait::until_readable;
use palisade_policy::HostName;

/// As long as the C library waits for a name server that does not answer, twice.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Far more addresses than a name has.
const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// The addresses that the system knows for `name`, completed by a search domain unless it is whole.
pub(super) fn look_up(name: &HostName, is_whole: bool) -> Result<Vec<IpAddr>, ResolveError> {
    let dot = if is_whole { "." } else { "" };
    look_up_by(
        Command::new("getent")
            .arg("ahosts")
            .arg(format!("{name}{dot}")),
        TIMEOUT,
    )
}

fn look_up_by(command: &mut Command, timeout: Duration) -> Result<Vec<IpAddr>, ResolveError> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| ResolveError::NoAnswer(format!("getent: {error}")))?;
    let output = read_output(&mut child, Instant::now() + timeout);
    // A child that has closed its output is as good as gone; one that has not is of no more use.
    let _ = child.kill();
    let _ = child.wait();
    let output = output.map_err(|error| ResolveError::NoAnswer(format!("getent: {error}")))?;
    match parse(&output) {
        addresses if addresses.is_empty() => Err(ResolveError::NotFound),
        addresses => Ok(addresses),
    }
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
        look_up_by(Command::new("sh").arg("-c").arg(script), timeout)
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
}
