//! The throwaway sandbox around every run.
//!
//! `unshare` gives it pid, mount, uts, ipc and net namespaces; its PID 1 is the
//! [`crate::warden`]. A control group of the suite's own bounds its memory and processes,
//! `timeout` its time. Started by an ordinary user it is in a user namespace too.
//!
//! It does not protect what has no namespace: attacks on the clock, on modules or on
//! global settings only try whether they get through, and change nothing.

mod outer;

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use outer::OuterGroups;

use crate::BUILT;
use crate::attack::Attack;
use crate::executable::copy_program;
use crate::fixtures::CACHES;
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::tools::Tool;
use crate::user::{User, give_away};
use crate::warden::{Order, SECRET, TOKEN};

/// Seconds until the watchdog ends an arena, and until it kills it.
const WATCHDOG: [&str; 2] = ["30", "2"];
/// Enters each control group given before `--`, then executes the rest.
const ENTER_GROUPS: &str =
    r#"while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs"; shift; done; shift; exec "$@""#;
const NAMESPACES: &[&str] = &[
    "--fork",
    "--pid",
    "--mount",
    "--uts",
    "--ipc",
    "--net",
    "--mount-proc",
    "--kill-child=SIGKILL",
];
const AS_ORDINARY_USER: &[&str] = &["--user", "--map-current-user", "--keep-caps"];

/// A place for arenas: the programs that they need, and their outer limits.
#[derive(Debug)]
pub struct Arenas {
    base: TempDir,
    groups: OuterGroups,
}

impl Arenas {
    /// Copies the guests, and those of `tools` that are installed, to where every user can
    /// reach them.
    ///
    /// # Errors
    ///
    /// If the copies cannot be made. Missing control groups are no error: `timeout` and the
    /// guests' own bounds remain.
    pub fn prepare(tools: &[Tool]) -> io::Result<Self> {
        // Not below /tmp: every arena has a /tmp of its own.
        let base = tempfile::Builder::new()
            .prefix("palisade-suite-")
            .tempdir_in("/var/tmp")?;
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755));
        open(base.path())?;
        for folder in ["bin", "tools", "case"] {
            fs::create_dir(base.path().join(folder))?;
            open(&base.path().join(folder))?;
        }
        fs::create_dir(base.path().join("disk"))?;
        fs::set_permissions(base.path().join("disk"), fs::Permissions::from_mode(0o700))?;
        let built = Path::new(BUILT);
        for guest in
            ["hostile", "hostile-dynamic", "hostile32", "hostile.wasm"].map(|name| built.join(name))
        {
            if guest.is_file() {
                copy_into(&guest, &base.path().join("bin"))?;
            }
        }
        copy_into(&built.join("fixture"), &base.path().join("tools"))?;
        for tool in tools {
            if let Some(program) = tool.find() {
                let copy = base.path().join("tools").join(tool.name());
                copy_program(&program, &copy)?;
                strip(&copy);
                tool.equip(&base.path().join("tools"))?;
            }
        }
        for user in User::BOTH {
            make_cache(&base.path().join(CACHES).join(user.name()), user)?;
        }
        Ok(Self {
            base,
            groups: OuterGroups::make(tools.iter().any(|tool| tool.is_container())),
        })
    }

    /// Makes one run in an arena of its own.
    #[must_use]
    pub fn run(&self, tool: Tool, row: &Attack, policy: Policy, user: User) -> Outcome {
        let made = self.try_run(tool, row, policy, user);
        made.unwrap_or_else(|e| Outcome::void(format!("the arena could not be made: {e}")))
    }

    fn try_run(&self, tool: Tool, row: &Attack, policy: Policy, user: User) -> io::Result<Outcome> {
        let order = Order {
            tool,
            attack: row.clone(),
            policy,
            user,
            base: self.base.path().to_owned(),
            nonce: random_word()?,
        };
        let result = self
            .command(&order)?
            .env(SECRET, random_word()?)
            .env(TOKEN, random_word()?)
            .stdin(Stdio::null())
            .output()?;
        // There is one where the files could not be made in memory.
        let _ = fs::remove_dir_all(self.base.path().join("disk").join(&order.nonce));
        let line = String::from_utf8_lossy(&result.stdout);
        serde_json::from_str(line.trim_end()).map_err(|_| {
            io::Error::other(format!(
                "{}: {line}{}",
                result.status,
                String::from_utf8_lossy(&result.stderr)
            ))
        })
    }

    fn command(&self, order: &Order) -> io::Result<Command> {
        let mut command = Command::new("sh");
        command
            .args(["-c", ENTER_GROUPS, "arena"])
            .args(self.groups.paths())
            .arg("--");
        command
            .args(["timeout", "-k", WATCHDOG[1], WATCHDOG[0], "unshare"])
            .args(NAMESPACES);
        if order.tool.is_container() {
            command.arg("--cgroup");
        }
        if !rustix::process::geteuid().is_root() {
            command.args(AS_ORDINARY_USER);
        }
        command
            .arg("--")
            .arg(std::env::current_exe()?)
            .args(order.to_arguments());
        Ok(command)
    }
}

/// Where a user's palisade keeps compiled code: all runs share it, or each would compile the module anew.
fn make_cache(folder: &Path, user: User) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    give_away(folder, user.id_to_take())
}

/// Takes the symbols out of a program that each run copies once more: most of a debug build is these.
fn strip(program: &Path) {
    // Where there is no strip(1), or the tool is a script, the copies are larger.
    let mut command = Command::new("strip");
    command.arg(program).stdin(Stdio::null());
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

fn copy_into(file: &Path, folder: &Path) -> io::Result<()> {
    let name = file.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    copy_program(file, &folder.join(name))
}

/// 128 random bits in hexadecimal.
fn random_word() -> io::Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
