//! The account of a domain: how it ended, what was enforced, what it used.

use crate::{Ending, Exit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the report's shape; a field that changes its meaning raises it.
pub const REPORT_VERSION: u32 = 1;

/// How a domain ended, what was enforced and what it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Version of this shape.
    pub version: u32,
    /// The wall's name.
    pub wall: String,
    /// The command, word by word.
    pub command: Vec<String>,
    /// The guest's own end.
    pub exit: Exit,
    /// Who or what brought it about.
    pub ending: Ending,
    /// The exit code the launcher answers with.
    pub exit_code: u8,
    /// Per capability: what was asked for and what was enforced.
    pub enforcement: Vec<Enforcement>,
    /// What was denied, as far as the wall's mechanisms can tell.
    pub denials: Vec<Denial>,
    /// The start and the end, step by step.
    pub phases: Vec<Phase>,
    /// What the whole domain used.
    pub usage: Usage,
}

/// One capability: requested and actual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Enforcement {
    /// The capability, in the words of `--allow-degraded`.
    pub capability: String,
    /// What the policy asked for.
    pub requested: String,
    /// How much of it was enforced.
    pub actual: Level,
    /// By which mechanism, or why not.
    pub mechanism: String,
}

/// How much of a capability was enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// All of it.
    Full,
    /// A weaker form, which the user accepted.
    Degraded,
    /// None of it, which the user accepted.
    None,
}

/// Something the guest tried and did not get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// What was tried.
    pub what: String,
    /// How often, where the mechanism counts.
    pub count: Option<u64>,
    /// The flag that would have allowed it.
    pub grant: Option<String>,
}

/// One step of the start or the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The step's name.
    pub name: String,
    /// When it was finished, in µs after the domain was ordered.
    pub done_us: f64,
}

/// What a domain used, all its processes together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// From the guest's first instruction to its end, in µs.
    pub wall_us: u64,
    /// User time in µs.
    pub user_us: u64,
    /// System time in µs.
    pub system_us: u64,
    /// Largest resident set of a single process, in bytes.
    pub peak_process_bytes: u64,
    /// Largest memory of the whole domain, in bytes, where a cgroup counts it.
    pub peak_domain_bytes: Option<u64>,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Bytes read from block devices.
    pub read_bytes: u64,
    /// Bytes written to block devices.
    pub written_bytes: u64,
    /// Context switches the guest asked for.
    pub voluntary_switches: u64,
    /// Context switches the kernel forced.
    pub involuntary_switches: u64,
    /// Bytes of stdout and stderr, where palisade passed them on.
    pub output_bytes: Option<u64>,
    /// Processes that still ran at the guest's end and were ended with it.
    pub left_behind: u64,
}

/// The JSON schema of [`Report`].
pub fn report_schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}
