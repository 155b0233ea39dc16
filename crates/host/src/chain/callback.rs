//! One callback of one filter: its instance, what comes of the call, and what becomes of a filter that fails.

use super::{Flow, Step, Stop, head::Woken};
use crate::{config::OnFailure, filters::FilterInstance};
use palisade_engine::permits::Permits;
use palisade_filter::{Action, Direction, Fault, Part};
use std::{
    rc::Rc,
    task::{Context, Poll},
};

impl Flow {
    /// Makes one callback.
    pub(super) fn call(&mut self, at: usize, part: Part, end_of_stream: bool) -> Step {
        if self.slots[at].is_passed_by {
            return Step::Continue;
        }
        if let Err(stop) = self.open(at, part) {
            return self.give_up(at, stop);
        }
        self.hand_to(at);
        let Some((instance, stream)) = &self.slots[at].stream else {
            return self.give_up(at, Stop::Failed);
        };
        let called = instance.call(&self.me, *stream, part, end_of_stream);
        self.step(at, called, end_of_stream)
    }

    /// What comes of a callback that was made.
    pub(super) fn step(
        &mut self,
        at: usize,
        called: Result<Action, Fault>,
        end_of_stream: bool,
    ) -> Step {
        let action = match called {
            Ok(Action::Continue) => return Step::Continue,
            Ok(action) => action,
            Err(_) => return self.give_up(at, Stop::Failed),
        };
        if let Some(stop) = self.local_response(at) {
            return Step::Stop(stop);
        }
        match action {
            Action::HoldHead if !end_of_stream => Step::HoldHead,
            _ => Step::Pause,
        }
    }

    /// Sees to it that the slot has a stream in an instance that lives. A filter that had seen the head of this
    /// request in one that is gone is shown it again, for what it notes of it. Of a head that has passed, which others have
    /// seen and whose path is looked at no more, it changes nothing.
    pub(super) fn open(&mut self, at: usize, part: Part) -> Result<(), Stop> {
        let died = match &self.slots[at].stream {
            Some((instance, _)) if instance.is_alive() => return Ok(()),
            Some(_) => true,
            None => false,
        };
        self.take_back();
        let slot = &mut self.slots[at];
        slot.leave_instance();
        let code = slot.code.as_ref().ok_or(Stop::Failed)?;
        let instance = slot.filter.instance(code, slot.permit.take())?;
        let Some(mut exchange) = self.exchange.take() else {
            return Err(Stop::Failed);
        };
        slot.swap_own(&mut exchange);
        let has_seen_head = died && part != Part::RequestHeaders;
        let has_passed = has_seen_head && at < self.passed;
        let head = has_passed.then(|| (exchange.request.clone(), exchange.is_request_changed));
        let stream = instance.open(exchange);
        slot.opened += 1;
        self.holder = Some(at);
        slot.stream = Some((Rc::clone(&instance), stream));
        if !has_seen_head {
            return Ok(());
        }
        let shown = instance.call(&self.me, stream, Part::RequestHeaders, false);
        if let Some((request, is_request_changed)) = head {
            instance.pass_head(stream, Direction::Request);
            self.look(|exchange| {
                exchange.request = request;
                exchange.is_request_changed = is_request_changed;
            });
        }
        shown.map(drop).map_err(|_| Stop::Failed)
    }

    /// A head that the slot has held goes on: its filter changes it no more. What it responds with instead, if it does.
    pub(super) fn release_head(&mut self, at: usize, direction: Direction) -> Option<Stop> {
        let stop = self.local_response(at);
        self.seal_head(at, direction);
        stop
    }

    /// No filter changes a head any more: it goes out.
    pub(super) fn seal_heads(&mut self) {
        for at in 0..self.slots.len() {
            self.seal_head(at, Direction::Request);
            self.seal_head(at, Direction::Response);
        }
    }

    fn seal_head(&self, at: usize, direction: Direction) {
        if let Some((instance, stream)) = &self.slots[at].stream {
            instance.pass_head(*stream, direction);
        }
    }

    /// Where the slot's filter has no room for an instance of this request's.
    pub(super) fn exhausted_permits(&self, at: usize) -> Option<Rc<Permits>> {
        let slot = &self.slots[at];
        let is_there = |(instance, _): &(Rc<FilterInstance>, _)| instance.is_alive();
        if slot.is_passed_by || slot.stream.as_ref().is_some_and(is_there) {
            return None;
        }
        slot.filter.exhausted_permits()
    }

    /// The slot's filter failed over this request. `stop`: what becomes of one that must not go without it.
    pub(super) fn give_up(&mut self, at: usize, stop: Stop) -> Step {
        self.take_back();
        let slot = &mut self.slots[at];
        slot.leave_instance();
        // What it holds goes on without it; what it had to say does not.
        if let Some(own) = &mut slot.own {
            own.local_response = None;
        }
        slot.filter.metrics.errors.add(1);
        match slot.filter.loaded.on_failure {
            OnFailure::Close => Step::Stop(stop),
            OnFailure::Open => {
                slot.is_passed_by = true;
                Step::Continue
            }
        }
    }

    /// What the slot's filter responds with, if it does.
    pub(super) fn local_response(&mut self, at: usize) -> Option<Stop> {
        self.hand_to(at);
        let (instance, stream) = self.slots[at].stream.as_ref()?;
        if instance.is_closed(*stream) {
            return Some(Stop::Reset);
        }
        instance.local_response(*stream).map(Stop::Local)
    }

    /// Whether the slot's filter lets the stream go on that was the last of so many `opened`.
    pub(super) fn poll_resumed(
        &self,
        at: usize,
        opened: u32,
        direction: Direction,
        context: &mut Context<'_>,
    ) -> Poll<Woken> {
        let slot = &self.slots[at];
        match &slot.stream {
            None => Poll::Ready(Woken::Died),
            Some(_) if slot.opened != opened => Poll::Ready(Woken::Died),
            Some((instance, _)) if !instance.is_alive() => Poll::Ready(Woken::Died),
            Some((instance, stream)) => instance
                .poll_resumed(*stream, direction, context)
                .map(|()| Woken::Resumed),
        }
    }
}
