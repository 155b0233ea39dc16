//! The account of a domain: how it ended, what was enforced, what it used.

use crate::{Ending, Exit, Process, ask::Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the report's shape; a field that changes its meaning raises it, a new one does not.
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
    /// How `palisade run` was called, where it was that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<Called>,
    /// The guest's own end.
    pub exit: Exit,
    /// Who or what brought it about.
    pub ending: Ending,
    /// The exit code the launcher answers with.
    pub exit_code: u8,
    /// The rule of its own machine that the guest broke, where that ended it: WebAssembly's
    /// `unreachable`, with the functions that were running. Text of the guest's, made visible.
    #[serde(default)]
    pub trap: Option<String>,
    /// The protected path that somebody outside moved, replaced or removed, where that ended the guest.
    #[serde(default)]
    pub lost: Option<String>,
    /// Per capability: what was asked for and what was enforced.
    pub enforcement: Vec<Enforcement>,
    /// What was denied, as far as the wall's mechanisms can tell.
    pub denials: Vec<Denial>,
    /// The start and the end, step by step.
    pub phases: Vec<Phase>,
    /// What the whole domain used.
    pub usage: Usage,
    /// What a watched guest had of places that were granted, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub had: Vec<Had>,
    /// What the guest was granted while it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<Granted>,
}

/// How `palisade run` was called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Called {
    /// In which folder.
    pub folder: String,
    /// What stood before the command, word by word; what a variable was set to is `…`.
    pub flags: Vec<String>,
}

/// A grant to a guest that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Granted {
    /// The flag that says the same.
    pub grant: String,
    /// Who was waiting for it, where it was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// How that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How often.
    pub count: u64,
    /// When, in µs after the guest began: the first time.
    pub at_us: u64,
    /// When it was taken back, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at_us: Option<u64>,
}

/// A place that was granted, and what a guest had of it, by its own word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Had {
    /// The granted place as the guest sees it, of what was read; the folder of what was changed, executed or made; of a library the
    /// file.
    pub place: String,
    /// What for.
    #[serde(rename = "for")]
    pub purpose: HadFor,
    /// Who was the first.
    pub process: Process,
}

/// What a guest has something of a granted place for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum HadFor {
    /// To read it, or to list it.
    Read,
    /// To make, change, rename or remove something.
    Write,
    /// To execute what lies where it may write.
    Execute,
    /// To read what has the name of a library, where it may write: it loads that, if it is there.
    Load,
    /// To make a socket or a FIFO there.
    Meet,
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
///
/// Tries that differ in nothing but their time are one denial with a count. Text that a guest chose
/// can be anything: whoever shows it on a terminal makes it visible first
/// ([`palisade_policy::visible`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// What was tried, as a noun: `a connection to tcp://192.0.2.1:443`, `a listener at tcp://*:80`,
    /// `more time`.
    pub what: String,
    /// The system call that was refused, by the kernel's name, where it was one.
    #[serde(default)]
    pub call: Option<String>,
    /// The address in that call, written as a grant has it: `tcp://192.0.2.1:443`.
    #[serde(default)]
    pub address: Option<String>,
    /// Why it was refused, as a clause: `no grant covers it`.
    #[serde(default)]
    pub reason: Option<String>,
    /// Who tried it first, where the mechanism tells.
    #[serde(default)]
    pub process: Option<Process>,
    /// How that process ended, where the kernel tells: Linux 6.15, for what the supervisor hears of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Exit>,
    /// How often, where the mechanism counts.
    pub count: Option<u64>,
    /// The flag that would have allowed it, with its value where it has one.
    pub grant: Option<String>,
    /// Whether nothing was lost by it: getaddrinfo(3) tries the routes to a name's addresses by
    /// connecting without sending, and goes on with the others.
    #[serde(default)]
    pub probe: bool,
}

impl Denial {
    /// Whether the process that tried it failed later on. Who was killed may have done well: so ends what is left of a domain.
    pub fn is_of_failed(&self) -> bool {
        const SIGKILL: u8 = 9;
        let well = [Exit::Code(0), Exit::Signal(SIGKILL)];
        self.ended.is_some_and(|exit| !well.contains(&exit))
    }
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
    /// User time in µs. Where a cgroup counts, as with `--cpu-time`, it is that of all processes of the
    /// domain, its init included; else that of the guest and of all children that were waited for.
    pub user_us: u64,
    /// System time in µs, counted in the same way, with what palisade used itself to answer the domain's
    /// network calls: `--cpu-time` counts both.
    pub system_us: u64,
    /// Largest resident set of a single process, in bytes.
    pub peak_process_bytes: u64,
    /// Largest memory of the whole domain, in bytes, where a cgroup counts it.
    pub peak_domain_bytes: Option<u64>,
    /// The most processes and threads of the domain at one time, its init included: with `--watch`, where a cgroup counts them, as
    /// with `--processes` and `--memory`, and the kernel tells: Linux 6.1, of groups of version 1 6.11.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_processes: Option<u64>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_of_older_reports_are_read() {
        let text = r#"{"what": "more time", "count": null, "grant": "--time"}"#;
        let expected = Denial {
            what: "more time".into(),
            grant: Some("--time".into()),
            ..Denial::default()
        };
        assert_eq!(serde_json::from_str::<Denial>(text).unwrap(), expected);
    }
}
