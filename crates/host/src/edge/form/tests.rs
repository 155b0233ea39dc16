use super::*;
use http::Request;

/// The target and the host of a request in its form.
fn formed(version: Version, target: &str, host: Option<&str>) -> (String, Option<String>) {
    let mut request = Request::builder().version(version).uri(target);
    if let Some(host) = host {
        request = request.header(HOST, host);
    }
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    form(&mut parts, true, false).unwrap();
    let host = parts.headers.get(HOST);
    let host = host.map(|host| host.to_str().unwrap().to_owned());
    (parts.uri.to_string(), host)
}

#[test]
fn http_1_has_a_path_and_a_host() {
    for (target, host, form) in [
        ("/a", "b", ("/a", "b")),
        ("/a//b", "B.", ("/a/b", "b")),
        ("http://c:80/a?q", "b", ("/a?q", "c:80")),
        ("https://C", "b", ("/", "c")),
        ("http://c?q", "b", ("/?q", "c")),
        ("*", "b", ("*", "b")),
    ] {
        let (target_formed, host) = formed(Version::HTTP_11, target, Some(host));
        assert_eq!((&*target_formed, host.as_deref()), (form.0, Some(form.1)));
    }
    assert_eq!(formed(Version::HTTP_10, "/a", None), ("/a".into(), None));
}

#[test]
fn http_2_has_an_authority_and_the_connections_scheme() {
    for (target, host, form) in [
        ("https://a/b", None, "https://a/b"),
        ("http://a/b", None, "https://a/b"),
        ("http://A.:80/b//c?d", Some("a:80"), "https://a:80/b/c?d"),
    ] {
        let of = formed(Version::HTTP_2, target, host);
        assert_eq!(of, (form.to_owned(), None));
    }
}

#[test]
fn what_has_no_form_is_told() {
    let of = |request: http::request::Builder| {
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        form(&mut parts, false, false)
    };
    assert_eq!(of(Request::get("/%00")), Err(Formless::Path));
    let twice = Request::get("/").header("range", "a").header("range", "b");
    assert_eq!(of(twice), Err(Formless::Repeated));
}
