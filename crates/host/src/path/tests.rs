use super::*;

fn normal(target: &str) -> Result<String, BadPath> {
    let uri: Uri = target.parse().unwrap();
    let changed = normalize(&uri)?;
    if let Some(changed) = &changed {
        // Compared as addresses, `http://host?q` and `http://host/?q` are equal.
        let text = |uri: &Uri| {
            uri.path_and_query()
                .map(|target| target.as_str().to_owned())
        };
        assert_ne!(
            text(changed),
            text(&uri),
            "{target}: nothing was to be done"
        );
    }
    let normal = changed.unwrap_or(uri);
    assert_eq!(normalize(&normal), Ok(None), "{target}: not done at once");
    Ok(normal.to_string())
}

#[test]
fn paths_have_one_form() {
    for (target, expected) in [
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("/a/b.c/..d/.e/...", "/a/b.c/..d/.e/..."),
        (
            "/.well-known/acme-challenge/x",
            "/.well-known/acme-challenge/x",
        ),
        ("/a%20b", "/a%20b"),
        ("/a%2Fb%5Cc", "/a%2Fb%5Cc"),
        ("/a%2fb%5cc", "/a%2Fb%5Cc"),
        ("/%61dmin%2d%7E%5f%2E", "/admin-~_."),
        ("/%c3%a4", "/%C3%A4"),
        ("/%252e%252e/x", "/%252e%252e/x"),
        ("//", "/"),
        ("//evil.example/%2e%2e", "/"),
        ("/a//b///c//", "/a/b/c/"),
        ("/.", "/"),
        ("/a/.", "/a/"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("/a/b/../c", "/a/c"),
        ("/a//../b", "/b"),
        ("/a/./b/%2e/c/%2E%2e/d", "/a/b/d"),
        ("/a;v=1/b;.x", "/a;v=1/b;.x"),
        ("/a%3bv", "/a%3Bv"),
        ("/%40me%2b%21%3A", "/@me+!:"),
        ("/a[1]{b}\"|^", "/a%5B1%5D%7Bb%7D%22%7C%5E"),
        ("/ä%C3%A4", "/%C3%A4%C3%A4"),
        ("/%e0%a4%85", "/%E0%A4%85"),
        ("/a/..?b=../..//%zz%00\\", "/?b=../..//%zz%00\\"),
        ("/a?", "/a?"),
        ("/a/.?", "/a/?"),
        ("http://host", "http://host/"),
        ("http://host/a/../b?c", "http://host/b?c"),
        ("http://host/a", "http://host/a"),
        ("http://host?q", "http://host/?q"),
        ("*", "*"),
        ("host:443", "host:443"),
    ] {
        assert_eq!(normal(target).as_deref(), Ok(expected), "{target}");
    }
}

#[test]
fn what_could_be_two_things_is_refused() {
    for (target, expected) in [
        ("/%", BadPath::Escape),
        ("/%a", BadPath::Escape),
        ("/%zz", BadPath::Escape),
        ("/%+1", BadPath::Escape),
        ("/a%00", BadPath::Control),
        ("/a%0a", BadPath::Control),
        ("/a%7F", BadPath::Control),
        ("/a\\b", BadPath::Backslash),
        ("/..\\", BadPath::Backslash),
        ("/..", BadPath::AboveRoot),
        ("/%2e%2E/etc/passwd", BadPath::AboveRoot),
        ("/a/../../b", BadPath::AboveRoot),
        ("/a/..//../b", BadPath::AboveRoot),
        ("/..%2fadmin", BadPath::HiddenDots),
        ("/a/..%5Cadmin", BadPath::HiddenDots),
        ("/a/x%2F%2e%2e%2Fy", BadPath::HiddenDots),
        ("/a/x%2F..", BadPath::HiddenDots),
        ("/..;/admin", BadPath::HiddenDots),
        ("/a;..", BadPath::HiddenDots),
        ("/a/.;v=1", BadPath::HiddenDots),
        ("/a/..%3b/b", BadPath::HiddenDots),
        ("/admin%c0%afsecret", BadPath::Overlong),
        ("/%C0%AE%C0%AE/", BadPath::Overlong),
        ("/%e0%80%afx", BadPath::Overlong),
        ("/%F0%80%80%AF", BadPath::Overlong),
        ("/%fc%80%80%80%80%af", BadPath::Overlong),
        ("/%uff0f", BadPath::Escape),
    ] {
        assert_eq!(normal(target), Err(expected), "{target}");
    }
}

/// All paths of a few characters that matter: nothing depends on how long a path is.
#[test]
fn every_short_path_is_refused_or_normal_at_once() {
    const PIECES: [&str; 12] = [
        "/", ".", "%2e", "%2F", "%2f", "a", ";", "%", "..", "%61", "//", "?",
    ];
    let mut taken = 0;
    for number in 0..PIECES.len().pow(5) {
        let pieces = (0..5).map(|place| PIECES[number / PIECES.len().pow(place) % PIECES.len()]);
        let target = format!("/{}", pieces.collect::<String>());
        let Ok(normal) = normal(&target) else {
            continue;
        };
        taken += 1;
        let path = normal.split('?').next().unwrap();
        let inner = path.strip_prefix('/').unwrap();
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        for segment in inner.split('/') {
            assert!(!matches!(segment, "." | ".."), "{target}: {path}");
            assert!(!segment.is_empty() || path == "/", "{target}: {path}");
        }
        let escaped = path.to_ascii_lowercase();
        assert!(
            !escaped.contains("%2e") && !escaped.contains("%61"),
            "{target}: {path}"
        );
    }
    assert!(taken > 10_000, "{taken}");
}

/// What a service finds that takes the path apart in the manner of RFC 3986.
#[test]
fn nothing_is_left_to_resolve() {
    for target in ["/a/%2e%2e/b//c/./d%2Fe", "/x/y/../../z/", "/%7euser/..%61"] {
        let normal = normal(target).unwrap();
        let mut found: Vec<&str> = Vec::new();
        for segment in normal.split('/').skip(1) {
            match segment {
                "." => panic!("{normal}"),
                ".." => panic!("{normal}"),
                name => found.push(name),
            }
        }
        assert_eq!(format!("/{}", found.join("/")), normal);
    }
}

#[test]
fn what_a_route_takes_leaves_the_rest_and_the_query() {
    for (uri, rest, left) in [
        ("/a/b/c", "/c", "/c"),
        ("/a/b/c?d=/e?f", "/b/c", "/b/c?d=/e?f"),
        ("/a", "", "/"),
        ("/a?d", "", "/?d"),
        ("/a/", "/", "/"),
        ("/", "/", "/"),
        ("*", "", "/"),
        ("http://host/a/%41?d", "/%41", "http://host/%41?d"),
        ("host:1", "", "host:1"),
    ] {
        let stripped = strip(uri.parse().unwrap(), rest.len()).unwrap();
        assert_eq!(stripped, left, "{uri}");
    }
}
