//! Servers behind the wall, asked from outside and from other domains.

use super::{Service, bare, guest, newest_folder, place, start_web_server};
use crate::cli::fixture::{Fixture, User, cases};
use palisade_suite::ports::free_ports;
use rustix::process::Signal;
use std::net::UdpSocket;

cases![
    python_serves_files_to_the_host,
    nginx_serves_files_and_is_reloaded,
    redis_serves_another_domain,
    memcached_serves_streams_and_datagrams,
    postgresql_serves_another_domain,
    openssh_serves_another_domain,
    openssh_uses_an_agent_of_the_host,
    openssh_forwards_a_connection,
    git_is_cloned_from_another_domain,
];

fn python_serves_files_to_the_host(fixture: &Fixture) {
    fixture.write("pages/file", "content\n");
    let (pages, port) = (fixture.text("pages"), free_ports(1));
    // Told no address, it asks for every interface in both families, and gets what is granted.
    let server = guest(
        fixture,
        &format!(
            "--read {pages} --cwd {pages} --listen tcp://127.0.0.1:{port} --env PYTHONUNBUFFERED=1"
        ),
        &format!("/usr/bin/python3 -m http.server {port}"),
    );
    let server = Service::start(server, "Serving HTTP");
    for _ in 0..2 {
        bare(
            fixture,
            &format!("/usr/bin/curl -sS http://127.0.0.1:{port}/file"),
        )
        .run()
        .prints("content\n");
    }
    server.signal(Signal::INT);
}

const NGINX: &str = "
daemon off;
worker_processes 2;
pid /tmp/nginx.pid;
error_log stderr notice;
events {}
http {
    access_log off;
    client_body_temp_path /tmp/body;
    proxy_temp_path /tmp/proxy;
    fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi;
    scgi_temp_path /tmp/scgi;
    server { listen 127.0.0.1:PORT; listen [::1]:PORT; location / { ANSWER } }
}
";

fn nginx_serves_files_and_is_reloaded(fixture: &Fixture) {
    fixture.write("pages/index.html", "first\n");
    let (folder, port) = (fixture.text(""), free_ports(1));
    let configure = |answer: &str| {
        let text = NGINX.replace("PORT", &port.to_string());
        place(fixture, "nginx.conf", &text.replace("ANSWER", answer))
    };
    let file = configure(&format!("root {folder}/pages;"));
    let server = guest(
        fixture,
        &format!("--read {folder} --listen tcp://127.0.0.1:{port} --listen tcp://[::1]:{port}"),
        &format!("/usr/sbin/nginx -p {folder} -c {file} -e stderr"),
    );
    let mut server = Service::start(server, "start worker process ");
    let asks =
        |host: &str| bare(fixture, &format!("/usr/bin/curl -sS http://{host}:{port}/")).run();
    asks("127.0.0.1").prints("first\n");
    asks("[::1]").prints("first\n");
    // Many at once, by several connections each.
    let many = format!("/usr/bin/curl -sS -Z --parallel-max 16 http://127.0.0.1:{port}/?[1-200]");
    bare(fixture, &many).run().shows(&"first\n".repeat(200));
    configure("return 200 second\\n;");
    server.signal(Signal::HUP);
    // Both of the workers that had the old configuration.
    for _ in 0..2 {
        server.says("exited with code 0");
    }
    asks("127.0.0.1").prints("second\n");
    let said = server.ends_by(Signal::QUIT);
    assert!(!said.contains("[emerg]"), "{said}");
}

fn redis_serves_another_domain(fixture: &Fixture) {
    let port = free_ports(1);
    let server = guest(
        fixture,
        &format!("--listen tcp://127.0.0.1:{port}"),
        &format!("/usr/bin/redis-server --bind 127.0.0.1 --port {port} --dir /tmp"),
    );
    let server = Service::start(server, "Ready to accept connections");
    let outside = |command: &str| bare(fixture, &format!("/usr/bin/redis-cli -p {port} {command}"));
    outside("set key value").run().prints("OK\n");
    let grant = format!("--connect tcp://127.0.0.1:{port}");
    guest(fixture, &grant, &format!("redis-cli -p {port} get key"))
        .run()
        .prints("value\n");
    let load = format!("redis-benchmark -p {port} -c 20 -n 1000 -t set,get -P 4 --csv");
    let outcome = guest(fixture, &grant, &load).run();
    outcome.is(0);
    assert!(outcome.text().contains("\"GET\""), "{outcome:?}");
    server.ends_by(Signal::TERM);
}

fn memcached_serves_streams_and_datagrams(fixture: &Fixture) {
    const SCRIPT: &str = "
import socket, sys
server = ('127.0.0.1', int(sys.argv[1]))
stream = socket.create_connection(server)
stream.sendall(b'set key 0 0 5\\r\\nvalue\\r\\n')
print(stream.recv(100))
frame = b'\\0\\7\\0\\0\\0\\1\\0\\0'
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.sendto(frame + b'get key\\r\\n', server)
answer = datagrams.recv(1000)
print(answer[:8] == frame, answer[8:])
";
    let port = free_ports(1);
    let server = guest(
        fixture,
        &format!("--listen tcp://127.0.0.1:{port} --listen udp://127.0.0.1:{port}"),
        &format!("/usr/bin/memcached -l 127.0.0.1 -p {port} -U {port} -vv"),
    );
    let server = Service::start(server, "server listening (udp)");
    let program = place(fixture, "ask.py", SCRIPT);
    let flags = format!(
        "--read {program} --connect tcp://127.0.0.1:{port} --connect udp://127.0.0.1:{port}"
    );
    guest(
        fixture,
        &flags,
        &format!("/usr/bin/python3 {program} {port}"),
    )
    .run()
    .prints("b'STORED\\r\\n'\nTrue b'VALUE key 0 5\\r\\nvalue\\r\\nEND\\r\\n'\n");
    // The host's own datagrams are answered too.
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut answer = [0; 100];
    outside
        .send_to(b"\0\x01\0\0\0\x01\0\0get key\r\n", ("127.0.0.1", port))
        .unwrap();
    let length = outside.recv(&mut answer).unwrap();
    assert!(answer[..length].ends_with(b"value\r\nEND\r\n"));
    server.ends_by(Signal::TERM);
}

fn postgresql_serves_another_domain(fixture: &Fixture) {
    let programs = newest_folder("/usr/lib/postgresql").join("bin");
    let programs = programs.display();
    fixture.make_folder("server");
    let (folder, port) = (fixture.text("server"), free_ports(1));
    let own = format!("--write {folder}:/server --ipc /server");
    guest(
        fixture,
        &own,
        &format!("{programs}/initdb -D /server/data -U owner -A trust --no-sync --no-locale"),
    )
    .run()
    .is(0);
    let server = guest(
        fixture,
        &format!("{own} --listen tcp://127.0.0.1:{port}"),
        &format!(
            "{programs}/postgres -D /server/data -k /server -p {port} \
             -c listen_addresses=127.0.0.1 -c fsync=off"
        ),
    );
    let server = Service::start(server, "ready to accept connections");
    let by_address = format!("--connect tcp://127.0.0.1:{port}");
    let at = format!("-h 127.0.0.1 -p {port} -U owner postgres");
    guest(
        fixture,
        &by_address,
        &format!("{programs}/psql -At -c select(6*7) {at}"),
    )
    .run()
    .prints("42\n");
    guest(
        fixture,
        &by_address,
        &format!("{programs}/pgbench -i -q {at}"),
    )
    .run()
    .is(0);
    let load = format!("{programs}/pgbench -c 4 -j 2 -t 25 {at}");
    let outcome = guest(fixture, &by_address, &load).run();
    outcome.is(0);
    assert!(outcome.text().contains("100/100"), "{outcome:?}");
    let socket = format!(".s.PGSQL.{port}");
    guest(
        fixture,
        &format!("--connect unix:{folder}/{socket}:/tmp/{socket}"),
        &format!("{programs}/psql -At -c select(6*9) -h /tmp -p {port} -U owner postgres"),
    )
    .run()
    .prints("54\n");
    server.ends_by(Signal::INT);
}

const SSHD: &str = "
Port PORT
ListenAddress 127.0.0.1
HostKey /ssh/host
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
AuthorizedKeysFile /ssh/client.pub
Subsystem sftp internal-sftp
";

/// An sshd for the user in a domain, with its keys and the client's in the folder `ssh`.
fn start_sshd(fixture: &Fixture, port: u16, grants: &str) -> Service {
    fixture.write("ssh/sshd_config", &SSHD.replace("PORT", &port.to_string()));
    for name in ["host", "client"] {
        let file = fixture.text(&format!("ssh/{name}"));
        fixture
            .call(
                "/usr/bin/ssh-keygen".as_ref(),
                ["-q", "-t", "ed25519", "-N", "", "-f", &file],
            )
            .run()
            .is(0);
    }
    let folder = fixture.text("ssh");
    let server = guest(
        fixture,
        &format!("--read {folder}:/ssh --listen tcp://127.0.0.1:{port} {grants}"),
        "/usr/sbin/sshd -D -e -f /ssh/sshd_config",
    );
    Service::start(server, "Server listening on")
}

/// The name of the user in every domain.
const USER: &str = "guest";

fn options(port: u16) -> String {
    format!(
        "-F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes \
         -o LogLevel=ERROR -o Port={port}"
    )
}

fn openssh_serves_another_domain(fixture: &Fixture) {
    let port = free_ports(1);
    let server = start_sshd(fixture, port, "");
    fixture.write("files/sent", "content\n");
    let (keys, files) = (fixture.text("ssh"), fixture.text("files"));
    let flags =
        format!("--read {keys}:/ssh --write {files}:/files --connect tcp://127.0.0.1:{port}");
    let options = format!("{} -i /ssh/client", options(port));
    let there = format!("{USER}@127.0.0.1");
    let client = |command: &str| guest(fixture, &flags, command).run();
    client(&format!("ssh {options} {there} echo $((6*7)); id -un")).shows(&format!("42\n{USER}\n"));
    // Both ways; what is sent lies in the other domain's own /tmp until it ends.
    client(&format!("scp -q {options} /files/sent {there}:/tmp/there")).is(0);
    client(&format!("scp -q {options} {there}:/tmp/there /files/back")).is(0);
    assert_eq!(fixture.read("files/back"), "content\n");
    let batch = "get /tmp/there /files/got\nrm /tmp/there\n";
    fixture.write("files/batch", batch);
    client(&format!("sftp -q -b /files/batch {options} {there}")).is(0);
    assert_eq!(fixture.read("files/got"), "content\n");
    let big = format!("ssh {options} {there} head -c 3000000 /dev/zero");
    assert_eq!(client(&big).stdout.len(), 3_000_000);
    server.ends_by(Signal::TERM);
}

fn openssh_uses_an_agent_of_the_host(fixture: &Fixture) {
    const NO_CONNECTION: i32 = 255;
    let port = free_ports(1);
    let server = start_sshd(fixture, port, "");
    let socket = fixture.text("agent");
    let agent = bare(fixture, &format!("/usr/bin/ssh-agent -D -a {socket}"));
    let _agent = Service::start(agent, "SSH_AUTH_SOCK=");
    let key = fixture.text("ssh/client");
    bare(fixture, &format!("/usr/bin/ssh-add -q {key}"))
        .env("SSH_AUTH_SOCK", &socket)
        .run()
        .is(0);
    let command = format!("ssh {} {USER}@127.0.0.1 echo came", options(port));
    let flags = format!("--env SSH_AUTH_SOCK=/tmp/agent --connect tcp://127.0.0.1:{port}");
    guest(fixture, &flags, &command).run().is(NO_CONNECTION);
    let flags = format!("{flags} --connect unix:{socket}:/tmp/agent");
    let outcome = guest(fixture, &flags, &command).run();
    match fixture.user {
        // The agent serves no other user, and root's guests are other users on the host.
        User::Root => outcome.is(NO_CONNECTION),
        User::Ordinary => outcome.shows("came\n"),
    };
    server.ends_by(Signal::TERM);
}

fn openssh_forwards_a_connection(fixture: &Fixture) {
    let (first, behind) = (free_ports(2), start_web_server());
    let near = first + 1;
    // What is behind is granted to the server, and the near end to the client.
    let server = start_sshd(
        fixture,
        first,
        &format!("--connect tcp://127.0.0.1:{behind}"),
    );
    let keys = fixture.text("ssh");
    let client = guest(
        fixture,
        &format!(
            "--read {keys}:/ssh --connect tcp://127.0.0.1:{first} --listen tcp://127.0.0.1:{near}"
        ),
        &format!(
            "ssh {} -v -o LogLevel=VERBOSE -N -i /ssh/client -L 127.0.0.1:{near}:127.0.0.1:{behind} {USER}@127.0.0.1",
            options(first)
        ),
    );
    let client = Service::start(client, "Entering interactive session");
    bare(
        fixture,
        &format!("/usr/bin/curl -sS http://127.0.0.1:{near}/page"),
    )
    .run()
    .prints("/page");
    drop(client);
    server.ends_by(Signal::TERM);
}

fn git_is_cloned_from_another_domain(fixture: &Fixture) {
    let port = free_ports(1);
    let folder = fixture.text("");
    let make = "git init -q served && cd served && git config user.name n && git config user.email e && \
                echo content > file && git add file && git commit -qm first";
    fixture
        .script(&["--write", &folder, "--cwd", &folder], make)
        .run()
        .is(0);
    let server = guest(
        fixture,
        &format!("--read {folder}/served:/pub/served --listen tcp://127.0.0.1:{port}"),
        &format!(
            "git daemon --verbose --export-all --listen=127.0.0.1 --port={port} --base-path=/pub /pub"
        ),
    );
    let server = Service::start(server, "Ready to rumble");
    let script =
        format!("git clone -q git://127.0.0.1:{port}/served /tmp/copy && cat /tmp/copy/file");
    let grant = format!("tcp://127.0.0.1:{port}");
    fixture
        .script(&["--connect", &grant], &script)
        .run()
        .shows("content\n");
    drop(server);
}
