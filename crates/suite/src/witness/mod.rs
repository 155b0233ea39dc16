//! Witnesses: how success is seen from outside the domain.
//!
//! A witness looks at the machine, not at the guest's exit code: at the host's files, at
//! a victim, at `/proc/PID` of the guest's processes as the warden sees them (its pid
//! namespace is an ancestor of the domain's), or at a random secret that the guest could
//! not know otherwise.

mod course;
mod effect;
mod fact;
mod run;
mod trace;

pub use course::Course;
pub use effect::{Effect, FileKind};
pub use fact::Fact;
pub use trace::Trace;

use crate::fixtures::{Fixtures, Layout};

pub(crate) use run::Run;

/// Line by which a guest attests an act without an outside trace; its nonce follows.
const ATTESTATION: &str = "reached ";

/// How success is seen.
#[derive(Clone, Copy, Debug)]
pub enum Witness {
    /// The run's random secret came out of the guest's stdout.
    Secret,
    /// The random content of a file that *is* granted came out.
    Token,
    /// This text, which only the denied file holds, came out.
    Text(&'static str),
    /// This about the host came out, which the warden looks up for itself.
    Fact(Fact),
    /// Something of the guest's processes, seen in `/proc` while they hold it.
    Trace(Trace),
    /// A lasting effect on the host, a victim or a server.
    Effect(Effect),
    /// How the run as a whole went.
    Course(Course),
    /// The guest's own attestation, for calls whose effect cannot be seen or must not
    /// happen. Weaker: it shows that the kernel, not the wall, answered the call.
    SelfReported,
}

/// What a witness looks at.
pub(crate) struct Scene<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) fixtures: &'a Fixtures,
    pub(crate) run: &'a Run,
    pub(crate) processes_before: usize,
}

impl Witness {
    /// What another program of the user must be able to take before the launch, or its want would be
    /// nobody's doing: a word that `fixture take` knows.
    pub(crate) const fn shared_quota(self) -> Option<&'static str> {
        match self {
            Self::Trace(Trace::Exhausted(what)) => Some(what),
            _ => None,
        }
    }

    /// Whether what is to be seen reaches somebody else, who may not have run yet.
    pub(crate) const fn is_a_message(self) -> bool {
        matches!(
            self,
            Self::Effect(Effect::Received | Effect::ReceivedAsRoot)
        )
    }

    /// Whether there is something to see while the guest holds still.
    pub(crate) fn seen_while_held(self, scene: &Scene<'_>) -> bool {
        match self {
            Self::Trace(trace) => trace.seen(scene),
            _ => false,
        }
    }

    /// Whether there is something to see after the launcher ended.
    pub(crate) fn seen_afterwards(self, scene: &Scene<'_>) -> bool {
        let said = |text: &str| scene.run.said(text);
        match self {
            // 64 of the secret's 128 bits: some ways out are only that wide.
            Self::Secret => said(&scene.layout.secret[..16]),
            Self::Token => said(&scene.layout.token),
            Self::Text(text) => said(text),
            Self::Fact(fact) => said(&fact.look_up(scene)),
            Self::Trace(_) => false,
            Self::Effect(effect) => effect.seen(scene),
            Self::Course(course) => course.seen(scene),
            Self::SelfReported => said(&format!("{ATTESTATION}{}", scene.layout.nonce)),
        }
    }
}
