//! How many requests one worker has under way, and whose they are.
//!
//! Each of them may hold a descriptor and memory for as long as its client takes, or its service. So there is room for
//! a number of them, and nobody, client or service, has more of it than is left: one takes half at most, two a
//! third each, and whoever comes next always finds some (dynamic thresholds: Choudhury and Hahne, IEEE/ACM
//! Transactions on Networking 6(2), 1998). No number has to be chosen for that, and who is alone has plenty.

use rustix::process::{Resource, getrlimit};
use std::{cell::Cell, rc::Rc};

/// What everybody may have, however little is left.
const FLOOR: u32 = 8;
/// Room of a worker whose process may have as many descriptors as it likes.
const MOST: u32 = 1 << 20;

/// How a process's descriptors are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// For connections of clients.
    pub(crate) clients: usize,
    /// For requests: connections to servers, and files.
    pub(crate) requests: usize,
}

impl Descriptors {
    /// Of as many as the process may have, where `connections` are wanted for clients at most. Some are kept back for
    /// accepting, reloads and logs.
    pub(crate) fn of_process(connections: usize) -> Self {
        let most = getrlimit(Resource::Nofile).current;
        let most = most.map_or(usize::MAX, |most| most.try_into().unwrap_or(usize::MAX));
        Self::share(most, connections)
    }

    fn share(most: usize, connections: usize) -> Self {
        let free = most.saturating_sub(most / 16 + 32);
        let clients = connections.min(free / 2).max(1);
        Self {
            clients,
            requests: free.saturating_sub(clients),
        }
    }
}

/// The room of one worker.
#[derive(Debug)]
pub(crate) struct Permits {
    most: Cell<u32>,
    taken: Cell<u32>,
}

/// What one client or service has of it.
#[derive(Debug, Default)]
pub(crate) struct Share(Cell<u32>);

/// One request's permit. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Permit {
    /// `None`: the same request has one already.
    permits: Option<Rc<Permits>>,
    share: Rc<Share>,
}

thread_local! {
    static HERE: Rc<Permits> = Rc::new(Permits {
        most: Cell::new(MOST),
        taken: Cell::new(0),
    });
}

impl Permits {
    /// Those of the worker whose thread this is.
    pub(crate) fn here() -> Rc<Self> {
        HERE.with(Rc::clone)
    }

    /// Makes room for so many requests.
    pub(crate) fn set_most(&self, most: usize) {
        let most = u32::try_from(most).unwrap_or(MOST);
        self.most.set(most.clamp(FLOOR, MOST));
    }

    fn left(&self) -> u32 {
        self.most.get().saturating_sub(self.taken.get())
    }

    /// Whether so little is left that who makes no use of it had better give it back.
    pub(crate) fn are_scarce(&self) -> bool {
        self.left() < self.most.get() / 4
    }

    /// A permit for a client's request; `None`: the client has its share, or nothing is left.
    pub(crate) fn take(self: &Rc<Self>, client: &Rc<Share>) -> Option<Permit> {
        let left = self.left();
        if left == 0 || !client.may_have_more(left) {
            return None;
        }
        self.taken.set(self.taken.get() + 1);
        Some(Permit::new(Some(Rc::clone(self)), client))
    }

    /// The service's part of a request that has its permit; `None`: the service has its share.
    pub(crate) fn pass_on(&self, service: &Rc<Share>) -> Option<Permit> {
        let may = service.may_have_more(self.left());
        may.then(|| Permit::new(None, service))
    }
}

impl Share {
    /// Whether somebody who has this may have one more while so many are left.
    pub(crate) fn may_have_more(&self, left: u32) -> bool {
        self.0.get() < left.max(FLOOR)
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.0.get() == 0
    }

    pub(crate) fn add(&self) {
        self.0.set(self.0.get() + 1);
    }

    pub(crate) fn take_away(&self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Permit {
    fn new(permits: Option<Rc<Permits>>, share: &Rc<Share>) -> Self {
        share.add();
        Self {
            permits,
            share: Rc::clone(share),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.share.take_away();
        if let Some(permits) = &self.permits {
            permits.taken.set(permits.taken.get().saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(most: u32) -> Rc<Permits> {
        Rc::new(Permits {
            most: Cell::new(most),
            taken: Cell::new(0),
        })
    }

    /// All that they get of it, who ask in turn until nobody gets more.
    fn shares(permits: &Rc<Permits>, clients: usize) -> Vec<Vec<Permit>> {
        let shares: Vec<_> = (0..clients).map(|_| Rc::new(Share::default())).collect();
        let mut held: Vec<Vec<Permit>> = (0..clients).map(|_| Vec::new()).collect();
        loop {
            let before: usize = held.iter().map(Vec::len).sum();
            for (share, held) in shares.iter().zip(&mut held) {
                held.extend(permits.take(share));
            }
            if held.iter().map(Vec::len).sum::<usize>() == before {
                return held;
            }
        }
    }

    #[test]
    fn nobody_has_more_than_is_left() {
        let permits = permits(1000);
        for clients in 1..20 {
            let held = shares(&permits, clients);
            let left = permits.left() as usize;
            for held in &held {
                assert!(
                    held.len().abs_diff(1000 / (clients + 1)) <= 1,
                    "{}",
                    held.len()
                );
                assert!(held.len() <= left + 1);
            }
            assert!(shares(&permits, 1)[0].len() > 1, "the next one finds some");
            drop(held);
            assert_eq!(permits.left(), 1000, "all is given back");
        }
    }

    #[test]
    fn there_is_an_end_and_it_is_told_before() {
        let permits = permits(64);
        assert!(!permits.are_scarce());
        let held = shares(&permits, 100);
        assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 64);
        assert!(permits.are_scarce());
        let service = Rc::new(Share::default());
        let passed: Vec<_> = std::iter::from_fn(|| permits.pass_on(&service)).collect();
        assert_eq!(passed.len(), FLOOR as usize);
    }

    #[test]
    fn descriptors_are_kept_back() {
        let share = Descriptors::share;
        let of = |clients, requests| Descriptors { clients, requests };
        assert_eq!(share(1024, 10_000), of(464, 464));
        assert_eq!(share(1024, 100), of(100, 828));
        assert_eq!(share(1 << 20, 10_000).clients, 10_000);
        for most in 0..200 {
            let shared = share(most, 10_000);
            assert!(shared.clients >= 1 && shared.requests <= most, "{most}");
        }
    }
}
