use super::*;
use crate::{config::Quotas as Bounds, quota::Quotas};
use tokio::task::{LocalSet, spawn_local};

/// What is run at once here: short enough that no clock is asked about it.
const PIECE_NS: u64 = LONG_NS - 1;

fn party(bounds: &Bounds) -> Rc<Party> {
    let quota = Quotas::default().of("a");
    quota.set(bounds);
    Party::new(&quota)
}

/// Runs a test as a worker does.
fn on_worker(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test());
}

/// Code that never ends, and counts how often it has run.
fn spin(party: &Rc<Party>, runs: &Rc<Cell<u64>>) {
    let (party, runs) = (Rc::clone(party), Rc::clone(runs));
    spawn_local(async move {
        loop {
            let turn = party.turn(true).expect("who has yielded waits");
            turn.await;
            runs.set(runs.get() + 1);
            party.ran(PIECE_NS, true);
        }
    });
}

async fn wait_for_turn(party: &Rc<Party>, has_yielded: bool) {
    if let Some(turn) = party.turn(has_yielded) {
        turn.await;
    }
}

#[test]
fn what_is_quick_waits_for_no_more_than_a_round() {
    on_worker(async || {
        let (hog, quick) = (party(&Bounds::default()), party(&Bounds::default()));
        let runs = Rc::default();
        for _ in 0..50 {
            spin(&hog, &runs);
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
            let before = runs.get();
            // Also one that has no credit.
            wait_for_turn(&quick, true).await;
            let waited = runs.get() - before;
            assert!(waited <= ROUND_NS / PIECE_NS + 1, "{waited} pieces ran");
            quick.ran(10_000, true);
        }
    });
}

#[test]
fn tenants_have_parts_by_their_weights_however_many_requests_they_have() {
    on_worker(async || {
        let heavy = Bounds {
            weight: Some(300),
            ..Bounds::default()
        };
        let (one, other) = (party(&Bounds::default()), party(&heavy));
        let (of_one, of_other) = (Rc::default(), Rc::default());
        for _ in 0..30 {
            spin(&one, &of_one);
        }
        // As many as run in a round: who has none waiting has nothing to be given.
        for _ in 0..4 {
            spin(&other, &of_other);
        }
        while of_one.get() + of_other.get() < 1000 {
            tokio::task::yield_now().await;
        }
        let share = of_other.get() as f64 / of_one.get() as f64;
        assert!((2.5..3.5).contains(&share), "{of_one:?} {of_other:?}");
    });
}

#[test]
fn who_has_used_more_than_its_quota_waits_and_others_do_not() {
    on_worker(async || {
        let poor = party(&Bounds {
            processor_ns: Some(1_000_000_000),
            ..Bounds::default()
        });
        let other = party(&Bounds::default());
        poor.ran(PIECE_NS, false);
        poor.quota().use_processor(1_020_000_000);
        assert!(poor.has_to_wait());
        let began = Instant::now();
        let turn = poor.turn(false).unwrap();
        wait_for_turn(&other, true).await;
        assert!(poor.has_to_wait(), "the other one ran first");
        turn.await;
        assert!(began.elapsed() >= Duration::from_millis(15));
    });
}

#[test]
fn a_tenant_that_is_alone_never_waits_until_it_yields() {
    on_worker(async || {
        let alone = party(&Bounds::default());
        wait_for_turn(&alone, true).await;
        alone.ran(PIECE_NS, true);
        for _ in 0..100 {
            assert!(alone.turn(false).is_none());
            alone.ran(PIECE_NS, false);
        }
    });
}

#[test]
fn a_turn_that_nobody_wants_any_more_is_the_next_ones() {
    on_worker(async || {
        let party = party(&Bounds::default());
        let (first, second, third) = (party.turn(true), party.turn(true), party.turn(true));
        drop(second);
        drop(first);
        third.unwrap().await;
        party.ran(PIECE_NS, true);
        assert!(party.queue.borrow().is_empty());
    });
}

#[test]
fn who_has_the_worker_to_himself_is_not_measured() {
    let quotas = Quotas::default();
    let main = Party::new(&quotas.of(""));
    let busy = || {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(1) {}
    };
    main.run(false, busy);
    assert_eq!(main.quota().used_ns(), 0);
    let other = Party::new(&quotas.of("a"));
    main.run(false, busy);
    assert!(main.quota().used_ns() > 0);
    drop(other);
    assert!(main.is_alone());
    let tenant = Party::new(&quotas.of("b"));
    drop(main);
    assert!(!tenant.is_alone(), "a tenant's use is told");
}
