//! Whether anybody is connected to a listener that a program has for itself, by what the kernel tells of
//! this network namespace's sockets (proc(5)).

use crate::config::Address;
use std::{fs, io, os::unix::ffi::OsStrExt, path::Path};

/// Connections to `address`, those that wait to be accepted included.
///
/// # Errors
///
/// When the kernel does not tell.
pub(super) fn count(address: &Address) -> io::Result<usize> {
    match address {
        Address::Internet(address) => {
            let mut count = of_port(&fs::read_to_string("/proc/self/net/tcp")?, address.port());
            // A kernel without IPv6 has no such file.
            if let Ok(table) = fs::read_to_string("/proc/self/net/tcp6") {
                count += of_port(&table, address.port());
            }
            Ok(count)
        }
        Address::Unix(path) => Ok(of_path(&fs::read("/proc/self/net/unix")?, path)),
    }
}

/// Lines are `sl local_address rem_address st …`, in hexadecimal. Whoever is closing still counts, as long
/// as the program's end of it is open.
fn of_port(table: &str, port: u16) -> usize {
    const LIVING: [&str; 6] = [
        "01", // ESTABLISHED
        "03", // SYN_RECV
        "04", // FIN_WAIT1
        "08", // CLOSE_WAIT
        "09", // LAST_ACK
        "0C", // NEW_SYN_RECV
    ];
    let port = format!("{port:04X}");
    let is_of_port = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|local| local.rsplit(':').next());
        let state = fields.nth(1);
        local == Some(port.as_str()) && state.is_some_and(|state| LIVING.contains(&state))
    };
    table.lines().skip(1).filter(is_of_port).count()
}

/// Lines are `Num RefCount Protocol Flags Type St Inode Path`. A connection bears the name of the
/// listener that it came by, which itself has the flag `__SO_ACCEPTCON`.
fn of_path(table: &[u8], path: &Path) -> usize {
    const ACCEPTS: u32 = 1 << 16;
    let is_of_path = |line: &&[u8]| {
        let Some(rest) = line.strip_suffix(path.as_os_str().as_bytes()) else {
            return false;
        };
        let text = String::from_utf8_lossy(rest);
        let fields: Vec<_> = text.split_whitespace().collect();
        let flags = fields
            .get(3)
            .and_then(|flags| u32::from_str_radix(flags, 16).ok());
        fields.len() == 7 && rest.ends_with(b" ") && flags.is_some_and(|flags| flags & ACCEPTS == 0)
    };
    table
        .split(|byte| *byte == b'\n')
        .filter(is_of_path)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        net::{TcpListener, TcpStream},
        os::unix::net::{UnixListener, UnixStream},
    };

    #[test]
    fn connections_over_tcp_are_counted() {
        let listener = TcpListener::bind("[::1]:0").or_else(|_| TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let address = Address::Internet(listener.local_addr().unwrap());
        assert_eq!(count(&address).unwrap(), 0);
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(count(&address).unwrap(), 1, "one that waits");
        let (inside, _) = listener.accept().unwrap();
        assert_eq!(count(&address).unwrap(), 1);
        drop(client);
        assert_eq!(count(&address).unwrap(), 1, "the program's end is open");
        drop(inside);
        assert_eq!(count(&address).unwrap(), 0);
    }

    #[test]
    fn connections_to_a_socket_file_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("with a space");
        let address = Address::Unix(path.clone());
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(count(&address).unwrap(), 0);
        let _client = UnixStream::connect(&path).unwrap();
        let _inside = listener.accept().unwrap();
        assert_eq!(count(&address).unwrap(), 1);
        let other = Address::Unix(folder.path().join("space"));
        assert_eq!(count(&other).unwrap(), 0);
    }
}
