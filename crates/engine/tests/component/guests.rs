//! Guests that are components, from source.

#[path = "rust.rs"]
mod rust;

pub(crate) use rust::Missing;

use rust::sources;
use std::{process::Command, sync::OnceLock};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};

/// Machine code for the worker.
pub(crate) fn compile(component: &[u8]) -> Vec<u8> {
    palisade_compiler::compile(component).expect("compile the component")
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
    Ok(compile(&rust::component(package)?))
}
