//! Guests that meet: what one passes to another or moves under it gives neither what was not granted.

use super::fixture::{Call, Fixture, cases, finish, read_line};
use std::{
    fs,
    io::BufReader,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    process::{Child, ChildStdout},
};

cases![
    a_passed_socket_takes_no_names_of_its_network,
    a_moved_meeting_place_does_not_bring_another,
];

/// A program in Python, behind a wall with these flags or behind none.
fn program(fixture: &Fixture, flags: Option<&[&str]>, words: &[&str]) -> Call {
    match flags {
        Some(flags) => {
            let run = ["run"].iter().chain(flags).copied();
            let guest = ["--", "python3", "-c"];
            fixture.palisade(run.chain(guest).chain(words.iter().copied()))
        }
        None => {
            let words = ["-c"].iter().chain(words).copied();
            fixture.call(Path::new("/usr/bin/python3"), words)
        }
    }
}

fn begin(mut call: Call) -> (Child, BufReader<ChildStdout>) {
    let mut child = call.spawn();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

/// Listens at an abstract name, and passes a socket of its network to whoever comes.
const PASS: &str = r"if True:
    import os, socket, sys
    name = '\0' + sys.argv[1]
    names = socket.socket(socket.AF_UNIX); names.bind(name); names.listen()
    own = socket.socket(socket.AF_UNIX); own.connect(name); names.accept()
    letters = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); letters.bind(name + '.d')
    door = socket.socket(socket.AF_UNIX); door.bind('data/run/door'); door.listen()
    os.chmod('data/run/door', 0o777)
    print('ready', flush=True)
    guest = door.accept()[0]
    kinds = socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM
    passed = [socket.socket(socket.AF_UNIX, kind) for kind in kinds]
    socket.send_fds(guest, [b'x'], [socket.fileno() for socket in passed])
    guest.recv(1)
    for socket, ask in (names, names.accept), (letters, lambda: letters.recv(1)):
        socket.setblocking(False)
        try: ask(); print('reached')
        except BlockingIOError: print('alone')
";

const TAKE: &str = r"if True:
    import socket, sys
    name = '\0' + sys.argv[1]
    door = socket.socket(socket.AF_UNIX); door.connect('data/run/door')
    fds = socket.recv_fds(door, 1, 3)[1]
    connects, binds, sends = (socket.socket(fileno=fd) for fd in fds)
    for act in (lambda: connects.connect(name), lambda: binds.bind(name + '.b'), lambda: sends.sendto(b'x', name + '.d')):
        try: act(); print('done')
        except OSError as error: print(error.errno)
    door.send(b'x')
";

/// What who takes the socket could do, and who passed it noticed.
fn pass(fixture: &Fixture, flags: Option<&[&str]>) -> (String, String) {
    let _ = fs::remove_file(fixture.path("data/run/door"));
    let name = fixture.text("");
    let (child, mut stdout) = begin(program(fixture, flags, &[PASS, &name]));
    assert_eq!(read_line(&mut stdout), "ready\n");
    let taken = program(fixture, flags, &[TAKE, &name]).run();
    let noticed = [(); 2].map(|()| read_line(&mut stdout)).concat();
    finish(child, b"").is_silent(0);
    (taken.is_silent(0).text(), noticed)
}

/// A name that is no path belongs to the network of the socket, which may be another guest's.
fn a_passed_socket_takes_no_names_of_its_network(fixture: &Fixture) {
    fixture.make_folder("data/run");
    let done = |taken: &str, noticed: &str| (taken.to_owned(), noticed.to_owned());
    let open = pass(fixture, None);
    assert_eq!(open, done("done\ndone\ndone\n", "reached\nreached\n"));
    let flags = ["--write", "data", "--ipc", "data/run"];
    let walled = pass(fixture, Some(&flags));
    assert_eq!(walled, done("13\n13\n13\n", "alone\nalone\n"));
}

/// Connects to each path, and once more when its input ends.
const CONNECT_TWICE: &str = r"if True:
    import socket, sys
    for wait in sys.stdin.read, str:
        for path in sys.argv[1:]:
            try: socket.socket(socket.AF_UNIX).connect(path); print('connected')
            except OSError as error: print(error.errno)
        sys.stdout.flush()
        wait()
";

/// A server of the host's that everybody may connect to.
fn serve(fixture: &Fixture, name: &str) -> UnixListener {
    let server = UnixListener::bind(fixture.path(name)).unwrap();
    fs::set_permissions(fixture.path(name), fs::Permissions::from_mode(0o777)).unwrap();
    server.set_nonblocking(true).unwrap();
    server
}

/// Another guest, which may write to all of it, puts other folders with sockets into the places.
fn a_moved_meeting_place_does_not_bring_another(fixture: &Fixture) {
    const MOVE: &str = "mv data/run data/run.old && mv data/trap data/run && \
         mv data/one data/one.old && mv data/snare data/one";
    for is_walled in [false, true] {
        let _ = fs::remove_dir_all(fixture.path("data"));
        let folders = ["data/run", "data/trap", "data/one", "data/snare"];
        let servers = folders.map(|folder| {
            fixture.make_folder(folder);
            serve(fixture, &format!("{folder}/agent"))
        });
        let one = format!("unix:{}", fixture.text("data/one/agent"));
        let flags = ["--write", "data", "--ipc", "data/run", "--connect", &one];
        let flags = is_walled.then_some(&flags[..]);
        let paths = ["data/run/agent", "data/one/agent"];
        let call = program(fixture, flags, &[&[CONNECT_TWICE], &paths[..]].concat());
        let (mut child, mut stdout) = begin(call);
        let mut lines = || [(); 2].map(|()| read_line(&mut stdout)).concat();
        assert_eq!(lines(), "connected\nconnected\n");
        fixture
            .script(&["--write", "data"], MOVE)
            .run()
            .is_silent(0);
        drop(child.stdin.take());
        let expected = match is_walled {
            false => "connected\nconnected\n",
            true => "13\n13\n",
        };
        assert_eq!(lines(), expected);
        finish(child, b"").is_silent(0);
        let reached = servers.map(|server| server.accept().is_ok());
        assert_eq!(reached, [true, !is_walled, true, !is_walled]);
    }
}
