//! Text of the user's inside our messages.

use std::{borrow::Cow, path::Path};

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
    if !text.chars().any(acts_on_terminal) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| match acts_on_terminal(c) {
        true => c.escape_default().to_string(),
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
    }
}
