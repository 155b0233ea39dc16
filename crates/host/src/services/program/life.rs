//! Starting and ending one program, for as long as anybody needs it.

use super::{
    Settings,
    alive::{Alive, Reached, Slot, Turn},
    back_off::BackOff,
    direct::{self, Listener},
    endpoint::{Access, Endpoint},
    guest::{self, GRACE, Guest},
    liveness::{Quiet, Unwell, WhyEnded, look_step},
    shared::{Shared, State, View},
};
use crate::{
    client::{Client, Inside, coarse_ms},
    config::Rest,
};
use palisade_process::Launcher;
use palisade_wall::{Error, Report};
use std::{io, rc::Rc, sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinSet, time::Instant};

/// How long requests that are inside may go on when their program is to end.
const MOST_DRAIN: Duration = Duration::from_secs(60);
/// The same, when it is replaced because it is not well: it may not answer them at all.
const MOST_DRAIN_OF_UNWELL: Duration = Duration::from_secs(10);

/// How long a request waits for a back-off to be over.
const MOST_WAIT: Duration = Duration::from_secs(1);

/// Times in a row that a program may be found where it cannot be stopped, as within a call that waits for a disk, before it
/// ends instead.
const MOST_IN_VAIN: u32 = 3;

/// Processes of one program that may be ending beside the one that serves.
const MOST_ENDING: usize = 4;

/// The life of one program.
pub(super) struct Life {
    shared: Arc<Shared>,
    tools: Tools,
    /// Who needs the program.
    need: Need,
    /// The endpoint of a process that died: the next one gets it.
    endpoint: Option<Arc<Endpoint>>,
    ending: JoinSet<()>,
    back_off: BackOff,
    has_run: bool,
}

/// What all programs share.
pub(super) struct Tools {
    pub(super) launcher: Arc<Launcher>,
    pub(super) client: Client,
    pub(super) alive: Rc<Alive>,
}

/// Somebody needs the program: its service, and the server.
#[derive(Clone)]
pub(super) struct Need {
    /// Neither ever changes; each is closed when its end comes.
    pub(super) service: watch::Receiver<()>,
    pub(super) server: watch::Receiver<()>,
}

impl Need {
    /// Waits until one of them does not any more.
    async fn ends(&mut self) {
        tokio::select! {
            _ = self.service.changed() => {}
            _ = self.server.changed() => {}
        }
    }
}

/// What became of a process that was to stand still.
enum Stood {
    /// It runs, for somebody asks for it.
    Runs,
    /// It would not stop, and runs.
    WouldNot(io::Error),
    /// It is to end, and has been let go on for that.
    Ends(WhyEnded),
}

/// Why a process of the program is no more.
enum After {
    /// Nobody needed it.
    Idle,
    /// Nobody will need it.
    Unneeded,
    /// It failed: after so long, for this reason.
    Died {
        lived: Duration,
        reason: String,
        /// Nobody has had a response of it.
        is_mute: bool,
    },
    /// It could not even be started.
    NotStarted(String),
}

impl Life {
    pub(super) fn new(shared: Arc<Shared>, tools: Tools, need: Need) -> Self {
        Self {
            shared,
            tools,
            need,
            endpoint: None,
            ending: JoinSet::new(),
            back_off: BackOff::default(),
            has_run: false,
        }
    }

    fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Until nobody needs it any more, and nothing of it runs.
    pub(super) async fn live(mut self, listener: Option<Arc<Listener>>) {
        let mut need = self.need.clone();
        loop {
            self.shared.set_state(State::Idle);
            let wanted = async {
                match &listener {
                    Some(listener) => listener.is_called().await,
                    None => self.is_wanted().await,
                }
            };
            tokio::select! {
                () = wanted => {}
                () = need.ends() => break,
            }
            if !self.run(listener.as_ref()).await {
                break;
            }
        }
        self.shared.show(View::Gone);
        while self.ending.join_next().await.is_some() {}
        self.shared.set_state(State::Ended);
    }

    async fn is_wanted(&self) {
        self.shared.show(View::Idle);
        while !self.shared.is_wanted() {
            self.shared.wanted.notified().await;
        }
    }

    /// From its start until it is idle (`true`) or unneeded, however often it dies in between.
    async fn run(&mut self, listener: Option<&Arc<Listener>>) -> bool {
        loop {
            let after = match listener {
                Some(listener) => self.run_direct(listener).await,
                None => self.run_once().await,
            };
            let (reason, is_hopeless, has_run) = match after {
                After::Idle => return true,
                After::Unneeded => return false,
                After::Died {
                    lived,
                    reason,
                    is_mute,
                } => {
                    let program = &self.shared.settings.program;
                    let is_hopeless = self.back_off.died(lived, is_mute, program);
                    (reason, is_hopeless, true)
                }
                After::NotStarted(reason) => {
                    self.shared.died(&reason);
                    (reason, true, false)
                }
            };
            if !self.rest(&reason, is_hopeless).await {
                return false;
            }
            if !has_run && listener.is_none() && !self.shared.is_wanted() {
                return true;
            }
        }
    }

    /// Waits before the next start; `false` when there is to be none.
    async fn rest(&mut self, reason: &str, is_hopeless: bool) -> bool {
        let settings = &self.shared.settings;
        let rest = self.back_off.rest(&settings.program, settings.faults);
        let is_hopeless = is_hopeless || rest > MOST_WAIT;
        let text = format!("{reason}; it is started again in {} ms", rest.as_millis());
        self.shared.output.notice(&text);
        let until = Instant::now() + rest;
        self.shared.set_state(State::Resting);
        self.shared.show(View::Resting {
            until: until.into_std(),
            reason: reason.into(),
            is_hopeless,
        });
        let mut need = self.need.clone();
        tokio::select! {
            () = tokio::time::sleep_until(until) => true,
            () = need.ends() => false,
        }
    }

    /// Room for one more process, and its turn to start.
    ///
    /// # Errors
    ///
    /// What to do instead, when nobody needs it any more.
    async fn enter(&self, is_wanted: impl Fn() -> bool) -> Result<(Slot, Turn), After> {
        self.shared.set_state(State::Starting);
        let mut need = self.need.clone();
        let entered = tokio::select! {
            entered = self.tools.alive.enter(&self.shared, is_wanted) => entered.ok_or(After::Idle),
            () = need.ends() => Err(After::Unneeded),
        };
        self.shared.set_crowded(false);
        entered
    }

    async fn start(
        &mut self,
        listener: Option<std::os::fd::OwnedFd>,
        room: (Slot, Turn),
    ) -> Result<Guest, String> {
        let started = Guest::start(&self.shared, &self.tools.launcher, listener, room).await;
        let guest = started.map_err(|error| error.to_string())?;
        self.shared.started(
            guest.pid(),
            std::mem::replace(&mut self.has_run, true) && self.back_off.has_failed(),
        );
        Ok(guest)
    }

    /// Until few are ending: ones that leave slowly must not pile up.
    async fn wait_for_endings(&mut self) {
        while self.ending.try_join_next().is_some() {}
        while self.ending.len() > MOST_ENDING {
            self.ending.join_next().await;
        }
    }

    /// One process, that workers reach.
    async fn run_once(&mut self) -> After {
        self.shared.show(View::Starting);
        self.wait_for_endings().await;
        let room = match self.enter(|| self.shared.is_wanted()).await {
            Ok(room) => room,
            Err(after) => return after,
        };
        if let Some(port) = self.settings().program.port {
            return self.run_inside(port, room).await;
        }
        let kept = self
            .endpoint
            .take()
            .filter(|endpoint| endpoint.may_be_kept());
        let endpoint = match kept.map_or_else(|| Endpoint::make().map(Arc::new), Ok) {
            Ok(endpoint) => endpoint,
            Err(error) => return After::NotStarted(format!("host: cannot make a socket: {error}")),
        };
        let listener = match endpoint.listener() {
            Ok(listener) => listener,
            Err(error) => return After::NotStarted(format!("host: cannot copy a socket: {error}")),
        };
        endpoint.begin();
        let guest = match self.start(Some(listener), room).await {
            Ok(guest) => guest,
            Err(reason) => {
                self.endpoint = Some(endpoint);
                return After::NotStarted(reason);
            }
        };
        let born = Instant::now();
        self.serve_by(endpoint, guest, born).await
    }

    /// The same of one that binds a port of its domain's own: workers come once it answers there.
    async fn run_inside(&mut self, port: u16, room: (Slot, Turn)) -> After {
        let mut guest = match self.start(None, room).await {
            Ok(guest) => guest,
            Err(reason) => return After::NotStarted(reason),
        };
        let born = Instant::now();
        let inside = match guest.inside(port) {
            Ok(inside) => Arc::new(inside),
            Err(error) => {
                let pid = guest.pid();
                self.shared.ended(pid, guest.kill().await.as_ref().ok());
                return After::NotStarted(format!("host: cannot reach its port: {error}"));
            }
        };
        let mut need = self.need.clone();
        let start_time = self.settings().program.start_time;
        let opened = tokio::select! {
            biased;
            () = guest.ends() => return self.account_death(born, guest, true).await,
            () = need.ends() => {
                self.finish(guest).await;
                return After::Unneeded;
            }
            opened = tokio::time::timeout(start_time, answers(&inside)) => opened.is_ok(),
        };
        if !opened {
            let why = format!("did not listen at port {port} in the time for its start");
            return self.end_mute(guest, born, &why).await;
        }
        let endpoint = Arc::new(Endpoint::to_port(inside));
        self.serve_by(endpoint, guest, born).await
    }

    /// It is ended, and has answered nobody.
    async fn end_mute(&self, guest: Guest, born: Instant, why: &str) -> After {
        let reason = self.fail(why);
        let lived = born.elapsed();
        let pid = guest.pid();
        self.shared.ended(pid, guest.kill().await.as_ref().ok());
        After::Died {
            lived,
            reason,
            is_mute: true,
        }
    }

    /// Lets workers in by this endpoint for as long as the process behind it lives and is needed.
    async fn serve_by(
        &mut self,
        endpoint: Arc<Endpoint>,
        mut guest: Guest,
        born: Instant,
    ) -> After {
        endpoint.open();
        self.shared.show(View::Open(Arc::clone(&endpoint)));
        let reached = Reached::Endpoint(Arc::clone(&endpoint));
        guest.slot().admit(&self.shared, reached);
        match self.watch(&mut guest, &endpoint, born).await {
            WhyEnded::Died => {
                let is_mute = !endpoint.has_answered();
                endpoint.close();
                self.endpoint = Some(endpoint);
                self.account_death(born, guest, is_mute).await
            }
            WhyEnded::Mute => {
                // What waits at the endpoint has not been looked at, and is the next one's.
                endpoint.close();
                self.endpoint = Some(endpoint);
                let why = "did not answer in the time for its start";
                self.end_mute(guest, born, why).await
            }
            WhyEnded::Unwell(why) => {
                let reason = self.fail(&why);
                let is_mute = !endpoint.has_answered();
                self.retire(guest, endpoint, MOST_DRAIN_OF_UNWELL, true);
                After::Died {
                    lived: born.elapsed(),
                    reason,
                    is_mute,
                }
            }
            WhyEnded::Idle => {
                self.back_off.forget();
                self.retire(guest, endpoint, MOST_DRAIN, false);
                After::Idle
            }
            WhyEnded::Unneeded => {
                self.retire(guest, endpoint, MOST_DRAIN, false);
                After::Unneeded
            }
        }
    }

    /// Notes that it is ended for this; gives it as a sentence.
    fn fail(&self, why: &str) -> String {
        self.shared.failed(why);
        format!("guest: {} {why}", self.settings().name)
    }

    /// Notes an end that nobody asked for.
    async fn account_death(&self, born: Instant, guest: Guest, is_mute: bool) -> After {
        let lived = born.elapsed();
        let pid = guest.pid();
        let report = guest.report().await;
        let how = guest::tell(&report);
        self.shared.ended(pid, report.as_ref().ok());
        self.shared.died(&how);
        After::Died {
            lived,
            reason: format!("guest: {} {how}", self.settings().name),
            is_mute,
        }
    }

    /// Lets nobody in any more by this endpoint, and ends the guest once everybody has left, beside what comes next.
    /// `is_told`: why it is ended was noted already.
    fn retire(&mut self, guest: Guest, endpoint: Arc<Endpoint>, most: Duration, is_told: bool) {
        endpoint.retire();
        guest.slot().ends();
        let shared = Arc::clone(&self.shared);
        let server = self.need.server.clone();
        self.ending.spawn_local(async move {
            let pid = guest.pid();
            let report = drain(guest, &endpoint, most, server).await;
            shared.ended(pid, report.as_ref().ok());
            if !is_told {
                shared.left(&guest::tell(&report));
            }
            // Who was on the way in is refused by now, and leaves; who takes a response slowly holds up no other start.
            tokio::task::spawn_local(async move {
                endpoint.is_left().await;
                endpoint.wall_up();
            });
        });
    }

    async fn watch(&self, guest: &mut Guest, endpoint: &Arc<Endpoint>, born: Instant) -> WhyEnded {
        // Of a domain that is frozen nobody holds the limit on time.
        let time = self.settings().policy.limits.time;
        let until = time.map(|time| born + time);
        let mut in_vain = 0;
        loop {
            if let Some(why) = self.watch_running(guest, endpoint).await {
                return why;
            }
            match self.stand_still(guest, endpoint, until).await {
                Stood::Ends(why) => return why,
                Stood::Runs => in_vain = 0,
                Stood::WouldNot(error) => {
                    in_vain += 1;
                    if in_vain == MOST_IN_VAIN {
                        let text = format!("host: it cannot be frozen ({error}), and ends");
                        self.shared.output.notice(&text);
                        return WhyEnded::Idle;
                    }
                }
            }
        }
    }

    /// Stops all of it for as long as nobody asks for it.
    async fn stand_still(
        &self,
        guest: &mut Guest,
        endpoint: &Arc<Endpoint>,
        until: Option<Instant>,
    ) -> Stood {
        // Who comes from here on waits before the endpoint; who has come is inside by now, or waits there as well.
        endpoint.close();
        let is_used = self.shared.is_wanted() || endpoint.inside().0 > 0;
        let mut stood = Stood::Runs;
        if !is_used {
            stood = match guest.freeze().await {
                Ok(()) => self.wait_frozen(guest, until).await,
                Err(error) => Stood::WouldNot(error),
            };
            endpoint.has_stood();
            guest.thaw();
            if matches!(stood, Stood::Ends(_)) {
                return stood;
            }
            // One that would not is not tried again at once.
            endpoint.note_use();
            self.shared.set_state(State::Running);
        }
        endpoint.open();
        self.shared.show(View::Open(Arc::clone(endpoint)));
        stood
    }

    /// Waits until somebody asks for it, or why it ends first.
    async fn wait_frozen(&self, guest: &mut Guest, until: Option<Instant>) -> Stood {
        self.shared.set_state(State::Frozen);
        let mut need = self.need.clone();
        let asked = guest.slot().asked();
        let why = tokio::select! {
            biased;
            () = guest.ends() => WhyEnded::Died,
            () = need.ends() => WhyEnded::Unneeded,
            // Looked at before who asks: whoever does is for the next process.
            () = moment(until) => WhyEnded::Idle,
            () = self.is_wanted() => return Stood::Runs,
            // One that is asked for in this moment goes on: that was looked at first.
            () = asked.notified() => WhyEnded::Idle,
        };
        Stood::Ends(why)
    }

    /// Until it ends, or is to stand still (`None`).
    async fn watch_running(&self, guest: &mut Guest, endpoint: &Arc<Endpoint>) -> Option<WhyEnded> {
        let program = &self.settings().program;
        let mut need = self.need.clone();
        let mut unwell = Unwell::watch(
            program.health.clone(),
            endpoint,
            &self.tools.client,
            program.start_time,
        );
        let asked = guest.slot().asked();
        let freezes = program.rest == Rest::Freeze;
        let mut quiet = Quiet::default();
        let mut look_at = Some(Instant::now());
        loop {
            tokio::select! {
                biased;
                () = guest.ends() => return Some(WhyEnded::Died),
                why = unwell.comes() => return Some(WhyEnded::Unwell(why)),
                () = need.ends() => return Some(WhyEnded::Unneeded),
                () = endpoint.tells() => {
                    let now = Instant::now();
                    // One that refuses is not asked again at once.
                    let soon = match endpoint.access() {
                        Access::Closed => now + look_step(program.start_time),
                        _ => now,
                    };
                    look_at = Some(look_at.map_or(soon, |at| at.min(soon)));
                }
                () = moment(look_at) => {
                    if !endpoint.is_sound() {
                        return Some(WhyEnded::Unwell("has shut its socket".into()));
                    }
                    if endpoint.access() == Access::Closed {
                        endpoint.open();
                        self.shared.show(View::Open(Arc::clone(endpoint)));
                    }
                    // Who still waits for the endpoint is looked for before those inside: nobody is missed on the way.
                    let is_awaited = self.shared.is_wanted();
                    match quiet.look(endpoint, is_awaited, program) {
                        Ok(next) => look_at = next.map(|next| Instant::now() + next),
                        Err(WhyEnded::Idle) if freezes && !unwell.is_suspected() => return None,
                        Err(end) => return Some(end),
                    }
                }
                () = asked.notified() => {
                    match guest.slot().is_used() {
                        true => guest.slot().decline(),
                        false => return Some(WhyEnded::Idle),
                    }
                }
            }
        }
    }

    /// One process, that clients reach by themselves.
    async fn run_direct(&mut self, listener: &Arc<Listener>) -> After {
        let room = match self.enter(|| listener.has_caller()).await {
            Ok(room) => room,
            Err(after) => return after,
        };
        let socket = match listener.socket_for_guest() {
            Ok(socket) => socket,
            Err(error) => return After::NotStarted(error.to_string()),
        };
        let mut guest = match self.start(Some(socket), room).await {
            Ok(guest) => guest,
            Err(reason) => return After::NotStarted(reason),
        };
        let born = Instant::now();
        let mut need = self.need.clone();
        let idle_time = self.settings().program.idle_time;
        let reached = Reached::Directly {
            used_ms: coarse_ms(),
        };
        guest.slot().admit(&self.shared, reached);
        let is_idle = tokio::select! {
            biased;
            idle = direct::runs_until_idle(&mut guest, listener.address(), idle_time) => idle,
            () = need.ends() => {
                self.finish(guest).await;
                return After::Unneeded;
            }
        };
        if !is_idle {
            return self.account_death(born, guest, false).await;
        }
        self.back_off.forget();
        self.finish(guest).await;
        After::Idle
    }

    /// Ends it and notes that.
    async fn finish(&self, guest: Guest) {
        let pid = guest.pid();
        let report = guest.finish(GRACE).await;
        self.shared.ended(pid, report.as_ref().ok());
        self.shared.left(&guest::tell(&report));
    }
}

/// Waits for it; `None` never comes.
async fn moment(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Waits until a program takes a connection at its port.
async fn answers(inside: &Inside) {
    const LONGEST_WAIT: Duration = Duration::from_millis(100);
    let mut wait = Duration::from_millis(2);
    while inside.connect().await.is_err() {
        tokio::time::sleep(wait).await;
        wait = LONGEST_WAIT.min(wait * 2);
    }
}

/// Waits until nobody is at the endpoint, for `most` at most and not once the server stops, then ends the guest.
async fn drain(
    mut guest: Guest,
    endpoint: &Endpoint,
    most: Duration,
    mut server: watch::Receiver<()>,
) -> Result<Report, Error> {
    tokio::select! {
        // A guest that ends here takes those inside with it.
        () = guest.ends() => {}
        _ = tokio::time::timeout(most, endpoint.is_left()) => {}
        _ = server.changed() => {}
    }
    endpoint.shut();
    guest.finish(GRACE).await
}
