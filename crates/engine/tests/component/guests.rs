//! Guests that are components, from source.

use palisade_engine::compile;
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};

/// A guest that can't be built here, and why.
#[derive(Clone, Debug)]
pub(crate) struct Missing(pub(crate) String);

/// The folder of sources.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/component")
}

/// Machine code for the worker.
pub(crate) fn compile(component: &[u8]) -> Vec<u8> {
    compile::compile(component).expect("compile the component")
}

/// `command.c`, made a component of WASI 0.2; machine code.
pub(crate) fn command() -> Result<Vec<u8>, Missing> {
    static COMMAND: OnceLock<Result<Vec<u8>, Missing>> = OnceLock::new();
    COMMAND
        .get_or_init(|| {
            let module = build_c("command.c")?;
            let component = wit_component::ComponentEncoder::default()
                .module(&module)
                .and_then(|encoder| {
                    encoder.adapter(
                        WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                        WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
                    )
                })
                .and_then(|mut encoder| encoder.encode())
                .expect("make a component of the module");
            Ok(compile(&component))
        })
        .clone()
}

fn build_c(source: &str) -> Result<Vec<u8>, Missing> {
    let folder = tempfile::tempdir().expect("make a folder");
    let built = folder.path().join("built.wasm");
    let output = Command::new("clang-19")
        .args(["--target=wasm32-wasi", "-O1", "-Wall", "-Werror", "-o"])
        .arg(&built)
        .arg(sources().join(source))
        .output()
        .map_err(|error| Missing(format!("clang-19: {error}; tools/setup installs it")))?;
    let words = String::from_utf8_lossy(&output.stderr);
    if words.contains("wasi/api.h") || words.contains("stdio.h' file not found") {
        return Err(Missing(
            "wasi-libc is not installed; tools/setup does it".into(),
        ));
    }
    assert!(output.status.success(), "{words}");
    Ok(std::fs::read(built).expect("read the module"))
}

/// `sockets`, a component of WASI 0.2 in Rust; machine code.
pub(crate) fn sockets() -> Result<Vec<u8>, Missing> {
    static SOCKETS: OnceLock<Result<Vec<u8>, Missing>> = OnceLock::new();
    SOCKETS.get_or_init(|| rust_component("sockets")).clone()
}

/// `streams`, a component of WASI 0.3 in Rust; machine code.
pub(crate) fn streams() -> Result<Vec<u8>, Missing> {
    static STREAMS: OnceLock<Result<Vec<u8>, Missing>> = OnceLock::new();
    STREAMS.get_or_init(|| rust_component("streams")).clone()
}

fn rust_component(package: &str) -> Result<Vec<u8>, Missing> {
    let component = wit_component::ComponentEncoder::default()
        .module(&build_rust(package)?)
        .and_then(|mut encoder| encoder.encode())
        .expect("make a component of the module");
    Ok(compile(&component))
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
