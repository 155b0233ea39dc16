//! From resources to what is written into which file.

use super::Version;
use anyhow::{Context, bail};
use oci_spec::runtime::{
    LinuxBlockIo, LinuxCpu, LinuxHugepageLimit, LinuxMemory, LinuxNetwork, LinuxResources,
    LinuxThrottleDevice,
};
use std::{fs, path::Path};

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// What the specification calls it.
    pub(super) name: String,
    pub(super) controller: &'static str,
    pub(super) file: String,
    pub(super) value: String,
    /// What the kernel has anyway without the file.
    pub(super) may_be_missing: bool,
}

/// A list under construction.
struct Settings {
    all: Vec<Setting>,
    version: Version,
}

impl Settings {
    /// One with a file in each version, or in one.
    fn add(
        &mut self,
        name: &str,
        controllers: (&'static str, &'static str),
        files: (&str, &str),
        value: Option<String>,
    ) -> anyhow::Result<()> {
        let Some(value) = value else { return Ok(()) };
        let (controller, file) = match self.version {
            Version::Two => (controllers.1, files.1),
            _ => (controllers.0, files.0),
        };
        if file.is_empty() {
            bail!("policy: resources.{name} has no file in this version of control groups");
        }
        self.all.push(Setting {
            name: name.into(),
            controller,
            file: file.into(),
            value,
            may_be_missing: false,
        });
        Ok(())
    }
}

pub(super) fn of(resources: &LinuxResources, version: Version) -> anyhow::Result<Vec<Setting>> {
    let mut settings = Settings {
        all: Vec::new(),
        version,
    };
    if let Some(memory) = resources.memory() {
        add_memory(&mut settings, memory)?;
    }
    if let Some(cpu) = resources.cpu() {
        add_cpu(&mut settings, cpu)?;
    }
    if let Some(pids) = resources.pids() {
        let limit = match pids.limit() {
            limit if limit > 0 => limit.to_string(),
            _ => "max".into(),
        };
        let before = settings.all.len();
        settings.add(
            "pids.limit",
            ("pids", "pids"),
            ("pids.max", "pids.max"),
            Some(limit.clone()),
        )?;
        // No limit is what there is without the controller.
        settings.all[before].may_be_missing = limit == "max";
    }
    if let Some(block_io) = resources.block_io() {
        add_block_io(&mut settings, block_io)?;
    }
    for limit in resources.hugepage_limits().iter().flatten() {
        add_huge_pages(&mut settings, limit)?;
    }
    if let Some(network) = resources.network() {
        add_network(&mut settings, network)?;
    }
    for (device, limit) in resources.rdma().iter().flatten() {
        let number = |limit: Option<u32>| limit.map_or("max".into(), |limit| limit.to_string());
        let value = format!(
            "{device} hca_handle={} hca_object={}",
            number(limit.hca_handles()),
            number(limit.hca_objects())
        );
        settings.add(
            "rdma",
            ("rdma", "rdma"),
            ("rdma.max", "rdma.max"),
            Some(value),
        )?;
    }
    for (file, value) in resources.unified().iter().flatten() {
        if version != Version::Two {
            bail!(
                "policy: resources.unified is for control groups of version 2, and this machine has version 1"
            );
        }
        if file.contains('/') {
            bail!("policy: resources.unified names the file {file:?}, which is no control file");
        }
        settings.add("unified", ("", "unified"), ("", file), Some(value.clone()))?;
    }
    Ok(settings.all)
}

/// Below zero is without a limit.
fn bytes(limit: i64, version: Version) -> String {
    match (limit, version) {
        (0.., _) => limit.to_string(),
        (_, Version::Two) => "max".into(),
        _ => "-1".into(),
    }
}

fn add_memory(settings: &mut Settings, memory: &LinuxMemory) -> anyhow::Result<()> {
    let version = settings.version;
    let of_memory = ("memory", "memory");
    let given = |limit: Option<i64>| limit.filter(|limit| *limit != 0);
    let limit = given(memory.limit());
    settings.add(
        "memory.reservation",
        of_memory,
        ("memory.soft_limit_in_bytes", "memory.low"),
        given(memory.reservation()).map(|limit| bytes(limit, version)),
    )?;
    settings.add(
        "memory.limit",
        of_memory,
        ("memory.limit_in_bytes", "memory.max"),
        limit.map(|limit| bytes(limit, version)),
    )?;
    let swap = match (given(memory.swap()), version) {
        // Version 2 counts swap alone.
        (Some(swap @ 0..), Version::Two) => {
            let limit = limit.unwrap_or(0);
            if limit <= 0 || swap < limit {
                bail!("policy: resources.memory.swap is less than resources.memory.limit");
            }
            Some((swap - limit).to_string())
        }
        (swap, _) => swap.map(|swap| bytes(swap, version)),
    };
    settings.add(
        "memory.swap",
        of_memory,
        ("memory.memsw.limit_in_bytes", "memory.swap.max"),
        swap,
    )?;
    settings.add(
        "memory.kernel",
        of_memory,
        ("memory.kmem.limit_in_bytes", ""),
        given(memory.kernel()).map(|limit| bytes(limit, version)),
    )?;
    settings.add(
        "memory.kernelTCP",
        of_memory,
        ("memory.kmem.tcp.limit_in_bytes", ""),
        given(memory.kernel_tcp()).map(|limit| bytes(limit, version)),
    )?;
    settings.add(
        "memory.swappiness",
        of_memory,
        ("memory.swappiness", ""),
        memory.swappiness().map(|swappiness| swappiness.to_string()),
    )?;
    settings.add(
        "memory.disableOOMKiller",
        of_memory,
        ("memory.oom_control", ""),
        memory
            .disable_oom_killer()
            .filter(|disabled| *disabled)
            .map(|_| "1".into()),
    )
}

fn add_cpu(settings: &mut Settings, cpu: &LinuxCpu) -> anyhow::Result<()> {
    let of_cpu = ("cpu", "cpu");
    let of_set = ("cpuset", "cpuset");
    let number = |number: Option<u64>| number.filter(|number| *number != 0).map(|n| n.to_string());
    let signed = |number: Option<i64>| number.filter(|number| *number != 0).map(|n| n.to_string());
    let shares = cpu.shares().filter(|shares| *shares != 0);
    let shares = shares.map(|shares| match settings.version {
        // From 2 to 262144 to 1 to 10000, as every runtime does it.
        Version::Two => (1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142).to_string(),
        _ => shares.to_string(),
    });
    settings.add("cpu.shares", of_cpu, ("cpu.shares", "cpu.weight"), shares)?;
    match settings.version {
        Version::Two => {
            let quota = cpu.quota().filter(|quota| *quota != 0);
            let period = cpu.period().filter(|period| *period != 0);
            if quota.is_some() || period.is_some() {
                let quota = match quota {
                    Some(quota @ 1..) => quota.to_string(),
                    _ => "max".into(),
                };
                let value = format!("{quota} {}", period.unwrap_or(100_000));
                settings.add("cpu.quota", of_cpu, ("", "cpu.max"), Some(value))?;
            }
        }
        _ => {
            settings.add(
                "cpu.period",
                of_cpu,
                ("cpu.cfs_period_us", ""),
                number(cpu.period()),
            )?;
            settings.add(
                "cpu.quota",
                of_cpu,
                ("cpu.cfs_quota_us", ""),
                signed(cpu.quota()),
            )?;
        }
    }
    settings.add(
        "cpu.burst",
        of_cpu,
        ("cpu.cfs_burst_us", "cpu.max.burst"),
        number(cpu.burst()),
    )?;
    settings.add(
        "cpu.idle",
        of_cpu,
        ("cpu.idle", "cpu.idle"),
        cpu.idle().map(|idle| idle.to_string()),
    )?;
    settings.add(
        "cpu.realtimePeriod",
        of_cpu,
        ("cpu.rt_period_us", ""),
        number(cpu.realtime_period()),
    )?;
    settings.add(
        "cpu.realtimeRuntime",
        of_cpu,
        ("cpu.rt_runtime_us", ""),
        signed(cpu.realtime_runtime()),
    )?;
    let list = |list: &Option<String>| list.clone().filter(|list| !list.is_empty());
    settings.add(
        "cpu.cpus",
        of_set,
        ("cpuset.cpus", "cpuset.cpus"),
        list(cpu.cpus()),
    )?;
    settings.add(
        "cpu.mems",
        of_set,
        ("cpuset.mems", "cpuset.mems"),
        list(cpu.mems()),
    )
}

fn add_block_io(settings: &mut Settings, block_io: &LinuxBlockIo) -> anyhow::Result<()> {
    let of_io = ("blkio", "io");
    settings.add(
        "blockIO.weight",
        of_io,
        ("blkio.bfq.weight", "io.bfq.weight"),
        block_io
            .weight()
            .filter(|weight| *weight != 0)
            .map(|weight| weight.to_string()),
    )?;
    settings.add(
        "blockIO.leafWeight",
        of_io,
        ("blkio.leaf_weight", ""),
        block_io
            .leaf_weight()
            .filter(|weight| *weight != 0)
            .map(|weight| weight.to_string()),
    )?;
    for device in block_io.weight_device().iter().flatten() {
        let value = device
            .weight()
            .map(|weight| format!("{}:{} {weight}", device.major(), device.minor()));
        settings.add(
            "blockIO.weightDevice",
            of_io,
            ("blkio.bfq.weight_device", "io.bfq.weight"),
            value,
        )?;
    }
    let throttles: [(&str, &Option<Vec<LinuxThrottleDevice>>, &str, &str); 4] = [
        (
            "blockIO.throttleReadBpsDevice",
            block_io.throttle_read_bps_device(),
            "blkio.throttle.read_bps_device",
            "rbps",
        ),
        (
            "blockIO.throttleWriteBpsDevice",
            block_io.throttle_write_bps_device(),
            "blkio.throttle.write_bps_device",
            "wbps",
        ),
        (
            "blockIO.throttleReadIOPSDevice",
            block_io.throttle_read_iops_device(),
            "blkio.throttle.read_iops_device",
            "riops",
        ),
        (
            "blockIO.throttleWriteIOPSDevice",
            block_io.throttle_write_iops_device(),
            "blkio.throttle.write_iops_device",
            "wiops",
        ),
    ];
    for (name, devices, file, key) in throttles {
        for device in devices.iter().flatten() {
            let number = format!("{}:{}", device.major(), device.minor());
            let value = match settings.version {
                Version::Two => format!("{number} {key}={}", device.rate()),
                _ => format!("{number} {}", device.rate()),
            };
            settings.add(name, of_io, (file, "io.max"), Some(value))?;
        }
    }
    Ok(())
}

fn add_huge_pages(settings: &mut Settings, limit: &LinuxHugepageLimit) -> anyhow::Result<()> {
    let size = limit.page_size();
    if !size.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        bail!("policy: resources.hugepageLimits names the page size {size:?}");
    }
    let files = (
        format!("hugetlb.{size}.limit_in_bytes"),
        format!("hugetlb.{size}.max"),
    );
    settings.add(
        "hugepageLimits",
        ("hugetlb", "hugetlb"),
        (&files.0, &files.1),
        Some(limit.limit().to_string()),
    )
}

fn add_network(settings: &mut Settings, network: &LinuxNetwork) -> anyhow::Result<()> {
    settings.add(
        "network.classID",
        ("net_cls", ""),
        ("net_cls.classid", ""),
        network.class_id().map(|class| class.to_string()),
    )?;
    for priority in network.priorities().iter().flatten() {
        let value = format!("{} {}", priority.name(), priority.priority());
        settings.add(
            "network.priorities",
            ("net_prio", ""),
            ("net_prio.ifpriomap", ""),
            Some(value),
        )?;
    }
    Ok(())
}

pub(super) fn write(folder: &Path, setting: &Setting) -> anyhow::Result<()> {
    let path = folder.join(&setting.file);
    let written = fs::write(&path, &setting.value);
    match written {
        Ok(()) => Ok(()),
        Err(_) if setting.may_be_missing => Ok(()),
        // Memory with swap may not be less than memory alone: whichever grows goes first.
        Err(_) if setting.file == "memory.limit_in_bytes" => {
            let both = folder.join("memory.memsw.limit_in_bytes");
            fs::write(&both, &setting.value)
                .and_then(|()| fs::write(&path, &setting.value))
                .with_context(|| told(setting, &path))
        }
        // The elevator that knows weights by this name is not everywhere.
        Err(_) if setting.file == "blkio.bfq.weight" => {
            fs::write(folder.join("blkio.weight"), &setting.value)
                .with_context(|| told(setting, &path))
        }
        Err(_) if setting.file == "io.bfq.weight" => {
            fs::write(folder.join("io.weight"), &setting.value)
                .with_context(|| told(setting, &path))
        }
        Err(error) => Err(error).with_context(|| told(setting, &path)),
    }
}

fn told(setting: &Setting, path: &Path) -> String {
    format!(
        "policy: resources.{} cannot be held: {:?} is refused at {path:?}",
        setting.name, setting.value
    )
}
