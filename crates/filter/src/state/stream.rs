//! One exchange in an instance, and what its guest may do with it now.

use crate::{Action, Direction, Exchange, LocalResponse, Part, parts::Parts};
use std::task::{Poll, Waker};

/// How far a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The guest does not know it yet.
    New,
    /// It is at work.
    Created,
    /// It is over, and the guest said that it has to do with it still.
    Unfinished,
    /// It is over, and the guest said meanwhile that it is done.
    Finished,
}

pub(crate) struct Stream {
    pub(crate) context: u32,
    pub(crate) life: Life,
    pub(crate) exchange: Option<Box<Exchange>>,
    pub(super) changeable: Parts,
    resumed: [bool; 2],
    wakers: [Option<Waker>; 2],
    /// One that was sent while the exchange was elsewhere.
    local_response: Option<Box<LocalResponse>>,
    pub(crate) is_closed: bool,
    /// Bytes that the guest has set of each map.
    pub(super) written: [usize; 4],
}

impl Stream {
    pub(super) fn new(context: u32, exchange: Option<Box<Exchange>>) -> Self {
        Self {
            context,
            life: Life::New,
            exchange,
            changeable: Parts::default(),
            resumed: [false; 2],
            wakers: [None, None],
            local_response: None,
            is_closed: false,
            written: [0; 4],
        }
    }

    pub(crate) fn put(&mut self, mut exchange: Box<Exchange>) {
        if let Some(response) = self.local_response.take() {
            exchange.local_response = Some(response);
        }
        self.exchange = Some(exchange);
    }

    /// Gives the exchange back and keeps a copy of the heads for the log.
    pub(crate) fn leave_unfinished(&mut self) -> Option<Box<Exchange>> {
        self.life = Life::Unfinished;
        self.changeable = Parts::default();
        let exchange = self.exchange.take()?;
        self.exchange = Some(Box::new(exchange.heads()));
        Some(exchange)
    }

    /// A callback of a part begins.
    pub(crate) fn begin(&mut self, part: Part, changeable: Parts) {
        self.changeable = self.changeable.and(changeable);
        self.resumed[part.direction() as usize] = false;
    }

    /// It is over, and wants this.
    pub(crate) fn end(&mut self, part: Part, action: Action) {
        if action == Action::Continue {
            let passed = Parts::in_direction(part.direction());
            self.changeable = self.changeable.without(passed);
        }
    }

    /// A head has passed that was held while its body came, and is out of the guest's reach with that.
    pub(crate) fn pass_head(&mut self, direction: Direction) {
        let head = match direction {
            Direction::Request => Part::RequestHeaders,
            Direction::Response => Part::ResponseHeaders,
        };
        self.changeable = self.changeable.without(Parts::of(head));
    }

    /// What was paused goes on, and is out of the guest's reach with that.
    pub(crate) fn resume(&mut self, direction: Direction) {
        let passed = Parts::in_direction(direction);
        self.changeable = self.changeable.without(passed);
        self.resumed[direction as usize] = true;
        if let Some(waker) = self.wakers[direction as usize].take() {
            waker.wake();
        }
    }

    pub(crate) fn poll_resumed(&mut self, direction: Direction, waker: &Waker) -> Poll<()> {
        let direction = direction as usize;
        if std::mem::take(&mut self.resumed[direction]) {
            self.wakers[direction] = None;
            return Poll::Ready(());
        }
        match &mut self.wakers[direction] {
            Some(present) => present.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Poll::Pending
    }

    /// Responds in place of the service; nothing of the exchange is inspected any more.
    pub(crate) fn respond(&mut self, response: LocalResponse) {
        let response = Box::new(response);
        match &mut self.exchange {
            Some(exchange) => exchange.local_response = Some(response),
            None => self.local_response = Some(response),
        }
        self.resume(Direction::Request);
        self.resume(Direction::Response);
    }

    pub(crate) fn has_responded(&self) -> bool {
        let exchange = self.exchange.as_deref();
        self.is_closed || exchange.is_some_and(|exchange| exchange.local_response.is_some())
    }

    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.resume(Direction::Request);
        self.resume(Direction::Response);
    }
}
