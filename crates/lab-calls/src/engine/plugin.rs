//! A proxy-wasm filter by Wasmtime alone: the calls of a request, and fields of the answer's head.

use super::instantiate;
use std::hint::black_box;
use wasmtime::{
    Caller, Extern, Instance, InstancePre, Linker, Memory, Module, ModuleExport, Store, TypedFunc,
    WasmParams, WasmResults,
};

/// What a filter makes of an answer's head.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// Fields as they are sent, with the end of the line.
    pub(crate) added: Vec<u8>,
    /// Of a guest that may add some.
    memory: Option<Memory>,
}

const ROOT: i32 = 1;
const STREAM: i32 = 2;

/// A proxy-wasm filter whose instances can be started.
pub(crate) struct Plugin {
    start: InstancePre<Head>,
    /// Of one that may add fields.
    memory: Option<ModuleExport>,
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

/// An instance of it, with a root context.
pub(crate) struct Started {
    store: Store<Head>,
    create: TypedFunc<(i32, i32), ()>,
    heads: [TypedFunc<(i32, i32, i32), i32>; 2],
    done: TypedFunc<i32, i32>,
    ends: [TypedFunc<i32, ()>; 2],
}

impl Plugin {
    /// # Errors
    ///
    /// When it lacks a callback.
    pub(super) fn link(linker: &Linker<Head>, module: &Module) -> wasmtime::Result<Self> {
        let start = linker.instantiate_pre(module)?;
        let found = CALLBACKS
            .iter()
            .filter_map(|name| module.get_export_index(name));
        let callbacks = found.collect::<Vec<_>>().try_into();
        let callbacks = callbacks.map_err(|_| wasmtime::Error::msg("it lacks a callback"))?;
        let has_imports = module.imports().next().is_some();
        let memory = module.get_export_index("memory").filter(|_| has_imports);
        Ok(Self {
            start,
            memory,
            callbacks,
        })
    }

    pub(crate) fn start(&self) -> wasmtime::Result<Started> {
        let (mut store, instance) = instantiate(&self.start)?;
        if let Some(memory) = &self.memory {
            let memory = instance.get_module_export(&mut store, memory);
            store.data_mut().memory = memory.and_then(Extern::into_memory);
        }
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
    store: &mut Store<Head>,
    export: &ModuleExport,
) -> wasmtime::Result<TypedFunc<P, R>> {
    let found = instance.get_module_export(&mut *store, export);
    let function = found.and_then(Extern::into_func);
    function
        .ok_or_else(|| wasmtime::Error::msg("it is no function"))?
        .typed(store)
}

impl Started {
    /// The calls of a request which is answered by a head.
    pub(crate) fn pass(&mut self) -> wasmtime::Result<()> {
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

    /// What it made of the answer's head.
    pub(crate) fn head_mut(&mut self) -> &mut Head {
        self.store.data_mut()
    }
}

/// With what it imports: fields can be added and taken away, all else is called by nobody.
pub(super) fn linker(module: &Module) -> wasmtime::Result<Linker<Head>> {
    let mut linker = Linker::new(module.engine());
    linker.func_wrap("env", "proxy_add_header_map_value", add_field)?;
    linker.func_wrap("env", "proxy_remove_header_map_value", remove_field)?;
    linker.define_unknown_imports_as_traps(module)?;
    Ok(linker)
}

/// `proxy_add_header_map_value` of the answer's head.
fn add_field(
    mut caller: Caller<'_, Head>,
    _map: i32,
    name: u32,
    name_bytes: u32,
    value: u32,
    value_bytes: u32,
) -> wasmtime::Result<i32> {
    let memory = memory_of(&caller)?;
    let (bytes, head) = memory.data_and_store_mut(&mut caller);
    head.added.extend_from_slice(part(bytes, name, name_bytes)?);
    head.added.extend_from_slice(b": ");
    head.added
        .extend_from_slice(part(bytes, value, value_bytes)?);
    head.added.extend_from_slice(b"\r\n");
    Ok(0)
}

/// `proxy_remove_header_map_value` of a field that the answer has not.
fn remove_field(
    caller: Caller<'_, Head>,
    _map: i32,
    name: u32,
    name_bytes: u32,
) -> wasmtime::Result<i32> {
    let memory = memory_of(&caller)?;
    black_box(part(memory.data(&caller), name, name_bytes)?);
    Ok(0)
}

fn memory_of(caller: &Caller<'_, Head>) -> wasmtime::Result<Memory> {
    let memory = caller.data().memory;
    memory.ok_or_else(|| wasmtime::Error::msg("it has no memory"))
}

fn part(memory: &[u8], at: u32, bytes: u32) -> wasmtime::Result<&[u8]> {
    let rest = memory.get(at as usize..);
    let part = rest.and_then(|rest| rest.get(..bytes as usize));
    part.ok_or_else(|| wasmtime::Error::msg("it points outside of its memory"))
}
