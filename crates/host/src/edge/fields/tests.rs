use super::*;

fn tidied(fields: &[(&'static str, &'static str)]) -> Result<Vec<(String, String)>, Repeated> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_static(value));
    }
    tidy(&mut headers, false)?;
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let fields = headers.iter();
    Ok(fields
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect())
}

fn one(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

#[test]
fn each_name_is_there_once() {
    for (fields, expected) in [
        (
            &[("accept", "a"), ("accept", "b, c")][..],
            one("accept", "a, b, c"),
        ),
        (&[("x-user", "a"), ("x-user", "a")], one("x-user", "a, a")),
        (
            &[("cookie", "a=1"), ("cookie", "b=2")],
            one("cookie", "a=1; b=2"),
        ),
        (&[("x", ""), ("x", "a")], one("x", ", a")),
        (
            &[
                ("connection", "x"),
                ("connection", "y"),
                ("y", "1"),
                ("x", "2"),
                ("z", "3"),
            ],
            one("z", "3"),
        ),
    ] {
        assert_eq!(tidied(fields).as_ref(), Ok(&expected), "{fields:?}");
    }
}

#[test]
fn what_there_is_one_of_is_refused_twice() {
    for name in [
        "authorization",
        "content-type",
        "origin",
        "range",
        "referer",
        "user-agent",
        "if-range",
    ] {
        assert_eq!(tidied(&[(name, "a"), (name, "a")]), Err(Repeated), "{name}");
        assert_eq!(tidied(&[(name, "a")]), Ok(one(name, "a")));
    }
}

#[test]
fn claims_are_the_servers_to_make() {
    for name in [
        "x-original-url",
        "x-rewrite-url",
        "true-client-ip",
        "x-forwarded-for",
        "x-forwarded",
        "x-real-ip",
        "x-http-method-override",
        "client-cert",
        "proxy",
        "forwarded",
        "x_user",
    ] {
        assert_eq!(
            tidied(&[(name, "a"), ("x-user", "b")]),
            Ok(one("x-user", "b")),
            "{name}"
        );
    }
    for name in [
        "x-request-id",
        "x-requested-with",
        "priority",
        "prefer",
        "cookie",
        "forward",
        "x-hosts",
    ] {
        assert_eq!(tidied(&[(name, "a")]), Ok(one(name, "a")));
    }
}
