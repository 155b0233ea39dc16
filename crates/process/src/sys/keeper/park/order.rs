//! A domain that is ordered now and made later.

use crate::{Failure, failed, kernel, send_record, wire};
use kernel::{Errno, Fd, PollFd, Result};
use wire::Step;

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

    /// Whether its domain is still wanted: the other end of the socket is open.
    pub(super) fn is_wanted(&self) -> bool {
        let mut fds = [PollFd {
            fd: self.socket,
            events: 0,
            revents: 0,
        }];
        let _ = kernel::poll(&mut fds, Some(0));
        fds[0].revents & kernel::POLLHUP == 0
    }

    /// Copies the message to where messages are read: what is not emptied there before a domain is made would be that domain's.
    /// Gives its length and the socket.
    pub(super) fn take_into(self, buffer: &mut [u8]) -> (usize, Fd) {
        let memory = self.memory();
        // It was read there.
        buffer[..memory.len()].copy_from_slice(memory);
        kernel::release(memory);
        (self.length, self.socket)
    }

    /// Lets go of it, and says so to whoever waits at the other end of the socket.
    pub(super) fn refuse(self) {
        let failure = Failure {
            step: Step::Clone,
            item: 3,
            errno: Errno::AGAIN,
        };
        send_record(self.socket, &failed(wire::KEEPER_FAILED, &failure), &[]);
        self.release();
    }

    /// Lets go of it; whoever waits at the other end of the socket hears that there will be no domain.
    pub(super) fn release(self) {
        kernel::close(self.socket);
        kernel::release(self.memory());
    }

    fn memory(&self) -> &'static mut [u8] {
        // SAFETY: the mapping was made in `new` and is there until it is released by one who takes the order, which has the only
        // reference to it.
        unsafe { core::slice::from_raw_parts_mut(self.address, self.length) }
    }
}
