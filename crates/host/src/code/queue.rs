//! What compiles in the background: few threads of low priority, each with one compiler at a time.
//!
//! What a request waits for comes first, in the order of the requests; what nobody has asked for yet comes when there is
//! nothing else to do.

use palisade_engine::lock::lock;
use rustix::process::setpriority_process;
use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
};

/// Compilers at one time, if there are as many processors.
const MOST_AT_ONCE: usize = 2;
/// Of setpriority(2): the rest of the machine goes first. Compilers inherit it.
const NICE: i32 = 15;

/// A module that may have to be compiled.
pub(crate) trait Compile: Send + Sync {
    /// Has its code in the cache afterwards, and ready for whoever waits, or knows why not.
    fn compile(&self);
}

/// Modules to compile.
#[derive(Debug)]
pub(super) struct CompileQueue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    has_more: Condvar,
}

#[derive(Default)]
struct State {
    wanted: VecDeque<Arc<dyn Compile>>,
    later: VecDeque<Weak<dyn Compile>>,
    running: usize,
    is_closed: bool,
}

impl CompileQueue {
    /// Starts the threads: whoever starts one later may be confined so that it starts no compiler.
    pub(super) fn start() -> std::io::Result<Self> {
        let queue = Self(Arc::default());
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        for _ in 0..processors.min(MOST_AT_ONCE) {
            let shared = Arc::clone(&queue.0);
            let thread = std::thread::Builder::new().name("code-compiler".into());
            thread.spawn(move || work(&shared))?;
        }
        Ok(queue)
    }

    /// A request waits for it.
    pub(super) fn want(&self, module: Arc<dyn Compile>) {
        lock(&self.0.state).wanted.push_back(module);
        self.0.has_more.notify_one();
    }

    /// Somebody may ask for it, if it is still there by then.
    pub(super) fn want_later(&self, modules: impl Iterator<Item = Weak<dyn Compile>>) {
        lock(&self.0.state).later.extend(modules);
        self.0.has_more.notify_all();
    }

    /// How many wait or are compiled.
    pub(super) fn len(&self) -> usize {
        let state = lock(&self.0.state);
        state.wanted.len() + state.later.len() + state.running
    }
}

impl Drop for CompileQueue {
    fn drop(&mut self) {
        lock(&self.0.state).is_closed = true;
        self.0.has_more.notify_all();
    }
}

fn work(shared: &Shared) {
    // Of this thread, as Linux has it. Where it may not be, it competes.
    let _ = setpriority_process(None, NICE);
    let mut state = lock(&shared.state);
    while !state.is_closed {
        let Some(module) = state.next() else {
            let waited = shared.has_more.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.running += 1;
        drop(state);
        module.compile();
        drop(module);
        state = lock(&shared.state);
        state.running -= 1;
    }
}

impl State {
    fn next(&mut self) -> Option<Arc<dyn Compile>> {
        if let Some(wanted) = self.wanted.pop_front() {
            return Some(wanted);
        }
        while let Some(later) = self.later.pop_front() {
            if let Some(module) = later.upgrade() {
                return Some(module);
            }
        }
        None
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("State")
            .field("wanted", &self.wanted.len())
            .field("later", &self.later.len())
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Tells its name when it is compiled.
    struct Told(&'static str, Sender<&'static str>);

    impl Compile for Told {
        fn compile(&self) {
            self.1.send(self.0).unwrap();
        }
    }

    #[test]
    fn what_requests_wait_for_comes_first() {
        let (told, _names) = channel();
        let module = |name| Arc::new(Told(name, told.clone())) as Arc<dyn Compile>;
        let (one, gone, other) = (module("one"), module("gone"), module("other"));
        let mut state = State::default();
        state.later.extend([&one, &gone].map(Arc::downgrade));
        state.wanted.push_back(Arc::clone(&other));
        drop(gone);
        assert!(Arc::ptr_eq(&state.next().unwrap(), &other));
        assert!(Arc::ptr_eq(&state.next().unwrap(), &one));
        assert!(state.next().is_none(), "one that is gone is compiled");
    }

    #[test]
    fn all_are_compiled_and_threads_end_with_their_queue() {
        let (told, names) = channel();
        let queue = CompileQueue::start().unwrap();
        let module = |name| Arc::new(Told(name, told.clone())) as Arc<dyn Compile>;
        let later = module("later");
        queue.want_later(std::iter::once(Arc::downgrade(&later)));
        queue.want(module("wanted"));
        let mut seen = [names.recv().unwrap(), names.recv().unwrap()];
        seen.sort_unstable();
        assert_eq!(seen, ["later", "wanted"]);
        let shared = Arc::downgrade(&queue.0);
        drop(queue);
        // The threads have it until they end.
        while shared.strong_count() > 0 {
            std::thread::yield_now();
        }
    }
}
