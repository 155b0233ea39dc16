use super::*;

#[test]
fn what_others_read_otherwise_is_told() {
    use Ambiguity::{Bytes, Dots, Encodings, Parameters, Separators};
    let cases: &[(&str, &[Ambiguity])] = &[
        ("/", &[]),
        ("/a.b/.c/%20x/100%25/%C3%A4", &[]),
        ("/100%25%2B", &[]),
        ("/a%2Fb", &[Separators]),
        ("/a%5Cb", &[Separators]),
        ("/a;b", &[Parameters]),
        ("/a%3Bb", &[Parameters]),
        ("/a%252Fb", &[Encodings]),
        ("/a%2541", &[Encodings]),
        ("/a%25u002Fb", &[Encodings]),
        ("/a%25252F", &[Encodings]),
        ("/%FF", &[Bytes]),
        ("/%C3", &[Bytes]),
        ("/a./b", &[Dots]),
        ("/a.", &[Dots]),
        ("/a%20/b", &[Dots]),
        ("/...", &[Dots]),
        ("/a;%2F%FF.", &[Parameters, Separators, Bytes, Dots]),
    ];
    for (path, expected) in cases {
        let mut kinds = Ambiguities::default();
        expected.iter().for_each(|kind| kinds.add(*kind));
        assert_eq!(Ambiguities::of(path), kinds, "{path}");
    }
}

#[test]
fn each_reading_is_made() {
    for (path, expected) in [
        ("/admin%2Fsecret", "/admin/secret"),
        ("/admin%5Csecret", "/admin/secret"),
        ("/admin;x=1/secret", "/admin/secret"),
        ("/admin%3Bx/secret", "/admin/secret"),
        ("/admin%252Fsecret", "/admin/secret"),
        ("/admin%25252Fsecret", "/admin/secret"),
        ("/x%252F%252e%252e%252Fadmin/secret", "/admin/secret"),
        ("/admin./secret%20", "/admin/secret"),
        ("/admin%253Bx%2Fsecret.", "/admin/secret"),
    ] {
        let mut readings = Ambiguities::of(path).readings(path);
        assert!(
            readings.any(|reading| reading.as_deref() == Some(expected)),
            "{path}"
        );
    }
}

#[test]
fn what_has_no_end_or_no_path_is_told() {
    let deep = format!("/%{}2F", "25".repeat(MOST_ENCODINGS + 1));
    for path in [deep.as_str(), "/%252e%252e/x", "/a/..%252F..%252F..%252Fx"] {
        let mut readings = Ambiguities::of(path).readings(path);
        assert!(readings.any(|reading| reading.is_none()), "{path}");
    }
}

/// A reading is what the server itself would make of the other spelling: normal.
#[test]
fn readings_are_normal() {
    const PIECES: [&str; 9] = ["/", "a", ".", "%2F", "%252F", ";", "%20", "%25", "%FF"];
    for number in 0..PIECES.len().pow(5) {
        let pieces = (0..5).map(|place| PIECES[number / PIECES.len().pow(place) % PIECES.len()]);
        let target: http::Uri = format!("/{}", pieces.collect::<String>()).parse().unwrap();
        let normal = match super::super::normalize(&target) {
            Ok(normal) => normal.unwrap_or(target),
            Err(_) => continue,
        };
        for reading in Ambiguities::of(normal.path()).readings(normal.path()) {
            let Some(reading) = reading else { continue };
            let again: http::Uri = reading.parse().unwrap();
            let again = super::super::normalize(&again);
            assert_eq!(again, Ok(None), "{normal}: {reading}");
        }
    }
}
