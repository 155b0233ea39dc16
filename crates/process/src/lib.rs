//! The process wall.
pub mod cgroup;
mod domain;
mod encode;
mod host;
mod keeper;
mod launch;
mod layout;
mod machine;
pub mod plan;
pub mod seccomp;
mod sys;
mod view;
mod wire;

pub use domain::{Domain, DomainError, Event};
pub use host::{Found, Host, Identity, Kind, ThisHost};
pub use keeper::KeeperError;
pub use launch::{LaunchError, Launcher, Streams, Terminal};
pub use machine::{Machine, Tier};
pub use wire::Step as LaunchStep;
