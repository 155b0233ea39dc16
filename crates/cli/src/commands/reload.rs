//! `palisade reload`: a new configuration, or why not.

use super::server;
use crate::{args::ReloadArgs, say};
use anyhow::{Context, bail};
use serde::Deserialize;
use std::fmt::Write as _;

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

/// Of everything, or of these tenants.
fn address(tenants: &[String]) -> anyhow::Result<String> {
    let mut address = "/reload".to_owned();
    for (place, name) in tenants.iter().enumerate() {
        let is_usual = |one: char| one.is_ascii_alphanumeric() || "-_.|:".contains(one);
        if name.is_empty() || !name.chars().all(is_usual) {
            bail!("policy: no tenant is called `{name}`: a name has letters, digits and - _ . | :");
        }
        let mark = if place == 0 { '?' } else { '&' };
        write!(address, "{mark}tenant={}", name.replace('|', "%7C"))?;
    }
    Ok(address)
}

/// Asks for a reload and waits for its end.
pub(crate) fn reload(args: &ReloadArgs) -> anyhow::Result<u8> {
    let answer = server::ask(&args.server, "POST", &address(&args.tenant)?)?;
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
