//! What runs on a worker's thread.

use super::{Command, Swap};
use crate::{
    config::Address,
    edge::{Accepting, Bound, Connections, EdgeMetrics, Notice, Noticed, Shared, Sweep},
    serve::Serve,
};
use std::{collections::HashMap, rc::Rc, sync::Arc, time::Duration};
use tokio::{runtime::Runtime, sync::mpsc::UnboundedReceiver, task::LocalSet};

/// What a worker is given for its life.
pub(super) struct Seat {
    pub(super) index: usize,
    pub(super) count: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) noticed: Noticed,
    pub(super) metrics: Arc<EdgeMetrics>,
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
    let sweep = Rc::clone(worker.connections.sweep());
    tokio::task::spawn_local(async move { sweep.run().await });
    let mut listeners = HashMap::new();
    worker.swap(*first, &mut listeners);
    while let Some(command) = inbox.recv().await {
        match command {
            Command::Swap(swap) => worker.swap(*swap, &mut listeners),
            // Who asked may have given up.
            Command::Answer(answer) => drop(answer.send(())),
            Command::Stop { time, done } => {
                let cut_off = worker.stop(listeners, time).await;
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
    connections: Rc<Connections<S>>,
}

impl<S: Serve> Worker<S> {
    fn new(seat: Seat, first: &Swap<S::Generation>) -> Self {
        let sweep = Sweep::new(
            &first.limits,
            seat.count,
            Arc::clone(&seat.shared),
            Arc::clone(&seat.metrics),
            Arc::clone(&seat.noticed),
        );
        let state = S::state(&first.generation, seat.index);
        let place = (seat.index, seat.count);
        Self {
            connections: Connections::new(state, &first.limits, sweep, place),
            seat,
        }
    }

    fn swap(&self, swap: Swap<S::Generation>, listeners: &mut Open) {
        let state = S::state(&swap.generation, self.seat.index);
        let old = self.connections.replace(state, &swap.limits);
        for (address, tls) in swap.listeners.kept {
            if let Some(listener) = listeners.get(&address) {
                listener.set_tls(tls);
            }
        }
        for address in swap.listeners.gone {
            if let Some(listener) = listeners.remove(&address) {
                listener.drain();
            }
        }
        for bound in swap.listeners.new {
            self.open(bound, listeners);
        }
        drop(old);
        // The receiver may have given up.
        let _ = swap.done.send(());
    }

    fn open(&self, bound: Bound, listeners: &mut Open) {
        let address = bound.address.clone();
        match Accepting::begin(bound, Rc::clone(&self.connections)) {
            Ok(accepting) => {
                listeners.insert(address, accepting);
            }
            Err(source) => (self.seat.noticed)(Notice::accept(&address, source)),
        }
    }

    /// Returns the number of connections that did not end in time.
    async fn stop(&self, listeners: Open, time: Duration) -> usize {
        let draining: Vec<_> = listeners.into_values().map(Accepting::drain).collect();
        let sweep = self.connections.sweep();
        let finished = async {
            for listener in draining {
                // A task that panicked has said so on stderr.
                let _ = listener.await;
            }
            sweep.stop();
            sweep.emptied().await;
        };
        let _ = tokio::time::timeout(time, finished).await;
        sweep.cut_off()
    }
}
