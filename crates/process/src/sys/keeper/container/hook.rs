//! Programs that the engine has run on the way to a container.

use super::{During, Failure, KEEPER, confine, guest, message::Setup, readable};
use crate::{kernel, message::Reader, wire::container::Step};
use kernel::{CStr, Errno, Fd};

/// Runs one and waits. It fails with what the program ended with.
pub(super) fn run(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let mut number = || reader.u32().during(Step::Decode, 23);
    let [confined, seconds] = [number()?, number()?];
    let path = reader.text().during(Step::Decode, 23)?;
    let arguments = setup.pointers(reader).during(Step::Decode, 24)?;
    let environment = setup.pointers(reader).during(Step::Decode, 25)?;
    let input = reader.bytes().during(Step::Decode, 26)?;
    let pipe = kernel::pipe().during(Step::Hook, item)?;
    let Some((pid, pidfd)) = kernel::fork_child().during(Step::Hook, item)? else {
        execute(setup, confined != 0, pipe, (path, arguments, environment))
    };
    kernel::close(pipe[0]);
    // One that does not read it may be gone, and SIGPIPE is blocked here; with room for all of it nobody waits for one that hangs.
    kernel::set_pipe_size(pipe[1], input.len());
    write_all(pipe[1], input);
    kernel::close(pipe[1]);
    let patience = (seconds != 0).then_some(u64::from(seconds) * 1_000_000_000);
    let mut ends = [pidfd, KEEPER].map(readable);
    let _ = kernel::poll(&mut ends, patience);
    // One that has ended is not touched by it.
    kernel::pidfd_kill(pidfd);
    kernel::close(pidfd);
    if ends[1].revents != 0 {
        // Nothing outlives the keeper.
        crate::exit(125)
    }
    match kernel::wait_for(pid).during(Step::Hook, item)? {
        0 => Ok(()),
        status => Err(Errno(status)).during(Step::Hook, item),
    }
}

fn write_all(pipe: Fd, mut bytes: &[u8]) {
    while let Ok(written @ 1..) = kernel::write(pipe, bytes) {
        bytes = &bytes[written..];
    }
}

fn execute(
    setup: &mut Setup,
    confined: bool,
    pipe: [Fd; 2],
    (path, arguments, environment): (CStr, &[*const u8], &[*const u8]),
) -> ! {
    const NOT_EXECUTED: i32 = 127;
    // One that finds the host's files finds the container's where it stands, as with other runtimes.
    let enter = |root| kernel::change_directory_fd(root).is_err();
    if !confined && setup.root.is_some_and(enter) {
        crate::exit(NOT_EXECUTED)
    }
    if kernel::duplicate_to(pipe[0], 0).is_err() || kernel::close_on_exec_from(3).is_err() {
        crate::exit(NOT_EXECUTED)
    }
    if confined && confine::confine(setup).is_err() {
        crate::exit(NOT_EXECUTED)
    }
    guest::reset_signals();
    let _ = kernel::set_signal_mask(0);
    // SAFETY: both arrays end with a null pointer, and `Setup::pointers` made them.
    let _ = unsafe { kernel::execute(path, arguments.as_ptr(), environment.as_ptr()) };
    crate::exit(NOT_EXECUTED)
}
