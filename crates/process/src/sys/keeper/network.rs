//! The domain's empty network, made beside everything else.
//!
//! Of all namespaces it takes the kernel longest (measured: 250 of 310 µs), and nothing that init
//! builds before the guest needs it. So a child that shares init's memory and descriptors makes it,
//! and init enters it last. It belongs to the domain's user namespace, in which both are.

use crate::wire::Step;
use crate::{During, Failure, kernel};
use core::sync::atomic::{AtomicI32, Ordering};
use kernel::{Child, Errno, Fd};

const SIOCGSKNS: u32 = 0x894c;

/// The descriptor of the namespace, or the errno, negative, of what failed.
static MADE: AtomicI32 = AtomicI32::new(0);

/// A network that is being made.
pub(crate) struct Making(Child);

/// Begins to make it.
pub(crate) fn begin() -> Result<Making, Failure> {
    // The child leaves no status and no usage behind: both would be counted as the guest's.
    kernel::ignore(kernel::SIGCHLD);
    Child::sharing_descriptors(make, &MADE)
        .during(Step::MakeNetwork, 0)
        .map(Making)
}

extern "C" fn make(made: &AtomicI32) -> ! {
    let outcome = make_namespace().unwrap_or_else(|errno| -(errno.0 as i32));
    made.store(outcome, Ordering::Release);
    crate::exit(0)
}

fn make_namespace() -> kernel::Result<Fd> {
    kernel::unshare(kernel::CLONE_NEWNET)?;
    // A socket knows the namespace it was made in; `/proc` may be out of reach by now.
    let socket = kernel::local_socket()?;
    let namespace = kernel::ioctl_number(socket, SIOCGSKNS, 0);
    kernel::close(socket);
    namespace.map(|fd| fd as Fd)
}

impl Making {
    /// Waits for it and moves the calling process into it.
    pub(crate) fn enter(self) -> Result<(), Failure> {
        self.0.wait_until_apart();
        let namespace = match MADE.load(Ordering::Acquire) {
            fd @ 1.. => fd,
            failed => return Err(Errno(failed.unsigned_abs())).during(Step::MakeNetwork, 1),
        };
        kernel::enter(namespace, kernel::CLONE_NEWNET).during(Step::MakeNetwork, 2)?;
        kernel::close(namespace);
        // With SIGCHLD ignored this lasts until the child is gone, and finds none.
        while kernel::wait_any(0).is_ok() {}
        kernel::set_default_action(kernel::SIGCHLD);
        Ok(())
    }
}
