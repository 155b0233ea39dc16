//! Lanes of each kind, between ends that the test holds.

use super::*;
use rustix::{
    fs::SeekFrom,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    pipe::{PipeFlags, pipe_with},
};

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC).unwrap()
}

fn sockets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
}

fn read(fd: &OwnedFd, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; most];
    let length = rustix::io::read(fd, &mut *bytes).unwrap();
    bytes.truncate(length);
    bytes
}

#[test]
fn what_is_not_read_of_a_pipe_stays_in_it() {
    let ((outer, feed), (guests, inner)) = (pipe(), pipe());
    let next = outer.try_clone().unwrap();
    rustix::io::write(&feed, b"abcdef").unwrap();
    let mut lane = Lane::between_pipes(outer, inner).unwrap();
    assert_eq!(lane.go(), Ok(true));
    assert_eq!(read(&guests, 2), b"ab");
    lane.guest_is_gone();
    assert_eq!(read(&next, 10), b"cdef");
}

#[test]
fn what_is_not_read_of_a_socket_stays_in_it() {
    let ((outer, feed), (ours, guests)) = (sockets(), sockets());
    let (next, guest) = (outer.try_clone().unwrap(), guests.try_clone().unwrap());
    rustix::io::write(&feed, b"abcdef").unwrap();
    let [mut lane, _back] = Lane::of_sockets(0, outer, ours, guests).unwrap();
    assert_eq!(lane.go(), Ok(true));
    assert_eq!(read(&guest, 2), b"ab");
    lane.guest_is_gone();
    assert_eq!(read(&next, 10), b"cdef");
}

/// Its pipe is its own, so it can write there too. The thread must not go round for that.
#[test]
fn a_guest_that_fills_its_own_input_ends_its_lane() {
    let ((outer, feed), (_guests, inner)) = (pipe(), pipe());
    let meddled = inner.try_clone().unwrap();
    rustix::io::write(&feed, b"sent").unwrap();
    let mut lane = Lane::between_pipes(outer, inner).unwrap();
    rustix::io::write(&meddled, b"own").unwrap();
    assert_eq!(lane.go(), Ok(false));
}

#[test]
fn a_guest_that_enlarges_its_own_input_ends_its_lane() {
    let ((outer, feed), (guests, inner)) = (pipe(), pipe());
    rustix::io::write(&feed, b"sent").unwrap();
    let mut lane = Lane::between_pipes(outer, inner).unwrap();
    assert_eq!(lane.go(), Ok(true));
    rustix::pipe::fcntl_setpipe_size(&guests, 16 * PIECE_BYTES).unwrap();
    assert_eq!(lane.go(), Ok(false));
}

#[test]
fn a_file_is_not_sought_back_further_than_it_was_read() {
    let file = tempfile();
    let (guests, inner) = pipe();
    let meddled = inner.try_clone().unwrap();
    rustix::fs::seek(&file, SeekFrom::Start(4)).unwrap();
    let mut lane = Lane::into_pipe(file.try_clone().unwrap(), inner, guests).unwrap();
    assert_eq!(lane.go(), Ok(true));
    rustix::io::write(&meddled, b"own bytes").unwrap();
    lane.guest_is_gone();
    assert_eq!(rustix::fs::tell(&file), Ok(4));
}

fn tempfile() -> OwnedFd {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create("input", flags).unwrap();
    rustix::io::write(&file, b"0123456789").unwrap();
    file
}
