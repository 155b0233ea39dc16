//! The administrator's folder: which annotations count, and policies by name.

use super::ALL;
use crate::surroundings::is_initial_root;
use anyhow::{Context, bail};
use palisade_policy::{Limits, PolicyLayer};
use serde::Deserialize;
use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Another folder than that of root, or of this user's settings.
const VARIABLE: &str = "PALISADE_CONTAINERS";
const FILE: &str = "containers.toml";
const POLICIES: &str = "policies";

/// What is said there.
#[derive(Debug)]
pub(super) struct Administrator {
    folder: PathBuf,
    annotations: Vec<String>,
}

/// `containers.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Annotations that may give a container something.
    #[serde(default)]
    annotations: Vec<String>,
}

/// What of a policy file is for containers.
#[derive(Debug, Default)]
pub(super) struct Policy {
    pub(super) connect: Vec<palisade_policy::ConnectGrant>,
    pub(super) listen: Vec<palisade_policy::ListenGrant>,
    pub(super) limits: Limits,
}

impl Administrator {
    /// Reads it. Nothing there is nothing allowed.
    pub(super) fn load() -> anyhow::Result<Self> {
        let folder = folder();
        let text = read(&folder.join(FILE))?.unwrap_or_default();
        let file: File =
            toml::from_str(&text).with_context(|| format!("policy: {:?}", folder.join(FILE)))?;
        let of_file = || format!("policy: {:?}", folder.join(FILE));
        check_known(&file.annotations).with_context(of_file)?;
        Ok(Self {
            folder,
            annotations: file.annotations,
        })
    }

    #[cfg(test)]
    pub(super) fn of(annotations: &[&str], folder: &Path) -> Self {
        Self {
            folder: folder.into(),
            annotations: annotations.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    /// Whether this annotation counts.
    pub(super) fn check(&self, name: &str) -> anyhow::Result<()> {
        if self.annotations.iter().any(|allowed| allowed == name) {
            return Ok(());
        }
        bail!(
            "policy: the annotation {name} counts only where {:?} has it in `annotations = [{name:?}]`: images carry annotations, too",
            self.folder.join(FILE)
        )
    }

    /// The policy of this name.
    pub(super) fn policy(&self, name: &str) -> anyhow::Result<Policy> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_plain) {
            bail!("policy: the policy {name:?} is no name: letters, digits and _-. only");
        }
        let folder = self.folder.join(POLICIES);
        let path = folder.join(format!("{name}.toml"));
        let Some(text) = read(&path)? else {
            bail!("policy: there is no policy {name:?}: {path:?}");
        };
        let source = path.display().to_string();
        let layer = PolicyLayer::from_toml(&text, &source, &folder)
            .map_err(|error| anyhow::anyhow!("policy: {error}"))?;
        of_layer(layer).with_context(|| format!("policy: {path:?}"))
    }
}

/// A name with a slip would allow nothing, and nobody would know why.
fn check_known(annotations: &[String]) -> anyhow::Result<()> {
    match annotations
        .iter()
        .find(|name| !ALL.contains(&name.as_str()))
    {
        Some(name) => bail!(
            "annotations: {name:?} is not known: there are {}",
            ALL.join(", ")
        ),
        None => Ok(()),
    }
}

/// An image has its own files, variables and folder; what the engine gives beside it says.
fn of_layer(layer: PolicyLayer) -> anyhow::Result<Policy> {
    let PolicyLayer {
        wall,
        profiles,
        system,
        guard,
        cwd,
        files,
        env,
        env_files,
        devices,
        connect,
        listen,
        limits,
        allow_degraded,
    } = layer;
    let Limits {
        tmp_size_bytes,
        time,
        cpu_time,
        output_bytes,
        ..
    } = limits;
    let without_meaning = [
        ("wall", wall.is_some()),
        ("profiles", !profiles.is_empty()),
        ("system", system.is_some()),
        ("guard", guard.is_some()),
        ("cwd", cwd.is_some()),
        ("grants of files", !files.is_empty()),
        ("grants.env", !env.is_empty()),
        ("grants.env-file", !env_files.is_empty()),
        ("grants.device", !devices.is_empty()),
        ("limits.tmp-size", tmp_size_bytes.is_some()),
        ("limits.time", time.is_some()),
        ("limits.cpu-time", cpu_time.is_some()),
        ("limits.output", output_bytes.is_some()),
        ("allow-degraded", !allow_degraded.is_empty()),
    ];
    if let Some((key, _)) = without_meaning.iter().find(|(_, is_there)| *is_there) {
        bail!(
            "{key} is not for containers, whose image and engine say that: connect, listen, and the limits memory, cpu, processes, files and file-size are"
        );
    }
    if connect
        .iter()
        .any(|grant| matches!(grant, palisade_policy::ConnectGrant::Unix(_)))
    {
        bail!("connect = \"unix:…\" is not for containers: the engine mounts the socket's folder");
    }
    if listen.contains(&palisade_policy::ListenGrant::Inherited) {
        bail!("listen = \"inherited\" is not for containers");
    }
    Ok(Policy {
        connect,
        listen,
        limits,
    })
}

fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
        return folder.into();
    }
    let of_user = || {
        let settings = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty());
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".config"));
        settings.map(PathBuf::from).or_else(home)
    };
    match of_user().filter(|_| !is_initial_root()) {
        Some(settings) => settings.join("palisade"),
        None => "/etc/palisade".into(),
    }
}

/// A file that nobody but root or this user can write to; `None` where there is none.
fn read(path: &Path) -> anyhow::Result<Option<String>> {
    const OTHERS: u32 = 0o022;
    let about = match fs::metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        about => about.with_context(|| format!("host: cannot look at {path:?}"))?,
    };
    let own = rustix::process::geteuid().as_raw();
    if !about.is_file() || ![0, own].contains(&about.uid()) || about.mode() & OTHERS != 0 {
        bail!(
            "policy: {path:?} must be a file of root's or this user's, which nobody else can write to"
        );
    }
    let text = fs::read_to_string(path).with_context(|| format!("host: cannot read {path:?}"))?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn policy(text: &str) -> Result<Policy, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(POLICIES)).unwrap();
        fs::write(folder.path().join("policies/web.toml"), text).unwrap();
        let administrator = Administrator::of(&[], folder.path());
        administrator
            .policy("web")
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_policy_has_the_network_and_limits() {
        let text = "[grants]\nconnect = ['tcp://192.0.2.1:80']\n[limits]\nmemory = '64M'\n";
        let read = policy(text).unwrap();
        assert_eq!(
            (read.connect.len(), read.limits.memory_bytes),
            (1, Some(64 << 20))
        );
    }

    #[test]
    fn what_of_it_is_not_for_containers_is_refused_by_name() {
        let refused = policy("[grants]\nread = ['/etc']\n").unwrap_err();
        assert!(refused.contains("grants of files"), "{refused}");
        let refused = policy("[limits]\ntime = '1s'\n").unwrap_err();
        assert!(refused.contains("limits.time"), "{refused}");
    }

    #[test]
    fn annotations_are_those_there_are() {
        assert!(check_known(&ALL.map(str::to_owned)).is_ok());
        let refused = check_known(&["palisade.netwrok".to_owned()]).unwrap_err();
        assert!(refused.to_string().contains("palisade.netwrok"));
        let schema = include_str!("../../../../docs/containers.schema.json");
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        let known = &schema["properties"]["annotations"]["items"]["enum"];
        assert_eq!(
            *known,
            serde_json::json!(ALL),
            "docs/containers.schema.json"
        );
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        let administrator = Administrator::of(&[], Path::new("/"));
        for name in ["", "..", "../etc", "a/b", ".hidden"] {
            let refused = administrator.policy(name).unwrap_err().to_string();
            assert!(refused.contains("is no name"), "{name:?}: {refused}");
        }
    }

    #[test]
    fn what_others_can_write_to_is_nobodys_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, "annotations = []").unwrap();
        assert!(read(&path).unwrap().is_some());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(read(&path).is_err());
        assert!(read(&folder.path().join("none")).unwrap().is_none());
    }
}
