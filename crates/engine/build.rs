//! Lays the worker's constants for openat2(2) where the process wall's filter knows them
//! (`palisade_process::seccomp::open_how::AT`).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-link-arg-bin=palisade-worker=-Wl,--image-base=0x100000,--section-start=.palisade.open_how=0x120000"
    );
}
