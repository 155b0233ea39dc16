//! What compiles in the background: few threads of low priority, each with one compiler at a time.
//!
//! ```text
//!  wanted   a: a1 a2 a3    b: b1     ──▶  a1, b1, a2, a3   a request waits for these: tenants have turns
//!  later    c1 c2 …                  ──▶  when there is nothing else to do
//! ```
//!
//! A tenant has all threads but one at most, so that another one waits for its own modules alone.

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
    /// Whose it is; the main file's name is empty.
    fn tenant(&self) -> &Arc<str>;

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

/// One tenant's, in the order in which they were asked for.
type Modules = VecDeque<Arc<dyn Compile>>;

#[derive(Default)]
struct State {
    /// By tenants, in the order of their turns.
    wanted: VecDeque<(Arc<str>, Modules)>,
    later: VecDeque<Weak<dyn Compile>>,
    /// Whose are compiled now.
    running: Vec<Arc<str>>,
    threads: usize,
    is_closed: bool,
}

impl CompileQueue {
    /// Starts the threads: whoever starts one later may be confined so that it starts no compiler.
    pub(super) fn start() -> std::io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self::start_threads("code-compiler", processors.min(MOST_AT_ONCE), Some(NICE))
    }

    /// One that compiles nothing: modules are read there whose code may be at hand, and nobody compiles before them.
    pub(super) fn start_reader() -> std::io::Result<Self> {
        Self::start_threads("code-reader", 1, None)
    }

    fn start_threads(name: &str, threads: usize, nice: Option<i32>) -> std::io::Result<Self> {
        let queue = Self(Arc::default());
        lock(&queue.0.state).threads = threads;
        for _ in 0..threads {
            let shared = Arc::clone(&queue.0);
            let thread = std::thread::Builder::new().name(name.into());
            thread.spawn(move || work(&shared, nice))?;
        }
        Ok(queue)
    }

    /// A request waits for it.
    pub(super) fn want(&self, module: Arc<dyn Compile>) {
        lock(&self.0.state).want(module);
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
        let wanted = state.wanted.iter().map(|(_, modules)| modules.len());
        wanted.sum::<usize>() + state.later.len() + state.running.len()
    }
}

impl Drop for CompileQueue {
    fn drop(&mut self) {
        lock(&self.0.state).is_closed = true;
        self.0.has_more.notify_all();
    }
}

fn work(shared: &Shared, nice: Option<i32>) {
    if let Some(nice) = nice {
        // Of this thread, as Linux has it. Where it may not be, it competes.
        let _ = setpriority_process(None, nice);
    }
    let mut state = lock(&shared.state);
    while !state.is_closed {
        let Some(module) = state.next() else {
            let waited = shared.has_more.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let tenant = Arc::clone(module.tenant());
        state.running.push(Arc::clone(&tenant));
        drop(state);
        module.compile();
        drop(module);
        state = lock(&shared.state);
        state.end(&tenant);
        // Who had as many threads as it may has one less now.
        shared.has_more.notify_one();
    }
}

impl State {
    fn want(&mut self, module: Arc<dyn Compile>) {
        let tenant = module.tenant();
        match self.wanted.iter_mut().find(|(name, _)| name == tenant) {
            Some((_, modules)) => modules.push_back(module),
            None => {
                let tenant = Arc::clone(tenant);
                self.wanted.push_back((tenant, [module].into()));
            }
        }
    }

    fn next(&mut self) -> Option<Arc<dyn Compile>> {
        self.next_wanted().or_else(|| self.next_of_later())
    }

    fn next_wanted(&mut self) -> Option<Arc<dyn Compile>> {
        let mut turns = self.wanted.iter();
        let turn = turns.position(|(tenant, _)| self.may_run(tenant))?;
        let (tenant, mut modules) = self.wanted.remove(turn)?;
        let module = modules.pop_front();
        if !modules.is_empty() {
            self.wanted.push_back((tenant, modules));
        }
        module
    }

    fn next_of_later(&mut self) -> Option<Arc<dyn Compile>> {
        self.later.retain(|module| module.strong_count() > 0);
        loop {
            let mut modules = self.later.iter().map(Weak::upgrade);
            let may_run = |module: Option<Arc<dyn Compile>>| {
                module.is_none_or(|one| self.may_run(one.tenant()))
            };
            let turn = modules.position(may_run)?;
            // It may be gone by now, and those behind it are not.
            if let Some(module) = self.later.remove(turn)?.upgrade() {
                return Some(module);
            }
        }
    }

    fn may_run(&self, tenant: &Arc<str>) -> bool {
        let most = match tenant.is_empty() {
            true => self.threads,
            false => self.threads.saturating_sub(1),
        };
        let running = self.running.iter().filter(|name| *name == tenant);
        running.count() < most.max(1)
    }

    fn end(&mut self, tenant: &Arc<str>) {
        if let Some(at) = self.running.iter().position(|name| name == tenant) {
            self.running.swap_remove(at);
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("State")
            .field("wanted", &self.wanted.len())
            .field("later", &self.later.len())
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Tells its name when it is compiled.
    struct Told {
        tenant: Arc<str>,
        name: &'static str,
        told: Sender<&'static str>,
    }

    impl Compile for Told {
        fn tenant(&self) -> &Arc<str> {
            &self.tenant
        }

        fn compile(&self) {
            self.told.send(self.name).unwrap();
        }
    }

    fn module(tenant: &str, name: &'static str, told: &Sender<&'static str>) -> Arc<dyn Compile> {
        Arc::new(Told {
            tenant: tenant.into(),
            name,
            told: told.clone(),
        })
    }

    #[test]
    fn what_requests_wait_for_comes_first() {
        let (told, _names) = channel();
        let [one, gone, other] = ["one", "gone", "other"].map(|name| module("", name, &told));
        let mut state = State::default();
        state.later.extend([&one, &gone].map(Arc::downgrade));
        state.want(Arc::clone(&other));
        drop(gone);
        assert!(Arc::ptr_eq(&state.next().unwrap(), &other));
        assert!(Arc::ptr_eq(&state.next().unwrap(), &one));
        assert!(state.next().is_none(), "one that is gone is compiled");
    }

    #[test]
    fn tenants_have_turns_and_none_has_all_threads() {
        let (told, names) = channel();
        let mut state = State {
            threads: 2,
            ..State::default()
        };
        for (tenant, name) in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")] {
            state.want(module(tenant, name, &told));
        }
        let begin = |state: &mut State| {
            let module = state.next()?;
            state.running.push(Arc::clone(module.tenant()));
            module.compile();
            Some(names.recv().unwrap())
        };
        assert_eq!(begin(&mut state), Some("a1"));
        assert_eq!(begin(&mut state), Some("b1"));
        assert_eq!(begin(&mut state), None, "a has one of two threads");
        let later = module("a", "later", &told);
        state.later.push_back(Arc::downgrade(&later));
        assert_eq!(begin(&mut state), None, "and what waits is a's");
        state.end(&"a".into());
        assert_eq!(begin(&mut state), Some("a2"));
        state.threads = 1;
        state.running.clear();
        assert_eq!(
            begin(&mut state),
            Some("a3"),
            "where there is one, it has it"
        );
    }

    #[test]
    fn all_are_compiled_and_threads_end_with_their_queue() {
        let (told, names) = channel();
        let queue = CompileQueue::start().unwrap();
        let later = module("", "later", &told);
        queue.want_later(std::iter::once(Arc::downgrade(&later)));
        queue.want(module("", "wanted", &told));
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
