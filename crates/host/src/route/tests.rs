use super::*;
use http::Request;

fn route(path: &str) -> config::Route {
    config::Route {
        name: String::new(),
        host: None,
        path: path.to_owned(),
        methods: Vec::new(),
        headers: Vec::new(),
        strip: false,
        ambiguous_paths: crate::path::Ambiguities::default(),
        filters: Vec::new(),
        service: String::new(),
    }
}

fn for_host(host: &str) -> config::Route {
    config::Route {
        host: Some(host.to_owned()),
        ..route("/")
    }
}

fn request(target: &str, fields: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

#[test]
fn a_path_fits_by_whole_segments() {
    let fits = |prefix: &str, target: &str| {
        Routes::new(&[route(prefix)])
            .find(&request(target, &[]))
            .is_some()
    };
    for (prefix, target) in [
        ("/", "/"),
        ("/", "/a/b"),
        ("/", "*"),
        ("/", "host:1"),
        ("/api", "/api"),
        ("/api", "/api/"),
        ("/api", "/api/x?/y"),
        ("/api/", "/api"),
        ("/a/b", "/a/b/c"),
        ("/@me", "/%40me/x"),
        ("/%40me", "/@me"),
        ("/a b", "/a%20b"),
        ("/ä", "/%C3%A4"),
        ("/%c3%a4", "/%C3%A4"),
        ("/%61pi", "/api"),
    ] {
        assert!(fits(prefix, target), "{prefix} {target}");
    }
    for (prefix, target) in [
        ("/api", "/"),
        ("/api", "/apis"),
        ("/api", "/ap"),
        ("/api", "/API"),
        ("/api", "/x/api"),
        ("/api", "*"),
        ("/api", "host:1"),
        ("/a/b", "/a"),
        ("/a/b", "/a%2Fb"),
        ("/a", "/a%2Fb"),
        ("/@me", "/%40"),
    ] {
        assert!(!fits(prefix, target), "{prefix} {target}");
    }
}

/// However a path is written, the route that it finds is the one that its normal form finds.
#[test]
fn routing_sees_what_the_service_gets() {
    let routes = Routes::new(&[route("/admin"), route("/a/b"), route("/public"), route("/")]);
    for (target, expected) in [
        ("/%61dmin", 0),
        ("/public/../admin/x", 0),
        ("/public/%2e%2e/admin", 0),
        ("//admin", 0),
        ("/./admin", 0),
        ("/a//b", 1),
        ("/admin/../public", 2),
        ("/a%2Fb", 3),
        ("/public%2F", 3),
    ] {
        let mut request = request(target, &[]);
        if let Some(normal) = crate::path::normalize(&request.uri).unwrap() {
            request.uri = normal;
        }
        assert_eq!(routes.find(&request), Some(expected), "{target}");
    }
}

#[test]
fn the_rest_is_what_follows_the_routes_own_path() {
    let routes = Routes::new(&[route("/"), route("/a/@me/")]);
    assert_eq!(routes.rest(0, "/x/y"), "/x/y");
    assert_eq!(routes.rest(0, "/"), "/");
    assert_eq!(routes.rest(1, "/a/@me"), "");
    assert_eq!(routes.rest(1, "/a/%40me/"), "/");
    assert_eq!(routes.rest(1, "/a/%40me/x/y"), "/x/y");
    assert_eq!(routes.rest(0, "*"), "");
}

#[test]
fn hosts_are_names_wildcards_and_addresses() {
    let fits = |host: &str, asked: &str| {
        let routes = Routes::new(&[for_host(host)]);
        routes.find(&request("/", &[("host", asked)])).is_some()
    };
    for (host, asked) in [
        ("example.com", "example.com"),
        ("example.com", "EXAMPLE.com:8080"),
        ("Example.Com", "example.com."),
        ("example.com", "example.com.:1"),
        ("*.example.com", "a.example.com"),
        ("*.example.com", "a.b.EXAMPLE.com:1"),
        ("127.0.0.1", "127.0.0.1:80"),
        ("::1", "[::1]:80"),
        ("[::1]", "[0:0::1]"),
    ] {
        assert!(fits(host, asked), "{host} {asked}");
    }
    for (host, asked) in [
        ("example.com", "a.example.com"),
        ("example.com", "example.com.evil"),
        ("example.com", ""),
        ("*.example.com", "example.com"),
        ("*.example.com", ".example.com"),
        ("*.example.com", "xexample.com"),
        ("::1", "[::2]"),
        ("::1", "::1"),
        ("::1", "["),
    ] {
        assert!(!fits(host, asked), "{host} {asked}");
    }
    assert_eq!(Routes::new(&[for_host("a")]).find(&request("/", &[])), None);
}

#[test]
fn the_request_line_says_the_host_before_the_field_does() {
    let routes = Routes::new(&[for_host("a"), for_host("b")]);
    assert_eq!(routes.find(&request("/", &[("host", "b")])), Some(1));
    assert_eq!(
        routes.find(&request("http://a:80/", &[("host", "b")])),
        Some(0)
    );
    assert_eq!(
        routes.find(&request("http://user@a/", &[("host", "b")])),
        Some(0)
    );
    assert_eq!(routes.find(&request("a:443", &[("host", "b")])), Some(0));
}

#[test]
fn the_first_that_fits_has_it() {
    let with_field = |name: &'static str, value: Option<&'static str>| config::Route {
        headers: vec![(
            HeaderName::from_static(name),
            value.map(HeaderValue::from_static),
        )],
        ..route("/")
    };
    let posts = config::Route {
        methods: vec![Method::POST, Method::PUT],
        ..route("/a")
    };
    let routes = Routes::new(&[
        posts,
        with_field("x-version", Some("2")),
        for_host("*.example.com"),
        for_host("a.example.com"),
        with_field("x-any", None),
    ]);
    let find = |method: Method, target, fields: &[_]| {
        let mut request = request(target, fields);
        request.method = method;
        routes.find(&request)
    };
    let at = [("host", "a.example.com")];
    assert_eq!(find(Method::PUT, "/a", &at), Some(0));
    assert_eq!(find(Method::GET, "/a", &at), Some(2));
    assert_eq!(find(Method::POST, "/b", &at), Some(2));
    assert_eq!(
        find(Method::GET, "/a", &[("x-version", "1"), ("x-version", "2")]),
        Some(1)
    );
    assert_eq!(find(Method::GET, "/a", &[("x-version", "22")]), None);
    assert_eq!(find(Method::GET, "/a", &[("x-any", "")]), Some(4));
    assert_eq!(find(Method::GET, "/a", &[]), None);
    assert_eq!(Routes::default().find(&request("/", &[])), None);
}
