//! The page for people: one file, which asks for [`overview`](super::overview) again and again.
//!
//! What guests name reaches it as data and is put in place as text. Should that ever fail, its policy lets nothing run that
//! is not in it, nothing be loaded, and nothing be asked but this server.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::HeaderValue;
use std::sync::LazyLock;

const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");
const BODY: &str = include_str!("page/page.html");

/// The page as it is sent.
pub(super) struct Page {
    pub(super) html: Bytes,
    /// `content-security-policy`.
    pub(super) policy: HeaderValue,
}

/// It is the same for as long as the server runs.
pub(super) static PAGE: LazyLock<Page> = LazyLock::new(Page::new);

impl Page {
    fn new() -> Self {
        let html = BODY
            .replace("/* STYLE */", STYLE)
            .replace("/* SCRIPT */", SCRIPT);
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
            hash(SCRIPT),
            hash(STYLE)
        );
        Self {
            html: html.into(),
            policy: HeaderValue::try_from(policy).unwrap_or(NOTHING),
        }
    }
}

/// What every other answer lets a browser do with it, should one show it.
pub(super) const NOTHING: HeaderValue =
    HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

/// By what a browser knows text between tags again: CSP level 3, hash-source.
fn hash(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    format!("sha256-{}", BASE64_STANDARD.encode(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between<'a>(html: &'a str, open: &str, close: &str) -> Vec<&'a str> {
        let after = html.split(open).skip(1);
        after.filter_map(|rest| rest.split(close).next()).collect()
    }

    #[test]
    fn nothing_of_the_page_comes_from_elsewhere_or_needs_another_policy() {
        let html = std::str::from_utf8(&PAGE.html).unwrap();
        let policy = PAGE.policy.to_str().unwrap();
        assert_eq!(between(html, "<script>", "</script>"), [SCRIPT]);
        assert_eq!(between(html, "<style>", "</style>"), [STYLE]);
        assert!(
            policy.contains(&format!("script-src '{}';", hash(SCRIPT))),
            "{policy}"
        );
        assert!(
            policy.contains(&format!("style-src '{}';", hash(STYLE))),
            "{policy}"
        );
        assert!(
            !policy.contains("unsafe") && !policy.contains('*'),
            "{policy}"
        );
        for foreign in [
            "http:", "https:", "//", "url(", "@import", " src=", " style=", " on",
        ] {
            // The name of SVG's elements is no address.
            let html = html.replace("http://www.w3.org/2000/svg", "");
            let inside =
                |line: &&str| line.contains(foreign) && !line.trim_start().starts_with("//");
            let found: Vec<_> = html.lines().filter(inside).collect();
            let is_word = foreign == " on";
            assert!(is_word || found.is_empty(), "{foreign}: {found:?}");
        }
        for sink in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "setAttribute(\"on",
        ] {
            assert!(!html.contains(sink), "{sink}");
        }
    }

    #[test]
    fn a_hash_is_as_browsers_make_it() {
        // The example of CSP level 3, section 8.3.
        assert_eq!(
            hash("doSubmit()"),
            "sha256-jzgBGA4UWFFmpOBq0JpdsySukE1FrEN5bUpoK8Z29fY="
        );
    }
}
