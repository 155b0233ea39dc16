//! `palisade reload`: a new configuration, or why not.

use super::server;
use crate::{args::ReloadArgs, say};
use anyhow::{Context, bail};
use palisade_policy::visible;
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
            bail!(
                "usage: --tenant: no tenant is called `{}`: a name has letters, digits and - _ . | :",
                visible(name)
            );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_tenant_is_asked_for() {
        let of = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            address(&names).map_err(|error| error.to_string())
        };
        assert_eq!(of(&[]), Ok("/reload".into()));
        assert_eq!(
            of(&["a", "b|c"]),
            Ok("/reload?tenant=a&tenant=b%7Cc".into())
        );
        for name in ["", "a b", "a&tenant=b", "a HTTP/1.1\r\n", "\u{1b}[2J"] {
            let refusal = of(&[name]).unwrap_err();
            assert!(refusal.starts_with("usage: --tenant: "), "{refusal}");
            assert!(!refusal.contains(char::is_control), "{refusal:?}");
        }
    }
}
