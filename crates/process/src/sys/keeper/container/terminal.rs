//! A terminal of the container's own. Whoever asked for it gets the other end.

use super::{
    During, Failure,
    message::{Setup, Terminal},
};
use crate::{kernel, message::Reader, text::Text, wire::container::Step};
use kernel::{Errno, Fd, c};

const TIOCSPTLCK: u32 = 0x4004_5431;
const TIOCGPTPEER: u32 = 0x5441;
const TIOCGPTN: u32 = 0x8004_5430;
const TIOCSWINSZ: u32 = 0x5414;
const TIOCSCTTY: u32 = 0x540e;
/// What statfs(2) says of `devpts` (linux/magic.h).
const DEVPTS: u64 = 0x1cd1;

pub(super) fn open(reader: &mut Reader, setup: &mut Setup) -> Result<(), Failure> {
    let mut number = || reader.u32().during(Step::Decode, 22);
    let [rows, columns, owner, at_console] = [number()?, number()?, number()?, number()?];
    let (master, slave) = open_pair(setup).during(Step::Terminal, 0)?;
    if rows | columns != 0 {
        let mut size = [rows as u16, columns as u16, 0, 0];
        kernel::ioctl(master, TIOCSWINSZ, &mut size).during(Step::Terminal, 1)?;
    }
    // The group stays: it is the one of terminals, as the mount says.
    const SAME: u32 = u32::MAX;
    match kernel::set_owner(slave, c!(""), owner, SAME) {
        // A user who is not mapped owns none.
        Err(errno) if errno == Errno::INVAL || errno == Errno::PERM => {}
        outcome => outcome.during(Step::Terminal, 2)?,
    }
    if at_console != 0 {
        show_at_console(setup, master).during(Step::Terminal, 3)?;
    }
    setup.terminal = Some(Terminal {
        master: Some(master),
        slave,
    });
    Ok(())
}

/// By the container's own mount; one that is entered has it where it was mounted, and an image may have put something else there.
fn open_pair(setup: &Setup) -> kernel::Result<(Fd, Fd)> {
    const FLAGS: u32 = kernel::O_RDWR | kernel::O_NOCTTY;
    let master = match setup.devpts {
        Some(devpts) => kernel::open(devpts, c!("ptmx"), FLAGS, 0)?,
        None => kernel::open(
            kernel::AT_FDCWD,
            c!("/dev/pts/ptmx"),
            FLAGS | kernel::O_NOFOLLOW,
            0,
        )?,
    };
    if kernel::file_system(master)? != DEVPTS {
        kernel::close(master);
        return Err(Errno::INVAL);
    }
    kernel::ioctl(master, TIOCSPTLCK, &mut 0i32)?;
    let flags = (FLAGS | kernel::O_CLOEXEC) as usize;
    let slave = kernel::ioctl_number(master, TIOCGPTPEER, flags)? as Fd;
    Ok((master, slave))
}

fn show_at_console(setup: &Setup, master: Fd) -> kernel::Result<()> {
    let (Some(devpts), Some(root)) = (setup.devpts, setup.root) else {
        return Ok(());
    };
    let mut number = 0u32;
    kernel::ioctl(master, TIOCGPTN, &mut number)?;
    let mut name = Text::default();
    name.number(number.into()).text(b"\0");
    let name = kernel::CStr::new(name.bytes()).ok_or(Errno::INVAL)?;
    let terminal = kernel::open(devpts, name, kernel::O_PATH | kernel::O_NOFOLLOW, 0)?;
    let mount = kernel::open_tree(terminal, 0)?;
    kernel::close(terminal);
    let outcome = super::root::attach_file(root, mount, c!("/dev/console"));
    kernel::close(mount);
    outcome
}

/// Makes it the controlling one of this process's session, and its streams.
pub(super) fn take(terminal: Terminal) -> kernel::Result<()> {
    kernel::ioctl_number(terminal.slave, TIOCSCTTY, 0)?;
    for stream in 0..3 {
        kernel::duplicate_to(terminal.slave, stream)?;
    }
    Ok(())
}
