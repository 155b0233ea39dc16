//! Network grants as text: `tcp://HOST:PORTS`, `unix:PATH[:GUEST]`, `tcp://ADDRESS:PORT,ready`.
//!
//! Only one spelling of an address is taken, the one that every program reads alike: no octal,
//! hexadecimal or shortened IPv4, no IPv4 inside IPv6, no bits beyond a prefix.

mod host;
mod ports;

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    str::FromStr,
};

use super::{ConnectGrant, ListenGrant, Ports, Transport, UnixGrant};
use crate::value::{NetworkReason, Reason, ValueError, ValueKind, parse_mapping, write_mapping};
use host::{parse_host, parse_listen_address, split_host};
use ports::{parse_connect_ports, parse_listen_ports, parse_port};

type Parsed<T> = Result<T, NetworkReason>;

const UNIX_SCHEME: &str = "unix:";

/// All that is public.
const INTERNET: &str = "internet";

impl ValueKind {
    /// A [`ConnectGrant`].
    pub(crate) const CONNECT: &'static Self = &Self::of_form(
        "connect grant",
        "tcp://HOST:PORTS or udp://HOST:PORTS, where HOST is a name, an address or a \
         network, or unix:PATH[:GUEST], or internet[:PORTS]",
        "tcp://example.com:443",
    );

    /// A [`ListenGrant`].
    pub(crate) const LISTEN: &'static Self = &Self::of_form(
        "listen grant",
        "tcp://ADDRESS:PORT or udp://ADDRESS:PORT, after it `,host-port=N` and `,ready` \
         where wanted, or the word `inherited`",
        "tcp://127.0.0.1:8080",
    );
}

impl ConnectGrant {
    /// The path of a socket file, if `text` begins as one that is granted.
    pub(crate) fn socket_path(text: &OsStr) -> Option<&OsStr> {
        let path = text.as_bytes().strip_prefix(UNIX_SCHEME.as_bytes());
        path.map(OsStr::from_bytes)
    }

    /// Parses `tcp://HOST:PORTS`, `udp://HOST:PORTS`, `unix:PATH[:GUEST]` or `internet[:PORTS]`.
    ///
    /// HOST is a name, `*.NAME`, an IPv4 address or network (`10.0.0.0/8`), or one of IPv6 in
    /// brackets, with an interface where it is link-local (`[fe80::1%eth0]`). PORTS is a port from
    /// 1, a range (`8000-8099`) or `*`. PATH and GUEST are as in [`FileGrant::parse`]; a relative
    /// PATH is joined to `base`.
    ///
    /// # Errors
    /// Anything else, and every address that is written otherwise than it is displayed.
    ///
    /// [`FileGrant::parse`]: crate::FileGrant::parse
    pub fn parse(text: impl AsRef<OsStr>, base: &Path) -> Result<Self, ValueError> {
        let text = text.as_ref();
        let grant = match Self::socket_path(text) {
            Some(path) => parse_unix(path, base).map(Self::Unix),
            None => parse_by_address(&text.to_string_lossy()),
        };
        grant.map_err(|reason| ValueError::new(ValueKind::CONNECT, &text.to_string_lossy(), reason))
    }
}

impl FromStr for ConnectGrant {
    type Err = ValueError;

    /// [`ConnectGrant::parse`], without a folder that a relative `unix:` path could start at.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text.strip_prefix(UNIX_SCHEME) {
            Some(path) if !path.is_empty() && !path.starts_with('/') => {
                let reason = NetworkReason::RelativePath.into();
                Err(ValueError::new(ValueKind::CONNECT, text, reason))
            }
            _ => Self::parse(text, Path::new("/")),
        }
    }
}

fn parse_unix(path: &OsStr, base: &Path) -> Result<UnixGrant, Reason> {
    match path.as_bytes() {
        [b'@', ..] => Err(NetworkReason::AbstractSocket.into()),
        _ => {
            let (host, guest): (PathBuf, Option<PathBuf>) = parse_mapping(path, base)?;
            Ok(UnixGrant { host, guest })
        }
    }
}

fn parse_by_address(text: &str) -> Result<ConnectGrant, Reason> {
    match text.strip_prefix(INTERNET) {
        Some("") => Ok(ConnectGrant::Public { ports: Ports::ANY }),
        Some(rest) if rest.starts_with(':') && !rest.starts_with("://") => {
            let ports = parse_connect_ports(&rest[1..])?;
            Ok(ConnectGrant::Public { ports })
        }
        _ => parse_internet(text),
    }
}

fn parse_internet(text: &str) -> Result<ConnectGrant, Reason> {
    let (transport, rest) = split_transport(text)?;
    let (host, ports) = split_host(rest)?;
    Ok(ConnectGrant::Internet {
        transport,
        host: parse_host(host)?,
        ports: parse_connect_ports(ports)?,
    })
}

fn split_transport(text: &str) -> Result<(Transport, &str), Reason> {
    if text.is_empty() {
        return Err(Reason::Empty);
    }
    let Some((transport, rest)) = text.split_once("://") else {
        return Err(NetworkReason::NoTransport.into());
    };
    match transport.parse() {
        Ok(transport) => Ok((transport, rest)),
        Err(_) => Err(NetworkReason::UnknownTransport(transport.to_owned()).into()),
    }
}

impl FromStr for ListenGrant {
    type Err = ValueError;

    /// Parses `tcp://ADDRESS:PORT` or `udp://ADDRESS:PORT` with `,host-port=N` and `,ready` after
    /// it where wanted, or `inherited`.
    ///
    /// ADDRESS is an IPv4 address, one of IPv6 in brackets, `localhost` or `*`. PORT is a port, 0
    /// for one that the kernel picks, a range or `*`.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        parse_listen(text).map_err(|reason| ValueError::new(ValueKind::LISTEN, text, reason))
    }
}

fn parse_listen(text: &str) -> Result<ListenGrant, Reason> {
    let mut parts = text.split(',');
    let place = parts.next().unwrap_or_default();
    let options: Vec<&str> = parts.collect();
    if place == INHERITED {
        return match options.first() {
            Some(option) => Err(NetworkReason::UnknownOption((*option).to_owned()).into()),
            None => Ok(ListenGrant::Inherited),
        };
    }
    let (transport, rest) = split_transport(place)?;
    let (address, ports) = split_host(rest)?;
    let address = parse_listen_address(address)?;
    let ports = parse_listen_ports(ports)?;
    let options = parse_options(&options)?;
    Ok(ListenGrant::At {
        transport,
        address,
        ports,
        host_port: options.host_port,
        ready: options.ready,
    })
}

const INHERITED: &str = "inherited";

#[derive(Default)]
struct Options {
    host_port: Option<u16>,
    ready: bool,
}

fn parse_options(words: &[&str]) -> Parsed<Options> {
    let mut options = Options::default();
    for (place, word) in words.iter().enumerate() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (*word, None),
        };
        match (name, value) {
            ("host-port", _) if options.host_port.is_some() => {
                return Err(NetworkReason::OptionTwice(name.to_owned()));
            }
            ("host-port", Some(port)) => options.host_port = Some(parse_port(port)?),
            ("ready", None) if words[..place].contains(word) => {
                return Err(NetworkReason::OptionTwice(name.to_owned()));
            }
            ("ready", None) => options.ready = true,
            _ => return Err(NetworkReason::UnknownOption((*word).to_owned())),
        }
    }
    Ok(options)
}

/// Writes the grant as its flag takes it; bytes that are not UTF-8 become `�`.
impl fmt::Display for ConnectGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet {
                transport,
                host,
                ports,
            } => write!(f, "{transport}://{host}:{ports}"),
            Self::Public { ports: Ports::ANY } => f.write_str(INTERNET),
            Self::Public { ports } => write!(f, "{INTERNET}:{ports}"),
            Self::Unix(socket) => write!(f, "{UNIX_SCHEME}{socket}"),
        }
    }
}

/// Writes `PATH[:GUEST]`.
impl fmt::Display for UnixGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_mapping(f, &self.host, self.guest.as_deref())
    }
}

/// Writes the grant as its flag takes it.
impl fmt::Display for ListenGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::At {
            transport,
            address,
            ports,
            host_port,
            ready,
        } = self
        else {
            return f.write_str(INHERITED);
        };
        write!(f, "{transport}://{address}:{ports}")?;
        if let Some(port) = host_port {
            write!(f, ",host-port={port}")?;
        }
        f.write_str(if *ready { ",ready" } else { "" })
    }
}

#[cfg(test)]
mod tests;
