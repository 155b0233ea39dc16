//! One connection, from the request to its end.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    time::Instant,
};

use palisade_policy::{HostName, Transport};

use super::{
    ProxyRefusal, Shared, Slot,
    hello::{HelloFault, read_hello},
    request::{ConnectRequest, RequestFault, read_request},
    tunnel::copy_both_ways,
};
use crate::{
    Call, Process, Reason, Refusal, ResolveError, Target, flag, network::Route,
    wait::until_readable,
};

/// Why a connection is not served to its end.
enum End {
    /// It is refused: an answer in words, where the client still expects one.
    Refused(Refusal, Target),
    /// The host can't be reached.
    Unreachable(&'static str, String),
    /// The client is too slow, or breaks off.
    Broken(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl Shared {
    /// Serves one connection of this process's.
    pub(super) fn serve(
        self: &Arc<Self>,
        mut client: &TcpStream,
        process: &Process,
    ) -> io::Result<()> {
        client.set_nonblocking(true)?;
        client.set_nodelay(true)?;
        let Some(_slot) = Slot::take(self, |shared| &shared.served, self.limits.served) else {
            return answer(
                client,
                "503 Service Unavailable",
                "too many connections at a time",
            );
        };
        let mut bytes = Vec::new();
        let (request, server) = match self.open(client, &mut bytes) {
            Ok(opened) => opened,
            Err(end) => return self.close(client, process, end),
        };
        let target = Target::Name(Transport::Tcp, request.name.clone(), request.port);
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        bytes.drain(..request.length);
        if let Err(fault) = self.read_hello(client, &request.name, &mut bytes)? {
            let is_tls = fault != HelloFault::NotTls;
            self.note(process, target, Some(refusal(ProxyRefusal::Hello(fault))));
            return if is_tls { refuse_tls(client) } else { Ok(()) };
        }
        if self.observations.wants_allowed() {
            self.note(process, target, None);
        }
        copy_both_ways(client, &server, bytes, &self.lifeline, self.limits.idle)
    }

    /// Reads the request and connects to its host.
    fn open(
        &self,
        client: &TcpStream,
        bytes: &mut Vec<u8>,
    ) -> Result<(ConnectRequest, TcpStream), End> {
        let request = self.read_request(client, bytes)?;
        let server = self.connect(&request)?;
        Ok((request, server))
    }

    fn read_request(&self, client: &TcpStream, bytes: &mut Vec<u8>) -> Result<ConnectRequest, End> {
        let deadline = Instant::now() + self.limits.request;
        loop {
            match read_request(bytes) {
                Ok(Some(request)) => return Ok(request),
                Ok(None) => self.read_more(client, bytes, deadline)?,
                Err(fault) => return Err(refuse_request(fault)),
            }
        }
    }

    /// Reads the start of the tunnel, until it is known whether it names the request's host.
    fn read_hello(
        &self,
        client: &TcpStream,
        name: &HostName,
        bytes: &mut Vec<u8>,
    ) -> io::Result<Result<(), HelloFault>> {
        let deadline = Instant::now() + self.limits.hello;
        loop {
            match read_hello(bytes) {
                Ok(Some(named)) if named == *name => return Ok(Ok(())),
                Ok(Some(named)) => return Ok(Err(HelloFault::OtherName(named.to_string()))),
                Ok(None) => self.read_more(client, bytes, deadline)?,
                Err(fault) => return Ok(Err(fault)),
            }
        }
    }

    fn read_more(
        &self,
        mut client: &TcpStream,
        bytes: &mut Vec<u8>,
        deadline: Instant,
    ) -> io::Result<()> {
        let mut buffer = [0; 4096];
        until_readable(client, Some(&self.lifeline), deadline)?;
        match client.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                bytes.extend(&buffer[..count]);
                Ok(())
            }
        }
    }

    fn connect(&self, request: &ConnectRequest) -> Result<TcpStream, End> {
        let refuse = |refusal| {
            let target = Target::Name(Transport::Tcp, request.name.clone(), request.port);
            End::Refused(refusal, target)
        };
        let addresses = match self.gate.network().route(&request.name, request.port) {
            Ok(Route::Pinned(addresses)) => addresses,
            Ok(Route::LookUp) => self.look_up(request)?,
            Err(refusal) => return Err(refuse(refusal)),
        };
        let allowed =
            self.gate
                .network()
                .allow_behind_name(&request.name, &addresses, request.port);
        self.connect_to_any(&allowed.map_err(refuse)?, request.port)
    }

    fn look_up(&self, request: &ConnectRequest) -> Result<Vec<IpAddr>, End> {
        match self.resolver.addresses(&request.name) {
            Ok(answer) => Ok(answer.addresses),
            Err(error @ ResolveError::NoAnswer(_)) => {
                Err(End::Unreachable("504 Gateway Timeout", error.to_string()))
            }
            Err(error) => Err(End::Unreachable("502 Bad Gateway", error.to_string())),
        }
    }

    /// Connects to the first address that answers. Each gets its share of the time.
    fn connect_to_any(&self, addresses: &[IpAddr], port: u16) -> Result<TcpStream, End> {
        let deadline = Instant::now() + self.limits.connect;
        let mut why = String::new();
        for (index, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let others = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
            let share = left / others;
            if share.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&SocketAddr::new(*address, port), share) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => why = format!("{address}: {error}"),
            }
        }
        Err(End::Unreachable("502 Bad Gateway", why))
    }

    fn close(&self, client: &TcpStream, process: &Process, end: End) -> io::Result<()> {
        match end {
            End::Refused(refusal, target) => {
                let words = refusal.to_string();
                let status = status_of(&refusal);
                self.note(process, target, Some(refusal));
                answer(client, status, &words)
            }
            End::Unreachable(status, words) => answer(client, status, &words),
            End::Broken(error) if error.kind() == io::ErrorKind::TimedOut => answer(
                client,
                "408 Request Timeout",
                "the request did not come in time",
            ),
            End::Broken(error) => Err(error),
        }
    }

    fn note(&self, process: &Process, target: Target, refusal: Option<Refusal>) {
        self.observations
            .record(Call::Proxy, target, process.clone(), refusal, false);
    }
}

fn refuse_request(fault: RequestFault) -> End {
    let refusal = refusal(ProxyRefusal::Request(fault));
    let RequestFault::Address(Some(address)) = fault else {
        return End::Refused(refusal, Target::Other("a request".into()));
    };
    let grant = (address.port() != 0).then(|| flag::connect_to(Transport::Tcp, address));
    End::Refused(
        Refusal { grant, ..refusal },
        Target::Address(Transport::Tcp, address),
    )
}

fn refusal(refusal: ProxyRefusal) -> Refusal {
    Refusal {
        reason: Reason::Proxy(refusal),
        grant: None,
    }
}

fn status_of(refusal: &Refusal) -> &'static str {
    match &refusal.reason {
        Reason::Proxy(ProxyRefusal::Request(fault)) => match fault {
            RequestFault::Method => "405 Method Not Allowed\r\nAllow: CONNECT",
            RequestFault::Version => "505 HTTP Version Not Supported",
            RequestFault::TooLong => "431 Request Header Fields Too Large",
            RequestFault::Address(_) => "403 Forbidden",
            _ => "400 Bad Request",
        },
        _ => "403 Forbidden",
    }
}

/// Answers in words and says that no more comes.
fn answer(client: &TcpStream, status: &str, words: &str) -> io::Result<()> {
    let body = format!("palisade: {words}\n");
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    say_last(client, (head + &body).as_bytes())
}

/// Ends TLS in its own words: a fatal alert, `access_denied`, RFC 8446, section 6.2.
fn refuse_tls(client: &TcpStream) -> io::Result<()> {
    say_last(client, &[21, 3, 3, 0, 2, 2, 49])
}

/// What the client has sent and nobody has read would take the answer away again on closing: the
/// kernel resets the connection then (RFC 2525, section 2.17). So what is there of it is read.
fn say_last(mut client: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    client.write_all(bytes)?;
    client.shutdown(Shutdown::Write)?;
    let mut rest = [0; 64 << 10];
    let _ = client.read(&mut rest);
    Ok(())
}
