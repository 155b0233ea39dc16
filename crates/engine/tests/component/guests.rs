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
