//! What else happened on the machine while figures were taken: read before and after, and compared.

use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

/// Counters of the machine at one moment. What can't be read is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Moment {
    /// Ticks of all processors since boot, and those of them that the hypervisor gave to others
    /// (proc_stat(5), `steal`).
    ticks: Option<(u64, u64)>,
    /// Pages moved from and to swap since boot.
    swapped_pages: Option<u64>,
    /// Frequency of each processor, in MHz.
    frequencies_mhz: Vec<f64>,
    /// How often processors were slowed down for heat since boot.
    throttlings: u64,
}

/// What changed from one moment to a later one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Part of the processors' time that the hypervisor gave to other machines.
    pub stolen: Option<f64>,
    /// Pages moved from and to swap.
    pub swapped_pages: Option<u64>,
    /// The largest change of a processor's frequency, as a part of what it was.
    pub frequency_change: Option<f64>,
    /// How often a processor was slowed down for heat.
    pub throttlings: u64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self::of_files(Path::new("/"))
    }

    fn of_files(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        Self {
            ticks: ticks(&text("proc/stat")),
            swapped_pages: swapped_pages(&text("proc/vmstat")),
            frequencies_mhz: frequencies(&text("proc/cpuinfo")),
            throttlings: throttlings(&root.join("sys/devices/system/cpu")),
        }
    }

    /// What happened from this moment to `later`.
    pub(crate) fn until(&self, later: &Self) -> Conditions {
        let stolen = self.ticks.zip(later.ticks);
        let swapped = self.swapped_pages.zip(later.swapped_pages);
        let frequencies = self.frequencies_mhz.iter().zip(&later.frequencies_mhz);
        Conditions {
            stolen: stolen.and_then(|(from, to)| part(from, to)),
            swapped_pages: swapped.map(|(from, to)| to.saturating_sub(from)),
            frequency_change: frequencies
                .map(|(from, to)| (to / from - 1.0).abs())
                .max_by(f64::total_cmp),
            throttlings: later.throttlings.saturating_sub(self.throttlings),
        }
    }
}

/// Of the ticks between, the part that was stolen.
fn part(from: (u64, u64), to: (u64, u64)) -> Option<f64> {
    let all = to.0.checked_sub(from.0).filter(|all| *all > 0)?;
    Some(to.1.saturating_sub(from.1) as f64 / all as f64)
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; what guests
/// of this machine took is in user already.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    const STEAL: usize = 7;
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Option<Vec<u64>> = fields
        .split_whitespace()
        .take(STEAL + 1)
        .map(|field| field.parse().ok())
        .collect();
    let ticks = ticks.filter(|ticks| ticks.len() > STEAL)?;
    Some((ticks.iter().sum(), ticks[STEAL]))
}

fn swapped_pages(vmstat: &str) -> Option<u64> {
    let counter = |name: &str| -> Option<u64> {
        let mut lines = vmstat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name)?.1.parse().ok()
    };
    Some(counter("pswpin")? + counter("pswpout")?)
}

fn frequencies(cpuinfo: &str) -> Vec<f64> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    fields
        .filter(|(key, _)| key.trim() == "cpu MHz")
        .filter_map(|(_, value)| value.trim().parse().ok())
        .collect()
}

/// Of all cores; a virtual machine has no such counters.
fn throttlings(processors: &Path) -> u64 {
    let folders = fs::read_dir(processors).into_iter().flatten().flatten();
    folders
        .filter_map(|folder| {
            let path = folder.path().join("thermal_throttle/core_throttle_count");
            fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(files: &[(&str, &str)]) -> Moment {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Moment::of_files(root.path())
    }

    #[test]
    fn a_noisy_while_is_told_from_two_moments() {
        let throttle = "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count";
        let before = moment(&[
            ("proc/stat", "cpu  100 0 50 800 0 0 0 50 0 0\ncpu0 1 1\n"),
            ("proc/vmstat", "pgpgin 7\npswpin 10\npswpout 5\n"),
            ("proc/cpuinfo", "processor : 0\ncpu MHz : 2000.000\n"),
            (throttle, "3\n"),
        ]);
        let after = moment(&[
            ("proc/stat", "cpu  500 0 150 1200 0 0 0 150 0 0\ncpu0 1 1\n"),
            ("proc/vmstat", "pgpgin 9\npswpin 12\npswpout 6\n"),
            ("proc/cpuinfo", "processor : 0\ncpu MHz : 1500.000\n"),
            (throttle, "4\n"),
        ]);
        let conditions = before.until(&after);
        assert_eq!(
            conditions,
            Conditions {
                stolen: Some(0.1),
                swapped_pages: Some(3),
                frequency_change: Some(0.25),
                throttlings: 1,
            }
        );
    }

    #[test]
    fn what_cannot_be_read_is_absent() {
        let nothing = moment(&[("proc/stat", "cpu  1 2\n")]);
        assert_eq!(nothing.until(&nothing), Conditions::default());
        assert_eq!(nothing, Moment::default());
    }

    #[test]
    fn this_machine_counts_its_ticks() {
        assert!(Moment::now().ticks.is_some());
    }
}
