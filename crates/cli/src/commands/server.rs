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

/// A server's token has 256 bytes at most, and an end of its line.
const MOST_TOKEN_BYTES: u64 = 258;

/// What a server answers that wants its token (RFC 9110, section 15.5.2).
const UNAUTHORIZED: u16 = 401;

/// Where a server is reached, and what it wants to be told.
#[derive(Debug)]
struct Place {
    address: Address,
    token_file: Option<PathBuf>,
}

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
    let Place {
        address,
        token_file,
    } = find(server)?;
    let token_file = server.token_file.as_ref().or(token_file.as_ref());
    let token = token_file.map(|path| read_token(path)).transpose()?;
    let authorization = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let authorization = authorization.unwrap_or_default();
    let unreachable = || format!("host: cannot reach the server at {address}: does it run?");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{authorization}content-length: 0\r\nconnection: close\r\n\r\n"
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
    let answer = answer.with_context(|| format!("host: the server at {address} did not answer"))?;
    if answer.status == UNAUTHORIZED {
        bail!("host: the server at {address} wants its token: --token-file names the file with it");
    }
    Ok(answer)
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

/// What the server would take for one: nothing else goes out.
fn read_token(path: &Path) -> anyhow::Result<String> {
    let read = || -> anyhow::Result<String> {
        let bytes = read::read_regular_file(path, MOST_TOKEN_BYTES)?;
        let text = read::text_of(bytes)?;
        let token = text.trim_ascii_end();
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        anyhow::ensure!(
            token.len() >= 32 && token.bytes().all(is_token),
            "it is not 32 to 256 letters, digits and any of -._~+/="
        );
        Ok(token.to_owned())
    };
    let file = path.display();
    read().with_context(|| format!("host: cannot read the server's token in {file}"))
}

fn find(server: &ServerArgs) -> anyhow::Result<Place> {
    if let Some(text) = &server.admin {
        let address = parse(text, Path::new(".")).with_context(|| {
            format!("usage: --admin takes ADDRESS:PORT or unix:PATH, and not {text}")
        })?;
        return Ok(Place {
            address,
            token_file: None,
        });
    }
    let file = server.file.display();
    let text = read_configuration(&server.file)?;
    let canonical = fs::canonicalize(&server.file)?;
    let base = canonical.parent().unwrap_or(Path::new("/"));
    match admin_of(&text) {
        Some((admin, token_file)) => {
            let shown = || format!("policy: {file}: `admin` is {admin}");
            Ok(Place {
                address: parse(&admin, base).with_context(shown)?,
                token_file: token_file
                    .map(|path| palisade_policy::value::parse_path(&path, base))
                    .transpose()
                    .with_context(shown)?,
            })
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

/// The key `admin`: an address, and the file of a token. Everything else is the server's to read, and whether it can: a file that is broken elsewhere is when
/// somebody asks how its server is.
fn admin_of(text: &str) -> Option<(String, Option<String>)> {
    let (document, _) = toml::de::DeTable::parse_recoverable(text);
    let admin = document.get_ref().get("admin")?.get_ref();
    let owned = |value: &toml::de::DeValue| {
        let text = value.as_str().filter(|text| !text.is_empty());
        text.map(ToOwned::to_owned)
    };
    let Some(table) = admin.as_table() else {
        return Some((owned(admin)?, None));
    };
    let key = |name| table.get(name).and_then(|value| owned(value.get_ref()));
    Some((key("listen")?, key("token-file")))
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

    /// What is in the file cannot be another field of the request.
    #[test]
    fn tokens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = "0123456789abcdef0123456789abcdef";
        fs::write(&path, format!("{token}\n")).unwrap();
        assert_eq!(read_token(&path).unwrap(), token);
        for wrong in [
            "",
            "short",
            &format!("{token}\r\nx: y"),
            &format!("{token} x"),
            &"x".repeat(300),
        ] {
            fs::write(&path, wrong).unwrap();
            assert!(read_token(&path).is_err(), "{wrong:?}");
        }
        assert!(read_token(folder.path()).is_err());
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
        let with_token = "admin = { listen = '10.0.0.1:9', token-file = 't' }";
        assert_eq!(
            admin_of(with_token),
            Some(("10.0.0.1:9".into(), Some("t".into())))
        );
        let admin_of = |text: &str| admin_of(text).map(|(address, _)| address);
        assert_eq!(admin_of("admin = { token-file = 't' }"), None);
        assert_eq!(
            admin_of("[admin]\nlisten = 'unix:c'").as_deref(),
            Some("unix:c")
        );
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
