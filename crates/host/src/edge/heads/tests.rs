use super::*;

/// What comes of bytes in pieces of one size: those that hyper gets, and whether it is refused behind them.
fn look(bytes: &[u8], piece: usize) -> (Vec<u8>, bool) {
    let mut heads = Heads::new();
    let mut passed = Vec::new();
    for piece in bytes.chunks(piece) {
        let mut piece = piece.to_vec();
        match heads.look(&mut piece) {
            Ok(()) => passed.extend(piece),
            Err(Unclear { at }) => {
                passed.extend(&piece[..at]);
                return (passed, true);
            }
        }
    }
    (passed, false)
}

fn looked_at(bytes: &str) -> (String, bool) {
    let whole = look(bytes.as_bytes(), bytes.len());
    for piece in 1..bytes.len() {
        assert_eq!(look(bytes.as_bytes(), piece), whole, "{bytes:?} by {piece}");
    }
    (String::from_utf8(whole.0).unwrap(), whole.1)
}

#[test]
fn what_is_clear_passes_as_it_is() {
    for bytes in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.0\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\n\n\n\n\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length:0\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n2;x\r\n\n\n\r\nA\r\n0123\n56789\r\n0\r\nx: 1\r\n\r\n\
         POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n\n\n",
        // Refused behind, by hyper: nothing is to be looked at.
        "POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n\n\n",
        "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n\n\n",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\na\r\n",
    ] {
        assert_eq!(looked_at(bytes), (bytes.to_owned(), false));
    }
}

#[test]
fn what_is_unclear_stops_before_its_end() {
    for (passed, rest) in [
        ("", "\nGET / HTTP/1.1\r\n\r\n"),
        ("GET / HTTP/1.1", "\nhost: a\r\n\r\n"),
        ("GET / HTTP/1.1\r\nhost: a", "\n\r\n"),
        ("GET / HTTP/1.1\r\nhost: a\r\n", "\n"),
        (
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r",
            "\n\r\n",
        ),
        (
            "POST / HTTP/1.1\r\nTransfer-Encoding:chunked\r\nx: 1\r\nCONTENT-LENGTH: 1\r",
            "\n\r\n",
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r",
            "\n\r\na",
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\naGET / HTTP/1.1",
            "\n",
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: 1",
            "\n\r\n",
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
            "\n",
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET",
            "\n",
        ),
    ] {
        let looked_at = looked_at(&format!("{passed}{rest}"));
        assert_eq!(looked_at, (passed.to_owned(), true));
    }
}

#[test]
fn a_higher_minor_version_is_the_highest_that_is_known() {
    for (bytes, expected) in [
        (
            "GET / HTTP/1.2\r\nx: HTTP/1.2\r\n\r\n",
            "GET / HTTP/1.1\r\nx: HTTP/1.2\r\n\r\n",
        ),
        ("\r\nGET / HTTP/1.9\r\n\r\n", "\r\nGET / HTTP/1.1\r\n\r\n"),
        ("GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"),
        ("GET / HTTP/2.3\r\n\r\n", "GET / HTTP/2.3\r\n\r\n"),
        (
            "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.3\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ),
    ] {
        assert_eq!(looked_at(bytes), (expected.to_owned(), false));
    }
}
