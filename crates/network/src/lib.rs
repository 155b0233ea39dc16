//! What network grants come to on a machine, and what they allow.
//!
//! A wall asks this crate for each decision, so that one grant means the same behind every wall. It
//! makes no socket for a guest: that is the wall's broker's. It looks names up, keeps their
//! addresses up to date, and has the proxy that a wildcard (`*.example.com`) goes through.
//!
//! ```text
//!  grants ──Network::resolve──▶ Network ──Gate::new──▶ Gate ◀──asks── broker
//!              │ looks names up                          ▲  ▲
//!              ▼                                 new pins│  └──asks── Proxy (wildcards)
//!          Resolve ◀───────────asks again──────────── Refresh
//! ```
//!
//! Every decision is about the [canonical form](address::canonical) of an address.

pub mod address;
mod datagrams;
mod flag;
mod gate;
mod lock;
mod names;
mod network;
mod observation;
pub mod proxy;
mod question;
mod refresh;
mod refusal;
mod stand_ins;
mod sys;
mod wait;
mod withheld;

pub use gate::Gate;
pub use names::{Answer, Resolve, ResolveError, SystemResolver, service};
pub use network::{
    AddressRule, GiveError, ListenPlace, ListenRule, NameRule, Network, NetworkError, Pins,
    PublicRule, ReadyListener, Uses, WildcardRule, canonical_flag,
};
pub use observation::{Call, Observation, Observations, Process, Target};
pub use proxy::{Listening, Proxy};
pub use question::{Asked, answer as answer_question};
pub use refresh::Refresh;
pub use refusal::{HelloFault, ProxyRefusal, Reason, Refusal, RequestFault};
pub use stand_ins::StandIns;
pub use withheld::{Withheld, is_withheld};
