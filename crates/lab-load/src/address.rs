//! Where a server is, and what it is asked for.

use anyhow::{Context, ensure};
use std::{net::SocketAddr, str::FromStr};

/// `http://ADDRESS:PORT/PATH`: an address and no name, for nothing is looked up while something is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) server: SocketAddr,
    /// As it was given.
    pub(crate) url: String,
    /// All bytes of a request.
    pub(crate) request: Vec<u8>,
    path: String,
}

impl Address {
    /// The same, for requests that post a body.
    pub(crate) fn posting(self, body: &[u8]) -> Self {
        let Self { server, path, .. } = &self;
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {server}\r\nContent-Length: {length}\r\n\r\n");
        Self {
            request: [head.as_bytes(), body].concat(),
            ..self
        }
    }
}

impl Address {
    /// Each line of a list: a URL, and behind it the host that is asked for, where that is another one than the
    /// server's address.
    ///
    /// # Errors
    ///
    /// When a line is no such address, or there is none.
    pub(crate) fn listed(list: &str) -> anyhow::Result<Vec<Self>> {
        let addresses: Vec<Self> = list.lines().map(Self::of_line).collect::<Result<_, _>>()?;
        ensure!(!addresses.is_empty(), "the list has no address");
        Ok(addresses)
    }

    fn of_line(line: &str) -> anyhow::Result<Self> {
        let Some((url, host)) = line.split_once(' ') else {
            return line.parse();
        };
        let address: Self = url.parse()?;
        let path = &address.path;
        Ok(Self {
            request: format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes(),
            ..address
        })
    }
}

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(url: &str) -> anyhow::Result<Self> {
        let rest = url.strip_prefix("http://");
        let rest = rest.with_context(|| format!("{url} does not begin with http://"))?;
        let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self {
            server: server.parse().with_context(|| {
                format!("{url} has no address and port after http://, as in http://127.0.0.1:80/")
            })?,
            url: url.to_owned(),
            request: format!("GET {path} HTTP/1.1\r\nHost: {server}\r\n\r\n").into_bytes(),
            path: path.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_server_and_a_path() {
        let address: Address = "http://127.0.0.1:8080/a/b?c".parse().unwrap();
        assert_eq!(address.server, "127.0.0.1:8080".parse().unwrap());
        let request = "GET /a/b?c HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
        assert_eq!(address.request, request.as_bytes());
        let root: Address = "http://[::1]:80".parse().unwrap();
        assert!(
            root.request
                .starts_with(b"GET / HTTP/1.1\r\nHost: [::1]:80")
        );
    }

    #[test]
    fn a_body_is_posted_with_its_length() {
        let address: Address = "http://127.0.0.1:8080/grey".parse().unwrap();
        let request =
            "POST /grey HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 3\r\n\r\nP6\n";
        assert_eq!(address.posting(b"P6\n").request, request.as_bytes());
    }

    #[test]
    fn a_list_may_name_hosts() {
        let list =
            Address::listed("http://127.0.0.1:80/a\nhttp://127.0.0.1:80/b s1.lab\n").unwrap();
        assert!(list[0].request.ends_with(b"Host: 127.0.0.1:80\r\n\r\n"));
        assert_eq!(list[1].request, b"GET /b HTTP/1.1\r\nHost: s1.lab\r\n\r\n");
        assert!(Address::listed("").is_err() && Address::listed("s1.lab").is_err());
    }

    #[test]
    fn a_name_is_not_looked_up() {
        for url in [
            "http://localhost:80/",
            "127.0.0.1:80/",
            "http://127.0.0.1/",
            "",
        ] {
            assert!(url.parse::<Address>().is_err(), "{url}");
        }
    }
}
