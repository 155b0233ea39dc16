//! Namespaces of others, and whom those of users take for whom.

use crate::{During, Failure, kernel, text::Text, wire::Step};
use kernel::{CStr, Errno, Fd, Result};

/// A user namespace that maps one disk owner to one host user.
pub(crate) struct Map {
    /// Which alone holds it.
    pub(crate) namespace: Fd,
    maker: Maker,
}

/// The process in which the namespace was made, on its way out.
struct Maker(i32);

impl Map {
    /// Sees that process out; gives the namespace. Whoever waits for the namespace need not wait for this.
    pub(crate) fn finish(self) -> Fd {
        self.maker.wait();
        self.namespace
    }
}

impl Maker {
    fn wait(&self) {
        while kernel::wait_for(self.0) == Err(Errno::INTR) {}
    }
}

/// Makes such a namespace.
pub(crate) fn make_map(owner: [u64; 2], host_uid: u64) -> core::result::Result<Map, Failure> {
    let Some((pid, pidfd)) = kernel::fork(kernel::CLONE_NEWUSER, None).during(Step::Clone, 2)?
    else {
        // Waits to be killed: the descriptor keeps the namespace, not the process.
        loop {
            let _ = kernel::poll(&mut [], None);
        }
    };
    let opened = write_maps(pid, owner, [host_uid; 2], false).and_then(|()| open(pid, b"user"));
    kernel::pidfd_kill(pidfd);
    kernel::close(pidfd);
    let maker = Maker(pid);
    match opened {
        Ok(namespace) => Ok(Map { namespace, maker }),
        Err(errno) => {
            maker.wait();
            Err(errno).during(Step::MapIds, 1)
        }
    }
}

/// Maps one user and one group. Without privilege the kernel wants `setgroups` denied first
/// (user_namespaces(7), CVE-2014-8989).
pub(crate) fn write_maps(
    pid: i32,
    inside: [u64; 2],
    outside: [u64; 2],
    deny_setgroups: bool,
) -> Result<()> {
    if deny_setgroups {
        write_proc(pid, b"setgroups", b"deny")?;
    }
    for (name, index) in [(&b"uid_map"[..], 0), (&b"gid_map"[..], 1)] {
        let mut line = Text::default();
        line.number(inside[index])
            .text(b" ")
            .number(outside[index])
            .text(b" 1");
        write_proc(pid, name, line.bytes())?;
    }
    Ok(())
}

fn write_proc(pid: i32, name: &[u8], content: &[u8]) -> Result<()> {
    let mut path = Text::default();
    path.text(b"/proc/")
        .number(pid as u64)
        .text(b"/")
        .text(name)
        .text(b"\0");
    let path = CStr::new(path.bytes()).ok_or(Errno::INVAL)?;
    let fd = kernel::open(kernel::AT_FDCWD, path, kernel::O_WRONLY, 0)?;
    let written = kernel::write(fd, content);
    kernel::close(fd);
    written.map(drop)
}

/// Of the process with this pid.
pub(crate) fn open(pid: i32, kind: &[u8]) -> Result<Fd> {
    let mut path = Text::default();
    path.text(b"/proc/")
        .number(pid as u64)
        .text(b"/ns/")
        .text(kind)
        .text(b"\0");
    let path = CStr::new(path.bytes()).ok_or(Errno::INVAL)?;
    kernel::open(kernel::AT_FDCWD, path, 0, 0)
}
