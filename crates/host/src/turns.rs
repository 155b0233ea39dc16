//! Whose code runs next on a worker, where several want its processor.
//!
//! ```text
//!  begins, or has yielded ──may it run now?──▶ runs ──▶ charged to its tenant
//!            │ no                                ▲
//!            ▼                                   │ one after the other, by virtual time
//!     queue of its tenant ──────────────────▶ a round ──▶ sockets are looked at ──▶ the next round
//! ```
//!
//! A worker is one thread: what runs on it holds everybody up. So code of guests runs for [`ROUND_NS`] at most, as far as
//! it yields, before the worker looks at its sockets again, and what is quick goes before what has run already. Each tenant
//! has a virtual time, which goes on by what its code uses, divided by its weight; of those who wait the one goes first
//! that has least of it (start-time fair queueing: Goyal, Vin and Cheng, SIGCOMM 1996). A tenant that uses little never
//! waits for more than a round, whatever others do, and one that is alone has all.
//!
//! A tenant that has used more than its quota of processors waits until it is paid for.

use crate::{code, quota::Quota};
use rustix::time::{ClockId, clock_gettime};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// What runs at most between two looks at sockets, as far as it yields, in ns.
const ROUND_NS: u64 = 250_000;
/// What a tenant may run without waiting for a turn, in ns.
const CREDIT_NS: i64 = 500_000;
/// Of the time that passes it earns one part in so many again.
const EARNS_ONE_OF: u64 = 4;
/// For so long after two tenants ran one after the other a worker is shared.
const SHARED_NS: u64 = 100_000_000;
/// From so long on it is looked at how much of the time its thread really had a processor, in ns.
const LONG_NS: u64 = 250_000;
/// A filter that uses so much in one go is slow, in ns: it does not yield.
const SLOW_NS: u64 = 2_000_000;
/// For so long after one that took it by the clock what is really used is measured.
const SUSPECT_NS: u64 = 10_000_000_000;
/// What is charged to the quota at once, in ns: all workers write there.
const CHARGED_NS: u64 = 200_000;
/// Between two looks whether somebody may run who has used too much.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// The turns of one worker.
struct Turns {
    start: Instant,
    /// Those of whom somebody waits.
    waiting: RefCell<Vec<Rc<Party>>>,
    /// Of whoever was served last.
    virtual_ns: Cell<u64>,
    /// What has run in this round.
    spent_ns: Cell<u64>,
    is_pumped: Cell<bool>,
    /// Who ran last, by its number; 0: nobody yet.
    last: Cell<u64>,
    shared_until_ns: Cell<u64>,
    next_number: Cell<u64>,
    /// Those that there are, waiting or not.
    parties: Cell<usize>,
    /// What the thread had used when that was last looked at, in ns.
    thread_ns: Cell<u64>,
}

thread_local! {
    static IS_ASIDE: Cell<bool> = const { Cell::new(false) };
    static HERE: Rc<Turns> = Rc::new(Turns::new());
}

/// This thread is the one for tenants whose filters take long.
pub(crate) fn enter_aside() {
    IS_ASIDE.set(true);
}

/// Whether it is.
pub(crate) fn is_aside() -> bool {
    IS_ASIDE.get()
}

/// A tenant on one worker.
pub(crate) struct Party {
    number: u64,
    turns: Rc<Turns>,
    quota: Arc<Quota>,
    virtual_ns: Cell<u64>,
    credit_ns: Cell<i64>,
    /// When that was the credit.
    known_ns: Cell<u64>,
    /// Used, and not charged yet.
    uncharged_ns: Cell<u64>,
    /// What runs now is charged already.
    is_running: Cell<bool>,
    /// Until then what code uses that does not yield is measured.
    suspect_until_ns: Cell<u64>,
    queue: RefCell<VecDeque<Rc<Waiting>>>,
}

struct Waiting {
    state: Cell<State>,
    waker: Cell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    /// It may run.
    Given,
    /// It does not want to any more, or has run.
    Gone,
}

/// Waits until code may run.
pub(crate) struct Turn {
    party: Rc<Party>,
    waiting: Rc<Waiting>,
}

impl Turns {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            waiting: RefCell::default(),
            virtual_ns: Cell::new(0),
            spent_ns: Cell::new(0),
            is_pumped: Cell::new(false),
            last: Cell::new(0),
            shared_until_ns: Cell::new(0),
            next_number: Cell::new(1),
            parties: Cell::new(0),
            thread_ns: Cell::new(0),
        }
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Whether others than this one have run a moment ago, or want to.
    fn is_shared(&self, party: &Party, now_ns: u64) -> bool {
        let last = self.last.replace(party.number);
        if last != party.number && last != 0 {
            self.shared_until_ns.set(now_ns + SHARED_NS);
        }
        now_ns < self.shared_until_ns.get()
    }

    /// Lets the next one run; else how long to wait until somebody may, or `None` where nobody waits.
    fn grant(&self) -> Option<Granted> {
        let mut parties = self.waiting.borrow_mut();
        let mut shortest = LONGEST_WAIT;
        let mut next: Option<usize> = None;
        parties.retain(|party| party.forgets_gone());
        for (at, party) in parties.iter().enumerate() {
            if let Some(wait) = party.quota.processor_wait() {
                shortest = shortest.min(wait);
            } else if next
                .is_none_or(|next| party.virtual_ns.get() < parties[next].virtual_ns.get())
            {
                next = Some(at);
            }
        }
        if parties.is_empty() {
            return None;
        }
        let Some(next) = next else {
            return Some(Granted::Later(shortest));
        };
        let party = Rc::clone(&parties[next]);
        // Of those with the same time everybody comes to his turn.
        parties.swap_remove(next);
        let first = party.queue.borrow_mut().pop_front();
        if !party.queue.borrow().is_empty() {
            parties.push(Rc::clone(&party));
        }
        drop(parties);
        self.virtual_ns
            .set(self.virtual_ns.get().max(party.virtual_ns.get()));
        if let Some(first) = first {
            first.state.set(State::Given);
            if let Some(waker) = first.waker.take() {
                waker.wake();
            }
        }
        Some(Granted::Now)
    }

    /// Somebody who had his turn has run, or does not want to: the next one, if the round is not over.
    fn go_on(&self) {
        if self.spent_ns.get() < ROUND_NS {
            self.grant();
        }
    }

    /// What the thread really used of a time that it was busy with something.
    fn really_used(&self, ns: u64) -> u64 {
        if ns < LONG_NS {
            return ns;
        }
        let thread_ns = thread_ns();
        let since_ns = thread_ns.saturating_sub(self.thread_ns.replace(thread_ns));
        ns.min(since_ns)
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        self.turns.parties.update(|parties| parties - 1);
    }
}

impl std::fmt::Debug for Party {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Party")
            .field("number", &self.number)
            .field("virtual_ns", &self.virtual_ns.get())
            .finish_non_exhaustive()
    }
}

enum Granted {
    Now,
    Later(Duration),
}

/// One round after the other, while somebody waits.
async fn pump(turns: Rc<Turns>) {
    loop {
        // Behind what is ready, and behind a look at sockets and timers.
        tokio::task::yield_now().await;
        turns.spent_ns.set(0);
        match turns.grant() {
            Some(Granted::Now) => {}
            Some(Granted::Later(wait)) => tokio::time::sleep(wait).await,
            None => break,
        }
    }
    turns.is_pumped.set(false);
}

impl Party {
    /// A tenant on the worker whose thread this is.
    pub(crate) fn new(quota: &Arc<Quota>) -> Rc<Self> {
        let turns = HERE.with(Rc::clone);
        let number = turns.next_number.get();
        turns.next_number.set(number + 1);
        turns.parties.update(|parties| parties + 1);
        Rc::new(Self {
            number,
            quota: Arc::clone(quota),
            virtual_ns: Cell::new(0),
            credit_ns: Cell::new(CREDIT_NS),
            known_ns: Cell::new(turns.now_ns()),
            uncharged_ns: Cell::new(0),
            is_running: Cell::new(false),
            suspect_until_ns: Cell::new(0),
            queue: RefCell::default(),
            turns,
        })
    }

    /// How much it may use, and uses.
    pub(crate) fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    /// A turn to wait for; `None`: its code may run now. `has_yielded`: it ran before, and wants to go on.
    pub(crate) fn turn(self: &Rc<Self>, has_yielded: bool) -> Option<Turn> {
        let may_run = !has_yielded && self.may_run();
        (!may_run).then(|| self.wait())
    }

    /// Whether its code has to wait for a turn.
    pub(crate) fn has_to_wait(&self) -> bool {
        !self.may_run()
    }

    fn may_run(&self) -> bool {
        if self.is_alone() {
            return self.queue.borrow().is_empty();
        }
        let now_ns = self.turns.now_ns();
        let is_shared = self.turns.is_shared(self, now_ns);
        let has_credit = self.credit_at(now_ns) > 0;
        (has_credit || !is_shared)
            && self.queue.borrow().is_empty()
            && self.quota.processor_wait().is_none()
    }

    fn credit_at(&self, now_ns: u64) -> i64 {
        let passed_ns = now_ns.saturating_sub(self.known_ns.replace(now_ns));
        let earned_ns = i64::try_from(passed_ns / EARNS_ONE_OF).unwrap_or(CREDIT_NS);
        let credit_ns = self.credit_ns.get().saturating_add(earned_ns);
        let credit_ns = credit_ns.min(CREDIT_NS);
        self.credit_ns.set(credit_ns);
        credit_ns
    }

    fn wait(self: &Rc<Self>) -> Turn {
        let turns = &self.turns;
        let waiting = Rc::new(Waiting {
            state: Cell::new(State::Waits),
            waker: Cell::new(None),
        });
        let was_empty = {
            let mut queue = self.queue.borrow_mut();
            queue.push_back(Rc::clone(&waiting));
            queue.len() == 1
        };
        if was_empty {
            // Who had nothing to run has saved nothing up by that.
            let virtual_ns = self.virtual_ns.get().max(turns.virtual_ns.get());
            self.virtual_ns.set(virtual_ns);
            let mut parties = turns.waiting.borrow_mut();
            if !parties.iter().any(|party| party.number == self.number) {
                parties.push(Rc::clone(self));
            }
        }
        if !turns.is_pumped.replace(true) {
            tokio::task::spawn_local(pump(Rc::clone(turns)));
        }
        Turn {
            party: Rc::clone(self),
            waiting,
        }
    }

    /// Its code has run for so long. `had_turn`: it had waited for that.
    pub(crate) fn ran(&self, ns: u64, had_turn: bool) {
        let turns = &self.turns;
        let ns = turns.really_used(ns);
        self.credit_ns
            .set(self.credit_ns.get().saturating_sub_unsigned(ns));
        let weighted_ns =
            ns * u64::from(crate::config::DEFAULT_WEIGHT) / u64::from(self.quota.weight());
        self.virtual_ns
            .set(self.virtual_ns.get().saturating_add(weighted_ns));
        self.charge(ns);
        turns.spent_ns.set(turns.spent_ns.get() + ns);
        if had_turn {
            turns.go_on();
        }
    }

    fn charge(&self, ns: u64) {
        let uncharged_ns = self.uncharged_ns.get() + ns;
        let is_much = uncharged_ns >= CHARGED_NS || self.quota.measures_processor();
        self.uncharged_ns
            .set(if is_much { 0 } else { uncharged_ns });
        if is_much {
            self.quota.use_processor(uncharged_ns);
        }
    }

    /// Whether it has the worker to itself, and nobody counts what it uses: the main file's, where no other tenant has
    /// asked for anything. To look at the clock costs as much as a small filter.
    pub(crate) fn is_alone(&self) -> bool {
        self.turns.parties.get() == 1
            && self.quota.tenant().is_empty()
            && !self.quota.measures_processor()
    }

    /// Runs code that is its and does not yield, and charges it.
    pub(crate) fn run<T>(&self, had_turn: bool, run: impl FnOnce() -> T) -> T {
        if !had_turn && self.is_alone() {
            let _running = Running::begin(&self.is_running);
            return run();
        }
        let began_ns = self.turns.now_ns();
        let is_suspect = began_ns < self.suspect_until_ns.get();
        let used_before_ns = is_suspect.then(thread_ns);
        let loads = code::loads_of_thread();
        let running = Running::begin(&self.is_running);
        let result = run();
        drop(running);
        let now_ns = self.turns.now_ns();
        self.ran(now_ns - began_ns, had_turn);
        // To load code is work, and no filter's slowness.
        if now_ns - began_ns >= SLOW_NS && code::loads_of_thread() == loads {
            self.took_long(used_before_ns, now_ns);
        }
        result
    }

    /// Whether a callback is to be charged that runs now: it is no part of something that is, and its tenant has quotas. (The main
    /// file's callbacks are too short to look at a clock for each.)
    pub(crate) fn is_charged_here(&self) -> bool {
        !self.is_running.get() && !self.quota.tenant().is_empty()
    }

    /// Something that does not yield took long by the clock. It is slow if it used the processor for so long, and did not wait for
    /// it: `used_before_ns` is what the thread had used by then, if that was looked at.
    #[cold]
    fn took_long(&self, used_before_ns: Option<u64>, now_ns: u64) {
        self.suspect_until_ns.set(now_ns + SUSPECT_NS);
        let used_ns = used_before_ns.map(|before_ns| thread_ns().saturating_sub(before_ns));
        if let Some(used_ns) = used_ns.filter(|used_ns| *used_ns >= SLOW_NS) {
            self.quota.note_slow(Duration::from_nanos(used_ns));
        }
    }

    /// The same, once it may.
    pub(crate) async fn run_in_turn<T>(self: &Rc<Self>, run: impl FnOnce() -> T) -> T {
        let turn = self.turn(false);
        let had_turn = turn.is_some();
        if let Some(turn) = turn {
            turn.await;
        }
        self.run(had_turn, run)
    }

    /// Whether somebody waits still.
    fn forgets_gone(&self) -> bool {
        let mut queue = self.queue.borrow_mut();
        queue.retain(|waiting| waiting.state.get() != State::Gone);
        !queue.is_empty()
    }
}

/// For as long as something runs, however it ends.
struct Running<'a>(&'a Cell<bool>);

impl<'a> Running<'a> {
    fn begin(is_running: &'a Cell<bool>) -> Self {
        is_running.set(true);
        Self(is_running)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Future for Turn {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.waiting.state.get() == State::Waits {
            self.waiting.waker.set(Some(context.waker().clone()));
            return Poll::Pending;
        }
        self.waiting.state.set(State::Gone);
        Poll::Ready(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.waiting.state.replace(State::Gone) == State::Given {
            self.party.turns.go_on();
        }
    }
}

/// Time of a processor that this thread has used. A system call.
fn thread_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

#[cfg(test)]
mod tests;
