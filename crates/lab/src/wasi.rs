//! From C to WebAssembly programs: Debian's clang with wasi-libc, run where the lab measures.
//!
//! The same compiler makes the native twin of a program, by `-O2`, as distributions do. WebAssembly is built as those do who publish
//! it: optimised more, for nobody compiles it again with other flags, and with what each engine has had for years.

use crate::subjects::{named_version, on_path, version_by};
use anyhow::{Context, ensure};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

/// How to get the compiler and what it needs for WASI.
pub(crate) const INSTALL: &str =
    "apt-get install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32";
const CLANG: &str = "clang-19";
/// What every program is compiled with, for WASI and for this machine.
pub(crate) const FLAGS: [&str; 2] = ["-O2", "-w"];

/// For WASI: signals and processor times are emulated where a program asks for them, and the stack is as large
/// as a native program's. A number with a fraction becomes one without by one instruction, not by two comparisons and a
/// branch. (Where wasm-opt is installed clang has it go over all that it links.)
const WASI_FLAGS: [&str; 12] = [
    "--target=wasm32-wasi",
    "-O3",
    "-msimd128",
    "-mnontrapping-fptoint",
    "-mbulk-memory",
    "-msign-ext",
    "-lm",
    "-D_WASI_EMULATED_SIGNAL",
    "-D_WASI_EMULATED_PROCESS_CLOCKS",
    "-lwasi-emulated-signal",
    "-lwasi-emulated-process-clocks",
    "-Wl,-z,stack-size=8388608",
];

/// With no library and no beginning of its own.
const BARE_FLAGS: [&str; 5] = [
    "--target=wasm32",
    "-nostdlib",
    "-mbulk-memory",
    "-Wl,--no-entry,--stack-first,--strip-all",
    "-Wl,-z,stack-size=16384",
];

/// What a program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Wasi,
    Native,
    /// A guest that imports nothing, for the calls of its host.
    Bare,
}

/// A compiler for both.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    clang: PathBuf,
}

impl Toolchain {
    /// The one in `PATH`.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let clang = on_path(CLANG);
        let clang = clang.with_context(|| format!("host: {CLANG} is not installed: {INSTALL}"))?;
        Ok(Self { clang })
    }

    /// Compiles and links `sources` into the program `into`.
    ///
    /// # Errors
    ///
    /// With the compiler's first error, when they do not compile.
    pub(crate) fn compile(
        &self,
        target: Target,
        sources: &[PathBuf],
        flags: &[OsString],
        into: &Path,
    ) -> anyhow::Result<()> {
        let of_target: &[&str] = match target {
            Target::Wasi => &WASI_FLAGS,
            Target::Native => &["-lm"],
            Target::Bare => &BARE_FLAGS,
        };
        let output = Command::new(&self.clang)
            .args(FLAGS)
            .args(flags)
            .arg("-o")
            .arg(into)
            .args(sources)
            .args(of_target)
            .output()
            .with_context(|| format!("host: cannot run {}", self.clang.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let cause = said.lines().find(|line| line.contains("error"));
        ensure!(
            output.status.success(),
            "host: {CLANG} cannot make {} ({}); it may lack a package: {INSTALL}",
            into.display(),
            cause.unwrap_or("it said nothing")
        );
        Ok(())
    }
}

/// The compiler and its version, where it is installed.
pub(crate) fn version() -> (&'static str, Option<String>) {
    let told = on_path(CLANG).and_then(|clang| version_by(&clang, "--version"));
    (CLANG, told.map(|told| named_version("clang", &told)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_does_not_compile_is_told_with_its_error() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("wrong.c");
        fs::write(&source, "int main(void) { return nothing_known; }\n").unwrap();
        let toolchain = Toolchain {
            clang: on_path(CLANG).unwrap_or_else(|| "/bin/false".into()),
        };
        let into = folder.path().join("wrong.wasm");
        let error = toolchain.compile(Target::Wasi, &[source], &[], &into);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(INSTALL), "{error}");
        assert!(!into.exists());
    }
}
