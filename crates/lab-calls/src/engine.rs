//! The same calls by Wasmtime alone: what the library's cannot be less than.

use crate::{lines, module};
use anyhow::anyhow;
use palisade_compiler::settings;
use palisade_engine::guest::Isolation;
use std::hint::black_box;
use wasmtime::{
    Engine, InstanceAllocationStrategy, InstancePre, Linker, Module, PoolingAllocationConfig,
    Store, TypedFunc, WasmParams,
};

/// With the settings of plugins and a pool for their instances, and no limit of time, of memory or of anything.
pub(crate) fn calls(isolation: Isolation) -> anyhow::Result<String> {
    all_calls(&module()?, isolation).map_err(|error| anyhow!("{error:?}"))
}

fn all_calls(module: &[u8], isolation: Isolation) -> wasmtime::Result<String> {
    let mut config = settings::with_images(settings::filter());
    let pool = PoolingAllocationConfig::default();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    let engine = Engine::new(&config)?;
    let module = Module::new(&engine, module)?;
    let guest = Guest {
        start: Linker::new(&engine).instantiate_pre(&module)?,
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
        let mut store = Store::new(self.start.module().engine(), ());
        store.set_epoch_deadline(u64::MAX / 2);
        let instance = self.start.instantiate(&mut store)?;
        let function = instance.get_typed_func(&mut store, name)?;
        Ok((store, function))
    }
}
