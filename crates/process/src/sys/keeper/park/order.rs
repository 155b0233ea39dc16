//! A domain that is ordered now and made later.

use crate::{kernel, record_from, wire};
use kernel::{Errno, Fd, Result};
use wire::Record;

/// The message that asks for it, in memory of its own, and the domain's socket.
#[derive(Clone, Copy)]
pub(super) struct Order {
    address: *mut u8,
    length: usize,
    socket: Fd,
}

impl Order {
    /// Of a whole message. Only a domain that is born in its starter's group can wait: a group is held by who made it.
    pub(super) fn new(message: &[u8], fds: &[Fd]) -> Result<Self> {
        let [socket] = *fds else {
            return Err(Errno::INVAL);
        };
        let memory = kernel::allocate(message.len())?;
        memory.copy_from_slice(message);
        Ok(Self {
            address: memory.as_mut_ptr(),
            length: memory.len(),
            socket,
        })
    }

    fn memory(&self) -> &'static mut [u8] {
        // SAFETY: the mapping was made in `new` and is there until `release`, which takes the order; each caller has the only
        // reference to it.
        unsafe { core::slice::from_raw_parts_mut(self.address, self.length) }
    }

    /// Has `park` make it.
    pub(super) fn carry_out(self, park: impl FnOnce(&Record, &[Fd], (&mut [u8], usize))) {
        let (memory, length) = (self.memory(), self.length);
        if let Some(request) = record_from(memory) {
            park(&request, &[self.socket], (memory, length));
        }
        self.release();
    }

    /// Lets go of it; whoever waits at the other end of the socket hears that there will be no domain.
    pub(super) fn release(self) {
        kernel::close(self.socket);
        kernel::release(self.memory());
    }
}
