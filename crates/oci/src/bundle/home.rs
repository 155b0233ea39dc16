//! Where an image says that a user is at home.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::{
    fs::File,
    io::{Read as _, Take},
    path::Path,
};

/// More than any `/etc/passwd` has: what an image has there need not be one.
const MOST_BYTES: u64 = 1 << 20;

/// As passwd(5) has it; `/` for somebody who is not there. No link of the image's leads out of it.
pub(super) fn of(rootfs: &Path, uid: u32) -> String {
    let found = read(rootfs).and_then(|text| find(&text, uid));
    found.unwrap_or_else(|| "/".into())
}

fn read(rootfs: &Path) -> Option<String> {
    let root = File::open(rootfs).ok()?;
    // Not waited for: a FIFO in its place is nobody's home.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = rustix::fs::openat2(&root, "etc/passwd", flags, Mode::empty(), how).ok()?;
    let file = File::from(file);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let mut file: Take<File> = file.take(MOST_BYTES);
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

fn find(text: &str, uid: u32) -> Option<String> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, id, _, _, home, ..] = fields[..] else {
            return None;
        };
        (id.parse() == Ok(uid) && home.starts_with('/')).then(|| home.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_home_is_that_of_the_number() {
        let text = "root:x:0:0:root:/root:/bin/sh\nbroken:x\nother:x:7:7::relative:\napp:x:7:7::/home/app:/bin/sh\n";
        assert_eq!(find(text, 0).as_deref(), Some("/root"));
        assert_eq!(find(text, 7).as_deref(), Some("/home/app"));
        assert_eq!(find(text, 8), None);
    }
}
