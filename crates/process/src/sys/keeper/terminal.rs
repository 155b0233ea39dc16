//! A terminal of the guest's own, from the domain's private `devpts`.
//!
//! The guest never holds the terminal that palisade was started from: keystrokes pushed with
//! TIOCSTI (CVE-2017-5226) or pasted with TIOCLINUX end up in its own input.

use crate::wire::Step;
use crate::{During, Failure, kernel, launch};
use kernel::{Fd, c};
use launch::{Reader, Setup};

const TIOCSPTLCK: u32 = 0x4004_5431;
const TIOCGPTPEER: u32 = 0x5441;
const TIOCSWINSZ: u32 = 0x5414;
const TIOCSCTTY: u32 = 0x540e;
const TIOCSPGRP: u32 = 0x5410;
const TCGETS: u32 = 0x5401;
const TCSETS: u32 = 0x5402;
/// Output processing of termios(3).
const OPOST: u32 = 1;

/// Both ends; the supervisor gets the master, the guest the slave.
pub(crate) struct Terminal {
    pub(crate) master: Fd,
    pub(crate) slave: Fd,
}

/// `struct termios` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Termios {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    rest: [u8; 20],
}

/// Opens the terminal and makes it the controlling one of init's session.
pub(crate) fn open(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let rows = reader.u32().during(Step::DecodeLaunch, item)? as u16;
    let columns = reader.u32().during(Step::DecodeLaunch, item)? as u16;
    setup.terminal_replaces = reader.u32().during(Step::DecodeLaunch, item)?;
    let raw_output = reader.u32().during(Step::DecodeLaunch, item)? != 0;
    let terminal = open_pair().during(Step::OpenTerminal, item)?;
    let mut size = [rows, columns, 0, 0];
    kernel::ioctl(terminal.master, TIOCSWINSZ, &mut size).during(Step::OpenTerminal, item)?;
    if raw_output {
        leave_output_alone(terminal.slave).during(Step::OpenTerminal, item)?;
    }
    kernel::ioctl_number(terminal.slave, TIOCSCTTY, 0).during(Step::OpenTerminal, item)?;
    setup.terminal = Some(terminal);
    Ok(())
}

fn open_pair() -> kernel::Result<Terminal> {
    const FLAGS: u32 = kernel::O_RDWR | kernel::O_NOCTTY;
    // Without a private devpts the host's own is asked, by its usual name.
    let master = kernel::open(kernel::AT_FDCWD, c!("/dev/pts/ptmx"), FLAGS, 0)
        .or_else(|_| kernel::open(kernel::AT_FDCWD, c!("/dev/ptmx"), FLAGS, 0))?;
    kernel::ioctl(master, TIOCSPTLCK, &mut 0i32)?;
    let slave =
        kernel::ioctl_number(master, TIOCGPTPEER, (FLAGS | kernel::O_CLOEXEC) as usize)? as Fd;
    Ok(Terminal { master, slave })
}

/// The terminal outside translates line ends already.
fn leave_output_alone(slave: Fd) -> kernel::Result<()> {
    let mut settings = Termios::default();
    kernel::ioctl(slave, TCGETS, &mut settings)?;
    settings.output &= !OPOST;
    kernel::ioctl(slave, TCSETS, &mut settings)
}

/// Puts the calling process's group in front. Called with all signals blocked, so SIGTTOU can't stop it.
pub(crate) fn take_foreground(slave: Fd) -> kernel::Result<()> {
    // The guest is the leader of its group; init's first child is always process 2 of its namespace,
    // but ask rather than assume.
    let mut group = kernel::process_id();
    kernel::ioctl(slave, TIOCSPGRP, &mut group)
}
