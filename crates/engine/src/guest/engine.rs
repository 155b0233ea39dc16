//! The engine of plugins: a pool of slots for their instances.

use super::{Compiled, LoadError, Program};
use crate::{
    handles::Handles,
    sys::{code, mapped::Publisher},
};
use palisade_compiler::settings;
use std::sync::{Arc, OnceLock};
use wasmtime::{Enabled, PoolingAllocationConfig};

/// Whether memories are kept apart by keys of the processor (pkeys(7)) as well as by address.
///
/// With keys the slots lie closer: more instances fit into the address space, and a stray access of one
/// guest's code to the next slot faults. Each call into a guest and out of it switches keys, tens of ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtectionKeys {
    /// By address alone.
    #[default]
    Off,
    /// Keys where the processor has them.
    Auto,
    /// Keys, or no engine.
    On,
}

impl ProtectionKeys {
    /// Whether this machine has them.
    pub fn are_available() -> bool {
        PoolingAllocationConfig::are_memory_protection_keys_available()
    }
}

/// The size of an engine's pool: what all instances of all its guests share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Instances at one time, of filters that a server loads as many again. Each reserves about 4 GiB of addresses, and no
    /// memory.
    pub instances: u32,
    /// The most that one instance's memory can grow to, in bytes.
    pub memory_bytes: usize,
    /// The most elements of one table.
    pub table_elements: usize,
    /// Stack that a guest may use of the thread that calls it, in bytes.
    pub stack_bytes: usize,
    /// Bytes of a memory that are written anew before the next instance has the slot; what lies above is
    /// given back to the kernel, which costs less memory and more time.
    pub resident_bytes: usize,
    /// Keys beside addresses.
    pub protection_keys: ProtectionKeys,
}

impl Default for EngineOptions {
    /// 1000 instances of up to 256 MiB, 20,000 elements, 512 KiB of stack, no keys.
    fn default() -> Self {
        Self {
            instances: 1000,
            memory_bytes: 256 << 20,
            table_elements: 20_000,
            stack_bytes: settings::CALL_STACK_BYTES,
            resident_bytes: 64 << 10,
            protection_keys: ProtectionKeys::Off,
        }
    }
}

/// What compiles, holds and runs guests. Clones share one pool.
#[derive(Clone)]
pub struct Engine {
    engines: Arc<Engines>,
    /// The one of them.
    wasmtime: wasmtime::Engine,
    /// What a module takes that was loaded from a file.
    handles: Handles,
}

/// Two that differ in how memories come by what they begin with.
struct Engines {
    options: EngineOptions,
    mapping: wasmtime::Engine,
    /// Made when the first module is loaded that is for it.
    copying: OnceLock<wasmtime::Engine>,
}

impl Engine {
    /// Makes an engine of its own.
    ///
    /// # Errors
    ///
    /// When this process can't have as many addresses, or the machine has no protection keys.
    pub fn new(options: EngineOptions) -> Result<Self, LoadError> {
        let mapping = make(settings::with_images(settings::filter()), &options)?;
        let engines = Engines {
            options,
            mapping,
            copying: OnceLock::new(),
        };
        Ok(Self::mapping(&Arc::new(engines)))
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
        &self.engines.options
    }

    /// Compiles a module, here and now: milliseconds for a small one.
    ///
    /// The compiler reads what an attacker wrote. Where that matters, let `palisade-compiler` or another
    /// confined process do it, and load what it gives.
    ///
    /// # Errors
    ///
    /// When it is no module, or uses what no guest here may.
    #[cfg(feature = "compiler")]
    pub fn compile(&self, module: &[u8]) -> Result<Program, LoadError> {
        wasmtime::Module::new(&self.wasmtime, module)
            .map(|module| Program::new(self, module))
            .map_err(LoadError::Compile)
    }

    /// Compiles a module to be kept and loaded later, by any engine of the same version.
    ///
    /// # Errors
    ///
    /// As [`Engine::compile`].
    #[cfg(feature = "compiler")]
    pub fn precompile(&self, module: &[u8]) -> Result<Compiled, LoadError> {
        self.wasmtime
            .precompile_module(module)
            .map(Compiled::new)
            .map_err(LoadError::Compile)
    }

    /// Loads a module that was compiled before.
    ///
    /// # Errors
    ///
    /// When the code is another version's.
    pub fn load(&self, code: &Compiled) -> Result<Program, LoadError> {
        Ok(Program::new(self, code.load(self)?))
    }

    /// Loads a module that the wasm wall compiled as a filter, or took from its cache. Its code is mapped
    /// from the file, and shared with whoever maps it too.
    ///
    /// Where memories begin with little that is copied into them, and the file is not kept open
    /// ([`handles`](Program::handles)): the program's engine is another one then, with a pool of its own.
    ///
    /// # Errors
    ///
    /// When the file can't be opened, or the code is another version's or made for another purpose.
    pub fn load_code(&self, code: &palisade_wasm::code::Code) -> Result<Program, LoadError> {
        let file = code.open()?;
        let copying = Self::copying(&self.engines)?;
        if let Ok(module) = code::map_module(&copying.wasmtime, &file) {
            return Ok(Program::new(&copying, module));
        }
        let mapping = Self::mapping(&self.engines);
        let module = code::load_module(&mapping.wasmtime, file);
        Ok(Program::new(&mapping, module.map_err(LoadError::Stale)?))
    }

    fn mapping(engines: &Arc<Engines>) -> Self {
        Self {
            engines: Arc::clone(engines),
            wasmtime: engines.mapping.clone(),
            handles: Handles::MOST,
        }
    }

    fn copying(engines: &Arc<Engines>) -> Result<Self, LoadError> {
        let wasmtime = match engines.copying.get() {
            Some(engine) => engine.clone(),
            None => {
                let mut settings = settings::filter();
                settings.with_custom_code_memory(Some(Arc::new(Publisher)));
                let made = make(settings, &engines.options)?;
                engines.copying.get_or_init(|| made).clone()
            }
        };
        Ok(Self {
            engines: Arc::clone(engines),
            wasmtime,
            handles: Handles::LEAST,
        })
    }

    pub(super) fn handles(&self) -> Handles {
        self.handles
    }

    /// Starts the thread that makes the ticks of guests' time, and keeps it for as long as what this returns is there. It has the priority of
    /// whoever starts it, and every guest's time depends on it.
    ///
    /// # Errors
    ///
    /// If there can be no thread.
    pub fn keep_ticking(&self) -> std::io::Result<super::Timer> {
        super::Timer::new(self.wasmtime(), std::time::Duration::from_secs(1))
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("options", self.options())
            .field("handles", &self.handles)
            .finish_non_exhaustive()
    }
}

fn make(
    mut settings: wasmtime::Config,
    options: &EngineOptions,
) -> Result<wasmtime::Engine, LoadError> {
    settings
        .max_wasm_stack(options.stack_bytes)
        .allocation_strategy(pool(options));
    wasmtime::Engine::new(&settings).map_err(LoadError::Pool)
}

fn pool(options: &EngineOptions) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(options.instances)
        .total_memories(options.instances)
        .total_tables(options.instances)
        .max_memory_size(options.memory_bytes)
        .table_elements(options.table_elements)
        .linear_memory_keep_resident(options.resident_bytes)
        .table_keep_resident(options.resident_bytes)
        // Resets only what was written to, where the kernel can tell (Linux 6.7).
        .pagemap_scan(Enabled::Auto)
        .memory_protection_keys(match options.protection_keys {
            ProtectionKeys::Off => Enabled::No,
            ProtectionKeys::Auto => Enabled::Auto,
            ProtectionKeys::On => Enabled::Yes,
        });
    pool
}
