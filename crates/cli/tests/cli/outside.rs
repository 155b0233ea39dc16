//! What palisade opens and executes outside the wall, of its own and of its helpers', compared with a list.
//!
//! Whatever a guest could have had a hand in must not be on it: a name of `PATH`, of the folder that palisade was
//! started in, of a variable's. So each run here has an environment full of them, all in the case's own folder, and
//! [`LIST`] has none. The processes are told apart by who started them; what happens inside is the guest's affair.

use super::{
    fixture::{Call, Fixture, Outcome, cases, finish},
    network::in_own_network,
};
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::Path,
};

cases![
    traced_native_guests,
    traced_names_that_the_system_looks_up,
    traced_webassembly,
    traced_questions_about_the_machine,
    traced_terminal,
    traced_server,
    traced_what_is_not_on_the_list_is_found,
];

/// `PART VERB PATTERN  REASON`, one a line.
const LIST: &str = include_str!("outside.list");

/// Calls that name a file, and those that make a process.
const CALLS: &str =
    "trace=open,openat,openat2,creat,execve,execveat,chdir,connect,clone,clone3,fork,vfork";

/// Variables that have files looked for, or opened, in the case's folder.
const VARIABLES: [(&str, &str); 22] = [
    ("PATH", "/bin:/usr/bin:/bin"),
    ("HOME", "/home"),
    ("TMPDIR", "/tmp"),
    ("XDG_CONFIG_HOME", "/config"),
    ("XDG_DATA_DIRS", "/data"),
    ("LD_PRELOAD", "/lib/preloaded.so"),
    ("LD_LIBRARY_PATH", "/lib"),
    ("LD_AUDIT", "/lib/audit.so"),
    ("GCONV_PATH", "/lib"),
    ("LOCPATH", "/lib"),
    ("NLSPATH", "/lib/%N"),
    ("TZDIR", "/lib"),
    ("TERMINFO", "/lib"),
    ("HOSTALIASES", "/aliases"),
    ("RESOLV_HOST_CONF", "/host.conf"),
    ("LOCALDOMAIN", "/domain"),
    ("SSL_CERT_FILE", "/certificates.pem"),
    ("SSL_CERT_DIR", "/certificates"),
    ("OPENSSL_CONF", "/openssl.cnf"),
    ("PYTHONPATH", "/lib"),
    ("BASH_ENV", "/profile"),
    ("ENV", "/profile"),
];

/// Whose call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// `palisade` itself.
    Command,
    /// `palisade-host`.
    Server,
    Keeper,
    /// The system's lookup of names.
    Resolver,
    /// Of a domain, before the guest's program.
    Init,
    /// Inside.
    Guest,
    /// A program that nothing here is known of.
    Stranger,
}

impl Part {
    fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Server => "server",
            Self::Keeper => "keeper",
            Self::Resolver => "resolver",
            Self::Init => "init",
            Self::Guest => "guest",
            Self::Stranger => "stranger",
        }
    }

    /// What a process is that has executed this.
    fn after(self, executed: &str) -> Self {
        let name = Path::new(executed).file_name().unwrap_or_default();
        match (self, name.to_str().unwrap_or_default()) {
            (Self::Init | Self::Guest, _) => Self::Guest,
            (_, "palisade") => Self::Command,
            (_, "palisade-host") => Self::Server,
            (_, "getent") => Self::Resolver,
            (_, name) if name.starts_with("memfd:palisade-keeper") => Self::Keeper,
            _ => Self::Stranger,
        }
    }

    /// What a process is that this one has made by a call with these arguments.
    fn child(self, arguments: &str) -> Self {
        match self {
            Self::Keeper if arguments.contains("CLONE_NEWPID") => Self::Init,
            Self::Init => Self::Guest,
            part => part,
        }
    }
}

/// One file that was named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    part: Part,
    verb: &'static str,
    path: String,
}

impl Use {
    fn line(&self) -> String {
        format!("{} {} {}", self.part.word(), self.verb, self.path)
    }

    fn is_listed(&self) -> bool {
        let entries = LIST.lines().map(str::trim);
        let entries = entries.filter(|line| !line.is_empty() && !line.starts_with('#'));
        entries.into_iter().any(|line| {
            let mut words = line.split_whitespace();
            let part = words.next().unwrap_or_default();
            (part == "*" || part == self.part.word())
                && words.next() == Some(self.verb)
                && words
                    .next()
                    .is_some_and(|pattern| matches(pattern, &self.path))
        })
    }
}

/// `*` stands for anything within a name, `**` for anything.
fn matches(pattern: &str, path: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == path;
    };
    let Some(left) = path.strip_prefix(head) else {
        return false;
    };
    let (rest, is_any) = match rest.strip_prefix('*') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let bound = match is_any {
        true => left.len(),
        false => left.find('/').unwrap_or(left.len()),
    };
    (0..=bound).any(|at| left.is_char_boundary(at) && matches(rest, &left[at..]))
}

/// The call under strace(1), started in a folder of the case's, with all the [`VARIABLES`].
fn traced(fixture: &Fixture, call: &Call) -> Call {
    for folder in ["traces", "here", "home", "tmp", "bin"] {
        fixture.make_folder(folder);
    }
    let mut words: Vec<String> = [
        "-ff",
        "-qq",
        "-y",
        "-s",
        "4096",
        "-e",
        "signal=none",
        "-e",
        CALLS,
        "-o",
    ]
    .map(str::to_owned)
    .into();
    words.push(fixture.text("traces/of"));
    for (name, value) in VARIABLES {
        let value = format!("{}{value}", fixture.text(""));
        words.extend(["-E".to_owned(), format!("{name}={value}")]);
    }
    words.push("--".to_owned());
    words.push(call.command.get_program().to_str().unwrap().to_owned());
    let arguments = call
        .command
        .get_args()
        .map(|word| word.to_str().unwrap().to_owned());
    words.extend(arguments);
    let mut traced = fixture.call(Path::new("/usr/bin/strace"), words);
    traced.command.current_dir(fixture.path("here"));
    traced
}

/// Runs it traced; gives what was named, and what became of it.
fn trace(fixture: &Fixture, words: &[&str]) -> (Vec<Use>, Outcome) {
    let outcome = traced(fixture, &fixture.palisade(words)).run();
    (collect(fixture), outcome)
}

/// Everything that the processes of the last run have named.
fn collect(fixture: &Fixture) -> Vec<Use> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(fixture.path("traces")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let pid: u32 = name.strip_prefix("of.").unwrap().parse().unwrap();
        let text = fs::read(entry.path()).unwrap();
        texts.insert(pid, String::from_utf8_lossy(&text).into_owned());
        fs::remove_file(entry.path()).unwrap();
    }
    let first = texts
        .iter()
        .find(|(_, text)| text.contains("/palisade\", ["));
    let mut todo = vec![(*first.expect("a trace of the command").0, Part::Command)];
    let mut uses = Vec::new();
    while let Some((pid, part)) = todo.pop() {
        // Inside a domain pids are others, and what is there is the guest's.
        if let Some(text) = texts.remove(&pid) {
            read_trace(&text, part, &mut uses, &mut todo);
        }
    }
    let own = [
        (
            fixture
                .program()
                .parent()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned(),
            "{program}",
        ),
        (fixture.text(""), "{fixture}"),
    ];
    for found in &mut uses {
        for (path, name) in &own {
            found.path = found.path.replace(path, name);
        }
        found.path = without_numbers(&found.path);
    }
    uses.sort();
    uses.dedup();
    uses
}

fn read_trace(text: &str, mut part: Part, uses: &mut Vec<Use>, todo: &mut Vec<(u32, Part)>) {
    for line in text.lines() {
        let Some((call, arguments)) = line.split_once('(') else {
            continue;
        };
        let result = line.rsplit_once(" = ").map_or("", |(_, result)| result);
        if ["clone", "clone3", "fork", "vfork"].contains(&call) {
            let pid = result
                .split_whitespace()
                .next()
                .and_then(|pid| pid.parse().ok());
            todo.extend(pid.map(|pid| (pid, part.child(arguments))));
            continue;
        }
        if part == Part::Guest {
            continue;
        }
        let Some((verb, path)) = read_call(call, arguments) else {
            continue;
        };
        let is_executed = verb == "exec" && result == "0";
        // What init executes is the guest's program; by then the host is out of its sight.
        if !(part == Part::Init && verb != "open") {
            uses.push(Use {
                part,
                verb,
                path: path.clone(),
            });
        }
        if is_executed {
            part = part.after(&path);
        }
    }
}

/// The verb and the path of a call that names a file; `None` where memory could not be read, or it names none.
fn read_call(call: &str, arguments: &str) -> Option<(&'static str, String)> {
    match call {
        "open" | "creat" => Some(("open", quoted(arguments)?)),
        "execve" => Some(("exec", quoted(arguments)?)),
        "chdir" => Some(("enter", quoted(arguments)?)),
        "openat" | "openat2" => Some(("open", at(arguments)?)),
        "execveat" => Some(("exec", at(arguments)?)),
        "connect" => {
            let (_, rest) = arguments.split_once("sun_path=\"")?;
            Some(("connect", rest.split('"').next()?.to_owned()))
        }
        _ => None,
    }
}

fn quoted(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('"')?;
    let (word, _) = rest.split_once('"')?;
    Some(word.to_owned())
}

/// A path below a descriptor, whose own path strace tells: `8</etc>, "hosts", …`. One of the working directory stays
/// relative.
fn at(arguments: &str) -> Option<String> {
    let (folder, rest) = arguments.split_once(", ")?;
    // It begins with a quote, or with the address of what could not be read.
    let name = rest.starts_with('"').then(|| quoted(rest)).flatten()?;
    if name.starts_with('/') || folder.starts_with("AT_FDCWD") {
        return Some(name);
    }
    let (_, folder) = folder.split_once('<')?;
    let folder = folder.split_once('>')?.0;
    Some(match name.as_str() {
        "" => folder.trim_start_matches('/').to_owned(),
        name => format!("{}/{name}", folder.trim_end_matches('/')),
    })
}

/// Processes and descriptors have other numbers each time.
fn without_numbers(path: &str) -> String {
    let is_numbered = path.starts_with("/proc/");
    let name = |name: &str| match is_numbered && name.parse::<u32>().is_ok() {
        true => "N".to_owned(),
        false => name.to_owned(),
    };
    path.split('/').map(name).collect::<Vec<_>>().join("/")
}

fn unlisted(uses: &[Use]) -> Vec<String> {
    let unlisted = uses.iter().filter(|found| !found.is_listed());
    unlisted.map(Use::line).collect()
}

fn is_on_list(uses: &[Use]) {
    let unlisted = unlisted(uses);
    assert!(
        unlisted.is_empty(),
        "not in outside.list:\n{}",
        unlisted.join("\n")
    );
}

fn has(uses: &[Use], line: &str) -> bool {
    uses.iter().any(|found| found.line() == line)
}

fn checked(fixture: &Fixture, words: &[&str]) -> Outcome {
    let (uses, outcome) = trace(fixture, words);
    is_on_list(&uses);
    outcome
}

fn traced_native_guests(fixture: &Fixture) {
    fixture.write("work/input", "input\n");
    fixture.write("out/kept", "");
    fixture.write(
        "policy.toml",
        "[grants]\nread = ['work']\n[limits]\ntime = '60s'\n",
    );
    let [policy, out, absent, report] =
        ["policy.toml", "out", "out/.git", "report.json"].map(|name| fixture.text(name));
    let words = [
        "run",
        "--policy",
        &policy,
        "--write",
        &out,
        "--protect",
        &absent,
        "--report",
        &report,
        "--output",
        "1M",
    ];
    let script = ["--", "/bin/sh", "-c", "cat /dev/null; exit 3"];
    let words: Vec<_> = words.into_iter().chain(script).collect();
    let outcome = checked(fixture, &words);
    assert_eq!(outcome.status.code(), Some(3), "{outcome:?}");
    checked(fixture, &["run", "--", "nowhere"]);
    checked(
        fixture,
        &["run", "--no-system", "--read", "/nonexistent", "--", "/x"],
    );
}

/// Whoever is asked before DNS is asked by getent(1).
fn traced_names_that_the_system_looks_up(fixture: &Fixture) {
    fixture.write("hosts", "127.0.0.1 localhost\n203.0.113.7 granted.test\n");
    fixture.write("nsswitch.conf", "hosts: files resolve dns\n");
    let shown = ["hosts", "nsswitch.conf"]
        .map(|name| format!("mount --bind {} /etc/{name}", fixture.text(name)));
    let ask = "port=${https_proxy##*:}; exec 3<>/dev/tcp/127.0.0.1/$port; \
               printf 'CONNECT unknown.wild.test:443 HTTP/1.1\\r\\n\
               Host: unknown.wild.test:443\\r\\n\\r\\n' >&3; head -n 1 <&3";
    let (name, wildcard) = ("tcp://granted.test:80", "tcp://*.wild.test:443");
    let words = [
        "run",
        "--connect",
        name,
        "--connect",
        wildcard,
        "--",
        "/bin/bash",
        "-c",
        ask,
    ];
    let call = traced(fixture, &fixture.palisade(words));
    let mut within = in_own_network(fixture, &shown.join("; "), &call);
    within.command.current_dir(fixture.path("here"));
    let outcome = within.run();
    outcome.is(0);
    assert!(outcome.text().starts_with("HTTP/1.1 "), "{outcome:?}");
    let uses = collect(fixture);
    is_on_list(&uses);
    for seen in [
        "resolver open /etc/nsswitch.conf",
        "command exec /usr/bin/getent",
    ] {
        assert!(has(&uses, seen), "{seen}: {uses:#?}");
    }
}

/// A module that does nothing: `(module (func (export "_start")))`.
const MODULE: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x04\x01\x02\0\x0b";

fn write_module(fixture: &Fixture) -> String {
    fixture.write("module.wasm", "");
    fs::write(fixture.path("module.wasm"), MODULE).unwrap();
    fixture.text("module.wasm")
}

/// Compiled at first, taken from the cache then.
fn traced_webassembly(fixture: &Fixture) {
    let module = write_module(fixture);
    fixture.make_folder("out");
    let out = fixture.text("out");
    for _ in 0..2 {
        let words = ["run", "--write", &out, "--", &module];
        checked(fixture, &words).is(0);
    }
}

fn traced_questions_about_the_machine(fixture: &Fixture) {
    fixture.make_folder("work");
    let work = fixture.text("work");
    checked(fixture, &["explain", "--write", &work, "--", "/bin/true"]).is(0);
    checked(fixture, &["doctor"]);
    checked(fixture, &["why", "--", "/bin/true"]);
    checked(fixture, &["completions", "bash"]).is(0);
    checked(fixture, &["--help"]).is(0);
}

fn traced_terminal(fixture: &Fixture) {
    let call = traced(fixture, &fixture.palisade(["run", "--", "/bin/true"]));
    let words: Vec<_> = call
        .command
        .get_args()
        .map(|word| word.to_str().unwrap())
        .collect();
    let line = format!("exec /usr/bin/strace '{}'", words.join("' '"));
    let null = ["-q", "-e", "-c", &line, "/dev/null"];
    let mut terminal = fixture.call(Path::new("/usr/bin/script"), null);
    terminal.command.current_dir(fixture.path("here"));
    terminal.run().is(0);
    is_on_list(&collect(fixture));
}

fn traced_server(fixture: &Fixture) {
    let first = fixture.text("first");
    fixture.palisade(["serve", "--init", &first]).run().is(0);
    let file = fixture.text("first/host.toml");
    let text = fixture
        .read("first/host.toml")
        .replace("127.0.0.1:8080", "127.0.0.1:0");
    fs::write(&file, text).unwrap();
    checked(fixture, &["serve", "--check", &file]);
    let mut call = traced(
        fixture,
        &fixture.palisade(["serve", "--workers", "1", &file]),
    );
    let mut server = call.spawn();
    let mut errors = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(" at http://") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "it ended");
    }
    // strace(1) passes what ends it on to nobody: its child is the server.
    let children = super::fixture::children_of(server.id());
    for child in children {
        let pid = rustix::process::Pid::from_raw(child as i32).unwrap();
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
    }
    finish(server, b"");
    let uses = collect(fixture);
    is_on_list(&uses);
    assert!(
        has(&uses, "command exec {program}/palisade-host"),
        "{uses:#?}"
    );
}

/// The witness: a run that names a file of the case's is not on the list, nor is a name that is relative.
fn traced_what_is_not_on_the_list_is_found(fixture: &Fixture) {
    fixture.write("here/policy.toml", "[grants]\n");
    for policy in ["policy.toml", &fixture.text("here/policy.toml")] {
        let (uses, outcome) = trace(fixture, &["run", "--policy", policy, "--", "/bin/true"]);
        outcome.is(0);
        let unlisted = unlisted(&uses);
        assert!(
            !unlisted.is_empty() && unlisted.iter().all(|line| line.ends_with("policy.toml")),
            "{unlisted:?}"
        );
    }
    let path = |path: &str| Use {
        part: Part::Command,
        verb: "exec",
        path: path.into(),
    };
    for other in [
        "getent",
        "{fixture}/bin/getent",
        "/usr/local/bin/getent",
        "/usr/bin/getent.old",
    ] {
        assert!(!path(other).is_listed(), "{other}");
    }
    assert!(path("/usr/bin/getent").is_listed());
}
