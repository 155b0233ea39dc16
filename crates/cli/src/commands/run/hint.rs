//! A hint for arguments that name host paths the guest can't see.

use crate::{denial, say};
use palisade_policy::visible;
use palisade_process::{
    Host, ThisHost,
    plan::{Plan, Surroundings},
};
use palisade_wall::Command;
use palisade_wasm::guest::GuestPlan;
use std::{ffi::OsStr, path::Path};

/// Prints the flag that would grant each argument that exists on the host and not inside.
pub(super) fn print(command: &Command, plan: &GuestPlan, surroundings: &Surroundings) {
    let Some(cwd) = &surroundings.cwd else {
        return;
    };
    // A module is read for the guest, which need not see it.
    let program = match plan {
        GuestPlan::Process(_) => Some(&command.program),
        GuestPlan::Wasm(_) => None,
    };
    let words = program.into_iter().chain(&command.arguments);
    for word in words.filter(|word| is_hidden(word, cwd, plan.domain())) {
        let word = visible(&word.to_string_lossy()).into_owned();
        say::line(&format!(
            "note: '{word}' exists on the host but is not granted: --read {}",
            denial::quote(&word)
        ));
    }
}

fn is_hidden(word: &OsStr, cwd: &Path, plan: &Plan) -> bool {
    let looks_like_a_path = !word.is_empty() && !word.as_encoded_bytes().starts_with(b"-");
    let path = cwd.join(word);
    looks_like_a_path
        && path != Path::new("/")
        && ThisHost.find(&path).is_ok()
        && !is_visible(&path, cwd, plan)
}

/// A path is found inside if it is shown there, and a relative one only from the same folder.
fn is_visible(path: &Path, cwd: &Path, plan: &Plan) -> bool {
    plan.shows(path) && (plan.cwd == cwd || !path.starts_with(cwd))
}
