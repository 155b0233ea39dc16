//! Reads WebAssembly from stdin and writes machine code to stdout.
//!
//! It knows no file and takes no option: the wasm wall runs it in a domain that is granted nothing, for
//! what it reads is the guest's.

use std::{
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
    let mut module = Vec::new();
    std::io::stdin().lock().read_to_end(&mut module)?;
    let code = palisade_engine::compile::compile(&module)?;
    std::io::stdout().lock().write_all(&code)?;
    Ok(())
}
