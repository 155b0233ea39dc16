//! A terminal of the guest's own, from the domain's private `devpts`.
//!
//! The guest never holds the terminal that palisade was started from: keystrokes pushed with
//! TIOCSTI (CVE-2017-5226) or pasted with TIOCLINUX end up in its own input.

use super::launch::Setup;
use crate::{
    During, Failure, kernel,
    message::Reader,
    wire::{self, Step},
};
use kernel::{Errno, Fd, c};

const TIOCSPTLCK: u32 = 0x4004_5431;
const TIOCGPTPEER: u32 = 0x5441;
const TIOCSWINSZ: u32 = 0x5414;
const TIOCSCTTY: u32 = 0x540e;
const TIOCSPGRP: u32 = 0x5410;
const TCSETS: u32 = 0x5402;

/// Both ends. The supervisor gets the master, the guest the slave. Init keeps the slave too, as the
/// shell of a login does: a guest that closes its terminal can open it again.
#[derive(Clone, Copy)]
pub(crate) struct Terminal {
    pub(crate) master: Fd,
    pub(crate) slave: Fd,
    /// The guest's group starts in front.
    pub(crate) in_front: bool,
}

/// Opens the terminal and makes it the controlling one of init's session.
pub(crate) fn open(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let rows = reader.u32().during(Step::DecodeLaunch, item)? as u16;
    let columns = reader.u32().during(Step::DecodeLaunch, item)? as u16;
    setup.terminal_replaces = reader.u32().during(Step::DecodeLaunch, item)?;
    let in_front = reader.u32().during(Step::DecodeLaunch, item)? != 0;
    let mut settings = settings(reader).during(Step::DecodeLaunch, item)?;
    let (master, slave) = open_pair(setup.devpts).during(Step::OpenTerminal, item)?;
    let mut size = [rows, columns, 0, 0];
    kernel::ioctl(master, TIOCSWINSZ, &mut size).during(Step::OpenTerminal, item)?;
    kernel::ioctl(slave, TCSETS, &mut settings).during(Step::OpenTerminal, item)?;
    kernel::ioctl_number(slave, TIOCSCTTY, 0).during(Step::OpenTerminal, item)?;
    setup.terminal = Some(Terminal {
        master,
        slave,
        in_front,
    });
    Ok(())
}

fn settings(reader: &mut Reader) -> kernel::Result<[u8; wire::TERMIOS_BYTES]> {
    reader.bytes()?.try_into().map_err(|_| Errno::INVAL)
}

/// By its mount: in a granted root another guest may have left something at the path. Without a private devpts
/// the host's own is asked, by its usual name.
fn open_pair(devpts: Option<Fd>) -> kernel::Result<(Fd, Fd)> {
    const FLAGS: u32 = kernel::O_RDWR | kernel::O_NOCTTY;
    let master = match devpts {
        Some(devpts) => kernel::open(devpts, c!("ptmx"), FLAGS, 0),
        None => kernel::open(kernel::AT_FDCWD, c!("/dev/ptmx"), FLAGS, 0),
    }?;
    kernel::ioctl(master, TIOCSPTLCK, &mut 0i32)?;
    let slave =
        kernel::ioctl_number(master, TIOCGPTPEER, (FLAGS | kernel::O_CLOEXEC) as usize)? as Fd;
    Ok((master, slave))
}

/// Puts a group of init's session in front. Called with all signals blocked, so SIGTTOU can't stop
/// the caller.
pub(crate) fn put_in_front(slave: Fd, mut group: i32) -> kernel::Result<()> {
    kernel::ioctl(slave, TIOCSPGRP, &mut group)
}
