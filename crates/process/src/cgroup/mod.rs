//! Limits and accounting by cgroup, version 2 first and version 1 in full.
//!
//! ```text
//!   /proc/self/{cgroup,mountinfo} ──detect──▶ Hierarchies ──look──▶ Survey ─┐
//!                                                                 Need ─┴─plan─▶ Plan ──create──▶ Leaf
//! ```
//!
//! Up to the [`Plan`] everything is data; [`Leaf`] does what it says, and [`sweep()`] what a killed
//! owner could not do any more. Where the leaves go:
//!
//! | who | version 2 | version 1 |
//! |---|---|---|
//! | may write to the top | `<top>/palisade/<name>` | `<top>/palisade/<name>` |
//! | has a delegated group | `<group>/palisade-<name>`, after moving itself into `<group>/palisade-supervisor` if it must | `<group>/palisade-<name>` |
//! | neither | a [`Refusal`] that says how to change that | a [`Refusal`] |
//!
//! This does not end processes that outlive their domain: the pid namespace does. It talks to no
//! service manager.
//!
//! Why not a crate: those at hand speak to systemd over D-Bus or cover one of the two versions,
//! and none knows the way into a group of version 1 that costs microseconds (see [`Leaf`]).

mod detect;
mod freezer;
mod leaf;
mod meter;
#[cfg(test)]
mod model;
mod name;
mod plan;
mod refusal;
mod settings;
mod survey;
mod sweep;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod usage;

pub use detect::{Controller, Hierarchies, Hierarchy, Version, detect};
pub use freezer::Freezer;
pub(crate) use freezer::thaw;
pub use leaf::{CpuCounter, CreateError, EnterError, Leaf, RemoveError, places};
pub use meter::MemoryMeter;
pub use name::{LeafName, Owner};
pub use plan::{Enable, Need, Placement, Plan, plan};
pub use refusal::{Limit, Obstacle, Refusal, Unmet};
pub use settings::Setting;
pub use survey::{Base, Occupants, Survey, UsableHierarchy};
pub use sweep::{Sweep, sweep};
pub use usage::Usage;
