//! What the safe crates have no call for. The only `unsafe` code of the crate.
#![allow(unsafe_code, reason = "leases, for which rustix has no call")]

pub(crate) mod lease;
