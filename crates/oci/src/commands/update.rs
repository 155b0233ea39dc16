//! `update`: other limits for a container that is there.

use super::create::is_lenient;
use crate::{
    bundle::known,
    cli::{self, Global},
    log::Log,
    state::Folder,
};
use anyhow::{Context, bail};
use oci_spec::runtime::{LinuxBlockIo, LinuxCpu, LinuxMemory, LinuxPids, LinuxResources};
use palisade_process::container::Status;
use std::io::Read as _;

pub(super) fn run(global: &Global, asked: &cli::Update) -> anyhow::Result<()> {
    let state = Folder::of(global, &asked.id)?.read()?;
    if state.status() == Status::Stopped {
        bail!("policy: container not running");
    }
    state
        .groups
        .set(&resources(asked, &Log::new(global))?, is_lenient(global))
}

fn resources(asked: &cli::Update, log: &Log) -> anyhow::Result<LinuxResources> {
    if let Some(path) = &asked.resources {
        let mut text = Vec::new();
        match path.to_str() {
            Some("-") => std::io::stdin().lock().read_to_end(&mut text).map(drop),
            _ => std::fs::read(path).map(|read| text = read),
        }
        .with_context(|| format!("policy: cannot read {path:?}"))?;
        let name = path.display().to_string();
        return known(&text, &name, |warning| log.warning(&warning))
            .with_context(|| format!("policy: {path:?}"));
    }
    let mut memory = LinuxMemory::default();
    memory
        .set_limit(asked.memory)
        .set_reservation(asked.memory_reservation)
        .set_swap(asked.memory_swap);
    let mut cpu = LinuxCpu::default();
    cpu.set_shares(asked.cpu_share)
        .set_quota(asked.cpu_quota)
        .set_period(asked.cpu_period)
        .set_realtime_period(asked.cpu_rt_period)
        .set_realtime_runtime(asked.cpu_rt_runtime)
        .set_cpus(asked.cpuset_cpus.clone())
        .set_mems(asked.cpuset_mems.clone());
    let mut resources = LinuxResources::default();
    resources.set_memory(Some(memory)).set_cpu(Some(cpu));
    // The list of devices is the engine's, and stays.
    resources.set_devices(None);
    if let Some(limit) = asked.pids_limit {
        let mut pids = LinuxPids::default();
        pids.set_limit(limit);
        resources.set_pids(Some(pids));
    }
    if let Some(weight) = asked.blkio_weight {
        let mut block_io = LinuxBlockIo::default();
        block_io.set_weight(Some(weight));
        resources.set_block_io(Some(block_io));
    }
    Ok(resources)
}
