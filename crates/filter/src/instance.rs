//! A module at work: a root context, and a context for each exchange that is under way.

mod part;
mod start;

use crate::{
    Action, Direction, Exchange, Fault, FaultKind, Filter, Host, HttpCallResponse, Notify, Part,
    StreamId,
    fields::View,
    phase::Phase,
    state::{At, CallResponse, Life, ROOT, State, Stream},
};
use palisade_engine::guest;
use std::{
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// One instance of a filter: memory of its own, called by one thread.
///
/// Once a call gave a [`Fault`] it is dead: every further call gives one too, and [`Instance::take`] and
/// [`Instance::streams`] give the exchanges back that were in it.
#[derive(Debug)]
pub struct Instance {
    filter: Filter,
    guest: guest::Instance<State>,
    is_alive: bool,
}

/// What an instance has done so far, and has now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstanceMetrics {
    /// Calls into the guest, and out of it to host functions.
    pub crossings: u64,
    /// Time in the guest and in the host functions that it called, in ns. The first 64 phases, its start with them, are
    /// each measured; of those after them every 17th, for itself and the 16 before it, so that up to 16 are not in it yet.
    pub cpu_ns: u64,
    /// Bytes of its memories and tables now.
    pub memory_bytes: u64,
    /// What it asked for and was refused: HTTP calls.
    pub denials: u64,
    /// Log lines that were dropped.
    pub lines_dropped: u64,
    /// Streams that are open now.
    pub streams: usize,
}

/// What comes of [`Instance::finish`].
#[derive(Debug)]
pub enum Finish {
    /// The exchange is over.
    Over(Option<Box<Exchange>>),
    /// The head does not pass: the stream is open.
    Held(Action),
    /// The exchange is over, and the instance too: the guest was ended in a callback for that.
    Failed(Option<Box<Exchange>>, Fault),
}

impl Instance {
    /// Starts an instance: `_initialize` or `_start`, `proxy_on_context_create` of the root context,
    /// `proxy_on_vm_start`, `proxy_on_configure`. `notify` hears of queues that it registers.
    ///
    /// # Errors
    ///
    /// When one of these is ended, or says that it can't start; when the engine has no instance left.
    pub fn start(
        filter: &Filter,
        host: Rc<dyn Host>,
        notify: Option<Arc<dyn Notify>>,
    ) -> Result<Self, Fault> {
        let loaded = &filter.loaded;
        let state = State::new(Arc::clone(loaded), host, notify);
        let guest = loaded
            .linked
            .instantiate(state)
            .map_err(|error| Fault::of(error, "the start function"))?;
        let mut instance = Self {
            filter: filter.clone(),
            guest,
            is_alive: true,
        };
        if loaded.callbacks.has_begin() {
            instance.phase(start::module)?;
        }
        instance.phase(start::root)?;
        Ok(instance)
    }

    /// The filter.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether it can be called.
    pub fn is_alive(&self) -> bool {
        self.is_alive
    }

    /// Opens a stream with its exchange. The guest hears of it with the first callback.
    pub fn open(&mut self, exchange: Box<Exchange>) -> StreamId {
        self.guest.state_mut().open(exchange)
    }

    /// The exchange of a stream, if it is here.
    pub fn exchange(&mut self, id: StreamId) -> Option<&mut Exchange> {
        self.guest.state_mut().exchange_mut(id)
    }

    /// Takes the exchange out of a stream, for another filter or the server. The stream goes on without.
    pub fn take(&mut self, id: StreamId) -> Option<Box<Exchange>> {
        self.guest.state_mut().stream_mut(id)?.exchange.take()
    }

    /// Puts the exchange back. A local response that the guest sent meanwhile is in it then.
    ///
    /// # Errors
    ///
    /// Gives the exchange back when the stream is over.
    pub fn put(&mut self, id: StreamId, exchange: Box<Exchange>) -> Result<(), Box<Exchange>> {
        match self.guest.state_mut().stream_mut(id) {
            Some(stream) => {
                stream.put(exchange);
                Ok(())
            }
            None => Err(exchange),
        }
    }

    /// All streams that are open, without those that the guest has not finished with after
    /// [`Instance::close`]: to be opened again in another instance when this one is dead.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.guest
            .state()
            .streams
            .iter()
            .filter(|stream| matches!(stream.life, Life::New | Life::Created))
            .map(|stream| StreamId(stream.context))
    }

    /// The request's head is there.
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn on_request_headers(
        &mut self,
        id: StreamId,
        end_of_stream: bool,
    ) -> Result<Action, Fault> {
        self.on_part(id, Part::RequestHeaders, end_of_stream)
    }

    /// Bytes of the request's body are there: all that is in [`crate::Message::body`] can be inspected and
    /// changed. [`Action::Continue`]: pass them on and take them out. [`Action::Pause`]: leave them in, and put
    /// what comes behind them.
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn on_request_body(&mut self, id: StreamId, end_of_stream: bool) -> Result<Action, Fault> {
        self.on_part(id, Part::RequestBody, end_of_stream)
    }

    /// The request's trailers are there.
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn on_request_trailers(&mut self, id: StreamId) -> Result<Action, Fault> {
        self.on_part(id, Part::RequestTrailers, true)
    }

    /// The response's head is there.
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn on_response_headers(
        &mut self,
        id: StreamId,
        end_of_stream: bool,
    ) -> Result<Action, Fault> {
        self.on_part(id, Part::ResponseHeaders, end_of_stream)
    }

    /// Bytes of the response's body are there: as [`Instance::on_request_body`].
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn on_response_body(&mut self, id: StreamId, end_of_stream: bool) -> Result<Action, Fault> {
        self.on_part(id, Part::ResponseBody, end_of_stream)
    }

    /// The response's trailers are there.
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn on_response_trailers(&mut self, id: StreamId) -> Result<Action, Fault> {
        self.on_part(id, Part::ResponseTrailers, true)
    }

    /// Calls the callback of a part, if the module has it. A local response or a closed stream pauses,
    /// whatever the callback gives.
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn on_part(
        &mut self,
        id: StreamId,
        part: Part,
        end_of_stream: bool,
    ) -> Result<Action, Fault> {
        let action = match self.filter.inspects(part) || part == Part::RequestHeaders {
            false => Action::Continue,
            true => {
                self.check_open(id, part)?;
                self.phase(|phase| part::call(phase, id, part, end_of_stream))?
            }
        };
        // Whatever it was called for when it did so: another stream's end is in that phase, too.
        Ok(match self.has_responded(id) {
            true => Action::Pause,
            false => action,
        })
    }

    fn check_open(&self, id: StreamId, part: Part) -> Result<(), Fault> {
        match self.guest.state().stream(id) {
            Some(_) => Ok(()),
            None => Err(Fault::new(
                FaultKind::Host,
                part.callback(),
                "the stream is not open",
            )),
        }
    }

    /// [`Instance::on_response_headers`] and, where the guest lets the head pass, [`Instance::close`], under one limit of
    /// time: for a response of which nothing else is to come.
    ///
    /// `passed_bytes`: how long its body is, for the property `response.size` of the callbacks at its end.
    ///
    /// # Errors
    ///
    /// When the guest was ended before the head had passed.
    pub fn finish(
        &mut self,
        id: StreamId,
        end_of_stream: bool,
        passed_bytes: u64,
    ) -> Result<Finish, Fault> {
        let part = Part::ResponseHeaders;
        self.check_open(id, part)?;
        if !self.filter.inspects(part) && !self.filter.hears_of_ends() && !self.has_responded(id) {
            return Ok(Finish::Over(self.remove(id)));
        }
        let (mut has_passed, mut over) = (false, None);
        let result = self.phase(|phase| {
            let action = part::call(phase, id, part, end_of_stream)?;
            phase.finish_done()?;
            let stream = phase.state().stream(id);
            if stream.is_some_and(Stream::has_responded) {
                return Ok(Action::Pause);
            }
            has_passed = action == Action::Continue;
            if has_passed {
                if let Some(exchange) = phase.state().exchange_mut(id) {
                    exchange.response_rest.passed_bytes = passed_bytes;
                }
                over = close_stream(phase, id)?;
            }
            Ok(action)
        });
        match result {
            Ok(action) if !has_passed => Ok(Finish::Held(action)),
            Err(fault) if !has_passed => Err(fault),
            Ok(_) => Ok(Finish::Over(over)),
            Err(fault) => Ok(Finish::Failed(over.or_else(|| self.take(id)), fault)),
        }
    }

    /// Ready when a direction that a callback has paused goes on: the guest said so, sent a local response
    /// ([`Exchange::local_response`]) or closed the stream ([`Instance::is_closed`]), or the instance is dead.
    pub fn poll_resumed(
        &mut self,
        id: StreamId,
        direction: Direction,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if !self.is_alive {
            return Poll::Ready(());
        }
        match self.guest.state_mut().stream_mut(id) {
            Some(stream) => stream.poll_resumed(direction, context.waker()),
            None => Poll::Ready(()),
        }
    }

    /// A head has passed that a callback has held ([`Action::HoldHead`]), or one that passed before is shown again: the guest
    /// may change it no more.
    pub fn pass_head(&mut self, id: StreamId, direction: Direction) {
        if let Some(stream) = self.guest.state_mut().stream_mut(id) {
            stream.pass_head(direction);
        }
    }

    /// Whether the guest has sent a local response that is not taken yet, or wants the stream reset.
    pub fn has_responded(&self, id: StreamId) -> bool {
        let stream = self.guest.state().stream(id);
        stream.is_some_and(Stream::has_responded)
    }

    /// Whether the guest wants the stream reset: no response, the connection or HTTP/2 stream is broken off.
    pub fn is_closed(&self, id: StreamId) -> bool {
        let stream = self.guest.state().stream(id);
        stream.is_some_and(|stream| stream.is_closed)
    }

    /// The exchange is over, whichever way: `proxy_on_done`, `proxy_on_log`, `proxy_on_delete`. Put the
    /// exchange back before, so that the guest can log it. Gives it back.
    ///
    /// Where `proxy_on_done` says that the guest is not done, the other two come after its `proxy_done`, and see
    /// a copy of the heads.
    ///
    /// # Errors
    ///
    /// When the guest was ended; the exchange can be taken then.
    pub fn close(&mut self, id: StreamId) -> Result<Option<Box<Exchange>>, Fault> {
        let Some(stream) = self.guest.state().stream(id) else {
            return Ok(None);
        };
        // Where nobody is told, no call's clock needs to run.
        if stream.life != Life::Created || !self.filter.hears_of_ends() {
            return Ok(self.remove(id));
        }
        let mut over = None;
        let result = self.phase(|phase| {
            over = close_stream(phase, id)?;
            Ok(())
        });
        match (result, over) {
            (Ok(()), over) => Ok(over),
            (Err(fault), over) => {
                // It was ended over another stream, which this one's end had it finish.
                if let Some(exchange) = over {
                    self.guest.state_mut().give_back(id, exchange);
                }
                Err(fault)
            }
        }
    }

    fn remove(&mut self, id: StreamId) -> Option<Box<Exchange>> {
        let stream = self.guest.state_mut().remove(id.0);
        stream.and_then(|stream| stream.exchange)
    }

    /// Whether a stream is open, or was closed and the guest is not done with it.
    pub fn has_stream(&self, id: StreamId) -> bool {
        self.guest.state().stream(id).is_some()
    }

    /// Brings the response to an HTTP call; `None`: there is none, it failed or took too long. A token of
    /// which nothing is known is left alone.
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn on_http_call_response(
        &mut self,
        token: u32,
        response: Option<HttpCallResponse>,
    ) -> Result<(), Fault> {
        if !self.guest.state_mut().calls.remove(&token) {
            return Ok(());
        }
        let Some(callback) = self.of_root(self.filter.loaded.callbacks.on_http_call_response)
        else {
            return Ok(());
        };
        let (headers, body, trailers) = match &response {
            Some(call) => (
                View::of_call(call).len(),
                call.response.body().len() as u32,
                call.trailers.len() as u32,
            ),
            None => (0, 0, 0),
        };
        self.phase(|phase| {
            phase.state().response = match response {
                Some(call) => CallResponse::Here(call),
                None => CallResponse::Failed,
            };
            let parameters = (ROOT, token, headers, body, trailers);
            let name = "proxy_on_http_call_response";
            let result = phase.call(At::Root, name, &callback, parameters);
            phase.state().response = CallResponse::None;
            result
        })
    }

    /// An HTTP call was given up: no response will be brought.
    pub fn forget_call(&mut self, token: u32) {
        self.guest.state_mut().calls.remove(&token);
    }

    /// How often the guest wants [`Instance::on_tick`]. A change comes by [`Host::set_tick_period`].
    pub fn tick_period(&self) -> Option<Duration> {
        self.guest.state().tick_period
    }

    /// Whether it has registered queues, and so is to be told of them.
    pub fn has_queues(&self) -> bool {
        self.guest.state().has_queues()
    }

    /// A tick period is over.
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn on_tick(&mut self) -> Result<(), Fault> {
        let Some(callback) = self.of_root(self.filter.loaded.callbacks.on_tick) else {
            return Ok(());
        };
        self.phase(|phase| phase.call(At::Root, "proxy_on_tick", &callback, ROOT))
    }

    /// A queue of this instance's has got something: once for each [`Notify::queue_ready`].
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn on_queue_ready(&mut self, queue: u32) -> Result<(), Fault> {
        let Some(callback) = self.of_root(self.filter.loaded.callbacks.on_queue_ready) else {
            return Ok(());
        };
        let name = "proxy_on_queue_ready";
        self.phase(|phase| phase.call(At::Root, name, &callback, (ROOT, queue)))
    }

    /// The filter goes: `proxy_on_done` of the root context, and `proxy_on_delete` if it is done, both in one phase and so
    /// within its time. Gives whether it is; else it still waits for HTTP calls, ticks or queues, and
    /// [`Instance::is_done`] says when it is. For what comes once it is done no callback is made.
    ///
    /// A root context has no `proxy_on_log`, as Envoy has it. Close the streams before: they would be left without their
    /// own last callbacks.
    ///
    /// # Errors
    ///
    /// When the guest was ended.
    pub fn stop(&mut self) -> Result<bool, Fault> {
        match self.guest.state().root {
            Life::New => return Ok(true),
            Life::Unfinished | Life::Finished => return Ok(false),
            Life::Created => {}
        }
        self.phase(|phase| {
            if phase.is_done(At::Root, ROOT)? {
                phase.finish_root()?;
                return Ok(true);
            }
            phase.state().root = Life::Unfinished;
            Ok(false)
        })
    }

    /// Whether the root context is done, after [`Instance::stop`].
    pub fn is_done(&self) -> bool {
        !self.is_alive || self.guest.state().root == Life::New
    }

    /// A callback of the root context, unless the guest was told that it is gone.
    fn of_root<T>(&self, callback: Option<T>) -> Option<T> {
        callback.filter(|_| self.guest.state().root != Life::New)
    }

    /// What it has done so far.
    pub fn metrics(&self) -> InstanceMetrics {
        let memory_bytes = self.guest.memory_bytes();
        let state = self.guest.state();
        InstanceMetrics {
            crossings: state.crossings,
            cpu_ns: state.cpu_ns,
            memory_bytes: memory_bytes as u64,
            denials: state.denials,
            lines_dropped: state.lines_dropped,
            streams: state.streams.len(),
        }
    }

    /// Makes calls that share one limit of time. A fault is the instance's end: whoever waits is woken.
    fn phase<T>(
        &mut self,
        work: impl FnOnce(&mut Phase<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if !self.is_alive {
            let message = "the instance was ended before; start a new one";
            return Err(Fault::new(FaultKind::Host, "no callback", message));
        }
        let loaded = &self.filter.loaded;
        let result = match self.guest.calls() {
            Ok(calls) => {
                let mut phase = Phase::begin(calls, loaded);
                let result = work(&mut phase);
                result.and_then(|value| phase.finish_done().map(|()| value))
            }
            Err(error) => Err(Fault::of(error, "no callback")),
        };
        if result.is_err() {
            self.is_alive = false;
            self.guest.state_mut().wake_all();
        }
        result
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.guest.state().unregister_queues();
    }
}

fn close_stream(phase: &mut Phase<'_>, id: StreamId) -> Result<Option<Box<Exchange>>, Fault> {
    let is_done = phase.is_done(At::Stream(id.0), id.0)?;
    let most = phase.loaded().settings.bounds.unfinished_streams;
    if is_done || phase.state().unfinished_streams >= most {
        phase.finish_stream(id.0)?;
        let stream = phase.state().remove(id.0);
        return Ok(stream.and_then(|stream| stream.exchange));
    }
    let state = phase.state();
    state.unfinished_streams += 1;
    Ok(state
        .stream_mut(id)
        .and_then(|stream| stream.leave_unfinished()))
}
