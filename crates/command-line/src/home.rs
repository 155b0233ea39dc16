//! The home of whoever calls.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Where users are that this machine itself knows: passwd(5).
const USERS: &str = "/etc/passwd";

/// The folder that `HOME` names, or without it the one that `/etc/passwd` has for the user; `None` where neither says.
///
/// Not `std::env::home_dir`: without `HOME` that has the C library ask whom `/etc/nsswitch.conf` names, by libraries of the host's
/// that a static program cannot load: they bring another C library along, and it ends by SIGSEGV.
#[must_use]
pub fn home_dir() -> Option<PathBuf> {
    let named = env::var_os("HOME").filter(|home| !home.is_empty());
    named.map(PathBuf::from).or_else(|| {
        let users = fs::read(USERS).ok()?;
        home_of(rustix::process::getuid().as_raw(), &users).map(Path::to_path_buf)
    })
}

/// The home of the first user with this number.
fn home_of(uid: u32, users: &[u8]) -> Option<&Path> {
    let mut lines = users.split(|byte| *byte == b'\n');
    let home = lines.find_map(|line| {
        let fields: Vec<_> = line.split(|byte| *byte == b':').collect();
        let [_, _, number, _, _, home, _] = fields[..] else {
            return None;
        };
        let number: u32 = str::from_utf8(number).ok()?.parse().ok()?;
        (number == uid).then_some(home)
    })?;
    (!home.is_empty()).then(|| Path::new(OsStr::from_bytes(home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_home_of_the_first_line_with_its_number() {
        let users = b"root:x:0:0:root:/root:/bin/bash\n\
            # no user\n\
            ada:x:1001:1001:Ada,,,:/home/ada:/bin/sh\n\
            twin:x:1001:1001::/home/twin:/bin/sh\n\
            nowhere:x:1002:1002:::/bin/sh\n\
            short:x:1003\n";
        let home = |uid| home_of(uid, users).and_then(Path::to_str);
        assert_eq!(home(0), Some("/root"));
        assert_eq!(home(1001), Some("/home/ada"));
        assert_eq!([home(1002), home(1003), home(4)], [None; 3]);
    }
}
