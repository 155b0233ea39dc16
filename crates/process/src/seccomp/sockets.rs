//! Which sockets a guest may make, and which calls on them the supervisor answers.

use serde::{Deserialize, Serialize};

use super::{
    allow_list::{ALLOW, EACCES, Groups, set},
    filter::{Action, Check, Filter, Rule, Test, int, long},
};

const NOTIFY: Action = Action::Notify;
const LOOK: Action = Action::Look;
const EAFNOSUPPORT: Action = Action::Errno(libc::EAFNOSUPPORT as u16);
const ENOPROTOOPT: Action = Action::Errno(libc::ENOPROTOOPT as u16);
const EOPNOTSUPP: Action = Action::Errno(libc::EOPNOTSUPP as u16);
const EPROTONOSUPPORT: Action = Action::Errno(libc::EPROTONOSUPPORT as u16);

/// Which sockets of the guest's lie in the host's network, and what the supervisor must see of them.
///
/// A guest without network grants has it too where another one could pass such a socket to it: with
/// neither TCP nor UDP of its own, and every address refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNetwork {
    /// TCP sockets do.
    pub tcp: bool,
    /// UDP sockets do.
    pub udp: bool,
    /// The supervisor makes them and answers `connect`, `bind` and `listen`. Otherwise they are only
    /// passed in ready-made.
    pub brokered: bool,
    /// There is a place to listen at.
    pub listens: bool,
    /// `sendto` with an address is the supervisor's to answer. Not so where UDP sockets may only listen:
    /// whom they answer is not restricted.
    pub sends: bool,
    /// `sendmsg` and `sendmmsg` are: their addresses, and source routes, lie behind a pointer, and so do
    /// the sockets that they pass on. Needed where UDP sockets may send to some addresses and not to others.
    pub messages: bool,
}

pub(super) fn decide(filter: &mut Filter, groups: &Groups) {
    set(filter, libc::SYS_socket, socket(groups));
    set(filter, libc::SYS_socketpair, socketpair(groups));
    let network = groups.host_network.unwrap_or_default();
    let answered = |by_supervisor: bool, refused: bool| match refused {
        _ if by_supervisor => NOTIFY,
        true => EACCES,
        false => ALLOW,
    };
    // Nobody looks: one that was accepted could be connected to nothing, and listen anew elsewhere.
    let is_passed_in = network.tcp || network.udp;
    let (connect, bind) = (
        groups.host_sockets_visible || is_passed_in,
        groups.no_named_sockets,
    );
    let connects = network.brokered || groups.host_sockets_in_sight;
    let is_told = groups.observed && answered(connects, connect) == ALLOW;
    let connect = Check::otherwise(answered(connects, connect));
    set(
        filter,
        libc::SYS_connect,
        connect.when_if(is_told, [internet_address(2)], LOOK),
    );
    let bind = match answered(network.brokered, bind) {
        ALLOW if groups.special_files_ruled => Action::Ruled,
        action => action,
    };
    set(filter, libc::SYS_bind, bind);
    set(filter, libc::SYS_listen, answered(network.brokered, false));
    set(filter, libc::SYS_sendto, sendto(groups));
    set(
        filter,
        libc::SYS_sendmsg,
        send_message(groups, 2, if network.messages { NOTIFY } else { ALLOW }),
    );
    // With it the C library asks for names. Servers over UDP send with it what nobody need look at.
    let has_listener = groups.host_network.is_none() || network.brokered;
    let is_told = groups.observed && has_listener && !network.udp;
    let many = match (network.messages, is_told) {
        (true, _) => NOTIFY,
        (false, true) => LOOK,
        (false, false) => ALLOW,
    };
    set(filter, libc::SYS_sendmmsg, send_message(groups, 3, many));
    set(filter, libc::SYS_setsockopt, setsockopt(groups));
}

/// In a container that has grants in place of a network: all sockets of its own network are its own affair, those for TCP and UDP
/// are the host's as far as the supervisor makes them. Calls on addresses are decided there, whatever the socket.
pub(super) fn decide_in_container(filter: &mut Filter, network: HostNetwork) {
    let groups = Groups {
        host_network: Some(network),
        // What it asks of its own routes it may.
        netlink_route: true,
        ..Groups::default()
    };
    for call in [libc::SYS_connect, libc::SYS_bind, libc::SYS_listen] {
        set(filter, call, NOTIFY);
    }
    set(filter, libc::SYS_sendto, sendto(&groups));
    let messages = if network.messages { NOTIFY } else { ALLOW };
    set(
        filter,
        libc::SYS_sendmsg,
        send_message(&groups, 2, messages),
    );
    set(
        filter,
        libc::SYS_sendmmsg,
        send_message(&groups, 3, messages),
    );
    set(filter, libc::SYS_setsockopt, setsockopt(&groups));
}

/// Which of a container's sockets are the host's.
pub(super) fn socket_in_container(network: HostNetwork) -> Vec<(Vec<Test>, Action)> {
    let of = |kind, protocols| vec![internet(), socket_type(kind), protocol(protocols)];
    let tcp = of(libc::SOCK_STREAM, [libc::IPPROTO_IP, libc::IPPROTO_TCP]);
    let udp = of(libc::SOCK_DGRAM, [libc::IPPROTO_IP, libc::IPPROTO_UDP]);
    let cases = [(network.tcp, tcp), (network.udp, udp)];
    let of_hosts = cases.into_iter().filter(|(is_hosts, _)| *is_hosts);
    of_hosts.map(|(_, tests)| (tests, NOTIFY)).collect()
}

/// Local sockets of every kind; internet sockets for TCP and UDP only, so that neither MPTCP, SCTP
/// nor UDP-Lite walk round a rule about TCP and UDP, nor raw and ping sockets.
fn socket(groups: &Groups) -> Check {
    let family = |family: libc::c_int| int(0).is(family as u64);
    let route = [family(libc::AF_NETLINK), protocol([libc::NETLINK_ROUTE])];
    let tcp = [
        internet(),
        socket_type(libc::SOCK_STREAM),
        protocol([libc::IPPROTO_IP, libc::IPPROTO_TCP]),
    ];
    let udp = [
        internet(),
        socket_type(libc::SOCK_DGRAM),
        protocol([libc::IPPROTO_IP, libc::IPPROTO_UDP]),
    ];
    let network = groups.host_network.unwrap_or_default();
    Check::otherwise(EAFNOSUPPORT)
        .when_if(
            groups.host_sockets_visible || groups.no_local_datagrams,
            [family(libc::AF_UNIX), unconnected()],
            EACCES,
        )
        .when([family(libc::AF_UNIX)], ALLOW)
        .when_if(groups.netlink_route, route, ALLOW)
        .when_if(network.brokered && network.tcp, tcp.clone(), NOTIFY)
        .when_if(network.brokered && network.udp, udp.clone(), NOTIFY)
        .when_if(groups.no_network_sockets, [internet()], EACCES)
        .when(tcp, ALLOW)
        .when(udp, ALLOW)
        .when([internet()], EPROTONOSUPPORT)
}

fn internet() -> Test {
    int(0).one_of([libc::AF_INET as u64, libc::AF_INET6 as u64])
}

/// The kernel's `SOCK_TYPE_MASK`; flags such as `SOCK_CLOEXEC` stand above it.
fn socket_type(socket_type: libc::c_int) -> Test {
    int(1).masked(0xf, socket_type as u64)
}

fn protocol<const N: usize>(protocols: [libc::c_int; N]) -> Test {
    int(2).one_of(protocols.map(|protocol| protocol as u64))
}

fn socketpair(groups: &Groups) -> Check {
    let local = int(0).is(libc::AF_UNIX as u64);
    Check::otherwise(EAFNOSUPPORT)
        .when_if(
            groups.host_sockets_visible || groups.no_local_datagrams,
            [local.clone(), unconnected()],
            EACCES,
        )
        .when([local], ALLOW)
}

/// `SOCK_DGRAM` (2) and `SOCK_RAW` (3), which is the same among local sockets (`unix_create`): even
/// one of a pair can send to any name.
fn unconnected() -> Test {
    int(1).masked(0xe, 2)
}

/// The address is the fifth argument. With TCP Fast Open data goes to it without `connect`: on whatever
/// TCP socket there is, also one of another guest's.
fn sendto(groups: &Groups) -> Check {
    let network = groups.host_network.unwrap_or_default();
    let is_told = groups.observed && groups.host_network.is_none();
    Check::otherwise(if network.sends { NOTIFY } else { ALLOW })
        .when_if(groups.host_network.is_some(), [fast_open(3)], EOPNOTSUPP)
        .when_if(network.sends, [long(4).is(0)], ALLOW)
        .when_if(is_told, [internet_address(5)], LOOK)
}

/// The length of an address of version 4 or 6. Few local sockets have names of just these.
fn internet_address(length: u8) -> Test {
    int(length).one_of([
        size_of::<libc::sockaddr_in>() as u64,
        size_of::<libc::sockaddr_in6>() as u64,
    ])
}

fn send_message(groups: &Groups, flags: u8, otherwise: Action) -> Rule {
    Check::otherwise(otherwise)
        .when_if(
            groups.host_network.is_some(),
            [fast_open(flags)],
            EOPNOTSUPP,
        )
        .into()
}

/// Programs then connect first, as where the host has Fast Open switched off.
fn fast_open(flags: u8) -> Test {
    int(flags).has_any(libc::MSG_FASTOPEN as u64)
}

/// What programs ask of their sockets. Everything else is refused as by a kernel without it: most of it
/// concerns the whole host or other hosts (source routes, groups, interfaces, marks, filters, repair), and
/// runtimes go on without an option that is unknown, but not always without one that is forbidden (the JVM
/// and `IP_MULTICAST_ALL`).
///
/// Not here, though programs ask for it: `SO_BINDTODEVICE`, `IP_MULTICAST_IF`, `IPV6_PKTINFO` and their
/// like choose the link; `IP_FREEBIND` takes addresses that are not the host's; `TCP_FASTOPEN_CONNECT` puts
/// the connection off past the verdict.
const OPTIONS: [(libc::c_int, &[libc::c_int]); 5] = [
    (
        libc::SOL_SOCKET,
        &[
            libc::SO_REUSEADDR,
            libc::SO_KEEPALIVE,
            libc::SO_BROADCAST,
            libc::SO_SNDBUF,
            libc::SO_RCVBUF,
            libc::SO_OOBINLINE,
            libc::SO_PASSCRED,
            libc::SO_PASSSEC,
            SO_PASSPIDFD,
            SO_PASSRIGHTS,
            libc::SO_RCVLOWAT,
            libc::SO_RCVTIMEO,
            libc::SO_SNDTIMEO,
            SO_RCVTIMEO_NEW,
            SO_SNDTIMEO_NEW,
            libc::SO_TIMESTAMP,
            libc::SO_TIMESTAMPNS,
            SO_TIMESTAMP_NEW,
            SO_TIMESTAMPNS_NEW,
            libc::SO_RXQ_OVFL,
            libc::SO_PEEK_OFF,
            libc::SO_MAX_PACING_RATE,
            libc::SO_ZEROCOPY,
        ],
    ),
    (
        libc::IPPROTO_IP,
        &[
            libc::IP_TOS,
            libc::IP_TTL,
            libc::IP_PKTINFO,
            libc::IP_MTU_DISCOVER,
            libc::IP_RECVERR,
            libc::IP_RECVTTL,
            libc::IP_RECVTOS,
            libc::IP_BIND_ADDRESS_NO_PORT,
            libc::IP_MULTICAST_TTL,
            libc::IP_MULTICAST_LOOP,
            IP_MULTICAST_ALL,
        ],
    ),
    (
        libc::IPPROTO_TCP,
        &[
            libc::TCP_NODELAY,
            libc::TCP_MAXSEG,
            libc::TCP_CORK,
            libc::TCP_KEEPIDLE,
            libc::TCP_KEEPINTVL,
            libc::TCP_KEEPCNT,
            libc::TCP_SYNCNT,
            libc::TCP_LINGER2,
            libc::TCP_DEFER_ACCEPT,
            libc::TCP_WINDOW_CLAMP,
            libc::TCP_QUICKACK,
            libc::TCP_CONGESTION,
            libc::TCP_THIN_LINEAR_TIMEOUTS,
            libc::TCP_THIN_DUPACK,
            libc::TCP_USER_TIMEOUT,
            libc::TCP_NOTSENT_LOWAT,
            TCP_INQ,
        ],
    ),
    (
        libc::IPPROTO_UDP,
        &[libc::UDP_CORK, libc::UDP_SEGMENT, libc::UDP_GRO],
    ),
    (
        libc::IPPROTO_IPV6,
        &[
            libc::IPV6_V6ONLY,
            libc::IPV6_UNICAST_HOPS,
            libc::IPV6_MULTICAST_HOPS,
            libc::IPV6_MULTICAST_LOOP,
            IPV6_MULTICAST_ALL,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_RECVERR,
            libc::IPV6_RECVPKTINFO,
            libc::IPV6_RECVHOPLIMIT,
            libc::IPV6_RECVTCLASS,
            libc::IPV6_TCLASS,
            libc::IPV6_DONTFRAG,
        ],
    ),
];
/// asm-generic/socket.h.
const SO_TIMESTAMP_NEW: libc::c_int = 63;
const SO_TIMESTAMPNS_NEW: libc::c_int = 64;
const SO_RCVTIMEO_NEW: libc::c_int = 66;
const SO_SNDTIMEO_NEW: libc::c_int = 67;
const SO_PASSPIDFD: libc::c_int = 76;
const SO_PASSRIGHTS: libc::c_int = 83;
/// linux/in.h and linux/in6.h.
const IP_MULTICAST_ALL: libc::c_int = 49;
const IPV6_MULTICAST_ALL: libc::c_int = 29;
/// linux/tcp.h.
const TCP_INQ: libc::c_int = 36;

/// By level and name, whatever the socket is: both are registers, and a name means nothing on a socket of
/// another protocol. Where no socket of the host's can come, the domain's own are its own affair.
fn setsockopt(groups: &Groups) -> Check {
    let Some(network) = groups.host_network else {
        return Check::otherwise(ALLOW);
    };
    let level = |level: libc::c_int| int(1).is(level as u64);
    let linger = [level(libc::SOL_SOCKET), int(2).is(libc::SO_LINGER as u64)];
    let answer = if network.brokered { NOTIFY } else { ALLOW };
    let check = Check::otherwise(ENOPROTOOPT)
        .when(linger, answer)
        // All sockets are the supervisor's user's: a group of ports is nobody's to join who does not
        // listen.
        .when_if(
            network.listens,
            [
                level(libc::SOL_SOCKET),
                int(2).is(libc::SO_REUSEPORT as u64),
            ],
            ALLOW,
        )
        .when_if(groups.netlink_route, [level(libc::SOL_NETLINK)], ALLOW);
    OPTIONS.iter().fold(check, |check, (protocol, options)| {
        let options: Vec<_> = options.iter().map(|option| *option as u64).collect();
        check.when([level(*protocol), int(2).one_of(options)], ALLOW)
    })
}

/// Requests that concern one socket only: `FIOSETOWN`, `SIOCSPGRP`, `FIOGETOWN`, `SIOCGPGRP`,
/// `SIOCATMARK`, the time of the last packet (asm-generic/sockios.h), `SIOCOUTQNSD`.
pub(super) fn own_request() -> Test {
    int(1).one_of([
        0x8901, 0x8902, 0x8903, 0x8904, 0x8905, 0x8906, 0x8907, 0x894b,
    ])
}

/// `SIOCGIFCONF` and its like, and those of wireless interfaces (linux/wireless.h): any socket will
/// do to ask for interfaces (netdevice(7)).
pub(super) fn interface_request() -> Test {
    int(1).masked(0xfd00, 0x8900)
}
