//! The guest's process, from its creation to its program.

use super::{
    Init,
    confine::{self, Confinement},
    exec, guard,
    launch::{self, Program, Setup},
    meeting_places::MeetingPlaces,
    part, tell_ready, terminal,
};
use crate::{
    During, Failure, kernel,
    message::Reader,
    privileges,
    text::Text,
    wire::{self, Step},
};
use core::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{CStr, Errno, Fd, MayGo, Pool, Progress, c};

/// Stack of the guest's process until its program has one of its own.
const STACK_BYTES: usize = 32 * 1024;
pub(crate) const STANDARD_STREAMS: usize = 3;

/// A guest that runs.
pub(crate) struct Running {
    pub(crate) pid: i32,
    /// Where init hears what is asked for at the keeper's door; `None` once nobody can.
    pub(crate) gate: Option<Fd>,
    /// What another process of the domain's is started with.
    pub(crate) again: exec::Again,
    pub(crate) attendants: exec::Attendants,
    /// Its terminal, if it has one.
    pub(crate) terminal: Option<Fd>,
    /// Readable when a child has changed.
    pub(crate) children: Fd,
    pub(crate) supervisor: Fd,
    pub(crate) deadline_ns: Option<u64>,
    pub(crate) cpu_time_us: Option<u64>,
    pub(crate) cpu_counter: Option<launch::CpuCounter>,
    /// Where its processes are, if not at `/proc`.
    pub(crate) own_proc: Option<Fd>,
    /// The device of the domain's own `tmpfs`.
    pub(crate) own_device: Option<(u32, u32)>,
    /// The Landlock rules that hold what is done for it.
    pub(crate) landlock: Option<Fd>,
    pub(crate) guard: Option<guard::Guard>,
    /// Sockets of the host's that it may connect to.
    pub(crate) meeting_places: MeetingPlaces,
    /// Where its calls arrive that init looks at.
    pub(crate) listener: Option<Fd>,
}

/// What the guest's process works on and where it leaves its failure; both processes see it until
/// the program runs.
struct Birth<'a> {
    init: &'a Init,
    setup: &'a mut Setup,
    failure: Option<Failure>,
}

/// Starts the guest's program; gives its pid inside the domain. If the prelude asked for it, the
/// guest's process waits for the launch message itself, with everything done that needs no message.
///
/// A filter that leaves calls to somebody gives its listener to the process that loads it, and
/// from then on sendmsg(2) may be such a call. So that process shares init's descriptors until its
/// filter is loaded, and init, which is under no filter, passes the listener on.
pub(crate) fn start(init: &Init, setup: &mut Setup) -> Result<i32, Failure> {
    let stack = kernel::allocate(STACK_BYTES).during(Step::CloneGuest, 1)?;
    let shares = setup.has_listener();
    let mut birth = Birth {
        init,
        setup,
        failure: None,
    };
    let spawned = kernel::spawn(stack, become_guest, &mut birth, shares);
    let failure = birth.failure.take();
    // Its program has a stack of its own.
    setup.stack = Some(stack);
    let pid = spawned.during(Step::CloneGuest, 2)?;
    match failure {
        Some(failure) => Err(failure),
        None => Ok(pid),
    }
}

/// What the guest's process works on that confines itself while init builds the root.
struct BirthBeside<'a> {
    /// What it makes of the root, and the root.
    part: (Reader, Fd),
    progress: &'a Progress,
    confinement: Confinement,
    may_go: &'a MayGo,
    /// Init's until then, and not init's from then on.
    setup: &'a AtomicPtr<Setup>,
    listener: Option<Fd>,
    failure: Option<Failure>,
}

/// Makes the guest's process, and carries out what is left of the message while that makes its part of the root and confines
/// itself: its filter alone takes the kernel as long as a dozen mounts. The process shares init's descriptors meanwhile, its root and its
/// mounts; nobody but palisade's own program runs in it before `rest` is done. Then it executes; gives its pid inside.
///
/// `setup` holds all that confines it but Landlock rules, where those name paths of the new root's.
pub(crate) fn start_beside(
    setup: &mut Setup,
    part: (Reader, Fd),
    rest: impl FnOnce(&mut Setup, &Progress) -> Result<(), Failure>,
) -> Result<i32, Failure> {
    let stack = kernel::allocate(STACK_BYTES).during(Step::CloneGuest, 1)?;
    let (may_go, place) = (MayGo::new(), AtomicPtr::new(ptr::null_mut()));
    let progress = Progress::new();
    let mut birth = BirthBeside {
        part,
        progress: &progress,
        confinement: Confinement::of(setup),
        may_go: &may_go,
        setup: &place,
        listener: None,
        failure: None,
    };
    let mut outcome = Ok(());
    // Where its processors are limited, it does that itself.
    let is_put_elsewhere = setup.affinity.is_none();
    let child = (
        become_guest_beside as extern "C" fn(&mut _) -> !,
        &mut birth,
    );
    let spawned = kernel::spawn_beside(stack, child, true, &progress, |pid| {
        // Here it would only take turns with this process.
        let is_put = match is_put_elsewhere {
            true => kernel::put_elsewhere(pid).during(Step::Affinity, 1),
            false => Ok(()),
        };
        outcome = is_put.and_then(|()| rest(setup, &progress));
        place.store(setup, Ordering::Release);
        may_go.tell(outcome.is_ok());
    });
    setup.stack = Some(stack);
    let pid = spawned.during(Step::CloneGuest, 2)?;
    setup.listener = birth.listener;
    // Where both have failed, init of what the other did not do.
    match birth.failure {
        Some(failure) => Err(failure),
        None => outcome.map(|()| pid),
    }
}

extern "C" fn become_guest_beside(birth: &mut BirthBeside) -> ! {
    birth.failure = prepare_beside(birth).err();
    crate::exit(127)
}

fn prepare_beside(birth: &mut BirthBeside) -> Result<(), Failure> {
    kernel::set_own_group().during(Step::NewSession, 0)?;
    let (instructions, root) = birth.part;
    part::make(instructions, root)?;
    birth.progress.tell_made();
    birth.listener = birth.confinement.apply()?;
    if !birth.may_go.wait() {
        crate::exit(127)
    }
    // SAFETY: init stored it before it let this process go, and does not touch it until this process has left this memory.
    let setup = unsafe { &mut *birth.setup.load(Ordering::Acquire) };
    birth.confinement.complete(setup)?;
    kernel::own_descriptors().during(Step::Redirect, 5)?;
    redirect(setup).during(Step::Redirect, 0)?;
    execute_confined(setup)
}

extern "C" fn become_guest(birth: &mut Birth) -> ! {
    if birth.init.bare {
        let _ = kernel::prctl(privileges::SET_PARENT_DEATH_SIGNAL, kernel::SIGKILL as u64);
    }
    birth.failure = prepare_and_execute(birth.init, birth.setup).err();
    crate::exit(127)
}

fn prepare_and_execute(init: &Init, setup: &mut Setup) -> Result<(), Failure> {
    kernel::set_own_group().during(Step::NewSession, 0)?;
    let confine_first = setup.guest_ahead || setup.has_listener();
    if confine_first {
        setup.listener = Confinement::of(setup).apply()?;
    }
    if setup.has_listener() {
        kernel::own_descriptors().during(Step::Redirect, 5)?;
    }
    if setup.guest_ahead {
        await_launch(init.socket, setup)?;
    } else {
        redirect(setup).during(Step::Redirect, 0)?;
    }
    if !confine_first {
        setup.listener = Confinement::of(setup).apply()?;
    }
    execute_confined(setup)
}

/// What is left once the process is confined and has its streams. Comes back only with what kept it.
fn execute_confined(setup: &mut Setup) -> Result<(), Failure> {
    let (_, passed) = setup.passed;
    kernel::close_from((STANDARD_STREAMS + passed) as Fd).during(Step::Redirect, 1)?;
    confine::limit_files(setup)?;
    kernel::set_umask(0o022);
    let cwd = setup.cwd.unwrap_or(c!("/"));
    kernel::change_directory(cwd).during(Step::ChangeDirectory, 0)?;
    reset_signals();
    kernel::set_signal_mask(0).during(Step::Execute, 0)?;
    let program = setup
        .program
        .as_mut()
        .ok_or(Errno::INVAL)
        .during(Step::DecodeLaunch, u32::MAX)?;
    if setup.tells_pid {
        let pool = setup.messages.last();
        pool.and_then(|pool| tell_pid(program, pool))
            .during(Step::Execute, 1)?;
    }
    Err(Failure {
        step: Step::Execute,
        item: 0,
        errno: execute(program),
    })
}

/// Waits for the launch message in init's stead, already confined. Descriptors 0, 1 and 2 are made
/// free for the streams that come with it: the kernel gives out the lowest.
fn await_launch(socket: Fd, setup: &mut Setup) -> Result<(), Failure> {
    kernel::close_from(socket + 1).during(Step::Redirect, 2)?;
    for stream in 0..STANDARD_STREAMS {
        kernel::close(stream as Fd);
    }
    kernel::populate_code();
    if let Some(title) = setup.title {
        title.make_own();
    }
    setup.messages.make_room().during(Step::ReceiveLaunch, 1)?;
    tell_ready(socket);
    launch::obey(socket, setup)?;
    // They are this process's: init, which shares the list, has others of these numbers.
    let streams = setup.take_fds();
    if streams != [0, 1, 2] {
        return Err(Errno::INVAL).during(Step::Redirect, 3);
    }
    for stream in streams {
        kernel::keep_on_exec(*stream).during(Step::Redirect, 4)?;
    }
    Ok(())
}

/// What palisade was told to ignore stays ignored (nohup(1)), but for the two signals that belong to
/// the C library, which posix_spawn(3) of glibc leaves ignored.
fn reset_signals() {
    const OF_THE_C_LIBRARY: core::ops::RangeInclusive<i32> = 32..=33;
    for signal in OF_THE_C_LIBRARY {
        kernel::set_default_action(signal);
    }
}

/// Gives the guest its standard streams: what came with the message, or its own terminal.
fn redirect(setup: &Setup) -> kernel::Result<()> {
    if let Some(terminal) = setup.terminal.filter(|terminal| terminal.in_front) {
        terminal::put_in_front(terminal.slave, kernel::process_id())?;
    }
    for stream in 0..STANDARD_STREAMS {
        let from = match &setup.terminal {
            Some(terminal) if setup.terminal_replaces & (1 << stream) != 0 => terminal.slave,
            _ => *setup.fds().get(stream).ok_or(Errno::INVAL)?,
        };
        kernel::duplicate_to(from, stream as Fd)?;
    }
    // In ascending order: each comes from further up than it goes to.
    let (first, count) = setup.passed;
    let passed = setup.fds().get(first..first + count).ok_or(Errno::INVAL)?;
    for (from, to) in passed.iter().zip(STANDARD_STREAMS as Fd..) {
        kernel::duplicate_to(*from, to)?;
    }
    Ok(())
}

/// Whom the open sockets are for: sd_listen_fds(3) takes them only under its own pid.
fn tell_pid(program: &mut Program, pool: &mut Pool) -> kernel::Result<()> {
    const NAME: &[u8] = b"LISTEN_PID=";
    let mut text = Text::default();
    text.text(NAME)
        .number(kernel::process_id() as u64)
        .text(b"\0");
    let variable = pool.keep(text.bytes())?;
    // The launch adds the variables last.
    match program.environment {
        [.., pid, null] if null.is_null() => *pid = variable.as_ptr(),
        _ => return Err(Errno::INVAL),
    }
    Ok(())
}

/// Tries each candidate as execvp(3) does: a missing one is passed over, a refused one remembered.
fn execute(program: &mut Program) -> Errno {
    let mut answer = Errno::NOENT;
    let mut candidates = program.candidates;
    for _ in 0..program.candidate_count {
        let Ok(path) = candidates.text() else {
            return Errno::INVAL;
        };
        match execute_one(path, program) {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => answer = Errno::ACCESS,
            other => return other,
        }
    }
    answer
}

fn execute_one(path: CStr, program: &mut Program) -> Errno {
    // Two spare places stand in front of the arguments.
    let arguments = &raw const program.arguments[2];
    // SAFETY: both arrays end with a null pointer, and `launch::pointers` made them.
    let errno = unsafe { kernel::execute(path, arguments, program.environment.as_ptr()) };
    if errno != Errno::NOEXEC {
        return errno;
    }
    execute_by_shell(path, program)
}

/// A text file without an interpreter line belongs to the shell (execvp(3)).
fn execute_by_shell(path: CStr, program: &mut Program) -> Errno {
    let shell = c!("/bin/sh");
    program.arguments[1] = shell.pointer();
    program.arguments[2] = path.pointer();
    // SAFETY: both arrays end with a null pointer, and `launch::pointers` made them.
    unsafe {
        kernel::execute(
            shell,
            &raw const program.arguments[1],
            program.environment.as_ptr(),
        )
    }
}

/// Keeps the wire module's layout of the first descriptors and this one together.
const _: () = assert!(STANDARD_STREAMS < wire::MAX_FDS);
