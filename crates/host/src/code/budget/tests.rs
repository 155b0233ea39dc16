use super::*;

/// Something that takes its bytes as long as it is loaded.
struct Module {
    budget: Arc<CodeBudget>,
    charge: Mutex<Option<Charge>>,
    is_used: AtomicBool,
    is_in_use: AtomicBool,
}

impl Module {
    fn load(budget: &Arc<CodeBudget>, bytes: u64) -> Arc<Self> {
        let module = Arc::new(Self {
            budget: Arc::clone(budget),
            charge: Mutex::new(None),
            is_used: AtomicBool::new(false),
            is_in_use: AtomicBool::new(false),
        });
        module.load_again(bytes);
        module
    }

    fn load_again(self: &Arc<Self>, bytes: u64) {
        *lock(&self.charge) = Some(self.budget.charge(Taken {
            mapped_bytes: bytes,
            heap_bytes: 0,
            handles: Handles::MOST,
        }));
        self.budget.admit(Arc::downgrade(self) as _);
    }

    fn is_loaded(&self) -> bool {
        lock(&self.charge).is_some()
    }
}

impl Unload for Module {
    fn unload(&self) -> Unloaded {
        if self.is_used.swap(false, Ordering::Relaxed) {
            return Unloaded::Used;
        }
        if self.is_in_use.load(Ordering::Relaxed) {
            return Unloaded::InUse;
        }
        match lock(&self.charge).take() {
            Some(charge) => Unloaded::Gone(Box::new(charge)),
            None => Unloaded::Absent,
        }
    }
}

fn budget(memory_bytes: u64, modules: u64) -> Arc<CodeBudget> {
    Arc::new(CodeBudget::new(CodeLimits {
        memory_bytes,
        mappings: modules * Handles::MOST.mappings,
        files: modules * Handles::MOST.files,
        disk_bytes: 0,
    }))
}

/// Waits for the thread that drops.
fn settle(budget: &CodeBudget) {
    while budget.is_evicting.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

#[test]
fn the_least_used_go() {
    let budget = budget(u64::MAX, 64);
    let modules: Vec<_> = (0..64).map(|_| Module::load(&budget, 1)).collect();
    assert!(modules.iter().all(|module| module.is_loaded()));
    modules[0].is_used.store(true, Ordering::Relaxed);
    let one_more = Module::load(&budget, 1);
    settle(&budget);
    assert!(modules[0].is_loaded() && one_more.is_loaded());
    assert!(!modules[1].is_loaded() && modules[63].is_loaded());
    let figures = budget.figures();
    assert!(
        figures.modules <= 64 && figures.modules >= 60,
        "{figures:?}"
    );
    assert_eq!(figures.loads - figures.evictions, figures.modules);
    assert_eq!(figures.mappings, figures.modules * Handles::MOST.mappings);
}

#[test]
fn bytes_count_as_well() {
    let budget = budget(3200, u64::MAX / 8);
    let modules: Vec<_> = (0..33).map(|_| Module::load(&budget, 100)).collect();
    settle(&budget);
    assert!(budget.figures().bytes <= 3200);
    assert!(!modules[0].is_loaded() && modules[32].is_loaded());
    drop(modules);
    assert_eq!(budget.figures().bytes, 0);
    assert_eq!(budget.figures().modules, 0);
}

#[test]
fn what_is_in_use_stays_and_goes_when_it_is_not() {
    let budget = budget(u64::MAX, 2);
    let held = Module::load(&budget, 1);
    held.is_in_use.store(true, Ordering::Relaxed);
    let others: Vec<_> = (0..10).map(|_| Module::load(&budget, 1)).collect();
    settle(&budget);
    assert!(held.is_loaded());
    assert!(others.iter().filter(|module| module.is_loaded()).count() <= 1);
    held.is_in_use.store(false, Ordering::Relaxed);
    let _more: Vec<_> = (0..3).map(|_| Module::load(&budget, 1)).collect();
    settle(&budget);
    assert!(!held.is_loaded());
}

/// One that is larger than the budget is loaded all the same: it is asked for.
#[test]
fn a_large_one_is_alone() {
    let budget = budget(10, 8);
    let small = Module::load(&budget, 1);
    let large = Module::load(&budget, 100);
    settle(&budget);
    assert!(!small.is_loaded());
    large.load_again(100);
    settle(&budget);
}

#[test]
fn smaller_limits_hold_at_once() {
    let budget = budget(u64::MAX, 64);
    let modules: Vec<_> = (0..64).map(|_| Module::load(&budget, 1)).collect();
    let limits = CodeLimits {
        mappings: 8 * Handles::MOST.mappings,
        ..budget.limits()
    };
    budget.set_limits(limits);
    settle(&budget);
    let loaded = modules.iter().filter(|module| module.is_loaded()).count();
    assert!(loaded <= 8, "{loaded}");
}

/// What goes with its configuration leaves nothing behind.
#[test]
fn dropped_modules_are_forgotten() {
    let budget = budget(u64::MAX, 8);
    for _ in 0..1000 {
        drop(Module::load(&budget, 1));
    }
    assert_eq!(budget.figures().modules, 0);
    assert!(lock(&budget.loaded).len() < 100);
}
