//! A plan as the launch message that init reads: see [`crate::wire::op`].

use super::{
    Reopened,
    part::{Part, count_of_simple, is_of_devices},
};
use crate::{
    Tier,
    host::Identity,
    plan::{Landlock, Plan, StreamFiles},
    steps::Step,
    wire::{self, notifies, op},
};
use palisade_wall::Terminal;
use rustix::termios::{SpecialCodeIndex, Termios};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// A launch message under construction.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// With room for the steps of a plan and what goes around them. A message that grows is copied, each time into pages that the
    /// kernel has to clear first; what of the room is not written to costs nothing.
    pub(super) fn with_room_for(steps: &[Step]) -> Self {
        const STEP: usize = 128;
        const AROUND: usize = 32 * 1024;
        let content = |step: &Step| match step {
            Step::WriteFile { content, .. } => content.len(),
            _ => 0,
        };
        let contents: usize = steps.iter().map(content).sum();
        Self {
            bytes: Vec::with_capacity(contents + steps.len() * STEP + AROUND),
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u32(&mut self, number: u32) -> &mut Self {
        self.bytes.extend(number.to_ne_bytes());
        self
    }

    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.bytes.extend(number.to_ne_bytes());
        self
    }

    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Self {
        self.u32(text.len() as u32);
        self.bytes.extend(text);
        self.bytes.push(0);
        self
    }

    pub(crate) fn path(&mut self, path: &Path) -> &mut Self {
        self.text(path.as_os_str().as_bytes())
    }

    fn identity(&mut self, identity: Identity) -> &mut Self {
        self.u32(identity.device_major)
            .u32(identity.device_minor)
            .u64(identity.inode)
    }

    /// What `write` writes, as one string.
    fn within(&mut self, write: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.u32(0);
        let from = self.bytes.len();
        write(self);
        let length = (self.bytes.len() - from) as u32;
        self.bytes[start..from].copy_from_slice(&length.to_ne_bytes());
        self.bytes.push(0);
        self
    }

    pub(crate) fn texts<'a>(
        &mut self,
        texts: impl ExactSizeIterator<Item = &'a OsStr>,
    ) -> &mut Self {
        self.u32(texts.len() as u32);
        for text in texts {
            self.text(text.as_bytes());
        }
        self
    }
}

/// The plan's file system as instructions.
pub(super) struct Steps<'a, A> {
    pub(super) plan: &'a Plan,
    /// An input file that is opened anew as long as the host's paths are there.
    pub(super) reopened: Option<&'a Reopened>,
    /// Which mounts come as descriptors: their index in the message.
    pub(super) attached: A,
}

impl<'a> Steps<'a, fn(usize) -> Option<u32>> {
    /// Of a plan alone.
    pub(super) fn of(plan: &'a Plan) -> Self {
        Self {
            plan,
            reopened: None,
            attached: |_| None,
        }
    }
}

impl<A: Fn(usize) -> Option<u32>> Steps<'_, A> {
    /// Encodes all of it.
    pub(super) fn encode(&self, writer: &mut Writer) {
        if self.plan.tier != Tier::Bare {
            for index in 0..self.plan.steps.len() {
                self.encode_one(writer, index);
            }
            self.encode_meeting_places(writer);
        }
    }

    /// Encodes all of it, with what the guest's process confines itself with where that process begins. They divide it: init makes
    /// root and folders, and after those the guest's process files and links in them and what lies in `/dev`, while init goes on
    /// with mounts, as far as these have nothing to do with that.
    pub(super) fn encode_beside(&self, writer: &mut Writer, confinement: &[u8]) {
        let steps = &self.plan.steps;
        let simple = 0..count_of_simple(steps);
        let devices = steps[simple.end..].iter();
        let devices = devices.take_while(|step| is_of_devices(step)).count();
        let (guests, inits): (Vec<_>, Vec<_>) =
            simple.clone().partition(|index| self.is_guests(*index));
        let guests: Vec<_> = guests
            .into_iter()
            .chain(simple.end..simple.end + devices)
            .collect();
        let rest = simple.end + devices..steps.len();
        for index in inits {
            self.encode_item(writer, index);
        }
        writer.append(confinement).u32(op::GUEST_BESIDE);
        writer.within(|part| {
            for index in &guests {
                self.encode_item(part, *index);
            }
        });
        writer.u32(op::ITEM).u32(rest.start as u32);
        let part = Part::of(guests.iter().map(|index| &steps[*index]));
        let waits = steps[rest.clone()]
            .iter()
            .position(|step| part.precedes(step));
        for (position, index) in rest.enumerate() {
            if Some(position) == waits {
                writer.u32(op::PART_MADE);
            }
            self.encode_one(writer, index);
        }
        self.encode_meeting_places(writer);
    }

    /// Whether the guest's process does that one of the simple.
    fn is_guests(&self, index: usize) -> bool {
        let step = &self.plan.steps[index];
        matches!(step, Step::MakeSymlink { .. } | Step::WriteFile { .. }) && !self.plan.keeps(step)
    }

    fn encode_item(&self, writer: &mut Writer, index: usize) {
        writer.u32(op::ITEM).u32(index as u32);
        self.encode_one(writer, index);
    }

    pub(super) fn encode_one(&self, writer: &mut Writer, index: usize) {
        let step = &self.plan.steps[index];
        if matches!(step, Step::LeaveHost { .. }) {
            if let Some(reopened) = self.reopened {
                write_reopened(writer, reopened);
            }
            if self.plan.is_granted_files() {
                writer.u32(op::NAMESPACES);
            }
        }
        write_step(writer, step, (self.attached)(index), self.plan.keeps(step));
    }

    fn encode_meeting_places(&self, writer: &mut Writer) {
        let places = &self.plan.meeting_places;
        if !places.is_empty() {
            writer.u32(op::MEETING_PLACES);
            writer.texts(places.iter().map(|place| place.as_os_str()));
        }
    }
}

fn write_reopened(writer: &mut Writer, reopened: &Reopened) {
    const STDIN: u32 = 0;
    writer
        .u32(op::REOPEN)
        .u32(STDIN)
        .identity(reopened.identity)
        .u64(reopened.offset)
        .path(&reopened.path);
}

/// Encodes the sockets of the domain's own that are its streams, each with the mask of those.
pub(super) fn encode_pairs(masks: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut writer = Writer::default();
    for mask in masks {
        writer.u32(op::PAIR).u32(mask);
    }
    writer.bytes
}

/// Encodes what the guest's process does to itself: Landlock, seccomp, limits. Without a file system of its own
/// it may have a temporary folder of the host's.
pub(crate) fn encode_confinement(
    plan: &Plan,
    seccomp: &[u8],
    files: StreamFiles,
    temporary: Option<&Path>,
) -> Vec<u8> {
    let mut writer = Writer::default();
    if let Some(landlock) = landlock_of_guest(plan, files) {
        write_landlock(&mut writer, op::LANDLOCK_OF_GUEST, &landlock);
    }
    match &plan.landlock {
        Some(landlock) if plan.tier == Tier::Bare => {
            let landlock = landlock.clone().with_temporary(temporary);
            write_landlock(&mut writer, op::LANDLOCK, &landlock);
        }
        Some(landlock) => {
            let landlock = landlock.clone().with_streams(files);
            write_landlock(&mut writer, op::LANDLOCK, &landlock);
        }
        None => {}
    }
    write_confinement(&mut writer, plan, seccomp);
    writer.bytes
}

fn landlock_of_guest(plan: &Plan, files: StreamFiles) -> Option<Landlock> {
    let landlock = plan.landlock_of_guest()?;
    Some(landlock.with_streams(files))
}

/// The same in two parts, where the guest's process can confine itself while its root is built: what it does that by, and what
/// comes after the steps. Rules that name paths of that root are of the second part.
/// `None` where its filter has no listener, which is loaded when streams are in their places.
pub(super) fn encode_confinement_beside(
    plan: &Plan,
    seccomp: &[u8],
    files: StreamFiles,
) -> Option<[Vec<u8>; 2]> {
    if plan.tier == Tier::Bare || seccomp.is_empty() || notifies(plan) == notifies::NOBODY {
        return None;
    }
    let all = plan.landlock.clone();
    let all = all.map(|landlock| landlock.with_streams(files));
    let of_guest = landlock_of_guest(plan, files);
    let is_split = of_guest.is_some();
    let is_later = (of_guest.as_ref().or(all.as_ref())).is_some_and(Landlock::names_paths);
    let (mut first, mut last) = (Writer::default(), Writer::default());
    if let Some(landlock) = of_guest {
        let part = if is_later { &mut last } else { &mut first };
        write_landlock(part, op::LANDLOCK_OF_GUEST, &landlock);
    }
    if let Some(landlock) = all {
        let part = if is_split || is_later {
            &mut last
        } else {
            &mut first
        };
        write_landlock(part, op::LANDLOCK, &landlock);
    }
    write_confinement(&mut first, plan, seccomp);
    Some([first.bytes, last.bytes])
}

/// Has the guest's process made before its launch message comes.
pub(super) fn encode_guest_ahead() -> [u8; 4] {
    op::GUEST_AHEAD.to_ne_bytes()
}

/// Encodes the guest's control groups, by the position of their descriptors, and its terminal. A counter
/// comes with the ns in its unit.
pub(super) fn encode_surroundings(
    tasks: std::ops::Range<u32>,
    counter: Option<(u32, u32)>,
    terminal: Option<&Terminal>,
) -> Vec<u8> {
    let mut writer = Writer::default();
    for position in tasks {
        writer.u32(op::JOIN).u32(position);
    }
    if let Some((position, unit_ns)) = counter {
        writer.u32(op::CPU_COUNTER).u32(position).u32(unit_ns);
    }
    if let Some(terminal) = terminal {
        write_terminal(&mut writer, terminal);
    }
    writer.bytes
}

fn write_terminal(writer: &mut Writer, terminal: &Terminal) {
    let replaces = (0..)
        .zip(terminal.replaces)
        .map(|(bit, set)| u32::from(set) << bit)
        .sum();
    writer
        .u32(op::TERMINAL)
        .u32(terminal.rows.into())
        .u32(terminal.columns.into())
        .u32(replaces)
        .u32(terminal.in_front.into())
        .text(&kernel_termios(&terminal.settings));
}

/// `struct termios` of the kernel: four words of flags, the line discipline, the special codes. The
/// C library's has more of them.
fn kernel_termios(settings: &Termios) -> [u8; wire::TERMIOS_BYTES] {
    use SpecialCodeIndex as Code;
    const CODES_FROM: usize = 17;
    const CODES: [Code; 17] = [
        Code::VINTR,
        Code::VQUIT,
        Code::VERASE,
        Code::VKILL,
        Code::VEOF,
        Code::VTIME,
        Code::VMIN,
        Code::VSWTC,
        Code::VSTART,
        Code::VSTOP,
        Code::VSUSP,
        Code::VEOL,
        Code::VREPRINT,
        Code::VDISCARD,
        Code::VWERASE,
        Code::VLNEXT,
        Code::VEOL2,
    ];
    let flags = [
        settings.input_modes.bits(),
        settings.output_modes.bits(),
        settings.control_modes.bits(),
        settings.local_modes.bits(),
    ];
    let mut bytes = [0; wire::TERMIOS_BYTES];
    for (to, word) in bytes.chunks_exact_mut(4).zip(flags) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    for (to, code) in bytes[CODES_FROM..].iter_mut().zip(CODES) {
        *to = settings.special_codes[code];
    }
    bytes
}

/// Encodes which of the message's descriptors the guest finds open from 3 on: listeners, of which the
/// environment tells, then others.
pub(super) fn encode_passed(from: u32, listeners: usize, others: usize) -> Vec<u8> {
    let mut writer = Writer::default();
    let count = (listeners + others) as u32;
    if count > 0 {
        let tells_pid = u32::from(listeners > 0);
        writer.u32(op::PASSED).u32(from).u32(count).u32(tells_pid);
    }
    writer.bytes
}

/// Encodes what to execute, and where. Variables that the launch adds take the place of the plan's.
pub(super) fn encode_program(plan: &Plan, added: &[OsString]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(op::CWD).path(&plan.cwd);
    writer.u32(op::EXEC);
    writer.texts(plan.candidates.iter().map(AsRef::as_ref));
    writer.texts(plan.arguments.iter().map(AsRef::as_ref));
    let is_replaced = |variable: &&OsString| {
        let name = name_of(variable);
        added.iter().any(|other| name_of(other) == name)
    };
    let kept = plan
        .environment
        .iter()
        .filter(|variable| !is_replaced(variable));
    let environment: Vec<&OsStr> = kept.chain(added).map(AsRef::as_ref).collect();
    writer.texts(environment.into_iter());
    writer.u32(op::TITLE).text(&title(plan));
    writer.bytes
}

/// What the domain's init is called: see [`wire::INITS_TITLE`]. A long command is cut.
fn title(plan: &Plan) -> Vec<u8> {
    let name = plan.name.as_deref().unwrap_or_default();
    let about = [
        wire::TITLE_VERSION,
        plan.told_wall.as_bytes(),
        name.as_bytes(),
    ];
    let command = plan.command.iter().map(String::as_bytes);
    let words = [wire::INITS_TITLE].into_iter().chain(about).chain(command);
    let mut title: Vec<u8> = words
        .flat_map(|word| [word, b"\0"])
        .flatten()
        .copied()
        .collect();
    title.truncate(wire::TITLE_BYTES);
    title
}

fn name_of(variable: &OsStr) -> &[u8] {
    let bytes = variable.as_bytes();
    bytes.split(|byte| *byte == b'=').next().unwrap_or(bytes)
}

/// Encodes a further process of a running domain: see [`wire::DOOR_EXEC`].
pub(crate) fn encode_further(
    arguments: &[OsString],
    variables: &[OsString],
    terminal: Option<&Terminal>,
) -> Vec<u8> {
    let mut writer = Writer::default();
    if let Some(terminal) = terminal {
        write_terminal(&mut writer, terminal);
    }
    writer.u32(op::EXEC);
    writer.texts(arguments.iter().take(1).map(AsRef::as_ref));
    writer.texts(arguments.iter().map(AsRef::as_ref));
    writer.texts(variables.iter().map(AsRef::as_ref));
    writer.bytes
}

/// What goes before a body of this length.
pub(crate) fn header(body_length: usize, fds: usize) -> [u8; 12] {
    let mut header = [0; 12];
    let words = [wire::LAUNCH_MAGIC, body_length as u32, fds as u32];
    for (to, word) in header.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    header
}

fn write_step(writer: &mut Writer, step: &Step, attached: Option<u32>, is_kept: bool) {
    match step {
        Step::MakeRoot { size_bytes, inodes } => drop(
            writer
                .u32(op::ROOT)
                .u64(size_bytes.div_ceil(1024))
                .u64(*inodes),
        ),
        Step::MakeFolder { path, mode } => drop(writer.u32(op::MAKE_DIR).path(path).u32(*mode)),
        Step::MakeSymlink { path, target } => drop(writer.u32(op::SYMLINK).path(path).path(target)),
        Step::WriteFile {
            path,
            mode,
            content,
        } => {
            let op = if is_kept { op::KEPT_FILE } else { op::FILE };
            writer.u32(op).path(path).u32(*mode).text(content);
        }
        Step::Mount {
            source,
            identity,
            attributes,
            is_own_place,
            target,
            ..
        } => match attached {
            Some(index) => drop(writer.u32(op::ATTACH).u32(index).path(target)),
            None => {
                writer.u32(op::BIND).path(source).identity(*identity);
                writer.u32(attributes.bits());
                writer.u32((*is_own_place).into()).path(target);
            }
        },
        Step::Remount { target, set, clear } => {
            writer
                .u32(op::REMOUNT)
                .u32(set.bits())
                .u32(clear.bits())
                .path(target);
        }
        Step::Hide {
            target,
            folders,
            names,
            attributes,
        } => {
            writer.u32(op::HIDE).path(target).u32(attributes.bits());
            writer.u32(folders.len() as u32);
            for (folder, mode) in folders {
                writer.path(folder).u32(*mode);
            }
            writer.texts(names.iter().map(|name| name.as_os_str()));
        }
        Step::Cover { target, folder } => {
            writer.u32(op::COVER).path(target).u32((*folder).into());
        }
        Step::Watch { target } => {
            let folder = target.parent().unwrap_or(target);
            writer.u32(op::WATCH).path(target).path(folder);
        }
        Step::Guard { targets } => {
            writer.u32(op::GUARD);
            writer.texts(targets.iter().map(|target| target.as_os_str()));
        }
        Step::MountProc { target } => drop(writer.u32(op::PROC).path(target)),
        Step::OpenProc => drop(writer.u32(op::OWN_PROC)),
        Step::MountTerminals { target } => drop(writer.u32(op::DEVPTS).path(target)),
        Step::Show {
            source,
            set,
            target,
        } => drop(
            writer
                .u32(op::SHOW)
                .path(source)
                .u32(set.bits())
                .path(target),
        ),
        Step::LeaveHost { root } => {
            let root = root.as_deref().unwrap_or(Path::new(""));
            writer.u32(op::PIVOT).path(root);
        }
        Step::NameHost { name } => drop(writer.u32(op::HOST_NAME).text(name.as_bytes())),
    }
}

/// The kernel refuses a ruleset that denies nothing (`ENOMSG`); older ones have no more to deny
/// beside mounts.
fn write_landlock(writer: &mut Writer, op: u32, landlock: &Landlock) {
    if landlock.denies_nothing() {
        return;
    }
    writer
        .u32(op)
        .u64(landlock.files)
        .u64(landlock.network)
        .u64(landlock.scopes);
    writer.u64(landlock.rules.len() as u64);
    for rule in &landlock.rules {
        writer.u64(rule.rights).path(&rule.path);
    }
}

fn write_confinement(writer: &mut Writer, plan: &Plan, seccomp: &[u8]) {
    if !seccomp.is_empty() {
        let notifies = notifies(plan);
        writer.u32(op::SECCOMP).text(seccomp).u32(notifies);
    }
    for limit in &*plan.rlimits {
        writer
            .u32(op::RLIMIT)
            .u32(limit.resource)
            .u64(limit.value)
            .u64(limit.value);
    }
    if let Some(processors) = plan.affinity {
        writer.u32(op::AFFINITY).text(&affinity_mask(processors));
    }
    writer.u32(op::KEYRING);
    if let Some(time) = plan.time {
        writer
            .u32(op::TIME)
            .u64(time.as_nanos().try_into().unwrap_or(u64::MAX));
    }
    if let Some(time) = plan.cpu_time {
        writer
            .u32(op::CPU_TIME)
            .u64(time.as_micros().try_into().unwrap_or(u64::MAX));
    }
}

/// To whom the filter leaves calls.
fn notifies(plan: &Plan) -> u32 {
    match plan.is_brokered() {
        true if plan.is_watched() || plan.grantable || plan.special_files_ruled() => {
            notifies::WATCHER
        }
        true => notifies::SUPERVISOR,
        false if plan.is_observed() => notifies::INIT,
        false => notifies::NOBODY,
    }
}

/// The first so many of the processors this process may use.
fn affinity_mask(processors: usize) -> Vec<u8> {
    let mut mask = vec![0u8; rustix::thread::CpuSet::MAX_CPU / 8];
    let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let usable =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
    for processor in usable.take(processors) {
        mask[processor / 8] |= 1 << (processor % 8);
    }
    mask
}
