//! A call of a guest's function that does nothing.

use crate::{Tell, Work, beside};
use anyhow::Context;
use palisade_engine::guest::{Engine, Function, Guest, Imports, Options};
use palisade_process::Machine;
use palisade_wall::Purpose;
use palisade_wasm::{
    code::{self, Compiler},
    module::Module,
    programs::Programs,
};
use std::{collections::BTreeSet, fs};

const GUEST: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "f2") (param i32 i32)))"#;

/// What it is called.
pub(crate) const NAME: &str = "call";

/// Tells of it.
pub(crate) fn run(tell: Tell) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("host: no folder can be made")?;
    let path = folder.path().join("call.wasm");
    fs::write(&path, wat::parse_str(GUEST)?)?;
    let compiler = Compiler {
        path: &Programs::find(Some(&beside()?))?.compiler,
        machine: &Machine::probe(),
        allow_degraded: &BTreeSet::new(),
        within: None,
    };
    let module = Module::open(&path)?.context("host: the module is none")?;
    let cache = code::open_cache(Some(folder.path()));
    let code = code::obtain(&module, Purpose::Filter, &compiler, cache)?;
    let engine = Engine::shared()?;
    let program = engine.load_code(&code)?;
    let imports = Imports::new(program.engine());
    let mut guest = Guest::link(&program, imports, Options::default(), || ())?;
    let function: Function<(u32, u32), ()> = guest.function("f2")?;
    tell(Work {
        before: &mut || {},
        pass: &mut || guest.call(&function, (1, 2)).is_ok(),
    })
}
