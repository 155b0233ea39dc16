//! The same by Wasmtime alone, calls, requests, links and pictures: what the library's cannot be less than.

mod plugin;

use crate::{lines, link, module, pictures::Paint, request};
use anyhow::{Context, anyhow};
use palisade_compiler::settings;
use palisade_engine::guest::Isolation;
use plugin::linker;
pub(crate) use plugin::{Head, Plugin, Started};
use std::hint::black_box;
use wasmtime::{
    Engine, Instance, InstanceAllocationStrategy, InstancePre, Memory, Module,
    PoolingAllocationConfig, Store, TypedFunc, WasmParams,
};

/// With the settings of plugins and a pool for their instances, and no limit of time, of memory or of anything.
pub(crate) fn calls(isolation: Isolation) -> anyhow::Result<String> {
    told(all_calls(&module()?, isolation))
}

fn compile(module: &[u8]) -> wasmtime::Result<Module> {
    let mut config = settings::with_images(settings::filter());
    let pool = PoolingAllocationConfig::default();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Module::new(&Engine::new(&config)?, module)
}

/// Without a limit of time.
fn instantiate(start: &InstancePre<Head>) -> wasmtime::Result<(Store<Head>, Instance)> {
    let mut store = Store::new(start.module().engine(), Head::default());
    store.set_epoch_deadline(u64::MAX / 2);
    let instance = start.instantiate(&mut store)?;
    Ok((store, instance))
}

fn all_calls(module: &[u8], isolation: Isolation) -> wasmtime::Result<String> {
    let module = compile(module)?;
    let guest = Guest {
        start: linker(&module)?.instantiate_pre(&module)?,
        isolation,
    };
    let lines = [
        guest.calls(0, ())?,
        guest.calls(1, (1,))?,
        guest.calls(2, (1, 2))?,
        guest.calls(3, (1, 2, 3))?,
        guest.calls(4, (1, 2, 3, 4))?,
        guest.calls(5, (1, 2, 3, 4, 5))?,
        guest.calls(6, (1, 2, 3, 4, 5, 6))?,
        guest.calls(7, (1, 2, 3, 4, 5, 6, 7))?,
        guest.calls(8, (1, 2, 3, 4, 5, 6, 7, 8))?,
    ];
    Ok(lines.concat())
}

struct Guest {
    start: InstancePre<Head>,
    isolation: Isolation,
}

impl Guest {
    fn calls<P: WasmParams + Copy>(&self, count: usize, words: P) -> wasmtime::Result<String> {
        let name = format!("f{count}");
        let (mut store, function) = self.instance(&name)?;
        let mut failed = None;
        let lines = lines(count, || {
            let outcome = match self.isolation {
                Isolation::Fresh => self
                    .instance(&name)
                    .and_then(|(mut store, function)| function.call(&mut store, black_box(words))),
                _ => function.call(&mut store, black_box(words)),
            };
            if let Err(error) = outcome {
                failed = Some(error);
            }
        });
        // A call that was refused would be a fast one.
        failed.map_or(Ok(lines), Err)
    }

    fn instance<P: WasmParams>(
        &self,
        name: &str,
    ) -> wasmtime::Result<(Store<Head>, TypedFunc<P, ()>)> {
        let (mut store, instance) = instantiate(&self.start)?;
        let function = instance.get_typed_func(&mut store, name)?;
        Ok((store, function))
    }
}

/// The calls that a proxy-wasm filter has of a request which is answered by a head, and nothing else: no exchange, no limit.
pub(crate) fn requests(filter: &[u8], isolation: Isolation) -> anyhow::Result<String> {
    let plugin = load(filter)?;
    let mut started = told(plugin.start())?;
    request::lines(|| {
        if isolation == Isolation::Fresh {
            started = told(plugin.start())?;
        }
        told(started.pass())
    })
}

/// A filter, compiled and linked.
pub(crate) fn load(filter: &[u8]) -> anyhow::Result<Plugin> {
    told(compile(filter).and_then(|module| Plugin::link(&linker(&module)?, &module)))
}

/// What it takes to link a filter and to start an instance of it: its imports found, its callbacks, and those called that begin.
pub(crate) fn links(filter: &[u8]) -> anyhow::Result<String> {
    let module = told(compile(filter))?;
    let linker = told(linker(&module))?;
    link::links(
        || told(Plugin::link(&linker, &module)),
        |plugin| told(plugin.start()),
    )
}

/// A guest that makes pictures grey.
pub(crate) struct Painter {
    store: Store<Head>,
    memory: Memory,
    mono: TypedFunc<u32, u32>,
    room: usize,
}

impl Painter {
    pub(crate) fn load(module: &[u8]) -> anyhow::Result<Self> {
        told(compile(module).and_then(|module| Self::of(&module)))
    }

    fn of(module: &Module) -> wasmtime::Result<Self> {
        let start = linker(module)?.instantiate_pre(module)?;
        let (mut store, instance) = instantiate(&start)?;
        let memory = instance.get_memory(&mut store, "memory");
        let memory = memory.ok_or_else(|| wasmtime::Error::msg("it exports no memory"))?;
        let room: TypedFunc<(), u32> = instance.get_typed_func(&mut store, "room")?;
        Ok(Self {
            mono: instance.get_typed_func(&mut store, "mono")?,
            room: room.call(&mut store, ())? as usize,
            memory,
            store,
        })
    }
}

impl Paint for Painter {
    fn paint(&mut self, picture: &[u8], grey: &mut Vec<u8>) -> anyhow::Result<usize> {
        let store = &mut self.store;
        self.memory.write(&mut *store, self.room, picture)?;
        let bytes = told(self.mono.call(&mut *store, picture.len() as u32))? as usize;
        let painted = self.memory.data(&*store).get(self.room..self.room + bytes);
        grey.extend_from_slice(painted.context("guest: it says more than it has")?);
        Ok(bytes)
    }
}

pub(crate) fn told<T>(outcome: wasmtime::Result<T>) -> anyhow::Result<T> {
    outcome.map_err(|error| anyhow!("{error:?}"))
}
