//! What to do about what is missing: text to type or to write into a file.

use super::{container::Container, facts::Facts};
use serde::Serialize;
use std::path::Path;

/// One way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Advice {
    /// What it brings about.
    pub(super) purpose: String,
    /// What to type, or to write where the purpose says.
    pub(super) lines: Vec<String>,
}

impl Advice {
    pub(super) fn new(purpose: impl Into<String>, lines: &str) -> Self {
        Self {
            purpose: purpose.into(),
            lines: lines.lines().map(Into::into).collect(),
        }
    }
}

/// Sets a kernel setting now and at every start.
pub(super) fn set_sysctl(purpose: &str, name: &str, value: u64) -> Advice {
    Advice::new(
        purpose,
        &format!(
            "echo '{name} = {value}' | sudo tee -a /etc/sysctl.d/60-palisade.conf\nsudo sysctl --system"
        ),
    )
}

/// Since Ubuntu 23.10 an unconfined program may make a user namespace, but has no capability in it;
/// one with a profile that says `userns` has all. The keeper, started from a memory file, keeps the
/// profile of palisade: no other profile is attached to it.
pub(super) fn apparmor_profile(facts: &Facts) -> Advice {
    let program = facts.program.display();
    Advice::new(
        "AppArmor restricts user namespaces to programs that have a profile: write this to \
         /etc/apparmor.d/palisade and type `sudo apparmor_parser -r /etc/apparmor.d/palisade`",
        &format!(
            "abi <abi/4.0>,\n\
             include <tunables/global>\n\
             \n\
             profile palisade {program} flags=(unconfined) {{\n\
             \x20 userns,\n\
             \x20 include if exists <local/palisade>\n\
             }}"
        ),
    )
}

/// The kernel's list of security modules with Landlock in front.
pub(super) fn landlock_in_list(modules: Option<&[String]>) -> Advice {
    let others = modules.unwrap_or_default();
    let list: Vec<&str> = std::iter::once("landlock")
        .chain(others.iter().map(String::as_str))
        .collect();
    Advice::new(
        "add Landlock to the kernel's command line (in GRUB_CMDLINE_LINUX of /etc/default/grub, then \
         `sudo update-grub` and restart); a kernel without CONFIG_SECURITY_LANDLOCK must be exchanged",
        &format!("lsm={}", list.join(",")),
    )
}

/// What the step down is called.
pub(super) fn accept_less(capability: &str) -> Advice {
    Advice::new(
        "or go on without it",
        &format!("palisade run --allow-degraded {capability} …"),
    )
}

/// The same for a limit.
pub(super) fn approximate() -> Advice {
    Advice::new(
        "or accept an approximation, which the report names: --allow-degraded with the limit's name",
        "",
    )
}

pub(super) fn mount_cgroups() -> Advice {
    Advice::new(
        "mount the cgroups",
        "sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup",
    )
}

/// systemd gives a scope of a user's own the controllers that it has itself.
pub(super) fn scope_of_its_own(has_manager: bool) -> Advice {
    let purpose = match has_manager {
        true => "start palisade in a cgroup that is yours",
        false => {
            "start palisade in a cgroup that is yours; the systemd that makes it runs once you have logged in, or after \
             `loginctl enable-linger`"
        }
    };
    Advice::new(purpose, IN_A_SCOPE)
}

/// How a command gets one.
pub(super) const IN_A_SCOPE: &str = "systemd-run --user --scope -p Delegate=yes palisade run …";

/// Container runtimes show cgroups read-only.
pub(super) fn writable_cgroups(container: Container) -> Advice {
    Advice::new(
        format!(
            "start {} with cgroups that can be written to",
            container.name()
        ),
        match container {
            Container::Docker => {
                "docker run --security-opt writable-cgroups=true …   # since Docker 28"
            }
            Container::Podman => "podman run --security-opt unmask=/sys/fs/cgroup …",
            Container::Kubernetes | Container::Lxc | Container::Other => "",
        },
    )
}

/// Of the controllers, systemd hands only memory and pids to users unless told otherwise.
pub(super) fn delegate_to_users() -> Advice {
    Advice::new(
        "have systemd hand the controller to users; log in again after it",
        "sudo mkdir -p /etc/systemd/system/user@.service.d\n\
         printf '[Service]\\nDelegate=cpu memory pids\\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf\n\
         sudo systemctl daemon-reload\n\
         systemd-run --user --scope -p Delegate=yes palisade run …",
    )
}

/// Version 1 knows no delegation but by the owner of a group's folder.
pub(super) fn own_group(parent: &Path) -> Advice {
    let group = parent.join("mine");
    let group = group.display();
    Advice::new(
        "have a group made that is yours, and start palisade from a shell in it",
        &format!(
            "sudo mkdir {group} && sudo chown -R \"$USER\" {group}\n\
             echo $$ | sudo tee {group}/tasks"
        ),
    )
}
