use super::*;

/// The moment of the response's last change, and a second before and after it.
const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
const AT_S: u64 = 784_111_777;

fn headers(fields: &[(&HeaderName, &str)]) -> HeaderMap {
    let fields = fields
        .iter()
        .map(|(name, value)| ((*name).clone(), HeaderValue::from_str(value).unwrap()));
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(name, value);
    }
    headers
}

fn validators(etag: &HeaderValue) -> Validators<'_> {
    Validators {
        etag,
        modified_s: Some(AT_S),
    }
}

#[test]
fn conditions_are_judged_in_their_order() {
    use Outcome::{Failed, Go, NotModified};
    let etag = HeaderValue::from_static("\"a,b\"");
    let cases: &[(&[(&HeaderName, &str)], Outcome)] = &[
        (&[], Go),
        (&[(&IF_NONE_MATCH, "\"a,b\"")], NotModified),
        (&[(&IF_NONE_MATCH, "W/\"a,b\"")], NotModified),
        (
            &[(&IF_NONE_MATCH, "\"x\", W/\"y\" ,, \"a,b\"")],
            NotModified,
        ),
        (
            &[(&IF_NONE_MATCH, "\"x\""), (&IF_NONE_MATCH, "\"a,b\"")],
            NotModified,
        ),
        (&[(&IF_NONE_MATCH, "*")], NotModified),
        (&[(&IF_NONE_MATCH, "\"a\", \"b\"")], Go),
        (&[(&IF_NONE_MATCH, "a,b")], Go),
        (&[(&IF_NONE_MATCH, "\"a,b")], Go),
        (&[(&IF_NONE_MATCH, "")], Go),
        (&[(&IF_MATCH, "\"a,b\"")], Go),
        (&[(&IF_MATCH, "\"x\",\"a,b\"")], Go),
        (&[(&IF_MATCH, "*")], Go),
        (&[(&IF_MATCH, "W/\"a,b\"")], Failed),
        (&[(&IF_MATCH, "\"x\"")], Failed),
        (&[(&IF_MATCH, "nonsense")], Failed),
        (&[(&IF_MODIFIED_SINCE, AT)], NotModified),
        (&[(&IF_MODIFIED_SINCE, AFTER)], NotModified),
        (&[(&IF_MODIFIED_SINCE, BEFORE)], Go),
        (&[(&IF_MODIFIED_SINCE, "yesterday")], Go),
        (&[(&IF_UNMODIFIED_SINCE, AT)], Go),
        (&[(&IF_UNMODIFIED_SINCE, AFTER)], Go),
        (&[(&IF_UNMODIFIED_SINCE, BEFORE)], Failed),
        (&[(&IF_UNMODIFIED_SINCE, "tomorrow")], Go),
        // A tag is better than a time.
        (&[(&IF_NONE_MATCH, "\"x\""), (&IF_MODIFIED_SINCE, AT)], Go),
        (
            &[(&IF_NONE_MATCH, "\"a,b\""), (&IF_MODIFIED_SINCE, BEFORE)],
            NotModified,
        ),
        (
            &[(&IF_MATCH, "\"a,b\""), (&IF_UNMODIFIED_SINCE, BEFORE)],
            Go,
        ),
        (
            &[(&IF_MATCH, "\"x\""), (&IF_UNMODIFIED_SINCE, AFTER)],
            Failed,
        ),
        // What must be so comes before what must not.
        (&[(&IF_MATCH, "\"x\""), (&IF_NONE_MATCH, "\"a,b\"")], Failed),
        (
            &[(&IF_MATCH, "\"a,b\""), (&IF_NONE_MATCH, "\"a,b\"")],
            NotModified,
        ),
        (
            &[(&IF_UNMODIFIED_SINCE, BEFORE), (&IF_MODIFIED_SINCE, AFTER)],
            Failed,
        ),
        (
            &[(&IF_UNMODIFIED_SINCE, AT), (&IF_MODIFIED_SINCE, AT)],
            NotModified,
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(
            judge(&headers(fields), validators(&etag)),
            *expected,
            "{fields:?}"
        );
    }
    // A file without a time that can be said is only known by its tag.
    let timeless = Validators {
        etag: &etag,
        modified_s: None,
    };
    for name in [&IF_MODIFIED_SINCE, &IF_UNMODIFIED_SINCE] {
        assert_eq!(judge(&headers(&[(name, BEFORE)]), timeless), Go);
    }
}

#[test]
fn a_part_is_sent_of_exactly_what_the_client_has() {
    let etag = HeaderValue::from_static("\"e\"");
    let may = |value: &str| may_send_range(&headers(&[(&IF_RANGE, value)]), validators(&etag));
    assert!(may_send_range(&HeaderMap::new(), validators(&etag)));
    assert!(may("\"e\"") && may(AT));
    for value in [
        "W/\"e\"",
        "\"x\"",
        "\"e\", \"e\"",
        "*",
        "",
        BEFORE,
        AFTER,
        "e",
    ] {
        assert!(!may(value), "{value}");
    }
    // What was changed this very second could be changed again in it.
    let now = httpdate::fmt_http_date(SystemTime::now());
    let fresh = Validators {
        etag: &etag,
        modified_s: parse_date(&HeaderValue::from_str(&now).unwrap()),
    };
    assert!(!may_send_range(&headers(&[(&IF_RANGE, &now)]), fresh));
}
