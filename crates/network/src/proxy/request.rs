//! The one request that the proxy takes: `CONNECT name:port`.
//!
//! httparse reads the syntax. What it takes beyond the letter of RFC 9112 is refused here: a reader
//! further on might read it otherwise, and that is what smuggling lives on.

pub use crate::RequestFault;
use palisade_policy::HostName;

/// The longest request, in bytes. Clients send a few hundred.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;

const MAX_HEADERS: usize = 32;

/// Where a client wants to be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The host, never an address.
    pub name: HostName,
    /// The port, never 0.
    pub port: u16,
    /// How many bytes the request has; what follows belongs to the tunnel.
    pub length: usize,
}

/// Reads the request that `bytes` start with; `None` if they are only the beginning of one.
///
/// # Errors
/// As soon as no more bytes can make a request of it that is taken.
pub fn read_request(bytes: &[u8]) -> Result<Option<ConnectRequest>, RequestFault> {
    let head = &bytes[..head_length(bytes).unwrap_or(bytes.len())];
    check_lines(head)?;
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(head) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if head.len() >= MAX_REQUEST_BYTES => {
            return Err(RequestFault::TooLong);
        }
        Ok(httparse::Status::Partial) => return check_method(&request).map(|()| None),
        Err(httparse::Error::TooManyHeaders) => return Err(RequestFault::TooLong),
        Err(httparse::Error::Version) => return Err(RequestFault::Version),
        Err(_) => return Err(RequestFault::Syntax),
    };
    if length > MAX_REQUEST_BYTES {
        return Err(RequestFault::TooLong);
    }
    check_method(&request)?;
    let (name, port) = read_authority(request.path.unwrap_or_default())?;
    check_headers(request.version, request.headers, &name, port)?;
    Ok(Some(ConnectRequest { name, port, length }))
}

/// The length of the request with the empty line at its end, if that is there.
fn head_length(bytes: &[u8]) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    let start = bytes.windows(END.len()).position(|window| window == END)?;
    Some(start + END.len())
}

/// Each line ends in CR LF, and neither stands anywhere else; the first line is not empty.
fn check_lines(head: &[u8]) -> Result<(), RequestFault> {
    let bare_lf = |(at, byte): (usize, &u8)| *byte == b'\n' && (at == 0 || head[at - 1] != b'\r');
    let bare_cr = |pair: &[u8]| pair[0] == b'\r' && pair[1] != b'\n';
    let starts_well = head.first().is_none_or(u8::is_ascii_uppercase);
    let fault = !starts_well
        || head.contains(&0)
        || head.iter().enumerate().any(bare_lf)
        || head.windows(2).any(bare_cr);
    if fault {
        Err(RequestFault::Syntax)
    } else {
        Ok(())
    }
}

fn check_method(request: &httparse::Request<'_, '_>) -> Result<(), RequestFault> {
    match request.method {
        None | Some("CONNECT") => Ok(()),
        Some(_) => Err(RequestFault::Method),
    }
}

/// Reads `name:port`, RFC 9112, section 3.2.3.
fn read_authority(authority: &str) -> Result<(HostName, u16), RequestFault> {
    let (host, port) = authority.rsplit_once(':').ok_or(RequestFault::Authority)?;
    match host.parse() {
        Ok(name) => Ok((name, read_port(port)?)),
        Err(_) if is_address_like(host) => Err(RequestFault::Address(authority.parse().ok())),
        Err(_) => Err(RequestFault::Authority),
    }
}

/// Whether some program may take it for an address: in brackets, or with a number at its end.
fn is_address_like(host: &str) -> bool {
    let last = host
        .trim_end_matches('.')
        .rsplit('.')
        .next()
        .unwrap_or_default();
    host.starts_with('[') || last.starts_with(|c: char| c.is_ascii_digit())
}

/// A port as everybody reads it: decimal digits without a sign or a leading zero.
fn read_port(text: &str) -> Result<u16, RequestFault> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let port = plain.then(|| text.parse().ok()).flatten();
    port.ok_or(RequestFault::Authority)
}

fn check_headers(
    version: Option<u8>,
    headers: &[httparse::Header<'_>],
    name: &HostName,
    port: u16,
) -> Result<(), RequestFault> {
    let mut hosts = 0;
    for header in headers {
        let value = header.value.trim_ascii();
        match header.name.to_ascii_lowercase().as_str() {
            "host" => {
                hosts += 1;
                check_host(value, name, port)?;
            }
            "content-length" if value == b"0" => {}
            "content-length" | "transfer-encoding" | "expect" | "upgrade" | "te" | "trailer" => {
                return Err(RequestFault::Header);
            }
            _ => {}
        }
    }
    // HTTP/1.0 had none: Python before 3.12 sends none.
    match (version, hosts) {
        (Some(0), 0) | (_, 1) => Ok(()),
        _ => Err(RequestFault::Host),
    }
}

/// `Host` may leave the port out: some clients always do.
fn check_host(value: &[u8], name: &HostName, port: u16) -> Result<(), RequestFault> {
    let value = str::from_utf8(value).map_err(|_| RequestFault::Syntax)?;
    let (host, agrees) = match value.rsplit_once(':') {
        Some((host, text)) => (host, read_port(text) == Ok(port)),
        None => (value, true),
    };
    match agrees && host.parse().as_ref() == Ok(name) {
        true => Ok(()),
        false => Err(RequestFault::OtherHost),
    }
}

#[cfg(test)]
mod tests;
