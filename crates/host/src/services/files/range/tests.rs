use super::*;
use http::HeaderValue;

fn asked_of(field: &str, bytes: u64) -> Asked {
    let mut headers = HeaderMap::new();
    headers.insert(RANGE, HeaderValue::from_str(field).unwrap());
    asked(&headers, bytes)
}

#[test]
fn ranges_are_read_as_the_rfc_says() {
    use Asked::{Nothing, One, Several, Whole};
    let several = |ranges: &[Range<u64>]| Several(ranges.to_vec());
    for (field, expected) in [
        ("bytes=0-0", One(0..1)),
        ("bytes=0-99", One(0..100)),
        ("bytes=10-", One(10..100)),
        ("bytes=-10", One(90..100)),
        ("bytes=-1000", One(0..100)),
        ("bytes=99-1000", One(99..100)),
        ("bytes=5-99999999999999999999999999", One(5..100)),
        ("bytes=5-18446744073709551615", One(5..100)),
        ("Bytes = 1 - 2 ", One(1..3)),
        ("bytes=,1-2,,", One(1..3)),
        ("bytes=0-1,200-300", One(0..2)),
        ("bytes=5-6,0-1", several(&[5..7, 0..2])),
        ("bytes=0-1, 4-5, -1", several(&[0..2, 4..6, 99..100])),
        // What touches becomes one.
        ("bytes=0-4,5-9", One(0..10)),
        ("bytes=50-60,0-4,3-9", several(&[0..10, 50..61])),
        ("bytes=0-,0-,0-,0-", One(0..100)),
        // Behind the end.
        ("bytes=100-", Nothing),
        ("bytes=100-200,300-", Nothing),
        ("bytes=-0", Nothing),
        ("bytes=99999999999999999999999999-", Nothing),
        // Not understood, so not there.
        ("bytes=2-1", Whole),
        ("bytes=", Whole),
        ("bytes=,", Whole),
        ("bytes=-", Whole),
        ("bytes=a-b", Whole),
        ("bytes=1", Whole),
        ("bytes=1-2-3", Whole),
        ("bytes=+1-2", Whole),
        ("bytes=--1", Whole),
        ("bytes=0x1-2", Whole),
        ("bytes=0-1,x", Whole),
        ("bytes 0-1", Whole),
        ("items=0-1", Whole),
        ("", Whole),
    ] {
        assert_eq!(asked_of(field, 100), expected, "{field}");
    }
    for field in ["bytes=0-", "bytes=0-0", "bytes=-1"] {
        assert_eq!(asked_of(field, 0), Nothing, "{field}");
    }
}

#[test]
fn no_answer_is_much_bigger_than_the_file() {
    let list = |count: u64| {
        let ranges: Vec<_> = (0..count)
            .map(|n| format!("{}-{}", n * 4, n * 4 + 1))
            .collect();
        asked_of(&format!("bytes={}", ranges.join(",")), 1000)
    };
    assert!(matches!(list(16), Asked::Several(ranges) if ranges.len() == 16));
    assert_eq!(list(17), Asked::Whole);
    assert_eq!(list(10_000), Asked::Whole);
    let mut twice = HeaderMap::new();
    twice.append(RANGE, HeaderValue::from_static("bytes=0-1"));
    twice.append(RANGE, HeaderValue::from_static("bytes=2-3"));
    assert_eq!(asked(&twice, 100), Asked::Whole);
    assert_eq!(asked(&HeaderMap::new(), 100), Asked::Whole);
}
