//! Compiles the workload programs of `lab/workloads`, one C file each, into static executables that
//! the lab carries within itself: no compiler is needed where it measures.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

const FLAGS: [&str; 6] = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-static", "-s"];

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
    println!("cargo::rerun-if-env-changed=CC");
    compile(&sources.join("true.c"), &FREESTANDING);
    for program in [
        "syscalls",
        "opens",
        "blocks",
        "threads",
        "bandwidth",
        "offline",
        "boot",
        "stream",
        "pages",
    ] {
        compile(&sources.join(program).with_extension("c"), &[]);
    }
}

fn compile(source: &Path, flags: &[&str]) {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let name = source.file_stem().expect("a file name");
    let status = Command::new(&compiler)
        .args(FLAGS)
        .args(flags)
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
