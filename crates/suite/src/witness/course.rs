//! How the run as a whole went.

use super::Scene;

/// See [`super::Witness::Course`].
#[derive(Clone, Copy, Debug)]
pub enum Course {
    /// It took longer than this.
    LongerThanMs(u64),
    /// More bytes than this reached the launcher's stdout.
    OutputOver(usize),
    /// A process of the guest outlived the launcher.
    Survivor,
    /// The launcher ended, but its stdout stayed open.
    OutputHeld,
}

impl Course {
    pub(super) fn seen(self, scene: &Scene<'_>) -> bool {
        let run = scene.run;
        match self {
            Self::LongerThanMs(limit_ms) => run.lasted_ms > limit_ms,
            Self::OutputOver(limit) => run.output_bytes > limit,
            Self::Survivor => run.survivors > 0,
            Self::OutputHeld => run.is_output_held(),
        }
    }
}
