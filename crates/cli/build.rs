//! Has the linker lay what a start needs together: a start reads then a quarter of the pages. See `tools/layout`. And has it
//! enter the program where the keeper is begun before the C library (`sys/entry.rs` of `palisade-process`).

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=layout.ld");
    println!("cargo::rustc-check-cfg=cfg(counting)");
    let is = |name, value| env::var(name).is_ok_and(|found| found == value);
    let is_shipped = is("PROFILE", "release") && is("TARGET", "x86_64-unknown-linux-gnu");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_fixed = flags
        .split('\u{1f}')
        .any(|flag| flag.ends_with("relocation-model=static"));
    let has_own_library = env::var("CARGO_CFG_TARGET_FEATURE")
        .is_ok_and(|features| features.split(',').any(|feature| feature == "crt-static"));
    // A dynamic program is entered by its loader, and one without a fixed address is not relocated yet there.
    if is("CARGO_CFG_TARGET_ARCH", "x86_64") && has_own_library && is_fixed {
        println!("cargo::rustc-link-arg-bins=-Wl,-e,palisade_entry");
    }
    if let (true, Ok(folder)) = (is_shipped, env::var("CARGO_MANIFEST_DIR")) {
        // Not by `-Wl`, which would divide a folder's name at a comma.
        println!("cargo::rustc-link-arg-bins=-T{folder}/layout.ld");
    }
}
