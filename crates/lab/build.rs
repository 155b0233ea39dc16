//! Compiles the workload programs of `lab/workloads`, one C file each, into static executables that
//! the lab carries within itself: no compiler is needed where it measures. So with the filters, which are written as
//! WebAssembly.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// A function that was not declared would be taken for one that gives an `int`.
const FLAGS: [&str; 7] = [
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror=implicit-function-declaration",
    "-static",
    "-s",
];

/// Nothing but its own instructions: no libc, and one segment for the kernel to map.
const FREESTANDING: [&str; 5] = [
    "-nostdlib",
    "-ffreestanding",
    "-fno-stack-protector",
    "-no-pie",
    "-Wl,--build-id=none,-z,noseparate-code,-z,norelro",
];

fn main() {
    let sources = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../../lab/workloads");
    println!("cargo::rerun-if-changed={}", sources.display());
    let shared = sources.join("../../guests/services");
    for file in ["mono.h", "native/server.c"] {
        println!("cargo::rerun-if-changed={}", shared.join(file).display());
    }
    println!("cargo::rerun-if-env-changed=CC");
    compile(&sources.join("true.c"), &FREESTANDING);
    for program in [
        "syscalls",
        "opens",
        "idle",
        "blocks",
        "threads",
        "bandwidth",
        "offline",
        "boot",
        "stream",
        "pages",
        "replies",
        "mono",
        "listens",
        "floor-filter",
        "floor-start",
        "floor-wall",
        "floor-notify",
    ] {
        compile(&sources.join(program).with_extension("c"), &[]);
    }
    compile(&shared.join("native/server.c"), &["-D_GNU_SOURCE"]);
    for filter in ["filter-null", "filter-header", "filter-slow"] {
        assemble(&sources.join(filter).with_extension("wat"));
    }
}

/// From the text of WebAssembly to its bytes.
fn assemble(source: &Path) {
    let bytes = wat::parse_file(source).unwrap_or_else(|error| panic!("{error}"));
    let name = source.file_stem().expect("a file name");
    let into = Path::new(&variable("OUT_DIR"))
        .join(name)
        .with_extension("wasm");
    std::fs::write(&into, bytes).unwrap_or_else(|error| panic!("{}: {error}", into.display()));
}

fn compile(source: &Path, flags: &[&str]) {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let name = source.file_stem().expect("a file name");
    let status = Command::new(&compiler)
        .args(FLAGS)
        .args(flags)
        .arg("-I")
        .arg(Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../guests/services"))
        .arg("-o")
        .arg(Path::new(&variable("OUT_DIR")).join(name))
        .arg(source)
        .status()
        .unwrap_or_else(|error| {
            panic!("cannot run {compiler}: {error}: the workloads need a C compiler and a static libc (apt-get install gcc libc6-dev)")
        });
    assert!(
        status.success(),
        "{} did not compile ({status})",
        source.display()
    );
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("cargo sets {name}: {error}"))
}
