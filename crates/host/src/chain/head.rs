//! A head at one slot after the other, and the wait for a filter that does not let it pass at once.

use super::{Flow, Head, Met, SharedFlow, Step, Stop, body::Begun};
use crate::body::Body;
use http_body::Body as _;
use palisade_filter::Part;
use std::{future::poll_fn, pin::Pin};

/// How often a callback is made again whose instance went down under another request.
const TRIES: usize = 3;

/// How a wait for a filter ends.
pub(super) enum Woken {
    /// It says that the stream goes on.
    Resumed,
    /// Its instance is gone.
    Died,
}

/// Waits until a filter that holds its head lets some of the body go on, or all of it is there.
pub(super) async fn wait_for_body(
    flow: &SharedFlow,
    mut body: Body,
) -> Result<Body, (usize, Stop)> {
    let first = match body {
        Body::Empty | Body::Whole(_) => None,
        _ => poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await,
    };
    match (flow.borrow_mut().early.take(), first) {
        (Some(early), _) => Err(early),
        (None, Some(first)) => Ok(Begun::body(first, body)),
        (None, None) => Ok(body),
    }
}

/// One slot's callback for header fields, and the wait for it.
pub(super) async fn pass_headers(
    flow: &SharedFlow,
    at: usize,
    part: Part,
    end_of_stream: bool,
) -> Result<Head, Stop> {
    let met = flow.borrow_mut().show_head(at, part, end_of_stream);
    match met {
        None => Ok(Head::Passed),
        Some(met) => pass_met(flow, at, part, end_of_stream, met).await,
    }
}

/// The way on of a head that did not pass at once.
pub(super) async fn pass_met(
    flow: &SharedFlow,
    at: usize,
    part: Part,
    end_of_stream: bool,
    met: Met,
) -> Result<Head, Stop> {
    match met {
        Met::Held => Ok(Head::Held),
        Met::Stopped(stop) => Err(stop),
        Met::Paused => wait_for_headers(flow, at, part, end_of_stream, true).await,
        Met::Full => wait_for_headers(flow, at, part, end_of_stream, false).await,
    }
}

/// The same for a callback that has to be waited for: for an instance, or for what the filter does meanwhile.
async fn wait_for_headers(
    flow: &SharedFlow,
    at: usize,
    part: Part,
    end_of_stream: bool,
    mut is_paused: bool,
) -> Result<Head, Stop> {
    for _ in 0..TRIES {
        if !is_paused {
            wait_for_permit(flow, at).await;
            let step = flow.borrow_mut().call(at, part, end_of_stream);
            match step {
                Step::Continue => return Ok(Head::Passed),
                Step::HoldHead => return Ok(Head::Held),
                Step::Stop(stop) => return Err(stop),
                Step::Pause => {}
            }
        }
        let opened = flow.borrow().slots[at].opened;
        let direction = part.direction();
        match poll_fn(|context| flow.borrow().poll_resumed(at, opened, direction, context)).await {
            Woken::Resumed => {
                let local = flow.borrow_mut().local_response(at);
                return local.map_or(Ok(Head::Passed), Err);
            }
            Woken::Died => is_paused = false,
        }
    }
    match flow.borrow_mut().give_up(at, Stop::Failed) {
        Step::Stop(stop) => Err(stop),
        _ => Ok(Head::Passed),
    }
}

/// Waits until the slot's filter can have an instance, for as long as it may. Whether it can, its callback sees.
async fn wait_for_permit(flow: &SharedFlow, at: usize) {
    let Some(permits) = flow.borrow().exhausted_permits(at) else {
        return;
    };
    let permit = permits.take().await.ok();
    flow.borrow_mut().slots[at].permit = permit;
}

impl Flow {
    /// Shows the request's head to one slot after the other from this one on, as long as each lets it pass at once; else
    /// says which one did not.
    pub(super) fn show_request(
        &mut self,
        from: usize,
        end_of_stream: bool,
    ) -> Option<(usize, Met)> {
        for at in from..self.slots.len() {
            if let Some(met) = self.show_head(at, Part::RequestHeaders, end_of_stream) {
                return Some((at, met));
            }
            // The next one, and the service, see no other spelling of a path that this one has set.
            if !self.normalize_path() {
                return Some((at + 1, Met::Stopped(Stop::BadPath)));
            }
            self.passed = at + 1;
        }
        None
    }

    /// The same of the response's head, from the last slot below `end` to the first.
    pub(super) fn show_response(
        &mut self,
        end: usize,
        end_of_stream: bool,
    ) -> Option<(usize, Met)> {
        (0..end).rev().find_map(|at| {
            let met = self.show_head(at, Part::ResponseHeaders, end_of_stream);
            met.map(|met| (at, met))
        })
    }

    /// Shows a head to a slot; `None`: it has passed.
    pub(super) fn show_head(&mut self, at: usize, part: Part, end_of_stream: bool) -> Option<Met> {
        if self.exhausted_permits(at).is_some() {
            return Some(Met::Full);
        }
        self.call(at, part, end_of_stream).of_head()
    }
}

impl Step {
    /// What a head meets with that; `None`: it has passed.
    pub(super) fn of_head(self) -> Option<Met> {
        match self {
            Self::Continue => None,
            Self::HoldHead => Some(Met::Held),
            Self::Pause => Some(Met::Paused),
            Self::Stop(stop) => Some(Met::Stopped(stop)),
        }
    }
}
