//! Version 2: one folder, whose parents hand controllers on.

use super::Group;
use std::{fs, io, path::Path};

pub(super) fn make(group: &Group) -> io::Result<()> {
    let below = group.folder.strip_prefix(&group.mount);
    let below = below.unwrap_or(Path::new(""));
    let mut place = group.mount.clone();
    for part in below {
        hand_on(&place);
        place.push(part);
        match fs::create_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    Ok(())
}

/// All that the group has. One that has processes of its own hands on none (no internal processes, cgroups(7)): a limit that
/// this leaves without a file is refused by its name.
fn hand_on(folder: &Path) {
    let controllers = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    for controller in controllers.split_ascii_whitespace() {
        let _ = fs::write(
            folder.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
}
