//! The proxy for wildcards, apart from the rest: it reads what the guest sends, and connects to where that
//! says.
//!
//! In a process of its own where palisade has one thread only, as `palisade run` has; else in threads, whose
//! rules hold what goes astray.

use crate::{
    confine::Kept,
    sys::{Forked, fork},
};
use palisade_network::{
    Gate, Listening, Observations, Process, Proxy,
    proxy::apart::{self, RemoteProxy},
    service::RemoteResolver,
};
use palisade_policy::HostName;
use rustix::io::Errno;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

/// How long its last words may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// The proxy, before there is a guest.
#[derive(Debug)]
pub(super) enum Prepared {
    /// Nobody serves yet.
    Listening(Listening),
    /// A process does.
    Process(RemoteProxy, Forked),
}

/// A proxy that serves.
#[derive(Debug)]
pub(super) enum Served {
    /// Threads of this process.
    Threads(Proxy),
    /// A process.
    Process(RemoteProxy, Forked),
}

impl Prepared {
    /// Has a process serve, where this one may be forked.
    ///
    /// # Errors
    ///
    /// When there can be no more processes.
    pub(super) fn serve_apart(
        &mut self,
        gate: &Arc<Gate>,
        resolver: &Arc<RemoteResolver>,
        landlock_abi: Option<u32>,
    ) -> io::Result<()> {
        let Self::Listening(listening) = self else {
            return Ok(());
        };
        let (remote, theirs) = apart::connect()?;
        let kept = [theirs.as_fd(), listening.as_fd(), (**resolver).as_fd()];
        let kept = kept.map(|fd| fd.as_raw_fd());
        match fork(c"palisade-proxy", &kept, || {
            serve(&theirs, listening, gate, resolver, landlock_abi);
        }) {
            Err(Errno::BUSY) => {}
            forked => *self = Self::Process(remote, forked?),
        }
        Ok(())
    }

    /// Who serves from now on.
    ///
    /// # Errors
    ///
    /// When there can be no more threads.
    pub(super) fn serve(
        self,
        gate: &Arc<Gate>,
        resolver: &Arc<RemoteResolver>,
        observations: &Arc<Observations>,
        landlock_abi: Option<u32>,
    ) -> io::Result<Served> {
        let listening = match self {
            Self::Process(remote, process) => return Ok(Served::Process(remote, process)),
            Self::Listening(listening) => listening,
        };
        let walls = Kept::of_proxy().walls(landlock_abi);
        let walls = walls.map_err(io::Error::other)?;
        let (gate, resolver) = (Arc::clone(gate), Arc::clone(resolver));
        let observations = Arc::clone(observations);
        let serve = || Proxy::serve(&listening, gate, resolver, observations);
        Ok(Served::Threads(walls.start(serve)?))
    }
}

/// The process.
fn serve(
    channel: &OwnedFd,
    listening: &Listening,
    gate: &Arc<Gate>,
    resolver: &Arc<RemoteResolver>,
    landlock_abi: Option<u32>,
) {
    let walls = Kept::of_proxy().walls(landlock_abi);
    // One that could not be confined serves nobody.
    if walls.and_then(|walls| walls.around_this_thread()).is_ok() {
        let (gate, resolver) = (Arc::clone(gate), Arc::clone(resolver));
        // Whoever is not told has an end of his own.
        let _ = apart::serve(channel, listening, gate, resolver);
    }
}

impl Served {
    /// See [`Proxy::admit`].
    pub(super) fn admit(&self, peer: SocketAddr, process: Process) {
        match self {
            Self::Threads(proxy) => proxy.admit(peer, process),
            Self::Process(proxy, _) => proxy.admit(peer, process),
        }
    }

    /// See [`RemoteProxy::pin`]. Threads share the gate.
    pub(super) fn pin(&self, name: &HostName, addresses: &[IpAddr]) {
        if let Self::Process(proxy, _) = self {
            proxy.pin(name, addresses);
        }
    }

    /// Has it begin to end where it is a process.
    pub(super) fn dismiss(&self) {
        if let Self::Process(proxy, _) = self {
            proxy.dismiss();
        }
    }

    /// Ends it where it is a process, and adds what it refused.
    pub(super) fn finish(&self, observations: &Observations) {
        if let Self::Process(proxy, process) = self {
            observations.add(proxy.finish(PATIENCE));
            process.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::call::address_towards;
    use palisade_network::{Answer, Network, Resolve, ResolveError, service};
    use rustix::net::{AddressFamily, SocketType};
    use std::{
        io::{Read, Write},
        net::{Ipv4Addr, TcpListener, TcpStream},
        thread,
    };

    /// Each name is this machine's.
    struct Here;

    impl Resolve for Here {
        fn addresses(&self, _: &HostName) -> Result<Answer, ResolveError> {
            Ok(Answer {
                addresses: vec![Ipv4Addr::LOCALHOST.into()],
                ttl: Duration::from_secs(60),
            })
        }

        fn interface(&self, _: &str) -> Option<u32> {
            None
        }
    }

    /// A process with other threads is not forked.
    #[test]
    fn threads_tunnel_within_their_walls() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let grants = ["*.example.com", "127.0.0.1"];
        let grants = grants.map(|host| format!("tcp://{host}:{port}").parse().unwrap());
        let gate = Arc::new(Gate::new(Network::resolve(&grants, &[], &Here).unwrap()));
        let (asker, asked) = service::connect().unwrap();
        let asker = Arc::new(asker);
        thread::spawn(move || service::serve(&asked, &(Arc::new(Here) as Arc<dyn Resolve>)));

        let listening = Listening::begin(&gate).unwrap().unwrap();
        let mut prepared = Prepared::Listening(listening);
        let landlock_abi = crate::sys::landlock_abi();
        prepared.serve_apart(&gate, &asker, landlock_abi).unwrap();
        assert!(matches!(prepared, Prepared::Listening(_)));
        let seen = Arc::new(Observations::of_refusals());
        let served = prepared.serve(&gate, &asker, &seen, landlock_abi).unwrap();

        let process = Process {
            pid: 7,
            name: "client".into(),
        };
        let to = gate.proxy().unwrap();
        let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
        let socket = rustix::net::socket(family, kind, None).unwrap();
        let from = address_towards(&socket, to).unwrap().unwrap();
        served.admit(from, process);
        rustix::net::connect(&socket, &to).unwrap();
        let mut client = TcpStream::from(socket);
        write!(client, "CONNECT a.example.com:{port} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        // The server's own word for it.
        drop(server.accept().unwrap());
        client.write_all(b"no TLS").unwrap();
        let _ = client.read_to_end(&mut Vec::new());
        served.finish(&seen);
        assert_eq!(seen.drain().0.len(), 1);
    }
}
