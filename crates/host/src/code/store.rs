//! What all code on demand shares.

use super::{
    CodeError, CodeFigures, CodeLimits, CodeLimitsSetting,
    budget::CodeBudget,
    queue::{Compile, CompileQueue},
};
use palisade_engine::lock::lock;
use palisade_policy::Capability;
use palisade_process::Machine;
use palisade_wall::Purpose;
use palisade_wasm::{
    cache::{Cache, CacheError, EntryName},
    code::{self, Code, Compiler, Identified},
    programs::Programs,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// New modules of one configuration that are compiled and loaded with it.
const MOST_AT_LOAD: usize = 32;

/// A module that can be loaded ahead of its first request.
pub(crate) trait Preload: Compile {
    /// Compiles it if need be, and loads it.
    ///
    /// # Errors
    ///
    /// When there is no code of it.
    fn preload(&self) -> Result<(), CodeError>;

    /// Itself, for when nothing else is to do.
    fn later(&self) -> Weak<dyn Compile>;

    /// Whose it is.
    fn guest(&self) -> &str;
}

/// Where code comes from and what it may take: the cache on disk, the budget, who compiles. One for the life of the server.
#[derive(Debug)]
pub struct CodeStore {
    compiler: PathBuf,
    machine: Machine,
    caches: Option<PathBuf>,
    cache: Mutex<Option<Arc<Cache>>>,
    pub(super) budget: Arc<CodeBudget>,
    queue: CompileQueue,
    /// Long modules of which nobody knows whether their code is in the cache.
    unread: CompileQueue,
    compiled: AtomicU64,
    pub(super) broken: AtomicU64,
    /// New modules of one configuration that are compiled and loaded with it.
    most_at_load: AtomicUsize,
}

impl CodeStore {
    /// With the limits of this machine. `caches`: where compiled code is kept; `None`: where the user's caches are. To be
    /// made by a thread that may start programs.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn start(
        programs: &Programs,
        machine: &Machine,
        caches: Option<&Path>,
    ) -> std::io::Result<Self> {
        let limits = CodeLimits::of(&CodeLimitsSetting::default(), 0);
        let budget = Arc::new(CodeBudget::new(limits));
        budget.evictor();
        Ok(Self {
            compiler: programs.compiler.clone(),
            machine: machine.clone(),
            caches: caches.map(Path::to_owned),
            cache: Mutex::default(),
            budget,
            queue: CompileQueue::start()?,
            unread: CompileQueue::start_reader()?,
            compiled: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            most_at_load: AtomicUsize::new(MOST_AT_LOAD),
        })
    }

    /// From now on compiles and loads all of a configuration with it, however many there are.
    pub fn load_all(&self) {
        self.most_at_load.store(usize::MAX, Ordering::Relaxed);
    }

    /// What loaded code may take from now on, beside so many descriptors that are taken.
    pub fn set_limits(&self, setting: &CodeLimitsSetting, taken_files: u64) {
        let limits = CodeLimits::of(setting, taken_files);
        self.budget.set_limits(limits);
        if let Ok(cache) = self.cache() {
            cache.set_most_bytes(limits.disk_bytes);
        }
    }

    /// Modules that can be loaded at one time.
    pub(crate) fn most_modules(&self) -> u64 {
        self.budget.limits().modules()
    }

    /// What is loaded, and what it may be.
    pub fn figures(&self) -> CodeFigures {
        CodeFigures {
            compiling: self.queue.len() as u64,
            compiled: self.compiled.load(Ordering::Relaxed),
            broken: self.broken.load(Ordering::Relaxed),
            ..self.budget.figures()
        }
    }

    /// Whether so many new modules of one configuration are loaded with it.
    pub(crate) fn are_few(&self, count: usize) -> bool {
        count <= self.most_at_load.load(Ordering::Relaxed)
    }

    /// Loads what is new in a configuration.
    ///
    /// # Errors
    ///
    /// The first that there is no code of, with whose it is.
    pub(crate) fn preload(new: &[Arc<dyn Preload>]) -> Result<(), (String, CodeError)> {
        for one in new {
            one.preload()
                .map_err(|error| (one.guest().to_owned(), error))?;
        }
        Ok(())
    }

    /// Has it compiled when nothing else is to do.
    pub(crate) fn preload_later(&self, new: &[Arc<dyn Preload>]) {
        self.queue.want_later(new.iter().map(|one| one.later()));
    }

    /// A request waits for it, and it is long: whether it has to be compiled is found out first.
    pub(super) fn want_read(&self, module: Arc<dyn Compile>) {
        self.unread.want(module);
    }

    /// A request waits for it.
    pub(super) fn want(&self, module: Arc<dyn Compile>) {
        self.queue.want(module);
    }

    pub(super) fn compiler(&self) -> &Path {
        &self.compiler
    }

    /// The code of this name, if it is in the cache.
    pub(super) fn find(&self, name: EntryName) -> Option<Code> {
        code::find(name, &*self.cache().ok()?)
    }

    /// Compiles a module.
    pub(super) fn make(
        &self,
        module: &Identified,
        path: &Path,
        purpose: Purpose,
        allow_degraded: &BTreeSet<Capability>,
    ) -> Result<Code, CodeError> {
        let compiler = Compiler {
            path: &self.compiler,
            machine: &self.machine,
            allow_degraded,
            within: None,
        };
        let cache = self.cache();
        let cache = cache.as_deref().map_err(Clone::clone);
        let made = code::make(module, path, purpose, &compiler, cache)?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        if made.not_kept.is_some() {
            // Its folder may have been taken away: the next one looks for it anew.
            *lock(&self.cache) = None;
        }
        Ok(made)
    }

    /// Has the entry of this name stay in the cache, or no longer.
    pub(super) fn spare(&self, name: EntryName, is_named: bool) {
        let Ok(cache) = self.cache() else { return };
        match is_named {
            true => cache.spare(name),
            false => cache.spare_no_more(name),
        }
    }

    /// The cache, opened for the first who asks.
    fn cache(&self) -> Result<Arc<Cache>, CacheError> {
        let mut cache = lock(&self.cache);
        if let Some(cache) = &*cache {
            return Ok(Arc::clone(cache));
        }
        let most_bytes = self.budget.limits().disk_bytes;
        let opened = code::open_cache_of_servers(self.caches.as_deref(), most_bytes)?;
        Ok(Arc::clone(cache.insert(Arc::new(opened))))
    }
}
