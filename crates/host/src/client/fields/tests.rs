use super::*;
use http::Request;

fn server() -> Server {
    Server::Internet {
        host: "192.0.2.1".into(),
        port: 8080,
        tls: false,
    }
}

fn prepared(request: request::Builder) -> Result<request::Parts, UpstreamError> {
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    prepare(&mut parts, &Body::from("body"), &server()).map(|()| parts)
}

fn names(headers: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn what_concerns_one_connection_stays_there() {
    let request = Request::post("/")
        .header("host", "one.example")
        .header("connection", "keep-alive, x-secret")
        .header("connection", "X-Other,, host")
        .header("x-secret", "1")
        .header("x-other", "2")
        .header("x-kept", "3")
        .header("keep-alive", "timeout=5")
        .header("proxy-connection", "keep-alive")
        .header("proxy-authorization", "Basic eDp5")
        .header("te", "trailers")
        .header("trailer", "x-sum")
        .header("expect", "100-continue");
    let parts = prepared(request).unwrap();
    assert_eq!(names(&parts.headers), ["host", "x-kept"]);
}

#[test]
fn framing_of_the_client_is_never_passed_on() {
    let request = Request::post("/")
        .header("host", "one.example")
        .header("content-length", "5")
        .header("transfer-encoding", "chunked");
    assert_eq!(names(&prepared(request).unwrap().headers), ["host"]);
}

#[test]
fn a_body_that_is_not_there_is_said_to_be_empty() {
    let told = |request: request::Builder, body: Body| {
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        prepare(&mut parts, &body, &server()).unwrap();
        parts.headers.get("content-length").cloned()
    };
    let zero = Some(HeaderValue::from_static("0"));
    let with_length = || Request::delete("/").header("content-length", "0");
    assert_eq!(told(with_length(), Body::Empty), zero);
    assert_eq!(told(Request::post("/"), Body::Empty), zero);
    assert_eq!(told(Request::get("/"), Body::Empty), None);
    // Whoever sends it says how long it is.
    assert_eq!(told(with_length(), Body::from("a")), None);
}

#[test]
fn fields_of_a_connection_are_taken_out_of_answers_too() {
    let response = http::Response::builder()
        .header("connection", "close, x-hop")
        .header("x-hop", "1")
        .header("transfer-encoding", "chunked")
        .header("content-length", "7")
        .header("content-type", "text/plain");
    let (mut parts, ()) = response.body(()).unwrap().into_parts();
    clean_response(&mut parts);
    assert_eq!(names(&parts.headers), ["content-type"]);
    let response = http::Response::builder().header("content-length", "7");
    let (mut parts, ()) = response.body(()).unwrap().into_parts();
    clean_response(&mut parts);
    assert_eq!(names(&parts.headers), ["content-length"]);
}

#[test]
fn a_host_in_the_target_decides() {
    let request = Request::get("http://two.example:81/a?b=c").header("host", "one.example");
    let parts = prepared(request).unwrap();
    assert_eq!(parts.uri, "/a?b=c");
    assert_eq!(parts.headers["host"], "two.example:81");
    let parts = prepared(Request::get("https://user:secret@two.example")).unwrap();
    assert_eq!(
        (parts.uri.to_string(), &parts.headers["host"]),
        ("/".into(), &HeaderValue::from_static("two.example"))
    );
}

#[test]
fn who_names_no_host_gets_the_servers() {
    let parts = prepared(Request::get("/")).unwrap();
    assert_eq!(parts.headers["host"], "192.0.2.1:8080");
    let v6 = Server::Internet {
        host: "2001:db8::1".into(),
        port: 443,
        tls: true,
    };
    assert_eq!(host_of(&v6).unwrap(), "[2001:db8::1]");
}

#[test]
fn cookies_of_http_2_become_one() {
    let request = Request::get("/")
        .version(Version::HTTP_2)
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .header("host", "x");
    let parts = prepared(request).unwrap();
    assert_eq!(parts.headers.get_all("cookie").iter().count(), 1);
    assert_eq!(parts.headers["cookie"], "a=1; b=2");
    assert_eq!(parts.version, Version::HTTP_11);
}

#[test]
fn tunnels_and_upgrades_are_refused() {
    let websocket = Request::get("/")
        .header("connection", "upgrade")
        .header("upgrade", "websocket");
    assert!(matches!(prepared(websocket), Err(UpstreamError::Upgrade)));
    assert!(matches!(
        prepared(Request::connect("one.example:443")),
        Err(UpstreamError::Tunnel)
    ));
    let offer = Request::get("/")
        .header("connection", "upgrade, http2-settings")
        .header("http2-settings", "AAMAAABkAARAAAAAAAIAAAAA")
        .header("upgrade", "h2c");
    assert_eq!(names(&prepared(offer).unwrap().headers), ["host"]);
}

#[test]
fn a_client_cannot_say_where_it_comes_from() {
    let cache = ForwardedCache::default();
    let request = Request::get("/")
        .header("host", "one.example")
        .header("x-forwarded-for", "203.0.113.1")
        .header("x-forwarded-port", "1")
        .header("x-real-ip", "203.0.113.1")
        .header("forwarded", "for=203.0.113.1");
    let mut headers = prepared(request).unwrap().headers;
    let peer = Peer {
        address: Some("[2001:db8::7]:1234".parse().unwrap()),
        tls_version: Some("TLSv1.3"),
        ..Peer::default()
    };
    cache.tell(&mut headers, &peer);
    let expected = [
        ("forwarded", "for=\"[2001:db8::7]\";proto=https"),
        ("host", "one.example"),
        ("x-forwarded-for", "2001:db8::7"),
        ("x-forwarded-host", "one.example"),
        ("x-forwarded-proto", "https"),
    ];
    let mut told: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    told.sort_unstable();
    assert_eq!(told, expected);
    // Another client at the same place of the cache, and the first again.
    for address in ["192.0.2.1:1", "192.0.2.32:1", "192.0.2.1:1"] {
        let peer = Peer {
            address: Some(address.parse().unwrap()),
            ..Peer::default()
        };
        cache.tell(&mut headers, &peer);
        assert_eq!(headers["x-forwarded-for"], address.trim_end_matches(":1"));
        assert_eq!(headers["x-forwarded-proto"], "http");
    }
    cache.tell(&mut headers, &Peer::default());
    assert_eq!(headers["forwarded"], "for=unknown;proto=http");
    assert!(!headers.contains_key("x-forwarded-for"));
}

#[test]
fn a_guest_is_told_about_its_client_by_the_server_alone() {
    let request = Request::get("http://user@one.example/path")
        .header("host", "forged.example")
        .header("x-forwarded-for", "198.51.100.1")
        .header("x-forwarded-proto", "https")
        .header("x-forwarded-host", "forged.example")
        .header("x-forwarded-prefix", "/forged")
        .header("forwarded", "for=198.51.100.1")
        .header("x-real-ip", "198.51.100.1");
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    let peer = Peer {
        address: Some("192.0.2.7:5000".parse().unwrap()),
        ..Peer::default()
    };
    ForwardedCache::default().tell_guest(&mut parts, &peer);
    let value = |name| parts.headers.get(name).map(|value| value.to_str().unwrap());
    assert_eq!(value("x-forwarded-for"), Some("192.0.2.7"));
    assert_eq!(value("x-forwarded-proto"), Some("http"));
    assert_eq!(value("x-forwarded-host"), Some("one.example"));
    assert_eq!(value("forwarded"), Some("for=192.0.2.7;proto=http"));
    assert_eq!(
        (value("x-forwarded-prefix"), value("x-real-ip")),
        (None, None)
    );
    assert_eq!(parts.uri, "http://user@one.example/path");
}

#[test]
fn a_client_takes_nothing_away_that_is_told_of_it() {
    let request = Request::get("/")
        .header("host", "one.example")
        .header(
            "connection",
            "x-forwarded-for, X-Forwarded-Proto, x-forwarded-host",
        )
        .header("connection", "forwarded, host");
    let mut headers = prepared(request).unwrap().headers;
    ForwardedCache::default().tell(
        &mut headers,
        &Peer {
            address: Some("192.0.2.1:1".parse().unwrap()),
            ..Peer::default()
        },
    );
    let expected = [
        "forwarded",
        "host",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
    ];
    assert_eq!(names(&headers), expected);
}
