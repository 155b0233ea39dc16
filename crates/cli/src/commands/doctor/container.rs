//! Which kind of container palisade runs in, and what to tell whoever starts it.

use super::facts::{Call, Facts};
use serde::Serialize;

/// Container runtimes whose settings are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Container {
    Docker,
    Podman,
    Kubernetes,
    Lxc,
    /// Some other one.
    Other,
}

/// What containers leave lying about.
#[derive(Clone, Debug, Default)]
pub(super) struct Traces {
    /// `/.dockerenv` exists.
    pub(super) dockerenv: bool,
    /// `/run/.containerenv` exists.
    pub(super) containerenv: bool,
    /// Something is mounted on files of `/etc` that these two runtimes write for each container.
    pub(super) mounted_etc: bool,
    /// `/var/run/secrets/kubernetes.io` exists.
    pub(super) kubernetes_secrets: bool,
    /// Content of `/run/systemd/container`.
    pub(super) systemd_says: String,
    /// `/proc/self/cgroup` of this process.
    pub(super) cgroups: String,
}

/// The innermost kind that the traces tell of: a Kubernetes pod is made by some other runtime too. A marker
/// file alone says nothing: it stays in a file system that was made from an image, such as a virtual machine's.
pub(super) fn recognise(traces: &Traces) -> Option<Container> {
    let said = traces.systemd_says.trim();
    let in_cgroup = |word: &str| traces.cgroups.contains(word);
    if traces.kubernetes_secrets || in_cgroup("/kubepods") {
        Some(Container::Kubernetes)
    } else if (traces.containerenv && traces.mounted_etc)
        || said == "podman"
        || in_cgroup("/libpod")
    {
        Some(Container::Podman)
    } else if (traces.dockerenv && traces.mounted_etc) || said == "docker" || in_cgroup("/docker") {
        Some(Container::Docker)
    } else if said.starts_with("lxc") || in_cgroup("/lxc") {
        Some(Container::Lxc)
    } else {
        (!said.is_empty()).then_some(Container::Other)
    }
}

impl Container {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
            Self::Kubernetes => "Kubernetes",
            Self::Lxc => "LXC",
            Self::Other => "a container",
        }
    }

    /// How it must be started so that domains can be made inside; `None` if nothing that is known
    /// to hold them back does.
    pub(super) fn way_to_start(self, facts: &Facts) -> Option<String> {
        let confines = Confines::of(facts);
        match self {
            Self::Docker => confines.with_flags(
                "docker run",
                "systempaths=unconfined",
                "apparmor=unconfined",
            ),
            Self::Podman => confines.with_flags("podman run", "unmask=ALL", "label=disable"),
            Self::Kubernetes => Some(KUBERNETES.into()),
            Self::Lxc => Some(LXC.into()),
            Self::Other => None,
        }
    }
}

const LXC: &str = "incus config set NAME security.nesting=true\n\
     # or, in the configuration of lxc: lxc.include = /usr/share/lxc/config/nesting.conf";

const KUBERNETES: &str = "hostUsers: false   # in the pod's spec; and in the container's securityContext:\n\
     procMount: Unmasked\n\
     seccompProfile: {type: Unconfined}\n\
     appArmorProfile: {type: Unconfined}";

/// In which ways a runtime holds palisade back.
struct Confines {
    filter: bool,
    label: bool,
    masks: bool,
}

impl Confines {
    fn of(facts: &Facts) -> Self {
        let refused = facts.open_tree != Call::Works || facts.openat2 != Call::Works;
        let profile = facts.apparmor_profile.as_deref();
        Self {
            filter: facts.seccomp.already_filtered || refused,
            label: profile.is_some_and(|profile| profile != "unconfined"),
            masks: !facts.covered_proc.is_empty(),
        }
    }

    /// `start` with the `--security-opt` values that take each away.
    fn with_flags(&self, start: &str, unmask: &str, unlabel: &str) -> Option<String> {
        let flags: String = [
            (self.filter, "seccomp=unconfined"),
            (self.label, unlabel),
            (self.masks, unmask),
        ]
        .into_iter()
        .filter(|(needed, _)| *needed)
        .map(|(_, flag)| format!(" --security-opt {flag}"))
        .collect();
        (!flags.is_empty()).then(|| format!("{start}{flags} …"))
    }
}
