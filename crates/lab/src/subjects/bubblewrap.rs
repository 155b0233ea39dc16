//! bubblewrap, with every namespace it knows, a session of its own and no capabilities.

use super::{
    Subject,
    palisade::Palisade,
    peer::{InstalledPeer, Peer, Request, takes_all_programs},
    words_of,
};
use crate::network::Network;
use anyhow::{Context, ensure};
use palisade_policy::{Access, FileGrant, Policy};
use palisade_wall::Command;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

pub(super) static BUBBLEWRAP: Peer = Peer {
    name: "bubblewrap",
    title: "bwrap",
    program: "bwrap",
    lacks: "no system-call filter, no Landlock, no limits",
    install: "apt-get install bubblewrap",
    // It learns of the guest's end by a message, and ends first.
    waits_for_all: false,
    takes: takes_all_programs,
    line,
    line_to_end: None,
};

/// `--cap-drop ALL` is the default for an ordinary user and asked for here for root's sake.
const WALL: [&str; 11] = [
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
];

/// Links into `/usr` where this host has merged it, folders elsewhere.
pub(super) const BESIDE_USR: [&str; 4] = ["/bin", "/sbin", "/lib", "/lib64"];

fn line(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    let grants = &request.policy.grants;
    let mut words: Vec<OsString> = vec![request.program.into()];
    words.extend(WALL.map(OsString::from));
    let is_granted = !grants.connect.is_empty() || !grants.listen.is_empty();
    if request.network.is_some() || is_granted {
        // It knows no rules for one: all of the host's, or none.
        words.push("--share-net".into());
    }
    if grants.system {
        words.extend(system_view());
    }
    words.extend(grants.files.iter().flat_map(bind));
    if let Some(cwd) = &grants.cwd {
        words.extend(["--chdir".into(), cwd.into()]);
    }
    words.push("--".into());
    words.extend(words_of(request.command));
    Ok(words)
}

fn system_view() -> Vec<OsString> {
    let mut words: Vec<OsString> = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc", "/etc"]
        .map(Into::into)
        .into();
    for folder in BESIDE_USR {
        match fs::read_link(folder) {
            Ok(target) => words.extend(["--symlink".into(), target.into(), folder.into()]),
            Err(_) => words.extend(["--ro-bind-try", folder, folder].map(Into::into)),
        }
    }
    words
}

fn bind(grant: &FileGrant) -> Vec<OsString> {
    let words = |flag: &str, host: &Path| vec![flag.into(), host.into(), grant.guest_path().into()];
    match grant.access {
        Access::Read | Access::ReadIfThere => words("--ro-bind", &grant.host),
        Access::Write => words("--bind", &grant.host),
        // Nothing to mount over a path that does not exist, and no executable or IPC rule to ask for.
        Access::Protect | Access::Hide | Access::Exec | Access::Ipc => Vec::new(),
    }
}

/// The same with what palisade shows of the system and no more of it: a place at a time, as whoever writes such a command
/// line has to.
pub(crate) struct SameView {
    program: PathBuf,
    /// What comes before the program.
    view: Vec<OsString>,
}

impl SameView {
    /// Its name in tables.
    pub(crate) const NAME: &str = "bubblewrap, same view";

    /// By what this palisade says that it does.
    ///
    /// # Errors
    ///
    /// When it does not say that.
    pub(crate) fn of(
        bubblewrap: &InstalledPeer,
        palisade: &Palisade,
        policy: &Policy,
        command: &Command,
    ) -> anyhow::Result<Self> {
        let told = palisade.explain(policy, command)?;
        let steps = told["steps"].as_array();
        let steps = steps.context("palisade explain tells no steps")?;
        let view = view_of(steps);
        ensure!(!view.is_empty(), "palisade explain tells of no view");
        Ok(Self {
            program: bubblewrap.program().to_owned(),
            view,
        })
    }
}

/// Files that palisade writes itself are those of the host here, at the same places.
fn view_of(steps: &[Value]) -> Vec<OsString> {
    let text = |step: &Value, key: &str| step[key].as_str().map(str::to_owned);
    let of_kind = |kind: &'static str| steps.iter().filter(move |step| step["step"] == kind);
    let targets: BTreeSet<_> = of_kind("mount")
        .filter_map(|step| text(step, "target"))
        .collect();
    let own = |path: &str| path.starts_with("/dev/") || path == "/proc" || path == "/tmp";
    let links = of_kind("make-symlink").filter_map(|step| {
        let words = [
            "--symlink".to_owned(),
            text(step, "target")?,
            text(step, "path")?,
        ];
        Some(words)
    });
    let files = of_kind("write-file").filter_map(|step| {
        let path = text(step, "path").filter(|path| !targets.contains(path))?;
        Some(["--ro-bind".to_owned(), path.clone(), path])
    });
    let mounts = of_kind("mount").filter_map(|step| {
        Some([
            "--ro-bind".to_owned(),
            text(step, "source")?,
            text(step, "target")?,
        ])
    });
    let all = links.chain(files).chain(mounts);
    let shown = all.filter(|[_, _, path]| !own(path));
    shown.flatten().map(OsString::from).collect()
}

impl Subject for SameView {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn command_line(
        &self,
        _policy: &Policy,
        command: &Command,
        _network: &Network,
        _room: &Path,
    ) -> anyhow::Result<Vec<OsString>> {
        let program = [self.program.clone().into()].into_iter();
        let line = program.chain(WALL.map(OsString::from));
        let line = line.chain(self.view.iter().cloned()).chain(["--".into()]);
        Ok(line.chain(words_of(command)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_view_is_what_palisade_shows_place_by_place() {
        let steps = json!([
            {"step": "make-folder", "path": "/etc", "mode": 493},
            {"step": "make-symlink", "path": "/bin", "target": "usr/bin"},
            {"step": "make-symlink", "path": "/dev/fd", "target": "/proc/self/fd"},
            {"step": "write-file", "path": "/etc/passwd", "content": "me"},
            {"step": "write-file", "path": "/etc/mime.types", "content": ""},
            {"step": "mount", "source": "/etc/mime.types", "target": "/etc/mime.types"},
            {"step": "mount", "source": "/dev/null", "target": "/dev/null"},
            {"step": "mount", "source": "/dev/null", "target": "/proc/keys"},
        ]);
        let view = view_of(steps.as_array().unwrap());
        let words: Vec<_> = view.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "--symlink usr/bin /bin --ro-bind /etc/passwd /etc/passwd \
             --ro-bind /etc/mime.types /etc/mime.types --ro-bind /dev/null /proc/keys"
        );
    }
}
