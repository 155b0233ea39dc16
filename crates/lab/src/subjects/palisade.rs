//! `palisade run`.

use super::{LeavesRoot, Subject, joined, version_of, words_of};
use crate::network::Network;
use anyhow::{Context, ensure};
use palisade_policy::{
    Access, FileGrant, Limits, Policy,
    value::{format_duration, format_size},
};
use palisade_wall::Command;
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process,
};

/// Names the folder where programs of palisade's lie, if not beside it.
pub(crate) const LIBEXEC: &str = "PALISADE_LIBEXEC";

/// A `palisade` executable.
#[derive(Clone, Debug)]
pub struct Palisade {
    program: PathBuf,
    report: Option<PathBuf>,
    further: Option<Further>,
}

/// What a run is asked for beside the policy.
#[derive(Clone, Copy, Debug)]
enum Further {
    Watch,
    Grantable,
}

impl Further {
    fn flag(self) -> &'static str {
        match self {
            Self::Watch => "--watch",
            Self::Grantable => "--grantable",
        }
    }
}

impl Palisade {
    /// The executable at `program`.
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            report: None,
            further: None,
        }
    }

    /// The same, writing a report to `path`.
    pub fn with_report(&self, path: PathBuf) -> Self {
        Self {
            report: Some(path),
            ..self.clone()
        }
    }

    /// The same, watching what files a command asks for.
    pub fn with_watch(&self) -> Self {
        Self {
            further: Some(Further::Watch),
            ..self.clone()
        }
    }

    /// The same, of a guest that may be granted more while it runs.
    pub fn grantable(&self) -> Self {
        Self {
            further: Some(Further::Grantable),
            ..self.clone()
        }
    }

    /// Where the executable is.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A program that belongs to it: beside it, or where its worker is.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub(crate) fn companion(&self, name: &str) -> anyhow::Result<PathBuf> {
        let program = fs::canonicalize(&self.program).unwrap_or_else(|_| self.program.clone());
        let beside = program.parent().map(Path::to_owned);
        let libexec = env::var_os(LIBEXEC).map(PathBuf::from);
        let folders = libexec.into_iter().chain(beside);
        let mut places = folders.map(|folder| folder.join(name));
        let found = places.find(|place| place.is_file());
        found.with_context(|| {
            format!(
                "host: {name} does not lie beside {}: cargo build --release --package {name}",
                program.display()
            )
        })
    }

    /// What it says its version is.
    pub fn version(&self) -> Option<String> {
        version_of(&self.program)
    }

    /// What it says that it does for a command.
    ///
    /// # Errors
    ///
    /// When it does not say that.
    pub(crate) fn explain(
        &self,
        policy: &Policy,
        command: &Command,
    ) -> anyhow::Result<serde_json::Value> {
        let told = process::Command::new(&self.program)
            .args(["explain", "--json"])
            .args(policy_flags(policy))
            .arg("--")
            .args(words_of(command))
            .output()
            .with_context(|| format!("host: cannot start {}", self.program.display()))?;
        ensure!(
            told.status.success(),
            "palisade explain: {}",
            String::from_utf8_lossy(&told.stderr).trim_end()
        );
        serde_json::from_slice(&told.stdout).context("palisade explain --json tells no JSON")
    }
}

impl Subject for Palisade {
    fn name(&self) -> &'static str {
        match (&self.report, self.further) {
            (_, Some(Further::Watch)) => "palisade run --watch",
            (_, Some(Further::Grantable)) => "palisade, grantable",
            (Some(_), None) => "palisade run --report",
            (None, None) => "palisade run",
        }
    }

    fn leaves_root(&self) -> LeavesRoot {
        LeavesRoot::ByItself
    }

    fn command_line(
        &self,
        policy: &Policy,
        command: &Command,
        network: &Network,
        _room: &Path,
    ) -> anyhow::Result<Vec<OsString>> {
        let mut words: Vec<OsString> = vec![self.program.clone().into(), "run".into()];
        words.extend(policy_flags(policy));
        words.extend(network_flag(network));
        if let Some(report) = &self.report {
            words.extend(["--report".into(), report.into()]);
        }
        words.extend(self.further.map(|further| further.flag().into()));
        words.push("--".into());
        words.extend(words_of(command));
        Ok(words)
    }
}

/// A policy as the flags of `palisade run`.
pub(crate) fn policy_flags(policy: &Policy) -> Vec<OsString> {
    let grants = &policy.grants;
    let mut words: Vec<OsString> = Vec::new();
    if !grants.system {
        words.push("--no-system".into());
    }
    words.extend(grants.files.iter().flat_map(grant_flag));
    for grant in &grants.env {
        let value = grant.value.as_ref().map(|value| joined(&grant.name, value));
        words.extend([
            "--env".into(),
            value.unwrap_or_else(|| grant.name.clone().into()),
        ]);
    }
    for file in &grants.env_files {
        words.extend(["--env-file".into(), file.clone().into()]);
    }
    for grant in &grants.connect {
        words.extend(["--connect".into(), grant.to_string().into()]);
    }
    for grant in &grants.listen {
        words.extend(["--listen".into(), grant.to_string().into()]);
    }
    for device in &grants.devices {
        words.extend(["--device".into(), device.path.clone().into()]);
    }
    for profile in &grants.profiles {
        words.extend(["--profile".into(), profile.to_string().into()]);
    }
    if let Some(cwd) = &grants.cwd {
        words.extend(["--cwd".into(), cwd.clone().into()]);
    }
    words.extend(limit_flags(&policy.limits));
    for capability in &policy.allow_degraded {
        words.extend(["--allow-degraded".into(), capability.to_string().into()]);
    }
    words
}

/// `--connect tcp://127.0.0.1:8080` or `--listen …`.
fn network_flag(network: &Network) -> Vec<OsString> {
    match network {
        Network::None => Vec::new(),
        Network::Connects(endpoint) => vec!["--connect".into(), endpoint.to_string().into()],
        Network::Listens(endpoint) => vec!["--listen".into(), endpoint.to_string().into()],
    }
}

fn grant_flag(grant: &FileGrant) -> [OsString; 2] {
    let flag = match grant.access {
        Access::Read => "--read",
        Access::ReadIfThere => "--read-if-there",
        Access::Write => "--write",
        Access::Exec => "--exec",
        Access::Ipc => "--ipc",
        Access::Protect => "--protect",
        Access::Hide => "--hide",
    };
    let mut paths = path_text(&grant.host);
    if let Some(guest) = &grant.guest {
        paths.push(":");
        paths.push(path_text(guest));
    }
    [flag.into(), paths]
}

/// A path as grants are typed: `:` begins the guest's path, `\:` is a colon.
fn path_text(path: &Path) -> OsString {
    let parts: Vec<&OsStr> = split_at_colons(path.as_os_str());
    parts.join(OsStr::new("\\:"))
}

fn split_at_colons(text: &OsStr) -> Vec<&OsStr> {
    use std::os::unix::ffi::OsStrExt;
    text.as_bytes()
        .split(|byte| *byte == b':')
        .map(OsStr::from_bytes)
        .collect()
}

/// Limits as the flags of `palisade run`.
pub(crate) fn limit_flags(limits: &Limits) -> Vec<OsString> {
    let flags = [
        ("--memory", limits.memory_bytes.map(format_size)),
        ("--cpu", limits.cpu_cores.map(|cores| cores.to_string())),
        (
            "--processes",
            limits.processes.map(|count| count.to_string()),
        ),
        ("--files", limits.files.map(|count| count.to_string())),
        ("--file-size", limits.file_size_bytes.map(format_size)),
        ("--tmp-size", limits.tmp_size_bytes.map(format_size)),
        ("--time", limits.time.map(format_duration)),
        ("--cpu-time", limits.cpu_time.map(format_duration)),
        ("--output", limits.output_bytes.map(format_size)),
    ];
    let typed = flags
        .into_iter()
        .filter_map(|(flag, value)| Some([flag.into(), value?.into()]));
    typed.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::path_text;

    #[test]
    fn a_colon_in_a_path_stays_one() {
        assert_eq!(path_text("/tmp/a:b:".as_ref()), r"/tmp/a\:b\:");
    }
}
