//! Components in Rust, from source. Shared with the tests of `crates/service`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A guest that can't be built here, and why.
#[derive(Clone, Debug)]
pub(crate) struct Missing(pub(crate) String);

/// The folder of sources.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/component")
}

/// The component of one of the packages.
pub(crate) fn component(package: &str) -> Result<Vec<u8>, Missing> {
    let component = wit_component::ComponentEncoder::default()
        .module(&build_rust(package)?)
        .and_then(|mut encoder| encoder.encode());
    Ok(component.expect("make a component of the module"))
}

/// By Debian's compiler, which brings the sources of a standard library for WebAssembly: rustup's own
/// targets may not be installed.
fn build_rust(package: &str) -> Result<Vec<u8>, Missing> {
    for part in [
        "/usr/bin/cargo",
        "/usr/lib/rustlib/src/rust/library",
        "/usr/bin/wasm-ld-19",
    ] {
        if !Path::new(part).exists() {
            return Err(Missing(format!(
                "there is no {part}: Debian has it in cargo-web, rust-web-src and lld-19"
            )));
        }
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package);
    let output = Command::new("/usr/bin/cargo")
        .args([
            "build",
            "--release",
            "--locked",
            "-Zbuild-std=std,panic_abort",
        ])
        .args(["--target", "wasm32-unknown-unknown", "--target-dir"])
        .arg(&target)
        .current_dir(sources().join(package))
        // Before rustup's, and with none of what the cargo above this test told us.
        .env("PATH", "/usr/bin:/bin")
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "wasm-ld-19")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .expect("run cargo");
    let words = String::from_utf8_lossy(&output.stderr);
    if words.contains("failed to download") || words.contains("Could not resolve") {
        return Err(Missing("its dependencies can't be downloaded here".into()));
    }
    assert!(output.status.success(), "{words}");
    let built = format!("wasm32-unknown-unknown/release/{package}.wasm");
    Ok(std::fs::read(target.join(built)).expect("read the module"))
}
