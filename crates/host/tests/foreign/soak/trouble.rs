//! What happens to a server one day, one kind after the other, again and again.

use super::{Seen, http2::flood_with_resets, tls::Issuer};
use crate::fixture::{Fixture, Places};
use crate::raw_http::{Request, exchange};
use palisade_suite::guests::Program;
use palisade_suite::served;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::VecDeque,
    fs,
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

/// What one kind of trouble is followed by the next after.
const BETWEEN_TROUBLES: Duration = Duration::from_millis(100);
/// Versions of the filter and the component, in turn.
pub(super) const VERSIONS: u8 = 2;
/// Clients that do the same at one time.
const MANY: usize = 20;
/// Connections that are held without a word.
const MOST_HELD: usize = 3 * MANY;

/// It begins as a component does.
const NO_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0?";

/// What is counted. Each must have happened.
pub(super) const KINDS: [&str; 16] = [
    "another version of the filter",
    "another version of the component",
    "a broken filter",
    "a broken component",
    "a reload of nothing new",
    "another host.toml",
    "a broken host.toml",
    "another certificate",
    "a killed program",
    "a filter that traps",
    "a component that traps",
    "half of a connection",
    "clients that vanish",
    "heads that do not end",
    "answers that nobody takes",
    "a flood of resets",
];
/// Beside them: a head that is too large is refused.
const LARGE_HEAD_BYTES: usize = 64 << 10;

pub(super) struct Trouble<'a> {
    fixture: &'a Fixture,
    server: &'a Places,
    issuer: &'a Issuer,
    seen: &'a Seen,
    filter: Vec<u8>,
    component: Vec<u8>,
    round: u8,
    held: VecDeque<UnixStream>,
}

impl<'a> Trouble<'a> {
    pub(super) fn new(
        fixture: &'a Fixture,
        server: &'a Places,
        issuer: &'a Issuer,
        seen: &'a Seen,
    ) -> Self {
        let read = |name: &str| fs::read(fixture.folder().join(name)).expect("read a guest");
        Self {
            fixture,
            server,
            issuer,
            seen,
            filter: read("filter.wasm"),
            component: read("component.wasm"),
            round: 0,
            held: VecDeque::new(),
        }
    }

    /// Where it is written down.
    pub(super) fn seen(&self) -> &'a Seen {
        self.seen
    }

    pub(super) fn until_over(&mut self) {
        while !self.seen.is_over() {
            self.all_once();
        }
    }

    pub(super) fn all_once(&mut self) {
        let kinds: [fn(&mut Self); 17] = [
            |it| it.replace("another version of the filter", "filter.wasm"),
            |it| it.replace("another version of the component", "component.wasm"),
            |it| it.break_file("a broken filter", "filter.wasm", b"\0asm and nothing"),
            |it| it.break_file("a broken component", "component.wasm", NO_COMPONENT),
            |it| it.reload("a reload of nothing new", 200),
            Self::change_config,
            |it| it.break_file("a broken host.toml", "host.toml", b"workers = \"many\"\n"),
            Self::renew_certificate,
            Self::kill_program,
            |it| it.be_refused("a filter that traps", Request::new("GET", "/attack"), 500),
            |it| {
                let request = Request::new("POST", "/faulty").body("x");
                it.be_refused("a component that traps", request, 500);
            },
            |it| {
                let large = "x".repeat(LARGE_HEAD_BYTES);
                let request = Request::new("GET", "/up").header("x-large", &large);
                it.be_refused("a head that is too large", request, 431);
            },
            Self::ask_and_shut,
            Self::vanish,
            Self::be_slow,
            Self::take_nothing,
            Self::flood,
        ];
        for kind in kinds {
            kind(self);
            thread::sleep(BETWEEN_TROUBLES);
        }
        self.round = self.round.wrapping_add(1);
    }

    /// The bytes of a guest, and behind them a custom section that makes them another version.
    fn version(&self, name: &str) -> Vec<u8> {
        let guest = if name == "filter.wasm" {
            &self.filter
        } else {
            &self.component
        };
        let number = self.round % VERSIONS;
        // Section 0: a length, a name of five bytes, and one byte.
        [&guest[..], &[0, 7, 5], b"round", &[number]].concat()
    }

    fn replace(&mut self, kind: &'static str, name: &str) {
        self.fixture.put(name, self.version(name));
        self.reload(kind, 200);
    }

    /// A version that is none, and the right one again.
    fn break_file(&mut self, kind: &'static str, name: &str, bytes: &[u8]) {
        self.fixture.put(name, bytes);
        self.reload(kind, 422);
        match name {
            "host.toml" => self.fixture.put(name, self.fixture.config()),
            _ => self.fixture.put(name, self.version(name)),
        }
        self.reload("a reload of nothing new", 200);
    }

    fn reload(&self, kind: &'static str, status: u16) {
        let request = Request::new("POST", "/reload");
        match exchange(&self.server.admin, &request) {
            Ok(answer) if answer.status == status => self.seen.trouble(kind, 1),
            answer => self.seen.fail(format!("{kind}: {answer:?}")),
        }
    }

    /// A route that comes and goes.
    fn change_config(&mut self) {
        let kind = "another host.toml";
        let more = "\n[[route]]\npath = \"/more\"\nservice = \"up\"\n";
        for (more, status) in [(more, 200), ("", 404)] {
            let config = format!("{}{more}", self.fixture.config());
            self.fixture.put("host.toml", config);
            self.reload(kind, 200);
            self.be_refused(kind, Request::new("GET", "/more"), status);
        }
    }

    fn renew_certificate(&mut self) {
        let kind = "another certificate";
        let new = self.issuer.certify(self.fixture);
        self.reload(kind, 200);
        match self.issuer.shown(&self.server.tls) {
            Ok(shown) if shown == new => {}
            shown => self.seen.fail(format!("{kind}: {:?}", shown.err())),
        }
    }

    /// The processes that the program has now, as if the kernel had chosen them. (What is started in their place is
    /// left alone: a request is not sent a third time.)
    fn kill_program(&mut self) {
        let program = served::program(Program::Server);
        let is_program = |pid: &Pid| {
            let command = format!("/proc/{}/cmdline", pid.as_raw_pid());
            let command = fs::read(command).unwrap_or_default();
            command.split(|byte| *byte == 0).next() == Some(program.as_os_str().as_encoded_bytes())
        };
        let processes = super::samples::descendants(self.server.process).into_iter();
        let pids = processes.filter_map(|pid| Pid::from_raw(pid.cast_signed()));
        for pid in pids.filter(is_program) {
            if kill_process(pid, Signal::KILL).is_ok() {
                self.seen.trouble("a killed program", 1);
            }
        }
        // The first request of the next one.
        self.be_refused("a program anew", Request::new("GET", "/program"), 200);
    }

    /// A request with this end, which is not that of the good ones.
    fn be_refused(&self, kind: &'static str, request: Request, status: u16) {
        match exchange(&self.server.socket, &request) {
            Ok(answer) if answer.status == status => self.seen.trouble(kind, 1),
            Ok(answer) => self.seen.fail(format!("{kind}: {}", answer.status)),
            Err(error) => self.seen.fail(format!("{kind}: {error}")),
        }
    }

    fn connect(&self, bytes: &[u8]) -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(&self.server.socket)?;
        stream.write_all(bytes)?;
        Ok(stream)
    }

    /// Half of the connection is shut before the answer.
    fn ask_and_shut(&mut self) {
        let kind = "half of a connection";
        let ask = || -> io::Result<String> {
            let mut stream = self.connect(b"GET /up HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
            stream.shutdown(Shutdown::Write)?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        match ask() {
            Ok(text) if text.starts_with("HTTP/1.1 200") && text.contains("told") => {
                self.seen.trouble(kind, 1);
            }
            answer => self.seen.fail(format!("{kind}: {answer:?}")),
        }
    }

    /// Clients that go away in the middle of an answer.
    fn vanish(&mut self) {
        for _ in 0..MANY {
            let begun = self
                .connect(b"GET /site/page HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .and_then(|mut stream| stream.read(&mut [0; 100]));
            match begun {
                Ok(_) => self.seen.trouble("clients that vanish", 1),
                Err(error) => self.seen.fail(format!("a client that vanishes: {error}")),
            }
        }
    }

    /// Clients that say a little and then nothing: the server has had enough of them before they are let go here.
    fn be_slow(&mut self) {
        self.hold("heads that do not end", b"GET /site/page HT");
    }

    /// Clients that ask for more than a socket holds, and take none of it.
    fn take_nothing(&mut self) {
        let ask = "GET /site/page HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(20);
        self.hold("answers that nobody takes", ask.as_bytes());
    }

    fn hold(&mut self, kind: &'static str, bytes: &[u8]) {
        for _ in 0..MANY {
            match self.connect(bytes) {
                Ok(stream) => {
                    self.held.push_back(stream);
                    self.seen.trouble(kind, 1);
                }
                Err(error) => self.seen.fail(format!("{kind}: {error}")),
            }
        }
        let too_many = self.held.len().saturating_sub(MOST_HELD);
        self.held.drain(..too_many);
    }

    fn flood(&mut self) {
        match flood_with_resets(&self.server.socket) {
            Ok(true) => self.seen.trouble("a flood of resets", 1),
            end => self
                .seen
                .fail(format!("a flood of resets goes on: {end:?}")),
        }
    }
}
