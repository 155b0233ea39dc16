//! The programs beside `palisade` that the wall is made of.

use palisade_wall::View;
use std::path::{Path, PathBuf};

/// Runs a guest.
pub const WORKER: &str = "palisade-worker";
/// Compiles one.
pub const COMPILER: &str = "palisade-compiler";
/// Serves: `palisade serve`.
pub const HOST: &str = "palisade-host";
/// Measures: `palisade bench` and `palisade cost`.
pub const LAB: &str = "palisade-lab";
/// All that some program of palisade's executes outside of every wall.
const OWN: [&str; 7] = [
    "palisade",
    HOST,
    LAB,
    WORKER,
    COMPILER,
    "palisade-lab-calls",
    "palisade-lab-load",
];
/// Names the folder they lie in.
pub const FOLDER_VARIABLE: &str = "PALISADE_LIBEXEC";

/// Where the worker and the compiler lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// [`WORKER`].
    pub worker: PathBuf,
    /// [`COMPILER`].
    pub compiler: PathBuf,
}

/// A part of the wall is not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "host: {name} was not found in {}: it is built with palisade (`make build`); put it beside, or name its folder \
     in {FOLDER_VARIABLE}",
    searched.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(" or ")
)]
pub struct NotInstalled {
    /// Which.
    pub name: &'static str,
    /// Where it was looked for.
    pub searched: Vec<PathBuf>,
}

/// The policy lets a guest change a part of the wall.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "policy: the guest could change {}, which palisade executes outside the wall: keep it out of what is granted for \
     writing, or add --protect {}", path.display(), path.display()
)]
pub struct ProgramInReach {
    /// Which.
    pub path: PathBuf,
}

impl Programs {
    /// Looks in `folder`, else where the variable says, else beside this program and in the
    /// `libexec/palisade` beside its folder.
    ///
    /// # Errors
    ///
    /// When one of them is not there.
    pub fn find(folder: Option<&Path>) -> Result<Self, NotInstalled> {
        Ok(Self {
            worker: find(WORKER, folder)?,
            compiler: find(COMPILER, folder)?,
        })
    }
}

/// Looks for one program of palisade's own, where [`Programs::find`] does.
///
/// # Errors
///
/// When it is not there.
pub fn find(name: &'static str, folder: Option<&Path>) -> Result<PathBuf, NotInstalled> {
    let searched = match folder {
        Some(folder) => vec![folder.into()],
        None => usual_folders(),
    };
    let paths = searched.iter().map(|folder| folder.join(name));
    let mut found = paths.filter(|path| path.is_file());
    match found.next() {
        Some(path) => Ok(path),
        None => Err(NotInstalled { name, searched }),
    }
}

/// Refuses a guest that could change a program of palisade's own: the next start would execute it without a wall.
///
/// # Errors
///
/// When it could, or could put one there.
pub fn refuse_reach(view: &dyn View) -> Result<(), ProgramInReach> {
    refuse(view, &mut relied_on())
}

/// The same for a program that embeds the walls, whose own files are not palisade's: what [`Programs::find`] finds.
///
/// # Errors
///
/// When the guest could change it.
pub fn refuse_reach_of_found(view: &dyn View, folder: Option<&Path>) -> Result<(), ProgramInReach> {
    let found = [WORKER, COMPILER].into_iter();
    refuse(view, &mut found.filter_map(|name| find(name, folder).ok()))
}

fn refuse(
    view: &dyn View,
    relied: &mut dyn Iterator<Item = PathBuf>,
) -> Result<(), ProgramInReach> {
    match view.find_changeable(relied) {
        Some(path) => Err(ProgramInReach { path }),
        None => Ok(()),
    }
}

/// This program, and palisade's in every folder that they are looked for in, here or by who is started without the
/// variable.
pub fn relied_on() -> impl Iterator<Item = PathBuf> {
    let folders = folder_of_variable().into_iter().chain(folders_beside());
    let beside = folders.flat_map(|folder| {
        // In a folder that is not there they could all be made alike.
        let count = if folder.is_dir() { OWN.len() } else { 1 };
        OWN.iter().take(count).map(move |name| folder.join(name))
    });
    std::env::current_exe().into_iter().chain(beside)
}

fn usual_folders() -> Vec<PathBuf> {
    match folder_of_variable() {
        Some(folder) => vec![folder],
        None => folders_beside().into(),
    }
}

fn folder_of_variable() -> Option<PathBuf> {
    let folder = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty())?;
    let folder = PathBuf::from(folder);
    Some(std::path::absolute(&folder).unwrap_or(folder))
}

fn folders_beside() -> [PathBuf; 2] {
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.parent().unwrap_or(Path::new("/"));
    let libexec = beside.parent().unwrap_or(Path::new("/"));
    [beside.into(), libexec.join("libexec/palisade")]
}
