//! The same by Wasmtime alone, calls, requests, links and pictures: what the library's cannot be less than.

use crate::{lines, link, module, pictures::Paint, request};
use anyhow::{Context, anyhow};
use palisade_compiler::settings;
use palisade_engine::guest::Isolation;
use std::hint::black_box;
use wasmtime::{
    Engine, Instance, InstanceAllocationStrategy, InstancePre, Linker, Memory, Module,
    ModuleExport, PoolingAllocationConfig, Store, TypedFunc, WasmParams, WasmResults,
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

/// With what it imports, which nobody calls.
fn linker(module: &Module) -> wasmtime::Result<Linker<()>> {
    let mut linker = Linker::new(module.engine());
    linker.define_unknown_imports_as_traps(module)?;
    Ok(linker)
}

/// Without a limit of time.
fn instantiate(start: &InstancePre<()>) -> wasmtime::Result<(Store<()>, Instance)> {
    let mut store = Store::new(start.module().engine(), ());
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
    start: InstancePre<()>,
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
    ) -> wasmtime::Result<(Store<()>, TypedFunc<P, ()>)> {
        let (mut store, instance) = instantiate(&self.start)?;
        let function = instance.get_typed_func(&mut store, name)?;
        Ok((store, function))
    }
}

/// The calls that a proxy-wasm filter has of a request which is answered by a head, and nothing else: no exchange, no limit.
pub(crate) fn requests(filter: &[u8], isolation: Isolation) -> anyhow::Result<String> {
    let plugin = told(compile(filter).and_then(|module| Plugin::link(&linker(&module)?, &module)))?;
    let mut started = told(plugin.start())?;
    request::lines(|| {
        if isolation == Isolation::Fresh {
            started = told(plugin.start())?;
        }
        told(started.pass())
    })
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
    store: Store<()>,
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

fn told<T>(outcome: wasmtime::Result<T>) -> anyhow::Result<T> {
    outcome.map_err(|error| anyhow!("{error:?}"))
}

const ROOT: i32 = 1;
const STREAM: i32 = 2;

struct Plugin {
    start: InstancePre<()>,
    callbacks: [ModuleExport; CALLBACKS.len()],
}

const CALLBACKS: [&str; 8] = [
    "proxy_on_context_create",
    "proxy_on_vm_start",
    "proxy_on_configure",
    "proxy_on_request_headers",
    "proxy_on_response_headers",
    "proxy_on_done",
    "proxy_on_log",
    "proxy_on_delete",
];

struct Started {
    store: Store<()>,
    create: TypedFunc<(i32, i32), ()>,
    heads: [TypedFunc<(i32, i32, i32), i32>; 2],
    done: TypedFunc<i32, i32>,
    ends: [TypedFunc<i32, ()>; 2],
}

impl Plugin {
    fn link(linker: &Linker<()>, module: &Module) -> wasmtime::Result<Self> {
        let start = linker.instantiate_pre(module)?;
        let found = CALLBACKS
            .iter()
            .filter_map(|name| module.get_export_index(name));
        let callbacks = found.collect::<Vec<_>>().try_into();
        let callbacks = callbacks.map_err(|_| wasmtime::Error::msg("it lacks a callback"))?;
        Ok(Self { start, callbacks })
    }

    fn start(&self) -> wasmtime::Result<Started> {
        let (mut store, instance) = instantiate(&self.start)?;
        let [create, vm, configure, request, response, done, log, delete] = &self.callbacks;
        let create = callback(&instance, &mut store, create)?;
        let begins: [TypedFunc<(i32, i32), i32>; 2] = [
            callback(&instance, &mut store, vm)?,
            callback(&instance, &mut store, configure)?,
        ];
        create.call(&mut store, (ROOT, 0))?;
        for begin in begins {
            begin.call(&mut store, (ROOT, 0))?;
        }
        Ok(Started {
            create,
            heads: [
                callback(&instance, &mut store, request)?,
                callback(&instance, &mut store, response)?,
            ],
            done: callback(&instance, &mut store, done)?,
            ends: [
                callback(&instance, &mut store, log)?,
                callback(&instance, &mut store, delete)?,
            ],
            store,
        })
    }
}

fn callback<P: WasmParams, R: WasmResults>(
    instance: &Instance,
    store: &mut Store<()>,
    export: &ModuleExport,
) -> wasmtime::Result<TypedFunc<P, R>> {
    let found = instance.get_module_export(&mut *store, export);
    let function = found.and_then(wasmtime::Extern::into_func);
    function
        .ok_or_else(|| wasmtime::Error::msg("it is no function"))?
        .typed(store)
}

impl Started {
    fn pass(&mut self) -> wasmtime::Result<()> {
        let store = &mut self.store;
        self.create.call(&mut *store, black_box((STREAM, ROOT)))?;
        for head in &self.heads {
            head.call(&mut *store, black_box((STREAM, 3, 1)))?;
        }
        self.done.call(&mut *store, black_box(STREAM))?;
        for end in &self.ends {
            end.call(&mut *store, black_box(STREAM))?;
        }
        Ok(())
    }
}
