//! Domains that are made ahead of their launches.

use super::prelude::Prelude;
use crate::{
    domain::{Domain, is_ready_by},
    keeper::{Keeper, KeeperError, Ordered},
    lock::lock,
    standing::ParkOrder,
};
use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// A domain made ahead of its launch.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) domain: Ordered,
    pub(super) prelude: Arc<Prelude>,
    /// The init after whose end it is made.
    after: Option<OwnedFd>,
    /// It has waited for a launch: what it fails of before it hears of one may be long ago.
    pub(super) has_waited: bool,
}

impl Ahead {
    pub(super) fn order(
        keeper: &Keeper,
        order: &ParkOrder,
        prelude: Arc<Prelude>,
    ) -> Result<Self, KeeperError> {
        let domain = keeper.order(order, None, &prelude.bytes)?;
        Ok(Self::of(domain, prelude))
    }

    pub(super) fn of(domain: Ordered, prelude: Arc<Prelude>) -> Self {
        Self {
            domain,
            prelude,
            after: None,
            has_waited: false,
        }
    }

    /// Whether nothing is in its way: an init takes some 0.1 ms to end. One that somebody has stopped ends no more.
    pub(super) fn is_begun(&self) -> bool {
        const ENOUGH: Duration = Duration::from_secs(1);
        let after = self.after.as_ref();
        after.is_none_or(|init| is_ready_by(init.as_fd(), Instant::now().checked_add(ENOUGH)))
    }

    /// Whether it is: the launch of another one tells why it is not.
    pub(super) fn wait_until_ready(&mut self) -> Result<bool, KeeperError> {
        self.domain.parked()?;
        // It is made: the one before has ended.
        self.after = None;
        match self.prelude.is_empty() {
            true => Ok(true),
            false => self.domain.wait_until_ready(),
        }
    }
}

/// Those of one launcher.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Oldest first.
    waiting: VecDeque<Ahead>,
    /// The keeper has the order for one more, which it makes when a guest has ended.
    is_promised: bool,
}

impl Pool {
    pub(super) fn push(&mut self, ahead: Ahead) {
        self.waiting.push_back(ahead);
    }

    pub(super) fn take(&mut self) -> Option<Ahead> {
        let ahead = self.waiting.pop_front()?;
        Some(Ahead {
            has_waited: true,
            ..ahead
        })
    }

    pub(super) fn give_back(&mut self, ahead: Ahead) {
        self.waiting.push_front(ahead);
    }
}

/// The domain for the launch after this one.
///
/// The keeper has the order from the beginning, and makes it when this domain's init has ended: not sooner, for a guest may
/// want the processor, and without anybody's asking then, for somebody waits for the guest's end. Where it is to be like the one
/// before, the keeper has known that since it made that. It has one such order at a
/// time: of many guests that run at once each of the others has a domain ordered at its end, if none waits.
#[derive(Debug)]
pub(super) struct Promise {
    pool: Arc<Mutex<Pool>>,
    promised: Option<Ahead>,
    order: ParkOrder,
    prelude: Arc<Prelude>,
}

impl Promise {
    /// `like_it` is that of a domain like this one, if the keeper will make one.
    pub(super) fn of(
        domain: &Domain,
        like_it: Option<OwnedFd>,
        keeper: &Keeper,
        pool: &Arc<Mutex<Pool>>,
        (order, prelude): (ParkOrder, Arc<Prelude>),
    ) -> Self {
        let mut all = lock(pool);
        let is_wanted = all.waiting.is_empty() && !all.is_promised;
        let promise = || match like_it {
            Some(socket) => Some(Ordered::by_keeper(socket)),
            // A keeper that is gone says so at the next launch.
            None => keeper
                .order_after(domain.made(), &order, None, &prelude.bytes)
                .ok(),
        };
        let promised = is_wanted.then(promise).flatten();
        all.is_promised |= promised.is_some();
        Self {
            pool: Arc::clone(pool),
            promised: promised.map(|domain| Ahead::of(domain, Arc::clone(&prelude))),
            order,
            prelude,
        }
    }

    /// The guest has ended: the next launch may have it. Does not wait for it.
    pub(super) fn follow(mut self, keeper: &Keeper, init: BorrowedFd<'_>) {
        let promised = self.promised.take().map(|promised| Ahead {
            after: init.try_clone_to_owned().ok(),
            ..promised
        });
        let mut pool = lock(&self.pool);
        pool.is_promised &= promised.is_none();
        if pool.waiting.is_empty() {
            let order = || Ahead::order(keeper, &self.order, Arc::clone(&self.prelude)).ok();
            pool.waiting.extend(promised.or_else(order));
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.promised.is_some() {
            lock(&self.pool).is_promised = false;
        }
    }
}
