//! What a guest may reach (grants) and how much it may use (limits).
//!
//! A [`Policy`] is pure data: this crate reads no file, asks no kernel and has no `unsafe`. Paths
//! are kept as they were written (made absolute by the caller's base directory); whether they exist
//! is found out when a wall resolves the policy on a machine.
//!
//! Everything is denied that is not granted. [`Policy::default`] grants the read-only system view
//! and nothing else; [`Policy::nothing`] grants nothing at all.
//!
//! ```text
//!  policy file ──PolicyLayer::from_toml──▶ PolicyLayer ─┐
//!                                                       ├─Policy::from_layers──▶ Policy ──validate──▶ ok
//!  flags ──Setting::set──▶ PolicyLayer ─────────────────┘
//! ```
//!
//! Each thing that can be said is described once, as a [`Setting`]: its key, its flag, its values.
//!
//! What was typed ([`PolicyLayer`], where everything may be unset) and what it came to ([`Policy`])
//! are two types, so that a flag can tell "not said" from "said no".
//!
//! ```
//! use std::path::Path;
//! use palisade_policy::{Access, FileGrant, Policy, PolicyLayer};
//!
//! let base = Path::new("/home/ada/project");
//! let file = PolicyLayer::from_toml("[limits]\nmemory = '512M'", "policy.toml", base)?;
//! let flags = PolicyLayer {
//!     files: vec![FileGrant::parse(Access::Read, "src:/work", base)?],
//!     ..PolicyLayer::default()
//! };
//! let policy = Policy::from_layers([file, flags]);
//! policy.validate()?;
//! assert_eq!(policy.limits.memory_bytes, Some(512 << 20));
//! assert_eq!(policy.grants.files[0].host, Path::new("/home/ada/project/src"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod contradiction;
pub mod document;
mod grant;
mod layer;
mod limit;
mod mechanism;
mod policy;
mod policy_file;
mod quote;
pub mod setting;
pub mod value;

pub use contradiction::{Contradiction, NetworkContradiction};
pub use grant::{
    Access, ConnectGrant, DeviceGrant, EnvFileError, EnvFileProblem, EnvGrant, FileGrant, Grants,
    HostName, HostPattern, IpNetwork, ListenAddress, ListenGrant, Pattern, Ports, Profile,
    Transport, UnixGrant, parse_env_file,
};
pub use layer::PolicyLayer;
pub use limit::Limits;
pub use mechanism::{Capability, WallKind};
pub use policy::{Policy, PolicyError};
pub use policy_file::{NotUnicode, TomlError, policy_schema};
pub use quote::{acts_on_terminal, quote, visible, visible_json, visible_lines, write_line};
pub use setting::Setting;
pub use value::ValueError;
