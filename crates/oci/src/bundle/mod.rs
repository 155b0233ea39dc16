//! From a bundle to a plan. Nothing is changed here; what a field cannot come to is refused with its name.

mod devices;
mod home;
mod identity;
mod load;
mod mounts;
mod plan;
mod process;
mod seccomp;

pub(crate) use load::{Bundle, known, load};
pub(crate) use mounts::MOUNT_OPTIONS;
pub(crate) use plan::{Making, plan};
pub(crate) use process::{attendant, candidates, check_rights, of_process, refusals};
pub(crate) use seccomp::{ACTIONS, ARCHITECTURES, OPERATORS};
