//! The machine that figures were taken on, as far as it shows in them.

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

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
            build: if cfg!(debug_assertions) {
                "debug".to_owned()
            } else {
                "release".to_owned()
            },
            ..Self::of_files(Path::new("/"))
        }
    }

    /// What stands in the files below `root`.
    fn of_files(root: &Path) -> Self {
        let files = Files(root);
        let cpuinfo = files.text("proc/cpuinfo").unwrap_or_default();
        let meminfo = files.text("proc/meminfo").unwrap_or_default();
        let swap = field_kib(&meminfo, "SwapTotal").zip(field_kib(&meminfo, "SwapFree"));
        Self {
            host: files.line("proc/sys/kernel/hostname"),
            cgroups: files.cgroups(),
            kernel: files.kernel(),
            kernel_options: files.kernel_options(),
            processor: field(&cpuinfo, "model name"),
            processors: cpuinfo
                .lines()
                .filter(|line| line.starts_with("processor"))
                .count(),
            memory_bytes: field_kib(&meminfo, "MemTotal"),
            swap_used_bytes: swap.map(|(total, free)| total - free),
            virtual_machine: field(&cpuinfo, "flags")
                .map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            kernel_build: files.kernel_build(),
            rcu: files.rcu(),
            file_system: files.file_system(&std::env::temp_dir()),
            page_cache_bytes: field_kib(&meminfo, "Cached"),
            dirty_bytes: field_kib(&meminfo, "Dirty"),
            governor: files.governor(),
            clock_source: files
                .line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            huge_pages: files
                .line("sys/kernel/mm/transparent_hugepage/enabled")
                .map(|line| chosen(&line)),
            mitigations: files.mitigations(),
            load: files
                .line("proc/loadavg")
                .and_then(|line| line.split(' ').next()?.parse().ok()),
            ..Self::default()
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

/// Files of the kernel's, below some root.
struct Files<'a>(&'a Path);

impl Files<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    fn line(&self, path: &str) -> Option<String> {
        self.text(path).map(|text| text.trim().to_owned())
    }

    fn kernel(&self) -> Option<String> {
        let release = self.line("proc/sys/kernel/osrelease")?;
        let build = self.line("proc/sys/kernel/version").unwrap_or_default();
        Some(format!("{release} {build}").trim_end().to_owned())
    }

    /// The boot options that change timing; the others may say things that nobody wants published.
    fn kernel_options(&self) -> Vec<String> {
        const TIMING: [&str; 9] = [
            "mitigations",
            "spec",
            "clocksource",
            "nohz",
            "rcu",
            "idle",
            "isolcpus",
            "preempt",
            "transparent_hugepage",
        ];
        let line = self.line("proc/cmdline").unwrap_or_default();
        let of_timing = |option: &&str| TIMING.iter().any(|name| option.starts_with(name));
        line.split(' ')
            .filter(of_timing)
            .map(ToOwned::to_owned)
            .collect()
    }

    /// From `/proc/config.gz` or the file beside the kernel, whichever there is.
    fn kernel_build(&self) -> Vec<String> {
        const TIMING: [&str; 5] = [
            "CONFIG_HZ=",
            "CONFIG_NO_HZ_",
            "CONFIG_PREEMPT",
            "CONFIG_RCU_",
            "CONFIG_HARDENED_USERCOPY",
        ];
        let text = self.kernel_config().unwrap_or_default();
        let of_timing = |line: &&str| TIMING.iter().any(|name| line.starts_with(name));
        text.lines()
            .filter(of_timing)
            .map(ToOwned::to_owned)
            .collect()
    }

    fn kernel_config(&self) -> Option<String> {
        let release = self.line("proc/sys/kernel/osrelease")?;
        let Ok(packed) = fs::File::open(self.path("proc/config.gz")) else {
            return self.text(&format!("boot/config-{release}"));
        };
        let mut text = String::new();
        GzDecoder::new(packed).read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn rcu(&self) -> BTreeMap<String, String> {
        let settings = ["rcu_expedited", "rcu_normal"];
        settings
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.line(&format!("sys/kernel/{name}"))?)))
            .collect()
    }

    /// Version 2 may be mounted with no controllers beside a version 1 that has them.
    fn cgroups(&self) -> Option<String> {
        let unified = self.line("sys/fs/cgroup/cgroup.controllers");
        if unified.is_some_and(|controllers| !controllers.is_empty()) {
            return Some("2".to_owned());
        }
        let first = self.path("sys/fs/cgroup/memory").is_dir();
        first.then(|| "1".to_owned())
    }

    /// Type of the mount that `path` lies below.
    fn file_system(&self, path: &Path) -> Option<String> {
        let mounts = self.text("proc/self/mountinfo")?;
        let of_line = |line: &str| {
            let (mount, source) = line.split_once(" - ")?;
            let point = mount.split(' ').nth(4)?.to_owned();
            Some((point, source.split(' ').next()?.to_owned()))
        };
        let above = mounts.lines().filter_map(of_line);
        above
            .filter(|(point, _)| path.starts_with(point))
            .max_by_key(|(point, _)| point.len())
            .map(|(_, kind)| kind)
    }

    fn governor(&self) -> Option<String> {
        let folder = "sys/devices/system/cpu/cpu0/cpufreq";
        let governor = self.line(&format!("{folder}/scaling_governor"))?;
        let driver = self
            .line(&format!("{folder}/scaling_driver"))
            .unwrap_or_default();
        Some(format!("{governor} {driver}").trim_end().to_owned())
    }

    fn mitigations(&self) -> BTreeMap<String, String> {
        let folder = "sys/devices/system/cpu/vulnerabilities";
        let entries = fs::read_dir(self.path(folder))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let state = self.line(&format!("{folder}/{name}"))?;
                (state != "Not affected").then_some((name, state))
            })
            .collect()
    }
}

/// The value of the first `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields
        .into_iter()
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

/// A field of `/proc/meminfo`, in bytes.
fn field_kib(text: &str, name: &str) -> Option<u64> {
    let kib: u64 = field(text, name)?.strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// The word in brackets of `always [madvise] never`.
fn chosen(line: &str) -> String {
    let inner = line
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(line, |(word, _)| word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let root = tree(&[
            ("proc/sys/kernel/hostname", "box\n"),
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n"),
            (
                "proc/cmdline",
                "root=/dev/secret mitigations=off quiet rcupdate.rcu_expedited=1\n",
            ),
            (
                "proc/cpuinfo",
                "processor : 0\nmodel name\t: EPYC\nflags : fpu hypervisor\n\nprocessor : 1\nmodel name : EPYC\n",
            ),
            (
                "proc/meminfo",
                "MemTotal:  1024 kB\nCached: 512 kB\nDirty: 4 kB\nSwapTotal:  64 kB\nSwapFree:  60 kB\n",
            ),
            (
                "boot/config-6.12.1",
                "CONFIG_HZ=250\nCONFIG_NET=y\nCONFIG_PREEMPT_DYNAMIC=y\n",
            ),
            ("sys/kernel/rcu_expedited", "0\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            (
                "proc/self/mountinfo",
                "1 1 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / /tmp rw - tmpfs tmpfs rw\n",
            ),
            ("proc/loadavg", "0.32 0.47 0.36 1/92 21005\n"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "performance\n",
            ),
            (
                "sys/devices/system/cpu/vulnerabilities/meltdown",
                "Not affected\n",
            ),
            (
                "sys/devices/system/cpu/vulnerabilities/spectre_v2",
                "Mitigation: IBPB\n",
            ),
        ]);
        let environment = Environment::of_files(root.path());
        assert_eq!(
            environment,
            Environment {
                host: Some("box".into()),
                cgroups: Some("2".into()),
                kernel: Some("6.12.1 #1 SMP PREEMPT_DYNAMIC".into()),
                kernel_options: vec!["mitigations=off".into(), "rcupdate.rcu_expedited=1".into()],
                processor: Some("EPYC".into()),
                processors: 2,
                memory_bytes: Some(1 << 20),
                swap_used_bytes: Some(4096),
                virtual_machine: Some(true),
                kernel_build: vec!["CONFIG_HZ=250".into(), "CONFIG_PREEMPT_DYNAMIC=y".into()],
                rcu: [("rcu_expedited".into(), "0".into())].into(),
                file_system: Some("tmpfs".into()),
                page_cache_bytes: Some(512 << 10),
                dirty_bytes: Some(4096),
                governor: Some("performance".into()),
                huge_pages: Some("madvise".into()),
                mitigations: [("spectre_v2".into(), "Mitigation: IBPB".into())].into(),
                load: Some(0.32),
                ..Environment::default()
            }
        );
    }

    #[test]
    fn a_machine_is_called_by_its_host_or_its_processor() {
        let machine = |host: &str, processor: &str| {
            let environment = Environment {
                host: Some(host.to_owned()),
                processor: Some(processor.to_owned()),
                ..Environment::default()
            };
            environment.machine()
        };
        let intel = "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz";
        assert_eq!(machine("Anna's T480.example.org", intel), "anna-s-t480");
        assert_eq!(machine("../../etc", intel), "intel-core-i7-8650u");
        assert_eq!(
            machine("localhost.localdomain", intel),
            "intel-core-i7-8650u"
        );
        assert_eq!(
            machine("4f2e91ab03cd", "AMD EPYC 7B13 64-Core Processor"),
            "amd-epyc-7b13"
        );
        assert_eq!(machine("", "AMD EPYC"), "amd-epyc");
    }

    #[test]
    fn the_command_can_be_pasted() {
        let environment = Environment {
            command_line: ["palisade", "bench", "--out", "my runs", "it's"]
                .map(ToOwned::to_owned)
                .to_vec(),
            ..Environment::default()
        };
        assert_eq!(
            environment.command(),
            r"palisade bench --out 'my runs' 'it'\''s'"
        );
    }

    #[test]
    fn what_is_not_there_is_not_guessed() {
        let root = tree(&[]);
        assert_eq!(Environment::of_files(root.path()), Environment::default());
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_processor() {
        let environment = Environment::of_this_machine();
        assert!(
            environment.kernel.is_some()
                && environment.processors > 0
                && environment.memory_bytes.is_some()
        );
    }
}
