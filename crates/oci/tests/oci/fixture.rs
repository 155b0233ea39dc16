//! A bundle under construction, and the runtime around it.

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    process::{Pid, PidfdFlags},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Ordinary,
}

const NOBODY: u32 = 65534;
/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Whether this process is root of all users; what takes that is not run by others.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Those who can run it here.
pub(crate) fn users() -> Vec<User> {
    match is_root() {
        true => vec![User::Root, User::Ordinary],
        false => vec![User::Ordinary],
    }
}

/// A bundle whose image is a few folders into which the host's programs are mounted.
pub(crate) struct Bundle {
    pub(crate) config: Value,
    pub(crate) id: String,
    folder: TempDir,
    user: User,
}

impl Bundle {
    /// One that runs a shell's script.
    pub(crate) fn new(user: User, script: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::Builder::new()
            .prefix("palisade-oci-")
            .tempdir_in("/var/tmp")
            .unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let rootfs = folder.path().join("rootfs");
        for name in ["usr", "proc", "dev", "sys", "tmp", "etc", "run", "work"] {
            fs::create_dir_all(rootfs.join(name)).unwrap();
        }
        for name in ["bin", "sbin", "lib", "lib64"] {
            std::os::unix::fs::symlink(format!("usr/{name}"), rootfs.join(name)).unwrap();
        }
        let runtime = folder.path().join("palisade-oci");
        // By another process: one of this one's children could have the file open for writing while it is executed.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_palisade-oci"))
            .arg(&runtime)
            .status();
        assert!(copied.unwrap().success());
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("palisade-test-{}-{count}", std::process::id());
        let mut bundle = Self {
            config: config(script, &id),
            id,
            folder,
            user,
        };
        if user == User::Ordinary {
            bundle.map_nobody();
        }
        bundle
    }

    /// A user namespace in which root is that user.
    fn map_nobody(&mut self) {
        let own = match is_root() {
            true => NOBODY,
            false => rustix::process::geteuid().as_raw(),
        };
        let mapping = json!([{ "containerID": 0, "hostID": own, "size": 1 }]);
        let linux = &mut self.config["linux"];
        linux["uidMappings"] = mapping.clone();
        linux["gidMappings"] = mapping;
        linux["namespaces"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "type": "user" }));
        linux.as_object_mut().unwrap().remove("cgroupsPath");
        if is_root() {
            for entry in ["", "rootfs"] {
                let path = self.folder.path().join(entry);
                rustix::fs::chown(
                    &path,
                    Some(rustix::fs::Uid::from_raw(NOBODY)),
                    Some(rustix::fs::Gid::from_raw(NOBODY)),
                )
                .unwrap();
            }
            for entry in fs::read_dir(self.rootfs()).unwrap() {
                let path = entry.unwrap().path();
                rustix::fs::chownat(
                    rustix::fs::CWD,
                    &path,
                    Some(rustix::fs::Uid::from_raw(NOBODY)),
                    Some(rustix::fs::Gid::from_raw(NOBODY)),
                    rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
                )
                .unwrap();
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn rootfs(&self) -> PathBuf {
        self.path().join("rootfs")
    }

    pub(crate) fn mount(&mut self, mount: Value) -> &mut Self {
        self.config["mounts"].as_array_mut().unwrap().push(mount);
        self
    }

    /// The administrator's folder.
    pub(crate) fn administrator(&self) -> PathBuf {
        self.path().join("administrator")
    }

    /// Has these annotations count.
    pub(crate) fn allow(&self, annotations: &[&str]) {
        fs::create_dir_all(self.administrator().join("policies")).unwrap();
        let text = format!("annotations = {annotations:?}\n");
        fs::write(self.administrator().join("containers.toml"), text).unwrap();
    }

    /// The runtime, with what all commands of this test have in common.
    pub(crate) fn runtime(&self) -> Command {
        let state = self.path().join("state");
        let mut command = Command::new(self.path().join("palisade-oci"));
        command
            .arg("--root")
            .arg(state)
            .env("PALISADE_CONTAINERS", self.administrator())
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .stdin(Stdio::null())
            .current_dir(self.path());
        if self.user == User::Ordinary && is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    pub(crate) fn write(&self) {
        let text = serde_json::to_vec_pretty(&self.config).unwrap();
        fs::write(self.path().join("config.json"), text).unwrap();
    }

    /// Runs it to its end.
    pub(crate) fn run(&self) -> Outcome {
        self.write();
        self.ask(&["run", &self.id])
    }

    /// Runs one command about it. What it says goes to files: a container that is created keeps pipes open.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Outcome {
        let [out, err] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        let mut child = self
            .runtime()
            .args(arguments)
            .stdout(out.try_clone().unwrap())
            .stderr(err.try_clone().unwrap())
            .spawn()
            .unwrap();
        let process = rustix::process::pidfd_open(
            Pid::from_raw(child.id() as i32).unwrap(),
            PidfdFlags::empty(),
        )
        .unwrap();
        let timeout = Timespec::try_from(PATIENCE).unwrap();
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        let has_ended = rustix::event::poll(&mut fds, Some(&timeout)).unwrap() > 0;
        if !has_ended {
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        let read = |mut file: File| {
            let mut text = Vec::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        };
        let outcome = Outcome {
            code: status.code(),
            stdout: read(out),
            stderr: read(err),
        };
        assert!(has_ended, "{arguments:?} does not end: {outcome:?}");
        outcome
    }

    pub(crate) fn state(&self) -> Value {
        let outcome = self.ask(&["state", &self.id]);
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"))
    }

    pub(crate) fn status(&self) -> String {
        self.state()["status"].as_str().unwrap().to_owned()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.state()["pid"].as_i64().unwrap() as i32
    }

    /// Waits until it says so.
    pub(crate) fn wait_until(&self, status: &str) {
        wait_for(|| self.status() == status, status);
    }
}

impl Drop for Bundle {
    /// Whatever a test did, nothing is left.
    fn drop(&mut self) {
        let outcome = self.ask(&["delete", "--force", &self.id]);
        if !std::thread::panicking() {
            let runtime = fs::canonicalize(self.path().join("palisade-oci")).unwrap();
            wait_for(|| !runs(&runtime), "the end of the last process");
        }
        let left = fs::exists(Path::new("/sys/fs/cgroup/pids").join(&self.id));
        if !std::thread::panicking() {
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            assert!(!left.unwrap(), "a control group is left: {outcome:?}");
        }
    }
}

/// Whether any process executes this file.
pub(crate) fn runs(program: &Path) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let mut programs = entries.filter_map(|entry| fs::read_link(entry.path().join("exe")).ok());
    programs.any(|executed| executed == program)
}

/// Looks until it is so.
pub(crate) fn wait_for(mut is_so: impl FnMut() -> bool, what: &str) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what} does not come");
        std::thread::yield_now();
    }
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    #[track_caller]
    pub(crate) fn refused_with(&self, words: &str) {
        assert_ne!(self.code, Some(0), "{self:?}");
        assert!(self.stderr.contains(words), "{words:?} is not in {self:?}");
    }
}

fn config(script: &str, id: &str) -> Value {
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": ["/bin/sh", "-c", script],
            "env": ["PATH=/usr/bin:/bin", "TERM=xterm"],
            "cwd": "/",
            "capabilities": {},
            "noNewPrivileges": true,
        },
        "root": { "path": "rootfs", "readonly": false },
        "hostname": "inside",
        "mounts": [
            { "destination": "/usr", "source": "/usr", "options": ["rbind", "ro"] },
            { "destination": "/proc", "type": "proc", "source": "proc" },
            {
                "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
            },
            {
                "destination": "/dev/pts", "type": "devpts", "source": "devpts",
                "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
            },
        ],
        "linux": {
            "cgroupsPath": format!("/{id}"),
            "namespaces": [
                { "type": "pid" }, { "type": "ipc" }, { "type": "uts" },
                { "type": "mount" }, { "type": "network" },
            ],
            "maskedPaths": ["/proc/kcore", "/proc/acpi"],
            "readonlyPaths": ["/proc/sys", "/proc/bus"],
        },
    })
}
