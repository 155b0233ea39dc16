//! The attack suite: hostile guests against a wall, judged from outside.
//!
//! ```text
//!  runner (tests/matrix.rs, scoreboard)             one per machine
//!    └─ arena: own pid, mount, uts, ipc and net namespaces, outer limits, watchdog
//!         └─ warden, its PID 1: makes the fixtures, launches, looks, judges
//!              ├─ victims and servers
//!              └─ tool (none, palisade, bubblewrap, …)
//!                   └─ guests/hostile ATTACK NONCE KEY=VALUE…
//! ```
//!
//! Every run has an arena of its own, behind a wall and without one alike: a wall
//! that fails lets the guest into the arena and no further.
//!
//! The rules that the table keeps:
//!
//! 1. With no wall the attack succeeds. Where the machine itself refuses it, the
//!    cases are reported as ignored with the errno: they would prove nothing.
//! 2. The verdict is a [`witness::Witness`]'s, never the guest's word. The few acts
//!    without an outside trace are [`witness::Witness::SelfReported`], and say so.
//! 3. The matrix is data: [`attacks::all`].
//! 4. Each attack has a [`attack::Control`] behind the same wall.
//! 5. The runner drives other tools too: [`tools`].
//! 6. Nothing hostile runs outside an [`arena`].

pub mod arena;
pub mod attack;
pub mod attacks;
pub mod bare;
pub mod catalogue;
pub mod containers;
pub mod equality;
pub mod executable;
pub mod fixtures;
pub mod modules;
pub mod outcome;
pub mod policy;
pub mod ports;
mod process;
pub mod runner;
pub mod served;
pub mod table;
pub mod tools;
pub mod user;
pub mod warden;
pub mod witness;

use std::path::PathBuf;

/// The generated enums: [`guests::Family`], one per family, [`guests::Probe`], and the guests that [`served`] has.
pub mod guests {
    include!(concat!(env!("OUT_DIR"), "/guests.rs"));
}

/// Where the build put the compiled guests.
const BUILT: &str = env!("OUT_DIR");

/// Why the build made no guests for the wasm wall, if so.
pub const NO_WASM_GUESTS: Option<&str> = option_env!("PALISADE_NO_WASM_GUESTS");

/// The same of those in Go.
pub const NO_GO_GUESTS: Option<&str> = option_env!("PALISADE_NO_GO_GUESTS");

/// The friendly guest `name` of `guests/friendly`, a static executable.
///
/// # Panics
///
/// If there is no such guest: the name is a typing error in a test.
#[must_use]
pub fn guest(name: &str) -> PathBuf {
    let path = PathBuf::from(BUILT).join("friendly").join(name);
    assert!(path.is_file(), "no guests/friendly/{name}.c");
    path
}

#[cfg(test)]
mod tests {
    use super::guest;

    #[test]
    fn true_ends_with_zero() {
        let status = std::process::Command::new(guest("true"))
            .status()
            .expect("run true");
        assert!(status.success());
    }

    #[test]
    #[should_panic(expected = "no guests/friendly/nothing.c")]
    fn an_unknown_guest_is_an_error() {
        let _ = guest("nothing");
    }
}
