//! Builds the keeper, a static program without std, with the compiler that builds this crate.
//!
//! Cargo has no stable way to embed one crate's program in another (artifact dependencies), and the
//! keeper needs nothing but `core`, so one call of rustc does it.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=src/sys/keeper");
    println!("cargo::rerun-if-changed=src/wire.rs");
    println!("cargo::rerun-if-changed=src/wire");
    build("keeper", "src/sys/keeper/main.rs", &[]);
    build(
        "containers",
        "src/sys/keeper/containers.rs",
        &["--cfg", "container"],
    );
}

fn build(name: &str, source: &str, more: &[&str]) {
    let target = variable("TARGET");
    let output = Path::new(&variable("OUT_DIR")).join(name);
    let status = Command::new(variable("RUSTC"))
        .args([
            "--edition",
            "2024",
            "--crate-name",
            "palisade_keeper",
            "--crate-type",
            "bin",
        ])
        .args(["--check-cfg", "cfg(container)"])
        .args(more)
        .args(["--target", &target, "-o"])
        .arg(&output)
        // Fixed addresses and no start files: nothing to relocate, nothing to initialise.
        .args([
            "-C",
            "panic=abort",
            "-C",
            "opt-level=s",
            "-C",
            "relocation-model=static",
            "-C",
            "strip=symbols",
        ])
        // It is copied into memory at every start: as small as it can be.
        .args([
            "-C",
            "lto=fat",
            "-C",
            "codegen-units=1",
            "-C",
            "force-unwind-tables=no",
        ])
        .args([
            "-C",
            "link-arg=-nostartfiles",
            "-C",
            "link-arg=-nostdlib",
            "-C",
            "link-arg=-static",
        ])
        .args([
            "-C",
            "link-arg=-Wl,--build-id=none,-z,noseparate-code",
            "-D",
            "warnings",
        ])
        .arg(source)
        .status()
        .unwrap_or_else(|error| panic!("cannot run rustc to build the keeper: {error}"));
    assert!(status.success(), "{source} did not compile ({status})");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("cargo sets {name}: {error}"))
}
