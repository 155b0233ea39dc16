//! The machine that figures were taken on, as far as it shows in them.

use flate2::read::GzDecoder;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

/// A machine and what was measured on it. What can't be found out is absent, not guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Environment {
    /// When the measuring began, in UTC.
    pub time: String,
    /// Release and build of the kernel.
    pub kernel: Option<String>,
    /// What the kernel was started with, where it changes timing: mitigations, clocks, RCU.
    pub kernel_options: Vec<String>,
    /// Architecture of the lab itself.
    pub architecture: &'static str,
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
    /// Version of the control groups that have controllers here.
    pub control_groups: Option<u32>,
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
    /// The processor that everything was kept on, where the row does that.
    pub pinned_to: Option<usize>,
    /// How the lab was built: `release` or `debug`.
    pub build: &'static str,
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
            architecture: std::env::consts::ARCH,
            uid: rustix::process::geteuid().as_raw(),
            build: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
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
            control_groups: files.control_groups(),
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
    fn control_groups(&self) -> Option<u32> {
        let unified = self.line("sys/fs/cgroup/cgroup.controllers");
        if unified.is_some_and(|controllers| !controllers.is_empty()) {
            return Some(2);
        }
        let first = self.path("sys/fs/cgroup/memory").is_dir();
        first.then_some(1)
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
                kernel: Some("6.12.1 #1 SMP PREEMPT_DYNAMIC".into()),
                kernel_options: vec!["mitigations=off".into(), "rcupdate.rcu_expedited=1".into()],
                processor: Some("EPYC".into()),
                processors: 2,
                memory_bytes: Some(1 << 20),
                swap_used_bytes: Some(4096),
                virtual_machine: Some(true),
                kernel_build: vec!["CONFIG_HZ=250".into(), "CONFIG_PREEMPT_DYNAMIC=y".into()],
                rcu: [("rcu_expedited".into(), "0".into())].into(),
                control_groups: Some(2),
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
