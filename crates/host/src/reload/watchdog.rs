//! The service manager's watchdog: it hears that the server is alive as long as every worker answers.
//!
//! ```text
//!  half of its time has passed ──▶ every worker is asked ──▶ all have answered ──▶ WATCHDOG=1
//!                                                       └─── one does not ────▶ nothing, and a line in the log
//! ```
//!
//! A server one of whose workers hangs loses the clients of that worker alone, and looks well from outside. The manager
//! ends it and starts another.

use super::{Serving, notify};
use crate::{
    kinds::Level,
    log::{Line, Log},
};
use std::{pin::Pin, time::Duration};
use tokio::time::{Instant, sleep_until, timeout_at};

/// Waits for every worker's answer.
pub type Answers = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is said to the manager, and when. Nothing, if it does not want to hear it.
pub(super) struct Watchdog {
    /// Within which time the manager wants to hear.
    time: Option<Duration>,
    /// Tells it.
    alive: fn(),
    next: Instant,
    asked: Option<Answers>,
    is_late: bool,
}

impl Watchdog {
    /// Calls `alive` as long as everybody answers, twice in this `time`.
    pub(super) fn new(time: Option<Duration>, alive: fn()) -> Self {
        Self {
            time,
            alive,
            next: Instant::now(),
            asked: None,
            is_late: false,
        }
    }

    /// Tells the manager again and again. Nothing is lost if this is dropped and begun anew.
    pub(super) async fn watch(&mut self, serving: &impl Serving, log: &Log) {
        let Some(time) = self.time else {
            return std::future::pending().await;
        };
        loop {
            let Some(answers) = &mut self.asked else {
                sleep_until(self.next).await;
                self.asked = Some(serving.all_answer());
                continue;
            };
            if self.is_late {
                answers.await;
            } else if timeout_at(self.next + time / 2, answers).await.is_err() {
                self.is_late = true;
                tell_late(log, time);
                continue;
            }
            self.asked = None;
            self.is_late = false;
            (self.alive)();
            // As sd_watchdog_enabled(3) would have it.
            self.next = Instant::now() + time / 2;
        }
    }
}

fn tell_late(log: &Log, time: Duration) {
    const WHAT: &str =
        "a worker does not answer: the service manager is not told that the server is alive";
    notify::status(WHAT);
    let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    log.write(Line::new(Level::Error, WHAT).with("watchdog_us", time_us));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config,
        reload::{Load, Put},
    };
    use std::cell::Cell;
    use tokio::{sync::watch, time::timeout};

    const TIME: Duration = Duration::from_millis(40);
    /// Many times that time.
    const WHILE: Duration = Duration::from_millis(400);

    thread_local! {
        static TOLD: Cell<u32> = const { Cell::new(0) };
    }

    /// Workers that answer unless they hang.
    struct Hanging(watch::Sender<bool>);

    impl Serving for Hanging {
        type Loaded = ();

        fn loader(&self, _: crate::generation::Suspects) -> Load<()> {
            Box::new(|_, _| Ok(()))
        }

        fn put(&mut self, (): ()) -> Result<Put, String> {
            Ok(Put::default())
        }

        fn all_answer(&self) -> Answers {
            let mut hangs = self.0.subscribe();
            Box::pin(async move {
                let _ = hangs.wait_for(|hangs| !hangs).await;
            })
        }

        fn stop(self, _: Duration) -> usize {
            0
        }
    }

    #[test]
    fn nothing_is_told_while_a_worker_hangs() {
        let log = Log::start(&config::Log {
            path: Some("/dev/null".into()),
            ..config::Log::default()
        });
        let log = log.unwrap();
        let workers = Hanging(watch::Sender::new(false));
        let mut watchdog = Watchdog::new(Some(TIME), || TOLD.set(TOLD.get() + 1));
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let mut told = || {
            TOLD.set(0);
            // Dropped again and again, as beside a server's other work.
            for _ in 0..8 {
                let watched = async { timeout(WHILE / 8, watchdog.watch(&workers, &log)).await };
                assert!(runtime.block_on(watched).is_err());
            }
            TOLD.get()
        };
        assert!(told() >= 3);
        workers.0.send_replace(true);
        assert!(told() <= 1, "who was asked before may have answered");
        assert_eq!(told(), 0);
        workers.0.send_replace(false);
        assert!(told() >= 3);
    }

    #[test]
    fn nobody_is_asked_where_no_manager_wants_to_hear() {
        let log = Log::start(&config::Log::default()).unwrap();
        let workers = Hanging(watch::Sender::new(false));
        let mut watchdog = Watchdog::new(None, || panic!("nobody wants to hear"));
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let watched = async { timeout(WHILE, watchdog.watch(&workers, &log)).await };
        assert!(runtime.block_on(watched).is_err());
    }
}
