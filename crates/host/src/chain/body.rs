//! A body on its way through the filters that inspect it.
//!
//! ```text
//!  inner ──▶ inspector 0 [held] ──▶ inspector 1 [held] ──▶ out
//! ```
//!
//! A filter that pauses holds what it has seen; the next piece is added, and it is asked again about the
//! whole. What is held lies at the filter's slot, so that it sees it also when it is told something else. One
//! that holds more than it may ends the exchange.

mod wrap;

pub(super) use wrap::Begun;

use super::{SharedFlow, Step, Stop, head::Woken};
use crate::body::{Body, BodyError, BrokenByFilter};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use palisade_filter::{Direction, Part};
use std::{
    mem,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::time::Sleep;

/// Pieces that are shown to filters before others on this worker get their turn.
const CALLBACKS_AT_ONCE: usize = 16;

/// A body, and the slots of the flow that inspect it.
pub(super) struct FilteredBody {
    flow: SharedFlow,
    inner: Body,
    direction: Direction,
    inspectors: Vec<Inspector>,
    /// The inner body's end was passed to the first inspector.
    has_ended: bool,
    /// Trailers on their way, and the inspector whose turn it is to see them.
    trailers: Option<(Box<HeaderMap>, usize)>,
    out: Bytes,
    /// Bytes that have passed the last inspector.
    passed_bytes: u64,
    /// All that will, where no inspector changes that.
    all_bytes: Option<u64>,
    /// What is to be said at the next look.
    broken: Option<BrokenByFilter>,
    /// All has passed the last inspector; trailers, if any, go out.
    is_through: bool,
    /// Until a filter that takes too much time may be asked again.
    rest: Option<Pin<Box<Sleep>>>,
}

/// What one slot holds of the body that it inspects.
struct Inspector {
    slot: usize,
    most_bytes: usize,
    pause: Option<Pause>,
    /// How many streams the slot had had when its filter paused.
    opened: u32,
}

/// A filter holds what it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// Some of the body; more is to come.
    Piece,
    /// The body to its end.
    End,
    /// The same, and trailers that it was not shown yet.
    BeforeTrailers,
    /// Trailers that it was shown, beside what it holds of the body.
    Trailers,
}

impl FilteredBody {
    /// The body as these slots pass it on. One that no slot inspects stays as it is, but for
    /// this: it keeps the flow until it is sent, for filters are told about the end of their streams.
    pub(super) fn wrap(
        flow: &SharedFlow,
        inner: Body,
        direction: Direction,
        slots: Range<usize>,
    ) -> Body {
        let inspectors = inspectors(flow, direction, slots.clone());
        if inspectors.is_empty() {
            return match (direction, inner) {
                (Direction::Request, inner) | (_, inner @ (Body::Empty | Body::Whole(_))) => inner,
                (Direction::Response, inner) => wrap::keep_flow(inner, flow),
            };
        }
        let may_change = flow.borrow_mut().may_change_framing(direction, slots);
        let all_bytes = match may_change {
            true => None,
            false => inner.size_hint().exact(),
        };
        let mut body = Self {
            flow: SharedFlow::clone(flow),
            inner,
            direction,
            inspectors,
            has_ended: false,
            trailers: None,
            out: Bytes::new(),
            passed_bytes: 0,
            all_bytes,
            broken: None,
            is_through: false,
            rest: None,
        };
        // What is there already is filtered at once, and its length is known then.
        if let Body::Whole(bytes) = &mut body.inner {
            let bytes = mem::take(bytes);
            body.has_ended = true;
            match body.push(0, bytes.into(), true) {
                Ok(()) if body.is_through => return Body::Whole(mem::take(&mut body.out)),
                Ok(()) => {}
                Err(broken) => body.broken = Some(broken),
            }
        }
        Body::new(body)
    }

    /// Passes a piece on, from this inspector to the end or to the one that holds it.
    fn push(
        &mut self,
        from: usize,
        mut piece: BytesMut,
        mut has_ended: bool,
    ) -> Result<(), BrokenByFilter> {
        for at in from..self.inspectors.len() {
            if piece.is_empty() && !has_ended {
                return Ok(());
            }
            if !self.ask(at, piece, has_ended)? {
                return Ok(());
            }
            (piece, has_ended) = self.let_go(at, has_ended);
        }
        self.out = piece.freeze();
        self.is_through = has_ended;
        self.passed_bytes += self.out.len() as u64;
        let mut flow = self.flow.borrow_mut();
        flow.note_passed(self.direction, self.passed_bytes);
        Ok(())
    }

    /// Asks one inspector about what it holds and this piece. Whether it lets both go.
    fn ask(&mut self, at: usize, piece: BytesMut, has_ended: bool) -> Result<bool, BrokenByFilter> {
        let (part, direction) = (body_of(self.direction), self.direction);
        let inspector = &mut self.inspectors[at];
        inspector.pause = None;
        let (slot, most_bytes) = (inspector.slot, inspector.most_bytes);
        let mut flow = self.flow.borrow_mut();
        let held = &mut flow.rest(slot, direction).body;
        match held.is_empty() {
            true => *held = piece,
            false => held.extend_from_slice(&piece),
        }
        if !flow.inspects_part(slot, part) {
            return Ok(true);
        }
        let step = flow.call(slot, part, has_ended);
        let held_bytes = flow.rest(slot, direction).body.len();
        drop(flow);
        match step {
            Step::Continue => Ok(true),
            Step::Stop(stop) => Err(self.stop(at, stop)),
            Step::Pause | Step::HoldHead if held_bytes > most_bytes => {
                Err(self.stop(at, Stop::TooLarge(direction)))
            }
            Step::Pause | Step::HoldHead => {
                self.inspectors[at].pause = Some(match has_ended {
                    true => Pause::End,
                    false => Pause::Piece,
                });
                let mut flow = self.flow.borrow_mut();
                self.inspectors[at].opened = flow.slots[slot].opened;
                // Whatever it is told while it holds this, it finds it.
                flow.hand_to(slot);
                Ok(false)
            }
        }
    }

    /// Takes what an inspector held of the body, and whether the body ends with it: not if its filter has made trailers
    /// at the end.
    fn let_go(&mut self, at: usize, has_ended: bool) -> (BytesMut, bool) {
        let mut flow = self.flow.borrow_mut();
        let rest = flow.rest(self.inspectors[at].slot, self.direction);
        let body = mem::take(&mut rest.body);
        rest.passed_bytes += body.len() as u64;
        if !has_ended {
            return (body, false);
        }
        let made = rest.trailers.take().filter(|made| !made.is_empty());
        let is_end = made.is_none();
        self.trailers = made.map(|made| (made, at + 1));
        (body, is_end)
    }

    /// Shows trailers to this inspector and those after it.
    fn push_trailers(
        &mut self,
        from: usize,
        mut trailers: Box<HeaderMap>,
    ) -> Result<(), BrokenByFilter> {
        for at in from..self.inspectors.len() {
            let Some(ended) = self.end_body(at, trailers)? else {
                return Ok(());
            };
            let Some(seen) = self.ask_trailers(at, ended)? else {
                return Ok(());
            };
            trailers = seen;
            // What it held of the body goes before them.
            let (held, _) = self.let_go(at, false);
            if !held.is_empty() {
                self.trailers = Some((trailers, at + 1));
                return self.push(at + 1, held, false);
            }
        }
        self.trailers = Some((trailers, self.inspectors.len()));
        self.is_through = true;
        Ok(())
    }

    /// Tells an inspector that holds some of the body that no more comes, for trailers say so to nobody who does not look
    /// at them. `None`: it still holds the body, and the trailers wait.
    fn end_body(
        &mut self,
        at: usize,
        trailers: Box<HeaderMap>,
    ) -> Result<Option<Box<HeaderMap>>, BrokenByFilter> {
        if self.inspectors[at].pause != Some(Pause::Piece) {
            return Ok(Some(trailers));
        }
        let (slot, direction) = (self.inspectors[at].slot, self.direction);
        self.flow.borrow_mut().rest(slot, direction).trailers = Some(trailers);
        if !self.ask(at, BytesMut::new(), true)? {
            self.inspectors[at].pause = Some(Pause::BeforeTrailers);
            return Ok(None);
        }
        Ok(Some(self.take_trailers(at)))
    }

    /// Takes trailers that an inspector had: none, if its filter has emptied them.
    fn take_trailers(&mut self, at: usize) -> Box<HeaderMap> {
        let mut flow = self.flow.borrow_mut();
        let rest = flow.rest(self.inspectors[at].slot, self.direction);
        rest.trailers.take().unwrap_or_default()
    }

    /// Asks one inspector about trailers. `None`: it holds them.
    fn ask_trailers(
        &mut self,
        at: usize,
        trailers: Box<HeaderMap>,
    ) -> Result<Option<Box<HeaderMap>>, BrokenByFilter> {
        let (part, direction) = (trailers_of(self.direction), self.direction);
        self.inspectors[at].pause = None;
        let slot = self.inspectors[at].slot;
        let mut flow = self.flow.borrow_mut();
        if !flow.inspects_part(slot, part) {
            return Ok(Some(trailers));
        }
        flow.rest(slot, direction).trailers = Some(trailers);
        let step = flow.call(slot, part, true);
        match step {
            Step::Continue => {
                let seen = flow.rest(slot, direction).trailers.take();
                Ok(Some(seen.unwrap_or_default()))
            }
            Step::Stop(stop) => {
                drop(flow);
                Err(self.stop(at, stop))
            }
            Step::Pause | Step::HoldHead => {
                self.inspectors[at].pause = Some(Pause::Trailers);
                self.inspectors[at].opened = flow.slots[slot].opened;
                flow.hand_to(slot);
                Ok(None)
            }
        }
    }

    fn stop(&mut self, at: usize, stop: Stop) -> BrokenByFilter {
        let broken = match stop {
            Stop::Failed | Stop::Busy | Stop::BadPath => BrokenByFilter::Failed,
            Stop::Local(_) => BrokenByFilter::Answered,
            Stop::Reset => BrokenByFilter::Reset,
            Stop::TooLarge(_) => BrokenByFilter::TooLarge,
        };
        let mut flow = self.flow.borrow_mut();
        let slot = self.inspectors[at].slot;
        if let Stop::TooLarge(Direction::Response) = stop {
            // A client can send what it likes; a filter of responses should know its service.
            flow.slots[slot].filter.metrics.errors.add(1);
        }
        flow.early = Some((slot, stop));
        broken
    }

    /// Lets an inspector go on whose filter says so. Whether one did.
    fn resume(&mut self, context: &mut Context<'_>) -> Result<bool, BrokenByFilter> {
        for at in 0..self.inspectors.len() {
            let Some(pause) = self.inspectors[at].pause else {
                continue;
            };
            let Inspector { slot, opened, .. } = self.inspectors[at];
            let flow = self.flow.borrow();
            let polled = flow.poll_resumed(slot, opened, self.direction, context);
            drop(flow);
            match polled {
                Poll::Pending => continue,
                Poll::Ready(Woken::Died) => self.ask_again(at, pause)?,
                Poll::Ready(Woken::Resumed) => self.release(at, pause)?,
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Asks an inspector once more about what it holds, in another instance.
    fn ask_again(&mut self, at: usize, pause: Pause) -> Result<(), BrokenByFilter> {
        self.inspectors[at].pause = match pause {
            // It is told anew that the body has ended.
            Pause::BeforeTrailers => Some(Pause::Piece),
            _ => None,
        };
        if let Pause::BeforeTrailers | Pause::Trailers = pause {
            let trailers = self.take_trailers(at);
            return self.push_trailers(at, trailers);
        }
        let mut flow = self.flow.borrow_mut();
        let rest = flow.rest(self.inspectors[at].slot, self.direction);
        let held = mem::take(&mut rest.body);
        drop(flow);
        self.push(at, held, pause == Pause::End)
    }

    fn release(&mut self, at: usize, pause: Pause) -> Result<(), BrokenByFilter> {
        let slot = self.inspectors[at].slot;
        let stop = self.flow.borrow_mut().local_response(slot);
        if let Some(stop) = stop {
            return Err(self.stop(at, stop));
        }
        self.inspectors[at].pause = None;
        match pause {
            Pause::Piece | Pause::End => {}
            Pause::BeforeTrailers => self.trailers = Some((self.take_trailers(at), at)),
            Pause::Trailers => self.trailers = Some((self.take_trailers(at), at + 1)),
        }
        let (held, is_end) = self.let_go(at, pause == Pause::End);
        self.push(at + 1, held, is_end)
    }

    /// Trailers go on. Whether there were any.
    fn advance_trailers(&mut self) -> Result<bool, BrokenByFilter> {
        match self.trailers.take() {
            Some((trailers, at)) => self.push_trailers(at, trailers).map(|()| true),
            None => Ok(false),
        }
    }

    /// Takes what the inner body has. Whether it had anything.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(frame) => frame.transpose()?,
        };
        let Some(frame) = frame else {
            self.has_ended = true;
            return Poll::Ready(self.push(0, BytesMut::new(), true).map_err(Into::into));
        };
        let pushed = match frame.into_data() {
            Ok(data) => {
                self.has_ended = self.inner.is_end_stream();
                self.push(0, data.into(), self.has_ended)
            }
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) => {
                    self.has_ended = true;
                    self.push_trailers(0, Box::new(trailers))
                }
                Err(_) => Ok(()),
            },
        };
        Poll::Ready(pushed.map_err(Into::into))
    }
}

impl FilteredBody {
    /// Waits while one of the filters is to be left alone.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(rest) = &mut self.rest {
                ready!(rest.as_mut().poll(context));
                self.rest = None;
            }
            let flow = self.flow.borrow();
            let filters = self.inspectors.iter();
            let filters = filters.map(|inspector| &flow.slots[inspector.slot].filter);
            let Some(longest) = filters.filter_map(|filter| filter.pace.wait()).max() else {
                return Poll::Ready(());
            };
            drop(flow);
            self.rest = Some(Box::pin(tokio::time::sleep(longest)));
        }
    }
}

impl HttpBody for FilteredBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Some(broken) = this.broken.take() {
            return Poll::Ready(Some(Err(broken.into())));
        }
        for _ in 0..CALLBACKS_AT_ONCE {
            if !this.out.is_empty() {
                let out = mem::take(&mut this.out);
                return Poll::Ready(Some(Ok(Frame::data(out))));
            }
            if this.is_through {
                let trailers = this.trailers.take();
                return Poll::Ready(trailers.map(|(trailers, _)| Ok(Frame::trailers(*trailers))));
            }
            match this
                .resume(context)
                .and_then(|resumed| Ok(resumed || this.advance_trailers()?))
            {
                Err(broken) => return Poll::Ready(Some(Err(broken.into()))),
                Ok(true) => continue,
                Ok(false) if this.has_ended => return Poll::Pending,
                Ok(false) => {}
            }
            if this.poll_rest(context).is_pending() {
                return Poll::Pending;
            }
            match this.read(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Ok(())) => {}
            }
        }
        // Others get their turn: each callback may take all its time.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.is_through && self.out.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = |all: u64| (all + self.out.len() as u64).saturating_sub(self.passed_bytes);
        match self.all_bytes {
            Some(all) => SizeHint::with_exact(left(all)),
            None => SizeHint::default(),
        }
    }
}

fn inspectors(flow: &SharedFlow, direction: Direction, slots: Range<usize>) -> Vec<Inspector> {
    let flow = flow.borrow();
    if !flow.inspects.bodies[direction as usize] {
        return Vec::new();
    }
    let looks = |at: &usize| {
        flow.inspects_part(*at, body_of(direction))
            || flow.inspects_part(*at, trailers_of(direction))
    };
    let inspector = |slot: usize| Inspector {
        slot,
        most_bytes: flow.slots[slot].filter.loaded.body_bytes,
        pause: None,
        opened: 0,
    };
    match direction {
        Direction::Request => slots.filter(looks).map(inspector).collect(),
        Direction::Response => slots.rev().filter(looks).map(inspector).collect(),
    }
}

pub(super) fn body_of(direction: Direction) -> Part {
    match direction {
        Direction::Request => Part::RequestBody,
        Direction::Response => Part::ResponseBody,
    }
}

fn trailers_of(direction: Direction) -> Part {
    match direction {
        Direction::Request => Part::RequestTrailers,
        Direction::Response => Part::ResponseTrailers,
    }
}
