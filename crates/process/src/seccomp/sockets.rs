//! Which sockets a guest may make, and which calls on them the supervisor answers.

use serde::Serialize;

use super::{
    allow_list::{ALLOW, EACCES, EPERM, Groups, set},
    filter::{Action, Check, Filter, Rule, Test, int, long},
};

const NOTIFY: Action = Action::Notify;
const EAFNOSUPPORT: Action = Action::Errno(libc::EAFNOSUPPORT as u16);
const ENOENT: Action = Action::Errno(libc::ENOENT as u16);
const EOPNOTSUPP: Action = Action::Errno(libc::EOPNOTSUPP as u16);
const EPROTONOSUPPORT: Action = Action::Errno(libc::EPROTONOSUPPORT as u16);

/// Which sockets of the guest's lie in the host's network, and what the supervisor must see of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// `sendmsg` and `sendmmsg` are: their addresses, and source routes, lie behind a pointer. Needed
    /// where UDP sockets may send to some addresses and not to others.
    pub messages: bool,
}

pub(super) fn decide(filter: &mut Filter, groups: &Groups) {
    set(filter, libc::SYS_socket, socket(groups));
    set(filter, libc::SYS_socketpair, socketpair(groups));
    let network = groups.host_network.unwrap_or_default();
    let answered = |refused: bool| match refused {
        _ if network.brokered => NOTIFY,
        true => EACCES,
        false => ALLOW,
    };
    // Nobody looks: one that was accepted could be connected to nothing, and listen anew elsewhere.
    let is_passed_in = network.tcp || network.udp;
    let (connect, bind) = (
        groups.host_sockets_visible || is_passed_in,
        groups.no_named_sockets,
    );
    set(filter, libc::SYS_connect, answered(connect));
    set(filter, libc::SYS_bind, answered(bind));
    set(filter, libc::SYS_listen, answered(false));
    set(filter, libc::SYS_sendto, sendto(network));
    set(filter, libc::SYS_sendmsg, send_message(network, 2));
    set(filter, libc::SYS_sendmmsg, send_message(network, 3));
    set(filter, libc::SYS_setsockopt, setsockopt(network));
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
            groups.host_sockets_visible,
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
            groups.host_sockets_visible,
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

/// The address is the fifth argument. With TCP Fast Open data goes to it without `connect`.
fn sendto(network: HostNetwork) -> Check {
    Check::otherwise(if network.sends { NOTIFY } else { ALLOW })
        .when_if(network.tcp, [fast_open(3)], EOPNOTSUPP)
        .when_if(network.sends, [long(4).is(0)], ALLOW)
}

fn send_message(network: HostNetwork, flags: u8) -> Rule {
    Check::otherwise(if network.messages { NOTIFY } else { ALLOW })
        .when_if(network.tcp, [fast_open(flags)], EOPNOTSUPP)
        .into()
}

/// Programs then connect first, as where the host has Fast Open switched off.
fn fast_open(flags: u8) -> Test {
    int(flags).has_any(libc::MSG_FASTOPEN as u64)
}

/// Options that send packets elsewhere than to the address that was checked: source routes
/// (`ip_options_get`, `ip6_update_dst`) and flow labels that carry them; that tell the network of
/// groups the guest names (IGMP, MLD); and those that choose an interface, or the port that the kernel
/// picks.
const REROUTING: [(libc::c_int, &[libc::c_int]); 3] = [
    (
        libc::SOL_SOCKET,
        &[libc::SO_BINDTODEVICE, SO_BINDTOIFINDEX, libc::SO_DONTROUTE],
    ),
    (
        libc::IPPROTO_IP,
        &[
            libc::IP_OPTIONS,
            libc::IP_ADD_MEMBERSHIP,
            libc::IP_ADD_SOURCE_MEMBERSHIP,
            MCAST_JOIN_GROUP,
            MCAST_JOIN_SOURCE_GROUP,
            IP_UNICAST_IF,
            IP_LOCAL_PORT_RANGE,
        ],
    ),
    (
        libc::IPPROTO_IPV6,
        &[
            libc::IPV6_RTHDR,
            libc::IPV6_RTHDRDSTOPTS,
            libc::IPV6_HOPOPTS,
            libc::IPV6_DSTOPTS,
            IPV6_2292PKTOPTIONS,
            IPV6_FLOWLABEL_MGR,
            IPV6_UNICAST_IF,
            libc::IPV6_ADD_MEMBERSHIP,
            libc::IPV6_JOIN_ANYCAST,
            MCAST_JOIN_GROUP,
            MCAST_JOIN_SOURCE_GROUP,
        ],
    ),
];
/// asm-generic/socket.h.
const SO_BINDTOIFINDEX: libc::c_int = 62;
/// linux/in.h.
const MCAST_JOIN_GROUP: libc::c_int = 42;
const MCAST_JOIN_SOURCE_GROUP: libc::c_int = 46;
const IP_UNICAST_IF: libc::c_int = 50;
const IP_LOCAL_PORT_RANGE: libc::c_int = 51;
/// linux/in6.h.
const IPV6_UNICAST_IF: libc::c_int = 76;
const IPV6_2292PKTOPTIONS: libc::c_int = 6;
const IPV6_FLOWLABEL_MGR: libc::c_int = 32;
/// linux/tcp.h: makes an SMC socket of a TCP socket, or takes its data for IPsec's.
const TCP_ULP: libc::c_int = 31;
/// linux/udp.h: takes datagrams for IPsec's or L2TP's.
const UDP_ENCAP: libc::c_int = 100;

fn setsockopt(network: HostNetwork) -> Check {
    let any = network.tcp || network.udp;
    let level = |level: libc::c_int| int(1).is(level as u64);
    let mut check = Check::otherwise(ALLOW);
    for (protocol, options) in REROUTING {
        let options: Vec<_> = options.iter().map(|option| *option as u64).collect();
        check = check.when_if(any, [level(protocol), int(2).one_of(options)], EPERM);
    }
    let option = |option: libc::c_int| int(2).is(option as u64);
    let of_group = int(2).one_of([
        libc::SO_REUSEPORT as u64,
        libc::SO_ATTACH_REUSEPORT_CBPF as u64,
        libc::SO_ATTACH_REUSEPORT_EBPF as u64,
    ]);
    check
        // All sockets are the supervisor's user's: a group of ports is nobody's to join who does not listen.
        .when_if(
            any && !network.listens,
            [level(libc::SOL_SOCKET), of_group],
            EPERM,
        )
        .when_if(
            network.brokered,
            [level(libc::SOL_SOCKET), option(libc::SO_LINGER)],
            NOTIFY,
        )
        .when_if(
            network.tcp,
            [level(libc::IPPROTO_TCP), option(TCP_ULP)],
            ENOENT,
        )
        .when_if(
            network.udp,
            [level(libc::IPPROTO_UDP), option(UDP_ENCAP)],
            EPERM,
        )
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
