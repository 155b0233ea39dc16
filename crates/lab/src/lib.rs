//! The lab: what a wall costs on this machine, beside no wall and beside other tools.
//!
//! ```text
//!  workload ──▶ run, interleaved ──▶ samples ──▶ statistics ──▶ figures ──▶ table, JSON
//!  a program     A B B A, by an       every one   medians,       against     and warnings where
//!  of ours       Executor             kept        intervals      a target    the figures are doubtful
//! ```
//!
//! How a number is made:
//!
//! - The contenders of a row take turns, A B B A, so that whatever drifts on the machine drifts
//!   for all of them ([`order`]).
//! - Rounds go on until every target is decided and the intervals are narrow, or the time is up ([`measure`]); past the
//!   row's own time with those alone whom an undecided target is about.
//! - The least that the kernel charges for a row stands beside it ([`floor`]). A peer that hangs is left out after
//!   seconds.
//! - A figure is a median with percentiles; a comparison is the median of each round's ratio or difference,
//!   with a 95 % interval, by bootstrap over whole rounds ([`statistics`]). Nothing is subtracted or
//!   dropped: the cost of starting a process is in every start, ours and theirs.
//! - Every sample is on disk before the next is taken, with the machine it was taken on
//!   ([`folder`], [`environment`]); a kept run can be read again ([`kept`]), shown as
//!   a page ([`page`]) or Markdown ([`markdown`]), and compared with another ([`compare`]).
//! - Doubts are values with advice ([`Warning`]).
//!
//! [`rows`] lists what can be measured and [`bench()`] measures some of them. A [`rows::Row`] is data
//! and a [`rows::Method`]: which contenders there are, and how the samples are shown. Everything between
//! is common, and a mock [`Executor`] makes it exactly testable.
//!
//! What it does not do: pin frequencies, stop other programs or otherwise make the machine quieter
//! than the user's is.

#![forbid(unsafe_code)]

mod bench;
mod beyond;
pub mod compare;
pub mod conditions;
pub mod cost;
mod date;
pub mod distinct;
pub mod environment;
pub mod figure;
pub mod floor;
pub mod folder;
pub mod jvm;
pub mod kept;
pub mod library;
mod limit;
pub mod markdown;
pub mod measure;
pub mod memory;
pub mod network;
mod notation;
pub mod order;
mod outcome;
pub mod page;
mod pin;
mod program;
mod readme;
mod rest;
pub mod rows;
mod said;
pub mod sample;
mod server;
pub mod statistics;
pub mod subjects;
pub mod table;
mod trial;
mod warning;
mod wasi;
pub mod workloads;

pub use bench::{Options, Outcomes, Progress, Show, bench};
pub use kept::{KeptRow, KeptRun};
pub use measure::Executor;
pub use outcome::{Doubt, Outcome};
pub use trial::Trial;
pub use warning::Warning;
