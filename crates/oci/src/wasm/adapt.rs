//! What becomes of a configuration whose program is WebAssembly: less, never more.

use oci_spec::runtime::{Capabilities, Capability, Mount, Process, Spec};
use palisade_process::paths::normalized;
use std::path::Path;

/// What is left of a root's rights on files, and of a port's below 1024: the rest is for calls that WASI has not.
const KEPT: [Capability; 3] = [
    Capability::DacOverride,
    Capability::Fowner,
    Capability::NetBindService,
];

/// The kernel's own, below which nothing is mounted.
const KERNEL_FOLDERS: [&str; 2] = ["/proc", "/sys"];
const KERNEL_KINDS: [&str; 4] = ["proc", "sysfs", "cgroup", "cgroup2"];

/// Words by which a mount hears of later ones (mount_namespaces(7)).
const RECEIVING: [&str; 4] = ["shared", "rshared", "slave", "rslave"];

/// Adapts all of it. Through `/proc/self/mem` a host function that opens files for a guest would hand it the engine.
pub(crate) fn adapt(spec: &mut Spec) {
    if let Some(mounts) = spec.mounts() {
        let kept = mounts.iter().filter(|mount| !is_kernels(mount));
        let kept = kept.cloned().map(without_propagation);
        spec.set_mounts(Some(kept.collect()));
    }
    if let Some(process) = spec.process() {
        let mut process = process.clone();
        adapt_process(&mut process);
        spec.set_process(Some(process));
    }
}

fn is_kernels(mount: &Mount) -> bool {
    let target = normalized(&Path::new("/").join(mount.destination()));
    let is_there = KERNEL_FOLDERS
        .iter()
        .any(|folder| target.starts_with(folder));
    let kind = mount.typ().as_deref().unwrap_or_default();
    is_there || KERNEL_KINDS.contains(&kind)
}

/// What the host mounts later does not come in: it may be a `/proc`.
fn without_propagation(mut mount: Mount) -> Mount {
    if let Some(options) = mount.options() {
        let kept = options
            .iter()
            .filter(|word| !RECEIVING.contains(&word.as_str()));
        let kept = kept.cloned().collect();
        mount.set_options(Some(kept));
    }
    mount
}

/// The part of a process, the first or a further one.
pub(crate) fn adapt_process(process: &mut Process) {
    process.set_no_new_privileges(Some(true));
    if let Some(sets) = process.capabilities() {
        let mut sets = sets.clone();
        let few = |set: &Option<Capabilities>| set.as_ref().map(few);
        let bounding = few(sets.bounding());
        let effective = few(sets.effective());
        let permitted = few(sets.permitted());
        sets.set_bounding(bounding);
        sets.set_effective(effective);
        sets.set_permitted(permitted);
        sets.set_inheritable(few(sets.inheritable()));
        sets.set_ambient(few(sets.ambient()));
        process.set_capabilities(Some(sets));
    }
}

fn few(set: &Capabilities) -> Capabilities {
    let kept = set.iter().filter(|capability| KEPT.contains(capability));
    kept.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn adapted(mut config: Value) -> Value {
        config["ociVersion"] = json!("1.0.2");
        let mut spec: Spec = serde_json::from_value(config).unwrap();
        adapt(&mut spec);
        serde_json::to_value(&spec).unwrap()
    }

    #[test]
    fn nothing_of_the_kernels_is_mounted_now_or_later() {
        let spec = adapted(json!({ "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/else", "type": "proc", "source": "proc" },
            { "destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup" },
            { "destination": "/sys", "type": "bind", "source": "/sys", "options": ["rbind"] },
            { "destination": "/systems", "source": "/srv", "options": ["rbind", "rslave", "ro"] },
        ] }));
        let mounts = spec["mounts"].as_array().unwrap();
        assert_eq!(mounts.len(), 1, "{mounts:?}");
        assert_eq!(mounts[0]["destination"], "/systems");
        assert_eq!(mounts[0]["options"], json!(["rbind", "ro"]));
    }

    #[test]
    fn capabilities_become_fewer() {
        let all = json!([
            "CAP_DAC_OVERRIDE",
            "CAP_SYS_ADMIN",
            "CAP_SYS_PTRACE",
            "CAP_NET_RAW"
        ]);
        let sets = json!({ "bounding": all, "effective": all, "permitted": all, "ambient": all });
        let spec = adapted(json!({ "process": {
            "cwd": "/", "args": ["/a.wasm"], "user": { "uid": 0, "gid": 0 }, "capabilities": sets,
        } }));
        let process = &spec["process"];
        assert_eq!(process["noNewPrivileges"], true);
        for set in ["bounding", "effective", "permitted", "ambient"] {
            let left = &process["capabilities"][set];
            assert_eq!(left, &json!(["CAP_DAC_OVERRIDE"]), "{set}");
        }
    }
}
