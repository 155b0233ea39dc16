//! `palisade-oci` as engines meet it: bundles that are made here, of the host's own programs.
//!
//! What needs no rights runs as an ordinary user too, in a user namespace.

mod oci {
    mod attacks;
    mod broker;
    mod cgroups;
    mod fixture;
    mod hooks;
    mod lifecycle;
    mod mounts;
    mod process;
    mod refusals;
    mod terminal;
    mod wasm;
    mod watch;
}
