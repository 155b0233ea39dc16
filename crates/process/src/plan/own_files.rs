//! Files of palisade's own that a domain finds in place of the host's.

use super::PlanError;
use crate::{keeper, layout::Layout, sys};
use palisade_network::Network;
use palisade_policy::{Policy, Profile};

/// What a guest finds its machine called.
pub(super) const HOST_NAME: &str = "palisade";

/// Where programs look names up.
pub(super) const HOSTS_FILE: &str = "/etc/hosts";

/// Where programs find the name servers, if they may ask them.
const RESOLVER_FILE: &str = "/etc/resolv.conf";

/// Accounts and names as the domain sees them: its own user, and nobody else's.
/// A granted root has its own, but for names that only palisade can look up.
pub(super) fn add_own_files(
    layout: &mut Layout,
    policy: &Policy,
    network: &Network,
    (uid, gid): (u32, u32),
) -> Result<(), PlanError> {
    for (path, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
        ("/dev/ptmx", "pts/ptmx"),
    ] {
        layout.add_symlink(path, target);
    }
    let has_system = policy.grants.system && !layout.has_root();
    if policy.grants.profiles.contains(&Profile::Palisade) {
        if layout.has_root() {
            return Err(PlanError::RootWithoutKeeper);
        }
        layout.add_file(keeper::PROGRAM_INSIDE, 0o555, sys::KEEPER.to_vec());
    }
    let names = network.hosts_file();
    if has_system || names.is_some() {
        layout.add_file(HOSTS_FILE, 0o444, hosts_file(names).into_bytes());
    }
    let resolver = network.resolver_file();
    let services = name_services(resolver.is_some());
    if let Some(resolver) = resolver {
        layout.add_file(RESOLVER_FILE, 0o444, resolver.into_bytes());
    }
    if has_system {
        let users = format!(
            "root:x:0:0:root:/:/bin/sh\nguest:x:{uid}:{gid}:guest:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
        );
        let groups = format!("root:x:0:\nguest:x:{gid}:\nnogroup:x:65534:\n");
        layout.add_file("/etc/passwd", 0o444, users.into_bytes());
        layout.add_file("/etc/group", 0o444, groups.into_bytes());
        layout.add_file("/etc/nsswitch.conf", 0o444, services.into_bytes());
    }
    Ok(())
}

/// Where there is no name server, it is asked nevertheless, so that the report has the name; then files once more, so that
/// what is not there is unknown rather than to be tried again.
fn name_services(has_resolver: bool) -> String {
    let hosts = match has_resolver {
        true => "files dns",
        false => "files dns files",
    };
    format!(
        "passwd: files\ngroup: files\nshadow: files\nhosts: {hosts}\nservices: files\nprotocols: files\n"
    )
}

/// The only names there are: no question leaves the domain. A program may look its own machine up
/// (`InetAddress.getLocalHost`).
pub(crate) fn hosts_file(granted: Option<String>) -> String {
    let granted = granted.unwrap_or_default();
    format!("127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n{granted}")
}
