//! Opening what a guest asks for: files and folders, and nothing else.
//!
//! wasmtime-wasi opens whatever lies at a path, on one of the few threads that a worker has for calls that
//! wait. A FIFO that nobody writes to would hold it for ever, and what a device does when it is opened nobody
//! knows. So this takes the place of its `open-at`: what is no file or folder is refused before it is opened, and
//! should it come to lie there meanwhile, opening waits for nobody (`O_NONBLOCK`) and is refused after.

use crate::state::State;
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};
use wasmtime::{
    StoreContextMut,
    component::{Accessor, Linker, Resource, ResourceTable, ResourceTableError},
};
use wasmtime_wasi::{
    FsPerms, OpenMode, WasiView,
    filesystem::{Descriptor, Dir, File},
    p2::bindings::filesystem::types as calls,
    p3::bindings::filesystem::types as tasks,
};

const CALLS: &str = "wasi:filesystem/types@0.2.12";
const TASKS: &str = "wasi:filesystem/types@0.3.0";
const OPEN_AT: &str = "[method]descriptor.open-at";

/// How often a path is resolved anew that was changed meanwhile (openat2(2), `EAGAIN`).
const TRIES: usize = 16;

/// What a guest wants opened.
struct Asked {
    path: String,
    follows_links: bool,
    creates: bool,
    is_exclusive: bool,
    truncates: bool,
    is_folder: bool,
    reads: bool,
    writes: bool,
    synchronizes: bool,
}

/// The flags of both versions are called the same, and are different types.
macro_rules! asked {
    ($types:ident, $path_flags:ident, $path:ident, $open:ident, $flags:ident) => {
        Asked {
            path: $path,
            follows_links: $path_flags.contains($types::PathFlags::SYMLINK_FOLLOW),
            creates: $open.contains($types::OpenFlags::CREATE),
            is_exclusive: $open.contains($types::OpenFlags::EXCLUSIVE),
            truncates: $open.contains($types::OpenFlags::TRUNCATE),
            is_folder: $open.contains($types::OpenFlags::DIRECTORY),
            reads: $flags.contains($types::DescriptorFlags::READ),
            writes: $flags.contains($types::DescriptorFlags::WRITE),
            synchronizes: $flags.intersects(
                $types::DescriptorFlags::FILE_INTEGRITY_SYNC
                    | $types::DescriptorFlags::DATA_INTEGRITY_SYNC
                    | $types::DescriptorFlags::REQUESTED_WRITE_SYNC,
            ),
        }
    };
}

/// Puts this `open-at` in the place of the linker's.
pub(crate) fn shadow_calls(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Parameters = (
        Resource<Descriptor>,
        calls::PathFlags,
        String,
        calls::OpenFlags,
        calls::DescriptorFlags,
    );
    linker.allow_shadowing(true);
    linker.instance(CALLS)?.func_wrap_async(
        OPEN_AT,
        |mut store: StoreContextMut<'_, State>,
         (folder, path_flags, path, open, flags): Parameters| {
            let asked = asked!(calls, path_flags, path, open, flags);
            Box::new(async move {
                let folder = find_folder(store.data_mut().ctx().table, &folder)?;
                let opened = open_below(folder, asked).await;
                let opened = opened.map_err(|error| calls::ErrorCode::from(io::Error::from(error)));
                Ok((push(store.data_mut().ctx().table, opened)?,))
            })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// The same for WASI 0.3.
pub(crate) fn shadow_tasks(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Parameters = (
        Resource<Descriptor>,
        tasks::PathFlags,
        String,
        tasks::OpenFlags,
        tasks::DescriptorFlags,
    );
    linker.allow_shadowing(true);
    linker.instance(TASKS)?.func_wrap_concurrent(
        OPEN_AT,
        |store: &Accessor<State>, (folder, path_flags, path, open, flags): Parameters| {
            let asked = asked!(tasks, path_flags, path, open, flags);
            Box::pin(async move {
                let folder = store.with(|mut store| find_folder(store.get().ctx().table, &folder));
                let opened = open_below(folder?, asked).await;
                let opened = opened.map_err(|error| tasks::ErrorCode::from(io::Error::from(error)));
                let opened = store.with(|mut store| push(store.get().ctx().table, opened));
                Ok((opened?,))
            })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// `None`: it is a file.
fn find_folder(
    table: &mut ResourceTable,
    folder: &Resource<Descriptor>,
) -> Result<Option<Dir>, ResourceTableError> {
    Ok(match table.get(folder)? {
        Descriptor::Dir(folder) => Some(folder.clone()),
        Descriptor::File(_) => None,
    })
}

fn push<E>(
    table: &mut ResourceTable,
    opened: Result<Descriptor, E>,
) -> Result<Result<Resource<Descriptor>, E>, ResourceTableError> {
    Ok(match opened {
        Ok(opened) => Ok(table.push(opened)?),
        Err(error) => Err(error),
    })
}

async fn open_below(folder: Option<Dir>, asked: Asked) -> Result<Descriptor, Errno> {
    let folder = folder.ok_or(Errno::NOTDIR)?;
    asked.check(folder.perms)?;
    let opening = tokio::task::spawn_blocking(move || asked.open(&folder));
    // It ends without an answer only when the server does.
    opening.await.unwrap_or(Err(Errno::IO))
}

impl Asked {
    fn mode(&self) -> OpenMode {
        let mut mode = OpenMode::empty();
        // What is opened for nothing is opened for reading, as its kind and size can be asked for then.
        mode.set(OpenMode::READ, self.reads || !self.writes);
        mode.set(
            OpenMode::WRITE,
            self.writes || self.creates || self.truncates,
        );
        mode
    }

    fn check(&self, permissions: FsPerms) -> Result<(), Errno> {
        let changes = self.creates || self.truncates;
        if self.synchronizes {
            return Err(Errno::NOTSUP);
        }
        if self.is_folder && (changes || self.is_exclusive) {
            return Err(Errno::INVAL);
        }
        if permissions.write_not_permitted() && self.mode().contains(OpenMode::WRITE) {
            return Err(Errno::PERM);
        }
        Ok(())
    }

    fn flags(&self) -> OFlags {
        let mode = self.mode();
        let mut flags = match (
            mode.contains(OpenMode::READ),
            mode.contains(OpenMode::WRITE),
        ) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        };
        flags.set(OFlags::CREATE, self.creates);
        flags.set(OFlags::EXCL, self.creates && self.is_exclusive);
        flags.set(OFlags::TRUNC, self.truncates);
        flags
    }

    /// Waits for the disk, and for nothing else.
    fn open(&self, folder: &Dir) -> Result<Descriptor, Errno> {
        // Whatever is wrong with the path is so again below.
        if let Ok(found) = self.resolve(folder, OFlags::PATH) {
            refuse_what_is_special(&found)?;
        }
        let opened = self.resolve(folder, self.flags() | OFlags::NONBLOCK)?;
        let is_folder = refuse_what_is_special(&opened)? == FileType::Directory;
        let (permissions, mode) = (folder.perms, self.mode());
        Ok(match is_folder {
            true => Descriptor::Dir(Dir::new(opened.into(), permissions, mode, false)),
            false if self.is_folder => return Err(Errno::NOTDIR),
            false => Descriptor::File(File::new(opened.into(), permissions, mode, false)),
        })
    }

    fn resolve(&self, folder: &Dir, mut flags: OFlags) -> Result<OwnedFd, Errno> {
        flags |= OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, !self.follows_links);
        let permissions = match flags.contains(OFlags::CREATE) {
            true => Mode::from_raw_mode(0o666),
            false => Mode::empty(),
        };
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let open = || openat2(&folder.dir, &*self.path, flags, permissions, beneath);
        let mut opened = open();
        for _ in 1..TRIES {
            if opened.as_ref().err() != Some(&Errno::AGAIN) {
                break;
            }
            opened = open();
        }
        opened.map_err(|error| match error {
            // It leads out of the folder.
            Errno::XDEV => Errno::PERM,
            // Of a FIFO without a reader, or a socket.
            Errno::NXIO => Errno::NOTSUP,
            error => error,
        })
    }
}

fn refuse_what_is_special(found: impl AsFd) -> Result<FileType, Errno> {
    match FileType::from_raw_mode(fstat(found)?.st_mode) {
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Err(Errno::NOTSUP),
        kind => Ok(kind),
    }
}
