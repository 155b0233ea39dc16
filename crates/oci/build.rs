//! Says whether root builds this: what takes root is then run, and else ignored with the reason.

use std::{fs, os::unix::fs::MetadataExt};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(built_by_root)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=USER");
    println!("cargo::rerun-if-env-changed=HOME");
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        println!("cargo::rustc-cfg=built_by_root");
    }
}
