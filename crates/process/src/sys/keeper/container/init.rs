//! The first process of a container: builds it, waits for its start, and stays with its program.
//!
//! As PID 1 it is nobody's to end from inside. Signals that it gets from outside are the program's; its end is the program's.

use super::{
    During, Failure, KEEPER, attend, failed, guest, hook,
    message::{MOST_NAMESPACES, Setup},
    proc, readable, record, record_from, root, send_record, terminal,
};
use crate::{
    kernel,
    message::Reader,
    title::Title,
    wire::{
        self,
        container::{self, Step, op, pause},
    },
};
use kernel::{Errno, Fd};

/// `PR_SET_DUMPABLE` and `PR_SET_CHILD_SUBREAPER`.
const SET_DUMPABLE: u32 = 4;
const SET_CHILD_SUBREAPER: u32 = 36;

/// `__WALL`: also children made with another exit signal.
const WALL: u32 = 0x4000_0000;

/// By which whoever creates the container is heard.
pub(super) const CHANNEL: Fd = 4;
/// By which the keeper passes on what is asked for at its door.
const GATE: Fd = 5;
/// A file system that was mounted ahead.
const SYSFS: Fd = 6;

/// What the first process is for the rest of its life.
pub(super) struct Init {
    title: Title,
    is_entrant: bool,
    /// Everything in its pid namespace is the container's.
    owns_processes: bool,
    /// Children that have ended.
    children: Fd,
    /// Signals for the program.
    signals: Fd,
    /// Where the answer to whoever starts it goes.
    session: Option<Fd>,
}

/// Runs it in a fresh child.
pub(super) fn run(
    channel: Fd,
    gate: [Fd; 2],
    sysfs: Option<Fd>,
    (flags, made): (u64, u64),
    title: Title,
) -> ! {
    if settle(channel, gate, sysfs).is_err() {
        crate::exit(125)
    }
    let (Ok(children), Ok(signals)) = (
        kernel::signalfd(CHILD),
        kernel::signalfd(!(CHILD | KILL | STOP | PIPE)),
    ) else {
        crate::exit(125)
    };
    let is_entrant = flags & container::ENTRANT != 0;
    let mut init = Init {
        title,
        is_entrant,
        owns_processes: flags & container::SHARED_PROCESSES == 0,
        children,
        signals,
        session: None,
    };
    match begin(&mut init, sysfs.is_some(), made) {
        Ok(program) => init.stay(program),
        Err(failure) => {
            let channel = init.session.unwrap_or(CHANNEL);
            send_record(channel, &failed(&failure), &[]);
            crate::exit(125)
        }
    }
}

pub(super) const CHILD: u64 = 1 << (kernel::SIGCHLD - 1);
const KILL: u64 = 1 << (kernel::SIGKILL - 1);
const STOP: u64 = 1 << 18;
/// Its own, of a hook that does not read.
const PIPE: u64 = 1 << (kernel::SIGPIPE - 1);

/// Lets go of everything that was the keeper's. What is kept comes from further up.
fn settle(channel: Fd, gate: [Fd; 2], sysfs: Option<Fd>) -> kernel::Result<()> {
    /// Above all that is kept, and above what comes with a first message.
    const ASIDE: Fd = 100;
    kernel::duplicate_to(channel, ASIDE)?;
    kernel::duplicate_to(gate[0], ASIDE + 1)?;
    if let Some(sysfs) = sysfs {
        kernel::duplicate_to(sysfs, ASIDE + 2)?;
    }
    // The keeper's end of the pipe too is out of the way by then: with it init would outlive the keeper.
    kernel::duplicate_to(super::NOTHING, super::CONTROL)?;
    kernel::duplicate_to(super::NOTHING, super::CREATOR)?;
    kernel::duplicate_to(ASIDE, CHANNEL)?;
    kernel::duplicate_to(ASIDE + 1, GATE)?;
    let mut last = GATE;
    if sysfs.is_some() {
        kernel::duplicate_to(ASIDE + 2, SYSFS)?;
        last = SYSFS;
    }
    kernel::close_from(last + 1)?;
    kernel::set_name(kernel::c!("palisade-init"));
    Ok(())
}

/// From the message to a running program.
fn begin(init: &mut Init, has_sysfs: bool, made: u64) -> Result<i32, Failure> {
    let mut setup = Setup::new();
    setup.sysfs = has_sysfs.then_some(SYSFS);
    let message = setup.receive(CHANNEL)?;
    if made & kernel::CLONE_NEWUSER != 0 {
        // As whom nobody is mapped there are no rights on files.
        kernel::set_ids(0, 0).during(Step::SetIds, 0)?;
    }
    if !init.is_entrant {
        kernel::set_session().during(Step::Session, 0)?;
        if !init.owns_processes {
            kernel::prctl(SET_CHILD_SUBREAPER, 1).during(Step::Session, 1)?;
        }
    }
    if made & kernel::CLONE_NEWNET != 0 {
        bring_loopback_up().during(Step::Loopback, 0)?;
    }
    // Modes in the message are meant as written.
    kernel::clear_umask();
    perform(message, init, &mut setup)?;
    hide()?;
    if init.is_entrant {
        return Err(match setup.attends {
            Some(calls) => attend::attend(&mut setup, calls),
            None => guest::become_program(&mut setup),
        });
    }
    let pid = guest::start(&mut setup)?;
    if let Some(session) = init.session.take() {
        send_record(session, &record(container::STARTED, &[]), &[]);
        kernel::close(session);
    }
    if let Some(terminal) = setup.terminal {
        kernel::close(terminal.slave);
    }
    // The host's `/proc` is among them.
    for fd in setup.fds() {
        kernel::close(*fd);
    }
    Ok(pid)
}

/// A new network has one that is down.
fn bring_loopback_up() -> kernel::Result<()> {
    const AF_INET: u32 = 2;
    const SOCK_DGRAM: u32 = 2;
    let socket = kernel::socket(AF_INET, SOCK_DGRAM, 0)?;
    let outcome = kernel::bring_loopback_up(socket);
    kernel::close(socket);
    outcome
}

/// Nobody in the container looks into this process, whatever capabilities it has in a user namespace there: its memory belongs to
/// the keeper's. Not before somebody is there: until then its own files in `/proc` are its own.
pub(super) fn hide() -> Result<(), Failure> {
    kernel::prctl(SET_DUMPABLE, 0).during(Step::SetIds, 1)
}

/// Carries out every instruction, in the order of the message. A step is told by how many of its kind came before.
fn perform(mut reader: Reader, init: &mut Init, setup: &mut Setup) -> Result<(), Failure> {
    let mut before = [0u32; 64];
    while !reader.is_empty() {
        let operation = reader.u32().during(Step::Decode, 7)?;
        let place = before.get_mut(operation as usize).ok_or(Errno::NOSYS);
        let place = place.during(Step::Decode, operation)?;
        let item = *place;
        *place += 1;
        perform_one(operation, &mut reader, init, setup, item)?;
    }
    Ok(())
}

fn perform_one(
    operation: u32,
    reader: &mut Reader,
    init: &mut Init,
    setup: &mut Setup,
    item: u32,
) -> Result<(), Failure> {
    match operation {
        op::PROPAGATION => root::set_propagation(reader),
        op::ROOT => root::take(reader, setup),
        op::MOUNT => root::mount(reader, setup, item),
        op::BIND => root::bind(reader, setup, item),
        op::DEVICE => root::make_device(reader, setup, item),
        op::SYMLINK => root::link(reader, setup, item),
        op::FOLDER => root::folder(reader, setup, item),
        op::RESTRICT => root::restrict(reader, setup, item),
        op::MASK => root::mask(reader, setup, item),
        op::ENTER_ROOT => root::enter(reader, setup),
        op::ROOT_ATTRIBUTES => root::set_attributes(reader, setup),
        op::SETTING => set(reader, item),
        op::HOST_NAME => {
            let name = reader.bytes().during(Step::Decode, 8)?;
            kernel::set_host_name(name).during(Step::HostName, 0)
        }
        op::DOMAIN_NAME => {
            let name = reader.bytes().during(Step::Decode, 8)?;
            kernel::set_domain_name(name).during(Step::HostName, 1)
        }
        op::PAUSE => pause(reader, init, setup),
        op::HOOK => {
            hide()?;
            hook::run(reader, setup, item)
        }
        op::TERMINAL => terminal::open(reader, setup),
        op::OOM_SCORE => {
            let text = reader.bytes().during(Step::Decode, 8)?;
            write_file(kernel::c!("/proc/self/oom_score_adj"), text).during(Step::OomScore, 0)
        }
        op::JOIN => {
            let index = reader.u32().during(Step::Decode, 8)?;
            let tasks = setup.fd(index).during(Step::Decode, 9)?;
            // It moves itself: whoever moves another process waits for an RCU grace period (Linux commit 9a3284fad42f).
            let joined = kernel::write(tasks, b"0").map(drop);
            joined.during(Step::JoinCgroup, item)
        }
        op::CGROUP_NAMESPACE => kernel::own_cgroup_namespace().during(Step::CgroupNamespace, 0),
        op::CHECK_PROGRAM => guest::check(setup),
        op::WITHOUT_PROC => proc::refuse(reader, setup),
        op::TITLE => {
            init.title.set(reader.bytes().during(Step::Decode, 8)?);
            Ok(())
        }
        _ => keep(operation, reader, setup).during(Step::Decode, operation),
    }
}

/// What the program's own process does to itself.
fn keep(operation: u32, reader: &mut Reader, setup: &mut Setup) -> kernel::Result<()> {
    match operation {
        op::PROGRAM => setup.program = Some(setup.program(reader)?),
        op::EXECUTABLE => setup.executable = Some(setup.fd(reader.u32()?)?),
        op::CWD => setup.cwd = Some(reader.text()?),
        op::CREDENTIALS => setup.credentials = Some(setup.read_credentials(reader)?),
        op::RLIMIT => {
            let limit = (reader.u32()?, reader.u64()?, reader.u64()?);
            setup.limits.push(limit)?;
        }
        op::FILTER => {
            let (program, flags) = (reader.bytes()?, reader.u32()?);
            let supervisor = match reader.u32()? {
                0 => None,
                number => Some(setup.fd(number - 1)?),
            };
            setup.filters.push((program, flags, supervisor))?;
        }
        op::ATTEND => setup.attends = Some(setup.fd(reader.u32()?)?),
        op::LABEL => setup.labels.push((Some(reader.text()?), reader.bytes()?))?,
        op::OWN_FILTER => setup.own_filter = Some(reader.bytes()?),
        op::KEYRING => setup.new_keyring = true,
        op::STREAMS => setup.streams = reader.u32()? as usize,
        op::SCHEDULER => setup.scheduler = Some(reader.bytes()?),
        op::IO_PRIORITY => setup.io_priority = Some(reader.u32()?),
        op::PERSONALITY => setup.personality = Some(reader.u32()?),
        op::AFFINITY => setup.affinity = Some(reader.bytes()?),
        op::LANDLOCK => setup.landlock = Some([reader.u64()?, reader.u64()?, reader.u64()?]),
        _ => return Err(Errno::NOSYS),
    }
    Ok(())
}

/// The host's `/proc` shows each process the settings of its own namespaces.
fn set(reader: &mut Reader, item: u32) -> Result<(), Failure> {
    let path = reader.text().during(Step::Decode, 8)?;
    let value = reader.bytes().during(Step::Decode, 8)?;
    write_file(path, value).during(Step::Setting, item)
}

fn write_file(path: kernel::CStr, text: &[u8]) -> kernel::Result<()> {
    let file = kernel::open(kernel::AT_FDCWD, path, kernel::O_WRONLY, 0)?;
    let written = kernel::write(file, text);
    kernel::close(file);
    match written? {
        length if length == text.len() => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

/// Tells that this is done so far, and waits until somebody says to go on.
fn pause(reader: &mut Reader, init: &mut Init, setup: &mut Setup) -> Result<(), Failure> {
    let which = reader.u32().during(Step::Decode, 8)?;
    let mut words = [0; 3 + MOST_NAMESPACES];
    let mut fds = [-1; 1 + MOST_NAMESPACES];
    let mut count = 0;
    words[0] = which.into();
    if which == pause::CREATED {
        let terminal = setup.terminal.as_mut();
        if let Some(master) = terminal.and_then(|terminal| terminal.master.take()) {
            (words[1], fds[0], count) = (1, master, 1);
        }
        for (kind, namespace) in setup.namespaces.take().iter() {
            words[3 + words[2] as usize] = kind;
            words[2] += 1;
            fds[count] = namespace;
            count += 1;
        }
    }
    send_record(CHANNEL, &record(container::PAUSED, &words), &fds[..count]);
    for fd in &fds[..count] {
        kernel::close(*fd);
    }
    match which {
        pause::CREATED => {
            // Whoever creates it leaves, and has heard all that there is to hear.
            kernel::close(CHANNEL);
            init.session = Some(init.wait_for_start());
        }
        _ => init.wait_for_go(),
    }
    Ok(())
}

impl Init {
    /// For the word of whoever creates the container. Without it there will be none.
    fn wait_for_go(&self) {
        let mut fds = [CHANNEL, KEEPER].map(readable);
        let _ = kernel::poll(&mut fds, None);
        let mut buffer = [0; wire::RECORD_BYTES];
        let mut came = [-1; wire::MAX_FDS];
        let heard = match fds[1].revents {
            0 => kernel::receive(CHANNEL, &mut buffer, &mut came),
            _ => Err(Errno::SRCH),
        };
        let length = heard.map_or(0, |(length, _)| length);
        let said = record_from(&buffer[..length]);
        if said.is_none_or(|said| said.kind != container::GO_ON) {
            crate::exit(125)
        }
    }

    /// For somebody at the keeper's door. A signal that would end a program ends what has none yet.
    fn wait_for_start(&self) -> Fd {
        loop {
            let mut fds = [GATE, KEEPER, self.signals].map(readable);
            let _ = kernel::poll(&mut fds, None);
            if fds[1].revents != 0 {
                crate::exit(125)
            }
            if fds[2].revents != 0
                && let Some(signal) = taken(self.signals).filter(|signal| ends(*signal))
            {
                crate::exit(128 + signal)
            }
            if fds[0].revents != 0
                && let Some(session) = hear_start()
            {
                return session;
            }
        }
    }

    /// Until the program has ended, or the keeper.
    fn stay(&self, program: i32) -> ! {
        let mut has_more = false;
        loop {
            let mut fds = [self.children, KEEPER, self.signals, GATE].map(readable);
            let _ = kernel::poll(&mut fds, has_more.then_some(0));
            if fds[1].revents != 0 {
                self.finish(program, 128 + kernel::SIGKILL)
            }
            if fds[2].revents != 0
                && let Some(signal) = taken(self.signals)
            {
                let _ = kernel::kill(program, signal);
            }
            if fds[0].revents != 0 || has_more {
                has_more = self.reap(program);
            }
            // It runs already.
            if fds[3].revents != 0
                && let Some(session) = hear_start()
            {
                kernel::close(session);
            }
        }
    }

    /// Whether there may be more to reap.
    fn reap(&self, program: i32) -> bool {
        kernel::reap_some(self.children, WALL, |pid, status| {
            if pid == program {
                self.finish(program, code(status));
            }
        })
    }

    /// Ends with the program's status. With the first process of a namespace the kernel ends all others, and they are gone before anybody
    /// hears of its end. Among processes of others the keeper ends those that are the container's.
    fn finish(&self, program: i32, code: i32) -> ! {
        if !self.owns_processes {
            let _ = kernel::kill(program, kernel::SIGKILL);
        }
        crate::exit(code)
    }
}

/// What a shell makes of a wait status. A PID 1 cannot end by a signal of its own.
fn code(status: u32) -> i32 {
    match status & 0x7f {
        0 => (status >> 8 & 0xff) as i32,
        signal => 128 + signal as i32,
    }
}

/// Signals that are ignored, or stop and continue, by default (signal(7)).
fn ends(signal: i32) -> bool {
    const OTHERS: [i32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];
    !OTHERS.contains(&signal)
}

/// The next signal.
pub(super) fn taken(signals: Fd) -> Option<i32> {
    let mut about = [0u8; 128];
    let length = kernel::read(signals, &mut about).ok()?;
    let number = about[..length].first_chunk::<4>()?;
    i32::try_from(u32::from_ne_bytes(*number)).ok()
}

/// Reads one request.
fn hear_start() -> Option<Fd> {
    let mut buffer = [0; wire::RECORD_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let (length, count) = kernel::receive(GATE, &mut buffer, &mut fds).ok()?;
    let request = record_from(&buffer[..length]);
    match (request, &fds[..count]) {
        (Some(request), [session]) if request.kind == container::START => Some(*session),
        (_, fds) => {
            fds.iter().for_each(|fd| kernel::close(*fd));
            None
        }
    }
}

/// Passes the terminal of a process on that will become the program.
pub(super) fn tell_terminal(master: Fd) {
    let paused = record(container::PAUSED, &[pause::CREATED.into()]);
    send_record(CHANNEL, &paused, &[master]);
}
