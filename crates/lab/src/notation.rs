//! How figures are written in tables.

/// µs as milliseconds: `0.392`, `12.35`, `140.2`.
pub(crate) fn milliseconds(us: f64) -> String {
    four_figures(us / 1000.0)
}

/// Bytes as whole KiB: `3076`.
pub(crate) fn kibibytes(bytes: f64) -> String {
    format!("{:.0}", bytes / 1024.0)
}

/// `118`, `3.4`: whole from 100 on.
pub(crate) fn short(value: f64) -> String {
    if value.abs() < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// `0.983`, `1.112`, `19.15`, `140.2`; whole from 1000 on.
pub(crate) fn four_figures(value: f64) -> String {
    match value.abs() {
        size if size < 9.9995 => format!("{value:.3}"),
        size if size < 99.995 => format!("{value:.2}"),
        size if size < 999.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// `+9.2`, `−0.1`, `+118`.
pub(crate) fn signed(value: f64) -> String {
    let sign = if value < 0.0 { '−' } else { '+' };
    format!("{sign}{}", short(value.abs()))
}

/// `+0.920`, `−0.010`.
pub(crate) fn signed_milliseconds(us: f64) -> String {
    let sign = if us < 0.0 { '−' } else { '+' };
    format!("{sign}{}", milliseconds(us.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_as_long_as_they_are_useful() {
        assert_eq!(
            [392.4, 12_346.0, 140_220.0, 999_960.0, 12_345_600.0].map(milliseconds),
            ["0.392", "12.35", "140.2", "1000", "12346"]
        );
        assert_eq!([0.0, 3_149_824.0].map(kibibytes), ["0", "3076"]);
        assert_eq!([3.44, 99.96, 4021.3].map(short), ["3.4", "100", "4021"]);
        assert_eq!([-0.14, 9.22, 118.0].map(signed), ["−0.1", "+9.2", "+118"]);
        assert_eq!(
            [-10.0, 0.0, 920.0].map(signed_milliseconds),
            ["−0.010", "+0.000", "+0.920"]
        );
    }
}
