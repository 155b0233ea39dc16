//! Content codings: which of a file's variants a client likes best.

use http::{HeaderMap, HeaderValue, header::ACCEPT_ENCODING};

/// A coding, and what files in it are called.
#[derive(Debug)]
pub(super) struct Coding {
    pub(super) name: HeaderValue,
    pub(super) suffix: &'static str,
    names: &'static [&'static str],
}

/// The codings of files; of two that a client likes alike, the first.
pub(super) static CODINGS: [Coding; 3] = [
    Coding::new(".br", &["br"]),
    Coding::new(".zst", &["zstd"]),
    Coding::new(".gz", &["gzip", "x-gzip"]),
];

impl Coding {
    const fn new(suffix: &'static str, names: &'static [&'static str]) -> Self {
        Self {
            name: HeaderValue::from_static(names[0]),
            suffix,
            names,
        }
    }

    fn is_called(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// The place of the coding to send; `None`: the file as it is. That is what a client gets too that wants
/// nothing that there is: better than an error, says RFC 9110, section 12.5.3.
pub(super) fn choose(headers: &HeaderMap, has: impl Fn(usize) -> bool) -> Option<usize> {
    let mut wishes = [None; CODINGS.len()];
    let mut of_plain = None;
    let mut of_others = None;
    let fields = headers.get_all(ACCEPT_ENCODING).iter();
    for wish in fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(','))
    {
        let (name, quality) = wish.split_once(';').unwrap_or((wish, ""));
        let (name, Some(quality)) = (name.trim(), parse_quality(quality)) else {
            continue;
        };
        match CODINGS.iter().position(|coding| coding.is_called(name)) {
            Some(place) => wishes[place] = Some(quality),
            None if name == "*" => of_others = Some(quality),
            None if name.eq_ignore_ascii_case("identity") => of_plain = Some(quality),
            None => {}
        }
    }
    let quality = |place: usize| wishes[place].or(of_others).unwrap_or(0);
    // `max_by_key` gives the last of equals.
    let best = (0..CODINGS.len())
        .rev()
        .filter(|place| has(*place))
        .max_by_key(|place| quality(*place))?;
    // What is not named is taken, and liked least.
    (quality(best) > 0 && quality(best) >= of_plain.unwrap_or(0)).then_some(best)
}

/// `q=0.5` as thousandths; nothing at all is 1.
fn parse_quality(parameters: &str) -> Option<u16> {
    let parameters = parameters.trim();
    if parameters.is_empty() {
        return Some(1000);
    }
    let (name, value) = parameters.split_once('=')?;
    let value = value.trim();
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    let part_fits = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !name.trim().eq_ignore_ascii_case("q") || !part_fits {
        return None;
    }
    let thousandths = part
        .bytes()
        .chain(*b"000")
        .take(3)
        .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[usize] = &[0, 1, 2];

    fn chosen(field: &'static str, there: &[usize]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(field));
        choose(&headers, |place| there.contains(&place)).map(|place| CODINGS[place].names[0])
    }

    #[test]
    fn the_best_liked_that_there_is() {
        for (field, there, expected) in [
            ("gzip, deflate, br, zstd", ALL, Some("br")),
            ("gzip, deflate, br, zstd", &[1, 2], Some("zstd")),
            ("gzip", ALL, Some("gzip")),
            ("X-GZIP ; Q=0.1", ALL, Some("gzip")),
            ("br;q=0.5, gzip;q=0.8", ALL, Some("gzip")),
            ("br;q=0.501, gzip;q=0.5", ALL, Some("br")),
            ("br;q=0, *", ALL, Some("zstd")),
            ("*;q=0.3, br;q=0", &[0, 2], Some("gzip")),
            ("*", ALL, Some("br")),
            ("identity, gzip", ALL, Some("gzip")),
            ("identity;q=0.9, gzip;q=0.5", ALL, None),
            ("identity;q=0.5, gzip;q=0.9", ALL, Some("gzip")),
            ("identity;q=0, gzip", ALL, Some("gzip")),
            ("identity;q=0", ALL, None),
            ("*;q=0", ALL, None),
            ("gzip", &[0, 1], None),
            ("gzip;q=0", ALL, None),
            ("gzip;q=0.000", ALL, None),
            ("gzip;q=2, gzip;q=x, gzip;level=1, gzip;q=0.1234", ALL, None),
            ("gzip;q=1.001", ALL, None),
            ("gzip;q=1.000", ALL, Some("gzip")),
            ("deflate, compress", ALL, None),
            ("", ALL, None),
            (",,;,=;q=,gzip", ALL, Some("gzip")),
        ] {
            assert_eq!(chosen(field, there), expected, "{field} {there:?}");
        }
        assert_eq!(choose(&HeaderMap::new(), |_| true), None);
    }
}
