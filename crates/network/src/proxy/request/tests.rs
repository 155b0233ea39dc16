use super::*;

fn read(text: &str) -> String {
    match read_request(text.as_bytes()) {
        Ok(Some(request)) => {
            let rest = &text[request.length..];
            format!("{}:{} then {rest:?}", request.name, request.port)
        }
        Ok(None) => "more".into(),
        Err(fault) => format!("{fault:?}"),
    }
}

#[test]
fn what_clients_send() {
    for (request, read_as) in [
        // curl
        (
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nUser-Agent: curl/7.88.1\r\n\
             Proxy-Connection: Keep-Alive\r\n\r\n",
            "a.example:443 then \"\"",
        ),
        // Go
        (
            "CONNECT a.example:8443 HTTP/1.1\r\nHost: a.example:8443\r\nUser-Agent: Go-http-client/1.1\r\n\r\n",
            "a.example:8443 then \"\"",
        ),
        // Python before 3.12
        (
            "CONNECT a.example:443 HTTP/1.0\r\n\r\n",
            "a.example:443 then \"\"",
        ),
        (
            "CONNECT A.Example:443 HTTP/1.1\r\nhOST:a.example\r\n\r\n",
            "a.example:443 then \"\"",
        ),
        (
            "CONNECT a.example.:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
            "a.example:443 then \"\"",
        ),
        (
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n",
            "a.example:443 then \"\"",
        ),
        (
            "CONNECT a.example:443 HTTP/1.0\r\nProxy-Authorization: Basic eA==\r\n\r\n\x16\x03\x01",
            "a.example:443 then \"\\u{16}\\u{3}\\u{1}\"",
        ),
    ] {
        assert_eq!(read(request), read_as, "{request}");
        for length in 0..request.find("\r\n\r\n").unwrap() + 3 {
            assert_eq!(read(&request[..length]), "more", "{:?}", &request[..length]);
        }
    }
}

#[test]
fn other_methods_and_forms() {
    for (request, fault) in [
        (
            "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Method",
        ),
        ("GET / HTTP/1.1\r\n", "Method"),
        ("OPTIONS * HTTP/1.1\r\n\r\n", "Method"),
        (
            "POST a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
            "Method",
        ),
        ("connect a.example:443 HTTP/1.1\r\n\r\n", "Syntax"),
        (
            "CONNECT http://a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT a.example:443/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT a.example: HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT a.example:0 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT a.example:0443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT a.example:+443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT a.example:65536 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT a.example:443:80 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT b@a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT a.example%00.b:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT *.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Authority",
        ),
        (
            "CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n",
            "Address(Some(127.0.0.1:443))",
        ),
        (
            "CONNECT 2130706433:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Address(None)",
        ),
        (
            "CONNECT 0x7f.1:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Address(None)",
        ),
        (
            "CONNECT 127.0.0.1.:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "Address(None)",
        ),
        (
            "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n",
            "Address(Some([::1]:443))",
        ),
        ("CONNECT a.example:443 HTTP/2.0\r\n\r\n", "Version"),
        ("CONNECT a.example:443 HTTP/1.2\r\n\r\n", "Version"),
        ("CONNECT a.example:443\r\n\r\n", "Syntax"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "Version"),
        ("\x16\x03\x01\x02\0", "Syntax"),
        ("\x05\x01\0", "Syntax"),
        ("\r\nCONNECT a.example:443 HTTP/1.1\r\n\r\n", "Syntax"),
    ] {
        assert_eq!(read(request), fault, "{request}");
    }
}

#[test]
fn headers_that_disagree_or_smuggle() {
    let start = "CONNECT a.example:443 HTTP/1.1\r\n";
    for (headers, fault) in [
        ("", "Host"),
        ("Host: a.example\r\nHost: a.example\r\n", "Host"),
        ("Host: a.example\r\nhost: b.example\r\n", "OtherHost"),
        ("Host: b.example\r\n", "OtherHost"),
        ("Host: b.example:443\r\n", "OtherHost"),
        ("Host: a.example:80\r\n", "OtherHost"),
        ("Host: a.example:\r\n", "OtherHost"),
        ("Host: a.example, b.example\r\n", "OtherHost"),
        ("Host: a.example@b.example\r\n", "OtherHost"),
        ("Host:\r\n", "OtherHost"),
        ("Host: 127.0.0.1\r\n", "OtherHost"),
        ("Host: a.example\r\nContent-Length: 4\r\n", "Header"),
        ("Host: a.example\r\ncontent-length: 00\r\n", "Header"),
        (
            "Host: a.example\r\nTransfer-Encoding: chunked\r\n",
            "Header",
        ),
        ("Host: a.example\r\nExpect: 100-continue\r\n", "Header"),
        ("Host: a.example\r\nUpgrade: websocket\r\n", "Header"),
        ("Host : a.example\r\n", "Syntax"),
        ("Host: a.example\r\n b.example\r\n", "Syntax"),
        ("Host: a.example\r\n\tX: y\r\n", "Syntax"),
        ("Host: a.example\nX: y\r\n", "Syntax"),
        ("Host: a.example\rX: y\r\n", "Syntax"),
        ("Host: a.example\0\r\n", "Syntax"),
        ("Ho st: a.example\r\n", "Syntax"),
        (": a.example\r\n", "Syntax"),
    ] {
        assert_eq!(read(&format!("{start}{headers}\r\n")), fault, "{headers:?}");
    }
    assert_eq!(
        read("CONNECT a.example:443 HTTP/1.1\nHost: a.example\n\n"),
        "Syntax"
    );
    assert_eq!(
        read("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\n"),
        "Syntax"
    );
}

#[test]
fn what_is_too_long() {
    let start = "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n";
    let long = format!("{start}X: {}", "x".repeat(MAX_REQUEST_BYTES));
    assert_eq!(read(&long), "TooLong");
    assert_eq!(read(&format!("{long}\r\n\r\n")), "TooLong");
    let fits = "x".repeat(MAX_REQUEST_BYTES - start.len() - "X: \r\n\r\n".len());
    assert_eq!(
        read(&format!("{start}X: {fits}\r\n\r\n")),
        "a.example:443 then \"\""
    );
    assert_eq!(read(&format!("{start}X: {fits}x\r\n\r\n")), "TooLong");
    let many = "X: y\r\n".repeat(MAX_HEADERS);
    assert_eq!(read(&format!("{start}{many}\r\n")), "TooLong");
    let endless_name = format!("CONNECT {}", "a".repeat(MAX_REQUEST_BYTES));
    assert_eq!(read(&endless_name), "TooLong");
}

/// What comes after the request does not change how it is read.
#[test]
fn the_request_ends_at_its_empty_line() {
    let request = "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n";
    for rest in [
        "\n\0\r",
        "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n",
        "CONNECT b.example:443 HTTP/1.1\r\n\r\n",
    ] {
        assert_eq!(
            read(&format!("{request}{rest}")),
            format!("a.example:443 then {rest:?}")
        );
    }
    let long = "x".repeat(2 * MAX_REQUEST_BYTES);
    assert!(read(&format!("{request}{long}")).starts_with("a.example:443"));
}
