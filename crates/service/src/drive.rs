//! Driving a guest: by whoever waits for its response, within its time.

use crate::{
    Fault,
    code::{Code, World},
    host::{Done, Errand},
    limits::TimeUp,
    request_body::Wait,
    shared::Shared,
    state::{State, take_apart},
};
use http::Response;
use palisade_engine::{permits::Permit, service::Timer};
use std::{
    future::poll_fn,
    mem,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Sleep;
use wasmtime::Store;
use wasmtime_wasi::I32Exit;
use wasmtime_wasi_http::WasiBody;

/// The head of a response, with its body to come.
pub(crate) type Head = Result<Response<WasiBody>, Fault>;
/// A guest's run to its end.
pub(crate) type Run = Pin<Box<dyn Future<Output = End>>>;

/// How a guest ended.
#[derive(Default)]
pub(crate) struct End {
    /// It did not end by itself.
    pub(crate) fault: Option<Fault>,
    /// It ended itself with this code.
    pub(crate) exit: Option<i32>,
    /// What the host held for it: the other half of a body that it has not finished.
    pub(crate) left: Option<State>,
}

impl End {
    /// Of a guest that ran in this store.
    pub(crate) fn of(result: wasmtime::Result<()>, store: Store<State>) -> Self {
        let exit = match &result {
            Ok(()) => None,
            Err(error) => match error.downcast_ref() {
                Some(I32Exit(code)) => Some(*code),
                None => return Self::failed(error),
            },
        };
        Self {
            exit,
            left: Some(take_apart(store)),
            fault: None,
        }
    }

    pub(crate) fn failed(error: &wasmtime::Error) -> Self {
        Self {
            fault: Some(Fault::of(error)),
            ..Self::default()
        }
    }
}

/// How long a guest may go on once nobody waits for its response: it takes the permit of one who could answer.
const ERRAND_TIME: Duration = Duration::from_secs(60);

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A guest under way.
pub(crate) struct Drive {
    run: Option<Run>,
    /// Of the instance, and so for as long as that.
    permit: Option<Permit>,
    end: Option<End>,
    shared: Rc<Shared>,
    timer: Rc<Timer>,
    /// What waits for the guest is asked each time: of WASI 0.2, that is.
    asks_always: bool,
    /// By the worker's clock: when its time is up.
    wall_ns: u64,
    /// When it began, if there is a limit to its time.
    begin_ns: u64,
    /// When it ran last.
    last_ns: u64,
    /// For the rest of its request.
    body_wait: Option<Rc<Wait>>,
    /// Since when its client has a part of the response and does not ask for another.
    taking_since_ns: Option<u64>,
    /// For its client to take parts of the response.
    taking_ns: u64,
    sleep: Option<Pin<Box<Sleep>>>,
    /// What it waits for before it runs again.
    turn: Option<Errand>,
    /// It ran until others were to have their turn.
    has_yielded: bool,
    used_ns: u64,
    most_ns: u64,
    fault: Option<Fault>,
}

impl Drive {
    pub(crate) fn new(
        run: Run,
        shared: Rc<Shared>,
        code: &Code,
        permit: Permit,
        body_wait: Option<Rc<Wait>>,
    ) -> Self {
        let reach = &shared.settings.reach;
        let (begin_ns, wall_ns) = reach.time.map_or((0, u64::MAX), |time| {
            let now_ns = shared.until.now_ns();
            (now_ns, now_ns.saturating_add(nanos(time)))
        });
        Self {
            run: Some(run),
            permit: Some(permit),
            end: None,
            wall_ns,
            begin_ns,
            last_ns: begin_ns,
            body_wait,
            taking_since_ns: None,
            taking_ns: 0,
            sleep: None,
            turn: None,
            has_yielded: false,
            used_ns: 0,
            most_ns: nanos(reach.cpu_time),
            fault: None,
            timer: shared.timer(code),
            asks_always: code.world() == World::Preview2,
            shared,
        }
    }

    /// Lets the guest run on. `Ready` once it has ended.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.run.is_none() {
            return Poll::Ready(());
        }
        if let Some(since_ns) = self.taking_since_ns.take() {
            let now_ns = self.shared.until.now_ns();
            self.taking_ns += now_ns.saturating_sub(since_ns);
        }
        match self.poll_turn(context) {
            Poll::Ready(had_turn) => self.poll_run(had_turn, context),
            Poll::Pending => self.poll_time(context),
        }
    }

    /// Ready when it may run. `true`: it has waited for that.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        if self.turn.is_none() {
            self.turn = self.shared.host.turn(mem::take(&mut self.has_yielded));
        }
        let Some(turn) = &mut self.turn else {
            return Poll::Ready(false);
        };
        let polled = turn.as_mut().poll(context);
        if polled.is_ready() {
            self.turn = None;
        }
        polled.map(|()| true)
    }

    fn poll_run(&mut self, had_turn: bool, context: &mut Context<'_>) -> Poll<()> {
        let Some(run) = &mut self.run else {
            return Poll::Ready(());
        };
        let shared = &self.shared;
        let start_ns = shared.until.now_ns();
        let left_ns = self.most_ns.saturating_sub(self.used_ns);
        shared
            .until
            .set(self.wall_ns, start_ns.saturating_add(left_ns));
        let ticking = self.timer.start();
        // All that a guest of WASI 0.2 waits for is asked each time; a task of 0.3 only when it was woken.
        let wait = self.body_wait.as_deref();
        let wait = wait.filter(|_| self.asks_always);
        if let Some(wait) = wait {
            wait.forget_asked();
        }
        let polled = run.as_mut().poll(context);
        if let Some(wait) = wait {
            wait.end_unless_asked();
        }
        drop(ticking);
        self.has_yielded = shared.until.take_yielded();
        self.last_ns = shared.until.now_ns();
        let ran_ns = self.last_ns.saturating_sub(start_ns);
        self.used_ns += ran_ns;
        shared.host.ran(ran_ns, had_turn);
        match polled {
            Poll::Ready(end) => {
                self.end(end);
                Poll::Ready(())
            }
            Poll::Pending => self.poll_time(context),
        }
    }

    /// A guest that waits is ended by the clock; one that computes, by the engine.
    fn poll_time(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.wall_ns == u64::MAX {
            return Poll::Pending;
        }
        let at = self.shared.until.instant(self.wall_ns);
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
        if sleep.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.end(End {
            fault: Some(Fault::Time(TimeUp::Wall.to_string())),
            ..End::default()
        });
        Poll::Ready(())
    }

    fn end(&mut self, end: End) {
        self.run = None;
        self.turn = None;
        self.permit = None;
        self.sleep = None;
        if let Some(fault) = end.fault.clone() {
            self.fail(self.blame(fault));
        }
        self.end = Some(end);
    }

    /// Whose fault it is that time was up: a guest is not to be left alone because its clients are slow.
    fn blame(&self, fault: Fault) -> Fault {
        if !matches!(fault, Fault::Time(_)) {
            return fault;
        }
        let body_wait = self.body_wait.as_ref().map(|wait| wait.total());
        let waited_ns = nanos(body_wait.unwrap_or_default()) + self.taking_ns;
        let whole_ns = self.shared.until.now_ns().saturating_sub(self.begin_ns);
        match waited_ns > whole_ns / 2 {
            true => Fault::Client,
            false => fault,
        }
    }

    /// A part of the response is handed out: the guest runs again when the client wants another.
    pub(crate) fn is_taken_from(&mut self) {
        self.taking_since_ns = Some(self.last_ns);
    }

    /// The first fault counts, and is told at once. Gives that.
    pub(crate) fn fail(&mut self, fault: Fault) -> &Fault {
        let shared = &self.shared;
        self.fault.get_or_insert_with(|| {
            shared.log(&fault);
            fault
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// The code that it ended itself with, if it did.
    pub(crate) fn exit(&self) -> Option<i32> {
        self.end.as_ref()?.exit
    }

    /// Why it failed, if it did.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Nobody waits for the guest any more, and it may go on: within its time and [`ERRAND_TIME`], by a task of
    /// its own.
    pub(crate) fn rest(mut self) {
        if self.has_ended() {
            return;
        }
        let most_ns = nanos(ERRAND_TIME);
        self.wall_ns = self
            .wall_ns
            .min(self.shared.until.now_ns().saturating_add(most_ns));
        self.sleep = None;
        let host = Rc::clone(&self.shared.host);
        host.spawn(Box::pin(async move {
            poll_fn(|context| self.poll(context)).await;
        }));
    }
}

impl Drop for Drive {
    /// Whatever became of the request, it is counted once.
    fn drop(&mut self) {
        // The store goes first: what it holds counts as held until then.
        self.run = None;
        if let Some(State { context, .. }) = self.end.take().and_then(|end| end.left) {
            self.shared.give_back(context);
        }
        self.shared.tell_memory();
        self.shared.host.done(Done {
            cpu_ns: self.used_ns,
            fault: self.fault.as_ref(),
        });
    }
}
