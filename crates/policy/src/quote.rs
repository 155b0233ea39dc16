//! Text of the user's inside our messages.

use std::{borrow::Cow, fmt, path::Path};

/// `text` in backticks, safe for a terminal: control and direction-changing characters are shown
/// as `\u{…}` (a policy may come from someone else; compare CVE-2021-42574).
pub fn quote(text: &str) -> String {
    format!("`{}`", visible(text))
}

/// [`quote`] for a path; bytes that are not UTF-8 are shown as `�`.
pub(crate) fn quote_path(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

/// `text` with what a terminal would act on made visible: control characters and those that change
/// the direction of writing become `\u{…}`.
///
/// ```
/// assert_eq!(palisade_policy::visible("a\u{1b}[2J"), r"a\u{1b}[2J");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    replace(text, acts_on_terminal, |c| c.escape_default().to_string())
}

/// [`visible`] for text of several lines: line breaks stay.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c != '\n' && acts_on_terminal(c);
    replace(text, acts, |c| c.escape_default().to_string())
}

/// [`visible_lines`] for JSON, which means the same afterwards: its own rules escape nothing above U+001F.
///
/// ```
/// assert_eq!(palisade_policy::visible_json("[\"\u{9b}2J\"]"), r#"["\u009b2J"]"#);
/// ```
pub fn visible_json(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c != '\n' && acts_on_terminal(c);
    // All of these have four digits, and stand inside of strings.
    replace(text, acts, |c| format!("\\u{:04x}", u32::from(c)))
}

/// Writes one line: whatever it is made of, it stays one.
///
/// # Errors
///
/// Those of `out`.
pub fn write_line(out: &mut impl fmt::Write, line: fmt::Arguments<'_>) -> fmt::Result {
    writeln!(out, "{}", visible(&line.to_string()))
}

fn replace(
    text: &str,
    is_meant: impl Fn(char) -> bool,
    by: impl Fn(char) -> String,
) -> Cow<'_, str> {
    if !text.chars().any(&is_meant) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| match is_meant(c) {
        true => by(c),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(show).collect())
}

/// Control and direction-changing characters.
pub fn acts_on_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays() {
        assert_eq!(quote("grüße/ß 'x' \"y\" \\:"), "`grüße/ß 'x' \"y\" \\:`");
    }

    #[test]
    fn terminal_sequences_do_not_pass() {
        assert_eq!(quote("a\x1b[2Jb\n\u{202e}"), r"`a\u{1b}[2Jb\n\u{202e}`");
        assert_eq!(
            visible_lines("a\n\u{9d}52;\x07\r"),
            "a\n\\u{9d}52;\\u{7}\\r"
        );
        assert_eq!(
            visible_json("[\n\"\u{9d}\u{7f}\"]"),
            "[\n\"\\u009d\\u007f\"]"
        );
    }
}
