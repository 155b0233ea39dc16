//! Modules that nobody compiles from C: broken, huge, lying about themselves. Each in its own bytes.
//!
//! Whoever loads one must end it in time and say what is wrong, whose fault it is, and nothing that a terminal
//! obeys. What is broken is never executed: [`Ends::Refused`] is palisade's own exit code, and nothing on stdout.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::policy::Grant::{self, Limit};

/// How palisade must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// With this code.
    With(i32),
    /// It refuses to start, and this is part of what it says.
    Refused(&'static str),
}

/// One module.
#[derive(Clone, Debug)]
pub struct Module {
    /// As in test names.
    pub name: String,
    /// What the file holds.
    pub bytes: Vec<u8>,
    /// Beside its own folder.
    pub policy: &'static [Grant],
    /// How it ends.
    pub ends: Ends,
}

/// Palisade's own exit code.
pub const REFUSED: i32 = 125;
/// 128 and the signal of a fault.
const ABORTED: i32 = 134;
const OUT_OF_BOUNDS: i32 = 139;
/// That of a time limit.
const TIMED_OUT: i32 = 124;

const SHORT: &[Grant] = &[Limit("time", "500ms")];
/// The head of every module, up to the layer.
const HEAD: &[u8] = b"\0asm\x01\0\0\0";

/// A module's name, text, policy and end.
type Text = (&'static str, String, &'static [Grant], Ends);

/// A guest that does nothing, after what is told of it.
fn with_start(fields: &str) -> String {
    format!("(module {fields} (func (export \"_start\")))")
}

/// A guest whose body this is.
fn body(instructions: &str) -> String {
    format!("(module (func (export \"_start\") {instructions}))")
}

fn refused(name: &'static str, text: &str, why: &'static str) -> Text {
    (name, text.to_owned(), &[], Ends::Refused(why))
}

fn ends(name: &'static str, text: String, code: i32) -> Text {
    (name, text, &[], Ends::With(code))
}

/// What can be written down.
fn texts() -> Vec<Text> {
    vec![
        // Also the control: palisade does run what these tests lay.
        ends("smallest", with_start(""), 0),
        refused(
            "no-start",
            "(module (memory (export \"memory\") 1))",
            "_start",
        ),
        refused(
            "start-is-memory",
            "(module (memory (export \"_start\") 1))",
            "_start",
        ),
        refused(
            "start-takes-arguments",
            "(module (func (export \"_start\") (param i32)))",
            "_start",
        ),
        refused(
            "missing-import",
            &with_start("(import \"env\" \"nothing\" (func))"),
            "nothing",
        ),
        refused(
            "escape-in-import",
            &with_start("(import \"\\1b]0;title\\07\" \"\\1b[31mred\\nline\" (func))"),
            "red",
        ),
        refused(
            "import-of-other-type",
            &with_start("(import \"wasi_snapshot_preview1\" \"fd_write\" (func (param f64)))"),
            "fd_write",
        ),
        refused(
            "import-of-other-kind",
            &with_start("(import \"wasi_snapshot_preview1\" \"fd_write\" (memory 1))"),
            "fd_write",
        ),
        refused(
            "shared-memory",
            &with_start("(memory 1 2 shared)"),
            "thread",
        ),
        refused(
            "imported-memory",
            &with_start("(import \"env\" \"memory\" (memory 1 2 shared))"),
            "thread",
        ),
        refused(
            "garbage-collection",
            &with_start("(type (struct (field i32)))"),
            "garbage-collected",
        ),
        refused("exceptions", &with_start("(tag)"), "exceptions"),
        ends("escape-in-trap", named_trap(), ABORTED),
        ends(
            "trap-before-start",
            with_start("(func $first unreachable) (start $first)"),
            ABORTED,
        ),
        (
            "loop-before-start",
            with_start("(func $first (loop (br 0))) (start $first)"),
            SHORT,
            Ends::With(TIMED_OUT),
        ),
        (
            "tail-calls-without-end",
            "(module (func $again (export \"_start\") (return_call $again)))".to_owned(),
            SHORT,
            Ends::With(TIMED_OUT),
        ),
        ends(
            "recursion",
            "(module (func $again (export \"_start\") (call $again)))".to_owned(),
            OUT_OF_BOUNDS,
        ),
        ends("no-memory-for-call", without_memory(), ABORTED),
        ends(
            "data-out-of-bounds",
            with_start("(memory 1) (data (i32.const 65530) \"0123456789\")"),
            OUT_OF_BOUNDS,
        ),
        ends(
            "elements-out-of-bounds",
            with_start("(table 1 funcref) (func $f) (elem (i32.const 1) $f)"),
            OUT_OF_BOUNDS,
        ),
        ends("huge-memory", with_start("(memory 65536)"), 0),
        refused(
            "memory-beyond-addresses",
            &with_start("(memory 65537)"),
            "memory",
        ),
        refused(
            "huge-table",
            &with_start("(table 4294967295 funcref)"),
            "table",
        ),
        ends(
            "many-locals",
            body(&format!("(local {})", "i64 ".repeat(50_000))),
            0,
        ),
        refused(
            "too-many-locals",
            &body(&format!("(local {})", "i64 ".repeat(50_001))),
            "locals",
        ),
        ends("many-functions", with_start(&"(func)".repeat(50_000)), 0),
        ends(
            "many-globals",
            with_start(&"(global i32 (i32.const 1))".repeat(50_000)),
            0,
        ),
        ends(
            "deep-blocks",
            body(&format!(
                "{}{}",
                "block ".repeat(10_000),
                "end ".repeat(10_000)
            )),
            0,
        ),
        ends(
            "deep-operands",
            body(&format!(
                "{}{}",
                "i32.const 1 ".repeat(9_000),
                "drop ".repeat(9_000)
            )),
            0,
        ),
        ends("many-branches", many_branches(), 0),
        ends("large-function", body(&"nop ".repeat(7_000_000)), 0),
        refused(
            "too-large-function",
            &body(&"nop ".repeat(7_700_000)),
            "size",
        ),
    ]
}

/// A function whose name turns a terminal's letters red, wherever a backtrace shows it.
fn named_trap() -> String {
    "(module (func $\"\\1b[31m\\1b]0;title\\07red\" unreachable) \
     (func (export \"_start\") call 0))"
        .to_owned()
}

/// Calls WASI with an address, and has no memory that it could be in.
fn without_memory() -> String {
    "(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func $write (param i32 i32 i32 i32) (result i32))) \
     (func (export \"_start\") \
     (if (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 0)) (then unreachable))))"
        .to_owned()
}

fn many_branches() -> String {
    let targets = "0 ".repeat(60_000);
    body(&format!("block i32.const 7 br_table {targets} end"))
}

/// What no text can say.
fn raw() -> Vec<(&'static str, Vec<u8>, Ends)> {
    let smallest = wat::parse_str(with_start("")).expect("it is written here");
    let with = |bytes: &[u8]| [smallest.as_slice(), bytes].concat();
    let headed = |head: &[u8]| [head, &smallest[HEAD.len()..]].concat();
    vec![
        ("four-bytes", HEAD[..4].to_vec(), Ends::Refused("")),
        ("head-alone", HEAD.to_vec(), Ends::Refused("_start")),
        (
            "claims-to-be-a-component",
            headed(b"\0asm\x0d\0\x01\0"),
            Ends::Refused(""),
        ),
        (
            "claims-another-version",
            headed(b"\0asm\x09\0\0\0"),
            Ends::Refused("version"),
        ),
        (
            "claims-another-layer",
            headed(b"\0asm\x01\0\x02\0"),
            Ends::Refused("version"),
        ),
        (
            "program-behind",
            with(&fs::read("/proc/self/exe").unwrap_or_default()[..4096]),
            Ends::Refused(""),
        ),
        (
            "program-in-a-section",
            with(&custom_section(b"\x7fELF\x02\x01\x01")),
            Ends::With(0),
        ),
        (
            "many-sections",
            with(&custom_section(b"").repeat(60_000)),
            Ends::With(0),
        ),
        (
            "section-longer-than-file",
            with(&[11, 0xff, 0xff, 0xff, 0x7f]),
            Ends::Refused(""),
        ),
        ("number-without-end", with(&[0xff; 64]), Ends::Refused("")),
        ("giant-data", giant_data(), Ends::With(OUT_OF_BOUNDS)),
    ]
}

/// Nobody reads it: its id is 0, its name `x`.
fn custom_section(content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len() + 2).expect("a short section");
    [&[0, length, 1, b'x'], content].concat()
}

/// 16 MB for a memory of one page.
fn giant_data() -> Vec<u8> {
    const BYTES: usize = 16 << 20;
    let fields = format!("(memory 1) (data (i32.const 0) \"{}\")", "d".repeat(BYTES));
    wat::parse_str(with_start(&fields)).expect("it is written here")
}

/// A whole program, cut off behind each section and in the middle of each, but for custom ones: a
/// program can do without those. Only what is cut off right behind the code is whole again, without its data.
fn truncated(program: &[u8]) -> Vec<Module> {
    const CODE: u8 = 10;
    const DATA: u8 = 11;
    let mut cuts = Vec::new();
    let mut start = HEAD.len();
    for (id, end) in sections(program) {
        if (1..=DATA).contains(&id) {
            cuts.push(start.midpoint(end));
        }
        if (1..CODE).contains(&id) {
            cuts.push(end);
        }
        start = end;
    }
    let module = |cut: usize| Module {
        name: format!("truncated-at-{cut}"),
        bytes: program[..cut].to_vec(),
        policy: &[],
        ends: Ends::Refused(""),
    };
    cuts.into_iter().map(module).collect()
}

/// Id and end of each section.
fn sections(program: &[u8]) -> Vec<(u8, usize)> {
    let mut sections = Vec::new();
    let mut at = HEAD.len();
    while at < program.len() {
        let id = program[at];
        let (length, width) = leb128(&program[at + 1..]);
        at += 1 + width + length;
        sections.push((id, at));
    }
    sections
}

/// A number, and how many bytes it takes.
fn leb128(bytes: &[u8]) -> (usize, usize) {
    let width = bytes.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    let digits = bytes[..width].iter().rev();
    let number = digits.fold(0, |number, byte| number << 7 | usize::from(byte & 0x7f));
    (number, width)
}

/// Every module; `program` is one that a compiler made.
///
/// # Errors
///
/// If the program can't be read.
pub fn all(program: &Path) -> io::Result<Vec<Module>> {
    let written = texts()
        .into_iter()
        .map(|(name, text, policy, ends)| Module {
            name: name.to_owned(),
            bytes: wat::parse_str(&text).unwrap_or_else(|e| panic!("{name}: {e}")),
            policy,
            ends,
        });
    let raw = raw().into_iter().map(|(name, bytes, ends)| Module {
        name: name.to_owned(),
        bytes,
        policy: &[],
        ends,
    });
    Ok(written
        .chain(raw)
        .chain(truncated(&fs::read(program)?))
        .collect())
}

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Shown {
    /// As a shell tells it.
    pub exit_code: i32,
    /// All of it.
    pub stdout: Vec<u8>,
    /// All of it.
    pub stderr: Vec<u8>,
}

impl Module {
    /// Whether the run ended as it must.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn judge(&self, shown: &Shown) -> Result<(), String> {
        let stderr = String::from_utf8_lossy(&shown.stderr);
        let mut wrong = String::new();
        let code = match self.ends {
            Ends::With(code) => code,
            Ends::Refused(_) => REFUSED,
        };
        // Writing to a string does not fail.
        if shown.exit_code != code {
            let _ = writeln!(wrong, "exit code {} instead of {code}", shown.exit_code);
        }
        if let Ends::Refused(why) = self.ends {
            if !stderr.starts_with("palisade: guest: ") || !stderr.contains(why) {
                let _ = writeln!(
                    wrong,
                    "it should say that the guest is at fault, and {why:?}"
                );
            }
            if !shown.stdout.is_empty() {
                let _ = writeln!(wrong, "it was executed");
            }
        }
        if stderr
            .chars()
            .any(|letter| letter.is_control() && letter != '\n')
        {
            let _ = writeln!(wrong, "stderr holds what a terminal obeys");
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(format!("{wrong}stderr: {stderr:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD, custom_section, leb128, sections};

    #[test]
    fn numbers_are_read_as_they_are_written() {
        assert_eq!(leb128(&[0x05, 0xff]), (5, 1));
        assert_eq!(leb128(&[0xe5, 0x8e, 0x26]), (624_485, 3));
    }

    #[test]
    fn sections_follow_each_other() {
        let program = [HEAD, &custom_section(b"abc"), &[1, 1, 0]].concat();
        assert_eq!(sections(&program), [(0, 15), (1, 18)]);
    }
}
