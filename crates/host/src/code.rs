//! Compiled code of filters and components, loaded when a request first needs it.
//!
//! ```text
//!                 not compiled                    compiled
//!  first request ─────────────▶ CompileQueue ───────────────┐
//!      │ in the cache                                       ▼
//!      └─────────────────────────────────────────────▶ loaded: mapped, linked ──over the budget──▶ absent
//!                                                       all workers'               least used
//! ```
//!
//! | what | is |
//! |---|---|
//! | `OnDemand` | the code of one filter or component: absent, on its way, loaded, or broken |
//! | `CodeStore` | what all share: the cache on disk, the budget, who compiles |
//! | `CodeBudget` | what is loaded, and who goes when it is too much |
//! | `CompileQueue` | what is compiled in the background, what requests wait for first |
//!
//! Few modules are compiled and loaded with their configuration, so that one that is broken is refused with it. Of many
//! only the files are looked at; they are compiled in the background if need be.
//!
//! A module is read when its code is first needed. What comes to lie in its place afterwards is not looked at before the
//! next reload, as long as the code is in the cache.

mod budget;
mod error;
mod limits;
mod on_demand;
mod queue;
mod store;

pub use budget::CodeFigures;
pub use error::CodeError;
pub use limits::{CodeLimits, CodeLimitsSetting};
pub use store::CodeStore;

pub(crate) use on_demand::{Link, NotReady, OnDemand, Source, loads_of_thread};
pub(crate) use store::Preload;
