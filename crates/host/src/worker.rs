//! The threads that serve: one a processor, each with sockets, a state and connections of its own.
//!
//! ```text
//!  Workers ──Swap, Stop──▶ worker 0: sockets, Rc<S: Serve>, connections
//!     ▲                    worker 1: …
//!     └──── it is done ────┘
//! ```
//!
//! Workers are not pinned to processors: guests run beside them, and a worker whose processor is busy had
//! better move.

mod thread;

use crate::{
    config::{Address, Limits},
    edge::{Edge, EdgeError, EdgeMetrics, ListenerChanges, Listeners, Notice, Noticed, Shared},
    serve::Serve,
};
use palisade_process::Confinement;
use std::{
    num::NonZeroUsize,
    sync::{Arc, mpsc as replies},
    thread::JoinHandle,
    time::Duration,
};
use thread::Seat;
use tokio::sync::{
    mpsc::{self, UnboundedSender},
    oneshot,
};

/// Threads of a worker's that wait for disks and name servers.
const BLOCKING_THREADS: usize = 16;

/// How long they are waited for when a worker ends. They may be stuck for ever.
const BLOCKING_STOP_TIME: Duration = Duration::from_secs(1);

/// The threads that serve. Dropping this ends them at once; [`Workers::stop`] lets them finish.
pub struct Workers<S: Serve> {
    workers: Vec<Handle<S>>,
    listeners: Listeners,
}

struct Handle<S: Serve> {
    commands: UnboundedSender<Command<S::Generation>>,
    metrics: Arc<EdgeMetrics>,
    thread: JoinHandle<()>,
}

enum Command<G> {
    Swap(Box<Swap<G>>),
    /// It answers when it comes to it.
    Answer(oneshot::Sender<()>),
    Stop {
        time: Duration,
        done: replies::Sender<usize>,
    },
}

struct Swap<G> {
    generation: Arc<G>,
    limits: Limits,
    listeners: ListenerChanges,
    done: replies::Sender<()>,
}

/// So many threads, or as many as there are processors for this process.
pub(crate) fn count_threads(count: Option<NonZeroUsize>) -> NonZeroUsize {
    count
        .or_else(|| std::thread::available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN)
}

impl<S: Serve> Workers<S> {
    /// Starts `count` workers, or as many as there are processors for this process, and returns when all serve.
    ///
    /// `noticed` is called on workers' threads.
    ///
    /// # Errors
    ///
    /// If it is impossible to listen on an address, a certificate is of no use, or a thread cannot be started.
    pub fn start(
        generation: Arc<S::Generation>,
        edge: &Edge,
        count: Option<NonZeroUsize>,
        noticed: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Self, EdgeError> {
        let count = count_threads(count).get();
        let shared = Arc::new(Shared::default());
        let noticed: Noticed = Arc::new(noticed);
        let workers: Result<_, EdgeError> = (0..count)
            .map(|index| start_worker(index, count, &shared, &noticed))
            .collect();
        let mut workers = Self {
            workers: workers?,
            listeners: Listeners::default(),
        };
        workers.swap(generation, edge)?;
        Ok(workers)
    }

    /// Puts a new generation in the present one's place, and returns when every worker has it. Requests under
    /// way keep the old one. An address that stays keeps its sockets; of one that goes, what is queued is
    /// served. Certificates are read anew.
    ///
    /// # Errors
    ///
    /// As of [`Workers::start`]; everything is as it was before, unless a worker is gone.
    pub fn swap(&mut self, generation: Arc<S::Generation>, edge: &Edge) -> Result<(), EdgeError> {
        let plan = self.listeners.plan(edge, self.workers.len())?;
        let (done, replies) = replies::channel();
        let swaps: Result<Vec<_>, _> = (0..self.workers.len())
            .map(|worker| {
                Ok::<_, EdgeError>(Swap {
                    generation: Arc::clone(&generation),
                    limits: edge.limits.clone(),
                    listeners: self.listeners.changes(&plan, worker)?,
                    done: done.clone(),
                })
            })
            .collect();
        let swaps = swaps?;
        self.listeners.carry_out(plan);
        for (worker, swap) in self.workers.iter().zip(swaps) {
            // Whether it is gone is seen by its answer.
            let _ = worker.commands.send(Command::Swap(Box::new(swap)));
        }
        drop(done);
        if replies.iter().count() < self.workers.len() {
            return Err(EdgeError::WorkerGone);
        }
        Ok(())
    }

    /// Reads every certificate anew, for handshakes from now on. One that is broken leaves the old one.
    ///
    /// # Errors
    ///
    /// What is wrong with the first broken one; the others are replaced.
    pub fn reload_certificates(&self) -> Result<(), EdgeError> {
        Ok(self.listeners.reload_certificates()?)
    }

    /// Where requests come in, in the configuration's order, with the ports that they really are.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        self.listeners.addresses()
    }

    /// Each worker's metrics.
    #[must_use]
    pub fn metrics(&self) -> Vec<Arc<EdgeMetrics>> {
        self.workers
            .iter()
            .map(|worker| Arc::clone(&worker.metrics))
            .collect()
    }

    /// What is over once every worker has had its turn: never, if one hangs or is gone.
    pub fn all_answer(&self) -> impl Future<Output = ()> + Send + use<S> {
        let ask = |worker: &Handle<S>| {
            let (answer, answered) = oneshot::channel();
            // Whether it is gone is seen by its answer.
            let _ = worker.commands.send(Command::Answer(answer));
            answered
        };
        let asked: Vec<_> = self.workers.iter().map(ask).collect();
        async move {
            for answer in asked {
                if answer.await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Lets nobody in any more, waits up to `time` for requests under way, and ends. Returns the number of
    /// connections that were cut off.
    #[must_use]
    pub fn stop(self, time: Duration) -> usize {
        self.listeners.close_to_new();
        let (done, replies) = replies::channel();
        for worker in &self.workers {
            let stop = Command::Stop {
                time,
                done: done.clone(),
            };
            // A worker that is gone has nothing under way.
            let _ = worker.commands.send(stop);
        }
        drop(done);
        let cut_off = replies.iter().sum();
        for worker in self.workers {
            drop(worker.commands);
            // A worker that panicked has said so on stderr.
            let _ = worker.thread.join();
        }
        cut_off
    }
}

fn start_worker<S: Serve>(
    index: usize,
    count: usize,
    shared: &Arc<Shared>,
    noticed: &Noticed,
) -> Result<Handle<S>, EdgeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // They wait for disks: more of them only wait longer.
        .max_blocking_threads(BLOCKING_THREADS)
        .on_thread_park(S::before_wait)
        .build()
        .map_err(EdgeError::Thread)?;
    let (commands, inbox) = mpsc::unbounded_channel();
    let metrics = Arc::new(EdgeMetrics::default());
    let seat = Seat {
        index,
        count,
        shared: Arc::clone(shared),
        noticed: Arc::clone(noticed),
        metrics: Arc::clone(&metrics),
    };
    let confinement = Confinement::to_execute_nothing()?;
    let (confined, is_confined) = replies::channel();
    let thread = std::thread::Builder::new()
        .name(format!("worker-{index}"))
        .spawn(move || {
            // What answers strangers starts nothing. Its blocking threads have what it has.
            let entered = confinement.map_or(Ok(()), |one| one.enter());
            let may_serve = entered.is_ok();
            // It is waited for.
            let _ = confined.send(entered);
            if may_serve {
                thread::run::<S>(&runtime, seat, inbox);
            }
            // Whatever a blocking call still waits for: everything that asked for it is gone.
            runtime.shutdown_timeout(BLOCKING_STOP_TIME);
        })
        .map_err(EdgeError::Thread)?;
    is_confined.recv().map_err(|_| EdgeError::WorkerGone)??;
    Ok(Handle {
        commands,
        metrics,
        thread,
    })
}
