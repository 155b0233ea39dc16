//! Whether a process that runs is needed, answers, and is well.

use super::{
    endpoint::{Access, Endpoint},
    health,
};
use crate::{client::Client, config};
use std::{sync::Arc, time::Duration};
use tokio::{task::AbortHandle, time::Instant};

/// Why a process is watched no more.
pub(super) enum WhyEnded {
    Died,
    /// It has never answered.
    Mute,
    /// It does not do any more what it did.
    Unwell(String),
    Idle,
    Unneeded,
}

/// Often enough to keep both times by a quarter.
pub(super) fn look_step(idle_time: Option<Duration>, start_time: Duration) -> Duration {
    let shortest = idle_time.map_or(start_time, |idle_time| idle_time.min(start_time));
    (shortest / 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
}

/// Since when nobody has come in, and since when somebody has waited for a first response.
pub(super) struct Quiet {
    ever: u64,
    since: Instant,
    asked_since: Option<Instant>,
}

impl Quiet {
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        Self {
            ever: endpoint.inside().1,
            since: Instant::now(),
            asked_since: None,
        }
    }

    pub(super) fn look(
        &mut self,
        endpoint: &Endpoint,
        is_awaited: bool,
        program: &config::Program,
    ) -> Option<WhyEnded> {
        let now = Instant::now();
        let (inside, ever) = endpoint.inside();
        let is_used = is_awaited || inside > 0 || ever != self.ever;
        if is_used {
            (self.ever, self.since) = (ever, now);
        }
        let is_unanswered = inside > 0 && endpoint.access() == Access::Started;
        self.asked_since = is_unanswered.then(|| self.asked_since.unwrap_or(now));
        if self
            .asked_since
            .is_some_and(|since| now - since >= program.start_time)
        {
            return Some(WhyEnded::Mute);
        }
        let idle_time = program.idle_time.filter(|_| !is_used)?;
        (now - self.since >= idle_time).then_some(WhyEnded::Idle)
    }
}

/// Health checks, that end with whoever wants them.
pub(super) struct Unwell {
    task: Option<(tokio::task::JoinHandle<String>, AbortHandle)>,
}

impl Unwell {
    pub(super) fn watch(
        health: Option<config::Health>,
        endpoint: &Arc<Endpoint>,
        client: &Client,
        start_time: Duration,
    ) -> Self {
        let task = health.map(|health| {
            let watch = health::watch(Arc::clone(endpoint), health, client.clone(), start_time);
            let task = tokio::task::spawn_local(watch);
            let abort = task.abort_handle();
            (task, abort)
        });
        Self { task }
    }

    /// Waits until the program is unwell.
    pub(super) async fn comes(&mut self) -> String {
        if let Some((task, _)) = &mut self.task {
            let told = task.await;
            // It must not be asked again, whatever it said.
            self.task = None;
            if let Ok(why) = told {
                return why;
            }
        }
        std::future::pending().await
    }
}

impl Drop for Unwell {
    fn drop(&mut self) {
        if let Some((_, abort)) = &self.task {
            abort.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_left_standing_before_the_door_for_idleness() {
        let endpoint = Endpoint::make().unwrap();
        let mut quiet = Quiet::new(&endpoint);
        let program = config::Program {
            command: Vec::new(),
            direct: None,
            port: None,
            idle_time: Some(Duration::ZERO),
            start_time: Duration::from_secs(10),
            health: None,
            back_off: Duration::ZERO,
            back_off_most: Duration::ZERO,
        };
        assert!(quiet.look(&endpoint, true, &program).is_none());
        let tally = endpoint.add_tally();
        tally.begin();
        assert!(quiet.look(&endpoint, false, &program).is_none());
        tally.end();
        let look = quiet.look(&endpoint, false, &program);
        assert!(matches!(look, Some(WhyEnded::Idle)));
    }
}
