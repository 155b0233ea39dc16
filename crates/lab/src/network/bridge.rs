//! Two network namespaces: one for the end behind the wall, as a container engine makes it, and one for
//! the other end, which stands for the host.
//!
//! ```text
//!  outside: "the host"                                      inside: "the container"
//!    10.111.0.1:PORT ──nat──▶ bridge ── veth ═══════ veth   10.111.0.2:PORT
//! ```
//!
//! In the host's own namespace this would change the machine: its devices, its packet filter, its
//! forwarding. Here it is all gone with the last process of the namespaces. Each is held by one that waits
//! for the end of its input, so that nothing stays even where the lab is killed.

use super::{CONGESTION_CONTROL, Transport, congestion_control};
use crate::said::cause_in;
use anyhow::{Context, bail};
use std::{
    io::{BufRead, BufReader, Read},
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    process::{Child, ChildStderr, Command, Stdio},
};

/// The bridge's address, at which the host is reached and the container's port is published.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 111, 0, 1);
const CONTAINER: Ipv4Addr = Ipv4Addr::new(10, 111, 0, 2);

/// Both namespaces, until it is dropped.
#[derive(Debug)]
pub(crate) struct Bridge {
    inside: Holder,
    outside: Holder,
}

impl Bridge {
    /// Where a client outside reaches a server inside, and a client inside one outside.
    pub(crate) const PUBLISHED: IpAddr = IpAddr::V4(GATEWAY);
    /// Where a server inside listens.
    pub(crate) const INSIDE: IpAddr = IpAddr::V4(CONTAINER);

    /// Makes them, with one port published.
    ///
    /// # Errors
    ///
    /// When this user may not, or something is not installed or not in the kernel.
    pub(crate) fn new(transport: Transport, port: u16) -> anyhow::Result<Self> {
        let inside = Holder::start("ip link set lo up")?;
        let outside = Holder::start(&wiring(inside.process.id(), transport, port))?;
        Ok(Self { inside, outside })
    }

    /// The namespace of the end behind the wall.
    pub(crate) fn inside(&self) -> PathBuf {
        self.inside.namespace()
    }

    /// The namespace of the other end.
    pub(crate) fn outside(&self) -> PathBuf {
        self.outside.namespace()
    }
}

/// As an engine does it: see Docker's "Packet filtering and firewalls", Podman's netavark.
fn wiring(inside: u32, transport: Transport, port: u16) -> String {
    format!(
        "ip link set lo up
        ip link add lab0 type bridge
        ip addr add {GATEWAY}/24 dev lab0
        ip link set lab0 up
        ip link add veth0 type veth peer name eth0 netns {inside}
        ip link set veth0 master lab0 up
        nsenter --net=/proc/{inside}/ns/net ip addr add {CONTAINER}/24 dev eth0
        nsenter --net=/proc/{inside}/ns/net ip link set eth0 up
        nsenter --net=/proc/{inside}/ns/net ip route add default via {GATEWAY}
        echo 1 > /proc/sys/net/ipv4/ip_forward
        nft -f - <<'END'
        table ip lab {{
            chain published {{
                type nat hook output priority -100
                ip daddr {GATEWAY} {transport} dport {port} dnat to {CONTAINER}
            }}
            chain leaving {{
                type nat hook postrouting priority 100
                ip saddr {GATEWAY}/24 oifname != lab0 masquerade
            }}
        }}
END"
    )
}

/// A line that has TCP send by this rule in a new namespace, which has the machine's. Nothing is written where both are one, for not
/// every rule may be chosen there.
pub(super) fn tcp_by(rule: &str) -> String {
    format!("[ \"$(cat {CONGESTION_CONTROL})\" = {rule} ] || echo {rule} > {CONGESTION_CONTROL}")
}

/// A process that is all there is of a network namespace.
#[derive(Debug)]
struct Holder {
    process: Child,
}

impl Holder {
    /// Makes a namespace and runs the lines of `setup` in it.
    fn start(setup: &str) -> anyhow::Result<Self> {
        // The lab's own network may have another rule than the machine.
        let tcp = tcp_by(&congestion_control()?);
        let script = format!("set -e\n{tcp}\n{setup}\necho ready\nexec cat");
        let process = Command::new("unshare")
            .args(["--net", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("host: cannot run unshare")?;
        let mut holder = Self { process };
        match holder.is_ready() {
            true => Ok(holder),
            false => bail!("cannot make its network: {}", holder.complaint()),
        }
    }

    fn is_ready(&mut self) -> bool {
        let Some(said) = self.process.stdout.as_mut() else {
            return false;
        };
        let mut line = String::new();
        let read = BufReader::new(said).read_line(&mut line);
        read.is_ok() && line == "ready\n"
    }

    /// What it said before it ended.
    fn complaint(&mut self) -> String {
        let said = self.process.stderr.take();
        let read = |mut said: ChildStderr| {
            let mut text = String::new();
            said.read_to_string(&mut text).map(|_| text)
        };
        let text = said.and_then(|said| read(said).ok()).unwrap_or_default();
        cause_in(&text)
    }

    fn namespace(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.process.id()).into()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Its input ends, and so does it.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
