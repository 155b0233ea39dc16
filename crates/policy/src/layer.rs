//! What was typed, before it is a policy: every part may be unset.

use std::{collections::BTreeSet, path::PathBuf};

use crate::{
    Capability, ConnectGrant, DeviceGrant, EnvGrant, FileGrant, Limits, ListenGrant, Profile,
    WallKind,
};

/// One source of a policy: a policy file, or the flags of one command line.
///
/// The default says nothing about anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyLayer {
    /// `wall`, `--wall`.
    pub wall: Option<WallKind>,
    /// `profiles`, `--profile`.
    pub profiles: BTreeSet<Profile>,
    /// `system`; `--no-system` is `Some(false)`.
    pub system: Option<bool>,
    /// `guard`; `--no-guard` is `Some(false)`.
    pub guard: Option<bool>,
    /// `cwd`, `--cwd`: a path inside the domain.
    pub cwd: Option<PathBuf>,
    /// `grants.{read,read-if-there,write,exec,ipc,protect,hide}` and their flags.
    pub files: Vec<FileGrant>,
    /// `grants.env`, `--env`.
    pub env: Vec<EnvGrant>,
    /// `grants.env-file`, `--env-file`.
    pub env_files: Vec<PathBuf>,
    /// `grants.device`, `--device`.
    pub devices: Vec<DeviceGrant>,
    /// `grants.connect`, `--connect`.
    pub connect: Vec<ConnectGrant>,
    /// `grants.listen`, `--listen`.
    pub listen: Vec<ListenGrant>,
    /// `[limits]` and their flags.
    pub limits: Limits,
    /// `allow-degraded`, `--allow-degraded`.
    pub allow_degraded: BTreeSet<Capability>,
}

impl PolicyLayer {
    /// This layer with `upper` on it: lists add up, anything single that `upper` sets wins.
    #[must_use]
    pub fn overlaid_with(mut self, upper: Self) -> Self {
        self.profiles.extend(upper.profiles);
        self.files.extend(upper.files);
        self.env.extend(upper.env);
        self.env_files.extend(upper.env_files);
        self.devices.extend(upper.devices);
        self.connect.extend(upper.connect);
        self.listen.extend(upper.listen);
        self.allow_degraded.extend(upper.allow_degraded);
        Self {
            wall: upper.wall.or(self.wall),
            system: upper.system.or(self.system),
            guard: upper.guard.or(self.guard),
            cwd: upper.cwd.or(self.cwd),
            limits: self.limits.overlaid_with(upper.limits),
            ..self
        }
    }
}
