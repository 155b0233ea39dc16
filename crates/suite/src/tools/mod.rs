//! The tools that the runner drives: no wall, palisade, and what people use instead.
//!
//! An adapter turns the grants of a policy into one tool's command line. A grant that the
//! tool has no word for is left out: what it does not offer, it does not hold.
//!
//! firejail is not among them: inside an arena it takes itself for nested and runs the
//! program with no wall at all.

mod bubblewrap;
mod crun;
mod none;
mod palisade;
mod podman;
mod wasm;

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::attack::Attack;
use crate::fixtures::Fixture;
use crate::policy::{Grant, Policy};

pub use podman::{Runtime, Settings};

/// A launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tool {
    /// No wall: fork, exec, wait.
    None,
    /// The same on a host that refuses user namespaces.
    NoneWithoutNamespaces,
    /// `palisade run`.
    Palisade,
    /// `palisade run --allow-degraded namespaces` on a host that refuses user namespaces.
    Bare,
    /// `palisade run` of a module: the wasm wall.
    Wasm,
    /// A module in the wasm wall's worker alone, with the root folder open and nothing around it.
    WorkerAlone,
    /// `bwrap`.
    Bubblewrap,
    /// `crun run`.
    Crun,
    /// `podman run`, with this runtime.
    Podman(Runtime, Settings),
}

/// What to launch, with every template filled in.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) grants: Vec<FilledGrant>,
    /// The guest's arguments, its own name left out.
    pub(crate) guest_arguments: Vec<String>,
    /// Where the suite's programs lie on the host.
    pub(crate) bin: PathBuf,
    /// The suite's own program, `guests/fixtures`.
    pub(crate) fixture_program: PathBuf,
    /// A folder for what the adapter has to write; the launcher will own it.
    pub(crate) folder: PathBuf,
    /// Who starts the launcher.
    pub(crate) uid: u32,
    /// The launcher is started on a terminal.
    pub(crate) has_terminal: bool,
}

/// A grant with its paths filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilledGrant {
    NoSystem,
    Read { host: String, guest: String },
    Write { host: String, guest: String },
    Exec(String),
    Ipc(String),
    Protect(String),
    Hide(String),
    NoGuard,
    Env(String),
    Cwd(String),
    PolicyFile(String),
    Connect(String),
    Listen(String),
    Limit(&'static str, &'static str),
}

impl FilledGrant {
    pub(crate) fn new(grant: Grant, fill: impl Fn(&str) -> String) -> Self {
        match grant {
            Grant::NoSystem => Self::NoSystem,
            Grant::Read(path) => Self::Read {
                host: fill(path),
                guest: fill(path),
            },
            Grant::ReadAt(host, guest) => Self::Read {
                host: fill(host),
                guest: fill(guest),
            },
            Grant::Write(path) => Self::Write {
                host: fill(path),
                guest: fill(path),
            },
            Grant::WriteAt(host, guest) => Self::Write {
                host: fill(host),
                guest: fill(guest),
            },
            Grant::Exec(path) => Self::Exec(fill(path)),
            Grant::Ipc(path) => Self::Ipc(fill(path)),
            Grant::Protect(path) => Self::Protect(fill(path)),
            Grant::Hide(path) => Self::Hide(fill(path)),
            Grant::NoGuard => Self::NoGuard,
            Grant::Env(pair) => Self::Env(fill(pair)),
            Grant::Cwd(path) => Self::Cwd(fill(path)),
            Grant::PolicyFile(path) => Self::PolicyFile(fill(path)),
            Grant::Connect(address) => Self::Connect(fill(address)),
            Grant::Listen(address) => Self::Listen(fill(address)),
            Grant::Limit(name, value) => Self::Limit(name, value),
        }
    }
}

impl Launch {
    fn has_system(&self) -> bool {
        !self.grants.contains(&FilledGrant::NoSystem)
    }

    /// The guest's command line where its folder is at `folder`.
    fn guest_at(&self, folder: &str) -> Vec<String> {
        self.guest_called(&format!("{folder}/hostile"))
    }

    fn guest_called(&self, path: &str) -> Vec<String> {
        let mut words = vec![path.to_owned()];
        words.extend(self.guest_arguments.iter().cloned());
        words
    }
}

impl Tool {
    /// Every tool that has an adapter.
    pub const ALL: [Self; 14] = [
        Self::None,
        Self::NoneWithoutNamespaces,
        Self::Palisade,
        Self::Bare,
        Self::Wasm,
        Self::WorkerAlone,
        Self::Bubblewrap,
        Self::Crun,
        Self::Podman(Runtime::Palisade, Settings::Engine),
        Self::Podman(Runtime::Runc, Settings::Engine),
        Self::Podman(Runtime::Crun, Settings::Engine),
        Self::Podman(Runtime::Palisade, Settings::Pod),
        Self::Podman(Runtime::Runc, Settings::Pod),
        Self::Podman(Runtime::Crun, Settings::Pod),
    ];

    /// As in test names and on the scoreboard: palisade's walls are called `process` and `wasm`, the
    /// tier without namespaces `bare`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::NoneWithoutNamespaces => "none-bare",
            Self::Palisade => "process",
            Self::Bare => "bare",
            Self::Wasm => "wasm",
            Self::WorkerAlone => "none-wasm",
            Self::Bubblewrap => "bubblewrap",
            Self::Crun => "crun",
            Self::Podman(Runtime::Palisade, Settings::Engine) => "podman-palisade",
            Self::Podman(Runtime::Runc, Settings::Engine) => "podman-runc",
            Self::Podman(Runtime::Crun, Settings::Engine) => "podman-crun",
            Self::Podman(Runtime::Palisade, Settings::Pod) => "pod-palisade",
            Self::Podman(Runtime::Runc, Settings::Pod) => "pod-runc",
            Self::Podman(Runtime::Crun, Settings::Pod) => "pod-crun",
        }
    }

    /// The tool of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Whether nothing stands between the guest and the arena.
    #[must_use]
    pub const fn is_no_wall(self) -> bool {
        matches!(
            self,
            Self::None | Self::NoneWithoutNamespaces | Self::WorkerAlone
        )
    }

    /// Whether its guest is the module, not the program.
    #[must_use]
    pub const fn runs_modules(self) -> bool {
        matches!(self, Self::Wasm | Self::WorkerAlone)
    }

    /// Whether it starts on a host that refuses user namespaces.
    #[must_use]
    pub const fn lacks_namespaces(self) -> bool {
        matches!(self, Self::NoneWithoutNamespaces | Self::Bare)
    }

    /// Whether an engine starts a container.
    #[must_use]
    pub const fn is_container(self) -> bool {
        matches!(self, Self::Podman(..))
    }

    /// Why it cannot be driven here, though it may be installed.
    #[must_use]
    pub fn lacks(self) -> Option<String> {
        match self {
            Self::Podman(..) if self.find().is_some() => podman::lacks(),
            _ => None,
        }
    }

    /// Why it has no words for what `attack` is granted under `policy`. The other tools leave out what they have no
    /// word for: what they do not offer they do not hold.
    #[must_use]
    pub fn refusal(self, attack: &Attack, policy: Policy) -> Option<&'static str> {
        if !self.is_container() {
            return None;
        }
        let accomplices = attack.fixtures.iter().flat_map(|fixture| match fixture {
            Fixture::Accomplice(grants) => *grants,
            _ => &[],
        });
        let mut grants = attack
            .grants(policy)
            .into_iter()
            .chain(accomplices.copied());
        grants.find_map(|grant| podman::refusal(&FilledGrant::new(grant, str::to_owned), policy))
    }

    /// No wall on the same host: what an attack must overcome there for a denial to count.
    #[must_use]
    pub const fn without_wall(self) -> Self {
        if self.lacks_namespaces() {
            Self::NoneWithoutNamespaces
        } else if self.runs_modules() {
            Self::WorkerAlone
        } else {
            Self::None
        }
    }

    /// Its executable on this machine; without a wall there is none.
    #[must_use]
    pub fn find(self) -> Option<PathBuf> {
        match self {
            Self::None | Self::NoneWithoutNamespaces => None,
            Self::Palisade | Self::Bare | Self::Wasm => palisade::find(),
            Self::WorkerAlone => palisade::find_part(wasm::WORKER),
            Self::Bubblewrap => on_path("bwrap"),
            Self::Crun => on_path("crun"),
            Self::Podman(runtime, _) => runtime.find(),
        }
    }

    /// Makes the arena a place where the tool starts.
    pub(crate) fn prepare_arena(self) -> io::Result<()> {
        match self {
            Self::Crun => crun::prepare_arena(),
            Self::Podman(..) => podman::prepare_arena()?,
            _ => {}
        }
        Ok(())
    }

    /// What is started of `installed`, where a run may overwrite it: a copy in `case`, if so.
    pub(crate) fn copy_to_lose(self, installed: &Path, case: &Path) -> io::Result<Option<PathBuf>> {
        match self {
            Self::Palisade | Self::Bare => {
                let copy = case.join("launcher");
                fs::copy(installed, &copy)?;
                Ok(Some(copy))
            }
            Self::Podman(runtime, _) => {
                podman::copy_runtime(runtime, installed, &case.join("launcher")).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Puts beside the tool's executable in `folder` what it needs there, and makes what the guests take.
    ///
    /// # Errors
    ///
    /// If something can't be copied. What is not built is left out: the runs say so.
    pub fn equip(self, folder: &Path) -> io::Result<()> {
        if self == Self::Wasm {
            wasm::equip(folder)?;
        }
        Ok(())
    }

    /// The whole command line, from `program` on.
    pub(crate) fn command_line(self, program: &Path, launch: &Launch) -> Vec<String> {
        match self {
            Self::None | Self::NoneWithoutNamespaces => none::command_line(launch),
            Self::Palisade => palisade::command_line(program, launch),
            Self::Bare => palisade::command_line_bare(program, launch),
            Self::Wasm => palisade::command_line_of_module(program, launch),
            Self::WorkerAlone => wasm::command_line(launch),
            Self::Bubblewrap => bubblewrap::command_line(program, launch),
            Self::Crun => crun::command_line(program, launch),
            Self::Podman(_, settings) => podman::command_line(program, settings, launch),
        }
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
