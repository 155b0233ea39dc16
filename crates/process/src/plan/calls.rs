//! Which system calls a plan lets through.

use crate::{
    layout::Layout,
    machine::{ANOTHER_LOOKS, Machine, Tier},
    plan_error::PlanError,
    reach::Reach,
    seccomp::{Groups, HostNetwork},
};
use palisade_network::{Network, Uses};
use palisade_policy::{Access, ConnectGrant, ListenGrant, Policy, Profile, Transport};
use palisade_wall::Surroundings;

pub(super) fn groups(policy: &Policy, machine: &Machine, layout: &Layout) -> Groups {
    let bare = machine.tier == Tier::Bare;
    let in_sight = !bare && layout.shows_granted_folders();
    // Where nobody can look at names, no socket is connected.
    let is_looked_at = in_sight && !machine.is_filtered();
    Groups {
        guard_setuid: layout.writes_to_host(),
        no_network_sockets: bare,
        foreign_processes_visible: bare,
        host_ipc_visible: bare,
        host_files_visible: bare,
        host_sockets_visible: bare || in_sight && !is_looked_at,
        host_sockets_in_sight: is_looked_at,
        special_files_ruled: is_looked_at
            && machine.landlock_abi.is_some()
            // The kernel's own calls are interrupted by no signal.
            && machine.keeps_calls()
            && layout.makes_files_on_host()
            && !grants_ipc(policy),
        no_local_datagrams: in_sight && !grants_ipc(policy) && layout.meeting_places().is_empty(),
        no_watching: bare || !layout.shows_granted_folders(),
        devices: policy.grants.devices.iter().any(|device| !device.is_pts()),
        no_named_sockets: bare && !grants_ipc(policy),
        no_executable_memfd: true,
        memfd_must_be_sealed: machine.tier != Tier::Privileged || !machine.memfd_noexec,
        no_space_behind_files: policy.limits.file_size_bytes.is_some(),
        observed: !bare && !policy.grants.profiles.contains(&Profile::Palisade),
        no_huge_pages: policy.limits.memory_bytes.is_some(),
        ..Groups::default()
    }
}

/// Whether clone3 is let through. It hides its flags in memory. A new user namespace is refused by the domain's own bound
/// (`sys/keeper/quotas.rs`), other namespaces and chosen pids take capabilities that no guest has. What
/// is left is `CLONE_INTO_CGROUP`: it takes an open folder of control groups, and the right to write there, which an ordinary
/// user may have where an administrator has delegated some. So none may be in sight, nor be passed in by somebody else.
pub(super) fn allows_clone3(
    policy: &Policy,
    machine: &Machine,
    layout: &Layout,
    reach: &Reach<'_>,
    is_met: bool,
) -> bool {
    let has_own_wall = policy.grants.profiles.contains(&Profile::Palisade);
    match machine.tier {
        _ if has_own_wall => false,
        Tier::Bare => false,
        Tier::Privileged => true,
        Tier::UserNamespace => {
            !is_met && !meets_others(policy, machine, layout) && !reach.shows_control_groups()
        }
    }
}

/// Whether somebody can look at the calls that name files, all of which go on.
///
/// # Errors
///
/// Why nobody can.
pub(super) fn refuse_watching(policy: &Policy, machine: &Machine) -> Result<(), PlanError> {
    let why = why_unattended(policy, machine);
    why.map_or(Ok(()), |why| Err(PlanError::CannotWatch { why }))
}

/// Whether calls can wait for an answer.
///
/// # Errors
///
/// Why they cannot.
pub(super) fn refuse_asking(policy: &Policy, machine: &Machine) -> Result<(), PlanError> {
    let takes_back = "a signal takes a call back that waits; that takes Linux 5.19";
    let why = why_unattended(policy, machine);
    let why = why.or_else(|| (!machine.keeps_calls()).then_some(takes_back));
    why.map_or(Ok(()), |why| Err(PlanError::CannotAsk { why }))
}

/// Why nobody can attend to calls of a guest's.
fn why_unattended(policy: &Policy, machine: &Machine) -> Option<&'static str> {
    let has_own_wall = policy.grants.profiles.contains(&Profile::Palisade);
    let why = machine.why_unattended();
    why.or_else(|| has_own_wall.then_some(ANOTHER_LOOKS))
}

/// With UDP sockets that may only listen, sending is not looked at; with none, it is for the report's
/// sake: programs that look names up without connecting.
///
/// Where sockets only come in ready-made, no call needs an answer. So such a guest can run where another
/// supervisor may answer already: under somebody's filter, as in a domain. A guest that meets others can't:
/// what they pass to it has to be judged.
pub(super) fn host_network(
    policy: &Policy,
    machine: &Machine,
    layout: &Layout,
    network: &Network,
    surroundings: &Surroundings,
) -> Option<HostNetwork> {
    let inherits = inherits_listeners(policy);
    let serves_inside = surroundings.inner_port.is_some();
    let is_handed = surroundings.handed.iter().any(|listener| listener.internet);
    let meets_others = meets_others(policy, machine, layout);
    if network.is_empty() && !inherits && !is_handed && !meets_others && !serves_inside {
        return None;
    }
    let [tcp, udp] = [Transport::Tcp, Transport::Udp].map(|transport| network.uses(transport));
    let only_ready = network.listen.iter().all(|rule| rule.ready);
    let is_connected = tcp.connect || udp.connect;
    let brokered =
        is_connected || !only_ready || meets_others || serves_inside || !machine.is_filtered();
    let some = |uses: Uses| inherits || uses != Uses::default();
    Some(HostNetwork {
        tcp: is_handed || some(tcp),
        udp: some(udp),
        brokered,
        listens: inherits || is_handed || serves_inside || tcp.listen || udp.listen,
        sends: brokered && (udp.connect || !(udp.listen || inherits)),
        messages: brokered && udp.connect,
    })
}

/// Whether somebody outside of the domain can pass open files to the guest (`SCM_RIGHTS`), and so sockets of
/// the host's network, granted to a guest that this one is not: over local sockets where others find them,
/// or those of others, whatever they were granted by: a socket that may be read is connected to. Without Landlock they can
/// be made wherever the guest may write.
fn meets_others(policy: &Policy, machine: &Machine, layout: &Layout) -> bool {
    let is_local = |grant: &ConnectGrant| matches!(grant, ConnectGrant::Unix(_));
    let mut files = policy.grants.files.iter();
    let writes = files.any(|grant| grant.access == Access::Write);
    grants_ipc(policy)
        || !layout.meeting_places().is_empty()
        || policy.grants.connect.iter().any(is_local)
        || writes && machine.landlock_abi.is_none()
}

pub(super) fn inherits_listeners(policy: &Policy) -> bool {
    policy.grants.listen.contains(&ListenGrant::Inherited)
}

fn grants_ipc(policy: &Policy) -> bool {
    let mut files = policy.grants.files.iter();
    files.any(|grant| grant.access == Access::Ipc)
}
