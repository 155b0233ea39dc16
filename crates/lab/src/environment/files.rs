//! What the kernel's files say of a machine.

use super::Environment;
use flate2::read::GzDecoder;
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

impl Environment {
    /// What stands in the files below `root`.
    pub(super) fn of_files(root: &Path) -> Self {
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
            congestion_control: files.line("proc/sys/net/ipv4/tcp_congestion_control"),
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
