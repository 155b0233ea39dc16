//! Grants in place of a network: `palisade.network` and its kind.

use super::fixture::{Bundle, Outcome, User, is_root, users, wait_for};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread,
};

const ALL: [&str; 6] = [
    "palisade.network",
    "palisade.connect",
    "palisade.listen",
    "palisade.policy",
    "palisade.seccomp",
    "palisade.watch",
];

/// A server of the host's that says hello to so many, and its port.
fn server(times: usize) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in listener.incoming().take(times) {
            let _ = connection.and_then(|mut connection| connection.write_all(b"hello"));
        }
    });
    port
}

/// A bundle that runs this program of Python's, and what the program has for help.
pub(crate) fn bundle(user: User, program: &str, annotations: Value) -> Bundle {
    const HELP: &str = r#"
import errno, os, socket, struct, sys, threading
def tcp(port, address="127.0.0.1"):
    try:
        with socket.create_connection((address, port), 5) as found:
            return found.recv(5).decode() or "closed"
    except OSError as error:
        return errno.errorcode[error.errno]
def credentials(connection):
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
"#;
    let mut bundle = Bundle::new(user, "");
    let text = format!("{HELP}\n{program}");
    bundle.config["process"]["args"] = json!(["/usr/bin/python3", "-I", "-u", "-c", text]);
    bundle.config["annotations"] = annotations;
    bundle.allow(&ALL);
    bundle
}

fn granted(port: u16) -> Value {
    json!({ "palisade.network": "broker", "palisade.connect": format!("tcp://127.0.0.1:{port}") })
}

pub(crate) fn lines(outcome: Outcome) -> Vec<String> {
    let text = outcome.succeeded();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn what_is_granted_is_reached_and_nothing_else() {
    for user in users() {
        let (port, other) = (server(1), server(1));
        let program = format!(
            "print(tcp({port})); print(tcp({other})); print(tcp({port}, '127.0.0.2')); print(tcp(80, '192.0.2.1'))"
        );
        let outcome = bundle(user, &program, granted(port)).run();
        // The other server is the host's, and at the container's own loopback there is nobody.
        let expected = ["hello", "ECONNREFUSED", "ECONNREFUSED", "EACCES"];
        assert_eq!(lines(outcome), expected, "{user:?}");
    }
}

#[test]
fn programs_meet_at_their_own_loopback() {
    for user in users() {
        let program = r#"
for family, address in [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]:
    server = socket.socket(family)
    server.bind((address, 0))
    server.listen()
    client = socket.socket(family)
    client.connect(server.getsockname()[:2])
    other, _ = server.accept()
    other.sendall(b"inside")
    print(client.recv(6).decode(), client.getpeername() == server.getsockname())
server = socket.create_server(("0.0.0.0", 8080))
print(tcp.__name__, socket.create_connection(("127.0.0.1", 8080)).getpeername()[1])
"#;
        let outcome = bundle(user, program, json!({ "palisade.network": "broker" })).run();
        let expected = ["inside True", "inside True", "tcp 8080"];
        assert_eq!(lines(outcome), expected, "{user:?}");
    }
}

/// A port of the host's is the container's to serve at, and no way to what else serves there.
#[test]
fn what_is_published_is_the_hosts() {
    for user in users() {
        let port = {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            free.local_addr().unwrap().port()
        };
        let program = format!(
            r#"
print(tcp({port}))
server = socket.create_server(("127.0.0.1", {port}))
while True:
    connection, _ = server.accept()
    connection.sendall(b"hello")
    connection.close()
"#
        );
        let annotations = json!({
            "palisade.network": "broker",
            "palisade.listen": format!("tcp://127.0.0.1:{port}"),
        });
        let bundle = bundle(user, &program, annotations);
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        let others = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), port)).unwrap();
        bundle.ask(&["start", &bundle.id]).succeeded();
        wait_for(
            || {
                let mut said = String::new();
                let found = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
                let read = found.and_then(|mut found| found.read_to_string(&mut said));
                read.is_ok() && said == "hello"
            },
            "the container's server",
        );
        let there = format!("import socket; socket.create_connection(('127.0.0.2', {port}), 5)");
        let further = ["exec", &bundle.id, "/usr/bin/python3", "-I", "-c", &there];
        bundle.ask(&further).refused_with("ConnectionRefusedError");
        drop(others);
    }
}

/// A filter whose listener is gone must not be given another from inside, whoever ends whom.
#[test]
fn nobody_inside_answers_in_the_supervisors_place() {
    for user in users() {
        let program = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction))]
allow = (Instruction * 1)(Instruction(6, 0, 0, 0x7fff0000))
SECCOMP, SET_FILTER, NEW_LISTENER = 317, 1, 8
libc.prctl(38, 1, 0, 0, 0)
for flags in NEW_LISTENER, 0:
    done = libc.syscall(SECCOMP, SET_FILTER, flags, ctypes.byref(Program(1, allow)))
    print(done if done == 0 else errno.errorcode[ctypes.get_errno()])
"#;
        let outcome = bundle(user, program, json!({ "palisade.network": "broker" })).run();
        assert_eq!(lines(outcome), ["EBUSY", "0"], "{user:?}");
    }
}

/// Other containers have no such filter.
#[test]
fn no_socket_of_the_hosts_and_no_process_is_passed_on() {
    for user in users() {
        let program = r#"
import array
mine, theirs = socket.socketpair()
inside = socket.create_server(("127.0.0.1", 0))
for name, number in [
    ("host", socket.socket().fileno()), ("process", os.pidfd_open(os.getpid())),
    ("inside", inside.fileno()), ("file", os.open("/etc", os.O_RDONLY)),
]:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [number]))]
    try: print(name, mine.sendmsg([b"x"], rights))
    except OSError as error: print(name, errno.errorcode[error.errno])
"#;
        // The socket must stay open while its number is used.
        let program = program.replace(
            "(\"host\", socket.socket().fileno())",
            "(\"host\", (kept := socket.socket()).fileno())",
        );
        let outcome = bundle(user, &program, json!({ "palisade.network": "broker" })).run();
        let expected = ["host EPERM", "process EPERM", "inside 1", "file 1"];
        assert_eq!(lines(outcome), expected, "{user:?}");
    }
}

#[test]
fn datagrams_have_a_loopback_inside() {
    for user in users() {
        let program = r#"
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect(receiver.getsockname())
sender.send(b"inside")
print(receiver.recv(6).decode())
try: sender.connect(("192.0.2.1", 53))
except OSError as error: print(errno.errorcode[error.errno])
"#;
        let outcome = bundle(user, program, json!({ "palisade.network": "broker" })).run();
        assert_eq!(lines(outcome), ["inside", "EACCES"], "{user:?}");
    }
}

/// What holds for the first process holds for one that an engine describes by a file.
#[test]
fn a_further_process_has_no_more_rights_and_the_policys_limits() {
    for user in users() {
        let mut bundle = bundle(
            user,
            "threading.Event().wait()",
            json!({ "palisade.policy": "small", "palisade.network": "broker" }),
        );
        let hook = json!({ "path": "/bin/true" });
        bundle.config["hooks"] = json!({ "startContainer": [hook] });
        let text = "[limits]\nfiles = 77\n";
        fs::write(bundle.administrator().join("policies/small.toml"), text).unwrap();
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        bundle.ask(&["start", &bundle.id]).succeeded();
        let mut process = bundle.config["process"].clone();
        process["args"] = json!(["/bin/sh", "-c", "ulimit -n"]);
        process["rlimits"] = json!([{ "type": "RLIMIT_NOFILE", "soft": 2000, "hard": 2000 }]);
        let path = bundle.path().join("process.json");
        let further = ["exec", "--process", path.to_str().unwrap(), &bundle.id];
        fs::write(&path, process.to_string()).unwrap();
        assert_eq!(lines(bundle.ask(&further)), ["77"], "{user:?}");
        if user == User::Root {
            process["capabilities"] = json!({ "bounding": ["CAP_SYS_PTRACE"] });
            fs::write(&path, process.to_string()).unwrap();
            bundle.ask(&further).refused_with("SYS_PTRACE");
        }
    }
}

/// Local sockets tell who called: calls on them are made by somebody else, who is the caller.
#[test]
fn local_sockets_are_as_without_a_broker() {
    for user in users() {
        let program = r#"
os.chdir("/tmp")
server = socket.socket(socket.AF_UNIX)
server.bind("by-path")
server.listen()
for name in ["by-path", "/tmp/by-path", "../tmp/by-path"]:
    client = socket.socket(socket.AF_UNIX)
    client.connect(name)
    other, _ = server.accept()
    print(credentials(other)[1:], os.stat("by-path").st_uid)
datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
datagrams.bind("\0abstract")
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sender.sendto(b"here", "\0abstract")
print(datagrams.recv(4).decode())
try:
    socket.socket(socket.AF_UNIX).connect("/tmp/none")
except OSError as error:
    print(errno.errorcode[error.errno])
"#;
        let mut bundle = bundle(user, program, json!({ "palisade.network": "broker" }));
        let id = match user {
            User::Root => {
                bundle.config["process"]["user"] = json!({ "uid": 1234, "gid": 2345 });
                bundle.mount(json!({ "destination": "/tmp", "type": "tmpfs", "source": "tmpfs" }));
                1234
            }
            User::Ordinary => 0,
        };
        let group = if id == 0 { 0 } else { 2345 };
        let connected = format!("({id}, {group}) {id}");
        let expected = [&connected, &connected, &connected, "here", "ENOENT"];
        assert_eq!(lines(bundle.run()), expected, "{user:?}");
    }
}

#[test]
fn a_further_process_is_under_the_same_grants_and_denials_are_told() {
    for user in users() {
        let port = server(1);
        let bundle = bundle(
            user,
            "sys.stdin.read(); threading.Event().wait()",
            granted(port),
        );
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        bundle.ask(&["start", &bundle.id]).succeeded();
        let program = format!(
            r#"
import socket
print(socket.create_connection(("127.0.0.1", {port})).recv(5).decode())
try: socket.create_connection(("192.0.2.7", 443))
except OSError as error: print(error.errno)
"#
        );
        let further = ["exec", &bundle.id, "/usr/bin/python3", "-I", "-c", &program];
        assert_eq!(lines(bundle.ask(&further)), ["hello", "13"], "{user:?}");
        let report = bundle.ask(&["report", &bundle.id]).succeeded();
        let report: Value = serde_json::from_str(&report).unwrap();
        let denied = report["denied"].as_array().unwrap();
        assert_eq!(denied.len(), 1, "{report}");
        assert_eq!(denied[0]["target"], "tcp://192.0.2.7:443");
        assert_eq!(
            denied[0]["annotation"],
            "palisade.connect=tcp://192.0.2.7:443"
        );
        let log = bundle.path().join("log");
        let log = log.to_str().unwrap();
        bundle
            .ask(&["--log", log, "delete", "--force", &bundle.id])
            .succeeded();
        let told = fs::read_to_string(log).unwrap();
        assert!(
            told.contains("palisade.connect=tcp://192.0.2.7:443"),
            "{told}"
        );
    }
}

#[test]
fn a_policy_by_name_is_the_administrators() {
    for user in users() {
        let port = server(1);
        let program = format!("print(tcp({port})); print(os.sysconf('SC_OPEN_MAX'))");
        let bundle = bundle(user, &program, json!({ "palisade.policy": "web" }));
        let text =
            format!("[grants]\nconnect = ['tcp://127.0.0.1:{port}']\n[limits]\nfiles = 77\n");
        fs::write(bundle.administrator().join("policies/web.toml"), text).unwrap();
        assert_eq!(lines(bundle.run()), ["hello", "77"], "{user:?}");
    }
}

/// An image has annotations too.
#[test]
fn nothing_is_granted_by_an_annotation_that_the_administrator_did_not_allow() {
    for user in users() {
        for name in ["palisade.network", "palisade.seccomp", "palisade.policy"] {
            let value = match name {
                "palisade.network" => "broker",
                _ => "engine",
            };
            let bundle = bundle(user, "print('ran')", json!({ name: value }));
            bundle.allow(&[]);
            bundle.run().refused_with(name);
        }
    }
}

#[test]
fn a_container_ends_with_its_supervisor_and_with_its_attendant() {
    for user in users() {
        for name in ["palisade-broke", "palisade-local"] {
            let bundle = bundle(
                user,
                "threading.Event().wait()",
                json!({ "palisade.network": "broker" }),
            );
            bundle.write();
            bundle.ask(&["create", &bundle.id]).succeeded();
            bundle.ask(&["start", &bundle.id]).succeeded();
            end_one_of(&bundle, name);
            wait_for(|| bundle.status() == "stopped", name);
        }
    }
}

/// Ends the process of this name that has something to do with this bundle: its supervisor is an image of the bundle's own copy
/// of the runtime, its attendant is in the container's pid namespace.
pub(crate) fn end_one_of(bundle: &Bundle, name: &str) {
    let own = fs::canonicalize(bundle.path().join("palisade-oci")).unwrap();
    let namespace = fs::read_link(format!("/proc/{}/ns/pid", bundle.pid()));
    let is_it = |pid: &str| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let is_own = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == own);
        let is_inside =
            fs::read_link(format!("/proc/{pid}/ns/pid")).ok() == namespace.as_ref().ok().cloned();
        comm.starts_with(name) && (is_own || is_inside)
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().into_string().ok());
    let pid = pids
        .find(|pid| pid.parse::<i32>().is_ok() && is_it(pid))
        .expect(name);
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// What it is not given, of a socket that is the host's.
#[test]
fn a_socket_of_the_hosts_tells_and_changes_nothing_of_its_network() {
    for user in users() {
        let port = server(1);
        let program = format!(
            r#"
import fcntl
found = socket.create_connection(("127.0.0.1", {port}))
SIOCGIFCONF, SIOCGSKNS, SO_BINDTODEVICE, SO_MARK = 0x8912, 0x894c, 25, 36
for request in SIOCGIFCONF, SIOCGSKNS:
    try: print(fcntl.ioctl(found, request, bytes(64)))
    except OSError as error: print(errno.errorcode[error.errno])
for option in SO_BINDTODEVICE, SO_MARK:
    try: print(found.setsockopt(socket.SOL_SOCKET, option, 1))
    except OSError as error: print(errno.errorcode[error.errno])
"#
        );
        let mut bundle = bundle(user, &program, granted(port));
        let all = json!(["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SETUID"]);
        bundle.config["process"]["capabilities"] =
            json!({ "bounding": all, "permitted": all, "effective": all });
        let expected = ["EPERM", "EPERM", "ENOPROTOOPT", "ENOPROTOOPT"];
        assert_eq!(lines(bundle.run()), expected, "{user:?}");
    }
}

/// Two threads: one connects, the other puts a socket of the host's under the number of a local one.
#[test]
fn a_number_that_changes_its_socket_meanwhile_reaches_nothing() {
    for user in users() {
        let (port, other) = (server(1000), server(1000));
        let program = format!(
            r#"
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
local = socket.socket(socket.AF_UNIX)
internet = socket.socket()
number = os.dup(local.fileno())
running = True
def swap():
    while running:
        os.dup2(internet.fileno(), number)
        os.dup2(local.fileno(), number)
thread = threading.Thread(target=swap)
thread.start()
address = struct.pack("=HH4s8x", socket.AF_INET, socket.htons({other}), bytes([127, 0, 0, 2]))
answers = set()
end = time.monotonic() + 2
while time.monotonic() < end:
    done = libc.connect(number, address, len(address))
    answers.add(done)
running = False
thread.join()
try: print(internet.getpeername())
except OSError as error: print(errno.errorcode[error.errno])
print(answers, tcp({port}))
"#
        );
        let outcome = bundle(user, &program, granted(port)).run();
        assert_eq!(lines(outcome), ["ENOTCONN", "{-1} hello"], "{user:?}");
    }
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let user = users()[0];
    let broker = || json!({ "palisade.network": "broker" });
    let mut shared = bundle(user, "", broker());
    let namespaces = shared.config["linux"]["namespaces"].as_array_mut().unwrap();
    namespaces.retain(|one| one["type"] != "pid");
    shared.run().refused_with("pid namespace");
    if !is_root() {
        return;
    }
    let mut mighty = bundle(User::Root, "", broker());
    mighty.config["process"]["capabilities"] = json!({ "bounding": ["CAP_SYS_ADMIN"] });
    mighty.run().refused_with("SYS_ADMIN");
    let both = bundle(
        user,
        "",
        json!({ "palisade.network": "broker", "palisade.seccomp": "engine" }),
    );
    both.run().refused_with("palisade.seccomp");
}
