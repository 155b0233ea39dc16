//! Compiles guests and runs them in the worker.

use command_fds::{CommandFdExt, FdMapping};
use palisade_wasm::{
    order::Order,
    status::{self, Status},
};
use std::{
    collections::HashMap,
    ffi::OsString,
    fs::File,
    io::{Read, Seek, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, OnceLock},
};

/// The first descriptor behind listeners that the harness passes.
const FIRST_LISTENER: i32 = 3;

/// A guest to be run.
pub(crate) struct Run {
    code: Vec<u8>,
    order: Order,
    environment: Vec<(OsString, OsString)>,
    stdin: OwnedFd,
    listeners: Vec<OwnedFd>,
    trace: Option<PathBuf>,
}

/// How it went.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) exit: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: Vec<Status>,
}

impl Outcome {
    /// The exit code of a guest that was not ended by a signal.
    #[track_caller]
    pub(crate) fn code(&self) -> i32 {
        self.exit.code().unwrap_or_else(|| panic!("{self:?}"))
    }

    /// What a guest wrote that exited with 0.
    #[track_caller]
    pub(crate) fn output(&self) -> &str {
        assert_eq!(self.code(), 0, "{self:?}");
        &self.stdout
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.exit.signal()
    }

    /// What the worker told beside the phases.
    pub(crate) fn told(&self) -> Option<&Status> {
        let mut others = self
            .status
            .iter()
            .filter(|status| !matches!(status, Status::Phase { .. }));
        others.next()
    }
}

/// A program of `guests/wasi`.
pub(crate) fn program(name: &str) -> Run {
    Run::new(compiled_program(name).to_vec(), name)
}

/// A module in the text format.
pub(crate) fn module(text: &str) -> Run {
    let module = wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let code = palisade_compiler::compile(&module).expect("the module compiles");
    Run::new(code, "module")
}

/// Machine code, or what is given out for it.
pub(crate) fn code(bytes: &[u8]) -> Run {
    Run::new(bytes.to_vec(), "code")
}

impl Run {
    fn new(code: Vec<u8>, name: &str) -> Self {
        Self {
            code,
            order: Order {
                cwd: "/".into(),
                arguments: vec![format!("{name}.wasm").into()],
                ..Order::default()
            },
            environment: Vec::new(),
            stdin: file_of(b"").into(),
            listeners: Vec::new(),
            trace: None,
        }
    }

    /// The guest's working directory.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.order.cwd = folder.into();
        self
    }

    pub(crate) fn preopen(mut self, folder: &Path) -> Self {
        self.order.preopens.push(folder.into());
        self
    }

    pub(crate) fn arguments<S: Into<OsString>>(
        mut self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        self.order
            .arguments
            .extend(arguments.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub(crate) fn stdin(self, bytes: impl AsRef<[u8]>) -> Self {
        self.stdin_from(file_of(bytes.as_ref()))
    }

    pub(crate) fn stdin_from(mut self, file: impl Into<OwnedFd>) -> Self {
        self.stdin = file.into();
        self
    }

    pub(crate) fn memory_bytes(mut self, bytes: u64) -> Self {
        self.order.memory_bytes = Some(bytes);
        self
    }

    pub(crate) fn files(mut self, files: u64) -> Self {
        self.order.files = Some(files);
        self
    }

    pub(crate) fn listener(mut self, socket: impl Into<OwnedFd>) -> Self {
        self.listeners.push(socket.into());
        self
    }

    /// Under strace(1), which writes the worker's calls there.
    pub(crate) fn traced(mut self, into: &Path) -> Self {
        self.trace = Some(into.into());
        self
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Outcome {
        self.start().wait()
    }

    pub(crate) fn start(mut self) -> Running {
        let code = file_of(&self.code);
        let status = tempfile::tempfile().expect("a temporary file");
        let mut descriptors = std::mem::take(&mut self.listeners);
        self.order.listeners = descriptors.len() as i32;
        self.order.code = FIRST_LISTENER + self.order.listeners;
        self.order.status = Some(self.order.code + 1);
        descriptors.push(code.into());
        descriptors.push(status.as_fd().try_clone_to_owned().expect("a copy"));
        let mappings = (FIRST_LISTENER..)
            .zip(descriptors)
            .map(|(child_fd, parent_fd)| FdMapping {
                parent_fd,
                child_fd,
            })
            .collect();
        const WORKER: &str = env!("CARGO_BIN_EXE_palisade-worker");
        let mut command = Command::new(WORKER);
        if let Some(trace) = &self.trace {
            command = Command::new("strace");
            command.args(["-qq", "-o"]).args([trace, Path::new(WORKER)]);
        }
        command
            .args(self.order.to_arguments())
            .env_clear()
            .envs(self.environment)
            .stdin(self.stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .fd_mappings(mappings)
            .expect("each number once");
        let child = command.spawn().expect("the worker starts");
        Running { child, status }
    }
}

/// A guest that runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    status: File,
}

impl Running {
    pub(crate) fn wait(mut self) -> Outcome {
        let output = self.child.wait_with_output().expect("the worker ends");
        let mut told = String::new();
        self.status.rewind().expect("a file rewinds");
        self.status.read_to_string(&mut told).expect("status lines");
        Outcome {
            exit: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: status::read(&told),
        }
    }
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    file.rewind().expect("a file rewinds");
    file
}

/// Each program is compiled once, by the first test that asks.
fn compiled_program(name: &str) -> Arc<[u8]> {
    static COMPILED: OnceLock<Mutex<HashMap<String, Arc<[u8]>>>> = OnceLock::new();
    let mut compiled = COMPILED
        .get_or_init(Mutex::default)
        .lock()
        .expect("no test panics in here");
    let code = compiled.entry(name.into()).or_insert_with(|| {
        let module = build(name);
        let code = palisade_compiler::compile(&module);
        code.expect("what clang built compiles").into()
    });
    Arc::clone(code)
}

fn build(name: &str) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../guests/wasi/{name}.c"));
    let module = tempfile::NamedTempFile::new().expect("a temporary file");
    let clang = Command::new("clang-19")
        .args(["--target=wasm32-wasi", "-O1", "-Wall", "-Werror", "-o"])
        .args([module.path(), &source])
        .output()
        .expect("clang-19 is installed: apt-get install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32");
    assert!(
        clang.status.success(),
        "{}",
        String::from_utf8_lossy(&clang.stderr)
    );
    std::fs::read(module.path()).expect("clang wrote it")
}
