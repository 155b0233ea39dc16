//! Reads WebAssembly from stdin and writes machine code to stdout, for the purpose that its argument
//! names: `program`, `filter` or `service`.
//!
//! It knows no file and takes no option: the wasm wall runs it in a domain that is granted nothing, for
//! what it reads is the guest's.

use palisade_wall::Purpose;
use std::{
    env,
    io::{Read, Write},
    process::ExitCode,
};

fn main() -> ExitCode {
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line: it becomes part of the launcher's own.
            eprintln!("{}", format!("{error:#}").replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

fn compile() -> Result<(), Box<dyn std::error::Error>> {
    let word = env::args().nth(1).unwrap_or_default();
    let purpose = Purpose::of_word(&word).ok_or_else(|| {
        format!("host: {word:?} is no purpose of palisade-compiler's; use the one that was built with palisade")
    })?;
    let mut module = Vec::new();
    std::io::stdin().lock().read_to_end(&mut module)?;
    let code = palisade_compiler::compile_for(purpose, &module)?;
    std::io::stdout().lock().write_all(&code)?;
    Ok(())
}
