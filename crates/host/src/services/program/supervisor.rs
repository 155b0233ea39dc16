//! The thread that looks after all programs.

use super::{
    alive::Alive,
    direct::Listener,
    life::{Life, Need, Tools},
    shared::{Shared, View},
};
use crate::{
    client::{Client, Settings as ClientSettings},
    config::ProgramBounds,
    quota::Quota,
};
use palisade_process::Launcher;
use std::{
    io,
    num::NonZeroUsize,
    rc::Rc,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinSet, LocalSet},
};

/// Starts and ends programs, on a thread of its own. Dropping it ends all of them: those that nobody needs
/// any more are given some time to end by themselves.
#[derive(Debug)]
pub struct Supervisor {
    /// `None`: it is to end.
    orders: Option<mpsc::UnboundedSender<Command>>,
    thread: Option<JoinHandle<()>>,
}

/// What it is told.
#[derive(Debug)]
enum Command {
    LookAfter(Arc<Shared>, Option<Arc<Listener>>, watch::Receiver<()>),
    Bound(ProgramBounds),
    BoundTenants(Vec<Arc<Quota>>),
}

/// To have the supervisor look after a program, once that is needed. It keeps no supervisor going.
#[derive(Debug)]
pub(super) struct Order {
    orders: Option<mpsc::WeakUnboundedSender<Command>>,
    listener: Option<Arc<Listener>>,
    is_needed: watch::Receiver<()>,
}

/// How long programs may take to end when the supervisor does.
const LAST_GRACE: Duration = Duration::from_secs(8);
/// How long what blocks, a launch or a domain's end, may take after that.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Programs that start at one time, for each processor. The kernel makes network namespaces and mounts one after the
/// other: more at once only make each other wait.
const STARTS_PER_PROCESSOR: usize = 2;

impl Supervisor {
    /// Starts the thread. All programs' domains are made by `launcher`, within `bounds`.
    ///
    /// # Errors
    ///
    /// When there can be no more threads.
    pub fn start(launcher: Arc<Launcher>, bounds: ProgramBounds) -> io::Result<Self> {
        let (orders, received) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // Here and not by the thread: it reads files, and who counts descriptors would find one.
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let thread = thread::Builder::new().name("programs".into());
        let thread = thread.spawn(move || {
            let tasks = LocalSet::new();
            let alive = Alive::new(bounds, processors * STARTS_PER_PROCESSOR);
            runtime.block_on(tasks.run_until(look_after(received, launcher, alive)));
            // Whatever still runs is dropped here, and a domain ends with its value.
            drop(tasks);
            // What is being compiled for a start is not waited for: nobody is there to take it.
            runtime.shutdown_timeout(LAST_WORDS);
        })?;
        Ok(Self {
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    /// Sets other bounds for all programs together.
    pub fn bound(&self, bounds: ProgramBounds) {
        self.order(Command::Bound(bounds));
    }

    /// Says which tenants there are, and what each may have.
    pub(crate) fn bound_tenants(&self, quotas: Vec<Arc<Quota>>) {
        self.order(Command::BoundTenants(quotas));
    }

    fn order(&self, command: Command) {
        if let Some(orders) = &self.orders {
            // One that has ended has nothing to bound.
            let _ = orders.send(command);
        }
    }

    /// Has a program looked after from when somebody needs it: at once if clients reach it by a listener of its own.
    pub(super) fn look_after(
        &self,
        program: &Arc<Shared>,
        listener: Option<Arc<Listener>>,
        is_needed: watch::Receiver<()>,
    ) {
        let is_direct = listener.is_some();
        let order = Order {
            orders: self.orders.as_ref().map(mpsc::UnboundedSender::downgrade),
            listener,
            is_needed,
        };
        match is_direct {
            true => order.give(Arc::clone(program)),
            false => program.begin_with(order),
        }
    }
}

impl Order {
    /// Gives it, if the supervisor is still there.
    pub(super) fn give(self, program: Arc<Shared>) {
        let orders = self.orders.and_then(|orders| orders.upgrade());
        let command = Command::LookAfter(Arc::clone(&program), self.listener, self.is_needed);
        if orders.is_none_or(|orders| orders.send(command).is_err()) {
            // A panic there was told of by its hook. Nobody shall wait for a start.
            program.show(View::Gone);
        }
    }
}

async fn look_after(
    mut orders: mpsc::UnboundedReceiver<Command>,
    launcher: Arc<Launcher>,
    alive: Rc<Alive>,
) {
    let client = Client::new(ClientSettings::default());
    tokio::task::spawn_local(Rc::clone(&alive).watch_memory());
    let mut lives = JoinSet::new();
    let (server, is_up) = watch::channel(());
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                None => break,
                Some(Command::Bound(bounds)) => alive.bound(bounds),
                Some(Command::BoundTenants(quotas)) => alive.bound_tenants(quotas),
                Some(Command::LookAfter(shared, listener, service)) => {
                    let need = Need {
                        service,
                        server: is_up.clone(),
                    };
                    let tools = Tools {
                        launcher: Arc::clone(&launcher),
                        client: client.clone(),
                        alive: Rc::clone(&alive),
                    };
                    lives.spawn_local(Life::new(shared, tools, need).live(listener));
                }
            },
            _ = lives.join_next(), if !lives.is_empty() => {}
        }
    }
    drop(server);
    let all_ended = async { while lives.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_GRACE, all_ended).await;
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was told of by its hook.
            let _ = thread.join();
        }
    }
}
