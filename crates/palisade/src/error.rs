//! What can go wrong that is not the guest's end.

use palisade_policy::ValueError;
use palisade_process::{DomainError, LaunchError, plan::PlanError};
use palisade_wasm::{guest::GuestPlanError, launch::StartError};

/// Palisade refused or failed. How a guest ended is never an error: it is in the
/// [`Report`](crate::Report).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A grant's path is not one.
    #[error("policy: {0}")]
    Grant(#[from] ValueError),
    /// The policy can't be carried out on this machine.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The guest could not be started. Nothing of the domain is left.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The guest is WebAssembly, and there is no plan for it.
    #[error(transparent)]
    WasmPlan(GuestPlanError),
    /// The guest is WebAssembly and could not be compiled or started. Nothing of the domain is left.
    #[error(transparent)]
    WasmStart(StartError),
    /// The wall failed while the guest ran. The guest is ended.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// A standard stream could not be prepared or read.
    #[error("host: cannot prepare or read a standard stream: {0}")]
    Stream(#[from] std::io::Error),
    /// The guest would have read this process's terminal.
    #[error(
        "policy: stdin is a terminal, which a guest must not have: use Stdio::null() or Stdio::piped()"
    )]
    StdinIsTerminal,
}

impl From<GuestPlanError> for Error {
    fn from(error: GuestPlanError) -> Self {
        match error {
            GuestPlanError::Process(error) => Self::Plan(error),
            error => Self::WasmPlan(error),
        }
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Launch(error) => Self::Launch(error),
            error => Self::WasmStart(error),
        }
    }
}
