//! Network calls one by one: the same program with no wall and behind it comes to the same results.

use super::{Service, compile, guest, in_own_network, place};
use crate::cli::fixture::{Fixture, cases};
use std::{fs, io, net::TcpListener};

cases![
    calls_come_to_what_they_come_to_without_a_wall,
    what_waits_to_be_sent_stays_with_the_guest,
    what_is_sent_inside_has_bounded_room,
];

/// Where the wall's answer is another: what the guest does, without a wall, and behind it.
const DIFFERENT: [[&str; 3]; 6] = [
    // The filter lets no such socket through to where the kernel would tell the reasons apart.
    ["no type", "ESOCKTNOSUPPORT", "EPROTONOSUPPORT"],
    // Sending before connecting is refused as by a kernel without it: programs then connect.
    ["fast open by sending", "1", "EOPNOTSUPP"],
    ["peer by sending", "127.0.0.1 7000", "ENOTCONN"],
    // An option that is not listed is unknown, as to a kernel without it.
    ["fast open by option", "0", "ENOPROTOOPT"],
    // No grant has a port 0.
    ["to no port", "EINVAL", "EACCES"],
    ["send three, the first to nowhere", "EINVAL", "EACCES"],
];

fn calls_come_to_what_they_come_to_without_a_wall(fixture: &Fixture) {
    let program = compile(fixture, "semantics", include_str!("semantics.c"));
    let flags = format!(
        "--read {program} --connect tcp://localhost:7000-7003 --connect udp://localhost:7000-7003 \
         --listen tcp://*:7000-7003 --listen udp://*:7000-7003 --listen tcp://*:0"
    );
    let bare = fixture.call(program.as_ref(), [fixture.text("")]);
    let bare = in_own_network(fixture, "", &bare).run();
    bare.is(0);
    let behind = guest(fixture, &flags, &format!("{program} /tmp"));
    let behind = in_own_network(fixture, "", &behind).run();
    behind.is(0);
    let mut expected: Vec<_> = bare.text().lines().map(str::to_owned).collect();
    for [what, without, with] in DIFFERENT {
        let line = format!("{what}: {without}");
        let place = expected.iter().position(|found| *found == line);
        let place = place.unwrap_or_else(|| panic!("no {line:?} without a wall"));
        expected[place] = format!("{what}: {with}");
    }
    let found = behind.text();
    for (found, expected) in found.lines().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.len());
}

/// Python's own part of both cases: two hundred threads that send at a time, and whether each waits in this
/// call.
const CROWD: &str = "
import errno, socket, sys, threading, time
data = b'.' * 212992
def begin(send):
    threads = [threading.Thread(target=send) for _ in range(200)]
    for thread in threads: thread.start()
    return threads
def waits(thread, call):
    if not thread.is_alive(): return True
    try: return open(f'/proc/self/task/{thread.native_id}/syscall').read().startswith(call)
    except OSError: return not thread.is_alive()
def wait_for(threads, call):
    while not all(waits(thread, call) for thread in threads): pass
    # An answer comes after those to who called before, but for who waits to be let in line.
    for _ in range(100): socket.socket().close()
def fill(send):
    try:
        while True: sent.append(send())
    except BlockingIOError: pass
sent, refused = [], []
";

fn crowd(fixture: &Fixture, flags: &str, script: &str, argument: u16) -> Service {
    let program = place(fixture, "crowd.py", &format!("{CROWD}{script}"));
    let flags = format!("--read {program} --processes 600 --files 600 --time 60s {flags}");
    let command = format!("/usr/bin/python3 {program} {argument}");
    Service::start(guest(fixture, &flags, &command), "waiting")
}

/// What palisade holds for them is not the domain's, whatever its `--memory`.
fn what_waits_to_be_sent_stays_with_the_guest(fixture: &Fixture) {
    const SEND: &str = "
connection = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
send = lambda: connection.sendmsg([data])
connection.setblocking(False)
fill(send)
connection.setblocking(True)
threads = begin(lambda: sent.append(send()))
wait_for(threads, '46 ')
print('waiting', len(sent), flush=True)
for thread in threads: thread.join()
connection.close()
print('sent', sum(sent), flush=True)
";
    const MOST_KIB: u64 = 16 << 10;
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let flags = format!("--connect tcp://127.0.0.1:{port} --connect udp://127.0.0.1:{port}");
    let mut service = crowd(fixture, &flags, SEND, port);
    let (mut peer, _) = outside.accept().unwrap();
    let held = anonymous_kib(service.child.id());
    assert!(held < MOST_KIB, "{held} KiB");
    // All of it arrives, as it was.
    let mut arrived = Vec::new();
    io::Read::read_to_end(&mut peer, &mut arrived).unwrap();
    assert!(arrived.iter().all(|byte| *byte == b'.'));
    service.says(&format!("sent {}", arrived.len()));
}

fn anonymous_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.unwrap().parse().unwrap()
}

fn what_is_sent_inside_has_bounded_room(fixture: &Fixture) {
    const SEND: &str = "
ours, other = socket.socketpair()
ours.setblocking(False)
fill(lambda: ours.sendmsg([data]))
ours.setblocking(True)
def send():
    try: sent.append(ours.sendmsg([data]))
    except OSError as error: refused.append(errno.errorcode[error.errno])
threads = begin(send)
wait_for(threads, '46 ')
until = time.monotonic() + 20
while len(refused) < 100 and time.monotonic() < until: pass
print('waiting', set(refused), len(refused) // 100, flush=True)
other.settimeout(.1)
def drain():
    try:
        while other.recv(1 << 20): pass
    except TimeoutError: pass
while any(thread.is_alive() for thread in threads): drain()
drain()
print('and then', ours.sendmsg([data[:1000]]), flush=True)
";
    let service = crowd(fixture, "--connect udp://127.0.0.1:9", SEND, 0);
    assert_eq!(service.said(), "waiting {'ENOBUFS'} 1\n");
    let said = service.ends();
    assert!(said.ends_with("and then 1000\n"), "{said}");
}
