//! Granted names are asked for again when their answers' time is up.

use crate::lock::lock;
use std::{
    io,
    net::IpAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use palisade_policy::HostName;

use crate::{Gate, Resolve};

/// How often names are asked for.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// At least this long between two answers, whatever their time. An address that a name no
    /// longer has is allowed until the next answer: that must be enough for a program that has just
    /// looked it up, and a name whose answers hold for no time must not keep a thread busy.
    shortest: Duration,
    /// At most this long, so that a long time in an answer does not outlast a service's move.
    longest: Duration,
    /// This long after a lookup that failed; twice as long after each more, up to `longest`.
    after_failure: Duration,
}

const PACE: Pace = Pace {
    shortest: Duration::from_secs(5),
    longest: Duration::from_secs(60 * 60),
    after_failure: Duration::from_secs(5),
};

/// A thread that keeps a gate's names up to date. Dropping this ends it.
#[derive(Debug)]
pub struct Refresh {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: Mutex<bool>,
    wake: Condvar,
}

impl Refresh {
    /// Starts the thread; `None` where the gate has no name. `on_answer` gets each answer, a name and its
    /// addresses, and the lines of the hosts file if they have changed, on that thread; it is not
    /// called any more once this is dropped.
    ///
    /// A lookup that fails changes nothing and is tried again: a name server that is down for a
    /// while must not cut the guest off.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        gate: Arc<Gate>,
        resolver: Arc<dyn Resolve>,
        on_answer: impl FnMut(&HostName, &[IpAddr], Option<&str>) + Send + 'static,
    ) -> io::Result<Option<Self>> {
        Self::start_at(PACE, gate, resolver, on_answer)
    }

    fn start_at(
        pace: Pace,
        gate: Arc<Gate>,
        resolver: Arc<dyn Resolve>,
        mut on_answer: impl FnMut(&HostName, &[IpAddr], Option<&str>) + Send + 'static,
    ) -> io::Result<Option<Self>> {
        let mut turns = first_turns(&gate, pace);
        if turns.is_empty() {
            return Ok(None);
        }
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let run = move || {
            while let Some(turn) = theirs.wait_for_next(&mut turns) {
                let answer = resolver.addresses(&turn.name);
                // Held until the answer is told, so that nothing is told after the end.
                let stopped = theirs.stopped();
                if *stopped {
                    return;
                }
                match answer {
                    Ok(answer) => {
                        let lines = gate.pin(&turn.name, &answer.addresses);
                        on_answer(&turn.name, &answer.addresses, lines.as_deref());
                        turn.succeed(answer.ttl, pace);
                    }
                    Err(_) => turn.fail(pace),
                }
            }
        };
        thread::Builder::new().name("names".into()).spawn(run)?;
        Ok(Some(Self { shared }))
    }
}

impl Drop for Refresh {
    fn drop(&mut self) {
        // Not joined: it may be waiting for a name server, and ends after that by itself.
        *self.shared.stopped() = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn stopped(&self) -> MutexGuard<'_, bool> {
        lock(&self.stopped)
    }

    /// The next name whose time is up, once it is; `None` at the end.
    fn wait_for_next<'a>(&self, turns: &'a mut [Turn]) -> Option<&'a mut Turn> {
        let turn = turns.iter_mut().min_by_key(|turn| turn.due)?;
        let left = turn.due.saturating_duration_since(Instant::now());
        let waited = self
            .wake
            .wait_timeout_while(self.stopped(), left, |stopped| !*stopped);
        let (stopped, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!*stopped).then_some(turn)
    }
}

/// One name's next lookup.
#[derive(Debug)]
struct Turn {
    name: HostName,
    due: Instant,
    failures: u32,
}

impl Turn {
    fn succeed(&mut self, ttl: Duration, pace: Pace) {
        self.failures = 0;
        self.due = Instant::now() + pace.holds(ttl);
    }

    fn fail(&mut self, pace: Pace) {
        self.due = Instant::now() + pace.pause(self.failures);
        self.failures = self.failures.saturating_add(1);
    }
}

impl Pace {
    fn holds(self, ttl: Duration) -> Duration {
        ttl.clamp(self.shortest, self.longest)
    }

    fn pause(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.after_failure.saturating_mul(factor).min(self.longest)
    }
}

fn first_turns(gate: &Gate, pace: Pace) -> Vec<Turn> {
    let now = Instant::now();
    let turn = |pins: &crate::Pins| Turn {
        name: pins.name.clone(),
        due: now + pace.holds(Duration::from_secs(pins.ttl_s)),
        failures: 0,
    };
    gate.network().pins.iter().map(turn).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::{Answer, Network, ResolveError};

    const QUICK: Pace = Pace {
        shortest: Duration::from_millis(1),
        longest: Duration::from_millis(1),
        after_failure: Duration::from_millis(1),
    };

    /// Answers in turn, then always with the last one; a token is taken from `asked` first.
    struct Script {
        answers: Mutex<Vec<Result<&'static str, ResolveError>>>,
        asked: Mutex<mpsc::Receiver<()>>,
    }

    impl Script {
        fn new(answers: &[Result<&'static str, ResolveError>]) -> (Arc<Self>, mpsc::Sender<()>) {
            let (ask, asked) = mpsc::channel();
            let script = Self {
                answers: Mutex::new(answers.iter().rev().cloned().collect()),
                asked: Mutex::new(asked),
            };
            (Arc::new(script), ask)
        }
    }

    impl Resolve for Script {
        fn addresses(&self, _: &HostName) -> Result<Answer, ResolveError> {
            let _ = self.asked.lock().unwrap().recv();
            let mut answers = self.answers.lock().unwrap();
            let answer = match answers.len() {
                1 => answers[0].clone(),
                _ => answers.pop().unwrap(),
            };
            let addresses = vec![answer?.parse().unwrap()];
            let ttl = Duration::ZERO;
            Ok(Answer { addresses, ttl })
        }

        fn interface(&self, _: &str) -> Option<u32> {
            None
        }
    }

    fn gate(script: &Script) -> Arc<Gate> {
        let grant = "tcp://a.example:443".parse().unwrap();
        Arc::new(Gate::new(Network::resolve(&[grant], &[], script).unwrap()))
    }

    fn is_allowed(gate: &Gate, address: &str) -> bool {
        let address = format!("{address}:443").parse().unwrap();
        gate.connect(palisade_policy::Transport::Tcp, address)
            .is_ok()
    }

    #[test]
    fn changes_are_told_and_failures_change_nothing() {
        let down = || Err(ResolveError::NoAnswer("down".into()));
        let (script, ask) = Script::new(&[
            Ok("198.51.100.1"),
            Ok("198.51.100.1"),
            down(),
            Err(ResolveError::NotFound),
            Ok("198.51.100.2"),
            Ok("127.0.0.1"),
            Ok("198.51.100.3"),
        ]);
        ask.send(()).unwrap();
        let gate = gate(&script);
        let (tell, told) = mpsc::channel();
        let on_answer = move |_: &HostName, _: &[IpAddr], lines: Option<&str>| {
            if let Some(lines) = lines {
                tell.send(lines.to_owned()).unwrap();
            }
        };
        let refresh = Refresh::start_at(QUICK, Arc::clone(&gate), script, on_answer).unwrap();
        assert!(refresh.is_some());

        for _ in 0..4 {
            ask.send(()).unwrap();
        }
        assert_eq!(told.recv().unwrap(), "198.51.100.2 a.example\n");
        assert!(is_allowed(&gate, "198.51.100.1") && is_allowed(&gate, "198.51.100.2"));

        // A name that is turned to the host's own loopback stands for nothing then.
        ask.send(()).unwrap();
        assert_eq!(told.recv().unwrap(), "");
        assert!(!is_allowed(&gate, "127.0.0.1") && !is_allowed(&gate, "198.51.100.1"));
        assert!(is_allowed(&gate, "198.51.100.2"));

        ask.send(()).unwrap();
        assert_eq!(told.recv().unwrap(), "198.51.100.3 a.example\n");
        assert!(!is_allowed(&gate, "198.51.100.2"));

        // Dropping ends the thread, which drops the sender.
        drop(refresh);
        drop(ask);
        assert_eq!(told.recv(), Err(mpsc::RecvError));
    }

    #[test]
    fn a_thread_that_waits_for_its_turn_ends_at_once() {
        let (script, ask) = Script::new(&[Ok("198.51.100.1")]);
        ask.send(()).unwrap();
        let gate = gate(&script);
        let (tell, told) = mpsc::channel::<()>();
        let on_answer = move |_: &HostName, _: &[IpAddr], _: Option<&str>| tell.send(()).unwrap();
        let refresh = Refresh::start(gate, script, on_answer).unwrap();
        drop(refresh);
        assert_eq!(
            told.recv_timeout(PACE.shortest / 2),
            Err(mpsc::RecvTimeoutError::Disconnected)
        );
    }

    #[test]
    fn no_thread_without_a_name() {
        let (script, _ask) = Script::new(&[Ok("198.51.100.1")]);
        let gate = Arc::new(Gate::new(Network::default()));
        assert!(
            Refresh::start(gate, script, |_, _, _| {})
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn times_are_kept_within_bounds() {
        let held = |seconds| PACE.holds(Duration::from_secs(seconds)).as_secs();
        assert_eq!((held(0), held(5), held(300)), (5, 5, 300));
        assert_eq!(held(u64::from(u32::MAX)), 3600);
        let pause = |failures| PACE.pause(failures).as_secs();
        assert_eq!((pause(0), pause(1), pause(4)), (5, 10, 80));
        assert_eq!(
            (pause(20), pause(31), pause(32), pause(u32::MAX)),
            (3600, 3600, 3600, 3600)
        );
    }
}
