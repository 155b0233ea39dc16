//! From compiled code to a filter, which is tried once before a request meets it.

use super::trial;
use crate::{
    code::{CodeError, Link},
    kinds::Level,
    log::{Line, Log},
};
use palisade_engine::{guest::Engine, handles::Handles};
use palisade_filter::{Filter, Settings, Shared};
use palisade_wasm::code::Code;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Makes a filter of compiled code.
pub(crate) struct FilterLink {
    engine: Engine,
    shared: Arc<Shared>,
    settings: Settings,
    /// Names that it may call.
    upstreams: Vec<String>,
    /// It has taken its configuration once.
    is_tried: AtomicBool,
    log: Log,
}

impl FilterLink {
    pub(crate) fn new(
        engine: &Engine,
        shared: &Arc<Shared>,
        settings: Settings,
        upstreams: Vec<String>,
        log: Log,
    ) -> Self {
        Self {
            engine: engine.clone(),
            shared: Arc::clone(shared),
            settings,
            upstreams,
            is_tried: AtomicBool::new(false),
            log,
        }
    }
}

impl Link for FilterLink {
    type Linked = Filter;

    /// A guess: it is not profiled yet.
    const HEAP_BYTES: u64 = 6 << 10;

    fn link(&self, code: &Code) -> Result<Filter, CodeError> {
        let program = self.engine.load_code(code).map_err(CodeError::of_host)?;
        let filter = Filter::load(&program, self.settings.clone(), &self.shared);
        let filter = filter.map_err(CodeError::of_guest)?;
        if !self.is_tried.load(Ordering::Relaxed) {
            trial::start(&program, &self.settings, &self.upstreams, &self.shared)
                .map_err(CodeError::of_guest)?;
            self.is_tried.store(true, Ordering::Relaxed);
        }
        Ok(filter)
    }

    fn handles(filter: &Filter) -> Handles {
        filter.handles()
    }

    fn is_in_use(filter: &Filter) -> bool {
        filter.is_in_use()
    }

    fn tell_broken(&self, error: &CodeError) {
        self.log.write(Line::new(Level::Error, error.to_string()));
    }
}
