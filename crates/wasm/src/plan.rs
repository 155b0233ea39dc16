//! The plan: the process wall's for the worker, and what the worker is told. Pure data.

use crate::{
    module::{Kind, Module},
    order::Order,
    programs::{ProgramInReach, Programs, WORKER},
};
use palisade_policy::{
    Access, Capability, ConnectGrant, DeviceGrant, FileGrant, ListenGrant, Policy, Profile,
    write_line,
};
use palisade_process::{
    EntryKind, Host, Kind as FileKind, Machine, Tier,
    plan::{self as process, Instructions, Options, PlanError, Runner, Step},
};
use palisade_wall::{Enforcement, Level, Spec};
use serde::Serialize;
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

/// What reports call it.
pub(crate) const NAME: &str = "wasm";

/// Where the worker finds itself. Not below a folder: no preopen leads there.
const WORKER_INSIDE: &str = "/.palisade-worker";
/// Descriptors that the worker needs beside the guest's.
const OWN_FILES: u64 = 32;
/// Threads that the worker may need beside the guest's one.
const OWN_THREADS: u64 = 16;
/// What of a policy the worker holds itself.
const HOLDS: [(&str, &str); 2] = [
    ("processes", "WASI starts none"),
    ("files", "the worker counts the guest's"),
];
/// The kernel's, never the guest's.
const KERNEL_FOLDERS: [&str; 2] = ["/proc", "/sys"];

/// Every step of one launch.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// What runs.
    pub module: Module,
    /// Grants that mean nothing to this guest.
    pub notes: Vec<String>,
    /// What the worker is told.
    #[serde(serialize_with = "as_words")]
    pub order: Order,
    /// The domain of the worker.
    pub worker: process::Plan,
    #[serde(skip)]
    pub(crate) programs: Programs,
    #[serde(skip)]
    pub(crate) allow_degraded: BTreeSet<Capability>,
}

/// The policy can't be carried out for a WebAssembly guest.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum WasmPlanError {
    #[error(transparent)]
    Process(#[from] PlanError),
    #[error(transparent)]
    ProgramInReach(#[from] ProgramInReach),
    #[error(
        "policy: {} lies right below /, where a WebAssembly guest finds no file: grant it below a folder \
         (HOST:/FOLDER/NAME), or start the guest in / (--cwd /)",
        path.display()
    )]
    FileInRoot { path: PathBuf },
    #[error(
        "policy: a WebAssembly guest cannot have {what}: {why}; leave it out, or run a native program"
    )]
    NotOffered {
        what: &'static str,
        why: &'static str,
    },
}

/// Makes a plan.
///
/// # Errors
///
/// When the process wall has none, or the policy grants what a WebAssembly guest would need and can't
/// have.
pub fn make_plan(
    module: Module,
    spec: &Spec<'_, Machine>,
    host: &dyn Host,
    programs: &Programs,
) -> Result<Plan, WasmPlanError> {
    let policy = spec.policy;
    refuse(policy)?;
    policy.validate().map_err(PlanError::from)?;
    process::refuse_proc(policy, host)?;
    let root = granted_root(policy);
    let told = OnceCell::new();
    let instruct = |worker: &process::Plan, place: Option<&Path>| {
        let order = told.get_or_init(|| Order {
            root: place.map(Path::to_path_buf),
            ..order(worker, root, spec, host)
        });
        instructions(order)
    };
    let runner = Runner {
        wall: NAME,
        file: &programs.worker,
        inside: Path::new(WORKER_INSIDE),
        threads: OWN_THREADS,
        holds: &HOLDS,
        enforcement: &enforcement(spec.machine.tier == Tier::Bare),
        instruct: &instruct,
    };
    let options = Options {
        without_proc: true,
        runner: Some(runner),
        ..Options::default()
    };
    let worker = process::make_plan(spec, host, &options);
    let worker = worker.map_err(|error| name_worker(error, &programs.worker))?;
    refuse_files_in_root(&worker, root)?;
    Ok(Plan {
        notes: notes(policy, module.kind),
        module,
        order: told.into_inner().unwrap_or_default(),
        worker,
        programs: programs.clone(),
        allow_degraded: policy.allow_degraded.clone(),
    })
}

/// The grant of the worker's own file is not the user's to change.
fn name_worker(error: PlanError, worker: &Path) -> WasmPlanError {
    match error {
        PlanError::ExecutableByAnotherName { other, .. } if other == Path::new(WORKER_INSIDE) => {
            let path = worker.into();
            ProgramInReach { path }.into()
        }
        error => error.into(),
    }
}

/// The folder that the policy makes the guest's root.
fn granted_root(policy: &Policy) -> Option<&FileGrant> {
    policy.grants.files.iter().find(|grant| grant.is_root())
}

fn instructions(order: &Order) -> Instructions {
    let name = std::iter::once(WORKER.into());
    Instructions {
        arguments: name.chain(order.to_arguments()).collect(),
        files: order.folders().count() as u64 + OWN_FILES,
    }
}

/// Refuses what the guest would rely on and could not get.
///
/// # Errors
///
/// When the policy grants such a thing.
pub fn refuse(policy: &Policy) -> Result<(), WasmPlanError> {
    let not_offered = |what, why| Err(WasmPlanError::NotOffered { what, why });
    if policy.grants.profiles.contains(&Profile::Palisade) {
        return not_offered(
            "a palisade of its own (profile `palisade`)",
            "it starts no processes",
        );
    }
    if policy.grants.devices.iter().any(DeviceGrant::is_pts) {
        return not_offered(
            "terminals of its own (device `pts`)",
            "WASI has no call that makes one",
        );
    }
    Ok(())
}

/// A file has no folder that could be opened in its stead, and the guest's `/` is not open to it.
fn refuse_files_in_root(
    worker: &process::Plan,
    root: Option<&FileGrant>,
) -> Result<(), WasmPlanError> {
    if worker.cwd == Path::new("/") || root.is_some() {
        return Ok(());
    }
    let folders = folders_in_root(worker);
    let mut mounts = worker.steps.iter().filter_map(|step| match step {
        Step::Mount { target, .. } => Some(target.as_path()),
        _ => None,
    });
    let is_file = |path: &&Path| {
        let is_own = *path == Path::new(WORKER_INSIDE);
        !is_own && path.components().count() == 2 && !folders.contains_key(*path)
    };
    match mounts.find(is_file) {
        Some(path) => Err(WasmPlanError::FileInRoot { path: path.into() }),
        None => Ok(()),
    }
}

fn order(
    worker: &process::Plan,
    root: Option<&FileGrant>,
    spec: &Spec<'_, Machine>,
    host: &dyn Host,
) -> Order {
    const STANDARD_STREAMS: usize = 3;
    let listeners = worker.count_listeners();
    let next = (STANDARD_STREAMS + listeners) as i32;
    let mut order = Order {
        code: next,
        status: Some(next + 1),
        listeners: listeners as i32,
        root: None,
        cwd: worker.cwd.clone(),
        preopens: preopens(worker, root, host),
        // The process wall holds it, for the domain as a whole.
        memory_bytes: None,
        files: None,
        arguments: std::iter::once(&spec.command.program)
            .chain(&spec.command.arguments)
            .cloned()
            .collect(),
    };
    // A native program has none of these, and the limit is about what it opens.
    let opened_for_it = order.folders().count() as u64;
    let files = spec.policy.limits.files;
    order.files = files.map(|files| files.saturating_add(opened_for_it));
    order
}

/// The working directory: where Go's programs begin, and Zig's. Then all below which absolute paths are found.
fn preopens(worker: &process::Plan, root: Option<&FileGrant>, host: &dyn Host) -> Vec<PathBuf> {
    let cwd = in_no_path(&worker.cwd);
    let folders = match root {
        Some(root) => folders_of_granted_root(worker, &root.host, host),
        None => folders_of_own_root(worker, host),
    };
    cwd.into_iter().chain(folders).collect()
}

/// A name of a folder that no path of a guest's begins with: `/a/./b`. A path that climbs out of the working
/// directory is to be found by the folders of the root; and to Go `/work` would begin `/workshop`, too.
pub fn in_no_path(folder: &Path) -> Option<PathBuf> {
    let (parent, name) = (folder.parent()?, folder.file_name()?);
    let mut path = parent.join(".").into_os_string();
    path.push("/");
    path.push(name);
    Some(path.into())
}

/// Its root alone, if the guest starts there. Elsewhere a C program finds no absolute path below the root.
fn folders_of_granted_root(worker: &process::Plan, root: &Path, host: &dyn Host) -> Vec<PathBuf> {
    let top = PathBuf::from("/");
    if worker.cwd == top {
        return vec![top];
    }
    // No link: it might lead anywhere, and the worker follows none here.
    let entries = host.entries(root).into_iter();
    let below = entries.filter(|entry| entry.kind == EntryKind::Folder);
    let below = below
        .map(|entry| top.join(entry.name))
        .filter(|path| !is_kernels(path));
    std::iter::once(top.clone()).chain(below).collect()
}

/// The folders right below the domain's root. Where nothing is mounted, the folders that were granted.
fn folders_of_own_root(worker: &process::Plan, host: &dyn Host) -> Vec<PathBuf> {
    let is_folder = |path: &Path| {
        let found = host.find(path);
        found.is_ok_and(|found| found.kind == FileKind::Folder)
    };
    if worker.tier == Tier::Bare {
        let rules = worker.landlock.iter().flat_map(|landlock| &landlock.rules);
        let paths = rules.map(|rule| rule.path.clone());
        return paths.filter(|path| is_folder(path)).collect();
    }
    let root = PathBuf::from("/");
    let below = folders_in_root(worker)
        .into_iter()
        .filter(|(path, link)| {
            link.is_none_or(|target| is_folder(&Path::new("/").join(target))) && !is_kernels(path)
        })
        .map(|(path, _)| path);
    // Programs climb to the root: Go's runtime knows no path that is below no preopen.
    std::iter::once(root).chain(below).collect()
}

fn is_kernels(path: &Path) -> bool {
    KERNEL_FOLDERS
        .iter()
        .any(|folder| path == Path::new(folder))
}

/// Each with the target it is a link to, if it is one (merged `/usr`).
fn folders_in_root(worker: &process::Plan) -> BTreeMap<PathBuf, Option<&Path>> {
    let mut folders = BTreeMap::new();
    for step in worker.steps.iter() {
        let (path, link, is_folder) = match step {
            Step::MakeFolder { path, .. } => (path, None, true),
            Step::MakeSymlink { path, target } => (path, Some(target.as_path()), true),
            Step::WriteFile { path, .. } => (path, None, false),
            Step::Mount { target, .. } | Step::Remount { target, .. } => (target, None, false),
            _ => continue,
        };
        let depth = path.components().count();
        let Some(top) = path.components().nth(1) else {
            continue;
        };
        if depth > 2 {
            folders.insert(Path::new("/").join(top), None);
        } else if is_folder {
            folders.entry(path.clone()).or_insert(link);
        }
    }
    folders
}

/// What the engine adds to the process wall, where the worker has a file system of its own or the host's.
pub fn enforcement(is_of_host: bool) -> [Enforcement; 2] {
    let proc = match is_of_host {
        true => "WebAssembly: every access is checked; it is given no part of /proc",
        false => "WebAssembly: every access is checked; there is no /proc",
    };
    let row = |capability: &str, requested: &str, mechanism: &str| Enforcement {
        capability: capability.into(),
        requested: requested.into(),
        actual: Level::Full,
        mechanism: mechanism.into(),
    };
    [
        row("isolation", "its own memory", proc),
        row(
            "host-calls",
            "WASI",
            "the worker's functions: no processes, no threads; paths by openat2(2) below a folder",
        ),
    ]
}

/// Grants that this guest has no way to use. They are kept: the same policy suits both walls.
fn notes(policy: &Policy, kind: Kind) -> Vec<String> {
    let grants = &policy.grants;
    let has = |access| grants.files.iter().any(|grant| grant.access == access);
    let is_module = kind == Kind::Module;
    let connects = grants.connect.iter();
    let listens = grants.listen.iter();
    let candidates = [
        (
            has(Access::Exec),
            "exec: a WebAssembly guest executes nothing",
        ),
        (
            has(Access::Ipc),
            "ipc: WASI makes no socket files and no FIFOs",
        ),
        (
            policy.limits.processes.is_some(),
            "processes: a WebAssembly guest is one",
        ),
        (
            is_module && !grants.connect.is_empty(),
            "connect: WASI preview 1 has no call that connects; a component has",
        ),
        (
            !is_module
                && connects
                    .clone()
                    .any(|grant| matches!(grant, ConnectGrant::Unix(_))),
            "connect unix: WASI has no sockets of files",
        ),
        (
            is_module && listens.clone().any(|grant| !is_ready_made(grant)),
            "listen: WASI preview 1 has no call that listens; `,ready` and `inherited` give it open sockets",
        ),
    ];
    let said = candidates.into_iter().filter(|(applies, _)| *applies);
    said.map(|(_, note)| note.into()).collect()
}

fn is_ready_made(grant: &ListenGrant) -> bool {
    match grant {
        ListenGrant::Inherited => true,
        ListenGrant::At { ready, .. } => *ready,
    }
}

fn as_words<S: serde::Serializer>(order: &Order, serializer: S) -> Result<S::Ok, S::Error> {
    let words = order.to_arguments();
    serializer.collect_seq(words.iter().map(|word| word.to_string_lossy()))
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.module.kind {
            Kind::Module => "module",
            Kind::Component => "component",
        };
        write_line(
            formatter,
            format_args!("{kind:<10}{}", self.module.path.display()),
        )?;
        write_line(
            formatter,
            format_args!(
                "compile   {}, which is granted nothing; its code is kept",
                self.programs.compiler.display()
            ),
        )?;
        let folders: Vec<_> = self
            .order
            .folders()
            .map(|path| path.display().to_string())
            .collect();
        write_line(
            formatter,
            format_args!(
                "preopen   {} for a guest in {}",
                folders.join(" "),
                self.order.cwd.display()
            ),
        )?;
        for note in &self.notes {
            write_line(formatter, format_args!("unused    {note}"))?;
        }
        write!(formatter, "{}", self.worker)
    }
}
