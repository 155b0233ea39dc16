//! Version 1: a folder in each hierarchy.

use super::Group;
use palisade_process::kernel_file;
use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

pub(super) fn make(group: &Group) -> io::Result<()> {
    fs::create_dir_all(&group.folder)?;
    if group.controllers.split(',').any(|one| one == "cpuset") {
        inherit(&group.mount, &group.folder)?;
    }
    Ok(())
}

/// A new cpuset is empty, and nothing can run in it (cpuset(7)).
fn inherit(mount: &Path, folder: &Path) -> io::Result<()> {
    let below = folder.strip_prefix(mount).unwrap_or(Path::new(""));
    let mut place = mount.to_path_buf();
    for part in below {
        let parent = place.clone();
        place.push(part);
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let own = read(&place.join(file))?;
            if own.trim().is_empty() {
                fs::write(place.join(file), read(&parent.join(file))?.trim())?;
            }
        }
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<String> {
    match kernel_file::text(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        text => text,
    }
}
