//! The three configurations. The compiler and whoever runs its code must agree on every setting: both ask here.

use wasmtime::{Config, ModuleVersionStrategy};

/// Who made compiled code. Wasmtime alone would take what any release with the same first number made.
const CODE_VERSION: &str = concat!("palisade ", env!("CARGO_PKG_VERSION"), ", wasmtime 48.0.8");

/// Stack of a guest, in bytes: as much as a native program's main thread has (8 MiB), a guest's call
/// frames being about as large.
pub const STACK_BYTES: usize = 8 << 20;

/// Stack that a call of a plugin may take of the thread that makes it, in bytes, unless its engine says
/// otherwise. A thread of a server has 2 MiB as a rule.
pub const CALL_STACK_BYTES: usize = 512 << 10;

/// Programs: one guest in a process of its own, which is behind the process wall.
///
/// Time is the process wall's to limit, so the code carries no checks for it.
pub fn command() -> Config {
    let mut config = Config::new();
    config.max_wasm_stack(STACK_BYTES);
    config.async_stack_size(STACK_BYTES + (1 << 20));
    config.wasm_component_model_async(true);
    // WASI's addresses have 32 bits.
    config.wasm_memory64(false);
    name_code(&mut config);
    config
}

/// The same for components. The first content of their memories is copied: an image to be shared would be a
/// memory file, and an ordinary user's domain makes none but those that say themselves that they are not
/// executable. (A module has its image in the file of its code.)
pub fn command_component() -> Config {
    let mut config = command();
    config.memory_init_cow(false);
    config
}

/// Plugins: core modules in the process of their host, many instances, called many times.
///
/// Loops and functions look at a counter that tells when time is up.
///
/// Nobody unwinds through the code of guests that a server loads: an engine's own traces follow frame pointers. To make
/// unwind tables known and forget them takes longer the more of them there are (wasmCloud#5555), and servers load and
/// unload by the thousand.
///
/// What memories begin with is copied, as of [services](service); [`with_images`] is for those that begin with much, and for
/// modules that a program compiles for itself: it has few, and many instances of each.
pub fn filter() -> Config {
    let mut config = Config::new();
    config
        .native_unwind_info(false)
        .epoch_interruption(true)
        .max_wasm_stack(CALL_STACK_BYTES)
        .memory_init_cow(false)
        .wasm_component_model(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        // What each store would keep ready for components' tasks.
        .concurrency_support(false);
    name_code(&mut config);
    config
}

/// The most bytes of data that memories of a filter or service begin with, of those whose data is copied.
pub const MOST_COPIED_BYTES: usize = 64 << 10;

/// Services: components of WASI 0.2 in the process of their host, asynchronous, many instances.
///
/// Without tasks of the component model: a call is a call then, and no store has an event loop.
///
/// Nobody unwinds through it either: the engine lets go of code that was handed to it before it would forget its tables.
///
/// What memories begin with is copied into them. An image of it, which is mapped, is cheaper for the next instance of the
/// same component and costs system calls for one of another, who find the process's mappings locked by each other; of
/// thousands of components most requests meet another. [`with_images`] is for those that begin with much.
pub fn service() -> Config {
    let mut config = service_of_tasks();
    config
        .wasm_component_model_async(false)
        .concurrency_support(false);
    config
}

/// The same for components of WASI 0.3, whose calls are tasks.
pub fn service_of_tasks() -> Config {
    let mut config = Config::new();
    config
        .native_unwind_info(false)
        .epoch_interruption(true)
        .max_wasm_stack(CALL_STACK_BYTES)
        .memory_init_cow(false)
        .wasm_component_model_async(true)
        .wasm_memory64(false);
    name_code(&mut config);
    config
}

/// The same settings, for filters and services whose memories begin with more than [`MOST_COPIED_BYTES`]: that is mapped.
#[must_use]
pub fn with_images(mut settings: Config) -> Config {
    settings.memory_init_cow(true);
    settings
}

fn name_code(config: &mut Config) {
    config
        .module_version(ModuleVersionStrategy::Custom(CODE_VERSION.into()))
        .expect("a version is shorter than 256 bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_code_names_the_engine_that_is_linked() {
        let lock = include_str!("../../../Cargo.lock");
        let (_, engine) = lock.split_once("name = \"wasmtime\"\n").unwrap();
        let version = engine.lines().next().unwrap().replace("version = ", "");
        assert!(
            CODE_VERSION.ends_with(version.trim_matches('"')),
            "{version}"
        );
    }
}
