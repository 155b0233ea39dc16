//! All of a bundle.

use super::{
    Bundle, devices, identity, mounts,
    process::{check_broker, of_process},
};
use crate::{cgroup::Groups, policy::Kept, surroundings::Surroundings};
use anyhow::{Context, bail};
use oci_spec::runtime::{Hook as AskedHook, Spec};
use palisade_process::container::{Hook, Namespace, Plan, Source, Step, Terminal};
use std::{path::Path, time::Duration};

/// What the command line says beside the bundle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Making {
    pub(crate) id: String,
    pub(crate) without_pivot: bool,
    pub(crate) keeps_keyring: bool,
    /// Descriptors beside the streams that the program finds open.
    pub(crate) preserved: u32,
}

pub(crate) fn plan(
    bundle: &Bundle,
    groups: &Groups,
    making: &Making,
    surroundings: &Surroundings,
    kept: &Kept,
) -> anyhow::Result<Plan> {
    let spec = &bundle.spec;
    let linux = spec.linux().as_ref().context("policy: there is no linux")?;
    let process = spec
        .process()
        .as_ref()
        .context("policy: there is no process: nothing could be started")?;
    let mut namespaces = identity::namespaces(linux)?;
    if kept.broker.is_some() {
        check_broker(process, &namespaces)?;
        identity::own_network(&mut namespaces);
    }
    let root = spec.root().as_ref().context("policy: there is no root")?;
    let rootfs = bundle.folder.join(root.path());
    if !rootfs.is_dir() {
        bail!("policy: root.path: there is no folder {rootfs:?}");
    }
    let mut steps = vec![Step::JoinGroups];
    if namespaces.owns(Namespace::Cgroup) {
        steps.push(Step::OwnGroups);
    }
    steps.push(Step::Propagation {
        flag: propagation_outside(linux.rootfs_propagation().as_deref())?,
    });
    name_host(spec, namespaces.has(Namespace::Uts), &mut steps)?;
    let mut settings: Vec<_> = linux.sysctl().iter().flatten().collect();
    settings.sort();
    for (name, value) in settings {
        let path = identity::setting(name, &namespaces)?;
        steps.push(Step::Setting {
            path: Path::new("/proc/sys").join(path),
            value: value.clone(),
        });
    }
    if let Some(score) = process.oom_score_adj() {
        steps.push(Step::OomScore { score });
    }
    steps.push(Step::Root {
        source: Source(rootfs.clone()),
        // What cannot be pivoted out of is left by chroot(2) alone.
        is_on_top: making.without_pivot,
    });
    let of_mounts = mounts::Surroundings {
        bundle: &bundle.folder,
        groups,
        label: linux
            .mount_label()
            .as_deref()
            .filter(|label| !label.is_empty() && surroundings.has_selinux),
        mappings: namespaces.has(Namespace::User).then(|| {
            [linux.uid_mappings(), linux.gid_mappings()]
                .map(|mappings| mappings.as_deref().unwrap_or_default())
        }),
    };
    let asked = spec.mounts().as_deref().unwrap_or_default();
    for mount in asked {
        mounts::steps(mount, &of_mounts, &mut steps)?;
    }
    let files = kept.broker.iter().flat_map(|broker| &broker.files);
    steps.extend(files.map(|(source, target)| mounts::read_only(source, target)));
    let is_dev = |step: &Step| matches!(step, Step::Bind(bind) if bind.target == Path::new("/dev"));
    if !steps.iter().any(is_dev) {
        let may_make = surroundings.is_initial_root && !namespaces.has(Namespace::User);
        let asked = linux.devices().as_deref().unwrap_or_default();
        steps.extend(devices::steps(asked, may_make)?);
    }
    if process.terminal().unwrap_or(false) {
        let size = process.console_size();
        let size = |of: fn(&oci_spec::runtime::Box) -> u64| {
            size.as_ref()
                .map_or(0, |size| u16::try_from(of(size)).unwrap_or(u16::MAX))
        };
        steps.push(Step::Terminal(Terminal {
            rows: size(oci_spec::runtime::Box::height),
            columns: size(oci_spec::runtime::Box::width),
            owner: process.user().uid(),
            at_console: true,
        }));
    }
    steps.push(Step::Folder {
        path: process.cwd().clone(),
        mode: 0o755,
    });
    mounts::make_read_only_last(&mut steps);
    let hooks = spec.hooks().as_ref();
    steps.push(Step::TellNamespaces);
    for hook in hooks
        .and_then(|hooks| hooks.create_container().as_ref())
        .into_iter()
        .flatten()
    {
        steps.push(Step::Hook(of_hook(hook)?));
    }
    for path in linux.masked_paths().iter().flatten() {
        steps.push(Step::Mask { path: path.into() });
    }
    for path in linux.readonly_paths().iter().flatten() {
        steps.push(Step::Restrict {
            path: path.into(),
            attributes: mounts::RDONLY,
            recursive: true,
        });
    }
    steps.push(Step::EnterRoot {
        without_pivot: making.without_pivot,
    });
    // Nothing can be pivoted out of a root that hands its mounts on.
    let attributes = match root.readonly() {
        Some(true) => mounts::RDONLY,
        _ => 0,
    };
    let propagation = propagation_inside(linux.rootfs_propagation().as_deref());
    if attributes != 0 || propagation != 0 {
        steps.push(Step::RootAttributes {
            attributes,
            propagation,
        });
    }
    let mut program = of_process(spec, process, &rootfs, &namespaces, surroundings, kept)?;
    program.new_keyring = !making.keeps_keyring;
    if making.preserved > 0 {
        let count = format!("LISTEN_FDS={}", making.preserved);
        let is_said = std::env::var_os("LISTEN_FDS").is_some();
        if is_said && !program.environment.contains(&count) {
            program.environment.push(count);
            // The pid that the program has inside: init's first child, but for hooks; and for who attends to local sockets, and who
            // tells of the listener of a hook.
            let has_broker = kept.broker.is_some();
            let before = hooks.map_or(0, |hooks| {
                let count = |hooks: &Option<Vec<AskedHook>>| hooks.as_ref().map_or(0, Vec::len);
                let each = 1 + usize::from(kept.asks());
                count(hooks.create_container()) + each * count(hooks.start_container())
            });
            let pid = 2 + before + usize::from(has_broker);
            program.environment.push(format!("LISTEN_PID={pid}"));
        }
    }
    for hook in hooks
        .and_then(|hooks| hooks.start_container().as_ref())
        .into_iter()
        .flatten()
    {
        program.hooks.push(of_hook(hook)?);
    }
    Ok(Plan {
        id: making.id.clone(),
        namespaces,
        steps,
        process: program,
    })
}

fn name_host(spec: &Spec, has_own: bool, steps: &mut Vec<Step>) -> anyhow::Result<()> {
    let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    if let Some(name) = given(spec.hostname()) {
        if !has_own {
            bail!("policy: hostname without a uts namespace would be the host's");
        }
        steps.push(Step::HostName { name });
    }
    if let Some(name) = given(spec.domainname()) {
        if !has_own {
            bail!("policy: domainname without a uts namespace would be the host's");
        }
        steps.push(Step::DomainName { name });
    }
    Ok(())
}

/// The container's copies of the host's mounts never hand anything back to the host.
fn propagation_outside(asked: Option<&str>) -> anyhow::Result<u64> {
    match asked.unwrap_or_default() {
        "" | "slave" | "rslave" | "shared" | "rshared" => Ok(mounts::SLAVE),
        "private" | "rprivate" | "unbindable" | "runbindable" => Ok(mounts::PRIVATE),
        other => bail!("policy: linux.rootfsPropagation {other:?} is not known"),
    }
}

fn propagation_inside(asked: Option<&str>) -> u64 {
    const SHARED: u64 = 1 << 20;
    const UNBINDABLE: u64 = 1 << 17;
    match asked.unwrap_or_default() {
        "shared" | "rshared" => SHARED,
        "unbindable" | "runbindable" => UNBINDABLE,
        _ => 0,
    }
}

fn of_hook(hook: &AskedHook) -> anyhow::Result<Hook> {
    let path = hook.path();
    if !path.is_absolute() {
        bail!("policy: hooks: {path:?} is not absolute");
    }
    let patience = match hook.timeout() {
        Some(seconds) if seconds <= 0 => bail!("policy: hooks: {path:?} has no time to run"),
        Some(seconds) => Some(Duration::from_secs(seconds.unsigned_abs())),
        None => None,
    };
    let arguments = match hook.args().as_deref() {
        Some([_, ..]) => hook.args().clone().unwrap_or_default(),
        _ => vec![path.to_string_lossy().into_owned()],
    };
    Ok(Hook {
        path: path.clone(),
        arguments,
        environment: hook.env().clone().unwrap_or_default(),
        patience,
    })
}
