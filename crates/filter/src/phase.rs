//! Callbacks that follow one another under one limit of time.

use crate::{
    Fault,
    callbacks::Callbacks,
    state::{At, Life, Loaded, ROOT, State},
};
use palisade_engine::guest::{Calls, Function, Values};
use rustix::time::{ClockId, clock_gettime};

/// Phases of an instance that are measured one by one: its start, and the first of its exchanges.
const FIRST_PHASES: u64 = 64;

/// After those, how many phases one is measured for: a look at the clock costs as much as a small callback. A
/// prime, so that it falls on each phase of an exchange, however many these have.
const MEASURED_PHASES: u64 = 17;

pub(crate) struct Phase<'a> {
    calls: Calls<'a, State>,
    loaded: &'a Loaded,
    /// When it began, in a phase that is measured.
    began_ns: Option<u64>,
}

impl<'a> Phase<'a> {
    pub(crate) fn begin(mut calls: Calls<'a, State>, loaded: &'a Loaded) -> Self {
        let state = calls.state_mut();
        state.phases += 1;
        state.lines_left = loaded.settings.bounds.lines;
        let is_measured =
            state.phases <= FIRST_PHASES || state.phases.is_multiple_of(MEASURED_PHASES);
        Self {
            calls,
            loaded,
            began_ns: is_measured.then(now_ns),
        }
    }

    pub(crate) fn state(&mut self) -> &mut State {
        self.calls.state_mut()
    }

    pub(crate) fn callbacks(&self) -> &'a Callbacks {
        &self.loaded.callbacks
    }

    pub(crate) fn loaded(&self) -> &'a Loaded {
        self.loaded
    }

    /// Calls a function on behalf of a context.
    pub(crate) fn call<P: Values, R: Values>(
        &mut self,
        at: At,
        name: &'static str,
        function: &Function<P, R>,
        parameters: P,
    ) -> Result<R, Fault> {
        let state = self.calls.state_mut();
        state.current = at;
        state.effective = at;
        state.stops = false;
        state.crossings += 1;
        self.calls
            .call(function, parameters)
            .map_err(|error| Fault::of(error, name))
    }

    /// The same, if the module has the function.
    pub(crate) fn call_if<P: Values, R: Values>(
        &mut self,
        at: At,
        name: &'static str,
        function: Option<&Function<P, R>>,
        parameters: P,
    ) -> Result<Option<R>, Fault> {
        match function {
            Some(function) => self.call(at, name, function, parameters).map(Some),
            None => Ok(None),
        }
    }

    /// Tells the guest of a stream, once.
    pub(crate) fn create(&mut self, context: u32) -> Result<(), Fault> {
        let Some(stream) = self.calls.state_mut().streams.get_mut(context) else {
            return Ok(());
        };
        if stream.life != Life::New {
            return Ok(());
        }
        stream.life = Life::Created;
        let on_create = self.loaded.callbacks.on_context_create.as_ref();
        let at = At::Stream(context);
        self.call_if(at, "proxy_on_context_create", on_create, (context, ROOT))?;
        Ok(())
    }

    /// `proxy_on_done`: whether the guest has nothing more to do with the context.
    pub(crate) fn is_done(&mut self, at: At, context: u32) -> Result<bool, Fault> {
        let on_done = self.loaded.callbacks.on_done.as_ref();
        let done = self.call_if(at, "proxy_on_done", on_done, context)?;
        Ok(done != Some(0))
    }

    /// `proxy_on_log` and `proxy_on_delete` of a stream, which is gone then.
    pub(crate) fn finish_stream(&mut self, context: u32) -> Result<(), Fault> {
        if self.calls.state().streams.get(context).is_none() {
            return Ok(());
        }
        let at = At::Stream(context);
        let callbacks = self.callbacks();
        self.call_if(at, "proxy_on_log", callbacks.on_log.as_ref(), context)?;
        self.call_if(at, "proxy_on_delete", callbacks.on_delete.as_ref(), context)?;
        Ok(())
    }

    /// `proxy_on_delete` of the root context.
    pub(crate) fn finish_root(&mut self) -> Result<(), Fault> {
        let on_delete = self.loaded.callbacks.on_delete.as_ref();
        self.call_if(At::Root, "proxy_on_delete", on_delete, ROOT)?;
        self.state().root = Life::New;
        Ok(())
    }

    /// Finishes what the guest has called `proxy_done` for. It may do so for others meanwhile.
    pub(crate) fn finish_done(&mut self) -> Result<(), Fault> {
        while let Some(at) = self.calls.state_mut().done.pop() {
            match at {
                At::Root => self.finish_root()?,
                At::Stream(context) => {
                    self.finish_stream(context)?;
                    self.state().remove(context);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Phase<'_> {
    fn drop(&mut self) {
        if let Some(began_ns) = self.began_ns {
            let took_ns = now_ns().saturating_sub(began_ns);
            self.calls.state_mut().count_time(took_ns);
        }
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
