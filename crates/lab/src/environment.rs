//! The machine that figures were taken on, as far as it shows in them.

mod files;

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

/// A machine and what was measured on it. What can't be found out is absent, not guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// When the measuring began, in UTC.
    pub time: String,
    /// What the machine is called.
    pub host: Option<String>,
    /// Release and build of the kernel.
    pub kernel: Option<String>,
    /// What the kernel was started with, where it changes timing: mitigations, clocks, RCU.
    pub kernel_options: Vec<String>,
    /// Architecture of the lab itself.
    pub architecture: String,
    /// Model of the processor.
    pub processor: Option<String>,
    /// How many processors are on line.
    pub processors: usize,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Swap in use, in bytes.
    pub swap_used_bytes: Option<u64>,
    /// Whether the processor says that it is a virtual one.
    pub virtual_machine: Option<bool>,
    /// What the kernel was built with, where it changes timing: its tick, preemption, RCU.
    pub kernel_build: Vec<String>,
    /// Settings of RCU, whose grace periods are in the making and ending of namespaces.
    pub rcu: BTreeMap<String, String>,
    /// File system that workloads lie on.
    pub file_system: Option<String>,
    /// Files in the page cache before the measuring, in bytes.
    pub page_cache_bytes: Option<u64>,
    /// What of them is not yet on disk, in bytes.
    pub dirty_bytes: Option<u64>,
    /// Who sets the processor's frequency, and how.
    pub governor: Option<String>,
    /// What time is read from.
    pub clock_source: Option<String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// TCP's congestion control: `cubic`, `reno` or `bbr`, say.
    pub congestion_control: Option<String>,
    /// Per weakness of the processor, what the kernel does about it. Those that the processor does
    /// not have are left out.
    pub mitigations: BTreeMap<String, String>,
    /// Load average of the last minute, before the measuring.
    pub load: Option<f64>,
    /// Effective user id.
    pub uid: u32,
    /// What a domain of this user can have: the full wall of root or of an ordinary user, or less.
    pub tier: Option<String>,
    /// Version of the control groups, `1` or `2`.
    pub cgroups: Option<String>,
    /// What the system view is made of, for each piece costs a start its system calls.
    pub system_view: Option<String>,
    /// How the lab was built: `release` or `debug`.
    pub build: String,
    /// Version of each tool.
    pub tools: BTreeMap<String, String>,
    /// The command that makes these figures again.
    pub command_line: Vec<String>,
}

impl Environment {
    /// Asks this machine.
    pub fn of_this_machine() -> Self {
        Self {
            time: crate::date::format_time(std::time::SystemTime::now()),
            architecture: std::env::consts::ARCH.to_owned(),
            uid: rustix::process::geteuid().as_raw(),
            tier: Some(tier()),
            system_view: Some(palisade_process::system_view_of(
                &palisade_process::ThisHost,
            )),
            build: if cfg!(debug_assertions) {
                "debug".to_owned()
            } else {
                "release".to_owned()
            },
            ..Self::of_files(Path::new("/"))
        }
    }
}

/// What `palisade doctor` calls the tier.
fn tier() -> String {
    let tier = palisade::Machine::probe().tier;
    serde_json::to_value(tier)
        .ok()
        .and_then(|name| name.as_str().map(ToOwned::to_owned))
        .unwrap_or_default()
}

/// What says nothing about a machine: names that installers, containers and images give.
const EVERYBODYS_NAMES: [&str; 10] = [
    "localhost",
    "debian",
    "ubuntu",
    "fedora",
    "linux",
    "vm",
    "host",
    "builder",
    "runner",
    "none",
];

impl Environment {
    /// A name for a folder of this machine's runs: the host's, or the processor's where that says
    /// nothing. Small letters, digits and dashes.
    pub fn machine(&self) -> String {
        let host = self.host.as_deref().unwrap_or_default();
        let host = path_word(host.split('.').next().unwrap_or_default());
        let is_number = host
            .chars()
            .all(|letter| letter.is_ascii_hexdigit() || letter == '-');
        if !is_number && !EVERYBODYS_NAMES.contains(&host.as_str()) {
            return host;
        }
        let processor = self.processor.as_deref().unwrap_or(&self.architecture);
        path_word(&short_processor(processor))
    }

    /// What a reader of figures wants to know of the machine, each with its name.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "not known".to_owned());
        let processor = self.processor.as_deref().unwrap_or(&self.architecture);
        let virtual_machine = match self.virtual_machine {
            Some(true) => " (a virtual machine)",
            _ => "",
        };
        let mitigations = self.mitigations.iter();
        let mitigations: Vec<_> = mitigations
            .map(|(name, state)| format!("{name}: {state}"))
            .collect();
        let facts = [
            (
                "processor",
                format!("{} × {processor}{virtual_machine}", self.processors),
            ),
            (
                "memory",
                self.memory_bytes.map_or_else(|| known(&None), gibibytes),
            ),
            (
                "swap in use",
                self.swap_used_bytes.map_or_else(|| known(&None), gibibytes),
            ),
            ("kernel", format!("Linux {}", known(&self.kernel))),
            ("kernel options", self.kernel_options.join(" ")),
            (
                "frequency",
                self.governor
                    .clone()
                    .unwrap_or_else(|| "not ours to see".to_owned()),
            ),
            ("clock", known(&self.clock_source)),
            ("huge pages", known(&self.huge_pages)),
            ("TCP", self.congestion_control.clone().unwrap_or_default()),
            ("kernel build", self.kernel_build.join(" ")),
            ("file system", known(&self.file_system)),
            ("mitigations", mitigations.join("; ")),
            (
                "load before",
                self.load
                    .map_or_else(|| known(&None), |load| format!("{load:.2}")),
            ),
            ("user", self.user()),
            ("control groups", known(&self.cgroups)),
            (
                "tools",
                self.tools.values().cloned().collect::<Vec<_>>().join(", "),
            ),
            ("build", self.build.clone()),
            ("measured", self.time.replace('T', " ").replace('Z', " UTC")),
        ];
        let is_known = |fact: &(&str, String)| !fact.1.is_empty();
        facts.into_iter().filter(is_known).collect()
    }

    fn user(&self) -> String {
        let who = if self.uid == 0 {
            "root"
        } else {
            "an ordinary user"
        };
        let tier = self.tier.as_deref().unwrap_or("not known");
        format!("{who} (wall: {tier})")
    }

    /// The command that makes the figures again, as a shell takes it.
    pub fn command(&self) -> String {
        let words = self.command_line.iter().map(|word| quoted(word));
        words.collect::<Vec<_>>().join(" ")
    }
}

fn gibibytes(bytes: u64) -> String {
    const GIB: f64 = (1u64 << 30) as f64;
    format!("{:.1} GiB", bytes as f64 / GIB)
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+%@".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// `Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz` is `Intel Core i7-8650U`.
fn short_processor(model: &str) -> String {
    let name = model.split('@').next().unwrap_or(model);
    let name = name
        .replace("(R)", " ")
        .replace("(TM)", " ")
        .replace("(tm)", " ");
    let says_much = |word: &&str| !["CPU", "Processor"].contains(word) && !word.ends_with("-Core");
    name.split_whitespace()
        .filter(says_much)
        .collect::<Vec<_>>()
        .join(" ")
}

/// In small letters, digits and single dashes.
fn path_word(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests;
