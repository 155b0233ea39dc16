//! The container's own process, from its creation to its program.

use super::{During, Failure, confine, init, message::Setup, terminal};
use crate::{
    kernel,
    wire::{self, container::Step},
};
use kernel::{CStr, Errno, Fd, MayGo, Progress};

/// Stack of that process until its program has one of its own.
const STACK_BYTES: usize = 64 * 1024;

const S_IFMT: u16 = 0o170_000;
const S_IFREG: u16 = 0o100_000;

/// What that process works on and where it leaves its failure; both processes see it until the program runs.
struct Birth<'a> {
    setup: &'a mut Setup,
    /// Whether init has given up its rights: not before that is there anybody who could look at it.
    may_go: &'a MayGo,
    failure: Option<Failure>,
}

/// Starts the program; gives its pid inside.
pub(super) fn start(setup: &mut Setup) -> Result<i32, Failure> {
    let stack = kernel::allocate(STACK_BYTES).during(Step::Spawn, 10)?;
    let own_filter = setup.own_filter;
    let may_go = MayGo::new();
    let mut birth = Birth {
        setup,
        may_go: &may_go,
        failure: None,
    };
    let mut given_up = Ok(());
    let spawned = kernel::spawn_beside(
        stack,
        (become_guest, &mut birth),
        false,
        &Progress::new(),
        |_| {
            given_up = confine::give_up(own_filter);
            may_go.tell(given_up.is_ok());
        },
    );
    // Its program has a stack of its own.
    kernel::release(stack);
    let pid = spawned.during(Step::Spawn, 11)?;
    given_up?;
    match birth.failure {
        Some(failure) => Err(failure),
        None => Ok(pid),
    }
}

extern "C" fn become_guest(birth: &mut Birth) -> ! {
    if birth.may_go.wait() {
        birth.failure = Some(execute_confined(birth.setup));
    }
    crate::exit(127)
}

/// The same without a process of its own. Comes back only with what kept it.
pub(super) fn become_program(setup: &mut Setup) -> Failure {
    // Streams take the place of what it would tell by: nothing is told of the program's own descriptors.
    let master = setup
        .terminal
        .as_mut()
        .and_then(|terminal| terminal.master.take());
    if let Some(master) = master {
        init::tell_terminal(master);
        kernel::close(master);
    }
    execute_confined(setup)
}

fn execute_confined(setup: &mut Setup) -> Failure {
    match prepare(setup) {
        Ok(()) => Failure {
            step: Step::Execute,
            item: 0,
            errno: execute(setup),
        },
        Err(failure) => failure,
    }
}

fn prepare(setup: &mut Setup) -> Result<(), Failure> {
    kernel::set_session().during(Step::Session, 2)?;
    redirect(setup).during(Step::Streams, 0)?;
    // As root of the container; what only its user may enter is tried once more below.
    let cwd = setup.cwd.unwrap_or(kernel::c!("/"));
    let is_entered = kernel::change_directory(cwd).is_ok();
    // What can be done before there are the image's filters, which may refuse whatever they like.
    if is_entered {
        check_working_directory()?;
    }
    reset_signals();
    kernel::set_signal_mask(0).during(Step::Execute, 1)?;
    confine::confine(setup)?;
    if !is_entered {
        kernel::change_directory(cwd).during(Step::WorkingDirectory, 0)?;
        check_working_directory()?;
    }
    Ok(())
}

/// Whether it is one outside, by a descriptor that its starter gave it, say (CVE-2024-21626).
fn check_working_directory() -> Result<(), Failure> {
    match kernel::stands_inside().during(Step::WorkingDirectory, 1)? {
        true => Ok(()),
        false => Err(Errno::NOENT).during(Step::WorkingDirectory, 2),
    }
}

/// Its streams, and what else it finds open. Everything is brought out of the way first: the numbers overlap.
fn redirect(setup: &mut Setup) -> kernel::Result<()> {
    const ASIDE: Fd = 300;
    /// Above all of them.
    const OWN: Fd = ASIDE + wire::MAX_FDS as Fd;
    for (to, from) in (OWN..).zip([&mut setup.executable, &mut setup.proc]) {
        if let Some(from) = from {
            kernel::duplicate_to(*from, to)?;
            *from = to;
        }
    }
    let count = setup.streams;
    let passed = setup.fds().get(..count).ok_or(Errno::INVAL)?;
    for (to, from) in (ASIDE..).zip(passed) {
        kernel::duplicate_to(*from, to)?;
    }
    for stream in 0..count as Fd {
        kernel::duplicate_to(ASIDE + stream, stream)?;
    }
    if let Some(terminal) = setup.terminal {
        terminal::take(terminal)?;
    }
    // The rest closes by itself when the program is executed; what the process needs on the way there is not its streams'.
    kernel::close_on_exec_from(count.max(3) as Fd)
}

/// What its starter ignores is not the container's.
pub(super) fn reset_signals() {
    const LAST: i32 = 64;
    for signal in (1..=LAST).filter(|signal| !matches!(*signal, 9 | 19)) {
        kernel::set_default_action(signal);
    }
}

/// Tries each candidate as execvp(3) does. A file without an interpreter line is nobody's.
fn execute(setup: &mut Setup) -> Errno {
    let Some(program) = &setup.program else {
        return Errno::INVAL;
    };
    if let Some(executable) = setup.executable {
        // SAFETY: as below.
        return unsafe {
            kernel::execute_open(
                executable,
                program.arguments.as_ptr(),
                program.environment.as_ptr(),
            )
        };
    }
    let mut answer = Errno::NOENT;
    let mut candidates = program.candidates;
    for _ in 0..program.candidate_count {
        let Ok(path) = candidates.text() else {
            return Errno::INVAL;
        };
        // SAFETY: both arrays end with a null pointer, and `Setup::pointers` made them.
        let errno = unsafe {
            kernel::execute(
                path,
                program.arguments.as_ptr(),
                program.environment.as_ptr(),
            )
        };
        match errno {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => answer = Errno::ACCESS,
            other => return other,
        }
    }
    answer
}

/// Whether there is something to execute: engines want to hear of it before the start.
pub(super) fn check(setup: &Setup) -> Result<(), Failure> {
    // The host's was opened ahead.
    if setup.executable.is_some() {
        return Ok(());
    }
    let Some(program) = &setup.program else {
        return Ok(());
    };
    let folder = setup.cwd.unwrap_or(kernel::c!("/"));
    let folder = kernel::open(kernel::AT_FDCWD, folder, kernel::O_PATH, 0);
    let folder = folder.unwrap_or(kernel::AT_FDCWD);
    let mut answer = Errno::NOENT;
    let mut candidates = program.candidates;
    for _ in 0..program.candidate_count {
        let path = candidates.text().during(Step::Decode, 27)?;
        match is_program(folder, path) {
            Ok(()) => {
                kernel::close(folder);
                return Ok(());
            }
            Err(errno) if errno == Errno::ACCESS => answer = errno,
            Err(_) => {}
        }
    }
    kernel::close(folder);
    Err(answer).during(Step::Execute, 2)
}

fn is_program(folder: Fd, path: CStr) -> kernel::Result<()> {
    const ANY_EXECUTE: u16 = 0o111;
    let file = kernel::open(folder, path, kernel::O_PATH, 0)?;
    let about = kernel::statx_fd(file);
    kernel::close(file);
    let mode = about?.mode;
    match mode & S_IFMT == S_IFREG && mode & ANY_EXECUTE != 0 {
        true => Ok(()),
        false => Err(Errno::ACCESS),
    }
}
