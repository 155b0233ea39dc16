//! Containers: what an image and an engine ask for, carried out by a keeper of its own.
//!
//! ```text
//!  config.json ──front end──▶ Plan ──create──▶ Created ──start──▶ …  the engine's monitor waits for the program
//!                              │ every step, as data
//! ```
//!
//! A domain of a policy ([`crate::Launcher`]) is what palisade grants and nothing else. A container is what its image is:
//! another root, other users, capabilities in its namespaces. So it has a plan of its own, of plain steps, and shares with
//! domains what holds: the keeper's way of working, filters, Landlock.
//!
//! Whoever creates a container may leave: a keeper of some pages stays beside it, and one does not outlive the other
//! (`sys/keeper/containers.rs`).

mod create;
mod encode;
mod enter;
mod error;
mod executable;
mod namespaces;
mod plan;
mod start;
mod status;
mod supervisor;

pub use crate::wire::container::Step as FailedStep;
pub use crate::{broker::refusals::Filters, capabilities::CAPABILITIES};
pub use create::{Begun, Created, Creator, Given, create};
pub use enter::{Entered, enter};
pub use error::ContainerError;
pub use namespaces::{IdRange, Namespace, Namespaces};
pub use palisade_network::{Network, NetworkError, Resolve, SystemResolver};
pub use plan::{Bind, Credentials, Hook, Plan, Process, Source, Step, Terminal};
pub use start::start;
pub use status::{Identity, Status};
pub use supervisor::{Grants, Supervisor, host_network};

/// The newest Landlock interface of this kernel, 0 without.
pub fn landlock_abi() -> u32 {
    crate::sys::landlock_abi().unwrap_or(0)
}
