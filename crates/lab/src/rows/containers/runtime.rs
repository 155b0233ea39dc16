//! A runtime of the runtime specification's kind, and a container that it has made.

use crate::{Warning, rows::Tools, subjects::server_program, workloads::Workloads};
use anyhow::{Context, bail, ensure};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, geteuid, pidfd_open},
};
use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

pub(super) const OURS: &str = "palisade-oci";
/// Beside it: name and Debian's package.
const OTHERS: [(&str, &str); 2] = [
    ("runc", "apt-get install runc"),
    ("crun", "apt-get install crun"),
];
/// How long a container may take to end that has nothing to do.
const PATIENCE: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    pub(super) name: &'static str,
    program: PathBuf,
    /// Where it keeps state, and the lab its log and pid files.
    room: PathBuf,
}

/// A container, until it is deleted; what is left at the end is deleted by force.
pub(super) struct Container<'a> {
    runtime: &'a Runtime,
    id: String,
    /// Its first process, as an engine knows it.
    pid: Pid,
    pidfd: OwnedFd,
    is_there: bool,
}

/// What is asked for takes a user who may make control groups and namespaces.
pub(super) fn ensure_root() -> anyhow::Result<()> {
    ensure!(
        geteuid().is_root(),
        "host: this row measures containers of root's: run it as root"
    );
    Ok(())
}

/// Those that are installed.
pub(super) fn find(
    tools: &Tools,
    workloads: &Workloads,
    warnings: &mut Vec<Warning>,
) -> anyhow::Result<Vec<Runtime>> {
    let palisade = tools.palisade.program();
    let program = palisade.with_file_name(OURS);
    ensure!(
        program.is_file(),
        "host: there is no palisade-oci beside {}: make build",
        palisade.display()
    );
    let mut runtimes = vec![Runtime::new(OURS, program, workloads)?];
    for (name, install) in OTHERS {
        match server_program(name) {
            Some(program) => runtimes.push(Runtime::new(name, program, workloads)?),
            None => warnings.push(Warning::ProgramAbsent {
                program: name,
                install,
            }),
        }
    }
    Ok(runtimes)
}

impl Runtime {
    fn new(name: &'static str, program: PathBuf, workloads: &Workloads) -> anyhow::Result<Self> {
        let room = workloads.folder().join(format!("{name}-state"));
        fs::create_dir_all(&room).context("host: cannot make a folder for the state")?;
        Ok(Self {
            name,
            program,
            room,
        })
    }

    /// A name that no other container has.
    pub(super) fn new_id(&self) -> String {
        static CONTAINERS: AtomicUsize = AtomicUsize::new(0);
        let number = CONTAINERS.fetch_add(1, Ordering::Relaxed);
        format!("palisade-lab-{}-{number}", std::process::id())
    }

    /// Its commands' streams are the container's: errors come by its log.
    fn command(&self, id: &str, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--root").arg(self.room.join("containers"));
        command.arg("--log").arg(self.log(id));
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn log(&self, id: &str) -> PathBuf {
        self.room.join(format!("{id}.log"))
    }

    fn pid_file(&self, id: &str) -> PathBuf {
        self.room.join(format!("{id}.pid"))
    }

    /// Begins to run a command on a container.
    fn begin(&self, id: &str, words: &[&str]) -> anyhow::Result<Child> {
        let begun = self.command(id, words).spawn();
        begun.with_context(|| format!("host: cannot run {}", self.program.display()))
    }

    /// Waits for it.
    pub(super) fn finish(&self, id: &str, mut child: Child) -> anyhow::Result<()> {
        let status = child.wait().context("host: cannot wait for a process")?;
        if !status.success() {
            let said = fs::read_to_string(self.log(id)).unwrap_or_default();
            let last = said.lines().last().unwrap_or("it says nothing");
            bail!("{}: {status}: {last}", self.name);
        }
        Ok(())
    }

    fn run(&self, id: &str, words: &[&str]) -> anyhow::Result<()> {
        self.finish(id, self.begin(id, words)?)
    }

    /// Begins to make a container of a bundle.
    pub(super) fn begin_create(&self, bundle: &Path, id: &str) -> anyhow::Result<Child> {
        let (bundle, pid_file) = (bundle.to_string_lossy(), self.pid_file(id));
        let pid_file = pid_file.to_string_lossy();
        self.begin(
            id,
            &["create", "--bundle", &bundle, "--pid-file", &pid_file, id],
        )
    }

    /// Makes a container of a bundle; its program is not started.
    pub(super) fn create(&self, bundle: &Path) -> anyhow::Result<Container<'_>> {
        let id = self.new_id();
        let child = self.begin_create(bundle, &id)?;
        self.created(id, child)
    }

    /// The container that a `create` has begun.
    pub(super) fn created(&self, id: String, child: Child) -> anyhow::Result<Container<'_>> {
        self.finish(&id, child)?;
        let text = fs::read_to_string(self.pid_file(&id)).context("no pid file")?;
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{}: no pid: {text:?}", self.name))?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty());
        Ok(Container {
            runtime: self,
            id,
            pid,
            pidfd: pidfd.context("host: cannot watch a process")?,
            is_there: true,
        })
    }
}

impl Container<'_> {
    pub(super) fn start(&self) -> anyhow::Result<()> {
        self.runtime.run(&self.id, &["start", &self.id])
    }

    /// Begins to start it.
    pub(super) fn begin_start(&self) -> anyhow::Result<Child> {
        self.runtime.begin(&self.id, &["start", &self.id])
    }

    /// Begins to end and delete it.
    pub(super) fn begin_end(&mut self) -> anyhow::Result<Child> {
        self.is_there = false;
        self.runtime
            .begin(&self.id, &["delete", "--force", &self.id])
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_pid().cast_unsigned()
    }

    /// Whether its first process has ended by now.
    pub(super) fn has_ended(&self) -> anyhow::Result<bool> {
        self.ends_within(&Timespec::default())
    }

    /// Waits until its program has ended by itself.
    pub(super) fn wait(&self) -> anyhow::Result<()> {
        let ended = self.ends_within(&PATIENCE)?;
        ensure!(ended, "{}: the container does not end", self.runtime.name);
        Ok(())
    }

    fn ends_within(&self, time: &Timespec) -> anyhow::Result<bool> {
        let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let ready = poll(&mut watched, Some(time)).context("host: cannot wait for a process")?;
        Ok(ready > 0)
    }

    pub(super) fn delete(mut self) -> anyhow::Result<()> {
        self.is_there = false;
        let deleted = self.runtime.run(&self.id, &["delete", &self.id]);
        self.is_there = deleted.is_err();
        deleted
    }

    /// Where palisade-oci's keeper is: it is no relative of the container's.
    pub(super) fn keeper(&self) -> anyhow::Result<Option<u32>> {
        if self.runtime.name != OURS {
            return Ok(None);
        }
        let state = self
            .runtime
            .room
            .join("containers")
            .join(&self.id)
            .join("state.json");
        let text = fs::read(&state).context("host: no state of a container")?;
        let state: serde_json::Value = serde_json::from_slice(&text)?;
        let keeper = state["keeper"]["pid"].as_u64();
        let keeper = keeper.context("the state of a container names no keeper")?;
        Ok(Some(u32::try_from(keeper)?))
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        if self.is_there {
            // What failed before is what is told.
            let _ = self.runtime.run(&self.id, &["delete", "--force", &self.id]);
        }
        for file in [self.runtime.log(&self.id), self.runtime.pid_file(&self.id)] {
            let _ = fs::remove_file(file);
        }
    }
}
