//! Ranges of small files and of big ones.

use super::*;

/// A small file, and one that is streamed.
fn sites() -> [(Fixture, Vec<u8>); 2] {
    [big(1000), big(3 * load::PIECE_BYTES + 1000)]
        .map(|content| (Fixture::new(&[("f.txt", &content)]), content))
}

#[test]
fn one_range_is_one_part() {
    for (fixture, content) in sites() {
        let end = content.len();
        for (range, expected) in [
            ("bytes=0-0".to_owned(), 0..1),
            ("bytes=10-99".to_owned(), 10..100),
            ("bytes=900-".to_owned(), 900..end),
            ("bytes=-7".to_owned(), end - 7..end),
            (format!("bytes=-{}", end * 2), 0..end),
            ("bytes=1-2,3-99999999999".to_owned(), 1..end),
        ] {
            let answer = fixture.get_with("/f.txt", &[(RANGE, &range)]);
            assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT, "{range}");
            let said = format!("bytes {}-{}/{end}", expected.start, expected.end - 1);
            assert_eq!(answer.field(CONTENT_RANGE), Some(&*said));
            assert_eq!(
                answer.field(CONTENT_LENGTH),
                Some(&*expected.len().to_string())
            );
            assert_eq!(
                answer.field(CONTENT_TYPE),
                Some("text/plain; charset=utf-8")
            );
            assert!(answer.body == content[expected], "{range}");
        }
    }
}

#[test]
fn several_ranges_are_a_message_of_parts() {
    for (fixture, content) in sites() {
        let end = content.len();
        let ranges = [500..600, 0..1, end - 100..end];
        let asked = format!("bytes=500-599, 0-0, -100, {end}-");
        let answer = fixture.get_with("/f.txt", &[(RANGE, &asked)]);
        assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT);
        assert_eq!(
            answer.field(CONTENT_LENGTH),
            Some(&*answer.body.len().to_string())
        );
        assert_eq!(answer.field(CONTENT_RANGE), None);
        let kind = answer.field(CONTENT_TYPE).unwrap();
        let boundary = kind
            .strip_prefix("multipart/byteranges; boundary=")
            .unwrap();
        let mut expected: Vec<u8> = Vec::new();
        for range in ranges {
            let (first, last) = (range.start, range.end - 1);
            let head = format!(
                "--{boundary}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-range: bytes {first}-{last}/{end}\r\n\r\n"
            );
            expected.extend(head.as_bytes());
            expected.extend(&content[range]);
            expected.extend(b"\r\n");
        }
        expected.extend(format!("--{boundary}--\r\n").as_bytes());
        assert!(answer.body == expected, "{:?}", Bytes::from(answer.body));
        let again = fixture.get_with("/f.txt", &[(RANGE, &asked)]);
        assert_ne!(
            again.field(CONTENT_TYPE),
            Some(kind),
            "a boundary that can be guessed"
        );
    }
}

#[test]
fn a_range_behind_the_end_is_an_error_and_nonsense_is_the_whole() {
    for (fixture, content) in sites() {
        let end = content.len();
        for range in [format!("bytes={end}-"), "bytes=-0".to_owned()] {
            let answer = fixture.get_with("/f.txt", &[(RANGE, &range)]);
            assert_eq!(answer.status, StatusCode::RANGE_NOT_SATISFIABLE, "{range}");
            assert_eq!(
                answer.field(CONTENT_RANGE),
                Some(&*format!("bytes */{end}"))
            );
            assert_eq!(
                answer.field(CONTENT_LENGTH),
                Some(&*answer.body.len().to_string())
            );
        }
        let overlapping = format!("bytes={}", vec!["0-"; 1000].join(","));
        for range in ["bytes=b-a", "lines=1-2", &overlapping] {
            let answer = fixture.get_with("/f.txt", &[(RANGE, range)]);
            assert_eq!(
                (answer.status, answer.field(CONTENT_RANGE)),
                (StatusCode::OK, None)
            );
            assert!(answer.body == content);
        }
    }
}

#[test]
fn a_range_is_only_of_what_the_client_knows() {
    for (fixture, content) in sites() {
        let etag = fixture.get("/f.txt").field(ETAG).unwrap().to_owned();
        let status = |value: &str, range: &str| {
            let answer = fixture.get_with("/f.txt", &[(IF_RANGE, value), (RANGE, range)]);
            assert!(answer.status != StatusCode::OK || answer.body == content);
            answer.status.as_u16()
        };
        let behind = format!("bytes={}-", content.len());
        assert_eq!(status(&etag, "bytes=0-1"), 206);
        assert_eq!(
            status("Sun, 06 Nov 1994 08:49:37 GMT", "bytes=0-1,5-6"),
            206
        );
        assert_eq!(status(&etag, &behind), 416);
        for other in [
            "\"other\"",
            &format!("W/{etag}"),
            "Sun, 06 Nov 1994 08:49:38 GMT",
            "x",
        ] {
            assert_eq!(status(other, "bytes=0-1"), 200, "{other}");
            assert_eq!(status(other, &behind), 200, "{other}");
        }
    }
}
