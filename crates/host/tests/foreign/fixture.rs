//! A server of its own for a test: its folder, the servers behind it, and those who ask it.

use crate::{
    backend::Backend,
    raw_http::{Answer, Request, exchange},
};
use std::{
    env, fs,
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long anything may take here. Compiling seven megabytes with other tests around takes its time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A folder, and the servers behind the one that is tested.
pub(crate) struct Fixture {
    folder: TempDir,
    backends: Vec<(String, Backend)>,
    config: String,
}

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    places: Places,
    lines: Receiver<String>,
    seen: Vec<String>,
}

/// Where a server is found, for clients on threads of their own.
pub(crate) struct Places {
    pub(crate) process: u32,
    /// Where it listens.
    pub(crate) socket: PathBuf,
    /// Where it listens for TLS, if it was told to do so at `unix:tls`.
    pub(crate) tls: PathBuf,
    /// Where it is asked how it is.
    pub(crate) admin: PathBuf,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("make a folder");
        // A server of another user gets in.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("open it");
        Self {
            folder,
            backends: Vec::new(),
            config: "workers = 1\nadmin = \"unix:admin\"\n\n[log]\nlevel = \"trace\"\nformat = \"text\"\n\n\
                     [[listen]]\naddress = \"unix:socket\"\n\n[limits]\nanswer-time = \"20s\"\nstop-time = \"5s\"\n"
                .into(),
        }
    }

    /// Lets requests wait no longer than this for their answers.
    pub(crate) fn answer_time(mut self, time: &str) -> Self {
        self.config = self.config.replace(
            "answer-time = \"20s\"",
            &format!("answer-time = \"{time}\""),
        );
        self
    }

    /// A server behind the one that is tested, and a service of that name which asks it.
    pub(crate) fn backend<A>(mut self, name: &str, answer: A) -> Self
    where
        A: Fn(&Request) -> Answer + Send + 'static,
    {
        let backend = Backend::start(
            &self
                .folder
                .path()
                .join(format!("backend-{}", self.backends.len())),
            answer,
        );
        let address = backend.path().display();
        self.config += &format!("\n[services.\"{name}\"]\nupstream = \"unix:{address}\"\n");
        self.backends.push((name.into(), backend));
        self
    }

    /// A filter, configured so.
    pub(crate) fn filter(mut self, name: &str, module: &Path, settings: &str) -> Self {
        self.config += &format!(
            "\n[filters.{name}]\nmodule = {:?}\n{settings}\n",
            module.display().to_string()
        );
        self
    }

    /// A `wasi:http` component.
    pub(crate) fn component(mut self, name: &str, component: &Path, settings: &str) -> Self {
        let component = component.display().to_string();
        self.config += &format!("\n[services.{name}]\ncomponent = {component:?}\n{settings}\n");
        self
    }

    /// Where lines go, and one for each request.
    pub(crate) fn log_to(mut self, path: &str) -> Self {
        self.config = self.config.replace(
            "[log]\n",
            &format!("[log]\npath = {path:?}\naccess = true\n"),
        );
        self
    }

    /// So many threads that serve.
    pub(crate) fn workers(mut self, count: usize) -> Self {
        self.config = self
            .config
            .replace("workers = 1", &format!("workers = {count}"));
        self
    }

    /// Fewer lines: what went wrong alone.
    pub(crate) fn quiet(mut self) -> Self {
        self.config = self
            .config
            .replace("level = \"trace\"", "level = \"error\"");
        self
    }

    /// Some more of `host.toml`.
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.config += "\n";
        self.config += text;
        self
    }

    /// Puts a file in the place of another at once, as a deployment does it.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let new = self.folder.path().join(format!("{name}.new"));
        fs::write(&new, bytes).expect("write a file");
        fs::rename(new, self.folder.path().join(name)).expect("put it in its place");
    }

    /// Its `host.toml`.
    pub(crate) fn config(&self) -> &str {
        &self.config
    }

    /// Puts other words in place of some of `host.toml`, which a server may have read already.
    pub(crate) fn edit(&mut self, from: &str, to: &str) {
        assert!(self.config.contains(from), "no `{from}`:\n{}", self.config);
        self.config = self.config.replace(from, to);
        self.write();
    }

    /// Where its files lie.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Requests whose path begins so go through these filters to that service.
    pub(crate) fn route(mut self, path: &str, filters: &[&str], service: &str) -> Self {
        self.config += &format!(
            "\n[[route]]\npath = {path:?}\nfilters = {filters:?}\nservice = {service:?}\n"
        );
        self
    }

    /// What lets a filter call that backend.
    pub(crate) fn grant(&self, name: &str) -> String {
        format!(
            "policy = {{ grants = {{ connect = [\"unix:{}\"] }} }}",
            self.path_of(name).display()
        )
    }

    /// What that backend was asked.
    pub(crate) fn asked(&self, name: &str) -> Vec<Request> {
        self.find(name).asked()
    }

    /// The socket of that backend.
    pub(crate) fn path_of(&self, name: &str) -> &Path {
        self.find(name).path()
    }

    fn find(&self, name: &str) -> &Backend {
        let found = self.backends.iter().find(|(backend, _)| backend == name);
        &found.expect("a backend").1
    }

    /// Starts the server, which must answer.
    pub(crate) fn serve(&self) -> Server {
        let mut server = self.start();
        let begin = Instant::now();
        let listens = |places: &Places| {
            [&places.socket, &places.admin]
                .iter()
                .all(|socket| UnixStream::connect(socket).is_ok())
        };
        while !listens(&server.places) {
            if let Some(end) = server.child.try_wait().expect("look at the server") {
                panic!("it ended with {end}:\n{}", server.log());
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "it does not listen:\n{}",
                server.log()
            );
            thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Starts the server, which must refuse its configuration: what it says.
    pub(crate) fn refusal(&self) -> String {
        let mut server = self.start();
        let end = server.child.wait().expect("wait for the server");
        // To the end of its stderr.
        server.seen.extend(server.lines.iter());
        assert!(!end.success(), "it serves:\n{}", server.log());
        server.log()
    }

    fn write(&self) -> PathBuf {
        self.put("host.toml", &self.config);
        self.folder.path().join("host.toml")
    }

    fn start(&self) -> Server {
        let config = self.write();
        let mut child = Command::new(env!("CARGO_BIN_EXE_palisade-host"))
            .arg(&config)
            .env(
                "XDG_CACHE_HOME",
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start palisade-host");
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stderr.take().expect("a pipe"));
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let folder = self.folder.path();
        Server {
            places: Places {
                process: child.id(),
                socket: folder.join("socket"),
                tls: folder.join("tls"),
                admin: folder.join("admin"),
            },
            child,
            lines,
            seen: Vec::new(),
        }
    }
}

impl Server {
    /// `GET PATH`.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(&Request::new("GET", path))
    }

    pub(crate) fn ask(&self, request: &Request) -> Answer {
        exchange(&self.places.socket, request)
            .unwrap_or_else(|error| panic!("no answer to {request:?}: {error}"))
    }

    /// `None`: the connection ended without an answer.
    pub(crate) fn try_ask(&self, request: &Request) -> Option<Answer> {
        exchange(&self.places.socket, request).ok()
    }

    /// What the admin socket answers.
    pub(crate) fn admin(&self, path: &str) -> String {
        let answer = exchange(&self.places.admin, &Request::new("GET", path))
            .expect("an answer of the admin socket");
        answer.text()
    }

    /// All lines of the log so far.
    pub(crate) fn log(&mut self) -> String {
        self.seen.extend(self.lines.try_iter());
        self.seen.join("\n")
    }

    /// The lines since they were taken last.
    pub(crate) fn take_log(&mut self) -> Vec<String> {
        self.seen.extend(self.lines.try_iter());
        std::mem::take(&mut self.seen)
    }

    /// Waits for a line that has these words.
    pub(crate) fn wait_for_line(&mut self, words: &str) -> String {
        let begin = Instant::now();
        loop {
            if let Some(line) = self.seen.iter().find(|line| line.contains(words)) {
                return line.clone();
            }
            let rest = Duration::from_secs(20).checked_sub(begin.elapsed());
            let rest = rest.unwrap_or_default();
            match self.lines.recv_timeout(rest) {
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("no line has `{words}`:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// Where it is found.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Where it listens, for clients on threads of their own.
    pub(crate) fn socket(&self) -> &Path {
        &self.places.socket
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.places.process
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// It has not ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("look at the server").is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file that `tools/real-filters` fetches.
pub(crate) fn fetched(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let file = root
        .join(target)
        .join("real-filters")
        .join(format!("{name}.wasm"));
    file.canonicalize().unwrap_or(file)
}
