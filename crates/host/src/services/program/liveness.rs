//! Whether a process that runs is needed, answers, and is well.

use super::{
    endpoint::{Access, Endpoint},
    health,
};
use crate::{
    client::{Client, coarse_ms},
    config,
};
use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};
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

/// How often whoever waits for a first response, or was refused, is looked after.
pub(super) fn look_step(start_time: Duration) -> Duration {
    (start_time / 4).clamp(SHORTEST_STEP, Duration::from_secs(1))
}

const SHORTEST_STEP: Duration = Duration::from_millis(5);

/// Since when somebody has waited for a first response, and whether nobody has come in for long.
#[derive(Default)]
pub(super) struct Quiet {
    asked_since: Option<Instant>,
}

impl Quiet {
    /// When to look again, if nobody tells of anything before; `None`: never.
    ///
    /// # Errors
    ///
    /// Why the process is to end.
    pub(super) fn look(
        &mut self,
        endpoint: &Endpoint,
        is_awaited: bool,
        program: &config::Program,
    ) -> Result<Option<Duration>, WhyEnded> {
        let now = Instant::now();
        let (inside, _) = endpoint.inside();
        let is_unanswered = inside > 0 && endpoint.access() == Access::Started;
        self.asked_since = is_unanswered.then(|| self.asked_since.unwrap_or(now));
        if self
            .asked_since
            .is_some_and(|since| now - since >= program.start_time)
        {
            return Err(WhyEnded::Mute);
        }
        let step = is_unanswered.then(|| look_step(program.start_time));
        let idle = program.idle_time.map(|idle_time| {
            let quiet = coarse_ms().saturating_sub(endpoint.used_ms());
            match is_awaited || inside > 0 {
                true => idle_time,
                false => idle_time.saturating_sub(Duration::from_millis(quiet)),
            }
        });
        match idle {
            Some(Duration::ZERO) if !is_awaited && inside == 0 => Err(WhyEnded::Idle),
            _ => {
                let next = step.into_iter().chain(idle).min();
                Ok(next.map(|next| next.max(SHORTEST_STEP)))
            }
        }
    }
}

/// Health checks, that end with whoever wants them.
pub(super) struct Unwell {
    task: Option<(tokio::task::JoinHandle<String>, AbortHandle)>,
    has_failed: Rc<Cell<bool>>,
}

impl Unwell {
    pub(super) fn watch(
        health: Option<config::Health>,
        endpoint: &Arc<Endpoint>,
        client: &Client,
        start_time: Duration,
    ) -> Self {
        let has_failed = Rc::<Cell<bool>>::default();
        let task = health.map(|health| {
            let (endpoint, client) = (Arc::clone(endpoint), client.clone());
            let watch = health::watch(endpoint, health, client, start_time, Rc::clone(&has_failed));
            let task = tokio::task::spawn_local(watch);
            let abort = task.abort_handle();
            (task, abort)
        });
        Self { task, has_failed }
    }

    /// Whether it was not well when it was asked last. It shall not stand still so: what counts towards its replacement
    /// would be forgotten.
    pub(super) fn is_suspected(&self) -> bool {
        self.has_failed.get()
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

    fn program() -> config::Program {
        config::Program {
            command: Vec::new(),
            direct: None,
            port: None,
            idle_time: Some(Duration::ZERO),
            rest: config::Rest::Stop,
            start_time: Duration::from_secs(10),
            health: None,
            back_off: Duration::ZERO,
            back_off_most: Duration::ZERO,
        }
    }

    #[test]
    fn nobody_is_left_standing_before_the_door_for_idleness() {
        let endpoint = Endpoint::make().unwrap();
        let mut quiet = Quiet::default();
        let program = program();
        assert!(quiet.look(&endpoint, true, &program).is_ok());
        let tally = endpoint.add_tally();
        tally.begin();
        assert!(quiet.look(&endpoint, false, &program).is_ok());
        tally.end();
        let look = quiet.look(&endpoint, false, &program);
        assert!(matches!(look, Err(WhyEnded::Idle)));
    }

    /// Nobody wakes up for one that is well and that nobody asks.
    #[test]
    fn a_program_that_rests_for_nothing_is_not_looked_at() {
        let endpoint = Endpoint::make().unwrap();
        endpoint.open();
        endpoint.prove();
        let mut program = program();
        program.idle_time = None;
        assert_eq!(
            Quiet::default().look(&endpoint, false, &program).ok(),
            Some(None)
        );
        program.idle_time = Some(Duration::from_secs(600));
        let next = Quiet::default().look(&endpoint, false, &program).ok();
        let next = next.flatten().unwrap();
        assert!(next > Duration::from_secs(599), "{next:?}");
    }
}
