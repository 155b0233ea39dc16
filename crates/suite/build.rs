//! Compiles the C guests and turns the hostile binary's own list of attacks into one
//! enum per family, so that an attack without a row in the table does not compile.
//!
//! Plain `gcc` (or `$CC`), and `clang-19` (or `$WASM_CC`) and `go` for WebAssembly; no build dependency. Where there
//! is no compiler for WebAssembly the tests that need one report themselves as ignored.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Flags of every guest; each adds how it links.
const FLAGS: &[&str] = &[
    "-O1",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Wno-format-truncation",
    "-Wno-unused-result",
    "-pthread",
];
const WASM_FLAGS: &[&str] = &[
    "--target=wasm32-wasi",
    "-O1",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Wno-unused-result",
];
/// Filters and components need no libc, and start with as little memory as they get by with.
const BARE_WASM_FLAGS: &[&str] = &[
    "--target=wasm32",
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-nostdlib",
    "-mbulk-memory",
    "-Wl,--no-entry,--stack-first,--strip-all",
    "-Wl,-z,stack-size=16384",
];
const STATIC: &[&str] = &["-static"];
/// What serves requests is compared with other servers.
const FAST_STATIC: &[&str] = &["-static", "-O2", "-D_GNU_SOURCE"];
const DYNAMIC: &[&str] = &["-pie", "-fPIE"];
const FREESTANDING: &[&str] = &[
    "-static",
    "-nostdlib",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fno-pie",
    "-no-pie",
];

fn main() {
    let guests = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"))
        .join("../../guests");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    for folder in [
        "hostile",
        "fixtures",
        "friendly",
        "portable",
        "portable-go",
        "wasi",
        "filters",
        "services",
    ] {
        println!("cargo::rerun-if-changed={}", guests.join(folder).display());
    }
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-env-changed=WASM_CC");

    build_hostile(&guests.join("hostile"), &out);
    build_each(&guests.join("fixtures"), STATIC, &out);
    build_each(&guests.join("friendly"), STATIC, &out.join("friendly"));

    build_portable(&guests.join("portable"), &out);
    build_go(&guests.join("portable-go"), &out);
    let attacks = guests.join("wasi/attacks");
    compile_wasm(WASM_FLAGS, &c_files(&attacks), &out.join("hostile.wasm"));

    let filters = guests.join("filters");
    build_each_wasm(&filters, &out.join("filters"));
    let components = guests.join("services/component");
    build_each_wasm(&components, &out.join("components"));
    let programs = guests.join("services/native");
    build_each(&programs, FAST_STATIC, &out.join("programs"));

    let list = list_attacks(&out.join("hostile"));
    let table = guests.join("portable/probes.def");
    let mut probes = entries(&table, "PROBE");
    probes.extend(entries(&table, "GO_PROBE"));
    let modules = families(&attacks.join("attacks.def"));
    let text = enums(&list)
        + &enums_of_modules(&modules)
        + &one_enum("Probe", "The probes of `guests/portable`.", &probes)
        + &one_enum(
            "Filter",
            "The filters of `guests/filters`.",
            &stems(&filters),
        )
        + &one_enum(
            "FilterAttack",
            "What `guests/filters/hostile.c` tries.",
            &entries(&filters.join("hostile.def"), "ATTACK"),
        )
        + &one_enum(
            "Component",
            "The components of `guests/services/component`.",
            &stems(&components),
        )
        + &one_enum(
            "Program",
            "The programs of `guests/services/native`.",
            &stems(&programs),
        );
    fs::write(out.join("guests.rs"), text).expect("write guests.rs");
}

/// Builds the multi-call binary twice, static and dynamic, and its 32-bit sibling.
fn build_hostile(folder: &Path, out: &Path) {
    let elf32 = folder.join("elf32.c");
    let sources: Vec<_> = c_files(folder)
        .into_iter()
        .filter(|f| *f != elf32)
        .collect();
    compile(&sources, STATIC, &out.join("hostile"));
    compile(&sources, DYNAMIC, &out.join("hostile-dynamic"));

    let flags: Vec<_> = FREESTANDING.iter().copied().chain(["-m32"]).collect();
    if let Err(why) = try_compile(&[elf32], &flags, &out.join("hostile32")) {
        // No 32-bit code generation: the attack reports itself as ignored.
        println!("cargo::warning=no 32-bit guest: {why}");
    }
}

/// Builds each file of `folder` as a program of its own.
fn build_each(folder: &Path, flags: &[&str], out: &Path) {
    fs::create_dir_all(out).expect("create the guests' folder");
    for source in c_files(folder) {
        let name = source.file_stem().expect("a file name").to_owned();
        let flags = if name == "true" { FREESTANDING } else { flags };
        compile(&[source], flags, &out.join(name));
    }
}

/// Builds each file of `folder` as a module of its own.
fn build_each_wasm(folder: &Path, out: &Path) {
    fs::create_dir_all(out).expect("create the guests' folder");
    for (source, name) in c_files(folder).into_iter().zip(stems(folder)) {
        compile_wasm(BARE_WASM_FLAGS, &[source], &out.join(name + ".wasm"));
    }
}

/// Builds the probes twice: a program and a module.
fn build_portable(folder: &Path, out: &Path) {
    let sources = c_files(folder);
    compile(&sources, STATIC, &out.join("portable"));
    compile_wasm(WASM_FLAGS, &sources, &out.join("portable.wasm"));
}

/// Builds the probes in Go twice, or notes for the tests why there are none.
fn build_go(folder: &Path, out: &Path) {
    let native = build_go_for(folder, "linux", "amd64", &out.join("portable-go"));
    let both =
        native.and_then(|()| build_go_for(folder, "wasip1", "wasm", &out.join("portable-go.wasm")));
    if let Err(why) = both {
        let why = why.replace('\n', " ");
        println!("cargo::warning=no guests in Go: {why}");
        println!(
            "cargo::rustc-env=PALISADE_NO_GO_GUESTS=no Go here that builds them (1.21 is the first): {why}"
        );
    }
}

fn build_go_for(folder: &Path, system: &str, machine: &str, program: &Path) -> Result<(), String> {
    let result = Command::new("go")
        .args([
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags=-s -w",
            "-o",
        ])
        .arg(program)
        .current_dir(folder)
        .envs([
            ("GOOS", system),
            ("GOARCH", machine),
            ("CGO_ENABLED", "0"),
            ("GOTOOLCHAIN", "local"),
        ])
        .output()
        .map_err(|e| format!("go: {e}"))?;
    let said = String::from_utf8_lossy(&result.stderr).into_owned();
    if result.status.success() {
        Ok(())
    } else {
        Err(said)
    }
}

/// Builds a module, or notes for the tests why there is none.
fn compile_wasm(flags: &[&str], sources: &[PathBuf], module: &Path) {
    let compiler = env::var("WASM_CC").unwrap_or_else(|_| "clang-19".to_owned());
    if let Err(error) = Command::new(&compiler).arg("--version").output() {
        println!("cargo::warning=no guests for the wasm wall: {compiler}: {error}");
        println!(
            "cargo::rustc-env=PALISADE_NO_WASM_GUESTS=no {compiler} here: tools/setup test installs it"
        );
        return;
    }
    if let Err(why) = try_compile_with(&compiler, flags, sources, &[], module) {
        panic!(
            "{}: {why}: does it have wasi-libc and libclang-rt-19-dev-wasm32 (tools/setup test)?",
            module.display()
        );
    }
}

/// Family → attacks of a table; the controls are those of the hostile program.
fn families(table: &Path) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(table).unwrap_or_else(|e| panic!("{}: {e}", table.display()));
    let mut families = BTreeMap::<String, Vec<String>>::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(name) = entry(line, "FAMILY") {
            family = name;
        } else if let Some(name) = entry(line, "ATTACK") {
            families.entry(family.clone()).or_default().push(name);
        }
    }
    families.remove("controls");
    families
}

/// `my-name` of `KIND(my_name)`.
fn entry(line: &str, kind: &str) -> Option<String> {
    let name = line
        .strip_prefix(kind)?
        .strip_prefix('(')?
        .strip_suffix(')')?;
    Some(name.replace('_', "-"))
}

/// The names in a table of `KIND(name)` lines.
fn entries(table: &Path, kind: &str) -> Vec<String> {
    let text = fs::read_to_string(table).unwrap_or_else(|e| panic!("{}: {e}", table.display()));
    text.lines().filter_map(|line| entry(line, kind)).collect()
}

fn c_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("read the guests' folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == "c"))
        .collect();
    files.sort();
    files
}

/// The names of the guests whose sources lie in `folder`.
fn stems(folder: &Path) -> Vec<String> {
    let name = |file: &PathBuf| file.file_stem().expect("a name").to_string_lossy().into();
    c_files(folder).iter().map(name).collect()
}

fn compile(sources: &[PathBuf], flags: &[&str], program: &Path) {
    if let Err(why) = try_compile(sources, flags, program) {
        panic!("{}: {why}", program.display());
    }
}

fn try_compile(sources: &[PathBuf], flags: &[&str], program: &Path) -> Result<(), String> {
    let compiler = env::var("CC").unwrap_or_else(|_| "gcc".to_owned());
    try_compile_with(&compiler, FLAGS, sources, flags, program)
}

fn try_compile_with(
    compiler: &str,
    common: &[&str],
    sources: &[PathBuf],
    flags: &[&str],
    program: &Path,
) -> Result<(), String> {
    let result = Command::new(compiler)
        .args(common)
        .args(flags)
        .arg("-o")
        .arg(program)
        .args(sources)
        .output()
        .map_err(|e| format!("{compiler}: {e}: the guests need a C compiler and a static libc (apt-get install gcc libc6-dev)"))?;
    let said = String::from_utf8_lossy(&result.stderr);
    if !result.status.success() {
        return Err(said.into_owned());
    }
    for line in said.lines() {
        println!("cargo::warning={line}");
    }
    Ok(())
}

/// Family → attacks, each in the table's order.
fn list_attacks(hostile: &Path) -> BTreeMap<String, Vec<String>> {
    let result = Command::new(hostile)
        .arg("--list")
        .output()
        .expect("run hostile --list");
    let mut families = BTreeMap::<String, Vec<String>>::new();
    for line in String::from_utf8(result.stdout)
        .expect("names are ASCII")
        .lines()
    {
        let (family, name) = line.split_once(' ').expect("FAMILY NAME");
        families
            .entry(family.to_owned())
            .or_default()
            .push(name.to_owned());
    }
    families
}

fn enums(families: &BTreeMap<String, Vec<String>>) -> String {
    let mut text = String::new();
    let names: Vec<_> = families.keys().cloned().collect();
    text += &one_enum(
        "Family",
        "The families of attacks, one C file each.",
        &names,
    );
    for (family, attacks) in families {
        text += &one_enum(
            &camel(family),
            &format!("The attacks of `{family}.c`."),
            attacks,
        );
    }
    text
}

fn enums_of_modules(families: &BTreeMap<String, Vec<String>>) -> String {
    let one = |(family, attacks): (&String, &Vec<String>)| {
        let doc = format!("The attacks of `guests/wasi/attacks`: {family}.");
        one_enum(&camel(family), &doc, attacks)
    };
    families.iter().map(one).collect()
}

fn one_enum(name: &str, doc: &str, variants: &[String]) -> String {
    let mut text = format!(
        "/// {doc}\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\npub enum {name} {{\n"
    );
    for variant in variants {
        writeln!(text, "    /// `{variant}`\n    {},", camel(variant)).expect("write to a string");
    }
    writeln!(
        text,
        "}}\n\nimpl {name} {{\n    /// All of them, in the table's order."
    )
    .expect("write to a string");
    writeln!(text, "    pub const ALL: &'static [Self] = &[").expect("write to a string");
    for variant in variants {
        writeln!(text, "        Self::{},", camel(variant)).expect("write to a string");
    }
    text += "    ];\n\n    /// The name on the command line and in test names.\n    #[must_use]\n    pub const fn name(self) -> &'static str {\n        match self {\n";
    for variant in variants {
        writeln!(text, "            Self::{} => {variant:?},", camel(variant))
            .expect("write to a string");
    }
    text + "        }\n    }\n}\n\n"
}

/// `kill-all` → `KillAll`.
fn camel(name: &str) -> String {
    name.split('-')
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}
