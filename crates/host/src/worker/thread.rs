//! What runs on a worker's thread.

use super::{Command, Serve, Swap};
use crate::{
    account::Account,
    body::Body,
    config::Address,
    edge::{Accepting, Door, EdgeFigures, Guests, Notice, Noticed, Protocols, Shared, Sweep},
};
use http::{Request, Response, request};
use palisade_filter::Peer;
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{runtime::Runtime, sync::mpsc::UnboundedReceiver, task::LocalSet};

/// What a worker is given for its life.
pub(super) struct Seat {
    pub(super) index: usize,
    pub(super) count: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) noticed: Noticed,
    pub(super) figures: Arc<EdgeFigures>,
}

pub(super) type Inbox<S> = UnboundedReceiver<Command<<S as Serve>::Generation>>;

/// Serves until there is no more to serve.
pub(super) fn run<S: Serve>(runtime: &Runtime, seat: Seat, inbox: Inbox<S>) {
    let tasks = LocalSet::new();
    tasks.block_on(runtime, obey::<S>(seat, inbox));
}

/// Carries out commands until the last.
async fn obey<S: Serve>(seat: Seat, mut inbox: Inbox<S>) {
    let Some(Command::Swap(first)) = inbox.recv().await else {
        return;
    };
    let worker = Worker::<S>::new(seat, &first);
    let sweep = Rc::clone(&worker.sweep);
    tokio::task::spawn_local(async move { sweep.run().await });
    let mut doors = HashMap::new();
    worker.swap(*first, &mut doors);
    while let Some(command) = inbox.recv().await {
        match command {
            Command::Swap(swap) => worker.swap(*swap, &mut doors),
            Command::Stop { time, done } => {
                let cut_off = worker.stop(doors, time).await;
                S::end().await;
                // The receiver may have given up.
                let _ = done.send(cut_off);
                return;
            }
        }
    }
}

type Open = HashMap<Address, Accepting>;

/// One worker, on its thread.
struct Worker<S> {
    seat: Seat,
    site: RefCell<Rc<S>>,
    protocols: RefCell<Rc<Protocols>>,
    sweep: Rc<Sweep>,
    connections: Cell<u64>,
}

impl<S: Serve> Worker<S> {
    fn new(seat: Seat, first: &Swap<S::Generation>) -> Rc<Self> {
        let sweep = Sweep::new(
            &first.limits,
            seat.count,
            Arc::clone(&seat.shared),
            Arc::clone(&seat.figures),
            Arc::clone(&seat.noticed),
        );
        Rc::new(Self {
            site: RefCell::new(S::site(&first.generation, seat.index)),
            protocols: RefCell::new(Rc::new(Protocols::new(&first.limits))),
            sweep,
            connections: Cell::new(0),
            seat,
        })
    }

    fn swap(self: &Rc<Self>, swap: Swap<S::Generation>, doors: &mut Open) {
        let site = S::site(&swap.generation, self.seat.index);
        let old = self.site.replace(site);
        self.protocols
            .replace(Rc::new(Protocols::new(&swap.limits)));
        self.sweep.set_limits(&swap.limits);
        for (address, tls) in swap.doors.kept {
            if let Some(door) = doors.get(&address) {
                door.set_tls(tls);
            }
        }
        for address in swap.doors.gone {
            if let Some(door) = doors.remove(&address) {
                door.drain();
            }
        }
        for door in swap.doors.new {
            self.open(door, doors);
        }
        drop(old);
        // The receiver may have given up.
        let _ = swap.done.send(());
    }

    fn open(self: &Rc<Self>, door: Door, doors: &mut Open) {
        let address = door.address.clone();
        match Accepting::begin(door, Rc::clone(self)) {
            Ok(accepting) => {
                doors.insert(address, accepting);
            }
            Err(source) => (self.seat.noticed)(Notice::accept(&address, source)),
        }
    }

    /// Returns the number of connections that did not end in time.
    async fn stop(&self, doors: Open, time: Duration) -> usize {
        let draining: Vec<_> = doors.into_values().map(Accepting::drain).collect();
        let finished = async {
            for door in draining {
                // A task that panicked has said so on stderr.
                let _ = door.await;
            }
            self.sweep.stop();
            self.sweep.emptied().await;
        };
        let _ = tokio::time::timeout(time, finished).await;
        self.sweep.cut_off()
    }
}

impl<S: Serve> Guests for Worker<S> {
    fn sweep(&self) -> &Rc<Sweep> {
        &self.sweep
    }

    fn protocols(&self) -> Rc<Protocols> {
        Rc::clone(&self.protocols.borrow())
    }

    fn next_number(&self) -> u64 {
        let number = self.connections.get();
        self.connections.set(number + 1);
        number * self.seat.count as u64 + self.seat.index as u64
    }

    fn open(&self, peer: &Peer, head: &request::Parts) -> Account {
        let site = Rc::clone(&self.site.borrow());
        site.open(peer, head, self.sweep.tick())
    }

    fn answer(
        &self,
        peer: &Rc<Peer>,
        request: Request<Body>,
        account: &mut Account,
    ) -> impl Future<Output = Response<Body>> {
        let site = Rc::clone(&self.site.borrow());
        site.answer(peer, request, account)
    }
}
