//! Components in the process of their host: engine, pool and compiled code of services.
//!
//! What a component is given to import, and how it is called, is `palisade-service`'s.

use crate::{
    handles::Handles,
    sys::{self, mapped::Publisher},
};
use palisade_compiler::settings;
#[cfg(feature = "compiler")]
use palisade_compiler::{CompileError, compile_for};
#[cfg(feature = "compiler")]
use palisade_wall::Purpose;
use palisade_wasm::{code::Code, launch::StartError};
use std::sync::{Arc, OnceLock};
use wasmtime::{Config, Enabled, PoolingAllocationConfig, component::Component};

pub use crate::guest::{Running, Timer, tick_finely};

/// Core instances of a component: its own module, what lifts and lowers its calls, adapters of others.
const PARTS: u32 = 24;
/// Tables of a component: its own, and one of each part that lowers calls.
const TABLES: u32 = 8;
/// Bytes of a table that are written anew before the next instance has it.
const TABLE_RESIDENT_BYTES: usize = 4096;
/// Stack of a call: the guest's, and what host functions take below it.
const STACK_BYTES: usize = settings::CALL_STACK_BYTES + (512 << 10);

/// The size of a pool: what all instances of all components share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Instances at one time. Each reserves about 4 GiB of addresses for each of its memories, and no memory.
    pub instances: u32,
    /// The most that one memory can grow to, in bytes.
    pub memory_bytes: usize,
    /// The most elements of one table.
    pub table_elements: usize,
    /// Bytes of a memory that are written anew before the next instance has the slot; what lies above is
    /// given back to the kernel, which costs less memory and more time.
    pub resident_bytes: usize,
}

impl Default for EngineOptions {
    /// 1000 instances of up to 1 GiB, 100,000 elements; 1 MiB stays.
    fn default() -> Self {
        Self {
            instances: 1000,
            memory_bytes: 1 << 30,
            table_elements: 100_000,
            resident_bytes: 1 << 20,
        }
    }
}

/// A component that can't be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No engine can be made.
    #[error("host: no engine can be made: {0:#}; fewer instances need less address space")]
    Pool(#[source] wasmtime::Error),
    /// The code is no component of this version and these settings.
    #[error("host: the compiled code does not fit this engine; compile the component anew: {0:#}")]
    Stale(#[source] wasmtime::Error),
    /// The file of the code can't be opened.
    #[error(transparent)]
    Open(#[from] StartError),
    /// It can't be compiled.
    #[cfg(feature = "compiler")]
    #[error(transparent)]
    Compile(#[from] CompileError),
}

/// What holds and runs components. Clones share its pools.
#[derive(Clone)]
pub struct Engine(Arc<Engines>);

struct Engines {
    options: EngineOptions,
    /// The first: WASI 0.2, with data that is copied. Others are made for the first component that is of their kind.
    calls: wasmtime::Engine,
    others: [OnceLock<wasmtime::Engine>; OTHERS.len()],
}

/// How memories come by what they begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    Copied,
    /// The file of the code is kept open for that.
    Mapped,
}

/// The settings of further engines, in the order in which they are tried.
const OTHERS: [(fn() -> Config, Beginning); 3] = [
    (
        || settings::with_images(settings::service()),
        Beginning::Mapped,
    ),
    (settings::service_of_tasks, Beginning::Copied),
    (
        || settings::with_images(settings::service_of_tasks()),
        Beginning::Mapped,
    ),
];

impl Engine {
    /// Makes an engine of its own.
    ///
    /// # Errors
    ///
    /// When this process can't have as many addresses.
    pub fn new(options: EngineOptions) -> Result<Self, LoadError> {
        let calls = make(settings::service(), Beginning::Copied, &options)?;
        Ok(Self(Arc::new(Engines {
            options,
            calls,
            others: Default::default(),
        })))
    }

    /// The engine of this process, with the default options, made when it is first asked for.
    ///
    /// # Errors
    ///
    /// As [`Engine::new`].
    pub fn shared() -> Result<Self, LoadError> {
        static SHARED: OnceLock<Engine> = OnceLock::new();
        if let Some(engine) = SHARED.get() {
            return Ok(engine.clone());
        }
        let engine = Self::new(EngineOptions::default())?;
        Ok(SHARED.get_or_init(|| engine).clone())
    }

    /// What it was made with.
    pub fn options(&self) -> &EngineOptions {
        &self.0.options
    }

    /// Loads a component that was compiled as a service.
    ///
    /// # Errors
    ///
    /// When the code is another version's, or no component's.
    pub fn load(&self, code: &Code) -> Result<Component, LoadError> {
        let file = code.open()?;
        self.first_that_fits(|engine, beginning| match beginning {
            Beginning::Copied => sys::code::map_component(engine, &file),
            Beginning::Mapped => sys::code::load_component(engine, &file),
        })
    }

    /// What this component takes, which was loaded here.
    pub fn handles(&self, component: &Component) -> Handles {
        let of_component =
            |engine: &wasmtime::Engine| wasmtime::Engine::same(engine, component.engine());
        let others = self.0.others.iter().zip(OTHERS);
        let mut others = others.filter_map(|(engine, of)| Some((engine.get()?, of.1)));
        match others.any(|(engine, of)| of == Beginning::Mapped && of_component(engine)) {
            true => Handles::MOST,
            false => Handles::LEAST,
        }
    }

    /// What the first engine makes of it whose settings it has.
    fn first_that_fits(
        &self,
        load: impl Fn(&wasmtime::Engine, Beginning) -> wasmtime::Result<Component>,
    ) -> Result<Component, LoadError> {
        let mut loaded = load(&self.0.calls, Beginning::Copied);
        for (engine, (settings, beginning)) in self.0.others.iter().zip(OTHERS) {
            if loaded.is_ok() {
                break;
            }
            loaded = load(self.other(engine, settings, beginning)?, beginning);
        }
        loaded.map_err(LoadError::Stale)
    }

    /// Compiles a component, here and now.
    ///
    /// The compiler reads what an attacker wrote. Where that matters, let `palisade-compiler` do it, and load
    /// what it gives.
    ///
    /// # Errors
    ///
    /// When it is no such component, or uses what no guest here may.
    #[cfg(feature = "compiler")]
    pub fn compile(&self, component: &[u8]) -> Result<Component, LoadError> {
        let code = compile_for(Purpose::Service, component)?;
        self.first_that_fits(|engine, _| sys::code::load_own(engine, &code))
    }

    fn other<'a>(
        &self,
        engine: &'a OnceLock<wasmtime::Engine>,
        settings: fn() -> Config,
        beginning: Beginning,
    ) -> Result<&'a wasmtime::Engine, LoadError> {
        if let Some(engine) = engine.get() {
            return Ok(engine);
        }
        let made = make(settings(), beginning, &self.0.options)?;
        Ok(engine.get_or_init(|| made))
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

fn make(
    mut settings: Config,
    beginning: Beginning,
    options: &EngineOptions,
) -> Result<wasmtime::Engine, LoadError> {
    if beginning == Beginning::Copied {
        settings.with_custom_code_memory(Some(Arc::new(Publisher)));
    }
    settings
        .async_stack_size(STACK_BYTES)
        .allocation_strategy(pool(options));
    wasmtime::Engine::new(&settings).map_err(LoadError::Pool)
}

fn pool(options: &EngineOptions) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    let instances = options.instances;
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(PARTS))
        .max_core_instances_per_component(PARTS)
        .total_memories(instances)
        .total_tables(instances.saturating_mul(TABLES))
        .max_tables_per_component(TABLES)
        // A request has its own; WASI 0.3 may have several tasks.
        .total_stacks(instances.saturating_mul(2))
        .max_memory_size(options.memory_bytes)
        .table_elements(options.table_elements)
        .linear_memory_keep_resident(options.resident_bytes)
        // A page: what most tables have is written anew then, and no system call asks what was written to.
        .table_keep_resident(TABLE_RESIDENT_BYTES)
        // Resets only what was written to, where the kernel can tell (Linux 6.7).
        .pagemap_scan(Enabled::Auto);
    pool
}
