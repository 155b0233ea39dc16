//! How many programs run at one time, and who rests so that others can start.
//!
//! ```text
//!  enter ──▶ a place among those that start ──▶ room ──▶ Slot ── admit ──▶ may be asked to rest
//!            few at once, in order              │ none: those used least lately are asked to rest,
//!                                               │ as many as wait, none with a request under way
//!                                               ▼
//!                                   a domain that is gone has dropped its Slot
//! ```
//!
//! A tenant has its own bound before that: at its quota those of its own programs rest, and what waits for that keeps
//! nobody else from starting. Nor do many that it wants at once, of which half as many start as there are places.
//!
//! All programs of the server share one of these, on the supervisor's thread. A slot is held from before a domain is
//! made to when nothing of it is left, so that the bound holds for what the machine really has. Memory is what the
//! domains' control groups count: files of a private `/tmp` and what children hold are in it, wherever they hide.
//!
//! Nothing here wakes up while nobody waits and memory is not bounded. With a bound memory is looked at every second,
//! and less and less often, down to once in [`LONGEST_STEP`], as long as it changes by nothing to speak of.

use super::{consumption::Consumption, endpoint::Endpoint, shared::Shared};
use crate::{
    client::coarse_ms,
    config::ProgramBounds,
    quota::{Quota, What},
};
use palisade_wall::MemoryMeter;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// Between two looks whether there is room, for what tells nobody: that a request has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Between two looks at the memory of domains, at first and at most.
const SHORTEST_STEP: Duration = Duration::from_secs(1);
const LONGEST_STEP: Duration = Duration::from_secs(64);
/// A program that has said that it is used is not asked again for so long.
const DECLINED_MS: u64 = 1000;

/// All domains of programs, and who waits for one.
#[derive(Debug)]
pub(super) struct Alive {
    /// Places for those that start: more at once would only wait for each other in the kernel.
    starts: Arc<Semaphore>,
    /// Room is given to one after the other, in the order in which they came.
    turn: Mutex<()>,
    /// Something has ended, or the bounds are others.
    freed: Notify,
    /// There is a domain more, or the bounds are others.
    grown: Notify,
    bounds: Cell<ProgramBounds>,
    waiting: Cell<usize>,
    next: Cell<u64>,
    domains: RefCell<BTreeMap<u64, Member>>,
    /// By their names. The main file's programs are nobody's.
    tenants: RefCell<BTreeMap<Arc<str>, Rc<OfTenant>>>,
    /// Programs of one tenant that may start at once.
    starts_of_tenant: usize,
}

/// What programs of one tenant have in common.
#[derive(Debug)]
struct OfTenant {
    quota: Arc<Quota>,
    starts: Arc<Semaphore>,
    /// Room is given to one after the other.
    turn: Mutex<()>,
}

/// A domain, from before it is made to when it is gone.
#[derive(Debug, Default)]
struct Member {
    /// As it was looked at last; before that, what the program had when it ran last.
    memory_bytes: u64,
    meter: Option<Meter>,
    /// There once it can be asked to rest.
    resident: Option<Resident>,
    is_ending: bool,
    /// Empty for the main file's.
    tenant: Box<str>,
}

/// A program that runs.
#[derive(Debug)]
struct Resident {
    shared: Arc<Shared>,
    reached: Reached,
    asked: Rc<Notify>,
}

/// How clients get to a program, and so who knows whether they do.
#[derive(Debug)]
pub(super) enum Reached {
    /// Through the server.
    Endpoint(Arc<Endpoint>),
    /// By themselves. Whether anybody is connected is looked at when it is asked to rest.
    Directly {
        /// When it began, or was found in use, by [`coarse_ms`].
        used_ms: u64,
    },
}

/// What a domain's memory is known by.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) counted: Option<Arc<dyn MemoryMeter>>,
    pub(super) pid: u32,
    /// What it may have. One whose memory cannot be told counts with all of it.
    pub(super) most_bytes: u64,
}

/// Room for one domain. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    alive: Rc<Alive>,
    number: u64,
    asked: Rc<Notify>,
}

/// One that may start now. Others wait until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _of_tenant: Option<OwnedSemaphorePermit>,
    _place: OwnedSemaphorePermit,
}

/// Counts one that waits.
struct Waiting<'a>(&'a Cell<usize>);

impl<'a> Waiting<'a> {
    fn begin(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Alive {
    /// Nobody yet. So many may start at once.
    pub(super) fn new(bounds: ProgramBounds, starts: usize) -> Rc<Self> {
        Rc::new(Self {
            starts: Arc::new(Semaphore::new(starts)),
            turn: Mutex::default(),
            freed: Notify::new(),
            grown: Notify::new(),
            bounds: Cell::new(bounds),
            waiting: Cell::default(),
            next: Cell::default(),
            domains: RefCell::default(),
            tenants: RefCell::default(),
            starts_of_tenant: (starts / 2).max(1),
        })
    }

    /// These are all tenants that there are. What each may have its quota says.
    pub(super) fn bound_tenants(&self, quotas: Vec<Arc<Quota>>) {
        let mut tenants = self.tenants.borrow_mut();
        let mut before = std::mem::take(&mut *tenants);
        for quota in quotas {
            let name = Arc::clone(quota.tenant());
            let known = before.remove(&name);
            let known = known.filter(|known| Arc::ptr_eq(&known.quota, &quota));
            let of_tenant = known.unwrap_or_else(|| {
                Rc::new(OfTenant {
                    quota,
                    starts: Arc::new(Semaphore::new(self.starts_of_tenant)),
                    turn: Mutex::default(),
                })
            });
            tenants.insert(name, of_tenant);
        }
        drop(tenants);
        self.freed.notify_waiters();
    }

    /// Sets other bounds. Programs beyond them rest as soon as they are idle.
    pub(super) fn bound(&self, bounds: ProgramBounds) {
        self.bounds.set(bounds);
        self.freed.notify_waiters();
        self.grown.notify_waiters();
        self.make_room(0, 0);
    }

    /// Waits for a place among those that start and for room for one more domain, in the order of asking. `None` once it
    /// had to wait, and `is_wanted` says that nobody needs it any more.
    pub(super) async fn enter(
        self: &Rc<Self>,
        shared: &Shared,
        is_wanted: impl Fn() -> bool,
    ) -> Option<(Slot, Turn)> {
        let tenant = shared.tenant();
        let of_tenant = self.tenants.borrow().get(tenant).cloned();
        // Held until there is room: who waits for his own tenant's is nobody else's affair.
        let _turn_of_tenant = match &of_tenant {
            Some(of_tenant) => Some(of_tenant.turn.lock().await),
            None => None,
        };
        let start_of_tenant = match &of_tenant {
            Some(of_tenant) => Some(self.enter_tenant(of_tenant, shared, &is_wanted).await?),
            None => None,
        };
        let waiting = Waiting::begin(&self.waiting);
        let mut has_waited = false;
        let place = match Arc::clone(&self.starts).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                has_waited = true;
                // It is never closed.
                Arc::clone(&self.starts).acquire_owned().await.ok()?
            }
        };
        let _turn = self.turn.lock().await;
        let expected = shared.last_memory_bytes();
        loop {
            if has_waited && !is_wanted() {
                return None;
            }
            if self.has_room(expected) {
                break;
            }
            shared.set_crowded(true);
            self.make_room(self.waiting.get(), expected);
            // Room may be given while it is asked for.
            let freed = self.freed.notified();
            tokio::select! {
                () = freed => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            has_waited = true;
        }
        shared.set_crowded(false);
        drop(waiting);
        let turn = Turn {
            _of_tenant: start_of_tenant,
            _place: place,
        };
        Some((self.take(tenant, expected), turn))
    }

    /// Waits for room within a tenant's quota, for which its own programs rest that nobody uses.
    async fn enter_tenant(
        &self,
        of_tenant: &OfTenant,
        shared: &Shared,
        is_wanted: impl Fn() -> bool,
    ) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        let start = Arc::clone(&of_tenant.starts).acquire_owned().await.ok()?;
        let mut has_waited = false;
        while !self.has_room_of(of_tenant) {
            if has_waited && !is_wanted() {
                return None;
            }
            if !has_waited {
                of_tenant.quota.count_refused(What::Domains);
            }
            shared.set_crowded(true);
            self.make_room_of(of_tenant);
            let freed = self.freed.notified();
            tokio::select! {
                () = freed => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            has_waited = true;
        }
        shared.set_crowded(false);
        Some(start)
    }

    fn has_room_of(&self, of_tenant: &OfTenant) -> bool {
        let domains = self.domains.borrow();
        let own = domains.values();
        let own = own.filter(|member| *member.tenant == **of_tenant.quota.tenant());
        own.count() < of_tenant.quota.most_domains()
    }

    /// Asks those of a tenant's programs to rest that were used least lately, until there is room for one more.
    fn make_room_of(&self, of_tenant: &OfTenant) {
        let mut domains = self.domains.borrow_mut();
        let own = domains
            .iter_mut()
            .filter(|(_, member)| *member.tenant == **of_tenant.quota.tenant());
        let own: Vec<_> = own.collect();
        let staying = own
            .iter()
            .filter(|(_, member)| !member.comes_free())
            .count();
        let too_many = (staying + 1).saturating_sub(of_tenant.quota.most_domains());
        let now_ms = coarse_ms();
        let mut idle: Vec<_> = own
            .into_iter()
            .filter_map(|(number, member)| Some((member.idle_since(now_ms)?, *number, member)))
            .collect();
        idle.sort_unstable_by_key(|(since_ms, number, _)| (*since_ms, *number));
        for (_, _, member) in idle.into_iter().take(too_many) {
            member.ask();
        }
    }

    fn take(self: &Rc<Self>, tenant: &str, expected: u64) -> Slot {
        let number = self.next.get();
        self.next.set(number + 1);
        let member = Member {
            memory_bytes: expected,
            tenant: tenant.into(),
            ..Member::default()
        };
        self.domains.borrow_mut().insert(number, member);
        self.grown.notify_waiters();
        Slot {
            alive: Rc::clone(self),
            number,
            asked: Rc::default(),
        }
    }

    /// One domain alone has room in any case: it is held to the bound by its own limit.
    fn has_room(&self, expected: u64) -> bool {
        let domains = self.domains.borrow();
        let bounds = self.bounds.get();
        let memory = || sum(domains.values()).saturating_add(expected);
        domains.is_empty()
            || (domains.len() < bounds.most
                && bounds.memory_bytes.is_none_or(|most| memory() <= most))
    }

    /// Asks as many programs to rest as it takes for so many more domains, the first of which will have so much memory.
    fn make_room(&self, more: usize, expected: u64) {
        let bounds = self.bounds.get();
        let mut domains = self.domains.borrow_mut();
        let stays = |member: &&Member| !member.comes_free();
        let mut count = domains.values().filter(stays).count() + more;
        let mut memory = sum(domains.values().filter(stays)).saturating_add(expected);
        let is_above = |count: usize, memory: u64| {
            count > bounds.most || bounds.memory_bytes.is_some_and(|most| memory > most)
        };
        if !is_above(count, memory) {
            return;
        }
        let now_ms = coarse_ms();
        let idle = domains.iter().filter_map(|(number, member)| {
            let used_ms = member.idle_since(now_ms)?;
            Some((used_ms, *number))
        });
        let mut idle: Vec<_> = idle.collect();
        idle.sort_unstable();
        for (_, number) in idle {
            if !is_above(count, memory) {
                break;
            }
            let Some(member) = domains.get_mut(&number) else {
                continue;
            };
            member.ask();
            count -= 1;
            memory = memory.saturating_sub(member.memory_bytes);
        }
    }

    /// Looks at memory for as long as anybody is there, and has programs rest when it is too much.
    pub(super) async fn watch_memory(self: Rc<Self>) {
        let mut step = SHORTEST_STEP;
        let mut look_at = Instant::now();
        loop {
            let is_idle =
                self.bounds.get().memory_bytes.is_none() || self.domains.borrow().is_empty();
            let grown = self.grown.notified();
            if is_idle {
                grown.await;
                step = SHORTEST_STEP;
                look_at = Instant::now() + step;
                continue;
            }
            tokio::select! {
                () = grown => {
                    step = SHORTEST_STEP;
                    // Those who start one after the other put no look off.
                    look_at = look_at.min(Instant::now() + step);
                }
                () = tokio::time::sleep_until(look_at) => {
                    let is_still = self.look_at_memory().await;
                    step = match is_still {
                        true => (step * 2).min(LONGEST_STEP),
                        false => SHORTEST_STEP,
                    };
                    look_at = Instant::now() + step;
                    self.make_room(0, 0);
                }
            }
        }
    }

    /// `true` if it has hardly changed.
    async fn look_at_memory(&self) -> bool {
        let meters = {
            let domains = self.domains.borrow();
            let meters = domains
                .iter()
                .filter_map(|(number, member)| Some((*number, member.meter.clone()?)));
            meters.collect::<Vec<_>>()
        };
        // Guests choose how much there is to be looked at.
        let looked = tokio::task::spawn_blocking(move || {
            let meters = meters.into_iter();
            meters
                .map(|(number, meter)| (number, meter.bytes()))
                .collect::<Vec<_>>()
        });
        let Ok(looked) = looked.await else {
            return false;
        };
        let mut domains = self.domains.borrow_mut();
        let mut is_still = true;
        for (number, bytes) in looked {
            if let Some(member) = domains.get_mut(&number) {
                is_still &= bytes.abs_diff(member.memory_bytes) <= member.memory_bytes / 64;
                member.memory_bytes = bytes;
                if let Some(resident) = &member.resident {
                    resident.shared.set_last_memory_bytes(bytes);
                }
            }
        }
        is_still
    }
}

fn sum<'a>(members: impl Iterator<Item = &'a Member>) -> u64 {
    members.fold(0, |sum, member| sum.saturating_add(member.memory_bytes))
}

impl Member {
    /// It is about to end: nobody is inside whom that would wait for.
    fn comes_free(&self) -> bool {
        let is_used = self.resident.as_ref().is_some_and(Resident::is_used);
        self.is_ending && !is_used
    }

    /// Since when nobody has used it; `None` where somebody does, or it does not run.
    fn idle_since(&self, now_ms: u64) -> Option<u64> {
        let resident = self.resident.as_ref().filter(|_| !self.is_ending)?;
        match &resident.reached {
            Reached::Endpoint(endpoint) => (!resident.is_used()).then(|| endpoint.used_ms()),
            Reached::Directly { used_ms } => {
                (now_ms.saturating_sub(*used_ms) >= DECLINED_MS).then_some(*used_ms)
            }
        }
    }

    fn ask(&mut self) {
        self.is_ending = true;
        if let Some(resident) = &self.resident {
            resident.asked.notify_one();
        }
    }
}

impl Resident {
    /// Who waits for the endpoint is looked for before those inside: nobody is missed on the way.
    fn is_used(&self) -> bool {
        match &self.reached {
            Reached::Endpoint(endpoint) => self.shared.is_wanted() || endpoint.inside().0 > 0,
            Reached::Directly { .. } => false,
        }
    }
}

impl Meter {
    fn bytes(&self) -> u64 {
        let bytes = match &self.counted {
            Some(counted) => counted.bytes(),
            None => Consumption::of_tree(self.pid).map(|used| used.memory_bytes),
        };
        // What forked processes share counts for each: none is taken for more than it may have.
        bytes.unwrap_or(self.most_bytes).min(self.most_bytes)
    }
}

impl Slot {
    /// The domain is there, and its memory is known by this.
    pub(super) fn measure(&self, meter: Meter) {
        self.change(|member| member.meter = Some(meter));
    }

    /// The program runs, and can be asked to rest from now on.
    pub(super) fn admit(&self, shared: &Arc<Shared>, reached: Reached) {
        let resident = Resident {
            shared: Arc::clone(shared),
            reached,
            asked: Rc::clone(&self.asked),
        };
        self.change(|member| member.resident = Some(resident));
    }

    /// Whether it was asked to rest while a request was on its way in.
    pub(super) fn is_used(&self) -> bool {
        let domains = self.alive.domains.borrow();
        let resident = domains
            .get(&self.number)
            .and_then(|member| member.resident.as_ref());
        resident.is_some_and(Resident::is_used)
    }

    /// Notified when others need its room.
    pub(super) fn asked(&self) -> Rc<Notify> {
        Rc::clone(&self.asked)
    }

    /// It is used, and does not rest now.
    pub(super) fn decline(&self) {
        self.change(|member| {
            member.is_ending = false;
            if let Some(Resident {
                reached: Reached::Directly { used_ms },
                ..
            }) = &mut member.resident
            {
                *used_ms = coarse_ms();
            }
        });
    }

    /// It will end, for whatever reason.
    pub(super) fn ends(&self) {
        self.change(|member| member.is_ending = true);
    }

    fn change(&self, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.alive.domains.borrow_mut().get_mut(&self.number) {
            change(member);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.alive.domains.borrow_mut().remove(&self.number);
        self.alive.freed.notify_waiters();
    }
}
