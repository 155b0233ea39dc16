use super::*;
use std::{fs, os::unix::fs::PermissionsExt};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn fields(of: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in of {
        let name = HeaderName::try_from(*name).unwrap();
        headers.append(name, HeaderValue::try_from(*value).unwrap());
    }
    headers
}

fn gate(address: &str, token: Option<&str>) -> Gate {
    let address = match address.strip_prefix("unix:") {
        Some(path) => Address::Unix(path.into()),
        None => Address::Internet(address.parse().unwrap()),
    };
    Gate::new(&address, token.map(|token| Token(token.as_bytes().into())))
}

fn passes(gate: &Gate, of: &[(&str, &str)]) -> bool {
    gate.pass(&fields(of)).is_ok()
}

#[test]
fn a_port_of_the_loopback_is_asked_by_its_address() {
    let gate = gate("127.0.0.1:9", None);
    for host in [
        "127.0.0.1",
        "localhost:9",
        "LocalHost",
        "127.0.0.2",
        "[::1]:80",
    ] {
        assert!(passes(&gate, &[("host", host)]), "{host}");
    }
    for host in [
        "attacker.example",
        "localhost.attacker.example",
        "192.0.2.1",
        "a@127.0.0.1",
        "word",
        "",
    ] {
        assert!(!passes(&gate, &[("host", host)]), "{host}");
    }
    assert!(!passes(&gate, &[]));
    assert!(!passes(
        &gate,
        &[("host", "localhost"), ("host", "localhost")]
    ));
}

/// A browser gets to a Unix socket through a tunnel, as `ssh -L` makes it.
#[test]
fn a_unix_socket_is_not_asked_by_names_of_the_network() {
    let gate = gate("unix:/run/admin.sock", None);
    for host in ["localhost:9000", "127.0.0.1", "[::1]", "x", "palisade"] {
        assert!(passes(&gate, &[("host", host)]), "{host}");
    }
    for host in [
        "attacker.example",
        "attacker.example:9000",
        "10.0.0.1",
        "a@b",
        "",
    ] {
        assert!(!passes(&gate, &[("host", host)]), "{host}");
    }
    assert!(!passes(&gate, &[]));
}

#[test]
fn no_other_page_makes_a_browser_ask() {
    let token = format!("Bearer {SECRET}");
    for (address, token, given) in [
        ("127.0.0.1:9", None, None),
        ("unix:/run/admin.sock", None, None),
        ("192.0.2.1:9", Some(SECRET), Some(token.as_str())),
    ] {
        let gate = gate(address, token);
        let passes = |more: &[(&str, &str)]| {
            let mut of = vec![("host", "localhost")];
            of.extend(given.map(|token| ("authorization", token)));
            of.extend(more);
            passes(&gate, &of)
        };
        let fetched = |site, dest| [("sec-fetch-site", site), ("sec-fetch-dest", dest)];
        assert!(passes(&[]), "a program");
        assert!(
            passes(&fetched("none", "document")),
            "who types the address"
        );
        assert!(passes(&fetched("same-origin", "empty")), "our own page");
        for (site, dest) in [
            ("cross-site", "document"),
            ("cross-site", "image"),
            ("same-site", "empty"),
            ("same-origin", "iframe"),
            ("none", "iframe"),
            ("same-origin", "script"),
            ("", "empty"),
        ] {
            assert!(!passes(&fetched(site, dest)), "{site} {dest}");
        }
        assert!(!passes(&[("origin", "http://localhost")]));
        assert!(!passes(&[("origin", "null")]));
        let two = [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "cross-site"),
        ];
        assert!(!passes(&two));
    }
}

#[test]
fn whoever_has_no_token_is_not_answered() {
    let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
    for address in [
        "192.0.2.1:9",
        "127.0.0.1:9",
        "unix:/run/admin.sock",
        "[::]:9",
    ] {
        let gate = gate(address, Some(SECRET));
        let with =
            |given: &str| gate.pass(&fields(&[("host", "localhost"), ("authorization", given)]));
        for right in [
            format!("Bearer {SECRET}"),
            format!("bearer {SECRET} "),
            basic(&format!("x:{SECRET}")),
            basic(&format!(":{SECRET}")),
        ] {
            assert_eq!(with(&right), Ok(()), "{right}");
        }
        for wrong in [
            String::new(),
            "Bearer".into(),
            "Bearer ".into(),
            format!("Bearer {}", &SECRET[1..]),
            format!("Bearer {SECRET}0"),
            format!("Bearer {}", SECRET.to_uppercase()),
            format!("Digest {SECRET}"),
            basic(SECRET),
            basic(&format!("{SECRET}:")),
            basic(&format!("x:{SECRET}x")),
            format!("Basic {SECRET}"),
        ] {
            assert_eq!(with(&wrong), Err(Refused::NoToken), "{wrong}");
        }
        assert_eq!(
            gate.pass(&fields(&[("host", "localhost")])),
            Err(Refused::NoToken)
        );
        let right = format!("Bearer {SECRET}");
        let two = [
            ("host", "localhost"),
            ("authorization", &right),
            ("authorization", &right),
        ];
        assert_eq!(gate.pass(&fields(&two)), Err(Refused::NoToken));
    }
}

/// No configuration says so; should one ever come this far, it opens nothing.
#[test]
fn nothing_is_open_to_the_network_without_a_token() {
    for address in ["192.0.2.1:9", "0.0.0.0:9", "[::]:9"] {
        let headers = fields(&[("host", "localhost")]);
        assert_eq!(
            gate(address, None).pass(&headers),
            Err(Refused::NoToken),
            "{address}"
        );
    }
}

#[test]
fn a_new_token_takes_the_old_ones_place() {
    let gate = gate("127.0.0.1:9", Some(SECRET));
    let new = SECRET.replace('0', "1");
    gate.set_token(Some(Token(new.as_bytes().into())));
    let with = |token: &str| {
        passes(
            &gate,
            &[
                ("host", "localhost"),
                ("authorization", &format!("Bearer {token}")),
            ],
        )
    };
    assert!(with(&new) && !with(SECRET));
    gate.set_token(None);
    assert!(passes(&gate, &[("host", "localhost")]));
}

#[test]
fn a_token_is_a_private_file_with_something_long_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let read = |text: &str, mode: u32| {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Token::read(&path)
    };
    for (text, mode) in [
        (SECRET.to_owned(), 0o600),
        (format!("{SECRET}\n"), 0o400),
        ("a/+=".repeat(64), 0o600),
    ] {
        let token = read(&text, mode).unwrap();
        assert!(token.is(text.trim_end().as_bytes()));
        assert!(!format!("{token:?}").contains(&text[..8]), "no log has it");
    }
    for text in [
        String::new(),
        "short".into(),
        SECRET[1..].into(),
        format!("{SECRET} "),
        "x".repeat(257),
        format!("{SECRET}\nmore"),
        format!("{SECRET}ü"),
    ] {
        let is_token = text.trim_ascii_end().len() == SECRET.len();
        assert_eq!(read(&text, 0o600).is_ok(), is_token, "{text:?}");
    }
    for mode in [0o604, 0o640, 0o660, 0o620, 0o644, 0o666] {
        let error = read(SECRET, mode).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{mode:o}: {error}");
    }
    assert!(Token::read(folder.path()).is_err(), "a folder");
    assert!(Token::read(&folder.path().join("none")).is_err());
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(Token::read(&fifo).is_err(), "and it waits for nobody");
}

/// As LoadCredential= of systemd or `install -o root -g palisade -m 640` have it.
#[test]
fn a_group_may_read_what_is_roots() {
    let stat = |owner: u32, mode: u32| {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("token")).unwrap();
        let mut stat = rustix::fs::fstat(&file).unwrap();
        stat.st_uid = owner;
        stat.st_mode = FileType::RegularFile.as_raw_mode() | mode;
        stat
    };
    assert_eq!(not_private(&stat(0, 0o440), 1000), None);
    assert_eq!(not_private(&stat(0, 0o640), 1000), None);
    assert_eq!(not_private(&stat(1000, 0o600), 1000), None);
    for (owner, mode, user) in [
        (0, 0o444, 1000),
        (0, 0o660, 1000),
        (1000, 0o640, 1000),
        (0, 0o640, 0),
        (1001, 0o600, 1000),
        (1000, 0o600, 0),
    ] {
        assert!(
            not_private(&stat(owner, mode), user).is_some(),
            "{owner} {mode:o} {user}"
        );
    }
}
