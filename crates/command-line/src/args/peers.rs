//! Which other tools to measure beside palisade, as a flag.

use clap::{Args, builder::PossibleValuesParser};

/// The tools that the lab knows, in the order of its tables. A test of the lab holds that these are all.
pub const PEER_NAMES: [&str; 11] = [
    "bubblewrap",
    "firejail",
    "sandlock",
    "crun",
    "runc",
    "runsc",
    "wasmtime",
    "node",
    "deno",
    "bridged",
    "pasta",
];
/// Nobody, as a name.
pub const NO_PEER: &str = "none";

// `--peers`.
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// Compare with these tools only, or with none; without the flag, with all that are installed
    /// (a row of bench that takes minutes: with bubblewrap, wasmtime and bridged alone)
    #[arg(
        long,
        value_name = "NAME,…|none",
        value_delimiter = ',',
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(PEER_NAMES.into_iter().chain([NO_PEER]))
    )]
    pub peers: Option<Vec<String>>,
}
