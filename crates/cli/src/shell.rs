//! Words and flags as they can be typed: no byte is lost, and nothing in them acts on a shell or a terminal.

use palisade_policy::{Access, FileGrant, acts_on_terminal};
use palisade_process::paths::normalized;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// `word` as one word of a shell's. What is no text, or would act on a terminal, is written as `$'…'`, which bash,
/// zsh, ksh and busybox know.
pub(crate) fn quote(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref();
    let plain = word
        .to_str()
        .filter(|text| !text.contains(acts_on_terminal));
    let quoted = plain.and_then(|text| shlex::try_quote(text).ok());
    quoted.map_or_else(
        || quote_bytes(word.as_bytes()),
        |quoted| quoted.into_owned(),
    )
}

/// Octal escapes end after three digits in every shell; hexadecimal ones do not.
fn quote_bytes(bytes: &[u8]) -> String {
    let escape = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let show = |c: char| match c {
        '\n' => "\\n".to_owned(),
        '\'' | '\\' => format!("\\{c}"),
        c if acts_on_terminal(c) => escape(c.encode_utf8(&mut [0; 4]).as_bytes()),
        c => c.to_string(),
    };
    let chunks = bytes.utf8_chunks().map(|chunk| {
        let shown: String = chunk.valid().chars().map(show).collect();
        shown + &escape(chunk.invalid())
    });
    format!("$'{}'", chunks.collect::<String>())
}

/// `--read VALUE` for a path as it was typed in the folder `base`; `None` where no value means that path.
pub(crate) fn read_flag(typed: &OsStr, base: &Path) -> Option<String> {
    let value = grant_value(typed);
    let grant = FileGrant::parse(Access::Read, &value, base).ok()?;
    let is_meant = grant.guest.is_none() && grant.host == base.join(typed);
    let is_meant = is_meant || grant.host == normalized(&base.join(typed));
    is_meant.then(|| format!("--read {}", quote(&value)))
}

/// `--exec VALUE` for a path inside; `None` where no value means it.
pub(crate) fn exec_flag(inside: &Path) -> Option<String> {
    let value = grant_value(inside.as_os_str());
    let grant = FileGrant::parse(Access::Exec, &value, Path::new("/")).ok()?;
    (grant.guest_path() == inside).then(|| format!("--exec {}", quote(&value)))
}

/// A path as grants of files are written: a colon would begin the guest's path, a tilde is a shell's.
fn grant_value(path: &OsStr) -> OsString {
    let mut value = Vec::with_capacity(path.len());
    if path.as_bytes().starts_with(b"~") {
        value.extend_from_slice(b"./");
    }
    for byte in path.as_bytes() {
        if matches!(byte, b':' | b'\\') {
            value.push(b'\\');
        }
        value.push(*byte);
    }
    OsString::from_vec(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn words() -> Vec<OsString> {
        let texts = [
            "plain",
            "a b",
            "$(rm x)",
            "it's",
            "a\\b",
            "",
            "a:b",
            "~",
            "~/x",
            "\u{202e}a",
            "x\n\u{1b}[2J'\\7",
            "ü",
        ];
        let bytes = [&b"a\xff7"[..], b"\x9b2J'\xc3"];
        let bytes = bytes.map(|bytes| OsStr::from_bytes(bytes).to_owned());
        texts.map(OsString::from).into_iter().chain(bytes).collect()
    }

    #[test]
    fn a_shell_reads_the_same_word() {
        for word in words() {
            let quoted = quote(&word);
            assert!(!quoted.contains(acts_on_terminal), "{quoted:?}");
            let script = format!("printf %s {quoted}");
            let printed = Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(printed.stdout, word.as_bytes(), "{quoted}");
        }
    }

    #[test]
    fn a_flag_lets_the_place_be_executed() {
        for word in words().iter().filter(|word| !word.is_empty()) {
            let place = Path::new("/base").join(word);
            let flag = exec_flag(&place).unwrap();
            let quoted = flag.strip_prefix("--exec ").unwrap();
            assert_eq!(quoted, quote(grant_value(place.as_os_str())));
        }
        assert_eq!(exec_flag(Path::new("/a/../b")), None);
    }

    #[test]
    fn a_flag_grants_the_path_that_was_typed() {
        let base = Path::new("/base");
        for word in words().iter().filter(|word| !word.is_empty()) {
            let value = grant_value(word);
            let grant = FileGrant::parse(Access::Read, &value, base).unwrap();
            assert_eq!((grant.host, grant.guest), (base.join(word), None));
            assert!(read_flag(word, base).is_some(), "{word:?}");
        }
        let read = |word: &str| read_flag(word.as_ref(), base);
        assert_eq!(read("a:b").unwrap(), r#"--read "a\\:b""#);
        assert_eq!(read("./a//b/").unwrap(), "--read ./a//b/");
        assert_eq!(read("../a").unwrap(), "--read ../a");
        assert_eq!(read("a/../b"), None);
    }
}
