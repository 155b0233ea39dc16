//! Standard streams of every kind, and what a hostile guest does with each.
//!
//! Every attack is first made with no wall, where it must succeed; what it did is seen from outside.

use super::fixture::{Call, Fixture, Outcome, User, cases, finish, wait};
use rustix::{
    event::{EventfdFlags, epoll::CreateFlags},
    fs::{MemfdFlags, Mode, OFlags},
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    process::{PidfdFlags, getpid},
};
use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    path::Path,
    process::{Child, Stdio},
    thread,
};

cases![
    a_socket_is_not_sent_elsewhere,
    a_socket_is_not_sent_elsewhere_without_namespaces,
    a_socket_serves,
    a_socket_says_when_it_ends,
    what_a_guest_leaves_in_a_socket_is_for_the_next,
    a_socket_is_not_ended_with_the_guest,
    a_reader_that_leaves_a_socket,
    sockets_of_other_kinds_are_refused,
    objects_that_are_no_streams_are_refused,
    devices_give_their_bytes,
    an_input_file_stays_as_it_is,
    an_input_file_is_a_file,
    who_reads_an_input_file_next_goes_on,
    an_input_file_without_a_name,
    an_output_file_is_not_run_by_the_loader,
    an_output_file_that_can_be_read_is_not_run,
    what_others_wrote_into_an_output_file_is_not_read,
    writers_share_an_output_file,
    an_output_file_without_a_name,
    a_pipe_is_not_written_for_others_to_read,
    a_pipe_is_not_read_for_others_to_miss,
    a_pipe_without_namespaces,
    a_fifo_keeps_its_mode,
    what_a_guest_leaves_in_a_pipe_is_for_the_next,
    a_script_in_a_pipe_goes_on,
    writers_share_a_pipe,
];

/// What a guest runs behind, for what must hold in each tier.
#[derive(Clone, Copy, PartialEq)]
enum Wall {
    None,
    Full,
    Bare,
}

/// A program behind a wall.
fn behind(fixture: &Fixture, wall: Wall, words: &[&str]) -> Call {
    const WITHOUT: &str = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
    let program = fixture.program().to_str().unwrap();
    match wall {
        Wall::None => fixture.call(Path::new(words[0]), &words[1..]),
        Wall::Full => fixture.palisade(["run", "--"].iter().chain(words)),
        Wall::Bare => {
            let unshare = ["-Ur", "/bin/sh", "-c", WITHOUT, "sh", program, "run"];
            let accepted = ["--allow-degraded", "namespaces", "--"];
            let words = unshare.iter().chain(&accepted).chain(words);
            fixture.call(Path::new("/usr/bin/unshare"), words)
        }
    }
}

fn spawn_on(mut call: Call, input: impl Into<Stdio>, output: impl Into<Stdio>) -> Child {
    let command = call.command.stdin(input).stdout(output);
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// A shell script of the user's own in which `PALISADE` runs a guest.
fn outer_script(fixture: &Fixture, script: &str) -> Call {
    let run = format!("{} run --", fixture.program().display());
    let script = script.replace("PALISADE", &run);
    fixture.call(Path::new("/bin/sh"), ["-c", &script])
}

/// The same with no wall.
fn outer_script_bare(fixture: &Fixture, script: &str) -> Call {
    fixture.call(
        Path::new("/bin/sh"),
        ["-c", &script.replace("PALISADE", "")],
    )
}

fn connection() -> (TcpStream, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server.into())
}

/// Whether somebody connected to the witness.
fn was_reached(witness: &TcpListener) -> bool {
    witness.set_nonblocking(true).unwrap();
    witness.accept().is_ok()
}

/// Disconnects its input and sends it to a port, by Fast Open and by connect(2).
const ELSEWHERE: &str = r#"
    my $to = pack("S n C4 x8", 2, $ARGV[0], 127, 0, 0, 1);
    open(my $socket, "+<&=", 0);
    connect($socket, pack("S x14", 0));
    send($socket, "x", 0x20000000, $to);
    connect($socket, $to);
"#;

fn sends_elsewhere(fixture: &Fixture, wall: Wall) -> bool {
    let witness = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = witness.local_addr().unwrap().port().to_string();
    let (_client, server) = connection();
    let call = behind(fixture, wall, &["/usr/bin/perl", "-e", ELSEWHERE, &port]);
    wait(&mut spawn_on(call, server, Stdio::null()));
    was_reached(&witness)
}

fn a_socket_is_not_sent_elsewhere(fixture: &Fixture) {
    assert!(sends_elsewhere(fixture, Wall::None), "no wall, no attack");
    assert!(!sends_elsewhere(fixture, Wall::Full));
}

fn a_socket_is_not_sent_elsewhere_without_namespaces(fixture: &Fixture) {
    assert!(!sends_elsewhere(fixture, Wall::Bare));
}

/// As inetd(8) starts it: the connection is all three streams.
fn serve(fixture: &Fixture, words: &[&str], socket: OwnedFd) -> Child {
    let mut call = fixture.palisade(["run", "--"].iter().chain(words));
    let copy = || Stdio::from(socket.try_clone().unwrap());
    let command = call.command.stdin(copy()).stdout(copy()).stderr(copy());
    command.spawn().unwrap()
}

fn a_socket_serves(fixture: &Fixture) {
    let sent: Vec<u8> = (0..3_000_000u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let (mut client, server) = connection();
    let mut child = serve(fixture, &["/bin/cat"], server);
    let (mut to, content) = (client.try_clone().unwrap(), sent.clone());
    let writer = thread::spawn(move || {
        to.write_all(&content).unwrap();
        to.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    writer.join().unwrap();
    assert!(wait(&mut child).success());
    assert!(received == sent, "{} bytes", received.len());
}

/// A server that has said its last word hears its client out.
fn a_socket_says_when_it_ends(fixture: &Fixture) {
    const SERVER: &str = r#"
        open(my $socket, "+<&=", 0); syswrite($socket, "bye"); shutdown($socket, 1);
        sysread($socket, my $answer, 10); exit($answer eq "go" ? 7 : 1);
    "#;
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (tcp, tcp_theirs) = connection();
    let ends: [(Box<dyn ReadWrite>, OwnedFd); 2] =
        [(Box::new(ours), theirs.into()), (Box::new(tcp), tcp_theirs)];
    for (mut client, server) in ends {
        let mut child = serve(fixture, &["/usr/bin/perl", "-e", SERVER], server);
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert_eq!(said, "bye");
        client.write_all(b"go").unwrap();
        assert_eq!(wait(&mut child).code(), Some(7));
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// A shell reads its commands from a socket, as those do that Node.js starts.
fn what_a_guest_leaves_in_a_socket_is_for_the_next(fixture: &Fixture) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let run = format!("{} run --", fixture.program().display());
    let script =
        format!("echo first; {run} /bin/true\necho second\n{run} head -c 3\nabc\necho third\n");
    ours.write_all(script.as_bytes()).unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    // dash(1) reads ahead itself.
    let shell = fixture.call(Path::new("/bin/bash"), [""; 0]);
    let child = spawn_on(shell, OwnedFd::from(theirs), Stdio::piped());
    // head(1) reads more than it wants, from a socket for good.
    finish(child, b"").begins("first\nsecond\nabc");
}

fn a_socket_is_not_ended_with_the_guest(fixture: &Fixture) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let shell = outer_script(fixture, "PALISADE /bin/echo one; echo two");
    let mut child = spawn_on(shell, Stdio::null(), OwnedFd::from(theirs));
    let mut said = String::new();
    ours.read_to_string(&mut said).unwrap();
    wait(&mut child);
    assert_eq!(said, "one\ntwo\n");
}

fn a_reader_that_leaves_a_socket(fixture: &Fixture) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let yes = fixture.palisade(["run", "--", "/usr/bin/yes"]);
    let child = spawn_on(yes, Stdio::null(), OwnedFd::from(theirs));
    ours.read_exact(&mut [0; 2]).unwrap();
    drop(ours);
    // A writer who waits for room gets EPIPE without the signal (unix_stream_sendmsg).
    let code = finish(child, b"").code();
    assert!(code == 141 || code == 1, "{code}");
}

/// The guest does not start, on either side of it, and the message names stream and kind.
fn is_refused(fixture: &Fixture, what: &str, fd: &OwnedFd) {
    let given = || Stdio::from(fd.try_clone().unwrap());
    let call = || fixture.palisade(["run", "--", "/bin/cat"]);
    let input = finish(spawn_on(call(), given(), Stdio::null()), b"");
    input.refuses(&["policy: stdin is ", what]);
    let output = finish(spawn_on(call(), Stdio::null(), given()), b"");
    output.refuses(&["policy: stdout is ", what]);
}

fn sockets_of_other_kinds_are_refused(fixture: &Fixture) {
    let flags = SocketFlags::CLOEXEC;
    let socket = |family, kind| rustix::net::socket_with(family, kind, flags, None).unwrap();
    let pair = |kind| {
        socketpair(AddressFamily::UNIX, kind, flags, None)
            .unwrap()
            .0
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    is_refused(fixture, "listens", &listener.into());
    for family in [AddressFamily::INET, AddressFamily::UNIX] {
        is_refused(
            fixture,
            "without a peer",
            &socket(family, SocketType::STREAM),
        );
        is_refused(fixture, "messages", &socket(family, SocketType::DGRAM));
    }
    for kind in [SocketType::DGRAM, SocketType::SEQPACKET] {
        is_refused(fixture, "messages", &pair(kind));
    }
    let netlink = socket(AddressFamily::NETLINK, SocketType::RAW);
    is_refused(fixture, "messages", &netlink);
    if fixture.user == User::Root {
        let packet = socket(AddressFamily::PACKET, SocketType::RAW);
        is_refused(fixture, "messages", &packet);
    }
}

fn objects_that_are_no_streams_are_refused(fixture: &Fixture) {
    let open = |path: &str, flags| rustix::fs::open(path, flags, Mode::empty()).unwrap();
    is_refused(fixture, "a folder", &open("/tmp", OFlags::RDONLY));
    is_refused(fixture, "names a place", &open("/etc/passwd", OFlags::PATH));
    for object in [
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
        rustix::event::epoll::create(CreateFlags::CLOEXEC).unwrap(),
        rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap(),
        rustix::process::pidfd_open(getpid(), PidfdFlags::empty()).unwrap(),
        open("/proc/self/ns/net", OFlags::RDONLY),
    ] {
        is_refused(fixture, "an object of the kernel's", &object);
    }
}

fn devices_give_their_bytes(fixture: &Fixture) {
    let script = "head -c 3 | od -An -tx1; readlink /proc/self/fd/0";
    let call = || fixture.script(&[], script);
    let zero = File::open("/dev/zero").unwrap();
    finish(spawn_on(call(), zero, Stdio::piped()), b"").prints(" 00 00 00\n/dev/zero\n");
    if fixture.user == User::Root
        && let Ok(log) = File::open("/dev/kmsg")
    {
        let outcome = finish(spawn_on(call(), log, Stdio::piped()), b"");
        assert!(outcome.text().contains("\npipe:["), "{outcome:?}");
    }
}

/// Changes what can be changed of an input that one owns, by descriptor and by the path in `/proc`.
const CHANGE: &str = r#"
    chmod(0777, *STDIN); utime(1, 1, *STDIN);
    syscall(190, 0, "user.mark", "1", 1, 0);
    chmod(0700, "/proc/self/fd/0"); utime(2, 2, "/proc/self/fd/0");
    syscall(188, "/proc/self/fd/0", "user.way", "1", 1, 0);
    my $flags = pack("l", 0x40); ioctl(STDIN, 0x40086602, $flags);
"#;

fn changes_input(fixture: &Fixture, wall: Wall) -> bool {
    let path = fixture.path("in");
    let _ = fs::remove_file(&path);
    fixture.write("in", "input\n");
    // Not the owner may change them either.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let state = || {
        let stat = rustix::fs::stat(&path).unwrap();
        let mut names = [0u8; 256];
        let names_bytes = rustix::fs::listxattr(&path, &mut names[..]).unwrap_or(0);
        let flags = rustix::fs::ioctl_getflags(File::open(&path).unwrap()).ok();
        (stat.st_mode, stat.st_mtime, names_bytes, flags)
    };
    let before = state();
    let call = behind(fixture, wall, &["/usr/bin/perl", "-e", CHANGE]);
    wait(&mut spawn_on(
        call,
        File::open(&path).unwrap(),
        Stdio::null(),
    ));
    state() != before
}

fn an_input_file_stays_as_it_is(fixture: &Fixture) {
    assert!(changes_input(fixture, Wall::None), "no wall, no attack");
    assert!(!changes_input(fixture, Wall::Full));
}

/// It can be opened again, sought in, and mapped.
fn an_input_file_is_a_file(fixture: &Fixture) {
    fixture.write("in", "one\ntwo\n");
    outer_script(
        fixture,
        "PALISADE cat /dev/stdin < in
         PALISADE sort -r < in
         PALISADE wc -c < in
         PALISADE perl -e 'seek(STDIN, 4, 0); print <STDIN>' < in
         (read line; PALISADE cat) < in",
    )
    .run()
    .prints("one\ntwo\ntwo\none\n8\ntwo\ntwo\n");
}

fn who_reads_an_input_file_next_goes_on(fixture: &Fixture) {
    fixture.write("in", "one\ntwo\nthree\n");
    outer_script(
        fixture,
        "(PALISADE head -n 1; cat) < in
         while read line; do PALISADE echo \"$line\"; done < in",
    )
    .run()
    .prints("one\ntwo\nthree\none\ntwo\nthree\n");
}

/// As here-documents, and what Python calls a TemporaryFile, are.
fn an_input_file_without_a_name(fixture: &Fixture) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"one\ntwo\n").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let head = fixture.script(&[], "read line; echo \"$line\"");
    let child = spawn_on(head, file.try_clone().unwrap(), Stdio::piped());
    finish(child, b"").prints("one\n");
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "two\n");
    let memory = rustix::fs::memfd_create("input", MemfdFlags::CLOEXEC).unwrap();
    let mut memory = File::from(memory);
    memory.write_all(b"input\n").unwrap();
    memory.seek(SeekFrom::Start(0)).unwrap();
    let script = "cat; echo x > /proc/self/fd/0";
    let call = fixture.script(&[], script);
    finish(
        spawn_on(call, memory.try_clone().unwrap(), Stdio::piped()),
        b"",
    )
    .prints("input\n");
    assert_eq!(memory.metadata().unwrap().len(), 6);
}

/// Writes a program to its output and has the dynamic loader execute that. Where the output is a pipe, the
/// loader waits for what nobody writes.
const LOAD: &str = "cat /usr/bin/id; exec timeout 3 /lib64/ld-linux-x86-64.so.2 /proc/self/fd/1";

fn runs_output(fixture: &Fixture, wall: Wall, both_ways: bool) -> bool {
    let _ = fs::remove_file(fixture.path("out"));
    fixture.write("out", "");
    let mut options = File::options();
    let out = options
        .read(both_ways)
        .append(true)
        .open(fixture.path("out"));
    let call = behind(fixture, wall, &["/bin/sh", "-c", LOAD]);
    wait(&mut spawn_on(call, Stdio::null(), out.unwrap()));
    let written = fs::read(fixture.path("out")).unwrap();
    assert!(!written.is_empty(), "it was not written");
    written
        .windows(5)
        .rev()
        .take(200)
        .any(|word| word == b" gid=")
}

fn an_output_file_is_not_run_by_the_loader(fixture: &Fixture) {
    assert!(
        runs_output(fixture, Wall::None, false),
        "no wall, no attack"
    );
    assert!(!runs_output(fixture, Wall::Full, false));
}

fn an_output_file_that_can_be_read_is_not_run(fixture: &Fixture) {
    assert!(runs_output(fixture, Wall::None, true), "no wall, no attack");
    assert!(!runs_output(fixture, Wall::Full, true));
}

/// Also of others who write at the same time: the file may have been empty at the start.
fn what_others_wrote_into_an_output_file_is_not_read(fixture: &Fixture) {
    let script = "true > out; chmod 666 out
         (PALISADE sh -c 'echo begun; read go; cat < /proc/self/fd/1 >&2' <gate &
          exec 3>gate; until [ -s out ]; do kill -0 $! || exit; done; echo of another; echo >&3; exec 3>&-; wait) >> out";
    fixture.make_fifo("gate");
    let bare = outer_script_bare(fixture, script).run();
    assert!(bare.stderr.contains("of another"), "no wall, no attack");
    let walled = outer_script(fixture, script).run();
    assert!(!walled.stderr.contains("of another"), "{walled:?}");
    assert_eq!(fixture.read("out"), "begun\nof another\n");
}

fn writers_share_an_output_file(fixture: &Fixture) {
    let script = "{ echo a; PALISADE echo b; PALISADE sh -c 'echo c'; echo d; } > out; cat out";
    fixture.write("out", "");
    fs::set_permissions(fixture.path("out"), fs::Permissions::from_mode(0o666)).unwrap();
    outer_script(fixture, script).run().prints("a\nb\nc\nd\n");
}

fn an_output_file_without_a_name(fixture: &Fixture) {
    let mut file = tempfile::tempfile().unwrap();
    let mut call = fixture.script(&[], "echo out; echo err >&2; echo out");
    let copy = || file.try_clone().unwrap();
    let child = call
        .command
        .stdin(Stdio::null())
        .stdout(copy())
        .stderr(copy());
    wait(&mut child.spawn().unwrap());
    let mut written = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut written).unwrap();
    assert_eq!(written, "out\nerr\nout\n");
}

/// Writes into its input. The next to read it takes that for what was sent.
const INJECT: &str = r#"perl -e 'use Fcntl; sysopen(F, "/proc/self/fd/0", O_WRONLY | O_NONBLOCK) and syswrite(F, "injected")'"#;

fn inject() -> String {
    format!("printf sent | (PALISADE {INJECT}; cat)")
}

fn a_pipe_is_not_written_for_others_to_read(fixture: &Fixture) {
    outer_script_bare(fixture, &inject())
        .run()
        .prints("sentinjected");
    let outcome = outer_script(fixture, &inject()).run();
    assert_eq!(outcome.text(), "sent", "{outcome:?}");
}

/// Reads what was written for another, who waits for that.
const STEAL: &str = "(printf sent; PALISADE dd if=/proc/self/fd/1 iflag=nonblock count=1 of=/dev/null 2>/dev/null; \
     echo > gate) | (read go < gate; cat)";

fn a_pipe_is_not_read_for_others_to_miss(fixture: &Fixture) {
    fixture.make_fifo("gate");
    outer_script_bare(fixture, STEAL).run().prints("");
    let outcome = outer_script(fixture, STEAL).run();
    assert_eq!(outcome.text(), "sent", "{outcome:?}");
}

fn a_pipe_without_namespaces(fixture: &Fixture) {
    let inner = "echo 0 > /proc/sys/user/max_user_namespaces; ".to_owned() + &inject();
    let program = fixture.program().display();
    let run = format!("{program} run --allow-degraded namespaces --");
    let script = inner.replace("PALISADE", &run);
    let words = ["-Ur", "/bin/sh", "-c", &script];
    let outcome = fixture.call(Path::new("/usr/bin/unshare"), words).run();
    assert_eq!(outcome.text(), "sent", "{outcome:?}");
}

fn a_fifo_keeps_its_mode(fixture: &Fixture) {
    fixture.make_fifo("fifo");
    let script = "(echo sent > fifo) & PALISADE perl -e 'chmod(0777, *STDIN); print <STDIN>' < fifo; stat -c %a fifo";
    outer_script_bare(fixture, script)
        .run()
        .prints("sent\n777\n");
    let _ = fs::remove_file(fixture.path("fifo"));
    fixture.make_fifo("fifo");
    outer_script(fixture, script).run().prints("sent\n600\n");
}

fn what_a_guest_leaves_in_a_pipe_is_for_the_next(fixture: &Fixture) {
    outer_script(
        fixture,
        "seq 3 | (PALISADE true; cat)
         printf abcdef | (PALISADE head -c 3; echo; cat; echo)
         seq 3 | while read line; do PALISADE echo \"$line\"; done
         head -c 3M /dev/zero | (PALISADE wc -c; cat)",
    )
    .run()
    .prints("1\n2\n3\nabc\ndef\n1\n2\n3\n3145728\n");
}

/// A shell that reads its commands from a pipe, as from curl(1).
fn a_script_in_a_pipe_goes_on(fixture: &Fixture) {
    let script = "printf '%s\\n' 'echo 1' 'PALISADE true' 'echo 2' | bash";
    outer_script(fixture, script).run().prints("1\n2\n");
}

fn writers_share_a_pipe(fixture: &Fixture) {
    outer_script(
        fixture,
        "(echo a; PALISADE echo b; echo c) | cat
         (PALISADE head -c 30M /dev/zero; echo) | wc -c
         (PALISADE sh -c 'yes 2>/dev/null'; true) | head -n 1",
    )
    .run()
    .prints("a\nb\nc\n31457281\ny\n");
}

impl Outcome {
    fn begins(&self, text: &str) {
        assert!(self.text().starts_with(text), "{self:?}");
    }
}
