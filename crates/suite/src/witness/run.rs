//! What the warden has seen of a launch.

/// How much output is kept; more is counted only.
const KEPT_OUTPUT_BYTES: usize = 2 << 20;

/// What is known of a launch so far.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) output: Vec<u8>,
    pub(crate) output_bytes: usize,
    /// The launcher's process.
    pub(crate) launcher: i32,
    pub(crate) output_closed: bool,
    pub(crate) lasted_ms: u64,
    pub(crate) survivors: usize,
    pub(crate) exit_code: Option<i32>,
    /// The guest said that there is something to look at.
    pub(crate) held: bool,
}

impl Run {
    /// Whether the guest's output holds `text`.
    pub(crate) fn said(&self, text: &str) -> bool {
        let needle = text.as_bytes();
        self.output
            .windows(needle.len())
            .any(|window| window == needle)
    }

    /// Whether somebody kept the output open after the launcher had ended.
    pub(crate) fn is_output_held(&self) -> bool {
        !self.output_closed
    }

    /// What else came out.
    pub(crate) fn note_output(&mut self, bytes: &[u8]) {
        self.output_bytes += bytes.len();
        let room = KEPT_OUTPUT_BYTES.saturating_sub(self.output.len());
        self.output
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.held = self.held || (self.output.len() < 65_536 && self.said("held\n"));
    }
}
