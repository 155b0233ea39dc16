//! WebAssembly programs that nobody here wrote, on real input, with only what they were granted. Where there is
//! a native twin, it gets the same flags, and its words must be the same; else what is written must be what
//! another engine's guest has written.
//!
//! `tools/real-programs` fetches them.

use super::fixture::{Fixture, Outcome, cases};
use palisade_suite::executable::copy_program;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

cases![
    python_reads_folders_as_the_native_one_does,
    python_is_refused_what_the_native_one_is_refused,
    cc1_and_binutils_build_for_a_microcontroller,
    resvg_draws_what_it_draws_elsewhere,
    flite_speaks_as_it_does_elsewhere,
    gojq_finds_what_its_native_twin_finds,
    shfmt_formats_as_its_native_twin_does,
    esbuild_translates_as_its_native_twin_does,
    goja_runs_javascript_as_its_native_twin_does,
];

/// Why a case cannot be shown here: cases are named after their program.
pub(crate) fn why_not(case: &str) -> Option<&'static str> {
    const NEEDED: [(&str, &[&str]); 8] = [
        ("python", &["python-3.12.0.wasm"]),
        (
            "cc1",
            &["cc1.wasm", "avr-as.wasm", "avr-ld.wasm", "avr-objcopy.wasm"],
        ),
        ("resvg", &["resvg.wasm"]),
        ("flite", &["flite.wasm"]),
        ("gojq", &["gojq.wasm", "gojq"]),
        ("shfmt", &["shfmt.wasm", "shfmt"]),
        ("esbuild", &["esbuild.wasm", "esbuild"]),
        ("goja", &["goja.wasm", "goja"]),
    ];
    let is_ours = CASES.iter().any(|one| one.name == case);
    let (_, files) = NEEDED.iter().find(|(word, _)| {
        let rest = case.strip_prefix(word);
        is_ours && rest.is_some_and(|rest| rest.starts_with('_'))
    })?;
    let is_there = files.iter().all(|file| fetched().join(file).is_file());
    (!is_there).then_some("needs the programs that tools/real-programs fetches")
}

/// Where `tools/real-programs` puts them.
fn fetched() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(target).join("real-programs")
}

/// A program where the user can read it: a checkout may lie in somebody's home.
fn program(fixture: &Fixture, name: &str) -> String {
    let path = fixture.path("programs").join(name);
    if !path.exists() {
        fixture.make_folder("programs");
        copy_program(&fetched().join(name), &path).expect(name);
    }
    path.to_str().expect("a path that is text").into()
}

/// `palisade run FLAGS -- PROGRAM ARGUMENTS`, with this on stdin. Code is kept for the case.
///
/// One at a time: most of it is compiling, which takes every processor by itself, and several of the large ones at once
/// would each take longer than a call may.
fn run(fixture: &Fixture, flags: &[&str], command: &[&str], input: &str) -> Outcome {
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let words = ["run"].iter().chain(flags).chain(&["--"]).chain(command);
    let call = fixture.palisade(words).input(input);
    call.env("XDG_CACHE_HOME", &fixture.text("cache")).run()
}

/// The same of a module that was fetched; it ends well.
fn run_module(
    fixture: &Fixture,
    flags: &[&str],
    name: &str,
    arguments: &[&str],
    input: &str,
) -> String {
    let program = program(fixture, name);
    let command = [&[program.as_str()], arguments].concat();
    let outcome = run(fixture, flags, &command, input);
    outcome.is_silent(0);
    outcome.text()
}

/// The same of its native twin, which may be read too.
fn run_twin(
    fixture: &Fixture,
    flags: &[&str],
    name: &str,
    arguments: &[&str],
    input: &str,
) -> String {
    let program = program(fixture, name);
    let command = [&[program.as_str()], arguments].concat();
    let flags = [flags, &["--read", &program]].concat();
    let outcome = run(fixture, &flags, &command, input);
    outcome.is_silent(0);
    outcome.text()
}

/// Files of this repository, in the folder `in`.
fn lay_out(fixture: &Fixture, files: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in files {
        let content = fs::read_to_string(root.join(file)).expect(file);
        fixture.write(&format!("in/{file}"), &content);
    }
}

#[track_caller]
fn assert_sum(path: &Path, expected: &str) {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told.split(' ').next(), Some(expected), "{}", path.display());
}

const NATIVE_PYTHON: &str = "/usr/bin/python3";
const PYTHON: &str = "python-3.12.0.wasm";

/// Counts, hashes and packs every file of a tree, and renames what it wrote.
const REPORT: &str = r#"
import collections, hashlib, json, os, re, sys, time, zlib
source, target = sys.argv[1:]
report = {}
for folder, folders, names in os.walk(source):
    folders.sort()
    for name in sorted(names):
        path = os.path.join(folder, name)
        content = open(path, "rb").read()
        words = collections.Counter(re.findall(r"\w+", content.decode()))
        packed = zlib.compress(content, 9)
        assert zlib.decompress(packed) == content and os.stat(path).st_size == len(content)
        report[os.path.relpath(path, source)] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "crc": zlib.crc32(content),
            "words": sorted(words.items(), key=lambda one: (-one[1], one[0]))[:5],
        }
os.makedirs(os.path.join(target, "a/b"), exist_ok=True)
draft, final = os.path.join(target, "draft"), os.path.join(target, "a/b/report.json")
with open(draft, "w") as file:
    json.dump(report, file, indent=1, sort_keys=True)
os.replace(draft, final)
os.utime(final, (1e9, 1e9))
assert os.stat(final).st_mtime == 1e9 and time.time() > 1.7e9
print(len(report), sorted(os.listdir(target)), len(sys.stdin.read()))
"#;

fn python_reads_folders_as_the_native_one_does(fixture: &Fixture) {
    let files = ["docs/measuring.md", "docs/glossary.md", "ARCHITECTURE.md"];
    lay_out(fixture, &files);
    fixture.write("in/report.py", REPORT);
    let (input, script) = (fixture.text("in"), fixture.text("in/report.py"));
    let report = |folder: &str| {
        fixture.make_folder(folder);
        let output = fixture.text(folder);
        let flags = ["--read", &input, "--write", &output];
        let arguments = [script.as_str(), &input, &output];
        let said = match folder {
            "by-module" => run_module(fixture, &flags, PYTHON, &arguments, "some words"),
            _ => {
                let command = [&[NATIVE_PYTHON][..], &arguments].concat();
                let outcome = run(fixture, &flags, &command, "some words");
                outcome.is_silent(0);
                outcome.text()
            }
        };
        (said, fixture.read(&format!("{folder}/a/b/report.json")))
    };
    let by_module = report("by-module");
    assert_eq!(by_module.0, "4 ['a'] 10\n");
    assert!(by_module.1.contains("ARCHITECTURE.md"));
    assert_eq!(by_module, report("by-twin"));
}

/// What each attempt came to.
const ATTEMPTS: &str = r#"
import errno, os
def attempt(name, act):
    try:
        act()
        print(name, "worked")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
attempt("read", lambda: open("IN/file").read())
attempt("read what is not there", lambda: open("IN/nothing"))
attempt("write where one may read", lambda: open("IN/new", "w"))
attempt("truncate where one may read", lambda: open("IN/file", "r+"))
attempt("remove where one may read", lambda: os.remove("IN/file"))
attempt("rename out of it", lambda: os.rename("IN/file", "OUT/file"))
attempt("link into it", lambda: os.link("OUT/mine", "IN/link"))
attempt("make a folder in it", lambda: os.mkdir("IN/folder"))
attempt("write", lambda: open("OUT/mine", "w").write("x"))
attempt("follow a link out", lambda: open("OUT/out").read())
attempt("read a folder", lambda: os.listdir("IN/file"))
attempt("remove a full folder", lambda: os.rmdir("OUT/full"))
attempt("see what is not granted", lambda: open("SECRET").read())
attempt("see passwords", lambda: open("/etc/shadow").read())
attempt("climb", lambda: open("IN/../secret").read())
"#;

fn python_is_refused_what_the_native_one_is_refused(fixture: &Fixture) {
    fixture.write("in/file", "content");
    fixture.write("out/mine", "content");
    fixture.write("out/full/file", "content");
    fixture.write("secret", "secret");
    let secret = fixture.text("secret");
    std::os::unix::fs::symlink(&secret, fixture.path("out/out")).unwrap();
    let (input, output) = (fixture.text("in"), fixture.text("out"));
    let script = ATTEMPTS.replace("SECRET", &secret);
    let script = script.replace("IN/", &format!("{input}/"));
    let script = script.replace("OUT/", &format!("{output}/"));
    let flags = ["--read", &input, "--write", &output];
    let said = run_module(fixture, &flags, PYTHON, &["-c", &script], "");
    // WASI has an error of its own for a link that leads out of an open folder.
    let said = said.replace("follow a link out ENOTCAPABLE", "follow a link out ENOENT");
    run(fixture, &flags, &[NATIVE_PYTHON, "-c", &script], "").prints(&said);
    assert!(
        said.starts_with("read worked\nread what is not there ENOENT\n"),
        "{said}"
    );
    assert!(
        said.contains("\nwrite where one may read EROFS\n"),
        "{said}"
    );
    assert!(
        said.ends_with("ENOENT\n") && !said.contains("secret worked"),
        "{said}"
    );
}

/// A checksum of 1-Wire devices.
const CRC: &str = "typedef unsigned char byte;
byte table[16];

static byte step(byte crc)
{
\treturn crc & 1 ? (crc >> 1) ^ 0x8c : crc >> 1;
}

byte crc8(const byte *data, byte length)
{
\tbyte crc = 0;
\twhile (length--) {
\t\tcrc ^= *data++;
\t\tfor (byte bit = 0; bit < 8; bit++)
\t\t\tcrc = step(crc);
\t}
\treturn crc;
}

int main(void)
{
\tfor (byte i = 0; i < sizeof table; i++)
\t\ttable[i] = crc8(&i, 1);
\treturn table[15];
}
";
const LINKER_SCRIPT: &str = "SECTIONS {
\t.text 0 : { *(.text.main) *(.text*) }
\t.data 0x800100 : { *(.data*) }
\t.bss : { *(.bss*) *(COMMON) }
}
";
const HEX: &str = ":10000000AC016115C1F0680F792F711D80E0FA0114\r
:1000100090814F5F5F4F892798E0382F3695282FC2\r
:10002000832F20FF02C02CE882279150B1F746179A\r
:10003000570769F7089580E00895E8E6F0E040E0AA\r
:10004000842F98E0382F3695282F832F20FF02C069\r
:100050002CE882279150B1F781934F5F403181F7AF\r
:080060008091770090E0089503\r
:040000030000003ABF\r
:00000001FF\r
";

/// The compiler proper of GCC 15, and assembler, linker and objcopy of binutils 2.42.
fn cc1_and_binutils_build_for_a_microcontroller(fixture: &Fixture) {
    fixture.write("work/crc.c", CRC);
    fixture.write("work/script.ld", LINKER_SCRIPT);
    let work = fixture.text("work");
    let flags = ["--write", &work, "--cwd", &work];
    let steps: [(&str, &[&str]); 4] = [
        (
            "cc1.wasm",
            &["-quiet", "-O2", "-mmcu=avr5", "crc.c", "-o", "crc.s"],
        ),
        ("avr-as.wasm", &["-mmcu=avr5", "crc.s", "-o", "crc.o"]),
        (
            "avr-ld.wasm",
            &[
                "-m",
                "avr5",
                "--no-warn-rwx-segments",
                "-T",
                "script.ld",
                "-e",
                "main",
                "crc.o",
                "-o",
                "crc.elf",
            ],
        ),
        (
            "avr-objcopy.wasm",
            &["-O", "ihex", "-j", ".text", "crc.elf", "crc.hex"],
        ),
    ];
    for (name, arguments) in steps {
        assert_eq!(
            run_module(fixture, &flags, name, arguments, ""),
            "",
            "{name}"
        );
    }
    assert_eq!(fixture.read("work/crc.hex"), HEX);
    // An error is the program's own.
    fixture.write("work/wrong.c", "int main(void) { return nothing; }\n");
    let program = program(fixture, "cc1.wasm");
    let wrong = run(
        fixture,
        &flags,
        &[&program, "-quiet", "wrong.c", "-o", "w.s"],
        "",
    );
    wrong.is(1);
    assert!(wrong.stderr.contains("'nothing' undeclared"), "{wrong:?}");
}

const PICTURE: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="120" height="80" viewBox="0 0 120 80">
  <defs>
    <linearGradient id="sky" x1="0" y1="0" x2="0" y2="1">
      <stop offset="0" stop-color="#036"/><stop offset="1" stop-color="#9cf"/>
    </linearGradient>
    <filter id="soft"><feGaussianBlur stdDeviation="2"/></filter>
  </defs>
  <rect width="120" height="80" fill="url(#sky)"/>
  <circle cx="90" cy="20" r="12" fill="#fd0" filter="url(#soft)"/>
  <path d="M0 80 Q30 30 60 60 T120 50 V80 Z" fill="#383" stroke="#252" stroke-width="2"/>
</svg>
"##;

fn resvg_draws_what_it_draws_elsewhere(fixture: &Fixture) {
    fixture.write("in/picture.svg", PICTURE);
    fixture.make_folder("out");
    let (picture, out) = (
        fixture.text("in/picture.svg"),
        fixture.text("out/picture.png"),
    );
    let (input, output) = (fixture.text("in"), fixture.text("out"));
    let flags = ["--read", &input, "--write", &output];
    let arguments = ["--zoom", "2", &picture, &out];
    assert_eq!(
        run_module(fixture, &flags, "resvg.wasm", &arguments, ""),
        ""
    );
    assert_sum(
        &fixture.path("out/picture.png"),
        "89ab79d3d91aa47f281c315ed6bef2196109dbf9a57a978d3a5dc0db526821bc",
    );
}

fn flite_speaks_as_it_does_elsewhere(fixture: &Fixture) {
    fixture.write(
        "in/words",
        "A wall is as thick as the time that it takes.\n",
    );
    fixture.make_folder("out");
    let (words, out) = (fixture.text("in/words"), fixture.text("out/words.wav"));
    let (input, output) = (fixture.text("in"), fixture.text("out"));
    let flags = ["--read", &input, "--write", &output];
    assert_eq!(
        run_module(fixture, &flags, "flite.wasm", &[&words, &out], ""),
        ""
    );
    assert_sum(
        &fixture.path("out/words.wav"),
        "e1551c8e721e9466399f63d909ba6ccbc6f7985659d14e4d487a1bec1ffa0cb4",
    );
}

/// Both say the same of the same arguments; gives what.
#[track_caller]
fn twins(fixture: &Fixture, flags: &[&str], name: &str, arguments: &[&str], input: &str) -> String {
    let module = run_module(fixture, flags, &format!("{name}.wasm"), arguments, input);
    assert_eq!(module, run_twin(fixture, flags, name, arguments, input));
    module
}

fn gojq_finds_what_its_native_twin_finds(fixture: &Fixture) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs");
    let runs = fs::read_dir(root).unwrap().flatten();
    let run = runs.map(|run| run.path().join("environment.json")).next();
    let text = fs::read_to_string(run.expect("a published run")).unwrap();
    fixture.write("in/environment.json", &text);
    let input = fixture.text("in");
    let file = fixture.text("in/environment.json");
    let query = "([paths(scalars) as $path | {key: ($path | map(tostring) | join(\".\")), \
                 value: getpath($path)}] | sort_by(.key) | from_entries), (.tools | keys), (now > 1.7e9)";
    let found = twins(fixture, &["--read", &input], "gojq", &[query, &file], "");
    assert!(
        found.contains("\"tools.palisade\"") && found.ends_with("true\n"),
        "{found}"
    );
    let piped = twins(fixture, &[], "gojq", &["-c", "keys"], &text);
    assert!(piped.starts_with("[\"architecture\""), "{piped}");
}

fn shfmt_formats_as_its_native_twin_does(fixture: &Fixture) {
    lay_out(fixture, &["tools/setup", "tools/lint", "demo/run"]);
    let input = fixture.text("in");
    let files =
        ["tools/setup", "tools/lint", "demo/run"].map(|file| fixture.text(&format!("in/{file}")));
    let style = ["-i", "3", "-sr", "-mn"];
    let arguments: Vec<_> = style
        .into_iter()
        .chain(files.iter().map(String::as_str))
        .collect();
    let formatted = twins(fixture, &["--read", &input], "shfmt", &arguments, "");
    assert!(formatted.contains("set -euo pipefail"), "{formatted}");
    // In place, in a folder that may be written.
    for name in ["shfmt.wasm", "shfmt"] {
        fixture.write("out/script", "if  true\nthen echo  a;fi\n");
        let (output, script) = (fixture.text("out"), fixture.text("out/script"));
        let arguments = ["-i", "1", "-w", &script];
        match name {
            "shfmt" => run_twin(fixture, &["--write", &output], name, &arguments, ""),
            _ => run_module(fixture, &["--write", &output], name, &arguments, ""),
        };
        assert_eq!(
            fixture.read("out/script"),
            "if true; then echo a; fi\n",
            "{name}"
        );
    }
}

/// A program on its input. It cannot bundle files here: it wants to list the root's folder, which is in none
/// that a module finds open.
fn esbuild_translates_as_its_native_twin_does(fixture: &Fixture) {
    let program = "enum Kind { circle = 'circle', square = 'square' }\n\
         type Shape = { kind: Kind.circle; r: number } | { kind: Kind.square; a: number };\n\
         export function area(s: Shape) { return s.kind === Kind.circle ? Math.PI * s.r ** 2 : s.a ** 2; }\n\
         export async function* all(shapes?: Shape[]) { for (const s of shapes ?? []) yield await area(s); }\n";
    let style = [
        "--loader=ts",
        "--minify",
        "--target=es2015",
        "--sourcemap=inline",
    ];
    let arguments = [&style[..], &["--sourcefile=shapes.ts", "--log-level=error"]].concat();
    let translated = twins(fixture, &[], "esbuild", &arguments, program);
    assert!(translated.contains("Math.PI*"), "{translated}");
    assert!(
        translated.contains("sourceMappingURL=data:application/json;base64,"),
        "{translated}"
    );
}

fn goja_runs_javascript_as_its_native_twin_does(fixture: &Fixture) {
    fixture.write(
        "in/primes.js",
        "const sieve = n => { const out = []; const no = new Set();\n\
         for (let i = 2; i <= n; i++) { if (no.has(i)) continue; out.push(i);\n\
         for (let j = i * i; j <= n; j += i) no.add(j); } return out; };\n\
         const primes = sieve(2000);\n\
         console.log(JSON.stringify({ count: primes.length, last: primes.at(-1),\n\
         text: 'größer'.replace(/[^a-z]/gu, m => m.toUpperCase()), big: String(2n ** 100n),\n\
         date: new Date(0).toISOString() }));\n",
    );
    let (input, script) = (fixture.text("in"), fixture.text("in/primes.js"));
    let said = |name: &str| {
        let program = program(fixture, name);
        let flags = ["--read", &input, "--read", &program];
        let outcome = run(fixture, &flags, &[&program, &script], "");
        outcome.is(0);
        // Its log begins with the time.
        let (_, text) = outcome.stderr.split_at("2026/11/22 09:26:08 ".len());
        text.to_owned()
    };
    let by_module = said("goja.wasm");
    assert!(
        by_module.contains("\"count\":303,\"last\":1999"),
        "{by_module}"
    );
    assert!(
        by_module.contains("1267650600228229401496703205376"),
        "{by_module}"
    );
    assert_eq!(by_module, said("goja"));
}
