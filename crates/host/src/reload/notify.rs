//! What a service manager is told: sd_notify(3).

use palisade_policy::visible;
use rustix::time::{ClockId, clock_gettime};
use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

/// Tells the manager, if this process was started by one that wants to know. It is nobody's fault if it
/// does not listen.
pub(super) fn notify(state: &str) {
    if let Some(name) = std::env::var_os("NOTIFY_SOCKET") {
        let _ = send(name.as_encoded_bytes(), state);
    }
}

/// It serves, and `status` says what.
pub(super) fn ready(status: &str) {
    notify(&with_status("READY=1", status));
}

/// It is about to end.
pub(super) fn stopping() {
    notify(&with_status(
        "STOPPING=1",
        "Requests under way are finished",
    ));
}

/// What people are shown of it.
pub(super) fn status(status: &str) {
    notify(&with_status("", status));
}

/// It is alive, and so are its workers.
pub(super) fn alive() {
    notify("WATCHDOG=1");
}

/// Says since when, so that the manager can tell the end of this reload from that of an earlier one.
pub(super) fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let us = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={us}"));
}

/// Within which time the manager wants to hear that it is alive, if it wants to: sd_watchdog_enabled(3).
pub(super) fn watchdog_time() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_for_another = |pid| pid != u64::from(std::process::id());
    if std::env::var_os("WATCHDOG_PID").is_some()
        && number("WATCHDOG_PID").is_none_or(is_for_another)
    {
        return None;
    }
    let us = number("WATCHDOG_USEC").filter(|us| *us > 0);
    us.map(Duration::from_micros)
}

/// A state with a line of status behind it, whatever that is made of.
fn with_status(state: &str, status: &str) -> String {
    let end = if state.is_empty() { "" } else { "\n" };
    format!("{state}{end}STATUS={}", visible(status))
}

fn send(name: &[u8], state: &str) -> std::io::Result<()> {
    let address = match name {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => {
            let path = std::path::Path::new(std::str::from_utf8(path).unwrap_or_default());
            SocketAddr::from_pathname(path)?
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_line() {
        assert_eq!(with_status("READY=1", "serves"), "READY=1\nSTATUS=serves");
        assert_eq!(with_status("", "a\nWATCHDOG=1"), "STATUS=a\\nWATCHDOG=1");
    }
}
