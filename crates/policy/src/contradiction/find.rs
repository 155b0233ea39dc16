//! The search for contradictions, before any machine is asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
    time::Duration,
};

use super::{Contradiction, network::find_in_network};
use crate::{
    Access, Capability, ConnectGrant, FileGrant, Grants, Limits, Pattern, UnixGrant,
    value::{MAX_CORES, format_duration, format_size},
};

type Found = Option<Contradiction>;

/// The first contradiction in a policy of these.
pub(crate) fn find_contradiction(grants: &Grants, limits: &Limits) -> Found {
    let files = &grants.files;
    find_unclean_path(grants)
        .or_else(|| find_variable(grants))
        .or_else(|| find_env_file(grants))
        .or_else(|| files.iter().find_map(find_reserved))
        .or_else(|| sockets(grants).find_map(find_reserved_socket))
        .or_else(|| find_double(files))
        .or_else(|| find_double_socket(grants))
        .or_else(|| find_rule_without_effect(files))
        .or_else(|| find_second_name(files))
        .or_else(|| find_hidden(grants))
        .or_else(|| find_in_network(grants).map(Contradiction::Network))
        .or_else(|| find_small_limit(limits))
}

/// The first capability of which there is nothing to accept less of.
pub(crate) fn find_unacceptable(allow_degraded: &BTreeSet<Capability>) -> Found {
    allow_degraded.iter().find_map(|capability| {
        let advice = match capability {
            Capability::Network => {
                "a guest has no network of its own only where it has no namespaces: write `namespaces`"
            }
            Capability::Uid => {
                "a guest has no user id of its own where palisade is not root, which the report says, and as root without \
                 namespaces: leave it out, or write `namespaces`"
            }
            _ => return None,
        };
        Some(Contradiction::NothingToAccept {
            capability: *capability,
            advice,
        })
    })
}

/// The socket files that the guest may connect to.
fn sockets(grants: &Grants) -> impl Iterator<Item = &UnixGrant> {
    grants.connect.iter().filter_map(|grant| match grant {
        ConnectGrant::Unix(socket) => Some(socket),
        ConnectGrant::Internet { .. } | ConnectGrant::Public { .. } => None,
    })
}

fn find_unclean_path(grants: &Grants) -> Found {
    let files = grants
        .files
        .iter()
        .flat_map(|file| [Some(&file.host), file.guest.as_ref()]);
    let devices = grants.devices.iter().filter(|device| !device.is_pts());
    let sockets = sockets(grants).flat_map(|socket| [Some(&socket.host), socket.guest.as_ref()]);
    files
        .chain(devices.map(|device| Some(&device.path)))
        .chain(sockets)
        .chain([grants.cwd.as_ref()])
        .flatten()
        .find(|path| !is_clean(path))
        .map(|path| Contradiction::UncleanPath(path.clone()))
}

fn find_variable(grants: &Grants) -> Found {
    grants.env.iter().find_map(|variable| {
        Some(Contradiction::Variable {
            name: variable.name.clone(),
            reason: variable.fault()?,
        })
    })
}

/// Its variables would be missing without a word.
fn find_env_file(grants: &Grants) -> Found {
    let file = grants.env_files.first()?;
    Some(Contradiction::EnvFileUnread(file.clone()))
}

fn is_clean(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

/// Places that palisade fills itself, or that would carry the host's processes and devices in.
fn find_reserved(file: &FileGrant) -> Found {
    if !file.access.maps_host_path() {
        return None;
    }
    if file.is_root() {
        return find_reserved_host(&file.host, advise_reserved);
    }
    find_reserved_mapping(&file.host, file.guest_path(), advise_reserved)
}

/// `/dev/log` and the like are sockets, and no devices.
fn find_reserved_socket(socket: &UnixGrant) -> Found {
    find_reserved_mapping(&socket.host, socket.guest_path(), |path| {
        let advice = advise_reserved(path)?;
        let is_device = path.starts_with("/dev") && path != Path::new("/dev");
        (!is_device).then_some(advice)
    })
}

fn find_reserved_mapping(
    host: &Path,
    guest: &Path,
    advise: impl Fn(&Path) -> Option<&'static str>,
) -> Found {
    let guest_advice = advise(guest).map(|advice| Contradiction::ReservedGuest {
        guest: guest.to_path_buf(),
        advice,
    });
    guest_advice.or_else(|| find_reserved_host(host, advise))
}

fn find_reserved_host(host: &Path, advise: impl Fn(&Path) -> Option<&'static str>) -> Found {
    advise(host).map(|advice| Contradiction::ReservedHost {
        host: host.to_path_buf(),
        advice,
    })
}

fn advise_reserved(path: &Path) -> Option<&'static str> {
    if path == Path::new("/") {
        return Some("grant the folders that are needed, each by its path");
    }
    if path.starts_with("/proc") {
        return Some("a domain has a /proc of its own, of its own processes");
    }
    if path.starts_with("/dev") && !path.starts_with("/dev/shm") {
        return Some("grant a device node with --device");
    }
    None
}

/// Two grants of one guest path.
fn find_double(files: &[FileGrant]) -> Found {
    let mut by_guest = BTreeMap::new();
    let mut mapped = files.iter().filter(|file| file.access.maps_host_path());
    mapped.find_map(|file| {
        let earlier: &FileGrant = by_guest.insert(file.guest_path(), file)?;
        (earlier != file).then(|| describe_double(earlier, file))
    })
}

fn describe_double(one: &FileGrant, other: &FileGrant) -> Contradiction {
    let guest = one.guest_path().to_path_buf();
    if one.host == other.host && one.access != other.access {
        return Contradiction::ReadAndWrite(guest);
    }
    Contradiction::TwoHosts {
        guest,
        first: one.host.clone(),
        second: other.host.clone(),
    }
}

/// A socket at the guest path of another file.
fn find_double_socket(grants: &Grants) -> Found {
    let files = grants.files.iter();
    let mapped = files.filter(|file| file.access.maps_host_path());
    let mapped = mapped.map(|file| (file.guest_path(), &file.host));
    let all = mapped.chain(sockets(grants).map(|socket| (socket.guest_path(), &socket.host)));
    let mut by_guest = BTreeMap::new();
    all.into_iter().find_map(|(guest, host)| {
        let earlier: &PathBuf = by_guest.insert(guest, host)?;
        (earlier != host).then(|| Contradiction::TwoHosts {
            guest: guest.to_path_buf(),
            first: earlier.clone(),
            second: host.clone(),
        })
    })
}

/// Exec, ipc and protect at a place where nothing may be written, and protect of a whole grant.
fn find_rule_without_effect(files: &[FileGrant]) -> Found {
    let needs_writing =
        |file: &&FileGrant| !file.access.maps_host_path() && file.access != Access::Hide;
    let mut rules = files.iter().filter(needs_writing);
    rules.find_map(|rule| {
        let path = rule.guest_path();
        if !is_granted_writable(files, path) {
            return Some(Contradiction::NotWritable {
                access: rule.access,
                path: path.to_path_buf(),
                seen_at: names_inside(files, path).next(),
            });
        }
        let is_whole = |grant: &FileGrant| grant.guest_path() == path;
        (rule.access == Access::Protect && write_grants(files).any(is_whole))
            .then(|| Contradiction::ProtectedWhole(path.to_path_buf()))
    })
}

/// A protected path that a second write grant of the same host files leaves open.
fn find_second_name(files: &[FileGrant]) -> Found {
    let mut protected = files.iter().filter(|file| file.access == Access::Protect);
    protected.find_map(|rule| {
        let path = rule.guest_path();
        let host = host_of(files, path)?;
        let other = names_inside(files, &host).find(|name| is_open(files, name))?;
        Some(Contradiction::ProtectedOnce {
            path: path.to_path_buf(),
            other,
        })
    })
}

/// Something said of a path at which nothing is, or below. What patterns find is known on a machine only.
fn find_hidden(grants: &Grants) -> Found {
    let (hidden, others): (Vec<_>, Vec<_>) = grants
        .files
        .iter()
        .partition(|file| file.access == Access::Hide);
    let named = others.into_iter().map(FileGrant::guest_path);
    let sockets = sockets(grants).map(UnixGrant::guest_path);
    let cwd = grants.cwd.as_deref();
    let mut said = named.chain(sockets).chain(cwd);
    let hidden = hidden.iter().map(|file| file.guest_path());
    let hidden = hidden.filter(|path| Pattern::of(path).is_none());
    let hidden: Vec<_> = hidden.map(Pattern::plain).collect();
    said.find_map(|path| {
        let hidden = hidden.iter().find(|hidden| path.starts_with(hidden))?;
        Some(Contradiction::HiddenGrant {
            hidden: hidden.clone(),
            grant: path.to_path_buf(),
        })
    })
}

fn write_grants(files: &[FileGrant]) -> impl Iterator<Item = &FileGrant> {
    files.iter().filter(|file| file.access == Access::Write)
}

/// The deepest of `files` at or above the guest path: the one that decides there.
fn deepest<'a>(files: impl Iterator<Item = &'a FileGrant>, guest: &Path) -> Option<&'a FileGrant> {
    files
        .filter(|file| guest.starts_with(file.guest_path()))
        .max_by_key(|file| file.guest_path().components().count())
}

fn deepest_mapped<'a>(files: &'a [FileGrant], guest: &Path) -> Option<&'a FileGrant> {
    let mapped = files.iter().filter(|file| file.access.maps_host_path());
    deepest(mapped, guest)
}

/// Whether the guest may write there but for protect grants.
fn is_granted_writable(files: &[FileGrant], guest: &Path) -> bool {
    // A domain's own folders lie deeper than a folder that is its root.
    let is_private = guest.starts_with("/tmp") || guest.starts_with("/dev/shm");
    match deepest_mapped(files, guest) {
        Some(grant) if !(is_private && grant.is_root()) => grant.access == Access::Write,
        _ => is_private,
    }
}

/// Whether the guest may write there, protect grants included.
fn is_open(files: &[FileGrant], guest: &Path) -> bool {
    let deciding = files
        .iter()
        .filter(|file| file.access.maps_host_path() || file.access == Access::Protect);
    deepest(deciding, guest).is_some_and(|grant| grant.access == Access::Write)
}

/// The host path behind a guest path.
fn host_of(files: &[FileGrant], guest: &Path) -> Option<PathBuf> {
    let grant = deepest_mapped(files, guest)?;
    let below = guest.strip_prefix(grant.guest_path()).ok()?;
    Some(grant.host.join(below).components().collect())
}

/// Where write grants put the host path `host` inside the domain.
fn names_inside(files: &[FileGrant], host: &Path) -> impl Iterator<Item = PathBuf> {
    write_grants(files).filter_map(move |grant| {
        let below = host.strip_prefix(&grant.host).ok()?;
        Some(grant.guest_path().join(below).components().collect())
    })
}

/// The least of each limit under which a program can start at all.
fn find_small_limit(limits: &Limits) -> Found {
    const MIB: u64 = 1 << 20;
    let size = |name, given: Option<u64>, least| too_small(name, given, least, format_size);
    let count = |name, given: Option<u64>, least| too_small(name, given, least, |n| n.to_string());
    let time = |name, given| {
        let least = Duration::from_nanos(1);
        too_small(name, given, least, format_duration)
    };
    size("memory", limits.memory_bytes, MIB)
        .or_else(|| limits.cpu_cores.and_then(find_impossible_cores))
        .or_else(|| count("processes", limits.processes.map(u64::from), 1))
        .or_else(|| count("files", limits.files, 8))
        .or_else(|| size("file-size", limits.file_size_bytes, 1))
        .or_else(|| size("tmp-size", limits.tmp_size_bytes, 1))
        .or_else(|| time("time", limits.time))
        .or_else(|| time("cpu-time", limits.cpu_time))
        .or_else(|| size("output", limits.output_bytes, 1))
}

fn too_small<T: PartialOrd>(
    limit: &'static str,
    given: Option<T>,
    least: T,
    format: impl Fn(T) -> String,
) -> Found {
    let given = given.filter(|given| *given < least)?;
    Some(Contradiction::LimitTooSmall {
        limit,
        given: format(given),
        least: format(least),
    })
}

/// The kernel's least share is 1 ms in a period of 100 ms (`cpu.max`, `cpu.cfs_quota_us`).
fn find_impossible_cores(cores: f64) -> Found {
    let possible = (0.01..=MAX_CORES).contains(&cores);
    (!possible).then(|| Contradiction::Cores {
        given: cores.to_string(),
    })
}
