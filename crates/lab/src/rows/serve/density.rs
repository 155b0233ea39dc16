//! Rows of many services on one machine: what each costs when it is asked, when it is not, and what neighbours notice of
//! it. Denali (2002) asked most of these questions for virtual machines.
//!
//! ```text
//!  Kind ──▶ Ground ──▶ Crowd of N ──▶ trial: start, first answer, memory, each once, rest, memory, requests
//!  who      guests and  a server's
//!  answers  files       settings
//! ```
//!
//! Guests are as many different ones: each has code and data of its own ([`crate::distinct`]). They are compiled before
//! anything is measured, as they are where a server starts anew. Servers have one thread and one processor, the
//! clients the others.

mod crowd;
mod idle;
mod jitter;
mod look;
mod neighbours;
mod services;

pub(in crate::rows) use idle::{Idle, What};
pub(in crate::rows) use jitter::Jitter;
pub(in crate::rows) use neighbours::Neighbours;
pub(in crate::rows) use services::Services;

use super::load::Popularity;
use crate::rows::Extent;
use crowd::Kind;

/// Denali's small and large object.
const SMALL: Object = Object {
    key: "small",
    title: "2,258 B",
    bytes: 2_258,
};
const LARGE: Object = Object {
    key: "large",
    title: "134,007 B",
    bytes: 134_007,
};

/// What is asked for.
#[derive(Debug)]
struct Object {
    /// In measures, before how many services there are.
    key: &'static str,
    title: &'static str,
    bytes: usize,
}

/// `den-f8`: up to ten thousand services that are asked by Zipf's law.
pub(in crate::rows) static POPULAR: Services = Services {
    kinds: &[Kind::Components, Kind::Filters, Kind::Programs, Kind::Nginx],
    counts: |extent| match extent {
        Extent::Full => &[1, 10, 100, 1_000, 10_000],
        Extent::Quick => &[1, 10, 100],
        Extent::Tiny => &[1, 3],
    },
    objects: &[SMALL, LARGE],
    popularity: Popularity::Zipf,
    alive: 500,
    has_budgets: true,
    least_kept: 0.9,
};

/// `den-f4`: a document of 100 KB, from up to 800 domains that are asked alike.
pub(in crate::rows) static DOCUMENTS: Services = Services {
    kinds: &[Kind::Programs, Kind::Components, Kind::Nginx],
    counts: |extent| match extent {
        Extent::Full => &[1, 10, 100, 400, 800],
        Extent::Quick => &[1, 10, 50],
        Extent::Tiny => &[1, 2],
    },
    objects: &[Object {
        key: "document",
        title: "100 KB",
        bytes: 100 << 10,
    }],
    popularity: Popularity::Even,
    alive: 1_000,
    has_budgets: false,
    least_kept: 0.95,
};
