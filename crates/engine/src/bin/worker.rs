//! `palisade-worker`: started by the wasm wall, in a domain of the process wall.

use palisade_wasm::order::Order;
use std::process::ExitCode;

fn main() -> ExitCode {
    let order = match Order::from_arguments(std::env::args_os().skip(1)) {
        Ok(order) => order,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(125);
        }
    };
    match palisade_engine::worker::run(&order) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("wall: {error:#}");
            ExitCode::from(125)
        }
    }
}
