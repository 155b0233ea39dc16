//! What the grants mean to programs: places to listen, names, listeners made ready; and what is said of
//! a call that has none.

use super::{Service, bare, denials, guest, in_own_network, place};
use crate::cli::fixture::{Fixture, cases, read_line, wait};
use palisade_suite::ports::free_ports;
use std::{
    io::{BufReader, Read},
    net::{TcpStream, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

cases![
    a_guest_listens_at_the_place_that_is_granted,
    a_port_is_published_under_another,
    a_name_of_the_hosts_file_is_found_and_reached,
    a_name_does_not_grant_the_host_itself,
    a_name_that_moves_is_followed,
    the_internet_is_found_by_name_and_reached,
    the_internet_at_one_port,
    what_names_are_looked_up_with_is_not_granted,
    a_guest_finds_itself_by_the_name_of_its_machine,
    curl_reaches_names_below_a_wildcard,
    a_port_is_picked_by_the_kernel,
    datagrams_are_answered_wherever_they_came_from,
    a_listener_is_made_ready,
    a_socket_for_datagrams_is_made_ready,
    a_listener_is_inherited,
    a_listener_that_was_not_passed_is_refused,
    wrong_words_about_passed_sockets_are_refused,
    a_crowd_at_the_proxys_port_keeps_no_guest_away,
    every_denial_names_its_grant,
    a_local_socket_of_the_host_is_reached,
    explain_shows_the_rules,
];

/// A guest in Python, which has this in a file of its own.
fn python(
    fixture: &Fixture,
    flags: &str,
    script: &str,
    arguments: &str,
) -> crate::cli::fixture::Call {
    let program = place(fixture, "program.py", script);
    let flags = format!("{flags} --read {program} --env PYTHONUNBUFFERED=1");
    guest(
        fixture,
        &flags,
        &format!("/usr/bin/python3 {program} {arguments}"),
    )
}

fn a_guest_listens_at_the_place_that_is_granted(fixture: &Fixture) {
    const SCRIPT: &str = "
import errno, socket, sys
port = int(sys.argv[1])
def bound(family, host, port, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as one:
        if family == socket.AF_INET6: one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try: one.bind((host, port))
        except OSError as error: return errno.errorcode[error.errno]
        return one.getsockname()[0]
print(bound(socket.AF_INET, '', port), bound(socket.AF_INET6, '::', port))
print(bound(socket.AF_INET, '127.0.0.1', port), bound(socket.AF_INET, '127.0.0.2', port))
print(bound(socket.AF_INET, '', port + 1), bound(socket.AF_INET6, '::1', port))
print(bound(socket.AF_INET, '', port, socket.SOCK_DGRAM))
";
    let port = free_ports(2);
    let flags = format!("--listen tcp://127.0.0.1:{port}");
    python(fixture, &flags, SCRIPT, &port.to_string())
        .run()
        .shows("127.0.0.1 ::ffff:127.0.0.1\n127.0.0.1 EACCES\nEACCES EACCES\nEACCES\n");
}

fn a_port_is_published_under_another(fixture: &Fixture) {
    fixture.write("pages/file", "content\n");
    let (pages, port) = (fixture.text("pages"), free_ports(1));
    let flags = format!(
        "--read {pages} --cwd {pages} --env PYTHONUNBUFFERED=1 \
         --listen tcp://127.0.0.1:80,host-port={port}"
    );
    let server = guest(fixture, &flags, "/usr/bin/python3 -m http.server 80");
    let _server = Service::start(server, "Serving HTTP");
    let url = format!("http://127.0.0.1:{port}/file");
    bare(fixture, &format!("/usr/bin/curl -sS {url}"))
        .run()
        .prints("content\n");
}

/// Loopback has an address of the documentation's there, and the host's file of names these lines.
fn with_names(fixture: &Fixture, names: &str) -> String {
    let file = place(fixture, "hosts", names);
    format!("ip address add 203.0.113.7/32 dev lo; mount --bind {file} /etc/hosts")
}

fn a_name_of_the_hosts_file_is_found_and_reached(fixture: &Fixture) {
    const SCRIPT: &str = "
import errno, socket, subprocess
server = socket.create_server(('203.0.113.7', 8000))
client = socket.create_connection(('granted.test', 8000))
print(client.getpeername(), server.accept()[1] == client.getsockname())
for name in 'other.test', 'absent.test':
    try: print(socket.gethostbyname(name))
    except socket.gaierror as error: print('unknown', name)
try: socket.create_connection(('203.0.113.8', 8000))
except OSError as error: print(errno.errorcode[error.errno])
lookup = 'require(\"dns\").lookup(\"granted.test\", (error, address) => console.log(error || address))'
print(subprocess.run(['node', '-e', lookup], capture_output=True, text=True).stdout, end='')
print(subprocess.run(['getent', 'hosts', 'granted.test'], capture_output=True, text=True).stdout.split())
";
    let names = "127.0.0.1 localhost\n203.0.113.7 granted.test\n203.0.113.8 other.test\n";
    let flags = "--connect tcp://granted.test:8000 --listen tcp://203.0.113.7:8000 --profile node";
    let call = python(fixture, flags, SCRIPT, "");
    in_own_network(fixture, &with_names(fixture, names), &call)
        .run()
        .shows(
            "('203.0.113.7', 8000) True\nunknown other.test\nunknown absent.test\nEACCES\n\
             203.0.113.7\n['203.0.113.7', 'granted.test']\n",
        );
}

/// A network of the case's own, with a name server on the loopback, as systemd's is, and a server at an address of
/// the documentation's and at a private one. They end with palisade.
pub(crate) fn with_servers(fixture: &Fixture) -> String {
    let servers = place(fixture, "servers.py", include_str!("internet.py"));
    let resolver = place(
        fixture,
        "resolv.conf",
        "search private.test\nnameserver 127.0.0.53\n",
    );
    fixture.make_fifo("ready");
    let ready = fixture.text("ready");
    format!(
        "ip address add 203.0.113.7/32 dev lo; ip address add 203.0.113.9/32 dev lo; \
         ip address add 10.9.9.9/32 dev lo; \
         mount --bind {resolver} /etc/resolv.conf; \
         python3 {servers} {ready} >/dev/null 2>&1 </dev/null & read _ < {ready}"
    )
}

const ASK: &str = "
import errno, socket
def reached(host, kind=socket.SOCK_STREAM, port=8000):
    try:
        with socket.socket(type=kind) as one:
            one.settimeout(30)
            one.connect((host, port))
            if kind == socket.SOCK_DGRAM: one.send(b'?')
            return one.recv(10)
    except socket.gaierror: return 'unknown'
    except OSError as error: return errno.errorcode[error.errno]
for name in 'public.test', 'private.test', 'rebound.test', 'absent.test': print(name, reached(name))
print(reached('public.test', socket.SOCK_DGRAM), reached('10.9.9.9'), reached('127.0.0.1'))
print(socket.getaddrinfo('public.test', 8000, type=socket.SOCK_STREAM)[0][4])
print(reached('127.0.0.53', port=8000), reached('203.0.113.7', port=8001))
";

/// Who moves is found at the new address, in the guest's own file of names too. The old one is out of reach from the answer
/// after that on: a program may just have looked it up.
fn a_name_that_moves_is_followed(fixture: &Fixture) {
    const FOLLOW: &str = "
import errno, socket, time
def reached(host):
    try:
        with socket.create_connection((host, 8000), 30) as one: return one.recv(10)
    except OSError as error: return errno.errorcode[error.errno]
print(socket.gethostbyname('moving.test'), reached('moving.test'), reached('203.0.113.9'))
until = time.monotonic() + 60
def wait_for(is_so):
    while not is_so() and time.monotonic() < until: time.sleep(0.1)
wait_for(lambda: socket.gethostbyname('moving.test') == '203.0.113.9')
print(socket.gethostbyname('moving.test'), reached('moving.test'))
wait_for(lambda: reached('203.0.113.7') == 'EACCES')
print(reached('moving.test'), reached('203.0.113.7'))
";
    let prepare = with_servers(fixture);
    let call = python(fixture, "--connect tcp://moving.test:8000", FOLLOW, "");
    in_own_network(fixture, &prepare, &call)
        .run()
        .shows("203.0.113.7 b'tcp' EACCES\n203.0.113.9 b'tcp'\nb'tcp' EACCES\n");
}

fn the_internet_is_found_by_name_and_reached(fixture: &Fixture) {
    reaches_what_is_public(fixture, "internet", "ECONNREFUSED");
}

fn the_internet_at_one_port(fixture: &Fixture) {
    reaches_what_is_public(fixture, "internet:8000", "EACCES");
}

/// The server listens at port 8000 alone; the other port is 8001.
fn reaches_what_is_public(fixture: &Fixture, grant: &str, at_the_other_port: &str) {
    let prepare = with_servers(fixture);
    let call = python(fixture, &format!("--connect {grant}"), ASK, "");
    in_own_network(fixture, &prepare, &call)
        .run()
        .shows(&format!(
            "public.test b'tcp'\nprivate.test EACCES\nrebound.test EACCES\nabsent.test unknown\n\
         b'udp' EACCES EACCES\n('203.0.113.7', 8000)\nEACCES {at_the_other_port}\n",
        ));
}

fn a_name_does_not_grant_the_host_itself(fixture: &Fixture) {
    let names = "127.0.0.1 localhost inside.test\n203.0.113.7 inside.test\n";
    let (port, script) = (8000, "cat /etc/hosts");
    let flags = format!("--connect tcp://inside.test:{port}");
    let call = fixture.script(&flags.split(' ').collect::<Vec<_>>(), script);
    let outcome = in_own_network(fixture, &with_names(fixture, names), &call).run();
    outcome.is(0);
    assert!(
        outcome.text().contains("203.0.113.7 inside.test"),
        "{outcome:?}"
    );
    assert!(
        !outcome.text().contains("127.0.0.1 inside.test"),
        "{outcome:?}"
    );
    let flags = format!("{flags} --connect tcp://127.0.0.1:{port}");
    let call = fixture.script(&flags.split(' ').collect::<Vec<_>>(), script);
    let outcome = in_own_network(fixture, &with_names(fixture, names), &call).run();
    assert!(
        outcome.text().contains("127.0.0.1 inside.test"),
        "{outcome:?}"
    );
}

/// By its own name, by a mount that shows it, and by the folder that a link on the way to it lies in.
fn what_names_are_looked_up_with_is_not_granted(fixture: &Fixture) {
    let names = "127.0.0.1 localhost\n203.0.113.7 granted.test\n";
    let with = |granted: &str, grant: &str| {
        let flags = ["--write", granted, "--connect", grant];
        let call = fixture.script(&flags, "true");
        in_own_network(fixture, &with_names(fixture, names), &call).run()
    };
    fixture.make_folder("other");
    let hosts = fixture.text("hosts");
    for grant in ["tcp://granted.test:80", "tcp://*.granted.test:443"] {
        for granted in [hosts.as_str(), &fixture.text(""), "/etc", "/usr/bin"] {
            let refused = with(granted, grant);
            refused.refuses(&["policy: the guest could change /", "--protect"]);
        }
        with(&fixture.text("other"), grant).is_silent(0);
    }
    with(&fixture.text(""), "tcp://203.0.113.7:80").is_silent(0);
}

fn a_guest_finds_itself_by_the_name_of_its_machine(fixture: &Fixture) {
    const SCRIPT: &str = "
import socket, sys
name, port = socket.gethostname(), int(sys.argv[1])
server = socket.create_server((name, port))
client = socket.create_connection((socket.gethostbyname(name), port))
print(name, client.getpeername() == ('127.0.0.1', port))
";
    let port = free_ports(1);
    let flags = format!("--listen tcp://127.0.0.1:{port} --connect tcp://localhost:{port}");
    python(fixture, &flags, SCRIPT, &port.to_string())
        .run()
        .shows("palisade True\n");
}

fn curl_reaches_names_below_a_wildcard(fixture: &Fixture) {
    let names = "203.0.113.7 a.wild.test b.c.wild.test wild.test other.test\n";
    let flags =
        "--connect tcp://*.wild.test:8443 --listen tcp://203.0.113.7:8443 --report report.json";
    let call = python(
        fixture,
        flags,
        include_str!("wildcard.py"),
        "203.0.113.7 8443",
    );
    in_own_network(fixture, &with_names(fixture, names), &call)
        .run()
        .shows(
            "a.wild.test a.wild.test\nb.c.wild.test b.c.wild.test\nwild.test curl: 56\n\
             other.test curl: 56\nanother port curl: 56\nwithout TLS curl: 6\nno proxy curl: 7\n\
             urllib b'a.wild.test'\n",
        );
    let through_the_proxy = |address: &str| {
        let grant = format!("--connect {address}");
        ["none".to_owned(), address.to_owned(), grant]
    };
    assert_eq!(
        denials(fixture, "report.json"),
        [
            // Which name the server's address has; and curl without the proxy.
            ["none", "none", "none"].map(str::to_owned),
            ["none", "none", "--connect tcp://a.wild.test:443"].map(str::to_owned),
            [
                "connect",
                "tcp://203.0.113.7:8443",
                "--connect tcp://203.0.113.7:8443",
            ]
            .map(str::to_owned),
            // Behind what the broker refused.
            through_the_proxy("tcp://wild.test:8443"),
            through_the_proxy("tcp://other.test:8443"),
            through_the_proxy("tcp://a.wild.test:8444"),
        ]
    );
}

fn a_port_is_picked_by_the_kernel(fixture: &Fixture) {
    const SCRIPT: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 0))
print('at', listener.getsockname()[1])
listener.accept()[0].sendall(b'answer')
";
    let server = python(fixture, "--listen tcp://127.0.0.1:0", SCRIPT, "");
    let server = Service::start(server, "at ");
    let said = server.said();
    let port = said.trim_end().rsplit(' ').next().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
}

/// A server of datagrams answers two, and has no grant to connect.
const ECHO: &str = "
print('ready')
for number in range(2):
    data, sender = one.recvfrom(100)
    one.sendto(data.upper(), sender)
";

fn is_answered(port: u16) {
    for version in ["127.0.0.1:0", "127.0.0.2:0"] {
        let outside = UdpSocket::bind(version).unwrap();
        outside.send_to(b"abc", ("127.0.0.1", port)).unwrap();
        let mut answer = [0; 10];
        let length = outside.recv(&mut answer).unwrap();
        assert_eq!(&answer[..length], b"ABC");
    }
}

fn datagrams_are_answered_wherever_they_came_from(fixture: &Fixture) {
    const BIND: &str = "
import socket, sys
one = socket.socket(type=socket.SOCK_DGRAM)
one.bind(('', int(sys.argv[1])))
";
    let port = free_ports(1);
    let own = format!("--listen udp://127.0.0.1:{port}");
    // The other has another place to go to, and so has each address asked about.
    for flags in [own.clone(), format!("{own} --connect udp://192.0.2.1:53")] {
        let script = format!("{BIND}{ECHO}");
        let server = Service::start(python(fixture, &flags, &script, &port.to_string()), "ready");
        is_answered(port);
        server.ends();
    }
}

fn a_socket_for_datagrams_is_made_ready(fixture: &Fixture) {
    const TAKE: &str = "
import os, socket
one = socket.socket(fileno=3)
print(os.environ['LISTEN_FDNAMES'], one.getsockname()[1])
";
    let port = free_ports(1);
    let flags = format!("--listen udp://127.0.0.1:{port},ready");
    let server = python(fixture, &flags, &format!("{TAKE}{ECHO}"), "");
    let server = Service::start(server, "ready");
    is_answered(port);
    assert_eq!(server.ends(), format!("udp-{port} {port}\nready\n"));
}

/// As sd_listen_fds(3) describes it.
const PASSED: &str = "
import os, socket
print(os.environ['LISTEN_FDS'], int(os.environ['LISTEN_PID']) == os.getpid(), os.environ['LISTEN_FDNAMES'])
for number in range(int(os.environ['LISTEN_FDS'])):
    listener = socket.socket(fileno=3 + number)
    print('ready at', listener.getsockname()[1])
for number in range(2):
    client, _ = listener.accept()
    client.recv(1000)
    client.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\nanswer\\n')
    client.close()
try: socket.create_connection(listener.getsockname())
except OSError: print('no way out')
";

fn a_listener_is_made_ready(fixture: &Fixture) {
    let port = free_ports(1);
    let flags = format!("--listen tcp://127.0.0.1:{port},ready");
    let server = python(fixture, &flags, PASSED, "");
    answers_twice(
        fixture,
        Service::start(server, "ready at"),
        port,
        &format!("tcp-{port}"),
    );
}

#[track_caller]
fn answers_twice(fixture: &Fixture, mut server: Service, port: u16, name: &str) {
    for _ in 0..2 {
        bare(
            fixture,
            &format!("/usr/bin/curl -sS http://127.0.0.1:{port}/"),
        )
        .run()
        .prints("answer\n");
    }
    server.says("no way out");
    assert_eq!(
        server.ends(),
        format!("1 True {name}\nready at {port}\nno way out\n")
    );
}

fn a_listener_is_inherited(fixture: &Fixture) {
    const LAUNCHER: &str = "
import os, socket, sys
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES='web')
os.execv(sys.argv[2], sys.argv[2:])
";
    let port = free_ports(1);
    let launcher = place(fixture, "launcher.py", LAUNCHER);
    let server = python(fixture, "--listen inherited", PASSED, "");
    let mut call = bare(fixture, &format!("/usr/bin/python3 {launcher} {port}"));
    call.command.arg(server.command.get_program());
    call.command.args(server.command.get_args());
    answers_twice(fixture, Service::start(call, "ready at"), port, "web");
}

fn a_listener_that_was_not_passed_is_refused(fixture: &Fixture) {
    // The numbers are palisade's own by then.
    let launcher = "exec env LISTEN_FDS=2 LISTEN_PID=$$ \"$@\"";
    let server = python(fixture, "--listen inherited", PASSED, "");
    let mut call = fixture.call("/bin/sh".as_ref(), ["-c", launcher, "sh"]);
    call.command.arg(server.command.get_program());
    call.command.args(server.command.get_args());
    call.run().refuses(&["host: ", "LISTEN_FDS"]);
}

/// A service manager's word is taken for what it is: numbers that name nothing, or something else, start no guest.
fn wrong_words_about_passed_sockets_are_refused(fixture: &Fixture) {
    let run = |setting: &str, with: &str| {
        let launcher = format!("{with} exec env {setting} \"$@\"");
        let server = python(fixture, "--listen inherited", PASSED, "");
        let mut call = fixture.call("/bin/sh".as_ref(), ["-c", &launcher, "sh"]);
        call.command.arg(server.command.get_program());
        call.command.args(server.command.get_args());
        call.run()
    };
    for count in ["-1", "0", "x", "", "99999999999", "1 "] {
        let setting = format!("LISTEN_PID=$$ LISTEN_FDS='{count}'");
        run(&setting, "").refuses(&["host: no socket was passed"]);
    }
    // Another process's.
    run("LISTEN_PID=1 LISTEN_FDS=1", "").refuses(&["host: no socket was passed"]);
    run("LISTEN_FDS=1", "").refuses(&["host: no socket was passed"]);
    for count in ["126", "2147483647"] {
        let setting = format!("LISTEN_PID=$$ LISTEN_FDS={count}");
        run(&setting, "").refuses(&["host: LISTEN_FDS names", "no more than 125"]);
    }
    run("LISTEN_PID=$$ LISTEN_FDS=100", "").refuses(&["host: what LISTEN_FDS names is no socket"]);
    for file in ["/etc/passwd", "/", "/dev/null"] {
        let with = format!("exec 3< {file};");
        run("LISTEN_PID=$$ LISTEN_FDS=1", &with)
            .refuses(&["host: what LISTEN_FDS names is no socket"]);
    }
}

/// Everybody on the host can connect there: the suite itself does, which is another user than the ordinary one.
fn a_crowd_at_the_proxys_port_keeps_no_guest_away(fixture: &Fixture) {
    const SCRIPT: &str = "
import os, socket, sys
port = int(os.environ['HTTPS_PROXY'].rsplit(':', 1)[1].strip('/'))
print(port)
sys.stdin.readline()
served = 0
for _ in range(30):
    with socket.create_connection(('127.0.0.1', port)) as one:
        one.sendall(b'CONNECT evil.test:443 HTTP/1.0\\r\\n\\r\\n')
        try: served += one.recv(12) == b'HTTP/1.1 403'
        except ConnectionError: pass
print(served)
";
    let mut call = python(fixture, "--connect tcp://*.example.com:443", SCRIPT, "");
    let mut child = call.spawn();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let port: u16 = read_line(&mut said).trim().parse().unwrap();
    let over = AtomicBool::new(false);
    let served = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let crowd: Vec<_> = (0..50)
                        .map(|_| TcpStream::connect(("127.0.0.1", port)))
                        .collect();
                    drop(crowd);
                }
            });
        }
        drop(child.stdin.take());
        let served = read_line(&mut said);
        over.store(true, Ordering::Relaxed);
        served
    });
    wait(&mut child);
    assert_eq!(served.trim(), "30");
}

fn every_denial_names_its_grant(fixture: &Fixture) {
    const SCRIPT: &str = "
import errno, socket, sys
port = int(sys.argv[1])
def tries(kind, call, *arguments, family=socket.AF_INET):
    with socket.socket(family, kind) as one:
        try: getattr(one, call)(*arguments)
        except OSError as error: print(call, errno.errorcode[error.errno])
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
tries(TCP, 'connect', ('127.0.0.1', port))
tries(TCP, 'connect', ('127.0.0.1', port))
tries(TCP, 'connect', ('::1', port), family=socket.AF_INET6)
tries(TCP, 'connect', ('::ffff:127.0.0.1', port), family=socket.AF_INET6)
tries(UDP, 'connect', ('127.0.0.1', port))
tries(UDP, 'sendto', b'x', ('127.0.0.1', port))
tries(UDP, 'sendmsg', [b'x'], [], 0, ('127.0.0.1', port + 1))
tries(TCP, 'bind', ('127.0.0.1', port))
tries(UDP, 'bind', ('', port))
tries(TCP, 'listen')
";
    let port = free_ports(2);
    let next = port + 1;
    let flags = format!(
        "--connect tcp://127.0.0.1:{next} --connect udp://192.0.2.1:53 --report report.json"
    );
    let outcome = python(fixture, &flags, SCRIPT, &port.to_string()).run();
    outcome.is(0);
    assert_eq!(
        outcome.text(),
        "connect EACCES\nconnect EACCES\nconnect EACCES\nconnect EACCES\nconnect EACCES\n\
         sendto EACCES\nsendmsg EACCES\nbind EACCES\nbind EACCES\nlisten EACCES\n"
    );
    let denial = |call: &str, address: &str, flag: &str| {
        let address = address
            .replace("PORT", &port.to_string())
            .replace("NEXT", &next.to_string());
        let grant = format!("{flag} {address}");
        [call.to_owned(), address, grant]
    };
    assert_eq!(
        denials(fixture, "report.json"),
        [
            denial("connect", "tcp://127.0.0.1:PORT", "--connect"),
            denial("connect", "tcp://[::1]:PORT", "--connect"),
            denial("connect", "udp://127.0.0.1:PORT", "--connect"),
            denial("sendto", "udp://127.0.0.1:PORT", "--connect"),
            denial("sendto", "udp://127.0.0.1:NEXT", "--connect"),
            denial("bind", "tcp://127.0.0.1:PORT", "--listen"),
            denial("bind", "udp://0.0.0.0:PORT", "--listen").map(|text| match text.as_str() {
                text if text.starts_with("--listen") => text.replace("0.0.0.0", "*"),
                _ => text,
            }),
            // A socket that is bound to no address has none to show.
            ["listen", "none", "--listen tcp://*:0"].map(str::to_owned),
        ]
    );
    let outcome = fixture.palisade(["why", "report.json"]).run();
    outcome.is(0);
    for [_, _, grant] in denials(fixture, "report.json") {
        // Its value, which is quoted where a shell would read it otherwise.
        let (_, value) = grant.split_once(' ').unwrap();
        assert!(outcome.text().contains(value), "{value}: {outcome:?}");
    }
}

fn a_local_socket_of_the_host_is_reached(fixture: &Fixture) {
    const SCRIPT: &str = "
import socket, sys
one = socket.socket(socket.AF_UNIX)
one.connect(sys.argv[1])
one.sendall(b'from inside\\n')
print(one.recv(100))
try: socket.socket(socket.AF_UNIX).connect(sys.argv[2])
except OSError as error: print(type(error).__name__)
";
    const SERVER: &str = "
import socket, sys
listeners = [socket.socket(socket.AF_UNIX) for path in sys.argv[1:]]
for listener, path in zip(listeners, sys.argv[1:]): listener.bind(path); listener.listen()
print('ready', flush=True)
client, _ = listeners[0].accept()
print('got', client.recv(100), flush=True)
client.sendall(b'from outside')
listeners[1].setblocking(False)
try: listeners[1].accept()
except BlockingIOError: print('nobody came to the other')
";
    let server = place(fixture, "server.py", SERVER);
    let [granted, other] = ["granted", "other"].map(|name| fixture.text(name));
    let server = bare(
        fixture,
        &format!("/usr/bin/python3 {server} {granted} {other}"),
    );
    let mut server = Service::start(server, "ready");
    let flags = format!("--connect unix:{granted}");
    python(fixture, &flags, SCRIPT, &format!("{granted} {other}"))
        .run()
        .shows("b'from outside'\nFileNotFoundError\n");
    server.says("got b'from inside\\n'");
    server.says("nobody came to the other");
}

fn explain_shows_the_rules(fixture: &Fixture) {
    let flags = "explain --connect tcp://localhost:80 --connect udp://10.0.0.0/8:53 \
                 --listen tcp://127.0.0.1:8080,host-port=8081 --listen tcp://[::1]:8090,ready -- true";
    let outcome = fixture.palisade(flags.split_whitespace()).run();
    outcome.is(0);
    let rules: Vec<_> = outcome
        .text()
        .lines()
        .filter(|line| line.starts_with("network "))
        .map(str::to_owned)
        .collect();
    assert_eq!(
        rules,
        [
            "network   connect tcp://127.0.0.1:80",
            "network   connect tcp://[::1]:80",
            "network   connect udp://10.0.0.0/8:53",
            "network   listen tcp://127.0.0.1:8080 as the host's 8081",
            "network   listen tcp://[::1]:8090 made ready",
        ]
    );
}
