//! Traces: what `/proc` shows of the guest's processes while they hold still.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileExt, FileTypeExt};

use super::Scene;
use crate::process::{Descriptor, Process};

/// See [`super::Witness::Trace`].
#[derive(Clone, Copy, Debug)]
pub enum Trace {
    /// A descriptor whose link ends in this.
    Descriptor(&'static str),
    /// The same, open for writing, and on procfs, sysfs or cgroupfs: not a mask over it.
    KernelFile(&'static str),
    /// A socket of this protocol name.
    Socket(&'static str),
    /// An internet socket that is neither TCP nor UDP, or a socket of a further family.
    ForeignSocket,
    /// A descriptor of the launcher's process.
    LauncherPidfd,
    /// A descriptor that watches a file.
    Watch,
    /// A descriptor with a lease on its file.
    Lease,
    /// An abstract socket of the arena's network is named by the nonce.
    AbstractName,
    /// An open block device.
    BlockDevice,
    /// A directory on a mount that is in no mount table of its process.
    DetachedTree,
    /// Two of its processes are in different namespaces of this kind.
    Namespaces(&'static str),
    /// Two of its processes have different roots.
    Roots,
    /// Its mount table holds this template.
    Mount(&'static str),
    /// It has these personality bits.
    Personality(u32),
    /// Field of `/proc/PID/stat`, and the value.
    Stat(usize, &'static str),
    /// It runs with this effective uid.
    Uid(u32),
    /// It runs with this effective gid.
    Gid(u32),
    /// It has this effective capability.
    Capability(u32),
    /// It executes a file whose name ends in this.
    Executes(&'static str),
    /// It has code mapped from a file whose name ends in this.
    MapsCode(&'static str),
    /// It has memory that is writable and executable.
    WritableCode,
    /// Four bytes of its memory at this address are not zero.
    MemoryChanged(u64),
    /// It traces a process that is not its own.
    TracesStranger,
    /// More processes than this came with it, zombies included.
    Processes(usize),
    /// One process has more threads than this.
    Threads(u64),
    /// More memory than this is resident, in MB.
    ResidentMb(u64),
    /// One process has more descriptors than this.
    Descriptors(usize),
    /// A file of its own view is larger than this, in MB.
    FileInside(&'static str, u64),
    /// A directory of its own view holds more entries than this.
    EntriesInside(&'static str, usize),
    /// It used more CPU time than this.
    CpuMs(u64),
    /// Its OOM score adjustment is below zero.
    OomScoreLowered,
    /// A TCP listener that is not the suite's is in the arena's network.
    Listener,
    /// The same, and it has another port than this, a template.
    ListenerBeside(&'static str),
    /// A TCP server at this address of the arena's network, a template, says the nonce.
    TcpAnswers(&'static str),
    /// A UDP server at this address says it.
    UdpAnswers(&'static str),
    /// Whoever started the launcher gets no more of this: a word that `fixture take` knows.
    Exhausted(&'static str),
    /// A socket of the arena's network is in this group, as `/proc/net/igmp` and `igmp6` write it.
    Membership(&'static str),
}

/// `f_type` of procfs, sysfs, cgroup v1 and v2, binfmt_misc (linux/magic.h).
const KERNEL_FILESYSTEMS: [u64; 5] = [0x9fa0, 0x6265_6572, 0x27_e0eb, 0x6367_7270, 0x4249_4e4d];
/// USER_HZ is 100 on every Linux ABI.
const MS_PER_TICK: u64 = 10;

impl Trace {
    pub(super) fn seen(self, scene: &Scene<'_>) -> bool {
        let guests = Process::marked(&scene.layout.nonce);
        match self {
            Self::Processes(limit) => Process::all().len() > scene.processes_before + limit,
            Self::ResidentMb(limit) => {
                guests.iter().map(|p| resident_kb(*p)).sum::<u64>() > limit * 1024
            }
            Self::Namespaces(kind) => distinct(&guests, &format!("ns/{kind}")) > 1,
            Self::Roots => distinct(&guests, "root") > 1,
            Self::Listener => foreign_listener(scene, None),
            Self::ListenerBeside(port) => {
                foreign_listener(scene, scene.fixtures.fill(port).parse().ok())
            }
            Self::TcpAnswers(address) => scene.fixtures.tcp_says(address, &scene.layout.nonce),
            Self::UdpAnswers(address) => scene.fixtures.udp_says(address, &scene.layout.nonce),
            Self::Membership(group) => is_member(group),
            Self::Exhausted(what) => scene.layout.lacks(what),
            Self::AbstractName => has_abstract_name(&scene.layout.nonce),
            Self::LauncherPidfd => has_pidfd(&guests, scene.run.launcher),
            Self::TracesStranger => Process::all().into_iter().any(|p| is_traced_by(p, &guests)),
            _ => guests.into_iter().any(|guest| self.seen_of(guest, scene)),
        }
    }

    fn seen_of(self, guest: Process, scene: &Scene<'_>) -> bool {
        match self {
            Self::Descriptor(_)
            | Self::KernelFile(_)
            | Self::Socket(_)
            | Self::ForeignSocket
            | Self::Watch
            | Self::Lease
            | Self::BlockDevice
            | Self::DetachedTree => guest
                .descriptors()
                .into_iter()
                .any(|d| self.seen_of_descriptor(guest, d)),
            Self::Descriptors(limit) => guest.descriptors().len() > limit,
            Self::Executes(name) => guest.link("exe").ends_with(name),
            Self::MapsCode(name) => {
                maps(guest, |line| line.ends_with(name) && line.contains("r-xp"))
            }
            Self::WritableCode => maps(guest, |line| line.contains("rwxp")),
            Self::MemoryChanged(at) => memory_at(guest, at).is_some_and(|word| word != 0),
            Self::Mount(template) => guest
                .read("mountinfo")
                .contains(&scene.layout.expand(template)),
            Self::FileInside(path, limit_mb) => file_inside(guest, path) > limit_mb << 20,
            Self::EntriesInside(path, limit) => entries_inside(guest, path) > limit,
            _ => self.seen_of_attributes(guest),
        }
    }

    fn seen_of_attributes(self, guest: Process) -> bool {
        match self {
            Self::Personality(bits) => {
                hex(&guest.read("personality")) & u64::from(bits) == u64::from(bits)
            }
            Self::Stat(field, value) => guest.stat(field).as_deref() == Some(value),
            Self::Uid(uid) => effective_id(guest, "Uid") == Some(uid),
            Self::Gid(gid) => effective_id(guest, "Gid") == Some(gid),
            Self::Capability(number) => {
                hex(&guest.status("CapEff").unwrap_or_default()) >> number & 1 == 1
            }
            Self::Threads(limit) => guest.status_number("Threads") > limit,
            Self::CpuMs(limit_ms) => cpu_ms(guest) > limit_ms,
            Self::OomScoreLowered => guest.read("oom_score_adj").starts_with('-'),
            _ => false,
        }
    }

    fn seen_of_descriptor(self, guest: Process, descriptor: Descriptor) -> bool {
        match self {
            Self::Descriptor(name) => descriptor.link().ends_with(name),
            Self::KernelFile(name) => {
                descriptor.link().ends_with(name)
                    && descriptor.is_writable()
                    && is_kernel_file(descriptor)
            }
            Self::Socket(protocol) => descriptor.protocol().is_ok_and(|name| name == protocol),
            Self::ForeignSocket => descriptor.protocol().is_ok_and(|name| is_foreign(&name)),
            Self::Watch => descriptor.info("inotify wd").is_some(),
            Self::Lease => has_lease(descriptor),
            Self::BlockDevice => fs::metadata(descriptor.path())
                .is_ok_and(|about| about.file_type().is_block_device()),
            Self::DetachedTree => is_detached(guest, descriptor),
            _ => false,
        }
    }
}

fn distinct(guests: &[Process], link: &str) -> usize {
    let links: BTreeSet<_> = guests
        .iter()
        .map(|p| p.link(link))
        .filter(|l| !l.is_empty())
        .collect();
    links.len()
}

fn is_traced_by(process: Process, guests: &[Process]) -> bool {
    let tracer = process.status_number("TracerPid");
    !guests.contains(&process)
        && guests
            .iter()
            .any(|guest| u64::from(guest.pid.unsigned_abs()) == tracer)
}

fn maps(guest: Process, wanted: impl Fn(&str) -> bool) -> bool {
    guest.read("maps").lines().any(wanted)
}

fn memory_at(guest: Process, address: u64) -> Option<u32> {
    let memory = fs::File::open(guest.path("mem")).ok()?;
    let mut word = [0; 4];
    memory.read_exact_at(&mut word, address).ok()?;
    Some(u32::from_ne_bytes(word))
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim(), 16).unwrap_or(0)
}

/// The second of the four ids: real, effective, saved, filesystem.
fn effective_id(guest: Process, kind: &str) -> Option<u32> {
    guest.status(kind)?.split_whitespace().nth(1)?.parse().ok()
}

fn cpu_ms(guest: Process) -> u64 {
    let ticks = |field| {
        guest
            .stat(field)
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0)
    };
    (ticks(14) + ticks(15)) * MS_PER_TICK
}

fn resident_kb(guest: Process) -> u64 {
    guest.status_number("RssAnon") + guest.status_number("RssShmem")
}

fn is_kernel_file(descriptor: Descriptor) -> bool {
    rustix::fs::statfs(descriptor.path())
        .is_ok_and(|about| KERNEL_FILESYSTEMS.contains(&about.f_type.unsigned_abs()))
}

fn is_detached(guest: Process, descriptor: Descriptor) -> bool {
    let Some(mount) = descriptor.info("mnt_id") else {
        return false;
    };
    let table = guest.read("mountinfo");
    descriptor.link() == "/"
        && !table
            .lines()
            .any(|line| line.split(' ').next() == Some(&mount))
}

/// `lock: 1: LEASE  ACTIVE    READ 4711 fe:00:1234 0 EOF`.
fn has_lease(descriptor: Descriptor) -> bool {
    let lock = descriptor.info("lock");
    lock.is_some_and(|lock| lock.contains("LEASE"))
}

fn file_inside(guest: Process, path: &str) -> u64 {
    fs::metadata(guest.path(&format!("root{path}"))).map_or(0, |about| about.len())
}

fn entries_inside(guest: Process, path: &str) -> usize {
    fs::read_dir(guest.path(&format!("root{path}"))).map_or(0, Iterator::count)
}

/// Abstract names begin with `@` in `/proc/net/unix`.
fn has_abstract_name(nonce: &str) -> bool {
    let table = fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    table
        .lines()
        .any(|line| line.ends_with(&format!("@{nonce}")))
}

/// `Pid:` of a pidfd's fdinfo is a number of the reader's namespace.
fn has_pidfd(guests: &[Process], of: i32) -> bool {
    let descriptors = guests.iter().flat_map(|guest| guest.descriptors());
    descriptors
        .filter_map(|descriptor| descriptor.info("Pid")?.parse().ok())
        .any(|pid: i32| pid == of)
}

fn is_foreign(protocol: &str) -> bool {
    const ORDINARY: [&str; 4] = ["TCP", "TCPv6", "UDP", "UDPv6"];
    !protocol.starts_with("UNIX") && !ORDINARY.contains(&protocol)
}

fn is_member(group: &str) -> bool {
    ["/proc/self/net/igmp", "/proc/self/net/igmp6"]
        .iter()
        .any(|table| fs::read_to_string(table).is_ok_and(|text| text.contains(group)))
}

/// A listening socket whose port the suite's servers do not have.
fn foreign_listener(scene: &Scene<'_>, granted: Option<u64>) -> bool {
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
        .iter()
        .any(|table| foreign_listener_in(table, scene, granted))
}

fn foreign_listener_in(table: &str, scene: &Scene<'_>, granted: Option<u64>) -> bool {
    const LISTEN: &str = "0A";
    let table = fs::read_to_string(table).unwrap_or_default();
    table.lines().skip(1).any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let port = fields
            .get(1)
            .and_then(|address| address.rsplit(':').next())
            .map(hex);
        fields.get(3) == Some(&LISTEN)
            && port.is_some_and(|port| granted != Some(port) && !scene.fixtures.knows_port(port))
    })
}
