//! Calls on local sockets, carried out for others of the container.
//!
//! A filter that leaves connect(2) to a supervisor cannot tell a local socket from one of the host's network, and nobody outside may
//! look for a name that means something inside. So a process of the container's own makes the call, on the caller's open socket, by a
//! child that is whoever called: user, groups, capabilities, root, folder.

use super::{Failure, confine, init, readable};
use crate::{
    kernel,
    perform::{self, Call, contents},
    record::record_from,
    wire::{self, caller},
};
use kernel::{Errno, Fd, Result, c};

/// Where calls arrive, when all else is closed.
const CALLS: Fd = 3;
/// By which a child ends when nobody waits for it any more.
const SIGIO: i32 = 29;
const WALL: u32 = 0x4000_0000;

/// Carries calls out until nobody can ask any more. Comes back only with what keeps it from beginning.
pub(super) fn attend(setup: &mut super::message::Setup, calls: Fd) -> Failure {
    match begin(setup, calls) {
        Ok(children) => serve(children),
        Err(failure) => failure,
    }
}

fn begin(setup: &super::message::Setup, calls: Fd) -> core::result::Result<Fd, Failure> {
    use super::{During, Step};
    kernel::set_name(c!("palisade-local"));
    confine::attend(setup)?;
    kernel::set_default_action(SIGIO);
    let blocked = !(1 << (SIGIO - 1));
    kernel::set_signal_mask(blocked).during(Step::Session, 3)?;
    // Its channel too, by whose end it tells that it is there.
    kernel::duplicate_to(calls, CALLS).during(Step::Streams, 3)?;
    kernel::close_from(CALLS + 1).during(Step::Streams, 4)?;
    kernel::signalfd(init::CHILD).during(Step::Session, 4)
}

fn serve(children: Fd) -> ! {
    let mut has_more = false;
    loop {
        let mut fds = [CALLS, children].map(readable);
        let _ = kernel::poll(&mut fds, has_more.then_some(0));
        if fds[1].revents != 0 || has_more {
            has_more = kernel::reap_some(children, WALL, |_, _| {});
        }
        if fds[0].revents != 0 {
            hear();
        }
    }
}

fn hear() {
    let mut buffer = [0; wire::RECORD_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let (length, count) = match kernel::receive(CALLS, &mut buffer, &mut fds) {
        Ok((0, _)) => crate::exit(0),
        Ok(received) => received,
        Err(errno) if errno == Errno::INTR => return,
        Err(_) => crate::exit(125),
    };
    let fds = &fds[..count];
    match record_from(&buffer[..length]) {
        Some(request) if request.kind == wire::DOMAIN_PERFORM => {
            perform::begin(&request.words, fds, carry_out);
        }
        Some(request) if request.kind == wire::DOMAIN_SOCKET => {
            perform::make_socket(&request.words, fds);
        }
        _ => fds.iter().for_each(|fd| kernel::close(*fd)),
    }
}

fn carry_out(call: &Call<'_>) -> Result<usize> {
    kernel::close(CALLS);
    if let Some(root) = call.root {
        enter_root(root)?;
    }
    if let Some(folder) = call.folder {
        kernel::change_directory_fd(folder)?;
    }
    kernel::set_umask(call.umask);
    call.check_abstract()?;
    become_caller(call.caller.ok_or(Errno::INVAL)?)?;
    call.make(call.address)
}

/// Most callers have the container's.
fn enter_root(root: Fd) -> Result<()> {
    let own = kernel::open(kernel::AT_FDCWD, c!("/"), kernel::O_PATH, 0)?;
    let place = |fd| kernel::statx_fd(fd).map(|about| (about.mount, about.inode));
    if place(own)? == place(root)? {
        return Ok(());
    }
    kernel::change_directory_fd(root)?;
    kernel::change_root(c!("."))
}

fn become_caller(file: Fd) -> Result<()> {
    let (words, _) = contents(file)?.as_chunks::<4>();
    let mut all = [0u32; caller::WORDS + caller::MOST_GROUPS];
    let all = all.get_mut(..words.len()).ok_or(Errno::INVAL)?;
    for (to, from) in all.iter_mut().zip(words) {
        *to = u32::from_ne_bytes(*from);
    }
    let Some((about, groups)) = all.split_at_checked(caller::WORDS) else {
        return Err(Errno::INVAL);
    };
    let capabilities =
        u64::from(about[caller::CAPABILITIES]) | u64::from(about[caller::CAPABILITIES + 1]) << 32;
    let who = (about[caller::UID], about[caller::GID]);
    confine::become_caller(who, groups, capabilities)
}
