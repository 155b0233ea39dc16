//! The thread that looks after all programs.

use super::{
    direct::Listener,
    life::{Life, Need},
    shared::{Shared, View},
};
use crate::client::{Client, Settings as ClientSettings};
use palisade_process::Launcher;
use std::{
    io,
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
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// A program to look after.
type Order = (Arc<Shared>, Option<Arc<Listener>>, watch::Receiver<()>);

/// How long programs may take to end when the supervisor does.
const LAST_GRACE: Duration = Duration::from_secs(8);
/// How long what blocks, a launch or a domain's end, may take after that.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Supervisor {
    /// Starts the thread. All programs' domains are made by `launcher`.
    ///
    /// # Errors
    ///
    /// When there can be no more threads.
    pub fn start(launcher: Arc<Launcher>) -> io::Result<Self> {
        let (orders, received) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = thread::Builder::new().name("programs".into());
        let thread = thread.spawn(move || {
            let tasks = LocalSet::new();
            runtime.block_on(tasks.run_until(look_after(received, launcher)));
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

    pub(super) fn look_after(
        &self,
        program: &Arc<Shared>,
        listener: Option<Arc<Listener>>,
        is_needed: watch::Receiver<()>,
    ) {
        let order = (Arc::clone(program), listener, is_needed);
        let orders = self.orders.as_ref();
        if orders.is_none_or(|orders| orders.send(order).is_err()) {
            // A panic there was told of by its hook. Nobody shall wait for a start.
            program.show(View::Gone);
        }
    }
}

async fn look_after(mut orders: mpsc::UnboundedReceiver<Order>, launcher: Arc<Launcher>) {
    let client = Client::new(ClientSettings::default());
    let mut lives = JoinSet::new();
    let (server, is_up) = watch::channel(());
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some((shared, listener, service)) = order else {
                    break;
                };
                let need = Need {
                    service,
                    server: is_up.clone(),
                };
                let life = Life::new(shared, Arc::clone(&launcher), client.clone(), need);
                lives.spawn_local(life.live(listener));
            }
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
