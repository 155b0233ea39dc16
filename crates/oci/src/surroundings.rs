//! What of the machine a plan depends on.

use palisade_process::kernel_file;
use std::fs;

/// As far as a container cares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// This process is root of all users, so that it may make devices.
    pub(crate) is_initial_root: bool,
    /// Landlock's interface, 0 without.
    pub(crate) landlock_abi: u32,
    pub(crate) has_apparmor: bool,
    pub(crate) has_selinux: bool,
}

impl Surroundings {
    pub(crate) fn probe() -> Self {
        let yes = |path: &str| kernel_file::text(path).is_ok_and(|text| text.starts_with('Y'));
        Self {
            is_initial_root: is_initial_root(),
            landlock_abi: palisade_process::container::landlock_abi(),
            has_apparmor: yes("/sys/module/apparmor/parameters/enabled"),
            has_selinux: fs::exists("/sys/fs/selinux/enforce").unwrap_or(false),
        }
    }
}

/// Whether this process is root of all users.
pub(crate) fn is_initial_root() -> bool {
    let map = kernel_file::text("/proc/self/uid_map").unwrap_or_default();
    let whole: Vec<&str> = map.split_ascii_whitespace().collect();
    rustix::process::geteuid().is_root() && whole == ["0", "0", "4294967295"]
}
