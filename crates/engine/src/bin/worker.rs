//! `palisade-worker`: started by the wasm wall, in a domain of the process wall.

use palisade_engine::worker;
use palisade_wasm::order::Order;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Order::from_arguments(std::env::args_os().skip(1)) {
        Ok(order) => worker::run(&order).into(),
        Err(error) => {
            eprintln!("{}", palisade_policy::visible(&error.to_string()));
            worker::REFUSED.into()
        }
    }
}
