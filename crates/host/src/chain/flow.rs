//! Where the exchange of a request lies, and what its filters inspect of it.

use super::{Codes, Flow, Inspects, Own, SharedFlow, Slot, body::body_of, empty_exchange};
use crate::{
    body::Body,
    filters::{FilterHandle, FilterInstance, HandOver},
    path::{self, Ambiguities},
};
use http::{
    HeaderValue,
    header::{CONTENT_LENGTH, TRAILER},
    request,
};
use palisade_filter::{Direction, Exchange, Filter, Message, Part, StreamId};
use std::{
    cell::RefCell,
    mem,
    ops::Range,
    rc::{Rc, Weak},
};

impl Flow {
    /// A request that no filter has seen yet.
    pub(crate) fn new(
        filters: &[Rc<FilterHandle>],
        codes: Codes,
        inspects: Inspects,
        ambiguous_paths: Ambiguities,
        exchange: Option<Box<Exchange>>,
    ) -> SharedFlow {
        let slot = |(filter, code): (&Rc<FilterHandle>, Option<Filter>)| Slot {
            filter: Rc::clone(filter),
            stream: None,
            opened: 0,
            permit: None,
            is_passed_by: code.is_none(),
            code,
            own: None,
        };
        Rc::new_cyclic(|me: &Weak<RefCell<Self>>| {
            let me: Weak<RefCell<Self>> = Weak::clone(me);
            RefCell::new(Self {
                inspects,
                ambiguous_paths,
                slots: filters.iter().zip(codes).map(slot).collect(),
                exchange,
                holder: None,
                passed: 0,
                early: None,
                has_body_to_come: false,
                whole_bytes: [None; 2],
                me,
            })
        })
    }

    /// The exchange, taken back from whoever has it.
    pub(super) fn exchange(&mut self) -> &mut Exchange {
        self.take_back();
        // Nobody but a flow's own methods takes it, and each puts it back.
        self.exchange
            .get_or_insert_with(|| Box::new(empty_exchange()))
    }

    /// Inspects at the exchange where it lies: to take it back and hand it over again costs as much as a callback. What is
    /// one filter's own is not among what is seen.
    pub(super) fn look<T>(&mut self, look: impl FnOnce(&mut Exchange) -> T) -> T {
        if let Some(at) = self.holder
            && let Slot {
                stream: Some((instance, stream)),
                own: None,
                ..
            } = &self.slots[at]
            && let Some(mut exchange) = instance.exchange(*stream)
        {
            return look(&mut exchange);
        }
        look(self.exchange())
    }

    /// Brings the path into the one form, where a filter may have set it. Whether it has one.
    pub(super) fn normalize_path(&mut self) -> bool {
        let taken = self.ambiguous_paths;
        self.look(|exchange| is_normal(exchange, taken))
    }

    /// The request's head, for a service that looks at it and does not wait.
    pub(crate) fn look_at_request<T>(&mut self, look: impl FnOnce(&request::Parts) -> T) -> T {
        self.look(|exchange| look(&exchange.request))
    }

    /// The request's head, for a service that keeps it.
    pub(crate) fn copy_request(&mut self) -> request::Parts {
        self.exchange().request.clone()
    }

    /// What the slot holds of a direction.
    pub(super) fn rest(&mut self, at: usize, direction: Direction) -> &mut Message {
        self.take_back();
        let own = self.slots[at].own.get_or_insert_default();
        own.rests[direction as usize].get_or_insert_default()
    }

    /// Bytes of a body that all filters have let go: for those that do not look at it.
    pub(super) fn note_passed(&mut self, direction: Direction, bytes: u64) {
        self.look(|exchange| {
            let rest = match direction {
                Direction::Request => &mut exchange.request_rest,
                Direction::Response => &mut exchange.response_rest,
            };
            rest.passed_bytes = bytes;
        });
    }

    #[inline]
    pub(super) fn take_back(&mut self) {
        if let Some(at) = self.holder.take() {
            self.take_from(at);
        }
    }

    pub(super) fn take_from(&mut self, at: usize) {
        if let Some((instance, stream)) = &self.slots[at].stream {
            self.exchange = instance.take(*stream);
            if let Some(exchange) = &mut self.exchange {
                self.slots[at].swap_own(exchange);
            }
        }
    }

    #[inline]
    pub(super) fn hand_to(&mut self, at: usize) {
        if self.holder != Some(at) {
            self.hand_over(at);
        }
    }

    pub(super) fn hand_over(&mut self, at: usize) {
        self.take_back();
        let slot = &mut self.slots[at];
        if slot.stream.is_none() {
            return;
        }
        if let Some(mut exchange) = self.exchange.take() {
            slot.swap_own(&mut exchange);
            match slot.put(exchange) {
                Ok(()) => self.holder = Some(at),
                Err(mut exchange) => {
                    slot.swap_own(&mut exchange);
                    self.exchange = Some(exchange);
                }
            }
        }
    }

    /// Whether one of these filters inspects the body.
    pub(super) fn inspects_body(&self, direction: Direction, mut slots: Range<usize>) -> bool {
        let part = body_of(direction);
        self.inspects.bodies[direction as usize] && slots.any(|at| self.inspects_part(at, part))
    }

    /// Whether one of these filters may make the body longer or shorter.
    pub(super) fn may_change_length(&self, direction: Direction, mut slots: Range<usize>) -> bool {
        self.inspects.bodies[direction as usize] && slots.any(|at| self.changes_body(at, direction))
    }

    /// The same, or may have trailers follow it, which only chunks have room for.
    pub(super) fn may_change_framing(&mut self, direction: Direction, slots: Range<usize>) -> bool {
        let has_trailers = |exchange: &mut Exchange| {
            let response = exchange.response.as_ref();
            response.is_some_and(|response| response.headers.contains_key(TRAILER))
        };
        self.may_change_length(direction, slots)
            || direction == Direction::Response && self.look(has_trailers)
    }

    pub(super) fn changes_body(&self, at: usize, direction: Direction) -> bool {
        let code = self.slots[at].code.as_ref();
        self.inspects_part(at, body_of(direction)) && code.is_some_and(Filter::changes_bodies)
    }

    /// The length of the response that its head tells, if filters inspect its body.
    pub(super) fn told_length(&mut self) -> Option<HeaderValue> {
        if !self.inspects.bodies[Direction::Response as usize] {
            return None;
        }
        let response = self.exchange().response.as_ref()?;
        response.headers.get(CONTENT_LENGTH).cloned()
    }

    /// Has a body held whole whose length was told and is not known any more, if there is room for it.
    pub(super) fn hold_whole(
        &mut self,
        direction: Direction,
        told: Option<HeaderValue>,
        body: &Body,
    ) {
        let told = told.and_then(|told| told.to_str().ok()?.parse::<usize>().ok());
        let (Some(told), Body::Other(_)) = (told, body) else {
            return;
        };
        let changing = (0..self.slots.len()).filter(|at| self.changes_body(*at, direction));
        let bounds = changing.map(|at| self.slots[at].filter.loaded.body_bytes);
        let most_bytes = bounds.min().filter(|most_bytes| told <= *most_bytes);
        self.whole_bytes[direction as usize] = most_bytes;
    }

    /// Whether the slot's filter inspects this part.
    pub(super) fn inspects_part(&self, at: usize, part: Part) -> bool {
        let slot = &self.slots[at];
        !slot.is_passed_by && slot.code.as_ref().is_some_and(|code| code.inspects(part))
    }

    /// Closes its filters' streams.
    pub(super) fn close(&mut self) {
        for at in (0..self.slots.len()).rev() {
            if self.slots[at].stream.is_none() {
                continue;
            }
            let code = self.slots[at].code.as_ref();
            if code.is_some_and(Filter::hears_of_ends) {
                self.hand_to(at);
            }
            let Some((instance, stream)) = self.slots[at].stream.take() else {
                continue;
            };
            if let Some(mut exchange) = instance.close(stream) {
                self.slots[at].swap_own(&mut exchange);
                self.exchange = Some(exchange);
                self.holder = None;
            }
            instance.release();
        }
    }
}

/// Brings a path that a filter may have set into its one form. Whether it has one: where not, the next look says so again.
#[inline]
pub(super) fn is_normal(exchange: &mut Exchange, taken: Ambiguities) -> bool {
    !exchange.is_request_changed || normalize(exchange, taken)
}

fn normalize(exchange: &mut Exchange, taken: Ambiguities) -> bool {
    let request = &mut exchange.request;
    match path::normalize(&request.uri) {
        Ok(None) => {}
        Ok(Some(uri)) => request.uri = uri,
        Err(_) => return false,
    }
    let is_normal = Ambiguities::of(request.uri.path()).is_within(taken);
    exchange.is_request_changed = !is_normal;
    is_normal
}

impl HandOver for RefCell<Flow> {
    fn hand_over(&self, instance: &Rc<FilterInstance>, stream: StreamId) {
        let is_that = |slot: &Slot| matches!(&slot.stream, Some((at, id)) if Rc::ptr_eq(at, instance) && *id == stream);
        let mut flow = self.borrow_mut();
        if let Some(at) = flow.slots.iter().position(is_that) {
            flow.hand_to(at);
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.close();
    }
}

impl Slot {
    /// Puts what is the filter's own into an exchange that it is handed, and takes it out of one that it had.
    pub(super) fn swap_own(&mut self, exchange: &mut Exchange) {
        if exchange.local_response.is_some() {
            self.own.get_or_insert_default();
        }
        if let Some(own) = &mut self.own {
            own.swap(exchange);
        }
    }

    /// It has no stream any more.
    pub(super) fn leave_instance(&mut self) {
        if let Some((instance, _)) = self.stream.take() {
            instance.release();
        }
    }

    /// Puts an exchange into its stream; gives it back where there is none.
    pub(super) fn put(&self, exchange: Box<Exchange>) -> Result<(), Box<Exchange>> {
        match &self.stream {
            Some((instance, stream)) => instance.put(*stream, exchange),
            None => Err(exchange),
        }
    }
}

impl Own {
    pub(super) fn swap(&mut self, exchange: &mut Exchange) {
        let [request, response] = &mut self.rests;
        if let Some(rest) = request {
            mem::swap(rest, &mut exchange.request_rest);
        }
        if let Some(rest) = response {
            mem::swap(rest, &mut exchange.response_rest);
        }
        mem::swap(&mut self.local_response, &mut exchange.local_response);
    }
}
