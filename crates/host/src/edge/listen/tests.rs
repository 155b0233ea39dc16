//! Sockets without a server behind them.

use super::{
    unix_file::{Lock, lock_path, set_mode},
    *,
};
use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, TcpListener, TcpStream},
    time::Duration,
};

fn anywhere() -> Address {
    Address::Internet((Ipv4Addr::LOCALHOST, 0).into())
}

fn connect(address: &Address) -> io::Result<TcpStream> {
    let Address::Internet(address) = address else {
        panic!("an internet address");
    };
    TcpStream::connect_timeout(address, Duration::from_millis(100))
}

#[test]
fn who_is_in_the_queue_is_let_in_and_nobody_else() {
    let listening = Listening::bind(&anywhere(), None, 1).expect("a free port");
    let address = listening.address().clone();
    let copy = TcpListener::from(listening.socket(0).expect("a copy"));
    let queued = connect(&address).expect("the kernel lets it in");
    let takes_filters = may_filter_sockets();
    listening.close_to_new();
    let late = connect(&address);
    let (accepted, from) = copy.accept().expect("the first");
    assert_eq!(Some(from), queued.local_addr().ok());
    if takes_filters {
        let late = late.expect_err("the kernel passes over it");
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let none = copy.accept().expect_err("there is no second");
        assert_eq!(none.kind(), ErrorKind::WouldBlock);
    } else {
        late.expect("the kernel lets it in too");
    }
    drop((accepted, copy));
    let refused = connect(&address).expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn every_thread_has_a_socket_at_the_same_port() {
    let listening = Listening::bind(&anywhere(), None, 3).expect("a free port");
    let names: Vec<_> = listening.sockets().map(local_address).collect();
    let Address::Internet(address) = listening.address() else {
        panic!("an internet address");
    };
    assert_eq!(names, [Some(*address); 3]);
    assert_ne!(address.port(), 0);
}

#[test]
fn a_lock_that_its_last_holder_removed_is_taken_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let first = Lock::take(&socket).expect("nobody has it");
    let held = Lock::take(&socket).expect_err("somebody has it");
    assert!(matches!(held, ListenError::InUse(_)), "{held:?}");
    drop(first);
    assert!(!lock_path(&socket).exists());
    Lock::take(&socket).expect("nobody has it any more");
}

#[test]
fn a_link_in_place_of_a_socket_keeps_its_file_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (precious, link) = (folder.path().join("precious"), folder.path().join("socket"));
    std::fs::write(&precious, "").expect("a file");
    let before = fs::stat(&precious).expect("the file").st_mode;
    std::os::unix::fs::symlink(&precious, &link).expect("a link");
    let mode = Mode::from_raw_mode(0o777);
    assert_eq!(set_mode(&link, mode), Err(Errno::NOTSOCK));
    assert_eq!(set_mode(&precious, mode), Err(Errno::NOTSOCK));
    assert_eq!(fs::stat(&precious).expect("the file").st_mode, before);
}

/// Without care it would be 0o777 less the umask, until somebody changes it.
#[test]
fn a_unix_sockets_file_is_never_open_to_more() {
    let folder = tempfile::tempdir().expect("a folder");
    for mode in [0o600, 0o200] {
        let path = folder.path().join(mode.to_string());
        let _socket = unix_socket(&path, Mode::from_raw_mode(mode)).expect("a socket");
        let stat = fs::lstat(&path).expect("its file");
        assert_eq!(Mode::from_raw_mode(stat.st_mode).as_raw_mode(), mode);
    }
}
