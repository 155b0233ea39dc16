//! What lies in a project's folder.

use super::tool::{TOOLS, Tool};
use rustix::process::geteuid;
use std::{collections::BTreeMap, fs, io, os::unix::fs::MetadataExt, path::Path};

/// A folder's tools, and what in it others trust.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct Project {
    pub(in crate::commands) tools: Vec<&'static Tool>,
    /// Those of [`TRUSTED`] that are there.
    pub(in crate::commands) trusted: Vec<&'static Trusted>,
    /// Links among them, which cannot be protected.
    pub(in crate::commands) links: Vec<String>,
    /// Files of variables, which may hold keys: [`MOST_VARIABLES`] at most.
    pub(in crate::commands) variables: Vec<String>,
    /// What package managers may have linked to their caches.
    pub(in crate::commands) linked: Vec<&'static str>,
    /// The repository's own files lie elsewhere: it is a worktree or a submodule.
    pub(in crate::commands) has_git_elsewhere: bool,
}

/// What is in the way of a policy for a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Unfit {
    /// What a shell or a server of the user's starts lies in it.
    Home,
    /// Its owner could put another policy in the place of the one that is written.
    OfAnother,
    /// Everybody could.
    OfEverybody,
}

/// What somebody else runs or believes later.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) struct Trusted {
    pub(in crate::commands) path: &'static str,
    pub(in crate::commands) why: &'static str,
    /// Below it, what is believed as soon as it is there: where the folder is missing, an agent is not to be the one that
    /// makes it.
    pub(in crate::commands) planted: Option<&'static str>,
}

const fn kept(path: &'static str, why: &'static str) -> Trusted {
    Trusted {
        path,
        why,
        planted: None,
    }
}

const fn planted(path: &'static str, why: &'static str, below: &'static str) -> Trusted {
    Trusted {
        planted: Some(below),
        ..kept(path, why)
    }
}

const FORGE: &str = "what runs on the forge";
const EDITOR: &str = "what the editor starts";
const AGENT: &str = "what a coding agent may do and starts";
const HOOKS: &str = "hooks of git's";
const SHELL: &str = "what a shell that enters the folder runs";
const TOOL: &str = "what the tool starts, and tokens";

/// Each is protected where it is there. Of those that are folders an agent is kept from making some: an empty folder
/// stands in their place meanwhile, which git does not show. A file there would be.
pub(in crate::commands) const TRUSTED: [Trusted; 40] = [
    planted(".github", FORGE, ".github/workflows"),
    planted(".gitea", FORGE, ".gitea/workflows"),
    planted(".forgejo", FORGE, ".forgejo/workflows"),
    planted(".circleci", FORGE, ".circleci/config.yml"),
    kept(".woodpecker", FORGE),
    kept(".woodpecker.yml", FORGE),
    kept(".gitlab-ci.yml", FORGE),
    kept(".travis.yml", FORGE),
    kept(".drone.yml", FORGE),
    kept("azure-pipelines.yml", FORGE),
    kept("bitbucket-pipelines.yml", FORGE),
    kept("Jenkinsfile", FORGE),
    kept(".husky", HOOKS),
    kept(".githooks", HOOKS),
    kept(".pre-commit-config.yaml", HOOKS),
    kept("lefthook.yml", HOOKS),
    kept(".gitmodules", "where git fetches from"),
    planted(".vscode", EDITOR, ".vscode/tasks.json"),
    planted(".idea", EDITOR, ".idea/workspace.xml"),
    planted(".zed", EDITOR, ".zed/settings.json"),
    planted(".devcontainer", EDITOR, ".devcontainer/devcontainer.json"),
    planted(".helix", EDITOR, ".helix/config.toml"),
    kept(".exrc", EDITOR),
    kept(".nvim.lua", EDITOR),
    planted(".claude", AGENT, ".claude/settings.json"),
    planted(".codex", AGENT, ".codex/config.toml"),
    planted(".cursor", AGENT, ".cursor/mcp.json"),
    planted(".gemini", AGENT, ".gemini/settings.json"),
    planted(".opencode", AGENT, ".opencode/plugin"),
    kept("opencode.json", AGENT),
    kept(".mcp.json", AGENT),
    kept(".envrc", SHELL),
    kept("mise.toml", SHELL),
    kept(".npmrc", TOOL),
    kept(".yarnrc.yml", TOOL),
    kept(".pnpmfile.cjs", TOOL),
    kept(".cargo", TOOL),
    kept(".mvn", TOOL),
    kept("pip.conf", TOOL),
    kept(".pypirc", TOOL),
];

/// Files of variables that are named, each by a mount. A project has a handful.
pub(in crate::commands) const MOST_VARIABLES: usize = 16;

/// By the lock of a package manager that may link what it installs to its cache: where.
const LINKED: [(&str, &str); 4] = [
    ("pnpm-lock.yaml", "node_modules"),
    ("bun.lock", "node_modules"),
    ("bun.lockb", "node_modules"),
    ("uv.lock", ".venv"),
];

/// What a home has and a project has not.
const OF_HOMES: [&str; 6] = [
    ".bashrc",
    ".zshrc",
    ".profile",
    ".bash_profile",
    ".ssh",
    "authorized_keys",
];

/// What lies under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Folder,
    Link,
    Other,
}

impl Project {
    /// By the names in it.
    ///
    /// # Errors
    ///
    /// When the folder cannot be listed, or is none that a policy is written for.
    pub(in crate::commands) fn look(folder: &Path) -> io::Result<Result<Self, Unfit>> {
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type().map_or(Kind::Other, |kind| match kind {
                kind if kind.is_symlink() => Kind::Link,
                kind if kind.is_dir() => Kind::Folder,
                _ => Kind::Other,
            });
            if let Ok(name) = entry.file_name().into_string() {
                names.insert(name, kind);
            }
        }
        Ok(match unfit(folder, &names)? {
            Some(unfit) => Err(unfit),
            None => Ok(Self::of(&names)),
        })
    }

    fn of(names: &BTreeMap<String, Kind>) -> Self {
        let has = |name: &&str| names.contains_key(*name);
        let is_link = |name: &str| names.get(name) == Some(&Kind::Link);
        let tools = TOOLS.iter().filter(|tool| tool.markers.iter().any(has));
        let (links, trusted): (Vec<_>, Vec<_>) = TRUSTED
            .iter()
            .filter(|trusted| has(&trusted.path))
            .partition(|trusted| is_link(trusted.path));
        let variables = names.keys().filter(|name| is_of_variables(name));
        let (linked_variables, variables): (Vec<_>, Vec<_>) = variables
            .take(MOST_VARIABLES)
            .cloned()
            .partition(|name| is_link(name));
        let links = links.iter().map(|trusted| trusted.path.to_owned());
        let mut linked: Vec<_> = LINKED
            .iter()
            .filter(|(lock, folder)| has(lock) && !is_link(folder))
            .map(|(_, folder)| *folder)
            .collect();
        linked.dedup();
        Self {
            tools: tools.collect(),
            trusted,
            links: links.chain(linked_variables).collect(),
            variables,
            linked,
            has_git_elsewhere: names.get(".git").is_some_and(|kind| *kind != Kind::Folder),
        }
    }
}

fn unfit(folder: &Path, names: &BTreeMap<String, Kind>) -> io::Result<Option<Unfit>> {
    let about = fs::symlink_metadata(folder)?;
    let is_home = OF_HOMES.iter().any(|name| names.contains_key(*name));
    Ok(if is_home {
        Some(Unfit::Home)
    } else if about.uid() != geteuid().as_raw() {
        Some(Unfit::OfAnother)
    } else if about.mode() & 0o002 != 0 {
        Some(Unfit::OfEverybody)
    } else {
        None
    })
}

/// `.env` and `.env.production`, but no template of one. Other characters than such names have would be the project's
/// word in our file.
fn is_of_variables(name: &str) -> bool {
    const TEMPLATES: [&str; 4] = ["example", "sample", "template", "dist"];
    let Some(rest) = name.strip_prefix(".env") else {
        return false;
    };
    let is_plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    rest.is_empty()
        || rest
            .strip_prefix('.')
            .is_some_and(|kind| is_plain(kind) && !TEMPLATES.iter().any(|word| kind.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn files_of_variables() {
        for (name, is) in [
            (".env", true),
            (".env.local", true),
            (".env.example", false),
            (".environment", false),
            ("env", false),
            (".env.\"\nwrite = [\"/\"]", false),
            (".envrc", false),
        ] {
            assert_eq!(is_of_variables(name), is, "{name}");
        }
    }

    #[test]
    fn what_is_no_project_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let set_mode = |mode| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(0o755);
        assert!(Project::look(folder.path()).unwrap().is_ok());
        set_mode(0o777);
        let look = || Project::look(folder.path()).unwrap().unwrap_err();
        assert_eq!(look(), Unfit::OfEverybody);
        fs::write(folder.path().join(".bashrc"), "").unwrap();
        assert_eq!(look(), Unfit::Home);
    }

    #[test]
    fn links_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        for name in [".env", ".github"] {
            symlink("/nowhere", folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join(".git"), "gitdir: ../x").unwrap();
        let project = Project::look(folder.path()).unwrap().unwrap();
        assert_eq!(project.links, [".github", ".env"]);
        assert!(project.trusted.is_empty() && project.variables.is_empty());
        assert!(project.has_git_elsewhere);
    }
}
