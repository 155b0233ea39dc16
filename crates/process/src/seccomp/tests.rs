//! The compiled program against the filter's meaning, and the policy against what it must refuse.

use super::{
    allow_list::FILE_REQUESTS,
    filter::{Check, int, long},
    machine::{self, Call, native},
    syscalls::{self, LISTS},
    *,
};
use crate::file_calls;

const ALLOW: Action = Action::Allow;
const ENOSYS: Action = Action::Errno(libc::ENOSYS as u16);
const EPERM: Action = Action::Errno(libc::EPERM as u16);

/// Numbers of the old table with nothing behind them any more; `sysfs` is the last to have gone.
#[cfg(target_arch = "x86_64")]
const HOLES: &[u32] = &[
    139, 156, 174, 177, 178, 181, 182, 183, 184, 185, 205, 211, 214, 215, 236,
];

/// Sockets of both transports, and every send looked at.
const BROKERED: HostNetwork = HostNetwork {
    tcp: true,
    udp: true,
    brokered: true,
    listens: false,
    sends: true,
    messages: true,
};

/// The default, each group alone, and all together.
fn all_groups() -> Vec<Groups> {
    let alone: [fn(&mut Groups); 23] = [
        |groups| groups.guard_setuid = true,
        |groups| groups.guard_chmod = true,
        |groups| groups.cpu_affinity_fixed = true,
        |groups| groups.no_network_sockets = true,
        |groups| groups.netlink_route = true,
        |groups| groups.foreign_processes_visible = true,
        |groups| groups.host_ipc_visible = true,
        |groups| groups.host_files_visible = true,
        |groups| groups.host_sockets_visible = true,
        |groups| groups.no_named_sockets = true,
        |groups| groups.host_sockets_in_sight = true,
        |groups| groups.no_local_datagrams = true,
        |groups| groups.special_files_ruled = true,
        |groups| groups.clone3 = true,
        |groups| groups.no_watching = true,
        |groups| groups.devices = true,
        |groups| groups.no_executable_memfd = true,
        |groups| groups.memfd_must_be_sealed = true,
        |groups| groups.no_space_behind_files = true,
        |groups| groups.observed = true,
        |groups| groups.watched = true,
        |groups| groups.no_huge_pages = true,
        |groups| groups.host_network = Some(BROKERED),
    ];
    let mut together = Groups::default();
    let mut all = vec![together];
    for choose in alone {
        let mut groups = Groups::default();
        choose(&mut groups);
        choose(&mut together);
        all.push(groups);
    }
    all.push(together);
    all
}

/// Arguments that hit every test of the policy, plain and with garbage in the upper half.
fn arguments() -> Vec<[u64; 6]> {
    let mut all = vec![
        [0; 6],
        [u64::MAX; 6],
        [1, 2, 6, 0, 0, 0],
        [2, 2, 17, 0, 0, 0],
        [3, 0, 16, 0, 0, 28],
        [3, 0, 0, crate::wire::OWN_CALL, 0, 0],
    ];
    for value in [
        1,
        2,
        8,
        0x10,
        15,
        35,
        0o4755,
        0o102,
        0o60000,
        0x40000,
        0x5412,
        0x8912,
        0x4004_9409,
        0x1000_0000,
        0xffff_ffff,
    ] {
        all.push([value; 6]);
        all.push([value | 0xdead_beef_0000_0000; 6]);
    }
    all
}

fn decide(filter: &Filter, number: libc::c_long, arguments: [u64; 6]) -> Action {
    let program = compile(filter).unwrap();
    machine::run(&program, &native(number as u32, arguments)).action
}

#[test]
fn the_program_means_what_the_filter_says() {
    for groups in all_groups() {
        let filter = allow_list(&groups);
        let program = compile(&filter).unwrap();
        machine::check(&program);
        for number in (0..1024).chain([0x3fff_ffff]) {
            for arguments in arguments() {
                let verdict = machine::run(&program, &native(number, arguments));
                let meant = filter.decide(number, &arguments);
                assert_eq!(verdict.action, meant, "{number} {arguments:x?} {groups:?}");
            }
        }
    }
}

#[test]
fn plainly_allowed_calls_reach_the_kernel_s_bitmap() {
    for groups in all_groups() {
        let filter = allow_list(&groups);
        let program = compile(&filter).unwrap();
        for (number, rule) in filter.rules() {
            let verdict = machine::run(&program, &native(number, [0; 6]));
            let checked = matches!(rule, Rule::Check(_));
            assert_eq!(verdict.argument_read, checked, "{number}");
        }
    }
}

/// Two loads and the architecture, a few numbers, and what the check itself asks: an open that makes nothing is asked for its
/// flags alone.
#[test]
fn the_search_comes_early_to_calls_that_are_made_all_the_time() {
    for groups in all_groups()
        .into_iter()
        .filter(|groups| groups.guard_setuid)
    {
        let filter = allow_list(&groups);
        let program = compile(&filter).unwrap();
        let opens = machine::run(&program, &native(libc::SYS_openat as u32, [0; 6]));
        assert!(opens.steps <= 12, "{} for {groups:?}", opens.steps);
    }
}

#[test]
fn hot_calls_never_carry_a_check() {
    for groups in all_groups().into_iter().filter(|groups| !groups.watched) {
        let filter = allow_list(&groups);
        for number in [
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_close,
            libc::SYS_futex,
            libc::SYS_newfstatat,
            libc::SYS_epoll_pwait,
            libc::SYS_getpid,
            libc::SYS_recvfrom,
            libc::SYS_munmap,
        ] {
            let rule = filter.rules().find(|rule| rule.0 == number as u32);
            assert_eq!(rule.unwrap().1, &Rule::Always(ALLOW), "{number}");
        }
        for number in [libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_setsockopt] {
            let rule = filter.rules().find(|rule| rule.0 == number as u32);
            let is_free = rule.unwrap().1 == &Rule::Always(ALLOW);
            let is_told = groups.observed && number == libc::SYS_sendto;
            assert_eq!(
                is_free,
                groups.host_network.is_none() && !is_told,
                "{number}"
            );
        }
    }
}

#[test]
fn a_foreign_architecture_kills() {
    let program = compile(&allow_list(&Groups::default())).unwrap();
    let (i386, arm) = (0x4000_0003, 0x4000_0028);
    for architecture in [i386, arm, 0, u32::MAX] {
        for number in [0, 1, 20, 60, 500] {
            let call = Call {
                architecture,
                ..native(number, [0; 6])
            };
            assert_eq!(machine::run(&program, &call).action, Action::Kill);
        }
    }
}

#[test]
fn x32_numbers_are_absent() {
    let permissive = {
        let mut filter = Filter::new(ALLOW);
        filter.set(0, ALLOW);
        filter
    };
    for filter in [allow_list(&Groups::default()), permissive] {
        for number in [0x4000_0000, 0x4000_0001, 0x4000_0208, 0x8000_0000, u32::MAX] {
            let action = decide(&filter, number.into(), [0; 6]);
            assert_eq!(action, ENOSYS, "{number:#x}");
        }
    }
}

/// By a mistake of their own or of the kernel's about what they were told.
#[test]
fn who_answers_a_guest_reaches_no_file_and_no_terminal() {
    let paths = [
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_creat,
        libc::SYS_readlinkat,
        libc::SYS_newfstatat,
        libc::SYS_unlinkat,
        libc::SYS_mknodat,
        libc::SYS_chdir,
        libc::SYS_execve,
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_clone3,
    ];
    let naming = broker(true);
    assert_eq!(decide(&naming, libc::SYS_readlinkat, [0; 6]), ALLOW);
    for (filter, names_folders) in [(broker(false), false), (naming, true), (relay(), false)] {
        let reads_link = |call: &libc::c_long| names_folders && *call == libc::SYS_readlinkat;
        for call in paths.into_iter().filter(|call| !reads_link(call)) {
            let action = decide(&filter, call, [0; 6]);
            assert_ne!(action, ALLOW, "{call}");
        }
        let process = decide(
            &filter,
            libc::SYS_clone,
            [libc::SIGCHLD as u64, 0, 0, 0, 0, 0],
        );
        assert_eq!(process, EPERM);
        let keystroke = decide(&filter, libc::SYS_ioctl, [0, libc::TIOCSTI, 0, 0, 0, 0]);
        assert_eq!(keystroke, EPERM);
    }
    for filter in [broker(false), broker(true), maker()] {
        let socket =
            |family: i32| decide(&filter, libc::SYS_socket, [family as u64, 1, 0, 0, 0, 0]);
        assert_eq!([libc::AF_INET, libc::AF_INET6].map(socket), [ALLOW, ALLOW]);
        let others = [
            libc::AF_UNIX,
            libc::AF_NETLINK,
            libc::AF_PACKET,
            libc::AF_ALG,
        ];
        assert_eq!(others.map(socket), [EPERM; 4]);
    }
}

#[test]
fn the_maker_opens_what_is_below_its_own_proc_and_makes_nothing() {
    let proc = crate::wire::MAKERS_PROC as u64;
    let open =
        |at: u64, flags: i32| decide(&maker(), libc::SYS_openat, [at, 0, flags as u64, 0, 0, 0]);
    let harmless = [
        libc::O_RDONLY,
        libc::O_WRONLY,
        libc::O_PATH | libc::O_CLOEXEC,
    ];
    assert_eq!(harmless.map(|flags| open(proc, flags)), [ALLOW; 3]);
    for at in [
        libc::AT_FDCWD as u64,
        u64::from(libc::AT_FDCWD as u32),
        0,
        3,
        5,
    ] {
        assert_eq!(open(at, libc::O_RDONLY), EPERM, "{at}");
    }
    for flags in [
        libc::O_CREAT,
        libc::O_WRONLY | libc::O_TRUNC,
        libc::O_RDWR | libc::O_TMPFILE,
    ] {
        assert_eq!(open(proc, flags), EPERM, "{flags:#o}");
    }
}

#[test]
fn who_holds_files_enters_mounts_alone_and_starts_nothing() {
    for is_root in [false, true] {
        let filter = holder(is_root);
        let enters = |kind: i32| decide(&filter, libc::SYS_setns, [3, kind as u64, 0, 0, 0, 0]);
        assert_eq!(enters(libc::CLONE_NEWNS), ALLOW);
        let others = [
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWNET,
            0,
        ];
        assert_eq!(others.map(enters), [EPERM; 4]);
        let calls = [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_socket,
            libc::SYS_read,
            libc::SYS_unlinkat,
            libc::SYS_renameat2,
            libc::SYS_ptrace,
            libc::SYS_kill,
            libc::SYS_bpf,
        ];
        assert_eq!(calls.map(|call| decide(&filter, call, [0; 6])), [EPERM; 9]);
        // To show files as the guest's.
        let maps = if is_root { ALLOW } else { EPERM };
        assert_eq!(decide(&filter, libc::SYS_clone3, [0; 6]), maps);
    }
}

#[test]
fn every_call_stands_in_one_list_and_has_a_rule() {
    let mut listed: Vec<u32> = LISTS
        .iter()
        .flat_map(|list| list.iter())
        .map(|call| call.0)
        .collect();
    let rules: Vec<u32> = allow_list(&Groups::default())
        .rules()
        .map(|rule| rule.0)
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, rules);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_table_is_complete_up_to_linux_6_18() {
    // 335 is uretprobe, made by the kernel's own trampoline only.
    let table = (0..=334)
        .chain(424..=469)
        .filter(|number| !HOLES.contains(number));
    let filter = allow_list(&Groups::default());
    let rules: Vec<u32> = filter.rules().map(|rule| rule.0).collect();
    assert_eq!(rules, table.collect::<Vec<_>>());
}

#[test]
fn calls_have_names() {
    assert_eq!(call_name(libc::SYS_openat as u32), Some("openat"));
    assert_eq!(call_name(libc::SYS_clone3 as u32), Some("clone3"));
    assert_eq!(call_name(1023), None);
}

#[test]
fn a_description_counts_every_rule() {
    let filter = allow_list(&Groups::default());
    let description = filter.describe();
    let absent = syscalls::ABSENT.len();
    let counted = description.allowed + description.refused + description.checked.len() + absent;
    assert_eq!(counted, filter.rules().count());
    assert!(description.checked.contains(&"clone"));
    assert!(!description.checked.contains(&"openat"));
    let line = description.to_string();
    assert!(
        line.starts_with(&format!("{} calls allowed", description.allowed)),
        "{line}"
    );
}

/// One row: a call, its arguments, and how it must end by default.
fn by_default(call: libc::c_long, arguments: &[u64], expected: i32) {
    with(Groups::default(), call, arguments, expected);
}

/// As [`by_default`] under other groups; 0 stands for allowed.
fn with(groups: Groups, call: libc::c_long, given: &[u64], expected: i32) {
    // What a guest can leave in the upper half of each register must not matter for an int.
    for garbage in [0, 0xffff_ffff_0000_0000, 1 << 32] {
        let mut arguments = [0; 6];
        arguments[..given.len()].copy_from_slice(given);
        if call != libc::SYS_unshare {
            arguments = arguments.map(|argument| argument | garbage);
        }
        exactly(groups, call, &arguments, expected);
    }
}

/// As [`with`], where whole registers are looked at.
fn exactly(groups: Groups, call: libc::c_long, given: &[u64], expected: i32) {
    let expected = match expected {
        0 => ALLOW,
        errno => Action::Errno(errno as u16),
    };
    let mut arguments = [0; 6];
    arguments[..given.len()].copy_from_slice(given);
    let action = decide(&allow_list(&groups), call, arguments);
    assert_eq!(action, expected, "{call} {arguments:x?}");
}

#[test]
fn new_namespaces_are_refused() {
    let thread = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_FILES;
    by_default(libc::SYS_clone, &[thread as u64], 0);
    by_default(libc::SYS_clone, &[libc::SIGCHLD as u64], 0);
    for flag in [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ] {
        by_default(
            libc::SYS_clone,
            &[(flag | libc::SIGCHLD) as u64],
            libc::EPERM,
        );
        by_default(libc::SYS_unshare, &[flag as u64], libc::EPERM);
        by_default(
            libc::SYS_unshare,
            &[(flag | libc::CLONE_FS) as u64],
            libc::EPERM,
        );
    }
    by_default(libc::SYS_unshare, &[libc::CLONE_FILES as u64], 0);
    by_default(
        libc::SYS_unshare,
        &[libc::CLONE_NEWTIME as u64],
        libc::EPERM,
    );
    by_default(libc::SYS_unshare, &[1 << 40], libc::EPERM);
    by_default(libc::SYS_clone3, &[], libc::ENOSYS);
    by_default(libc::SYS_setns, &[], libc::EPERM);
}

#[test]
fn terminal_injection_is_refused() {
    for request in [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD] {
        by_default(libc::SYS_ioctl, &[0, request], libc::EPERM);
    }
    for request in [
        libc::TCGETS,
        libc::TIOCGWINSZ,
        libc::FIONREAD,
        libc::TIOCSCTTY,
    ] {
        by_default(libc::SYS_ioctl, &[0, request], 0);
    }
}

#[test]
fn sockets_are_local_tcp_or_udp() {
    let socket = |family: i32, kind: i32, protocol: i32, expected: i32| {
        let arguments = [family as u64, kind as u64, protocol as u64];
        by_default(libc::SYS_socket, &arguments, expected);
    };
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | flags, 0, 0);
    for family in [libc::AF_INET, libc::AF_INET6] {
        socket(family, libc::SOCK_STREAM | flags, 0, 0);
        socket(family, libc::SOCK_STREAM, libc::IPPROTO_TCP, 0);
        socket(family, libc::SOCK_DGRAM | flags, libc::IPPROTO_UDP, 0);
        socket(family, libc::SOCK_DGRAM, 0, 0);
        for (kind, protocol) in [
            (libc::SOCK_STREAM, libc::IPPROTO_MPTCP),
            (libc::SOCK_STREAM, libc::IPPROTO_SCTP),
            (libc::SOCK_STREAM, libc::IPPROTO_UDP),
            (libc::SOCK_DGRAM, libc::IPPROTO_UDPLITE),
            (libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
            (libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP),
            (libc::SOCK_RAW, libc::IPPROTO_ICMP),
            (libc::SOCK_RAW, libc::IPPROTO_TCP),
        ] {
            socket(family, kind, protocol, libc::EPROTONOSUPPORT);
        }
    }
    for family in [
        libc::AF_NETLINK,
        libc::AF_PACKET,
        libc::AF_ALG,
        libc::AF_VSOCK,
        44,
    ] {
        socket(family, libc::SOCK_RAW, 0, libc::EAFNOSUPPORT);
        by_default(libc::SYS_socketpair, &[family as u64], libc::EAFNOSUPPORT);
    }
    by_default(libc::SYS_socketpair, &[libc::AF_UNIX as u64, 5], 0);
}

#[test]
fn socket_groups() {
    let inet = libc::AF_INET as u64;
    let stream = libc::SOCK_STREAM as u64;
    let offline = Groups {
        no_network_sockets: true,
        ..Groups::default()
    };
    with(offline, libc::SYS_socket, &[inet, stream, 0], libc::EACCES);
    with(
        offline,
        libc::SYS_socket,
        &[libc::AF_UNIX as u64, stream, 0],
        0,
    );
    let netlink = libc::AF_NETLINK as u64;
    let listing = Groups {
        netlink_route: true,
        ..Groups::default()
    };
    with(listing, libc::SYS_socket, &[netlink, 3, 0], 0);
    let netfilter = libc::NETLINK_NETFILTER as u64;
    with(
        listing,
        libc::SYS_socket,
        &[netlink, 3, netfilter],
        libc::EAFNOSUPPORT,
    );
}

fn brokered(call: libc::c_long, arguments: &[u64]) -> Action {
    let groups = Groups {
        host_network: Some(BROKERED),
        ..Groups::default()
    };
    decided(groups, call, arguments)
}

fn decided(groups: Groups, call: libc::c_long, arguments: &[u64]) -> Action {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    allow_list(&groups).decide(call as u32, &all)
}

#[test]
fn calls_that_name_an_address_are_the_supervisors() {
    for call in [libc::SYS_connect, libc::SYS_bind, libc::SYS_listen] {
        assert_eq!(brokered(call, &[3, 4, 5]), Action::Notify);
    }
    let inet6 = libc::AF_INET6 as u64;
    let dgram = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
    assert_eq!(
        brokered(libc::SYS_socket, &[inet6, dgram, 0]),
        Action::Notify
    );
    assert_eq!(
        brokered(libc::SYS_socket, &[libc::AF_UNIX as u64, 1, 0]),
        ALLOW
    );
    assert_eq!(
        brokered(libc::SYS_sendto, &[3, 1, 1, 0, 0x10, 16]),
        Action::Notify
    );
    assert_eq!(
        brokered(libc::SYS_sendto, &[3, 1, 1, 0, 1 << 40, 16]),
        Action::Notify
    );
    assert_eq!(brokered(libc::SYS_sendto, &[3, 1, 1, 0, 0, 0]), ALLOW);
    assert_eq!(brokered(libc::SYS_sendmsg, &[3, 1, 0]), Action::Notify);
}

#[test]
fn no_socket_of_the_hosts_is_rerouted_or_turned_into_another_kind() {
    let eopnotsupp = Action::Errno(libc::EOPNOTSUPP as u16);
    let fast_open = (libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL) as u64;
    assert_eq!(
        brokered(libc::SYS_sendto, &[3, 1, 1, fast_open, 1, 16]),
        eopnotsupp
    );
    assert_eq!(brokered(libc::SYS_sendmsg, &[3, 1, fast_open]), eopnotsupp);
    assert_eq!(
        brokered(libc::SYS_sendmmsg, &[3, 1, 1, fast_open]),
        eopnotsupp
    );
    let option = |level: libc::c_int, option: libc::c_int| {
        brokered(libc::SYS_setsockopt, &[3, level as u64, option as u64])
    };
    let unknown = Action::Errno(libc::ENOPROTOOPT as u16);
    for (level, refused) in [
        (libc::IPPROTO_IP, libc::IP_OPTIONS),
        (libc::IPPROTO_IP, libc::IP_MULTICAST_IF),
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP),
        (libc::IPPROTO_IP, libc::IP_FREEBIND),
        (libc::IPPROTO_IPV6, libc::IPV6_RTHDR),
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO),
        (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF),
        (libc::IPPROTO_TCP, libc::TCP_ULP),
        (libc::IPPROTO_TCP, libc::TCP_REPAIR),
        (libc::IPPROTO_TCP, libc::TCP_MD5SIG),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT),
        (libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
        (libc::SOL_SOCKET, libc::SO_MARK),
        (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
        (libc::SOL_SOCKET, libc::SO_REUSEPORT),
        (libc::IPPROTO_UDP, libc::UDP_ENCAP),
        (libc::IPPROTO_ICMPV6, 1),
        (libc::IPPROTO_RAW, 1),
        (libc::SOL_NETLINK, 1),
    ] {
        assert_eq!(option(level, refused), unknown, "{level} {refused}");
    }
    assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_NODELAY), ALLOW);
    assert_eq!(option(libc::SOL_SOCKET, libc::SO_REUSEADDR), ALLOW);
    assert_eq!(option(libc::SOL_SOCKET, libc::SO_LINGER), Action::Notify);
}

#[test]
fn what_another_guest_passes_is_answered_for_by_the_supervisor_too() {
    let groups = Groups {
        host_network: Some(HostNetwork {
            brokered: true,
            sends: true,
            ..HostNetwork::default()
        }),
        ..Groups::default()
    };
    let inet = libc::AF_INET as u64;
    assert_eq!(decided(groups, libc::SYS_socket, &[inet, 1, 0]), ALLOW);
    for call in [libc::SYS_connect, libc::SYS_bind, libc::SYS_listen] {
        assert_eq!(decided(groups, call, &[3, 4, 5]), Action::Notify);
    }
    let fast_open = libc::MSG_FASTOPEN as u64;
    let eopnotsupp = Action::Errno(libc::EOPNOTSUPP as u16);
    for (call, arguments) in [
        (libc::SYS_sendto, &[3, 1, 1, fast_open, 1, 16][..]),
        (libc::SYS_sendmsg, &[3, 1, fast_open]),
        (libc::SYS_sendmmsg, &[3, 1, 1, fast_open]),
    ] {
        assert_eq!(decided(groups, call, arguments), eopnotsupp);
    }
    let addressed = [3, 1, 1, 0, 0x10, 16];
    assert_eq!(
        decided(groups, libc::SYS_sendto, &addressed),
        Action::Notify
    );
    assert_eq!(decided(groups, libc::SYS_sendmsg, &[3, 1, 0]), ALLOW);
    let marked = [3, libc::SOL_SOCKET as u64, libc::SO_MARK as u64];
    let unknown = Action::Errno(libc::ENOPROTOOPT as u16);
    assert_eq!(decided(groups, libc::SYS_setsockopt, &marked), unknown);
}

#[test]
fn a_socket_of_the_hosts_tells_nothing_of_its_interfaces() {
    let request = |request: u64| brokered(libc::SYS_ioctl, &[3, request]);
    let refused = Action::Errno(libc::EACCES as u16);
    const SIOCGIFCONF: u64 = 0x8912;
    const SIOCGIWNAME: u64 = 0x8b01;
    const SIOCATMARK: u64 = 0x8905;
    assert_eq!(request(SIOCGIFCONF), refused);
    assert_eq!(request(SIOCGIWNAME), refused);
    assert_eq!(request(SIOCATMARK), ALLOW);
    assert_eq!(request(libc::FIONREAD), ALLOW);
}

#[test]
fn sockets_that_are_only_passed_in_are_guarded_without_a_broker() {
    let groups = Groups {
        host_network: Some(HostNetwork {
            tcp: true,
            ..HostNetwork::default()
        }),
        ..Groups::default()
    };
    let fast_open = libc::MSG_FASTOPEN as u64;
    let eopnotsupp = Action::Errno(libc::EOPNOTSUPP as u16);
    let eacces = Action::Errno(libc::EACCES as u16);
    assert_eq!(decided(groups, libc::SYS_connect, &[3, 4, 5]), eacces);
    assert_eq!(
        decided(groups, libc::SYS_sendto, &[3, 1, 1, fast_open]),
        eopnotsupp
    );
}

#[test]
fn no_setuid_file_is_made_on_the_host() {
    let guarded = Groups {
        guard_setuid: true,
        ..Groups::default()
    };
    let creating = (libc::O_CREAT | libc::O_WRONLY) as u64;
    let unnamed = (libc::O_TMPFILE | libc::O_RDWR) as u64;
    let directory = (libc::O_DIRECTORY | libc::O_RDONLY) as u64;
    for mode in [0o4755, 0o2755, 0o6000] {
        for (call, arguments) in [
            (libc::SYS_chmod, vec![0, mode]),
            (libc::SYS_fchmod, vec![0, mode]),
            (libc::SYS_fchmodat, vec![0, 0, mode]),
            (syscalls::SYS_fchmodat2, vec![0, 0, mode]),
            (libc::SYS_creat, vec![0, mode]),
            (libc::SYS_open, vec![0, creating, mode]),
            (libc::SYS_openat, vec![0, 0, creating, mode]),
            (libc::SYS_openat, vec![0, 0, unnamed, mode]),
            (libc::SYS_mknod, vec![0, mode | u64::from(libc::S_IFREG)]),
            (
                libc::SYS_mknodat,
                vec![0, 0, mode | u64::from(libc::S_IFREG)],
            ),
        ] {
            with(guarded, call, &arguments, libc::EPERM);
            by_default(call, &arguments, 0);
        }
        // Without a new file the mode is garbage.
        with(guarded, libc::SYS_openat, &[0, 0, directory, mode], 0);
        with(guarded, libc::SYS_open, &[0, 0, mode], 0);
    }
    with(guarded, libc::SYS_openat, &[0, 0, creating, 0o1777], 0);
    with(guarded, libc::SYS_chmod, &[0, 0o1755], 0);
    with(guarded, libc::SYS_openat2, &[], libc::ENOSYS);
    by_default(libc::SYS_openat2, &[], 0);
}

#[test]
fn constants_of_openat2_are_told_by_their_address() {
    use open_how::{AT, BYTES, STRIDE, STRUCTURE_BYTES};
    let groups = Groups {
        guard_setuid: true,
        constant_open_how: true,
        ..Groups::default()
    };
    let openat2 = |how, bytes| {
        let allowed = (AT..AT + BYTES).contains(&how) && how % STRIDE == 0;
        let expected = match allowed && bytes == STRUCTURE_BYTES {
            true => 0,
            false => libc::ENOSYS,
        };
        exactly(groups, libc::SYS_openat2, &[3, 7, how, bytes], expected);
    };
    for how in [
        0,
        AT - STRIDE,
        AT - 1,
        AT,
        AT + 8,
        AT + STRIDE - 1,
        AT + STRIDE,
        AT + BYTES - STRIDE,
        AT + BYTES,
        AT | 1 << 32,
        AT | 1 << 63,
        u64::MAX,
    ] {
        openat2(how, STRUCTURE_BYTES);
    }
    for bytes in [0, 16, 32, STRUCTURE_BYTES | 1 << 32] {
        openat2(AT, bytes);
    }
}

#[test]
fn nothing_else_comes_to_where_constants_of_openat2_are() {
    use open_how::{AT, BYTES};
    let groups = Groups {
        guard_setuid: true,
        constant_open_how: true,
        ..Groups::default()
    };
    let fixed = libc::MREMAP_FIXED as u64;
    let high = AT + BYTES;
    for low in [1, 0x1000, 0xf_ffff, 0x10_0000, AT, high - 1] {
        for (call, arguments) in [
            (libc::SYS_mmap, vec![low, 4096]),
            (libc::SYS_munmap, vec![low, u64::MAX]),
            (libc::SYS_mprotect, vec![low, 4096, 3]),
            (libc::SYS_pkey_mprotect, vec![low, 4096, 3, 0]),
            (libc::SYS_mremap, vec![low, 4096, 8192, 0, 0]),
            (libc::SYS_mremap, vec![high, 4096, 8192, fixed, low]),
            (libc::SYS_shmat, vec![0, low, 0]),
        ] {
            exactly(groups, call, &arguments, libc::EPERM);
            exactly(Groups::default(), call, &arguments, 0);
        }
        // What is no address is not looked at.
        exactly(groups, libc::SYS_mremap, &[high, 4096, 8192, 1, low], 0);
    }
    for call in [libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap] {
        exactly(groups, call, &[0, 1 << 40], libc::EPERM);
        exactly(groups, call, &[high, 4096], 0);
        exactly(groups, call, &[1 << 32, 4096], 0);
    }
    // The kernel takes tags off some addresses.
    for tag in [1 << 56, 0xff << 56, 1 << 57, 0x3f << 57] {
        for call in [libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap] {
            exactly(groups, call, &[tag | AT, 4096], libc::EPERM);
            exactly(groups, call, &[tag | high, 4096], 0);
        }
    }
    exactly(groups, libc::SYS_mmap, &[0, 4096], 0);
    exactly(groups, libc::SYS_mmap, &[high, 4096], 0);
    for flag in [libc::MAP_FIXED, libc::MAP_FIXED_NOREPLACE] {
        let at_zero = [0, high, 3, flag as u64];
        exactly(groups, libc::SYS_mmap, &at_zero, libc::EPERM);
        exactly(Groups::default(), libc::SYS_mmap, &at_zero, 0);
    }
    exactly(groups, libc::SYS_shmat, &[0, 0, 0], 0);
    for call in [libc::SYS_ptrace, libc::SYS_process_vm_writev] {
        exactly(groups, call, &[], libc::EPERM);
    }
}

#[test]
fn device_nodes_are_refused() {
    for (kind, expected) in [
        (libc::S_IFBLK, libc::EPERM),
        (libc::S_IFCHR, libc::EPERM),
        (libc::S_IFIFO, 0),
        (libc::S_IFSOCK, 0),
        (libc::S_IFREG, 0),
        (0, 0),
    ] {
        let mode = u64::from(kind | 0o644);
        by_default(libc::SYS_mknod, &[0, mode], expected);
        by_default(libc::SYS_mknodat, &[0, 0, mode], expected);
    }
}

#[test]
fn process_options() {
    by_default(libc::SYS_prctl, &[libc::PR_SET_NAME as u64], 0);
    by_default(libc::SYS_prctl, &[libc::PR_SET_VMA as u64], 0);
    by_default(libc::SYS_prctl, &[libc::PR_SET_MM as u64], libc::EPERM);
    by_default(libc::SYS_prctl, &[libc::PR_SET_PTRACER as u64], libc::EPERM);
    by_default(libc::SYS_prctl, &[999], libc::EINVAL);
    by_default(libc::SYS_personality, &[0xffff_ffff], 0);
    by_default(libc::SYS_personality, &[0], 0);
    by_default(
        libc::SYS_personality,
        &[libc::READ_IMPLIES_EXEC as u64],
        libc::EPERM,
    );
    by_default(
        libc::SYS_personality,
        &[libc::ADDR_NO_RANDOMIZE as u64],
        libc::EPERM,
    );
    by_default(libc::SYS_seccomp, &[1, 0], 0);
    by_default(
        libc::SYS_seccomp,
        &[1, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | 1],
        libc::EBUSY,
    );
}

#[test]
fn foreign_processes_stay_untouched() {
    let visible = Groups {
        foreign_processes_visible: true,
        ..Groups::default()
    };
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_move_pages,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ] {
        with(visible, call, &[1], libc::EPERM);
        with(visible, call, &[0], 0);
        by_default(call, &[1], 0);
    }
    for (call, own) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        with(visible, call, &[own, 0], 0);
        with(visible, call, &[own, 1], libc::EPERM);
        with(visible, call, &[2, 0], libc::EPERM);
        by_default(call, &[2, 0], 0);
    }
}

#[test]
fn metadata_of_the_host_stays_as_it_is() {
    let visible = Groups {
        host_files_visible: true,
        ..Groups::default()
    };
    let (path, times) = (0x1000, 0x2000);
    for call in [
        libc::SYS_chmod,
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        syscalls::SYS_fchmodat2,
        libc::SYS_chown,
        libc::SYS_fchown,
        libc::SYS_lchown,
        libc::SYS_fchownat,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_futimesat,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        libc::SYS_getxattr,
        libc::SYS_listxattr,
    ] {
        with(visible, call, &[0, path, 0], libc::EPERM);
        by_default(call, &[0, path, 0], 0);
    }
    with(visible, libc::SYS_fgetxattr, &[0, path], 0);
    // The pointer of a path has all its bits: no garbage here.
    let decide_times = |path| {
        let filter = allow_list(&visible);
        decide(&filter, libc::SYS_utimensat, [0, path, times, 0, 0, 0])
    };
    assert_eq!(decide_times(0), ALLOW);
    assert_eq!(decide_times(1 << 32), EPERM);
}

/// `FS_IOC_SETFLAGS`, `FS_IOC_FSSETXATTR`, `FS_IOC_ENABLE_VERITY`, `FS_IOC_SET_ENCRYPTION_POLICY`,
/// `FS_IOC_ADD_ENCRYPTION_KEY`, `FIFREEZE`, `FITRIM`, `EXT4_IOC_MOVE_EXT`, `BTRFS_IOC_SUBVOL_CREATE`,
/// `BTRFS_IOC_SNAP_DESTROY_V2`, `F2FS_IOC_START_ATOMIC_WRITE`.
const CHANGES_OF_FILES: [u64; 11] = [
    0x4008_6602,
    0x401c_5820,
    0x4080_6685,
    0x800c_6613,
    0xc050_6617,
    0xc004_5877,
    0xc018_5879,
    0xc028_660f,
    0x5000_940e,
    0x5000_943f,
    0xf501,
];

#[test]
fn requests_that_change_files_are_not_made() {
    let of_terminals = [
        libc::TCGETS,
        libc::TIOCGWINSZ,
        libc::FIONREAD,
        libc::FIOCLEX,
    ];
    let devices = Groups {
        devices: true,
        ..Groups::default()
    };
    for request in CHANGES_OF_FILES {
        by_default(libc::SYS_ioctl, &[3, request], libc::ENOTTY);
        with(devices, libc::SYS_ioctl, &[3, request], libc::EPERM);
    }
    for request in of_terminals.into_iter().chain(FILE_REQUESTS) {
        by_default(libc::SYS_ioctl, &[3, request], 0);
        with(devices, libc::SYS_ioctl, &[3, request], 0);
    }
    const DRM_IOCTL_VERSION: u64 = 0xc040_6400;
    by_default(libc::SYS_ioctl, &[3, DRM_IOCTL_VERSION], libc::ENOTTY);
    with(devices, libc::SYS_ioctl, &[3, DRM_IOCTL_VERSION], 0);
    with(devices, libc::SYS_ioctl, &[3, libc::TIOCSTI], libc::EPERM);
}

#[test]
fn nobody_waits_for_a_guest_s_lease_or_is_watched() {
    let [lease, notify, delegation] = [1024, 1026, 1040];
    for command in [lease, notify, delegation] {
        by_default(libc::SYS_fcntl, &[3, command], libc::EPERM);
    }
    for command in [libc::F_SETLK, libc::F_DUPFD_CLOEXEC, libc::F_SETFL, 1025] {
        by_default(libc::SYS_fcntl, &[3, command as u64], 0);
    }
    let unwatched = Groups {
        no_watching: true,
        ..Groups::default()
    };
    with(unwatched, libc::SYS_inotify_add_watch, &[3], libc::EACCES);
    by_default(libc::SYS_inotify_add_watch, &[3], 0);
}

#[test]
fn services_of_the_host_are_not_asked() {
    let (local, internet) = (libc::AF_UNIX as u64, libc::AF_INET as u64);
    let visible = Groups {
        host_sockets_visible: true,
        ..Groups::default()
    };
    with(visible, libc::SYS_connect, &[3], libc::EACCES);
    by_default(libc::SYS_connect, &[3], 0);
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    for (kind, expected) in [
        (libc::SOCK_STREAM, 0),
        (libc::SOCK_SEQPACKET, 0),
        (libc::SOCK_DGRAM, libc::EACCES),
        (libc::SOCK_RAW, libc::EACCES),
    ] {
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            with(visible, call, &[local, (kind | flags) as u64, 0], expected);
            by_default(call, &[local, (kind | flags) as u64, 0], 0);
        }
    }
    let in_sight = Groups {
        host_sockets_in_sight: true,
        no_local_datagrams: true,
        ..Groups::default()
    };
    let filter = allow_list(&in_sight);
    assert_eq!(
        decide(&filter, libc::SYS_connect, [3; 6]),
        Action::Notify,
        "it is looked at"
    );
    with(in_sight, libc::SYS_bind, &[3], 0);
    for call in [libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_listen] {
        with(in_sight, call, &[3], 0);
    }
    let datagram = [local, libc::SOCK_DGRAM as u64, 0];
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        with(in_sight, call, &datagram, libc::EACCES);
        with(in_sight, call, &[local, libc::SOCK_STREAM as u64, 0], 0);
    }
    let nameless = Groups {
        no_named_sockets: true,
        ..Groups::default()
    };
    with(nameless, libc::SYS_bind, &[3], libc::EACCES);
    by_default(libc::SYS_bind, &[3], 0);
    let offline = Groups {
        no_network_sockets: true,
        ..Groups::default()
    };
    for request in [libc::SIOCGIFCONF, libc::SIOCGIFADDR, 0x89ff] {
        with(offline, libc::SYS_ioctl, &[0, request], libc::EACCES);
        by_default(libc::SYS_ioctl, &[0, request], 0);
    }
    by_default(libc::SYS_socket, &[internet, 1, 0], 0);
}

#[test]
fn groups_of_one_call() {
    let fixed = Groups {
        cpu_affinity_fixed: true,
        ..Groups::default()
    };
    with(fixed, libc::SYS_sched_setaffinity, &[0], libc::EPERM);
    let shared = Groups {
        host_ipc_visible: true,
        ..Groups::default()
    };
    with(shared, libc::SYS_shmget, &[], libc::EPERM);
    with(shared, libc::SYS_mq_open, &[], libc::EPERM);
    by_default(libc::SYS_shmget, &[0, 4096, libc::SHM_HUGETLB as u64], 0);
    let sized = Groups {
        no_space_behind_files: true,
        ..Groups::default()
    };
    // FALLOC_FL_KEEP_SIZE alone, with ZERO_RANGE, with PUNCH_HOLE; none.
    for (mode, errno) in [
        (1, libc::EOPNOTSUPP),
        (0x11, libc::EOPNOTSUPP),
        (3, 0),
        (0, 0),
    ] {
        with(sized, libc::SYS_fallocate, &[0, mode], errno);
        by_default(libc::SYS_fallocate, &[0, mode], 0);
    }
    let strict = Groups {
        no_executable_memfd: true,
        no_huge_pages: true,
        ..Groups::default()
    };
    with(
        strict,
        libc::SYS_memfd_create,
        &[0, libc::MFD_EXEC.into()],
        libc::EACCES,
    );
    with(
        strict,
        libc::SYS_memfd_create,
        &[0, libc::MFD_HUGETLB.into()],
        libc::ENOMEM,
    );
    with(
        strict,
        libc::SYS_memfd_create,
        &[0, libc::MFD_CLOEXEC.into()],
        0,
    );
    with(
        strict,
        libc::SYS_mmap,
        &[0, 0, 0, libc::MAP_HUGETLB as u64],
        libc::ENOMEM,
    );
    with(
        strict,
        libc::SYS_mmap,
        &[0, 0, 0, libc::MAP_PRIVATE as u64],
        0,
    );
    with(
        strict,
        libc::SYS_shmget,
        &[0, 0, libc::SHM_HUGETLB as u64],
        libc::ENOMEM,
    );
}

/// `clock_getcpuclockid(3)` of a process, of a thread of the caller's, and of a device.
#[test]
fn clocks_of_other_processes_are_not_read_where_they_are_visible() {
    let clock = |number: u32, kind: u32| u64::from(!number << 3 | kind);
    let bare = Groups {
        foreign_processes_visible: true,
        ..Groups::default()
    };
    for call in [
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
        libc::SYS_timer_create,
    ] {
        for kind in 0..=2 {
            for pid in [1, 77, (1 << 22) - 1] {
                with(bare, call, &[clock(pid, kind)], libc::EINVAL);
                // The kernel reads no more than 32 bits.
                with(bare, call, &[clock(pid, kind) | 1 << 32], libc::EINVAL);
                with(bare, call, &[clock(pid, kind | 4)], 0);
                by_default(call, &[clock(pid, kind)], 0);
            }
            with(bare, call, &[clock(0, kind)], 0);
        }
        with(bare, call, &[clock(5, 3)], 0);
        for plain in 0..=11 {
            with(bare, call, &[plain], 0);
        }
    }
}

/// Chromium asks with all bits set and ends itself at any other answer.
#[test]
fn invalid_flags_of_memory_files_are_invalid_under_every_rule() {
    let both = u64::from(libc::MFD_EXEC | libc::MFD_NOEXEC_SEAL);
    let size_of_small = 21 << 26;
    let rules: [fn(&mut Groups); 3] = [
        |groups| groups.no_executable_memfd = true,
        |groups| groups.memfd_must_be_sealed = true,
        |groups| groups.no_huge_pages = true,
    ];
    for rule in rules {
        let mut groups = Groups::default();
        rule(&mut groups);
        for flags in [0xffff_ffff, 0x20, 0x0200_0000, both, size_of_small] {
            with(groups, libc::SYS_memfd_create, &[0, flags], libc::EINVAL);
        }
    }
    let large = u64::from(libc::MFD_HUGETLB) | size_of_small;
    let sealed = u64::from(libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL);
    let groups = Groups {
        no_executable_memfd: true,
        memfd_must_be_sealed: true,
        ..Groups::default()
    };
    with(groups, libc::SYS_memfd_create, &[0, sealed | large], 0);
    with(groups, libc::SYS_memfd_create, &[0, sealed], 0);
    with(groups, libc::SYS_memfd_create, &[0, large], libc::EACCES);
}

#[test]
fn dangerous_calls_are_refused() {
    for call in [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_pidfd_getfd,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_mount,
        libc::SYS_open_by_handle_at,
        libc::SYS_init_module,
        libc::SYS_reboot,
        libc::SYS_settimeofday,
    ] {
        by_default(call, &[], libc::EPERM);
    }
    for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, 600] {
        by_default(call, &[], libc::ENOSYS);
    }
}

#[test]
fn an_empty_filter_is_an_error() {
    assert_eq!(compile(&Filter::new(ALLOW)), Err(CompileError::Empty));
}

fn one_rule(rule: impl Into<Rule>) -> Filter {
    let mut filter = Filter::new(ENOSYS);
    filter.set(7, rule);
    filter
}

#[test]
fn slips_of_the_pen_are_errors() {
    let no_errno = compile(&one_rule(Action::Errno(4096)));
    assert_eq!(no_errno, Err(CompileError::Errno { errno: 4096 }));
    let mut foreign = one_rule(ALLOW);
    foreign.set(0x4000_0000, ALLOW);
    let number = 0x4000_0000;
    assert_eq!(compile(&foreign), Err(CompileError::Number { number }));
    let seventh = one_rule(Check::otherwise(ALLOW).when([int(6).is(0)], EPERM));
    let (number, argument) = (7, 6);
    assert_eq!(
        compile(&seventh),
        Err(CompileError::Argument { number, argument })
    );
    for test in [
        int(0).is(1 << 32),
        int(0).has_any(0),
        long(0).has_any(0),
        int(0).masked(0xf, 0x10),
        int(0).one_of([]),
        int(0).one_of([1, 1 << 40]),
    ] {
        let never = one_rule(Check::otherwise(ALLOW).when([test.clone()], EPERM));
        assert_eq!(
            compile(&never),
            Err(CompileError::NeverHolds { number, test })
        );
    }
}

#[test]
fn a_filter_too_long_for_the_kernel_is_an_error() {
    let mut filter = Filter::new(ENOSYS);
    for number in 0..4200 {
        filter.set(number, Action::Errno(1 + number as u16 % 2));
    }
    let Err(CompileError::TooLong { instructions }) = compile(&filter) else {
        panic!("compiled");
    };
    assert!(instructions > 4096);
}

#[test]
fn distances_beyond_eight_bits_go_over_a_jump() {
    let values: Vec<u64> = (0..300).map(|value| value * 3).collect();
    let check = Check::otherwise(EPERM)
        .when([int(1).is(5), long(0).one_of(values.clone())], ALLOW)
        .when([int(1).is(6), int(2).one_of(values)], Action::Errno(9));
    let mut filter = one_rule(check);
    filter.set(3, ALLOW);
    filter.set(900, EPERM);
    let program = compile(&filter).unwrap();
    machine::check(&program);
    for argument in 0..910 {
        for second in [5, 6] {
            let arguments = [argument, second, argument, 0, 0, 0];
            for number in [3, 7, 8, 900] {
                let verdict = machine::run(&program, &native(number, arguments));
                assert_eq!(verdict.action, filter.decide(number, &arguments));
            }
        }
    }
}

/// A small deterministic generator (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Small values and their like in the upper half, so that tests are often met.
    fn word(&mut self) -> u64 {
        self.below(4) | self.below(3) << 32
    }

    fn action(&mut self) -> Action {
        [ALLOW, EPERM, ENOSYS, Action::Kill][self.below(4) as usize]
    }

    fn test(&mut self) -> Test {
        let index = self.below(6) as u8;
        let (argument, cut) = match self.below(2) {
            0 => (int(index), 0xffff_ffff),
            _ => (long(index), u64::MAX),
        };
        let (first, second) = (self.word() & cut, self.word() & cut);
        match self.below(4) {
            0 => argument.is(first),
            1 => argument.masked(first, first & second),
            2 => argument.has_any(first.max(1)),
            _ => argument.one_of([first, second]),
        }
    }

    fn check(&mut self) -> Check {
        (0..self.below(4)).fold(Check::otherwise(self.action()), |check, _| {
            let tests: Vec<Test> = (0..self.below(4)).map(|_| self.test()).collect();
            let action = self.action();
            check.when(tests, action)
        })
    }

    fn filter(&mut self) -> Filter {
        let mut filter = Filter::new(self.action());
        for _ in 0..=self.below(40) {
            let number = self.below(60) as u32;
            match self.below(2) {
                0 => filter.set(number, self.action()),
                _ => filter.set(number, self.check()),
            }
        }
        filter
    }
}

#[test]
fn random_filters_compile_to_their_meaning() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..300 {
        let filter = random.filter();
        let program = compile(&filter).unwrap();
        machine::check(&program);
        for _ in 0..300 {
            let number = random.below(64) as u32;
            let arguments = [(); 6].map(|()| random.word());
            let verdict = machine::run(&program, &native(number, arguments));
            assert_eq!(
                verdict.action,
                filter.decide(number, &arguments),
                "{filter:?}"
            );
        }
    }
}

/// A call that is told of is one that is allowed without that: telling opens nothing, and closes nothing.
#[test]
fn what_is_told_of_is_what_would_be_allowed() {
    let told = [
        (libc::SYS_execve, [0; 6]),
        (libc::SYS_execveat, [0; 6]),
        (libc::SYS_connect, [3, 0, 16, 0, 0, 0]),
        (libc::SYS_connect, [3, 0, 28, 0, 0, 0]),
        (libc::SYS_sendto, [3, 0, 9, 0, 1, 16]),
        (libc::SYS_sendmmsg, [3, 0, 2, 0, 0, 0]),
    ];
    for mut groups in all_groups() {
        let mut decided = |observed| {
            groups.observed = observed;
            let filter = allow_list(&groups);
            told.map(|(number, arguments)| decide(&filter, number, arguments))
        };
        for (before, after) in decided(false).into_iter().zip(decided(true)) {
            let is_told = before == ALLOW && after == Action::Look;
            assert!(
                is_told || before == after,
                "{before:?} {after:?} {groups:?}"
            );
        }
    }
    let filter = allow_list(&Groups {
        observed: true,
        ..Groups::default()
    });
    for (number, arguments) in told {
        assert_eq!(decide(&filter, number, arguments), Action::Look, "{number}");
    }
    let own = [0, 0, 0, crate::wire::OWN_CALL, 0, 0];
    let open_file = [3, 0, 0, 0, libc::AT_EMPTY_PATH as u64, 0];
    for (number, arguments) in [
        (libc::SYS_execve, own),
        (libc::SYS_execveat, open_file),
        (libc::SYS_connect, [3, 0, 110, 0, 0, 0]),
        (libc::SYS_sendto, [3, 0, 9, 0, 0, 0]),
        (libc::SYS_sendmsg, [3, 0, 0, 0, 0, 0]),
    ] {
        assert_eq!(decide(&filter, number, arguments), ALLOW, "{number}");
    }
}

/// The same of files that are watched, whatever the arguments; and nothing else is told of.
#[test]
fn what_is_watched_is_what_would_be_allowed() {
    for groups in all_groups() {
        let [before, after] =
            [false, true].map(|watched| allow_list(&Groups { watched, ..groups }));
        for number in 0..480 {
            let names_files = file_calls::find(number.into()).is_some();
            for arguments in arguments() {
                let [before, after] =
                    [&before, &after].map(|filter| filter.decide(number, &arguments));
                let is_told = names_files && before == ALLOW && after == Action::Look;
                let is_ring = i64::from(number) == libc::SYS_io_uring_setup;
                let is_refused_aloud = is_ring && before == ENOSYS && after == Action::Absent;
                assert!(
                    is_told || is_refused_aloud || before == after,
                    "{number} {arguments:?} {groups:?}"
                );
            }
        }
    }
    let watched = Groups {
        watched: true,
        observed: true,
        ..Groups::default()
    };
    let filter = allow_list(&watched);
    for call in file_calls::all() {
        let action = decide(&filter, call.number, [0; 6]);
        assert_eq!(action, Action::Look, "{}", call.name);
    }
    let empty = libc::AT_EMPTY_PATH as u64;
    for (number, arguments) in [
        (libc::SYS_newfstatat, [3, 0, 0, empty, 0, 0]),
        (libc::SYS_statx, [3, 0, empty, 0, 0, 0]),
        (libc::SYS_chdir, [0, 0, 0, crate::wire::OWN_CALL, 0, 0]),
        (libc::SYS_read, [0; 6]),
    ] {
        assert_eq!(decide(&filter, number, arguments), ALLOW, "{number}");
    }
}

/// Whatever the kernel would have come to with two, one comes to.
#[test]
fn two_filters_come_to_the_stricter_of_both() {
    let mut engines = Filter::new(Action::Errno(38));
    for number in 0..300 {
        engines.set(number, Action::Allow);
    }
    engines.set(
        libc::SYS_personality as u32,
        Check::otherwise(Action::Kill).when([long(0).is(0)], Action::Allow),
    );
    let namespaces =
        Check::otherwise(Action::Allow).when([int(0).has_any(NEW_NAMESPACES)], Action::Errno(95));
    engines.set(
        libc::SYS_clone as u32,
        namespaces.when([int(0).is(17)], Action::Kill),
    );
    let filters = [
        container(0, None),
        container(u64::MAX, None),
        allow_list(&Groups::default()),
        engines,
    ];
    let values = [
        0,
        1,
        17,
        0x38,
        libc::CLONE_NEWUSER as u64,
        0x5412,
        u64::MAX,
        1 << 32,
    ];
    for (newer, older) in filters
        .iter()
        .flat_map(|newer| filters.iter().map(move |older| (newer, older)))
    {
        let both = newer.and(older);
        let program = compile(&both).expect("a filter");
        for number in 0..470 {
            for (first, second) in values
                .iter()
                .flat_map(|first| values.map(|second| (*first, second)))
            {
                let arguments = [first, second, 0, 0, 0, 0];
                let (ours, theirs) = (
                    newer.decide(number, &arguments),
                    older.decide(number, &arguments),
                );
                let expected = if theirs.leniency() < ours.leniency() {
                    theirs
                } else {
                    ours
                };
                assert_eq!(
                    both.decide(number, &arguments),
                    expected,
                    "{number} {arguments:x?}"
                );
                let call = native(number, arguments);
                assert_eq!(
                    machine::run(&program, &call).action,
                    expected,
                    "{number} {arguments:x?}"
                );
            }
        }
    }
}
