//! Palisade's own filter around a container, beside the one that its engine asks for.
//!
//! An image expects what a machine of its own would have, so this is no list of what programs use but of what reaches past
//! a container: calls that need a capability are there only with it, as the kernel would refuse them anyway, and what no
//! capability guards is there only where nobody outside is concerned. The kernel takes the stricter of two filters
//! (seccomp(2)).

use super::{
    HostNetwork,
    allow_list::{self, ALLOW, EPERM, NEW_NAMESPACES, set},
    filter::{Action, Check, Filter, int, long},
    sockets, syscalls,
};
use libc::*;

const ENOSYS: Action = Action::Errno(libc::ENOSYS as u16);

/// Capabilities by their numbers (capabilities(7)).
mod capability {
    pub(super) const DAC_READ_SEARCH: u64 = 1 << 2;
    pub(super) const SYS_MODULE: u64 = 1 << 16;
    pub(super) const SYS_RAWIO: u64 = 1 << 17;
    pub(super) const SYS_CHROOT: u64 = 1 << 18;
    pub(super) const SYS_PTRACE: u64 = 1 << 19;
    pub(super) const SYS_PACCT: u64 = 1 << 20;
    pub(super) const SYS_ADMIN: u64 = 1 << 21;
    pub(super) const SYS_BOOT: u64 = 1 << 22;
    pub(super) const SYS_TIME: u64 = 1 << 25;
    pub(super) const SYS_TTY_CONFIG: u64 = 1 << 26;
    pub(super) const SYSLOG: u64 = 1 << 34;
    pub(super) const PERFMON: u64 = 1 << 38;
    pub(super) const BPF: u64 = 1 << 39;
}

use capability::*;

/// Calls that are there with any of these capabilities, and are refused without.
const WITH_CAPABILITY: &[(c_long, u64)] = &[
    (SYS_open_by_handle_at, DAC_READ_SEARCH),
    (SYS_init_module, SYS_MODULE),
    (SYS_finit_module, SYS_MODULE),
    (SYS_delete_module, SYS_MODULE),
    (SYS_iopl, SYS_RAWIO),
    (SYS_ioperm, SYS_RAWIO),
    (SYS_chroot, SYS_CHROOT),
    (SYS_process_mrelease, SYS_PTRACE),
    (SYS_userfaultfd, SYS_PTRACE),
    (SYS_acct, SYS_PACCT),
    (SYS_mount, SYS_ADMIN),
    (SYS_umount2, SYS_ADMIN),
    (SYS_pivot_root, SYS_ADMIN),
    (SYS_fsopen, SYS_ADMIN),
    (SYS_fsconfig, SYS_ADMIN),
    (SYS_fsmount, SYS_ADMIN),
    (SYS_fspick, SYS_ADMIN),
    (SYS_open_tree, SYS_ADMIN),
    (SYS_move_mount, SYS_ADMIN),
    (SYS_mount_setattr, SYS_ADMIN),
    (SYS_setns, SYS_ADMIN),
    (SYS_fanotify_init, SYS_ADMIN),
    (SYS_quotactl, SYS_ADMIN),
    (SYS_quotactl_fd, SYS_ADMIN),
    (SYS_swapon, SYS_ADMIN),
    (SYS_swapoff, SYS_ADMIN),
    (SYS_sethostname, SYS_ADMIN),
    (SYS_setdomainname, SYS_ADMIN),
    (SYS_lookup_dcookie, SYS_ADMIN),
    (SYS_bpf, SYS_ADMIN | BPF),
    (SYS_perf_event_open, SYS_ADMIN | PERFMON),
    (SYS_kexec_load, SYS_BOOT),
    (SYS_kexec_file_load, SYS_BOOT),
    (SYS_reboot, SYS_BOOT),
    (SYS_settimeofday, SYS_TIME),
    (SYS_clock_settime, SYS_TIME),
    (SYS_vhangup, SYS_TTY_CONFIG),
    (SYS_syslog, SYSLOG),
];

/// Refused whatever the capabilities, with the reason.
const NEVER: &[(c_long, &str)] = &[
    (
        SYS_add_key,
        "keyrings have no namespace: they are the host user's",
    ),
    (
        SYS_request_key,
        "keyrings have no namespace: they are the host user's",
    ),
    (
        SYS_keyctl,
        "keyrings have no namespace: they are the host user's",
    ),
    (SYS_io_uring_setup, "it performs calls that no filter sees"),
    (SYS_io_uring_enter, "it performs calls that no filter sees"),
    (
        SYS_io_uring_register,
        "it performs calls that no filter sees",
    ),
    (SYS_nfsservctl, "the kernel has it no more"),
    (SYS_uselib, "nobody uses it, and it was a hole"),
];

/// What is refused to a container whatever it asks for: each call's name, and why.
pub fn container_refusals() -> impl Iterator<Item = (&'static str, &'static str)> {
    NEVER.iter().map(|(number, reason)| {
        let name = syscalls::call_name(*number as u32).unwrap_or("unnamed");
        (name, *reason)
    })
}

/// The filter around a container whose processes may come to have these capabilities. One that has grants in place of a network
/// leaves calls on addresses to its supervisor.
#[must_use]
pub fn container(capabilities: u64, network: Option<HostNetwork>) -> Filter {
    let mut filter = Filter::new(ENOSYS);
    for (number, _) in syscalls::LISTS.iter().flat_map(|list| list.iter()) {
        filter.set(*number, ALLOW);
    }
    for (number, needed) in WITH_CAPABILITY {
        if capabilities & needed == 0 {
            set(&mut filter, *number, EPERM);
        }
    }
    // Capabilities of another user namespace are not the container's, and a supervisor does not look whose they are.
    if capabilities & SYS_ADMIN == 0 || network.is_some() {
        set(&mut filter, SYS_clone, clone());
        set(&mut filter, SYS_unshare, unshare());
        // It keeps its flags in memory, where a filter cannot look; callers take clone(2) then.
        set(&mut filter, SYS_clone3, ENOSYS);
    }
    for (number, _) in NEVER {
        set(&mut filter, *number, EPERM);
    }
    for number in [
        SYS_io_uring_setup,
        SYS_io_uring_enter,
        SYS_io_uring_register,
    ] {
        set(&mut filter, number, ENOSYS);
    }
    set(&mut filter, SYS_socket, socket(network));
    set(&mut filter, SYS_ioctl, ioctl(network.is_some()));
    if let Some(network) = network {
        sockets::decide_in_container(&mut filter, network);
        // The newer of two filters that leave a call to somebody decides: nobody inside answers in the supervisor's place, also where
        // that has gone and its listener with it.
        set(&mut filter, SYS_seccomp, allow_list::seccomp());
    }
    filter
}

/// What a container's filter has refused would be allowed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// This capability, by its number: the least of those that would do.
    Capability(u32),
    /// Nothing but doing without the filter, which has this reason.
    NoFilter(&'static str),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

/// What would have a container's filter allow this call. One that has grants in place of a network does not do without.
#[must_use]
pub fn container_remedy(number: u32, has_network: bool) -> Remedy {
    if syscalls::call_name(number).is_none() {
        return Remedy::Nothing("no call of this number is known");
    }
    match remedy(c_long::from(number)) {
        Remedy::Capability(_) if has_network && makes_namespaces(number) => {
            Remedy::Nothing("a network namespace would be one without grants")
        }
        Remedy::NoFilter(reason) if has_network => Remedy::Nothing(reason),
        remedy => remedy,
    }
}

fn makes_namespaces(number: u32) -> bool {
    [SYS_clone, SYS_clone3, SYS_unshare].contains(&c_long::from(number))
}

fn remedy(number: c_long) -> Remedy {
    let of_capability = WITH_CAPABILITY.iter().find(|(call, _)| *call == number);
    let administrators = makes_namespaces(number as u32).then_some(SYS_ADMIN);
    // Newer capabilities are parts of the older ones.
    match of_capability.map(|(_, needed)| *needed).or(administrators) {
        Some(needed) => Remedy::Capability(needed.ilog2()),
        None => Remedy::NoFilter(
            NEVER
                .iter()
                .find(|(call, _)| *call == number)
                .map_or("it reaches past a container", |(_, reason)| *reason),
        ),
    }
}

/// A container's filters as one that leaves what they refuse to a supervisor, which refuses it and takes note. What every thread asks
/// for at its start, and can do without, is none of it.
#[must_use]
pub fn watched(own: &Filter, engines: Option<&Filter>) -> Filter {
    let both = match engines {
        // Which is loaded last.
        Some(engines) => engines.and(own),
        None => own.clone(),
    };
    // Nobody inside answers in the supervisor's place, also where that has gone and its listener with it.
    let mut listeners = Filter::new(ALLOW);
    listeners.set(SYS_seccomp as u32, allow_list::seccomp());
    both.and(&listeners)
        .asking(&[SYS_clone3 as u32, SYS_seccomp as u32])
}

/// The filter of who carries calls out for others of a container: of what a program there may, nothing by which it would take somebody
/// else's descriptors or memory, and no program.
#[must_use]
pub fn attendant(capabilities: u64) -> Filter {
    let mut filter = container(capabilities, None);
    for number in [
        SYS_pidfd_getfd,
        SYS_ptrace,
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        SYS_execve,
        SYS_execveat,
        SYS_seccomp,
        SYS_setns,
        SYS_unshare,
    ] {
        set(&mut filter, number, EPERM);
    }
    filter
}

/// The program of the filter of a container's init, which waits, passes signals on and reaps.
pub(crate) fn init() -> Result<Vec<u8>, super::CompileError> {
    let mut filter = Filter::new(EPERM);
    for number in [
        SYS_ppoll,
        SYS_read,
        SYS_wait4,
        SYS_kill,
        SYS_recvmsg,
        SYS_sendmsg,
        SYS_close,
        // While its program's process is made, whose stack it gives back.
        SYS_futex,
        SYS_munmap,
        SYS_exit_group,
    ] {
        set(&mut filter, number, ALLOW);
    }
    filter.program()
}

/// The same bit as the exit signal of clone(2), which does not take it.
const NEW_TIME: u64 = CLONE_NEWTIME as u64;

/// A user namespace gives capabilities in it, and with them parts of the kernel that the container has none for.
fn clone() -> Check {
    Check::otherwise(ALLOW).when([int(0).has_any(NEW_NAMESPACES)], EPERM)
}

fn unshare() -> Check {
    Check::otherwise(ALLOW).when([long(0).has_any(NEW_NAMESPACES | NEW_TIME)], EPERM)
}

/// None talks to anything of the container's: `AF_VSOCK` reaches the hypervisor whatever the network namespace, `AF_ALG` is
/// for programs that can do without, `AF_XDP` for who drives a network device.
fn socket(network: Option<HostNetwork>) -> Check {
    let refused = [AF_VSOCK as u64, AF_ALG as u64, AF_XDP as u64];
    let errno = Action::Errno(EAFNOSUPPORT as u16);
    let check = Check::otherwise(ALLOW).when([int(0).one_of(refused)], errno);
    let of_hosts = network.map(sockets::socket_in_container);
    let of_hosts = of_hosts.into_iter().flatten();
    of_hosts.fold(check, |check, (tests, action)| check.when(tests, action))
}

/// `TIOCSTI` types into a terminal (CVE-2017-5226), `TIOCLINUX` pastes into a virtual console. Of a socket of the host's network
/// nobody asks for the host's interfaces.
fn ioctl(has_hosts_sockets: bool) -> Check {
    let refused = [TIOCSTI, TIOCLINUX];
    let interfaces = [sockets::interface_request()];
    Check::otherwise(ALLOW)
        .when([int(1).one_of(refused)], EPERM)
        .when_if(has_hosts_sockets, [sockets::own_request()], ALLOW)
        .when_if(has_hosts_sockets, interfaces, EPERM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::{compile, machine};

    fn decided(capabilities: u64, number: c_long, arguments: [u64; 6]) -> Action {
        let filter = container(capabilities, None);
        let program = compile(&filter).unwrap();
        machine::check(&program);
        let call = machine::native(number as u32, arguments);
        let outcome = machine::run(&program, &call);
        assert_eq!(outcome.action, filter.decide(number as u32, &arguments));
        outcome.action
    }

    #[test]
    fn what_needs_a_capability_is_there_with_it() {
        for (number, needed) in WITH_CAPABILITY {
            assert_eq!(decided(0, *number, [0; 6]), EPERM, "{number}");
            assert_eq!(decided(*needed, *number, [0; 6]), ALLOW, "{number}");
        }
    }

    #[test]
    fn namespaces_need_the_administrator() {
        let flags = [CLONE_NEWUSER as u64, 0, 0, 0, 0, 0];
        assert_eq!(decided(0, SYS_clone, flags), EPERM);
        assert_eq!(decided(0, SYS_unshare, flags), EPERM);
        assert_eq!(decided(0, SYS_clone3, [0; 6]), ENOSYS);
        assert_eq!(decided(SYS_ADMIN, SYS_clone, flags), ALLOW);
        assert_eq!(
            decided(0, SYS_clone, [SIGCHLD as u64, 0, 0, 0, 0, 0]),
            ALLOW
        );
        assert_eq!(
            decided(0, SYS_unshare, [CLONE_NEWTIME as u64, 0, 0, 0, 0, 0]),
            EPERM
        );
    }

    #[test]
    fn addresses_are_the_supervisors_where_there_are_grants() {
        let decided = |network, number: c_long, arguments: [u64; 6]| {
            let filter = container(0, Some(network));
            let program = compile(&filter).unwrap();
            machine::check(&program);
            let call = machine::native(number as u32, arguments);
            machine::run(&program, &call).action
        };
        let streams = HostNetwork {
            tcp: true,
            brokered: true,
            listens: true,
            sends: true,
            ..HostNetwork::default()
        };
        let all = HostNetwork {
            udp: true,
            messages: true,
            ..streams
        };
        let socket = |family: i32, kind: i32| [family as u64, kind as u64, 0, 0, 0, 0];
        for number in [SYS_connect, SYS_bind, SYS_listen] {
            assert_eq!(decided(streams, number, [0; 6]), Action::Notify, "{number}");
        }
        let cases = [
            (AF_INET, SOCK_STREAM, Action::Notify, Action::Notify),
            (AF_INET6, SOCK_DGRAM, ALLOW, Action::Notify),
            (AF_INET, SOCK_RAW, ALLOW, ALLOW),
            (AF_UNIX, SOCK_STREAM, ALLOW, ALLOW),
            (AF_VSOCK, SOCK_STREAM, Action::Errno(97), Action::Errno(97)),
        ];
        for (family, kind, with_streams, with_all) in cases {
            let arguments = socket(family, kind);
            assert_eq!(decided(streams, SYS_socket, arguments), with_streams);
            assert_eq!(decided(all, SYS_socket, arguments), with_all);
        }
        assert_eq!(decided(all, SYS_sendmsg, [0; 6]), Action::Notify);
        assert_eq!(decided(all, SYS_ioctl, [0, 0x8912, 0, 0, 0, 0]), EPERM);
        assert_eq!(decided(all, SYS_io_uring_setup, [0; 6]), ENOSYS);
        let listener = [1, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 0, 0, 0];
        assert_eq!(
            decided(all, SYS_seccomp, listener),
            Action::Errno(EBUSY as u16)
        );
        assert_eq!(decided(all, SYS_seccomp, [1, 0, 0, 0, 0, 0]), ALLOW);
    }

    #[test]
    fn what_is_refused_is_the_supervisors_to_refuse() {
        let mut engines = Filter::new(ALLOW);
        engines.set(
            SYS_personality as u32,
            Check::otherwise(EPERM).when([long(0).is(0)], ALLOW),
        );
        engines.set(SYS_uname as u32, Action::Kill);
        let filter = watched(&container(0, None), Some(&engines));
        let program = compile(&filter).unwrap();
        machine::check(&program);
        let decided = |number: c_long, first: u64| {
            let call = machine::native(
                number as u32,
                [first, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 0, 0, 0],
            );
            machine::run(&program, &call).action
        };
        for (number, first, expected) in [
            (SYS_mount, 0, Action::Notify),
            (SYS_io_uring_setup, 0, Action::Notify),
            (SYS_personality, 1, Action::Notify),
            (SYS_personality, 0, ALLOW),
            (SYS_socket, AF_VSOCK as u64, Action::Notify),
            (SYS_socket, AF_UNIX as u64, ALLOW),
            (SYS_uname, 0, Action::Kill),
            (SYS_clone3, 0, ENOSYS),
            (SYS_read, 0, ALLOW),
            (SYS_seccomp, 1, Action::Errno(EBUSY as u16)),
        ] {
            assert_eq!(decided(number, first), expected, "{number} {first}");
        }
    }

    #[test]
    fn the_least_capability_that_would_do_is_told() {
        let bit = |mask: u64| Remedy::Capability(mask.trailing_zeros());
        let remedy = |number: c_long| container_remedy(number as u32, false);
        assert_eq!(remedy(SYS_mount), bit(SYS_ADMIN));
        assert_eq!(remedy(SYS_bpf), bit(BPF));
        assert_eq!(remedy(SYS_unshare), bit(SYS_ADMIN));
        assert!(matches!(remedy(9999), Remedy::Nothing(_)));
        let with_network = |number: c_long| container_remedy(number as u32, true);
        assert_eq!(with_network(SYS_mount), bit(SYS_ADMIN));
        assert!(matches!(with_network(SYS_unshare), Remedy::Nothing(_)));
        assert!(matches!(with_network(SYS_keyctl), Remedy::Nothing(_)));
        assert!(
            matches!(remedy(SYS_keyctl), Remedy::NoFilter(reason) if reason.contains("keyrings"))
        );
    }

    #[test]
    fn keys_and_rings_are_nobodys() {
        assert_eq!(decided(u64::MAX, SYS_keyctl, [0; 6]), EPERM);
        assert_eq!(decided(u64::MAX, SYS_io_uring_setup, [0; 6]), ENOSYS);
        assert!(container_refusals().all(|(name, _)| name != "unnamed"));
    }

    #[test]
    fn hot_calls_are_the_kernels_bitmap() {
        let program = compile(&container(0, None)).unwrap();
        for number in [SYS_read, SYS_write, SYS_openat, SYS_futex, SYS_sendto] {
            let call = machine::native(number as u32, [7; 6]);
            let outcome = machine::run(&program, &call);
            assert!(!outcome.argument_read, "{number}");
        }
    }

    #[test]
    fn arguments_are_compared_as_numbers_of_64_bits() {
        use crate::seccomp::filter::Expect;
        let cases: [u64; 7] = [0, 1, 7, 1 << 32, (1 << 32) | 7, u64::MAX - 1, u64::MAX];
        for bound in cases {
            for expect in [
                Expect::Unequal(bound),
                Expect::AtLeast(bound),
                Expect::Below(bound),
            ] {
                let test = long(2).expect(expect);
                if !test.can_hold() {
                    continue;
                }
                let mut filter = Filter::new(EPERM);
                filter.set(1, Check::otherwise(EPERM).when([test], ALLOW));
                let program = compile(&filter).unwrap();
                machine::check(&program);
                for value in cases {
                    let arguments = [0, 0, value, 0, 0, 0];
                    let outcome = machine::run(&program, &machine::native(1, arguments));
                    assert_eq!(
                        outcome.action,
                        filter.decide(1, &arguments),
                        "{bound} {value}"
                    );
                }
            }
        }
    }
}
