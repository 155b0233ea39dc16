//! A further process of a running domain, for who asks at the keeper's door (`palisade exec`).
//!
//! ```text
//!  init ──fork──▶ attendant ──spawn──▶ the process
//!                    │ session
//!  who asked ────────┘ message; signals in; that it runs and how it ended out
//! ```
//!
//! A child of init's attends to it as init does to the guest, so init waits for nobody: the child reads the message, opens
//! a terminal, and starts the process with all that confines the guest's. It ends with whoever asked, and both end with the
//! domain. The guest looks into it no more than into init; without Landlock's signal scopes it can end it, which is the
//! domain's own affair.
//!
//! What the process tries in vain the attendant sees, as init sees it of the guest, and tells init at its own end.
//!
//! What the supervisor decides for the guest call by call (its sockets of the host's) it does not decide for this process,
//! which is refused these.

use super::{
    Init, confine, guard, guest,
    launch::{self, Program, Setup},
    observe::Observer,
    root, terminal,
};
use crate::{
    During, Failure, failed, kernel,
    message::Reader,
    privileges, record_bytes, record_from, send_record,
    wire::{self, Step, notifies, op, seen},
};
use guest::Running;
use kernel::{CStr, Errno, Fd, POLLIN, PollFd, Pool};
use wire::Record;

const WUNTRACED: u32 = 2;
const WALL: u32 = 0x4000_0000;

/// The guest's `PATH` where its environment has none (environ(7)).
const USUAL_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// What the guest's process was started with, as far as another one gets the same. The launch message, which it came
/// with, is many times as large and is let go: this stays for as long as the domain.
pub(crate) struct Again {
    landlock: Option<Fd>,
    seccomp: Option<&'static [u8]>,
    notifies: u32,
    rlimits: launch::Rlimits,
    affinity: Option<&'static [u8]>,
    new_keyring: bool,
    cwd: Option<CStr<'static>>,
    /// Variables, a NUL behind each.
    environment: &'static [u8],
    devpts: Option<Fd>,
}

impl Again {
    /// Copies what it takes into `pool`.
    fn of(setup: &Setup, pool: &mut Pool) -> kernel::Result<Self> {
        let mut keep = |bytes: Option<&[u8]>| bytes.map(|bytes| pool.keep(bytes)).transpose();
        let seccomp = keep(setup.seccomp)?;
        let affinity = keep(setup.affinity)?;
        let cwd = keep(setup.cwd.map(CStr::with_nul))?;
        Ok(Self {
            landlock: setup.landlock_of_calls,
            seccomp,
            notifies: setup.notifies,
            rlimits: setup.rlimits,
            affinity,
            new_keyring: setup.new_keyring,
            cwd: cwd.and_then(CStr::new),
            environment: join(variables(setup), pool)?,
            devpts: setup.devpts,
        })
    }

    /// How much that is.
    fn bytes(setup: &Setup) -> usize {
        let texts = [setup.seccomp, setup.affinity, setup.cwd.map(CStr::with_nul)];
        let texts = texts.into_iter().flatten().chain(variables(setup));
        texts.map(<[u8]>::len).sum()
    }

    /// Somebody `observes`, or its calls go on unseen.
    fn setup(&self, observes: bool) -> Result<Setup, Failure> {
        let is_attended = match self.notifies {
            notifies::NOBODY => true,
            notifies::INIT => observes,
            _ => false,
        };
        let seccomp = match self.seccomp {
            Some(program) if !is_attended => {
                Some(confine::unattended(program).during(Step::Seccomp, 0)?)
            }
            program => program,
        };
        let mut setup = Setup::default();
        setup.landlock = self.landlock;
        setup.seccomp = seccomp;
        if is_attended {
            setup.notifies = self.notifies;
        }
        setup.rlimits = self.rlimits;
        setup.affinity = self.affinity;
        setup.new_keyring = self.new_keyring;
        setup.cwd = self.cwd;
        setup.devpts = self.devpts;
        Ok(setup)
    }
}

/// What stays of a launch message once the guest runs.
pub(crate) struct Kept {
    pub(super) again: Again,
    pub(super) guard: Option<guard::Guard>,
}

impl Kept {
    /// Copies it, so that the message can be let go.
    pub(crate) fn of(setup: &Setup) -> kernel::Result<Self> {
        let of_guard = setup.guard.map_or(0, |guard| guard.text_bytes());
        let mut pool = Pool::new(Again::bytes(setup) + of_guard)?;
        Ok(Self {
            again: Again::of(setup, &mut pool)?,
            guard: setup.guard.map(|guard| guard.kept(&mut pool)).transpose()?,
        })
    }
}

/// The guest's, each with its NUL.
fn variables(setup: &Setup) -> impl Iterator<Item = &[u8]> + Clone {
    let variables = setup.program.as_ref().map(|program| &*program.environment);
    let variables = variables.unwrap_or_default().iter().copied();
    variables
        .filter(|variable| !variable.is_null())
        .map(text_with_nul)
}

/// One behind the other.
fn join<'a>(
    texts: impl Iterator<Item = &'a [u8]> + Clone,
    pool: &mut Pool,
) -> kernel::Result<&'static [u8]> {
    let joined = pool.take(texts.clone().map(<[u8]>::len).sum())?;
    for (place, byte) in joined.iter_mut().zip(texts.flatten()) {
        *place = *byte;
    }
    Ok(joined)
}

/// What was asked for at the door.
pub(crate) enum Heard {
    /// A process, over this session.
    Start(Fd),
    /// The supervisor, over this session.
    Supervisor(Fd),
    /// The domain's end.
    End,
    /// What is not understood.
    Nothing,
    /// The keeper is gone, and nobody will ask.
    Nobody,
}

/// Reads one request.
pub(crate) fn hear(gate: Fd) -> Heard {
    let mut buffer = [0; wire::RECORD_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let (length, count) = match kernel::receive(gate, &mut buffer, &mut fds) {
        Ok((0, _)) => return Heard::Nobody,
        Ok(received) => received,
        Err(_) => return Heard::Nothing,
    };
    match (record_from(&buffer[..length]), &fds[..count]) {
        (Some(request), [session]) if request.kind == wire::DOOR_EXEC => Heard::Start(*session),
        (Some(request), [session]) if request.kind == wire::DOOR_SUPERVISOR => {
            Heard::Supervisor(*session)
        }
        (request, fds) => {
            fds.iter().for_each(|fd| kernel::close(*fd));
            match request {
                Some(request) if request.kind == wire::DOOR_END => Heard::End,
                _ => Heard::Nothing,
            }
        }
    }
}

/// Most sessions at one time of which it is told what was tried there.
const MOST_OBSERVED: usize = 16;

/// Who attends to a session, and where it tells at its end what it saw tried there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Attendants([Option<(i32, Fd)>; MOST_OBSERVED]);

impl Attendants {
    /// One of these has ended, if it is one: what it saw is the domain's.
    pub(crate) fn end(&mut self, pid: i32, observer: &mut Observer) {
        let is_its = |place: &&mut Option<(i32, Fd)>| place.is_some_and(|(whose, _)| whose == pid);
        let Some((_, told)) = self.0.iter_mut().find(is_its).and_then(Option::take) else {
            return;
        };
        let mut more = [0; 8];
        if let Ok(8) = kernel::read(told, &mut more) {
            observer.take_over(&[], u64::from_ne_bytes(more));
        }
        let mut entry = [0; seen::ENTRY_BYTES];
        while let Ok(seen::ENTRY_BYTES) = kernel::read(told, &mut entry) {
            observer.take_over(&entry, 0);
        }
        kernel::close(told);
    }

    fn place(&mut self) -> Option<&mut Option<(i32, Fd)>> {
        self.0.iter_mut().find(|place| place.is_none())
    }
}

/// Starts the process that attends to the session.
pub(crate) fn begin(init: &Init, running: &mut Running, session: Fd) {
    let pipe = match running.attendants.place() {
        Some(_) => kernel::hasty_pipe().ok(),
        None => None,
    };
    let told = pipe.map(|[told, _]| told);
    let tells = pipe.map(|[_, tells]| tells);
    match kernel::fork(0, None) {
        Ok(None) => attend(init, running, session, tells),
        Ok(Some((pid, pidfd))) => {
            kernel::close(pidfd);
            if let (Some(place), Some(told)) = (running.attendants.place(), told) {
                *place = Some((pid, told));
            }
        }
        Err(errno) => tell_failure(
            session,
            &Failure {
                step: Step::CloneGuest,
                item: 3,
                errno,
            },
        ),
    }
    for fd in tells.into_iter().chain([session]) {
        kernel::close(fd);
    }
}

fn attend(init: &Init, running: &Running, session: Fd, tells: Option<Fd>) -> ! {
    init.title.set(wire::SESSIONS_TITLE);
    match start(init, running, session, tells) {
        Ok(mut attended) => attended.stay(),
        Err(failure) => {
            tell_failure(session, &failure);
            crate::exit(125)
        }
    }
}

fn tell_failure(session: Fd, failure: &Failure) {
    let record = failed(wire::INIT_FAILED, failure);
    let _ = kernel::send_at_once(session, record_bytes(&record), &[]);
}

/// A process that runs.
struct Attended<'a> {
    /// The domain's guest.
    running: &'a Running,
    session: Fd,
    children: Fd,
    pid: i32,
    observer: Observer,
    /// Where to tell what was seen.
    tells: Option<Fd>,
}

fn start<'a>(
    init: &Init,
    running: &'a Running,
    session: Fd,
    tells: Option<Fd>,
) -> Result<Attended<'a>, Failure> {
    let again = &running.again;
    if init.bare {
        kernel::prctl(privileges::SET_PARENT_DEATH_SIGNAL, kernel::SIGKILL as u64)
            .during(Step::NewSession, 1)?;
    }
    // What it has from init of the supervisor's and the keeper's is not for this session.
    kernel::close(init.socket);
    kernel::close(super::GATE);
    // A terminal is a session's, and init's has the guest's.
    kernel::set_session().during(Step::NewSession, 2)?;
    let mut setup = again.setup(tells.is_some())?;
    let message = launch::receive(session, &mut setup)?;
    read_message(init, message, again, &mut setup)?;
    let children = kernel::signalfd(1 << (kernel::SIGCHLD - 1)).during(Step::CloneGuest, 0)?;
    let pid = guest::start(init, &mut setup)?;
    setup.stack.take().into_iter().for_each(kernel::release);
    tell_started(session, &setup);
    for fd in setup.take_fds() {
        kernel::close(*fd);
    }
    Ok(Attended {
        running,
        session,
        children,
        pid,
        observer: Observer::new(setup.listener),
        tells,
    })
}

/// Of a launch message this has the process's own part. What else there is was the plan's to say.
fn read_message(
    init: &Init,
    mut message: Reader,
    again: &Again,
    setup: &mut Setup,
) -> Result<(), Failure> {
    while !message.is_empty() {
        match message.u32().during(Step::DecodeLaunch, 2)? {
            op::TERMINAL => open_terminal(init, &mut message, setup)?,
            op::EXEC => {
                let pool = setup.messages.last();
                let asked = pool.and_then(|pool| launch::program(&mut message, pool));
                let asked = asked.during(Step::DecodeLaunch, 3)?;
                setup.program = Some(complete(asked, again).during(Step::DecodeLaunch, 4)?);
            }
            _ => return Err(Errno::NOSYS).during(Step::DecodeLaunch, 5),
        }
    }
    Ok(())
}

/// From the domain's own `devpts`. One without gets one for this terminal, which is mounted nowhere.
fn open_terminal(init: &Init, message: &mut Reader, setup: &mut Setup) -> Result<(), Failure> {
    if setup.devpts.is_none() && !init.bare {
        setup.devpts = Some(root::make_devpts().during(Step::MountDevpts, 1)?);
    }
    terminal::open(message, setup, 0)
}

/// The guest's environment, with those variables added that it has not; the program is looked up in its `PATH`.
fn complete(asked: Program, again: &Again) -> kernel::Result<Program> {
    let own = || again.environment.split_inclusive(|byte| *byte == 0);
    let added = asked.environment.iter().copied().filter(|added| {
        let is_there = |variable: &[u8]| name_of(variable) == name_of(text_with_nul(*added));
        !added.is_null() && !own().any(is_there)
    });
    let all = own().map(<[u8]>::as_ptr).chain(added);
    let mut pool = Pool::new((all.clone().count() + 1) * size_of::<*const u8>())?;
    let environment = pool.take_pointers(all.clone().count() + 1)?;
    for (place, variable) in environment.iter_mut().zip(all) {
        *place = variable;
    }
    let path = own().find_map(|text| text.strip_prefix(b"PATH="));
    let path = path.and_then(|path| path.strip_suffix(b"\0"));
    let (candidates, candidate_count) = match asked.candidate_count {
        1 => look_up(asked.candidates, path.unwrap_or(USUAL_PATH))?,
        count => (asked.candidates, count),
    };
    Ok(Program {
        candidates,
        candidate_count,
        arguments: asked.arguments,
        environment,
    })
}

fn name_of(variable: &[u8]) -> &[u8] {
    let ends = |byte: &u8| *byte == b'=' || *byte == 0;
    variable.split(ends).next().unwrap_or(variable)
}

/// What a string of a message says, with the NUL that it ends with.
fn text_with_nul<'a>(pointer: *const u8) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: pointers of `launch::program` lead to strings of a message that end with a NUL, and a message stays until
    // `Setup::release`.
    unsafe {
        while *pointer.add(length) != 0 {
            length += 1;
        }
        core::slice::from_raw_parts(pointer, length + 1)
    }
}

/// Where a program of this name may lie, as execvp(3) looks for it.
fn look_up(name: Reader, path: &[u8]) -> kernel::Result<(Reader, u32)> {
    let text = { name }.bytes()?;
    if text.contains(&b'/') || text.is_empty() {
        return Ok((name, 1));
    }
    let folders = || {
        path.split(|byte| *byte == b':')
            .filter(|one| one.starts_with(b"/"))
    };
    let bytes = |folder: &[u8]| folder.len() + 1 + text.len();
    let total = folders()
        .map(|folder| size_of::<u32>() + bytes(folder) + 1)
        .sum::<usize>();
    let memory = kernel::allocate(total.max(1))?;
    let mut rest = &mut memory[..total];
    for folder in folders() {
        let (place, further) = rest.split_at_mut(size_of::<u32>() + bytes(folder) + 1);
        let length = (bytes(folder) as u32).to_ne_bytes();
        let parts: [&[u8]; 4] = [&length, folder, b"/", text];
        for (to, from) in place.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        rest = further;
    }
    Ok((Reader::new(&memory[..total]), folders().count() as u32))
}

fn tell_started(session: Fd, setup: &Setup) {
    let mut record = Record {
        kind: wire::INIT_STARTED,
        ..Record::default()
    };
    let master = setup.terminal.map(|terminal| terminal.master);
    if master.is_some() {
        record.words[wire::started::ATTACHED] = wire::ATTACHED_TERMINAL;
    }
    send_record(session, &record, master.as_slice());
    if let Some(master) = master {
        kernel::close(master);
    }
}

impl Attended<'_> {
    fn stay(&mut self) -> ! {
        let mut has_more = false;
        loop {
            let [children, session] = [self.children, self.session].map(|fd| PollFd {
                fd,
                events: POLLIN,
                revents: 0,
            });
            let mut fds = [children, session, self.observer.polled()];
            let _ = kernel::poll(&mut fds, has_more.then_some(0));
            if fds[2].revents != 0 {
                self.observer.answer(self.running, fds[2].revents);
            }
            if fds[1].revents != 0 {
                self.obey();
            }
            if fds[0].revents != 0 || has_more {
                has_more = self.reap();
            }
        }
    }

    /// Passes a signal on. Without anybody who waits for it, the process ends.
    fn obey(&self) {
        let mut buffer = [0; wire::RECORD_BYTES];
        let mut fds = [-1; wire::MAX_FDS];
        let received = kernel::receive(self.session, &mut buffer, &mut fds);
        let (length, count) = received.unwrap_or((0, 0));
        fds[..count].iter().for_each(|fd| kernel::close(*fd));
        match record_from(&buffer[..length]) {
            Some(Record {
                kind: wire::DOMAIN_SIGNAL,
                words,
            }) => self.signal(words[0] as i32),
            _ => {
                self.signal(kernel::SIGKILL);
                self.tell_seen();
                crate::exit(0)
            }
        }
    }

    /// Its group, and itself where it has gone over to another one. It is not reaped yet, so that no other process has its
    /// number.
    fn signal(&self, signal: i32) {
        let _ = kernel::kill(-self.pid, signal);
        if kernel::process_group(self.pid).is_ok_and(|group| group != self.pid) {
            let _ = kernel::kill(self.pid, signal);
        }
    }

    /// Nobody could continue what stops: it goes on at once. Whether there may be more to reap.
    fn reap(&self) -> bool {
        kernel::reap_some(self.children, WUNTRACED | WALL, |pid, status| {
            if pid != self.pid {
                return;
            }
            if status & 0xff == 0x7f {
                self.signal(kernel::SIGCONT);
            } else {
                self.tell_end(status);
            }
        })
    }

    fn tell_end(&self, status: u32) -> ! {
        let mut record = Record {
            kind: wire::INIT_ENDED,
            ..Record::default()
        };
        record.words[wire::ended::STATUS] = u64::from(status);
        self.tell_seen();
        send_record(self.session, &record, &[]);
        crate::exit(0)
    }

    /// Init reads it once this process has ended. What there is no room for is lost.
    fn tell_seen(&self) {
        let Some(tells) = self.tells else { return };
        let (entries, more) = self.observer.list().entries();
        let _ = kernel::write(tells, &more.to_ne_bytes());
        for entry in entries.chunks_exact(seen::ENTRY_BYTES) {
            let _ = kernel::write(tells, entry);
        }
    }
}
