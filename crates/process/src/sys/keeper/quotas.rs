//! Counts that the kernel keeps for each user: a domain may take half of what its starter may have, and no user namespace.
//!
//! What a guest takes is charged to its own user namespace and to the owner of every one above
//! (`inc_ucount` in kernel/ucount.c): to whoever started palisade, root included. A new namespace has no
//! bound of its own until somebody writes one into its `/proc/sys/user`. The limits there that are
//! not named here are of things that the system-call filter refuses.

use crate::{
    During, Failure, kernel,
    text::{Text, number},
    wire::Step,
};
use kernel::{CStr, c};

/// inotify(7): a user has 128 instances by default, and programs of the host's need some.
fn files() -> [CStr<'static>; 2] {
    [
        c!("/proc/sys/user/max_inotify_instances"),
        c!("/proc/sys/user/max_inotify_watches"),
    ]
}

/// What a domain may have of each; `None` of what this kernel does not count.
#[derive(Clone, Copy)]
pub(crate) struct Quotas([Option<u64>; 2]);

impl Quotas {
    /// Half of what the caller's user may have.
    pub(crate) fn half_of_own() -> Self {
        Self(files().map(|file| Some(read_number(file)? / 2)))
    }

    /// Bounds the caller's user namespace, which must be the domain's.
    pub(crate) fn set(&self) -> Result<(), Failure> {
        let bounds = files().into_iter().zip(self.0);
        for (item, (file, most)) in (0..).zip(bounds) {
            if let Some(most) = most {
                let mut text = Text::default();
                write(file, text.number(most).bytes()).during(Step::BoundQuotas, item)?;
            }
        }
        // By whatever call: clone3 hides its flags from a filter. Raising the bound takes `CAP_SYS_RESOURCE` in this namespace
        // (`set_permissions` in kernel/ucount.c).
        write(c!("/proc/sys/user/max_user_namespaces"), b"0").during(Step::BoundQuotas, 2)
    }
}

fn read_number(file: CStr) -> Option<u64> {
    let mut text = [0; 24];
    let fd = kernel::open(kernel::AT_FDCWD, file, kernel::O_RDONLY, 0).ok()?;
    let length = kernel::read(fd, &mut text);
    kernel::close(fd);
    number(text.get(..length.ok()?)?.trim_ascii_end())
}

fn write(file: CStr, text: &[u8]) -> kernel::Result<()> {
    let fd = kernel::open(kernel::AT_FDCWD, file, kernel::O_WRONLY, 0)?;
    let written = kernel::write(fd, text);
    kernel::close(fd);
    written.map(drop)
}
