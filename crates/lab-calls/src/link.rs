//! What becomes of a filter before its first request and after its last.
//!
//! ```text
//! compile NS …     from WebAssembly to machine code
//! load NS …        from machine code that was kept to a program that can be executed
//! register NS …    the host functions that filters may import, and the first filter's imports: once for a server
//! link NS …        from the program to an instance that can be called:
//! imports NS …     its callbacks and imports found among them, once for each filter,
//! start NS …       and its memory and its own start, once for each instance
//! unlink NS …      the instance and the filter are given back
//! ```

use anyhow::Context;
use palisade_engine::guest::{Compiled, Engine, Program};
use palisade_filter::{CallRefused, Filter, Host, HttpCall, Instance, LogLevel, Settings, Shared};
use std::{fmt::Write, rc::Rc, sync::Arc, time::Instant};

/// How often each; compiling takes the longest.
const COMPILES: usize = 11;
const LOADS: usize = 51;
const REGISTERS: usize = 51;
const LINKS: usize = 501;

struct Silent;

impl Host for Silent {
    fn log(&self, _level: LogLevel, _line: &[u8]) {}

    fn call(&self, _call: HttpCall) -> Result<(), CallRefused> {
        Err(CallRefused)
    }
}

/// A line for each step.
pub(crate) fn steps(module: &[u8]) -> anyhow::Result<String> {
    let engine = Engine::shared()?;
    let mut compiled: Option<Compiled> = None;
    let compile = times(COMPILES, || {
        compiled = Some(engine.precompile(module)?);
        Ok(())
    })?;
    let compiled = compiled.context("nothing was compiled")?;
    let mut program: Option<Program> = None;
    let load = times(LOADS, || {
        program = Some(engine.load(&compiled)?);
        Ok(())
    })?;
    let program = program.context("nothing was loaded")?;
    let mut shared = Arc::default();
    let register = times(REGISTERS, || {
        shared = Arc::new(Shared::default());
        Filter::load(&program, Settings::new("lab"), &shared)?;
        Ok(())
    })?;
    let host: Rc<dyn Host> = Rc::new(Silent);
    let made = lines([("compile", compile), ("load", load), ("register", register)])?;
    let linked = links(
        || Ok(Filter::load(&program, Settings::new("lab"), &shared)?),
        |filter| Ok(Instance::start(filter, Rc::clone(&host), None)?),
    )?;
    Ok(made + &linked)
}

/// The lines of linking: of what is loaded once for each filter, and what starts an instance of it.
pub(crate) fn links<F, I>(
    load: impl Fn() -> anyhow::Result<F>,
    begin: impl Fn(&F) -> anyhow::Result<I>,
) -> anyhow::Result<String> {
    let [mut link, mut imports, mut start, mut unlink] = [const { Vec::new() }; 4];
    for _ in 0..LINKS {
        let began = Instant::now();
        let filter = load()?;
        let loaded = Instant::now();
        let instance = begin(&filter)?;
        let linked = Instant::now();
        drop(instance);
        drop(filter);
        unlink.push(linked.elapsed().as_nanos());
        imports.push((loaded - began).as_nanos());
        start.push((linked - loaded).as_nanos());
        link.push((linked - began).as_nanos());
    }
    lines([
        ("link", link),
        ("imports", imports),
        ("start", start),
        ("unlink", unlink),
    ])
}

fn lines<const STEPS: usize>(steps: [(&str, Vec<u128>); STEPS]) -> anyhow::Result<String> {
    let mut lines = String::new();
    for (step, times_ns) in steps {
        lines += step;
        for time_ns in times_ns {
            write!(lines, " {time_ns}")?;
        }
        lines.push('\n');
    }
    Ok(lines)
}

fn times(count: usize, mut step: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Vec<u128>> {
    let one = |_| {
        let began = Instant::now();
        step()?;
        Ok(began.elapsed().as_nanos())
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::steps;
    use crate::engine;

    #[test]
    fn every_step_is_timed() {
        let module = wat::parse_str(crate::NULL_FILTER).unwrap();
        let steps = steps(&module).unwrap();
        let keys = |said: &str| -> String {
            let keys = said.lines().filter_map(|line| line.split(' ').next());
            keys.collect::<Vec<_>>().join(" ")
        };
        let of_links = "link imports start unlink";
        assert_eq!(keys(&steps), format!("compile load register {of_links}"));
        let links = engine::links(&module).unwrap();
        assert_eq!(keys(&links), of_links);
        let times = |line: &str| {
            line.split(' ')
                .skip(1)
                .all(|ns| ns.parse::<u64>().is_ok_and(|ns| ns > 0))
        };
        for said in [steps, links] {
            assert!(said.lines().all(times), "{said}");
        }
    }
}
