//! Which file a container's program is, and whether it is WebAssembly.

use oci_spec::runtime::{Mount, Process, Spec};
use palisade_process::paths::normalized;
use palisade_wasm::module::Module;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use std::{
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

/// How whoever built an image may say that it is WebAssembly, as crun has it. `compat-smart` says it of some containers of a
/// pod, and the file tells which.
const ANNOTATIONS: [(&str, &str); 2] = [
    ("run.oci.handler", "wasm"),
    ("module.wasm.image/variant", "compat"),
];

/// The annotation that says so. It decides nothing: what is no WebAssembly does not become it.
pub(super) fn is_asked_for(spec: &Spec) -> Option<&'static str> {
    let annotations = spec.annotations().as_ref()?;
    let said = ANNOTATIONS
        .iter()
        .find(|(name, word)| annotations.get(*name).is_some_and(|said| said == word));
    said.map(|(name, _)| *name)
}

/// The annotation says so, and the file says something else.
pub(super) fn none(process: &Process, annotation: &str) -> anyhow::Error {
    let program = process.args().iter().flatten().next();
    anyhow::anyhow!(
        "policy: the annotation {annotation} says that the program is WebAssembly, and {:?} is none in this image: leave the \
         annotation out, or give the image an entry point that is a module or component",
        program.map_or("", String::as_str)
    )
}

/// The program, if it is WebAssembly: the first file of its name decides, as for execvp(3).
pub(super) fn program(
    spec: &Spec,
    process: &Process,
    rootfs: &Path,
    bundle: &Path,
) -> anyhow::Result<Option<Module>> {
    let Some(name) = process.args().iter().flatten().next() else {
        return Ok(None);
    };
    let mounts = spec.mounts().as_deref().unwrap_or_default();
    for path in candidates(name, process) {
        let path = process.cwd().join(path);
        let found = Place::of(&path, mounts, rootfs, bundle).open();
        let Ok(Some(file)) = found else { continue };
        if let Some(module) = read(&path, &file)? {
            return Ok(Some(module));
        }
        if is_executable(&file) {
            return Ok(None);
        }
    }
    Ok(None)
}

/// A name without a slash is looked for as a native program's; one that ends so in the working directory too.
fn candidates(name: &str, process: &Process) -> Vec<String> {
    let environment = process.env().as_deref().unwrap_or_default();
    let mut candidates = crate::bundle::candidates(name, environment);
    if !name.contains('/') && name.ends_with(".wasm") {
        candidates.push(name.into());
    }
    candidates
}

fn is_executable(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_mode & 0o111 != 0)
}

/// Opens what was found to be a file for reading: not before, for an image may have a device there.
fn read(path: &Path, file: &OwnedFd) -> anyhow::Result<Option<Module>> {
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::open(again, flags, Mode::empty()) {
        Ok(opened) => Ok(Module::of_file(path, opened)?),
        // A native program may be one that is executed and not read.
        Err(_) => Ok(None),
    }
}

/// Where on the host a file of the container's lies, by the mount at or above it that comes last.
enum Place {
    /// In the image: links lead into the image.
    Image { rootfs: PathBuf, path: PathBuf },
    /// In a folder of the host's that is mounted: no link leads out of it.
    Folder { source: PathBuf, below: PathBuf },
    /// A file of the host's that is mounted.
    File(PathBuf),
    /// In a file system that is new, and empty.
    Nowhere,
}

impl Place {
    fn of(path: &Path, mounts: &[Mount], rootfs: &Path, bundle: &Path) -> Self {
        let plain = normalized(path);
        let above = |mount: &&Mount| plain.starts_with(target(mount));
        let Some(mount) = mounts.iter().rev().find(above) else {
            let (rootfs, path) = (rootfs.into(), path.into());
            return Self::Image { rootfs, path };
        };
        let source = mount.source().as_ref().filter(|_| is_bind(mount));
        let Some(source) = source.map(|source| bundle.join(source)) else {
            return Self::Nowhere;
        };
        match plain.strip_prefix(target(mount)) {
            Ok(below) if !below.as_os_str().is_empty() => {
                let below = below.into();
                Self::Folder { source, below }
            }
            _ => Self::File(source),
        }
    }

    /// What is there, to look at it only; `None` for what is no regular file.
    fn open(&self) -> rustix::io::Result<Option<OwnedFd>> {
        let folder = |path: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty())
        };
        let within = |folder: OwnedFd, path: &Path, how: ResolveFlags| {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let how = how | ResolveFlags::NO_MAGICLINKS;
            rustix::fs::openat2(folder.as_fd(), path, flags, Mode::empty(), how)
        };
        let file = match self {
            Self::Image { rootfs, path } => within(folder(rootfs)?, path, ResolveFlags::IN_ROOT),
            Self::Folder { source, below } => within(folder(source)?, below, ResolveFlags::BENEATH),
            Self::File(path) => {
                rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            }
            Self::Nowhere => return Ok(None),
        }?;
        let stat = rustix::fs::fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(is_file.then_some(file))
    }
}

pub(super) fn is_bind(mount: &Mount) -> bool {
    let mut options = mount.options().iter().flatten();
    mount.typ().as_deref() == Some("bind") || options.any(|word| word == "bind" || word == "rbind")
}

fn target(mount: &Mount) -> PathBuf {
    normalized(&Path::new("/").join(mount.destination()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mounts(all: &[serde_json::Value]) -> Vec<Mount> {
        let all = all.iter().cloned().map(serde_json::from_value);
        all.collect::<Result<_, _>>().unwrap()
    }

    fn place(path: &str) -> String {
        let mounts = mounts(&[
            json!({ "destination": "/data", "source": "/srv", "options": ["rbind"] }),
            json!({ "destination": "/data/new", "type": "tmpfs", "source": "tmpfs" }),
            json!({ "destination": "/prog.wasm", "type": "bind", "source": "given" }),
        ]);
        let place = Place::of(
            Path::new(path),
            &mounts,
            Path::new("/root"),
            Path::new("/bundle"),
        );
        match place {
            Place::Image { path, .. } => format!("image {}", path.display()),
            Place::Folder { source, below } => format!("{} {}", source.display(), below.display()),
            Place::File(path) => path.display().to_string(),
            Place::Nowhere => "nowhere".into(),
        }
    }

    #[test]
    fn the_last_mount_above_a_file_has_it() {
        assert_eq!(place("/app/a.wasm"), "image /app/a.wasm");
        assert_eq!(place("/data/a.wasm"), "/srv a.wasm");
        assert_eq!(place("/app/../data/x/a.wasm"), "/srv x/a.wasm");
        assert_eq!(place("/data/new/a.wasm"), "nowhere");
        assert_eq!(place("/prog.wasm"), "/bundle/given");
    }
}
