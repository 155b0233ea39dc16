//! Arguments of `palisade bench` and `palisade cost`, and those that `run` and `explain` share with them.

#![allow(
    missing_docs,
    reason = "clap would take the doc comment of a structure of flags for what the command is about"
)]

mod bench;
mod cost;
mod guest;
mod peers;
mod policy;

pub use bench::{BenchArgs, ROW_NAMES};
pub use cost::CostArgs;
pub use guest::GuestArgs;
pub use peers::{NO_PEER, PEER_NAMES, PeerArgs};
pub use policy::{CostPolicyArgs, PolicyArgs, SettingArgs};
