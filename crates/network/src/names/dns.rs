//! A stub resolver: one question to a name server that does the rest, RFC 1034, section 5.3.1.
//!
//! Against forged answers: each question has a random id and a socket of its own, at a port that
//! the kernel picks at random; the socket is connected, so that the kernel drops what comes from
//! elsewhere; and an answer counts only if it repeats the question (RFC 5452).

mod message;

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use palisade_policy::HostName;

use super::{Answer, ResolveError, resolv_conf::ResolvConf};
use message::{Fault, Query, RecordKind, Reply};

/// How many times a question is asked again for the name that an alias ends at. Servers that do the
/// rest follow aliases themselves.
const MAX_ALIASES: usize = 4;

/// Of messages that answer no question of ours, how many are looked at before a try is given up.
const MAX_STRANGERS: usize = 64;

/// The addresses that DNS has for `name`, IPv4 first.
pub(super) fn look_up(name: &HostName, conf: &ResolvConf) -> Result<Answer, ResolveError> {
    let (v4, v6) = thread::scope(|scope| {
        let v6 = scope.spawn(|| follow(name, RecordKind::Aaaa, conf));
        let v4 = follow(name, RecordKind::A, conf);
        (v4, v6.join().unwrap_or(Err(ResolveError::Broken)))
    });
    match (v4, v6) {
        (Ok(mut v4), Ok(v6)) => {
            v4.addresses.extend(v6.addresses);
            v4.ttl = v4.ttl.min(v6.ttl);
            Ok(v4)
        }
        // One family is better than nothing: some servers never answer for IPv6.
        (Ok(answer), Err(_)) | (Err(_), Ok(answer)) => Ok(answer),
        (Err(ResolveError::NotFound), Err(error)) | (Err(error), Err(_)) => Err(error),
    }
}

/// Asks for one kind of address, and again where the answer is only another name.
fn follow(name: &HostName, kind: RecordKind, conf: &ResolvConf) -> Result<Answer, ResolveError> {
    let mut wanted = name.as_str().to_owned();
    let mut shortest = Duration::MAX;
    for _ in 0..=MAX_ALIASES {
        match ask_all(&wanted, kind, conf)? {
            Reply::Addresses { addresses, ttl } => {
                let ttl = ttl.min(shortest);
                return Ok(Answer { addresses, ttl });
            }
            Reply::Alias { name, ttl } => {
                wanted = name;
                shortest = shortest.min(ttl);
            }
            Reply::Nothing => break,
        }
    }
    Err(ResolveError::NotFound)
}

/// Asks each server in turn until one answers, as often as the machine's settings say.
fn ask_all(name: &str, kind: RecordKind, conf: &ResolvConf) -> Result<Reply, ResolveError> {
    let mut why = String::new();
    for _ in 0..conf.attempts {
        for server in &conf.servers {
            match ask(*server, name, kind, conf.timeout) {
                Ok(reply) => return Ok(reply),
                Err(error) => why = format!("{}: {error}", server.ip()),
            }
        }
    }
    Err(ResolveError::NoAnswer(why))
}

fn ask(server: SocketAddr, name: &str, kind: RecordKind, timeout: Duration) -> io::Result<Reply> {
    let query = Query::new(name, kind)?;
    let deadline = Instant::now() + timeout;
    match ask_by_datagram(server, &query, deadline)? {
        Some(reply) => Ok(reply),
        None => ask_by_stream(server, &query, deadline),
    }
}

/// Asks by a datagram; `None` if the answer did not fit into one.
fn ask_by_datagram(
    server: SocketAddr,
    query: &Query,
    deadline: Instant,
) -> io::Result<Option<Reply>> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(server)?;
    socket.send(&query.bytes)?;
    let mut buffer = [0; 4096];
    for _ in 0..MAX_STRANGERS {
        socket.set_read_timeout(Some(left_until(deadline)?))?;
        let count = socket.recv(&mut buffer).map_err(timed_out)?;
        match query.read_reply(&buffer[..count]) {
            Ok(reply) => return Ok(Some(reply)),
            Err(Fault::Truncated) => return Ok(None),
            Err(Fault::NotOurs) => {}
            Err(refused) => return Err(io::Error::other(refused)),
        }
    }
    Err(io::Error::other("it sends answers to other questions"))
}

/// Asks over tcp: each message has its length before it, RFC 1035, section 4.2.2.
fn ask_by_stream(server: SocketAddr, query: &Query, deadline: Instant) -> io::Result<Reply> {
    let mut stream = TcpStream::connect_timeout(&server, left_until(deadline)?)?;
    stream.set_write_timeout(Some(left_until(deadline)?))?;
    let length = u16::try_from(query.bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), &query.bytes[..]].concat())?;

    let mut length = [0; 2];
    read_until(&mut stream, &mut length, deadline)?;
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    read_until(&mut stream, &mut answer, deadline)?;
    query.read_reply(&answer).map_err(io::Error::other)
}

/// Fills the buffer, however slowly the bytes come, until the deadline.
fn read_until(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        match stream.read(&mut buffer[filled..]).map_err(timed_out)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(())
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// A read that waited its time out says that it would block.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests;
