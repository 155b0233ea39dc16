//! The worker, started as the wasm wall starts it.

use palisade_wasm::{
    order::Order,
    status::{self, Status},
};
use rustix::io::{FdFlags, fcntl_setfd};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    thread,
};
use tempfile::TempDir;

/// Machine code, and a folder for the guest to work in.
pub(crate) struct Worker {
    place: TempDir,
    folder: PathBuf,
    memory_bytes: Option<u64>,
}

/// A guest that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// What the worker told its supervisor.
    pub(crate) told: Vec<Status>,
}

/// A guest that runs.
pub(crate) struct Started {
    child: Child,
    stdout: BufReader<ChildStdout>,
    told: PathBuf,
}

impl Worker {
    pub(crate) fn new(code: Vec<u8>) -> Self {
        let place = tempfile::tempdir().expect("make a folder");
        let folder = place.path().join("folder");
        fs::create_dir(&folder).expect("make the guest's folder");
        fs::write(place.path().join("code"), code).expect("write the code");
        Self {
            place,
            folder,
            memory_bytes: None,
        }
    }

    /// Bounds the guest's memory.
    pub(crate) fn limited(&self, bytes: u64) -> Self {
        let code = fs::read(self.place.path().join("code")).expect("read the code");
        Self {
            memory_bytes: Some(bytes),
            ..Self::new(code)
        }
    }

    /// The guest's folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn run(&self, words: &[&str]) -> Run {
        self.run_with_file(words, Path::new("/dev/null"))
    }

    pub(crate) fn run_with_file(&self, words: &[&str], input: &Path) -> Run {
        let input = File::open(input).expect("open the input");
        self.start_with(words, input.into()).wait()
    }

    pub(crate) fn run_with_input(&self, words: &[&str], bytes: &[u8]) -> Run {
        let mut started = self.start(words);
        let mut input = started.take_input();
        thread::scope(|scope| {
            scope.spawn(move || input.write_all(bytes).expect("write to the guest"));
            started.wait()
        })
    }

    /// Starts a guest whose input is a pipe.
    pub(crate) fn start(&self, words: &[&str]) -> Started {
        self.start_with(words, Stdio::piped())
    }

    fn start_with(&self, words: &[&str], input: Stdio) -> Started {
        let told = self.place.path().join("told");
        let code = File::open(self.place.path().join("code")).expect("open the code");
        let status = File::create(&told).expect("make the status file");
        for file in [&code, &status] {
            fcntl_setfd(file, FdFlags::empty()).expect("let the worker inherit it");
        }
        let order = Order {
            code: code.as_raw_fd(),
            status: Some(status.as_raw_fd()),
            listeners: 0,
            root: None,
            cwd: self.folder.clone(),
            preopens: vec!["/etc".into()],
            memory_bytes: self.memory_bytes,
            files: None,
            arguments: ["prog.wasm"].iter().chain(words).map(Into::into).collect(),
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_palisade-worker"))
            .args(order.to_arguments())
            .env_clear()
            .env("GREETING", "hello")
            .env("LISTEN_FDS", "0")
            .current_dir(&self.folder)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the worker");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        Started {
            child,
            stdout: BufReader::new(stdout),
            told,
        }
    }
}

impl Started {
    pub(crate) fn take_input(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("the input is a pipe")
    }

    /// The next line that it writes.
    pub(crate) fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("read of the guest");
        line
    }

    /// Until the guest's first instruction is next.
    pub(crate) fn wait_for_start(&self) {
        while !fs::read_to_string(&self.told).is_ok_and(|told| told.contains("started")) {
            thread::yield_now();
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("end the worker");
    }

    pub(crate) fn wait(mut self) -> Run {
        drop(self.child.stdin.take());
        let mut stderr = self.child.stderr.take().expect("stderr is a pipe");
        let errors = thread::spawn(move || {
            let mut words = String::new();
            stderr.read_to_string(&mut words).map(|_| words)
        });
        let mut stdout = String::new();
        self.stdout
            .read_to_string(&mut stdout)
            .expect("the guest writes text");
        Run {
            status: self.child.wait().expect("wait for the worker"),
            stdout,
            stderr: errors.join().expect("read").expect("the guest writes text"),
            told: status::read(&fs::read_to_string(&self.told).expect("read the status")),
        }
    }
}
