//! What a grant opens, in words.

use crate::denial::CREDENTIALS;
use palisade_network::address::is_metadata;
use palisade_policy::{
    Access, ConnectGrant, FileGrant, HostPattern, IpNetwork, ListenAddress, ListenGrant, Ports,
    Transport, UnixGrant, visible,
};
use std::path::Path;

/// What a flag opens with this value; `None` for another flag.
pub(in crate::commands) fn describe(grant: &str) -> Option<String> {
    match grant.split_once(' ')? {
        ("--connect", text) => Some(describe_connect(&text.parse().ok()?)),
        ("--listen", text) => Some(describe_listen(&text.parse().ok()?)),
        ("--read", text) => Some(format!("{} to be read and executed", on_host(text)?)),
        ("--write", text) => Some(format!(
            "{} to be changed: what the guest leaves there others may trust",
            on_host(text)?
        )),
        ("--exec", path) => Some(format!(
            "what lies below {} to be executed: programs that the guest wrote or fetched there, too",
            visible(path)
        )),
        _ => None,
    }
}

fn on_host(text: &str) -> Option<String> {
    let grant = FileGrant::parse(Access::Read, text, Path::new("/")).ok()?;
    Some(visible(&grant.host.to_string_lossy()).into_owned())
}

fn describe_connect(grant: &ConnectGrant) -> String {
    match grant {
        ConnectGrant::Unix(socket) => describe_socket(socket),
        ConnectGrant::Public { ports } => format!(
            "{} and {} of every public address",
            name_ports(Transport::Tcp, *ports),
            name_ports(Transport::Udp, *ports)
        ),
        ConnectGrant::Internet {
            transport,
            host,
            ports,
        } => format!(
            "{} of {}",
            name_ports(*transport, *ports),
            describe_host(host)
        ),
    }
}

fn describe_socket(socket: &UnixGrant) -> String {
    let path = socket.host.to_string_lossy();
    format!(
        "the socket {} and all that the service behind it does for who connects",
        visible(&path)
    )
}

fn name_ports(transport: Transport, ports: Ports) -> String {
    let (first, last) = ports.range().into_inner();
    match ports.single() {
        Some(0) => format!("a {transport} port that the kernel picks"),
        Some(port) => format!("{transport} port {port}"),
        None if ports == Ports::ANY => format!("every {transport} port"),
        None => format!("{transport} ports {first} to {last}"),
    }
}

fn describe_host(host: &HostPattern) -> String {
    match host {
        HostPattern::Name(name) if name.is_localhost() => OF_LOOPBACK.to_owned(),
        HostPattern::Name(name) => format!("{name}, at the public addresses that it has"),
        HostPattern::Wildcard(name) => format!("every host below {name}, by way of a proxy"),
        HostPattern::Network(network) => describe_network(network),
    }
}

const OF_LOOPBACK: &str =
    "this machine's own loopback, where services may trust whoever reaches them";

fn describe_network(network: &IpNetwork) -> String {
    match network.is_single() {
        true if is_metadata(network.address) => {
            format!("{network}, where {CREDENTIALS}")
        }
        _ if network.address.is_loopback() => OF_LOOPBACK.to_owned(),
        true => format!("{network} and nothing else"),
        false => format!("every address in {network}"),
    }
}

fn describe_listen(grant: &ListenGrant) -> String {
    match grant {
        ListenGrant::Inherited => "the sockets that palisade itself was given".to_owned(),
        ListenGrant::At {
            transport,
            address,
            ports,
            host_port,
            ..
        } => {
            let ports = name_ports(*transport, host_port.map_or(*ports, Ports::one));
            format!("{ports} of this machine {}", describe_callers(address))
        }
    }
}

/// Who can reach a socket that listens there.
fn describe_callers(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Every => TO_EVERYBODY.to_owned(),
        ListenAddress::Localhost => TO_THIS_MACHINE.to_owned(),
        ListenAddress::Address { address, .. } if address.is_unspecified() => {
            TO_EVERYBODY.to_owned()
        }
        ListenAddress::Address { address, .. } if address.is_loopback() => {
            TO_THIS_MACHINE.to_owned()
        }
        ListenAddress::Address { .. } => format!("to whoever reaches {address}"),
    }
}

const TO_EVERYBODY: &str = "to whoever reaches it, on every interface";
const TO_THIS_MACHINE: &str = "to programs on this machine alone";
