//! sendmsg(2) with a control block of one's own making.

use super::last_errno;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// One message as the kernel takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawMessage<'a> {
    /// `struct sockaddr`; empty for none.
    pub(crate) name: &'a [u8],
    pub(crate) data: &'a [u8],
    /// A chain of `struct cmsghdr`; empty for none.
    pub(crate) control: &'a [u8],
    /// `MSG_*`.
    pub(crate) flags: i32,
}

/// Sends; gives how many bytes of the data went.
pub(crate) fn send(socket: BorrowedFd<'_>, message: RawMessage<'_>) -> Result<usize, Errno> {
    let pointer = |bytes: &[u8]| match bytes {
        [] => std::ptr::null_mut(),
        bytes => bytes.as_ptr().cast_mut().cast::<libc::c_void>(),
    };
    let mut part = libc::iovec {
        iov_base: pointer(message.data),
        iov_len: message.data.len(),
    };
    // SAFETY: all fields of the structure are numbers and pointers, for which zero is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = pointer(message.name);
    header.msg_namelen = message.name.len() as libc::socklen_t;
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = pointer(message.control);
    header.msg_controllen = message.control.len() as _;
    // SAFETY: name, data and control are borrowed for the call, which only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, message.flags) };
    usize::try_from(sent).map_err(|_| last_errno())
}
