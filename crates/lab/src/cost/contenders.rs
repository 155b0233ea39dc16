//! Who can run the command here: everybody tries once.

use super::{
    DEFAULT_BUDGET, Options,
    grants::Task,
    tell,
    trial::{Circumstances, CommandTrial, HookError},
};
use crate::{
    network::Network,
    rows::Tools,
    sample::Contender,
    subjects::{Bare, Peer, Subject, is_wasm},
    trial::Trial,
    warning::{self, Warning},
};
use palisade_policy::Policy;
use std::{
    rc::Rc,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// Everybody who ran the command once.
pub(super) struct Contenders {
    pub(super) trials: Vec<(Contender, Box<dyn Trial>)>,
    pub(super) warnings: Vec<Warning>,
    /// How long they took together.
    pub(super) round_took: Duration,
}

impl Contenders {
    /// A peer that fails is left out; palisade or no wall must not.
    pub(super) fn try_all(tools: &Tools, options: &Options, task: &Task) -> anyhow::Result<Self> {
        let circumstances = Rc::new(Circumstances::new(options));
        let mut all = Self {
            trials: Vec::new(),
            warnings: Vec::new(),
            round_took: Duration::ZERO,
        };
        let mut try_one = |subject: &dyn Subject, policy: &Policy| {
            let budget = options.budget.unwrap_or(DEFAULT_BUDGET);
            tell(options, 0, all.round_took, budget, false);
            let mut trial = CommandTrial::new(subject, policy, task, &circumstances)?;
            let began = Instant::now();
            trial.try_once()?;
            all.round_took += began.elapsed();
            let contender = Contender::new(&task.name(), subject.name());
            all.trials.push((contender, Box::new(trial)));
            anyhow::Ok(())
        };
        let name = task.name();
        let is_native = !is_wasm(&task.command);
        if is_native {
            try_one(&Bare, &task.theirs).map_err(|error| {
                blame(error, &format!("guest: {name} fails with no wall at all (it gets the variables that palisade sets, --env adds to them, and an empty stdin); --ignore-failure measures it nevertheless"))
            })?;
        }
        let so_far = match is_native {
            true => "runs with no wall and fails behind palisade's",
            false => "fails behind palisade's wall",
        };
        try_one(&tools.palisade, &task.ours).map_err(|error| {
            blame(
                error,
                &format!(
                    "guest: {name} {so_far}; grant what it lacks (--read, --write, --exec, --env)"
                ),
            )
        })?;
        let able = |peer: &Peer| peer.takes(&task.command, &Network::None);
        let mut doubts = Vec::new();
        for peer in tools.peers.iter().filter(|one| able(one.peer)) {
            if let Err(error) = try_one(peer, &task.theirs) {
                anyhow::ensure!(!options.interrupted.load(Ordering::Relaxed), "interrupted");
                doubts.push(Warning::PeerFailed {
                    peer: peer.name().to_owned(),
                    reason: format!("{error:#}"),
                });
            }
        }
        let absent = tools.absent.iter().filter(|one| able(one));
        let taking_part = all.trials.iter().map(|(one, _)| one);
        doubts.extend(warning::about_peers(taking_part, absent));
        all.warnings = doubts;
        Ok(all)
    }
}

/// Says whose fault a failed run is, unless it is that of something else that ran.
fn blame(error: anyhow::Error, fault: &str) -> anyhow::Error {
    match error.is::<HookError>() {
        true => error,
        false => error.context(fault.to_owned()),
    }
}
