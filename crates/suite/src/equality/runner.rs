//! Runs cases: a folder for each, with the same files behind both walls, looked at afterwards.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::folder::{lay, open};
use super::policy_file::PolicyFile;
use super::run::{exit_code, run};
use super::survey::survey;
use super::{Case, Observation, Wall, is_in_go};
use crate::BUILT;
use crate::executable::copy_program;
use crate::modules::{Module, Shown};
use crate::policy::Grant;
use crate::ports::free_ports;
use crate::tools::{FilledGrant, Tool};
use crate::user::{self, User};

/// What cases run.
const GUESTS: [&str; 4] = [
    "portable",
    "portable.wasm",
    "portable-go",
    "portable-go.wasm",
];
/// Runs cases below one folder, with copies of all programs where every user reaches them.
#[derive(Debug)]
pub struct CaseRunner {
    base: TempDir,
    palisade: PathBuf,
}

impl CaseRunner {
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
                copy_program(&guest, &base.path().join("bin").join(name))?;
            }
        }
        let built = Tool::Palisade.find().ok_or_else(|| {
            io::Error::other("palisade is not there: build it (cargo build --workspace --bins) or set PALISADE_BIN")
        })?;
        let palisade = base.path().join("tools/palisade");
        copy_program(&built, &palisade)?;
        for name in ["palisade-worker", "palisade-compiler"] {
            let part = built.with_file_name(name);
            if part.is_file() {
                copy_program(&part, &base.path().join("tools").join(name))?;
            }
        }
        Ok(Self { base, palisade })
    }

    /// Runs the case once behind `wall`.
    ///
    /// # Errors
    ///
    /// If the folder can't be laid or palisade not be started.
    pub fn observe(&self, case: &Case, wall: Wall, user: User) -> io::Result<Observation> {
        let cache = self.cache(user)?;
        // Each run's path is as long as every other's.
        let folder = tempfile::Builder::new()
            .prefix("case-")
            .tempdir_in(self.base.path())?;
        let port = free_ports(1);
        let fill = |template: &str| {
            template
                .replace("{base}", &folder.path().display().to_string())
                .replace("{port}", &port.to_string())
        };
        lay(folder.path(), fill)?;
        let policy = folder.path().join("policy.toml");
        fs::write(&policy, self.policy(case.policy, fill))?;
        user::give_away(folder.path(), user.id_to_take())?;

        let before = survey(folder.path())?;
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
        user::start_as(&mut command, user.id_to_take());
        let ended = run(command, case, port)?;
        let after = survey(folder.path())?;
        Ok(Observation::new(&ended, &before, &after, folder.path()))
    }

    /// Runs a module that was made for it.
    ///
    /// # Errors
    ///
    /// If it can't be laid or palisade not be started.
    pub fn run_module(&self, module: &Module, user: User) -> io::Result<Shown> {
        let cache = self.cache(user)?;
        let folder = tempfile::Builder::new()
            .prefix("module-")
            .tempdir_in(self.base.path())?;
        open(folder.path())?;
        let file = folder.path().join("module.wasm");
        fs::write(&file, &module.bytes)?;
        let policy = folder.path().join("policy.toml");
        fs::write(&policy, self.policy(module.policy, str::to_owned))?;
        let mut command = Command::new(&self.palisade);
        command.arg("run").arg("--policy").arg(&policy).arg("--");
        command.arg(&file);
        command
            .current_dir("/")
            .env_clear()
            .env("XDG_CACHE_HOME", cache);
        user::start_as(&mut command, user.id_to_take());
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
        let mut policy = PolicyFile::default();
        policy.grant(
            "read",
            &format!("{}:/guest", self.base.path().join("bin").display()),
        );
        for grant in grants {
            policy.add(&FilledGrant::new(*grant, &fill));
        }
        policy.text()
    }

    /// Where palisade keeps compiled code: a folder of the user's.
    fn cache(&self, user: User) -> io::Result<PathBuf> {
        let folder = self.base.path().join(format!("cache-{}", user.name()));
        fs::create_dir_all(&folder)?;
        // The folder alone: what lies in it is the user's already, and comes and goes while other cases run.
        if let Some(id) = user.id_to_take() {
            lchown(&folder, Some(id), Some(id))?;
        }
        Ok(folder)
    }

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
