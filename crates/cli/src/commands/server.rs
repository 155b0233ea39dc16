//! A server that runs already, asked at its admin socket.

use crate::args::ServerArgs;
use anyhow::{Context, anyhow, bail};
use palisade_command_line::read;
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

/// A configuration is written by hand.
const MOST_FILE_BYTES: u64 = 4 << 20;
/// What a server tells of itself.
const MOST_ANSWER_BYTES: u64 = 64 << 20;
/// A reload may have to compile.
const PATIENCE: Duration = Duration::from_secs(600);

/// Where a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Internet(SocketAddr),
    Unix(PathBuf),
}

/// What it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Asks the server that is meant.
pub(crate) fn ask(server: &ServerArgs, method: &str, path: &str) -> anyhow::Result<Answer> {
    let address = find(server)?;
    let unreachable = || format!("host: cannot reach the server at {address}: does it run?");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    let answer = match &address {
        Address::Internet(address) => {
            let stream = TcpStream::connect_timeout(address, Duration::from_secs(5));
            let stream = stream.with_context(unreachable)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(stream, &head)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).with_context(unreachable)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(stream, &head)
        }
    };
    answer.with_context(|| format!("host: the server at {address} did not answer"))
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Internet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn exchange(mut stream: impl Read + Write, head: &str) -> anyhow::Result<Answer> {
    stream.write_all(head.as_bytes())?;
    let answer = read::read_at_most(stream, MOST_ANSWER_BYTES)?;
    read_answer(&answer).ok_or_else(|| anyhow!("what it said is no answer of HTTP"))
}

/// The server closes the connection after its answer, and says its length.
fn read_answer(bytes: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    // Less than it said is half an answer.
    (length? == body.len()).then(|| Answer {
        status,
        body: body.to_owned(),
    })
}

fn find(server: &ServerArgs) -> anyhow::Result<Address> {
    if let Some(text) = &server.admin {
        return parse(text, Path::new(".")).with_context(|| {
            format!("usage: --admin takes ADDRESS:PORT or unix:PATH, and not {text}")
        });
    }
    let file = server.file.display();
    let text = read_configuration(&server.file)?;
    let canonical = fs::canonicalize(&server.file)?;
    let base = canonical.parent().unwrap_or(Path::new("/"));
    match admin_of(&text) {
        Some(admin) => {
            parse(&admin, base).with_context(|| format!("policy: {file}: `admin` is {admin}"))
        }
        None => bail!(
            "policy: {file} has no `admin`: add `admin = \"unix:admin.sock\"` and start the server anew; \
             without it, SIGHUP reloads"
        ),
    }
}

/// What a server's file says.
pub(crate) fn read_configuration(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let bytes = read::read_regular_file(file, MOST_FILE_BYTES).with_context(|| {
        format!("host: cannot read {shown}, which says where its server and logs are")
    })?;
    read::text_of(bytes).with_context(|| format!("host: cannot read {shown}"))
}

/// The key `admin`. Everything else is the server's to read, and whether it can: a file that is broken elsewhere is when
/// somebody asks how its server is.
fn admin_of(text: &str) -> Option<String> {
    let (document, _) = toml::de::DeTable::parse_recoverable(text);
    let admin = document.get_ref().get("admin")?.get_ref().as_str();
    admin
        .filter(|admin| !admin.is_empty())
        .map(ToOwned::to_owned)
}

fn parse(text: &str, base: &Path) -> anyhow::Result<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = palisade_policy::value::parse_path(path, base);
        return Ok(Address::Unix(path?));
    }
    let address = text.strip_prefix("tcp://").unwrap_or(text);
    Ok(Address::Internet(address.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let read = |text: &str| read_answer(text.as_bytes());
        let whole = read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        assert_eq!((whole.status, &*whole.body), (200, "ok"));
        assert_eq!(
            read("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok"),
            None,
            "half an answer"
        );
        assert_eq!(read("SSH-2.0-OpenSSH"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn addresses() {
        let base = Path::new("/srv");
        assert_eq!(
            parse("unix:run/a.sock", base).unwrap(),
            Address::Unix("/srv/run/a.sock".into())
        );
        assert_eq!(
            parse("tcp://127.0.0.1:9", base).unwrap().to_string(),
            "127.0.0.1:9"
        );
        assert!(parse("9000", base).is_err());
        assert_eq!(admin_of("admin = 'unix:a'\n[x]").as_deref(), Some("unix:a"));
        assert_eq!(admin_of("workers = 3"), None);
        assert_eq!(admin_of("admin = "), None);
        assert_eq!(admin_of("[x]\nadmin = 'unix:b'\n"), None);
        for broken in [
            "[[rout",
            "workers = = 2",
            "a = \"no end",
            "\u{1}",
            "x = [1, ",
            "}",
        ] {
            for text in [
                format!("admin = 'unix:a'\n{broken}"),
                format!("{broken}\nadmin = 'unix:a'\n"),
            ] {
                let found = admin_of(&text);
                let is_above = text.starts_with("admin");
                assert!(
                    found.is_none() || found.as_deref() == Some("unix:a"),
                    "{text}"
                );
                assert!(!is_above || found.is_some(), "{text}");
            }
        }
    }
}
