//! Where cases run: a folder for each, laid the same for both walls, and looked at afterwards.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;

use tempfile::TempDir;

use super::{Case, Input, Line, Wall, is_in_go};
use crate::BUILT;
use crate::attack::{Grant, User};
use crate::modules::{Module, Shown};
use crate::stage::ORDINARY_ID;
use crate::tools::{Placed, Tool};

/// What only files hold that no policy grants.
pub(super) const HIDDEN_TEXT: &str = "hidden text";
/// What the others hold.
const TEXT: &str = "content of a file\n";
/// Folders with the same in each.
const PLACES: &[&str] = &[
    "readable",
    "readable/writable",
    "writable",
    "writable/readable",
    "writable/protected",
    "hidden",
    "single",
    "other",
    "there/readable",
    "there/writable",
];
/// What cases run.
const GUESTS: [&str; 4] = [
    "portable",
    "portable.wasm",
    "portable-go",
    "portable-go.wasm",
];
/// Links in `links`, and where they lead.
const LINKS: &[(&str, &str)] = &[
    ("readable", "../readable"),
    ("writable", "../writable"),
    ("hidden", "../hidden"),
    ("absolute", "{base}/readable"),
    ("absolute-hidden", "{base}/hidden"),
];
/// The limit where a case has none.
const WATCHDOG: &str = "time = \"120s\"\n";
/// Longer outputs are told by their length.
const LONGEST_OUTPUT_BYTES: usize = 64 << 10;

/// What one run showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What the guest printed, what palisade said of a limit, how it ended, and what is otherwise on the host.
    pub lines: Vec<Line>,
    /// Files of the host that are not as they were, below the base.
    pub changed: Vec<String>,
    /// What came out of stderr, for the report of a failure.
    pub stderr: String,
}

impl Observation {
    /// What this host can't limit, if palisade refused to start for want of it.
    #[must_use]
    pub fn refused_by_host(&self) -> Option<String> {
        let refusal = self
            .stderr
            .lines()
            .find(|line| line.starts_with("palisade: host: a limit on "));
        refusal.map(str::to_owned)
    }
}

/// The place for all cases, with copies of all programs where every user reaches them.
#[derive(Debug)]
pub struct Ground {
    base: TempDir,
    palisade: PathBuf,
}

impl Ground {
    /// Copies the programs.
    ///
    /// # Errors
    ///
    /// If they can't be copied, or palisade is not built.
    pub fn prepare() -> io::Result<Self> {
        // Not below /tmp: a domain has one of its own.
        let base = tempfile::Builder::new()
            .prefix("palisade-equality-")
            .tempdir_in("/var/tmp")?;
        open(base.path())?;
        for folder in ["bin", "tools"] {
            fs::create_dir(base.path().join(folder))?;
            open(&base.path().join(folder))?;
        }
        for name in GUESTS {
            let guest = Path::new(BUILT).join(name);
            if guest.is_file() {
                fs::copy(guest, base.path().join("bin").join(name))?;
            }
        }
        let built = Tool::Palisade.find().ok_or_else(|| {
            io::Error::other("palisade is not there: build it (cargo build --workspace --bins) or set PALISADE_BIN")
        })?;
        let palisade = base.path().join("tools/palisade");
        fs::copy(&built, &palisade)?;
        for name in ["palisade-worker", "palisade-compiler"] {
            let part = built.with_file_name(name);
            if part.is_file() {
                fs::copy(part, base.path().join("tools").join(name))?;
            }
        }
        Ok(Self { base, palisade })
    }

    /// Runs the case once behind `wall`.
    ///
    /// # Errors
    ///
    /// If the place can't be laid or palisade not be started.
    pub fn observe(&self, case: &Case, wall: Wall, user: User) -> io::Result<Observation> {
        let cache = self.cache(user)?;
        // Each run's path is as long as every other's.
        let place = tempfile::Builder::new()
            .prefix("case-")
            .tempdir_in(self.base.path())?;
        let port = free_port()?;
        let fill = |template: &str| {
            template
                .replace("{base}", &place.path().display().to_string())
                .replace("{port}", &port.to_string())
        };
        lay(place.path(), fill)?;
        let policy = place.path().join("policy.toml");
        fs::write(&policy, self.policy(case.policy, fill))?;
        give_away(place.path(), user)?;

        let before = survey(place.path())?;
        let mut command = Command::new(&self.palisade);
        command.arg("run").arg("--policy").arg(&policy).arg("--");
        command
            .arg(format!("/guest/{}", wall.program(case.probe)))
            .arg(case.probe.name().replace('-', "_"));
        command.args(case.arguments.iter().map(|template| fill(template)));
        command
            .current_dir("/")
            .env_clear()
            .env("XDG_CACHE_HOME", cache);
        become_user(&mut command, user);
        let ended = run(command, case, port)?;
        let after = survey(place.path())?;
        Ok(observation(&ended, &before, &after, place.path()))
    }

    /// Runs a module that was made for it.
    ///
    /// # Errors
    ///
    /// If it can't be laid or palisade not be started.
    pub fn run_module(&self, module: &Module, user: User) -> io::Result<Shown> {
        let cache = self.cache(user)?;
        let place = tempfile::Builder::new()
            .prefix("module-")
            .tempdir_in(self.base.path())?;
        open(place.path())?;
        let file = place.path().join("module.wasm");
        fs::write(&file, &module.bytes)?;
        let policy = place.path().join("policy.toml");
        fs::write(&policy, self.policy(module.policy, str::to_owned))?;
        let mut command = Command::new(&self.palisade);
        command.arg("run").arg("--policy").arg(&policy).arg("--");
        command.arg(&file);
        command
            .current_dir("/")
            .env_clear()
            .env("XDG_CACHE_HOME", cache);
        become_user(&mut command, user);
        let output = command.stdin(Stdio::null()).output()?;
        Ok(Shown {
            exit_code: exit_code(output.status),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }

    /// A program that a compiler made.
    #[must_use]
    pub fn whole_module(&self) -> PathBuf {
        self.base.path().join("bin/portable.wasm")
    }

    /// As TOML: the same file for both walls.
    fn policy(&self, grants: &[Grant], fill: impl Fn(&str) -> String) -> String {
        let mut policy = Policy::default();
        policy.grant(
            "read",
            &format!("{}:/guest", self.base.path().join("bin").display()),
        );
        for grant in grants {
            policy.add(&Placed::new(*grant, &fill));
        }
        policy.text()
    }

    /// Where palisade keeps compiled code: a folder of the user's.
    fn cache(&self, user: User) -> io::Result<PathBuf> {
        let folder = self.base.path().join(format!("cache-{}", user.name()));
        fs::create_dir_all(&folder)?;
        // The folder alone: what lies in it is the user's already, and comes and goes while other cases run.
        if let Some(id) = owner(user) {
            lchown(&folder, Some(id), Some(id))?;
        }
        Ok(folder)
    }
}

/// A policy file in the making.
#[derive(Default)]
struct Policy {
    head: String,
    grants: BTreeMap<&'static str, Vec<String>>,
    limits: String,
}

impl Policy {
    fn grant(&mut self, key: &'static str, value: &str) {
        self.grants.entry(key).or_default().push(value.to_owned());
    }

    fn add(&mut self, placed: &Placed) {
        match placed {
            Placed::NoSystem => self.head += "system = false\n",
            Placed::Cwd(path) => self.head += &format!("cwd = {path:?}\n"),
            Placed::Limit(name, value) => self.limits += &format!("{name} = {value:?}\n"),
            Placed::Read { host, guest } => self.grant("read", &format!("{host}:{guest}")),
            Placed::Write { host, guest } => self.grant("write", &format!("{host}:{guest}")),
            Placed::Exec(path) => self.grant("exec", path),
            Placed::Ipc(path) => self.grant("ipc", path),
            Placed::Protect(path) => self.grant("protect", path),
            Placed::NoGuard => self.head += "guard = false\n",
            Placed::Env(entry) => self.grant("env", entry),
            Placed::Connect(address) => self.grant("connect", address),
            Placed::Listen(address) => self.grant("listen", address),
            // A file can't name another.
            Placed::PolicyFile(_) => {}
        }
    }

    fn text(&self) -> String {
        let grants: String = self
            .grants
            .iter()
            .map(|(key, values)| format!("{key} = {values:?}\n"))
            .collect();
        // A guest that hangs ends as one that was ended.
        let is_timed = self.limits.contains("time = ");
        let watchdog = if is_timed { "" } else { WATCHDOG };
        format!(
            "{}[grants]\n{grants}[limits]\n{}{watchdog}",
            self.head, self.limits
        )
    }
}

fn open(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Lays the same into every place, but for the text of what is hidden.
fn lay(base: &Path, fill: impl Fn(&str) -> String) -> io::Result<()> {
    open(base)?;
    for place in PLACES {
        let folder = base.join(place);
        fs::create_dir_all(folder.join("sub"))?;
        fs::create_dir_all(folder.join("empty"))?;
        let is_hidden = *place == "hidden";
        fs::write(
            folder.join("file"),
            if is_hidden { HIDDEN_TEXT } else { TEXT },
        )?;
        fs::write(
            folder.join("sub/inner"),
            if is_hidden { HIDDEN_TEXT } else { "inner\n" },
        )?;
        symlink("file", folder.join("link"))?;
        symlink("nowhere", folder.join("dangling"))?;
        symlink("..", folder.join("up"))?;
    }
    fs::create_dir(base.join("links"))?;
    for (name, target) in LINKS {
        symlink(fill(target), base.join("links").join(name))?;
    }
    Ok(())
}

fn owner(user: User) -> Option<u32> {
    (rustix::process::geteuid().is_root() && user == User::Ordinary).then_some(ORDINARY_ID)
}

fn give_away(path: &Path, user: User) -> io::Result<()> {
    let Some(id) = owner(user) else {
        return Ok(());
    };
    lchown(path, Some(id), Some(id))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            give_away(&entry?.path(), user)?;
        }
    }
    Ok(())
}

fn become_user(command: &mut Command, user: User) {
    if let Some(id) = owner(user) {
        // A root parent that sets a uid also drops the supplementary groups.
        command.uid(id).gid(id);
    }
}

/// A port of the loopback device that nobody has just now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

// ---- what is on the host ----

/// Path below the base → what is there, without what differs by chance.
type Survey = BTreeMap<String, String>;

fn survey(base: &Path) -> io::Result<Survey> {
    let mut survey = Survey::new();
    look_below(base, "", &mut survey)?;
    Ok(survey)
}

fn look_below(base: &Path, below: &str, survey: &mut Survey) -> io::Result<()> {
    for entry in fs::read_dir(base.join(below))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        let about = entry.metadata()?;
        let what = if about.is_symlink() {
            format!("link to {}", fs::read_link(entry.path())?.display())
        } else if about.is_dir() {
            look_below(base, &path, survey)?;
            "folder".to_owned()
        } else {
            format!(
                "{:?}, {} names{}",
                head_of(&entry.path())?,
                about.nlink(),
                date_of(about.mtime())
            )
        };
        survey.insert(path, what);
    }
    Ok(())
}

/// The beginning of a file, and its length.
fn head_of(file: &Path) -> io::Result<String> {
    const SHOWN: usize = 40;
    let bytes = fs::read(file)?;
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    Ok(if bytes.len() > SHOWN {
        format!("{head}… {} bytes", bytes.len())
    } else {
        head
    })
}

/// Times that a probe sets lie before this suite was written; others are left out.
fn date_of(modified_s: i64) -> String {
    const SUITE_BEGAN_S: i64 = 1_700_000_000;
    if modified_s < SUITE_BEGAN_S {
        format!(", of {modified_s}")
    } else {
        String::new()
    }
}

fn changes(before: &Survey, after: &Survey) -> Vec<(String, String)> {
    let gone = before
        .keys()
        .filter(|path| !after.contains_key(*path))
        .map(|path| (path.clone(), "gone".to_owned()));
    let new = after
        .iter()
        .filter(|(path, what)| before.get(*path) != Some(what))
        .map(|(path, what)| (path.clone(), what.clone()));
    let mut changes: Vec<_> = gone.chain(new).collect();
    changes.sort();
    changes
}

// ---- one run ----

struct Ended {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    answer: Option<String>,
}

fn run(mut command: Command, case: &Case, port: u16) -> io::Result<Ended> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let lost = || io::Error::other("a child without pipes");
    feed(child.stdin.take().ok_or_else(lost)?, case.input);
    let mut errors = child.stderr.take().ok_or_else(lost)?;
    let reader = thread::spawn(move || {
        let mut stderr = Vec::new();
        errors.read_to_end(&mut stderr).map(|_| stderr)
    });
    let output = BufReader::new(child.stdout.take().ok_or_else(lost)?);
    let (stdout, answer) = listen(output, case.call.map(|words| (port, words)))?;
    let stderr = reader
        .join()
        .map_err(|_| io::Error::other("the reader of stderr failed"))??;
    let status = child.wait()?;
    Ok(Ended {
        status,
        stdout,
        stderr,
        answer,
    })
}

fn feed(mut stdin: ChildStdin, input: Input) {
    thread::spawn(move || {
        let bytes = match input {
            Input::Empty => Vec::new(),
            Input::Text(text) => text.as_bytes().to_vec(),
            Input::Pattern(length) => (0_u8..=250).cycle().take(length).collect(),
        };
        // A guest need not read what it is given.
        let _ = stdin.write_all(&bytes);
    });
}

/// All output; and what the server answers, called once it has said its first word.
fn listen(
    mut output: BufReader<ChildStdout>,
    called: Option<(u16, &str)>,
) -> io::Result<(Vec<u8>, Option<String>)> {
    let mut stdout = Vec::new();
    let mut answer = None;
    if let Some((port, words)) = called {
        output.read_until(b'\n', &mut stdout)?;
        answer = Some(call(port, words).unwrap_or_else(|error| error.to_string()));
    }
    output.read_to_end(&mut stdout)?;
    Ok((stdout, answer))
}

fn call(port: u16, words: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(words.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.lines().next_back().unwrap_or("").to_owned())
}

fn observation(ended: &Ended, before: &Survey, after: &Survey, base: &Path) -> Observation {
    let mask = |text: &str| text.replace(&base.display().to_string(), "{base}");
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    let changes = changes(before, after);
    let mut lines = output_lines(&ended.stdout);
    lines.extend(
        ended
            .answer
            .iter()
            .map(|answer| format!("answer: {answer}")),
    );
    // Palisade says other things of the two kinds of program, but the same of a limit.
    lines.extend(
        stderr
            .lines()
            .filter(|line| !line.starts_with("palisade: ") || line.starts_with("palisade: limit: "))
            .map(|line| format!("stderr: {line}")),
    );
    lines.push(format!("exit: {}", exit_code(ended.status)));
    lines.extend(
        changes
            .iter()
            .map(|(path, what)| format!("host: {path}: {what}")),
    );
    Observation {
        lines: lines.iter().map(|line| Line(mask(line))).collect(),
        changed: changes.into_iter().map(|(path, _)| path).collect(),
        stderr,
    }
}

fn output_lines(stdout: &[u8]) -> Vec<String> {
    if stdout.len() > LONGEST_OUTPUT_BYTES {
        return vec![format!("output: {} bytes", stdout.len())];
    }
    String::from_utf8_lossy(stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

impl Ground {
    /// Why a case can't be run behind this wall here.
    #[must_use]
    pub fn lacks(&self, case: &Case, wall: Wall) -> Option<String> {
        if is_in_go(case.probe)
            && let Some(reason) = crate::NO_GO_GUESTS
        {
            return Some(reason.to_owned());
        }
        match wall {
            Wall::Process => None,
            Wall::Wasm => self.lacks_wasm(),
        }
    }

    /// Why no module can be run here.
    #[must_use]
    pub fn lacks_wasm(&self) -> Option<String> {
        let is_there = |name: &&str| self.palisade.with_file_name(OsStr::new(name)).is_file();
        let missing = ["palisade-worker", "palisade-compiler"]
            .into_iter()
            .find(|name| !is_there(name));
        crate::NO_WASM_GUESTS.map(str::to_owned).or_else(|| {
            missing.map(|name| format!("{name} is not built: cargo build --workspace --bins"))
        })
    }
}
