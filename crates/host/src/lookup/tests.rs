use super::*;

#[test]
fn the_host_that_says_most_comes_first() {
    let mut hosts: HostMap<&str> = HostMap::default();
    for host in [
        "*.org",
        "*.example.org",
        "a.example.org",
        "A.B.",
        "[::1]",
        "127.0.0.1",
    ] {
        *hosts.entry(host) = host;
    }
    let fitting = |host: &str| hosts.fitting(host).copied().collect::<Vec<_>>();
    assert_eq!(
        fitting("a.example.org"),
        ["a.example.org", "*.example.org", "*.org"]
    );
    assert_eq!(
        fitting("A.Example.ORG"),
        ["a.example.org", "*.example.org", "*.org"]
    );
    assert_eq!(fitting("x.y.example.org"), ["*.example.org", "*.org"]);
    assert_eq!(fitting("example.org"), ["*.org"]);
    assert_eq!(fitting("org"), [""; 0]);
    assert_eq!(fitting(".org"), [""; 0]);
    assert_eq!(fitting("xexample.org"), ["*.org"]);
    assert_eq!(fitting("a.b"), ["A.B."]);
    assert_eq!(fitting("[0::1]"), ["[::1]"]);
    assert_eq!(fitting("127.0.0.1"), ["127.0.0.1"]);
    assert_eq!(fitting("0.127.0.0.1"), [""; 0]);
    // A wildcard as a file has it, to see what stands above it.
    assert_eq!(fitting("*.a.example.org"), ["*.example.org", "*.org"]);
    let long = format!("{}.example.org", vec!["a"; 120].join("."));
    assert_eq!(fitting(&long), ["*.example.org", "*.org"]);
}

#[test]
fn the_longest_beginning_of_a_path_is_found_however_it_is_written() {
    let mut paths: PathMap<&str> = PathMap::default();
    for path in ["/", "/api", "/api/v1/@me", "/a%2Fb", "/%C3%A4"] {
        *paths.entry(path) = path;
    }
    for (path, longest) in [
        ("/", "/"),
        ("*", "/"),
        ("host:1", "/"),
        ("/apis", "/"),
        ("/api", "/api"),
        ("/api/", "/api"),
        ("/api/v1", "/api"),
        ("/api/v1/%40me/x", "/api/v1/@me"),
        ("/a/b", "/"),
        ("/a%2Fb/c", "/a%2Fb"),
        ("/%C3%A4", "/%C3%A4"),
    ] {
        assert_eq!(paths.longest(path), Some(&longest), "{path}");
    }
    assert_eq!(PathMap::<()>::default().longest("/"), None);
}

#[test]
fn what_one_covers_is_within_it() {
    for (outer, inner) in [("a", "a"), ("*.a", "b.a"), ("*.a", "*.a"), ("*.a", "*.b.a")] {
        assert!(covers_host(outer, inner), "{outer} {inner}");
    }
    for (outer, inner) in [
        ("a", "b.a"),
        ("*.a", "a"),
        ("*.a", "ba"),
        ("*.b.a", "*.a"),
        ("b.a", "*.a"),
    ] {
        assert!(!covers_host(outer, inner), "{outer} {inner}");
    }
    for (outer, inner) in [("/", "/"), ("/", "/a"), ("/a", "/a"), ("/a", "/a/b")] {
        assert!(covers_path(outer, inner), "{outer} {inner}");
    }
    for (outer, inner) in [("/a", "/"), ("/a", "/ab"), ("/a/b", "/a"), ("/a", "/a%2Fb")] {
        assert!(!covers_path(outer, inner), "{outer} {inner}");
    }
}
