//! pasta, the network of rootless Podman: a namespace whose sockets it serves from a process outside.
//! There is no other wall.

use super::{
    NOBODY,
    peer::{Peer, Request, takes_networks},
    words_of,
};
use crate::network::{Network, Transport};
use anyhow::{Context, ensure};
use rustix::process::{getegid, geteuid};
use std::{ffi::OsString, fs, os::unix::fs::PermissionsExt};

pub(super) static PASTA: Peer = Peer {
    name: "pasta",
    title: "pasta",
    program: "pasta",
    lacks: "nothing but a network: no other wall",
    install: "apt-get install passt",
    waits_for_all: true,
    takes: takes_networks,
    line,
    line_to_end: None,
};

/// Where namespaces get their network device.
const TUN: &str = "/dev/net/tun";
/// Of its mode: anybody may read and write.
const FOR_ALL: u32 = 0o006;

/// Ports of the host's loopback are the same ports inside: `-t` and `-u` into the namespace, `-T` and
/// `-U` out of it. All others stay closed.
fn line(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    // Where it cannot have its device it waits for ever.
    let mode = fs::metadata(TUN).with_context(|| format!("{TUN} is missing"))?;
    let is_for_all = mode.permissions().mode() & FOR_ALL == FOR_ALL;
    ensure!(
        is_for_all,
        "{TUN} is not for ordinary users: chmod 666 {TUN}"
    );
    let mut words: Vec<OsString> = vec![request.program.into()];
    words.extend(["--quiet", "--config-net"].map(Into::into));
    for flag in ["-t", "-u", "-T", "-U"] {
        let port = opened_by(flag, request.network).unwrap_or_else(|| "none".to_owned());
        words.extend([flag.into(), port.into()]);
    }
    words.push("--".into());
    words.extend(as_oneself());
    // It leaves its guest behind when it is ended.
    words.extend(["setpriv", "--pdeathsig", "KILL", "--"].map(Into::into));
    words.extend(words_of(request.command));
    Ok(words)
}

/// pasta makes everybody root of a user namespace, which some servers refuse to be: another one inside
/// gives back who it was started as.
fn as_oneself() -> [OsString; 5] {
    let (uid, gid) = match geteuid().is_root() {
        true => (NOBODY, NOBODY),
        false => (geteuid().as_raw(), getegid().as_raw()),
    };
    let maps = [format!("--map-user={uid}"), format!("--map-group={gid}")];
    let [user, group] = maps.map(OsString::from);
    ["unshare".into(), "--user".into(), user, group, "--".into()]
}

fn opened_by(flag: &str, network: &Network) -> Option<String> {
    let (endpoint, expected) = match network {
        Network::None => return None,
        Network::Listens(endpoint) if endpoint.transport == Transport::Tcp => (endpoint, "-t"),
        Network::Listens(endpoint) => (endpoint, "-u"),
        Network::Connects(endpoint) if endpoint.transport == Transport::Tcp => (endpoint, "-T"),
        Network::Connects(endpoint) => (endpoint, "-U"),
    };
    (flag == expected).then(|| endpoint.port.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Endpoint;

    #[test]
    fn one_port_is_open_in_one_direction() {
        let opened = |network: &Network| {
            let flags = ["-t", "-u", "-T", "-U"].into_iter();
            let opened = flags.filter_map(|flag| Some((flag, opened_by(flag, network)?)));
            opened.collect::<Vec<_>>()
        };
        let end = |transport| Endpoint {
            transport,
            address: [127, 0, 0, 1].into(),
            port: 53,
            namespace: None,
        };
        let (tcp, udp) = (end(Transport::Tcp), end(Transport::Udp));
        for (network, flag) in [
            (Network::Listens(tcp.clone()), "-t"),
            (Network::Listens(udp.clone()), "-u"),
            (Network::Connects(tcp), "-T"),
            (Network::Connects(udp), "-U"),
        ] {
            assert_eq!(opened(&network), [(flag, "53".to_owned())]);
        }
        assert_eq!(opened(&Network::None), []);
    }
}
