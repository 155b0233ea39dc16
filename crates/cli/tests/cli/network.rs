//! Programs on the network: the host's loopback at ports that nobody else uses, or a network of the
//! case's own.

use super::fixture::{Call, Fixture, Outcome, ends_within, signal};
use rustix::process::Signal;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

pub(crate) mod calls;
pub(crate) mod grants;
pub(crate) mod programs;
pub(crate) mod servers;

/// Longer than any program here needs for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a case's program is missing on this machine: cases are named after theirs.
pub(crate) fn why_not(case: &str) -> Option<&'static str> {
    /// First word of a case's name, a program of the package, and why the case is left out.
    const NEEDED: [(&str, &str, &str); 9] = [
        (
            "imagemagick",
            "/etc/ImageMagick-6/policy.xml",
            "needs the package imagemagick",
        ),
        (
            "maven",
            "/etc/maven/settings.xml",
            "needs the package maven",
        ),
        ("traced", "/usr/bin/strace", "needs the package strace"),
        ("curl", "/usr/bin/curl", "needs the package curl"),
        ("nginx", "/usr/sbin/nginx", "needs the package nginx-light"),
        (
            "redis",
            "/usr/bin/redis-server",
            "needs the package redis-server",
        ),
        (
            "memcached",
            "/usr/bin/memcached",
            "needs the package memcached",
        ),
        (
            "postgresql",
            "/usr/lib/postgresql",
            "needs the package postgresql",
        ),
        (
            "openssh",
            "/usr/sbin/sshd",
            "needs the package openssh-server",
        ),
    ];
    let word = case.split('_').next().unwrap_or_default();
    let needed = NEEDED.iter().find(|(first, ..)| *first == word)?;
    let (_, program, reason) = needed;
    (!Path::new(program).exists()).then_some(reason)
}

/// `palisade run` with flags and a command, each in one piece, with a space between words.
pub(crate) fn guest(fixture: &Fixture, flags: &str, command: &str) -> Call {
    let words = ["run"].into_iter().chain(flags.split_whitespace());
    let words = words.chain(["--"]).chain(command.split_whitespace());
    fixture.palisade(words)
}

/// A program with no wall, as the user.
pub(crate) fn bare(fixture: &Fixture, command: &str) -> Call {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a command has a first word");
    fixture.call(Path::new(program), words)
}

/// The same call in a network of its own with nothing but loopback in it, where this shell script has
/// been carried out before.
pub(crate) fn in_own_network(fixture: &Fixture, prepare: &str, call: &Call) -> Call {
    let new = match fixture.user {
        super::fixture::User::Root => "--net --mount",
        super::fixture::User::Ordinary => "--user --map-current-user --keep-caps --net --mount",
    };
    let drop = "exec setpriv --ambient-caps=-all --inh-caps=-all \"$@\"";
    let script = format!("set -e; ip link set lo up; {prepare}\n{drop}");
    let words = new.split(' ').chain(["/bin/sh", "-c", &script, "sh"]);
    let mut within = fixture.call(Path::new("/usr/bin/unshare"), words);
    let command = &mut within.command;
    command.arg(call.command.get_program());
    command.args(call.command.get_args());
    // `ip` lies in /usr/sbin.
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    within
}

/// A program that goes on until it is told to end, and what it has said so far.
pub(crate) struct Service {
    child: Child,
    lines: Receiver<String>,
    said: String,
}

impl Service {
    /// Starts it and waits until it says that it is ready.
    pub(crate) fn start(mut call: Call, ready: &str) -> Self {
        let mut child = call.spawn();
        let (sender, lines) = mpsc::channel();
        let stderr = child.stderr.take().unwrap();
        pass_lines_on(child.stdout.take().unwrap(), sender.clone());
        pass_lines_on(stderr, sender);
        let mut service = Self {
            child,
            lines,
            said: String::new(),
        };
        service.says(ready);
        service
    }

    /// Waits for a line with this in it.
    #[track_caller]
    pub(crate) fn says(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no {text:?} in:\n{}", self.said);
            };
            self.said.push_str(&line);
            if line.contains(text) {
                return;
            }
        }
    }

    /// All that was waited for so far.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    pub(crate) fn signal(&self, number: Signal) {
        signal(&self.child, number);
    }

    /// Tells it to end. Gives all that it has said.
    #[track_caller]
    pub(crate) fn ends_by(self, number: Signal) -> String {
        self.signal(number);
        self.ends()
    }

    /// Waits for its end. Gives all that it has said.
    #[track_caller]
    pub(crate) fn ends(mut self) -> String {
        assert!(ends_within(&self.child, PATIENCE), "it goes on");
        let status = self.child.wait().unwrap();
        self.said.extend(self.lines.iter());
        assert!(status.success(), "{status}:\n{}", self.said);
        std::mem::take(&mut self.said)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pass_lines_on(from: impl Read + Send + 'static, to: Sender<String>) {
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from
            .read_until(b'\n', &mut line)
            .is_ok_and(|length| length > 0)
        {
            // Nobody may listen any more; the program must not find its pipe full.
            let _ = to.send(String::from_utf8_lossy(&line).into_owned());
            line.clear();
        }
    });
}

/// A web server outside, whose every page is its path. It goes on until the suite ends.
pub(crate) fn start_web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_requests(stream));
        }
    });
    port
}

fn answer_requests(stream: TcpStream) -> Option<()> {
    let mut requests = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut line = String::new();
        requests
            .read_line(&mut line)
            .ok()
            .filter(|length| *length > 0)?;
        let page = line.split(' ').nth(1)?.to_owned();
        while line != "\r\n" {
            line.clear();
            requests
                .read_line(&mut line)
                .ok()
                .filter(|length| *length > 0)?;
        }
        let length = page.len();
        write!(
            &stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{page}"
        )
        .ok()?;
    }
}

/// A C program, built where the user can execute it.
pub(crate) fn compile(fixture: &Fixture, name: &str, source: &str) -> String {
    fixture.write(&format!("{name}.c"), source);
    let status = Command::new("gcc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"])
        .args(["-static", "-pthread", "-o"])
        .arg(fixture.path(name))
        .arg(fixture.path(&format!("{name}.c")))
        .status()
        .expect("gcc is installed: `make test` sees to it");
    assert!(status.success());
    fixture.text(name)
}

/// A file that the user has.
pub(crate) fn place(fixture: &Fixture, name: &str, content: &str) -> String {
    fixture.write(name, content);
    fixture.text(name)
}

/// The denials of a report in the fixture's folder: the call, its address and the flag.
pub(crate) fn denials(fixture: &Fixture, report: &str) -> Vec<[String; 3]> {
    let report: serde_json::Value = serde_json::from_str(&fixture.read(report)).unwrap();
    let denials = report["denials"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("none").to_owned();
    denials
        .map(|denial| ["call", "address", "grant"].map(|key| text(&denial[key])))
        .collect()
}

impl Outcome {
    /// It ended well and printed this; what it said on stderr does not matter.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> &Self {
        self.is(0);
        assert_eq!(self.text(), text, "{self:?}");
        self
    }
}

/// Where a package keeps its programs of one version.
pub(crate) fn newest_folder(parent: &str) -> PathBuf {
    let entries = fs::read_dir(parent).unwrap().flatten();
    let newest = entries.map(|entry| entry.path()).max();
    newest.expect("a package has a version")
}
