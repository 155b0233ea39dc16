//! What a program asks to be run by: the first line of a script, the dynamic loader of a binary.
//!
//! The kernel says "no such file" of the program where its interpreter is missing, execve(2). The file is read after
//! a launch that failed, so no guest of this domain ran; and by a path without a link in it, so that no other guest
//! that can write there leads to another file.

use palisade_wall::{Cause, Command, Error, View};
use palisade_walls::Plan;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::{Path, PathBuf},
};

/// A script may be run by a script; the kernel follows five, fs/exec.c.
const MOST_LINKS: usize = 5;
/// As much of a script's first line as the kernel reads (`BINPRM_BUF_SIZE`).
const HEAD_BYTES: usize = 256;

/// A program is there, and what runs it is not.
#[derive(Debug)]
struct NoInterpreter {
    program: String,
    interpreter: String,
    advice: String,
}

impl fmt::Display for NoInterpreter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            program,
            interpreter,
            advice,
        } = self;
        write!(
            formatter,
            "guest: '{program}' is there, but not what runs it: it asks for '{interpreter}', which was not found inside \
             the domain{advice}"
        )
    }
}

impl std::error::Error for NoInterpreter {}

/// Says of a program that was "not found" what it was that was not found.
pub(crate) fn name_interpreter(
    error: anyhow::Error,
    command: &Command,
    plan: &Plan,
) -> anyhow::Error {
    let cause = error.downcast_ref::<Error>().map(Error::cause);
    if !plan.is_native() || cause != Some(Cause::NotFound) {
        return error;
    }
    let Some(interpreter) = find_missing(plan.view()) else {
        return error;
    };
    let named = NoInterpreter {
        program: command.program.to_string_lossy().into_owned(),
        advice: advise(plan.view(), &interpreter),
        interpreter: interpreter.to_string_lossy().into_owned(),
    };
    Error::new(Cause::NotFound, named).into()
}

/// The interpreter that the guest does not find, of the first program that it does find.
fn find_missing(view: &dyn View) -> Option<PathBuf> {
    let candidates = view.candidates().iter();
    let mut inside = candidates.map(|path| view.cwd().join(path));
    let mut file = inside.find_map(|path| view.find_program_at(&path))?;
    for _ in 0..MOST_LINKS {
        let interpreter = read_interpreter(&file)?;
        match view.find_program_at(&view.cwd().join(&interpreter)) {
            Some(next) => file = next,
            None => return Some(interpreter),
        }
    }
    None
}

fn advise(view: &dyn View, interpreter: &Path) -> String {
    if interpreter.as_os_str().as_bytes().ends_with(b"\r") {
        return ": the first line ends with a carriage return, as on Windows; take it out"
            .to_owned();
    }
    if interpreter.is_relative() {
        return ": the first line of a script names its interpreter by a whole path".to_owned();
    }
    let is_on_host = interpreter.is_file();
    let is_of_system = [
        "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
    ]
    .iter()
    .any(|folder| interpreter.starts_with(folder));
    match (
        is_on_host,
        is_of_system && !view.shows(Path::new("/usr/bin")),
    ) {
        (true, true) => ", nor any of the system's programs and libraries".to_owned(),
        (true, false) => "; it is on the host, and not granted".to_owned(),
        (false, _) => {
            "; it is not on the host either: install it, or correct the program".to_owned()
        }
    }
}

fn read_interpreter(path: &Path) -> Option<PathBuf> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), no_links);
    let file = File::from(opened.ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut head = [0; HEAD_BYTES];
    let length = file.read_at(&mut head, 0).ok()?;
    let head = &head[..length];
    let name = match head.strip_prefix(b"#!") {
        Some(line) => script_interpreter(line)?.to_owned(),
        None => elf_interpreter(head, |bytes, at| file.read_exact_at(bytes, at).ok())?,
    };
    Some(OsStr::from_bytes(&name).into())
}

/// The first word of a script's first line, after `#!`.
fn script_interpreter(line: &[u8]) -> Option<&[u8]> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !is_blank(byte))?;
    let word = line[start..].split(is_blank).next()?;
    (!word.contains(&0)).then_some(word)
}

/// The path in the segment `PT_INTERP`, elf(5), of a 64-bit little-endian binary: all that palisade runs on.
fn elf_interpreter(head: &[u8], read_at: impl Fn(&mut [u8], u64) -> Option<()>) -> Option<Vec<u8>> {
    const CLASS_64_LITTLE: &[u8] = b"\x7fELF\x02\x01";
    const PT_INTERP: u64 = 3;
    const MOST_SEGMENTS: u64 = 64;
    const MOST_PATH_BYTES: u64 = 4096;
    if !head.starts_with(CLASS_64_LITTLE) {
        return None;
    }
    let table = number(head, 32, 8)?;
    let (size, count) = (number(head, 54, 2)?, number(head, 56, 2)?);
    let mut segment = [0; 56];
    for index in 0..count.min(MOST_SEGMENTS) {
        let at = table.checked_add(index.checked_mul(size)?)?;
        read_at(&mut segment, at)?;
        if number(&segment, 0, 4)? != PT_INTERP {
            continue;
        }
        let (at, length) = (number(&segment, 8, 8)?, number(&segment, 32, 8)?);
        let mut path = vec![0; length.min(MOST_PATH_BYTES) as usize];
        read_at(&mut path, at)?;
        let end = path.iter().position(|byte| *byte == 0)?;
        path.truncate(end);
        return (!path.is_empty()).then_some(path);
    }
    None
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(line: &str) -> Option<&str> {
        script_interpreter(line.as_bytes()).map(|word| std::str::from_utf8(word).unwrap())
    }

    #[test]
    fn a_script_names_its_interpreter_in_the_first_word() {
        assert_eq!(script("/usr/bin/fish\necho"), Some("/usr/bin/fish"));
        assert_eq!(script(" \t/usr/bin/env -S fish"), Some("/usr/bin/env"));
        assert_eq!(script("/bin/sh\r\n"), Some("/bin/sh\r"));
        assert_eq!(script(""), None);
        assert_eq!(script("  \n/bin/sh"), None);
        assert_eq!(script("a\0b"), None);
    }

    /// A header, one segment table at 64, and what lies at the end.
    fn binary(kind: u64, at: u64, length: u64, rest: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01".to_vec();
        bytes.resize(120, 0);
        let mut put = |place: usize, number: u64, length: usize| {
            bytes[place..place + length].copy_from_slice(&number.to_le_bytes()[..length]);
        };
        put(32, 64, 8);
        put(54, 56, 2);
        put(56, 1, 2);
        put(64, kind, 4);
        put(72, at, 8);
        put(96, length, 8);
        bytes.extend_from_slice(rest);
        bytes
    }

    fn elf(bytes: &[u8]) -> Option<Vec<u8>> {
        let read_at = |to: &mut [u8], at: u64| {
            let from = usize::try_from(at).ok()?;
            to.copy_from_slice(bytes.get(from..from.checked_add(to.len())?)?);
            Some(())
        };
        elf_interpreter(&bytes[..bytes.len().min(HEAD_BYTES)], read_at)
    }

    #[test]
    fn a_binary_names_its_loader() {
        let path = b"/lib/ld-musl-x86_64.so.1\0";
        let named = elf(&binary(3, 120, 25, path));
        assert_eq!(named.unwrap(), &path[..24]);
        assert_eq!(elf(&binary(1, 120, 25, path)), None, "it is static");
    }

    #[test]
    fn what_lies_is_no_loader() {
        for (at, length, rest) in [
            (u64::MAX, 8, &b""[..]),
            (120, u64::MAX, b"/x\0"),
            (120, 4, b"/x"),
            (120, 2, b"/x"),
            (120, 1, b"\0"),
        ] {
            assert_eq!(elf(&binary(3, at, length, rest)), None, "{at} {length}");
        }
        let mut many = binary(1, 0, 0, b"");
        many[56] = 0xff;
        many[57] = 0xff;
        many[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(elf(&many), None);
        assert_eq!(elf(b"\x7fELF\x02\x01"), None);
        assert_eq!(elf(b""), None);
    }
}
