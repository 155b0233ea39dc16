//! Ports of this machine that nobody has.

use std::{
    fs, process,
    sync::{
        OnceLock,
        atomic::{AtomicU16, Ordering},
    },
};

/// The first of this many ports in a row that nobody has, of TCP or UDP. They lie below those that the kernel picks by itself
/// (`net.ipv4.ip_local_port_range`), and each is given out once.
pub fn free_ports(count: u16) -> u16 {
    const FIRST: u16 = 12_000;
    const LAST: u16 = 31_000;
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    // Two suites at a time begin at different places.
    let begin = FIRST + (process::id() * 97 % u32::from(LAST - FIRST)) as u16;
    let next = NEXT.get_or_init(|| AtomicU16::new(begin));
    loop {
        let first = next.fetch_add(count, Ordering::Relaxed);
        if first > LAST {
            next.store(FIRST, Ordering::Relaxed);
        } else if (first..first + count).all(is_free) {
            return first;
        }
    }
}

/// By the kernel's tables, proc_pid_net(5). A socket to try with would be inherited by what another thread forks at that
/// time, and the port would be in use until that has called `execve`.
fn is_free(port: u16) -> bool {
    let at_port = format!(":{port:04X}");
    ["tcp", "tcp6", "udp", "udp6"].iter().all(|table| {
        // Without IPv6 there are two.
        let table = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        let mut local = table
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        !local.any(|address| address.ends_with(&at_port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn a_port_of_somebody_is_not_free() {
        for host in ["127.0.0.1", "::1"] {
            let Ok(listener) = TcpListener::bind((host, 0)) else {
                continue;
            };
            assert!(!is_free(listener.local_addr().unwrap().port()), "{host}");
            let socket = UdpSocket::bind((host, 0)).unwrap();
            assert!(!is_free(socket.local_addr().unwrap().port()), "{host}");
        }
        assert!(TcpListener::bind(("127.0.0.1", free_ports(1))).is_ok());
    }
}
