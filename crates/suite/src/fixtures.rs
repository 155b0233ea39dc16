//! Fixtures: the files, victims, servers and set-ups that stand ready before the launch.

mod fixture;
mod layout;
mod packets;
mod servers;
mod victim;

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};

use servers::{FREE_PORTS, Inbox, Servers, call_often, tcp_says, udp_says};
use victim::Victim;

use crate::process::Process;

pub use fixture::Fixture;
pub(crate) use layout::{CACHES, FILE_CAPABILITY, Layout, STRANGER_ID};

/// Looks that a witness takes before it says that nothing happened, and their distance:
/// a signal or a packet may be under way when the launcher ends.
const LOOKS: usize = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// Folders that hold a socket and a FIFO of the host.
const MEETING_PLACES: [&str; 3] = ["{outside}", "{readable}", "{scratch}/run"];

/// The one that the guest is not told of.
const HIDDEN_PORT: &str = "hidden";

/// Everything that stands ready.
#[derive(Default)]
pub(crate) struct Fixtures {
    victim: Option<Victim>,
    namespaced: Option<Victim>,
    /// Where the victim's executable lies, and others that must stay as they are; beside each a copy to compare with.
    rewritable: Vec<(PathBuf, PathBuf)>,
    inbox: Inbox,
    servers: Servers,
    /// Listens on a port that it shares with whoever belongs to the same user.
    sharer: Option<Victim>,
    fifos: Vec<RefCell<File>>,
    ports: Vec<u16>,
    arguments: Vec<String>,
    shares_group: bool,
}

impl Fixtures {
    pub(crate) fn set_up(layout: &Layout, wanted: &[Fixture]) -> io::Result<Self> {
        let mut fixtures = Self::default();
        for fixture in wanted {
            fixtures.add(*fixture, layout)?;
        }
        Ok(fixtures)
    }

    fn add(&mut self, fixture: Fixture, layout: &Layout) -> io::Result<()> {
        match fixture {
            Fixture::Victim => self.add_victim(layout),
            Fixture::VictimNamespaced => self.add_namespaced(layout),
            Fixture::SharedGroup => {
                self.shares_group = true;
                Ok(())
            }
            Fixture::Servers => self.add_servers(),
            Fixture::SharedPort => self.add_shared_port(layout),
            Fixture::Caller(address) => {
                let address = self.address(address);
                address
                    .map(call_often)
                    .ok_or(ErrorKind::InvalidInput.into())
            }
            Fixture::Names(hosts) => name_hosts(layout, "{case}/hosts", hosts),
            Fixture::NamesIn(file, hosts) => name_hosts(layout, file, hosts),
            Fixture::NameServices(services) => show(
                layout,
                "{case}/nsswitch.conf",
                services,
                "/etc/nsswitch.conf",
            ),
            Fixture::LocalServers => self.add_local_servers(layout),
            Fixture::Flip(one, other) => flip(layout, one, other),
            Fixture::ReadOnlyMount => make_read_only(layout),
            Fixture::Masked => mask(layout),
            Fixture::Privileged => layout.make_privileged(),
            Fixture::KernelLog => {
                fs::write("/dev/kmsg", layout.expand("<7>palisade-suite {secret}\n"))
            }
            Fixture::Handle => self.add_handle(layout),
            // Flaws and surroundings of the launcher: they are part of its start.
            Fixture::Terminal
            | Fixture::Flaw(_)
            | Fixture::LauncherDies
            | Fixture::Variable(..)
            | Fixture::StartedIn(_) => Ok(()),
            // Started once the launcher's command line is known; raised before there are servers.
            Fixture::Accomplice(_) | Fixture::SecondLink => Ok(()),
        }
    }

    /// Has a program count among those that an attack must not change.
    pub(crate) fn watch_program(&mut self, program: &Path, original: &Path) {
        self.rewritable
            .push((program.to_owned(), original.to_owned()));
    }

    /// Guest arguments that only the fixtures know: pids, addresses, ports.
    pub(crate) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The process group that the launcher joins, if it shares one.
    pub(crate) fn group_to_join(&self) -> Option<i32> {
        self.victim
            .as_ref()
            .filter(|_| self.shares_group)
            .map(Victim::pid)
    }

    /// Fills in `{victim}`, `{namespaced}` and every `{KEY}` of [`Fixtures::arguments`].
    pub(crate) fn fill(&self, template: &str) -> String {
        let pid = |victim: &Option<Victim>| victim.as_ref().map_or(0, Victim::pid).to_string();
        let text = template
            .replace("{victim}", &pid(&self.victim))
            .replace("{namespaced}", &pid(&self.namespaced));
        let pairs = self
            .arguments
            .iter()
            .filter_map(|pair| pair.split_once('='));
        pairs.fold(text, |text, (key, value)| {
            text.replace(&format!("{{{key}}}"), value)
        })
    }

    pub(crate) fn knows_port(&self, port: u64) -> bool {
        self.ports.iter().any(|known| u64::from(*known) == port)
    }

    /// Whether a server or a FIFO got `nonce`.
    pub(crate) fn received(&self, nonce: &str) -> bool {
        eventually(|| {
            let mut bytes = self.inbox.bytes();
            for fifo in &self.fifos {
                // EAGAIN ends the read: the FIFO is open at both ends and empty.
                let _ = fifo.borrow_mut().read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).contains(nonce)
        })
    }

    /// Whether a packet for `address` was sent.
    pub(crate) fn saw_packet_to(&self, address: &str) -> bool {
        let address: Option<IpAddr> = address.parse().ok();
        eventually(|| address.is_some_and(|address| self.servers.saw_packet_to(address)))
    }

    /// Whether one was, and by the second link.
    pub(crate) fn saw_packet_beside_to(&self, address: &str) -> bool {
        self.saw_packet_to(address) && eventually(second_link_has_sent)
    }

    /// Whether a TCP server at the address, a template, says `nonce`.
    pub(crate) fn tcp_says(&self, address: &str, nonce: &str) -> bool {
        self.address(address)
            .is_some_and(|address| tcp_says(address, nonce))
    }

    /// The same of a UDP server.
    pub(crate) fn udp_says(&self, address: &str, nonce: &str) -> bool {
        self.address(address)
            .is_some_and(|address| udp_says(address, nonce))
    }

    fn address(&self, template: &str) -> Option<SocketAddr> {
        self.fill(template).parse().ok()
    }

    /// The port of the server that the guest was not told of.
    pub(crate) fn hidden_port(&self) -> u16 {
        let mut ports = self.servers.ports().iter();
        ports
            .find(|(name, _)| *name == HIDDEN_PORT)
            .map_or(0, |(_, port)| *port)
    }

    pub(crate) fn victim_is_dead(&self) -> bool {
        eventually(|| !self.victim_process().is_some_and(Process::is_alive))
    }

    pub(crate) fn victim_is_stopped(&self) -> bool {
        eventually(|| self.victim_process().and_then(|p| p.stat(3)).as_deref() == Some("T"))
    }

    /// Whether the victim's memory no longer holds `secret`.
    pub(crate) fn victim_is_changed(&self, secret: &str) -> bool {
        let memory = self.victim.as_ref().and_then(|victim| victim.ask().ok());
        memory.is_some_and(|memory| !memory.contains(secret))
    }

    /// Whether the victim's executable, or another that is watched, is not what it was.
    pub(crate) fn victim_is_rewritten(&self) -> bool {
        self.rewritable
            .iter()
            .any(|(path, original)| fs::read(path).ok() != fs::read(original).ok())
    }

    fn victim_process(&self) -> Option<Process> {
        self.victim
            .as_ref()
            .map(|victim| Process { pid: victim.pid() })
    }

    fn add_victim(&mut self, layout: &Layout) -> io::Result<()> {
        let executable = layout.expand("{outside}/victim");
        self.watch_program(Path::new(&executable), &layout.path("{tools}/fixture"));
        let (victim, told) = Victim::start(
            layout,
            &executable,
            &["victim", &layout.nonce, &layout.secret, "{outside}"],
        )?;
        self.arguments.push(format!("victim={}", victim.pid()));
        self.arguments
            .extend(told.split_whitespace().map(str::to_owned));
        self.victim = Some(victim);
        Ok(())
    }

    fn add_namespaced(&mut self, layout: &Layout) -> io::Result<()> {
        let executable = layout.expand("{tools}/fixture");
        let (victim, _) = Victim::start(
            layout,
            &executable,
            &["victim-namespaced", &layout.nonce, &layout.secret],
        )?;
        self.arguments.push(format!("victim={}", victim.pid()));
        self.namespaced = Some(victim);
        Ok(())
    }

    fn add_servers(&mut self) -> io::Result<()> {
        self.servers = Servers::start(&self.inbox)?;
        for (name, port) in self.servers.ports() {
            if *name != HIDDEN_PORT {
                self.arguments.push(format!("{name}={port}"));
            }
        }
        // What is free is the guest's to take: a listener there is not the suite's.
        let taken = |port: &(&str, u16)| !FREE_PORTS.contains(port);
        let ports = self.servers.ports().iter();
        self.ports
            .extend(ports.filter(|port| taken(port)).map(|(_, port)| port));
        Ok(())
    }

    fn add_shared_port(&mut self, layout: &Layout) -> io::Result<()> {
        let executable = layout.expand("{tools}/fixture");
        let (sharer, told) = Victim::start(layout, &executable, &["share-port"])?;
        self.arguments
            .extend(told.split_whitespace().map(str::to_owned));
        self.sharer = Some(sharer);
        Ok(())
    }

    fn add_local_servers(&mut self, layout: &Layout) -> io::Result<()> {
        let name = std::os::unix::net::SocketAddr::from_abstract_name(&layout.nonce)?;
        let listener = UnixListener::bind_addr(&name)?;
        self.inbox
            .serve(move || listener.accept().map(|(stream, _)| stream));
        let named = layout.path("{scratch}/run/named.dgram");
        self.inbox
            .serve_named_datagrams(UnixDatagram::bind(&named)?)?;
        layout.give_away(&named)?;
        for place in MEETING_PLACES {
            let folder = layout.path(place);
            let socket = folder.join("host.sock");
            let listener = UnixListener::bind(&socket)?;
            layout.give_away(&socket)?;
            self.inbox
                .serve(move || listener.accept().map(|(stream, _)| stream));

            let datagrams = folder.join("host.dgram");
            let receiver = UnixDatagram::bind(&datagrams)?;
            layout.give_away(&datagrams)?;
            self.inbox
                .serve_datagrams(move |bytes| receiver.recv(bytes));

            let fifo = folder.join("host.fifo");
            rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
            layout.give_away(&fifo)?;
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            self.fifos.push(RefCell::new(
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .custom_flags(nonblocking)
                    .open(fifo)?,
            ));
        }
        Ok(())
    }

    fn add_handle(&mut self, layout: &Layout) -> io::Result<()> {
        let result = layout
            .program("handle")
            .arg(layout.path("{outside}/secret"))
            .output()?;
        self.arguments.push(format!(
            "handle={}",
            String::from_utf8_lossy(&result.stdout).trim_end()
        ));
        Ok(())
    }
}

/// A line of `/proc/net/dev`: the name, eight figures of what came, how many bytes and how many packets
/// were sent.
fn second_link_has_sent() -> bool {
    const PACKETS_SENT: usize = 10;
    let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.first() == Some(&"beside:") && fields.get(PACKETS_SENT).is_some_and(|n| *n != "0")
    })
}

fn eventually(mut happened: impl FnMut() -> bool) -> bool {
    for look in 0..LOOKS {
        if look > 0 {
            thread::sleep(BETWEEN_LOOKS);
        }
        if happened() {
            return true;
        }
    }
    false
}

/// Exchanges two names until the arena ends.
fn flip(layout: &Layout, one: &str, other: &str) -> io::Result<()> {
    layout
        .program("flip")
        .arg(layout.path(one))
        .arg(layout.path(other))
        .spawn()
        .map(drop)
}

/// Gives the arena, and so the launcher, a table of host names.
fn name_hosts(layout: &Layout, file: &str, hosts: &str) -> io::Result<()> {
    show(layout, file, hosts, "/etc/hosts")
}

/// Puts `text` into a file of the launcher's user, which `place` shows from then on.
fn show(layout: &Layout, file: &str, text: &str, place: &str) -> io::Result<()> {
    let file = layout.path(file);
    fs::write(&file, text)?;
    layout.give_away(&file)?;
    Ok(mount_bind(&file, place)?)
}

fn make_read_only(layout: &Layout) -> io::Result<()> {
    let readable = layout.path("{readable}");
    mount_bind(&readable, &readable)?;
    Ok(mount_remount(
        &readable,
        MountFlags::BIND | MountFlags::RDONLY,
        c"",
    )?)
}

fn mask(layout: &Layout) -> io::Result<()> {
    let masked = layout.path("{readable}/masked");
    fs::write(masked.join("secret"), &layout.secret)?;
    layout.give_away(&masked)?;
    Ok(mount(
        "mask",
        &masked,
        c"tmpfs",
        MountFlags::RDONLY,
        Some(c"size=4k"),
    )?)
}
