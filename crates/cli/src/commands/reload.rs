//! `palisade reload`: a new configuration, or why not.

use super::server;
use crate::{args::ServerArgs, say};
use anyhow::Context;
use serde::Deserialize;

/// The old configuration still serves.
const REFUSED: u8 = 1;

/// What the server answers.
#[derive(Deserialize)]
struct Reloaded {
    generation: u64,
    #[serde(default)]
    warnings: Vec<String>,
    error: Option<String>,
}

/// Asks for a reload and waits for its end.
pub(crate) fn reload(args: &ServerArgs) -> anyhow::Result<u8> {
    let answer = server::ask(args, "POST", "/reload")?;
    let reloaded: Reloaded = serde_json::from_str(&answer.body).with_context(|| {
        format!(
            "host: the server answered {}: {}",
            answer.status,
            answer.body.trim()
        )
    })?;
    if let Some(error) = reloaded.error {
        say::lines(&error);
        say::line(&format!("generation {} serves on", reloaded.generation));
        return Ok(REFUSED);
    }
    for warning in &reloaded.warnings {
        say::lines(warning);
    }
    let text = format!("generation {} serves\n", reloaded.generation);
    say::print(&text, "the answer")
}
