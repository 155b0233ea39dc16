//! The policy's text.

use super::{
    project::{Project, TRUSTED},
    settings::Settings,
    tool::Tool,
};
use crate::commands::policy_text::{Line, quoted, write_list};
use palisade_policy::visible;
use std::{collections::BTreeMap, fmt, path::Path};

/// A policy for a project.
pub(super) struct Draft<'a> {
    pub(super) project: &'a Project,
    /// What it will be called, in the project's folder.
    pub(super) file: &'a str,
    /// For a program that edits the project and starts its tools, rather than for a build.
    pub(super) is_for_agent: bool,
    /// A limit on memory starts on this machine.
    pub(super) holds_memory: bool,
    /// What other settings allow.
    pub(super) settings: Option<&'a Settings>,
}

/// Where a model is asked, as an example.
const MODEL: &str = "api.anthropic.com";

impl Draft<'_> {
    /// What to try with it, in the project's folder.
    pub(super) fn example(&self) -> String {
        format!("palisade run --policy {} -- {}", self.file, self.program())
    }

    fn program(&self) -> &'static str {
        match (self.is_for_agent, self.project.tools.first()) {
            (true, _) => "AGENT",
            (false, Some(tool)) => tool.example,
            (false, None) => "PROGRAM",
        }
    }

    fn tools(&self) -> impl Iterator<Item = &'static Tool> {
        self.project.tools.iter().copied()
    }

    fn has_git(&self) -> bool {
        self.tools().any(|tool| tool.name == "git")
    }

    /// Where what was made may be executed, each place once with all that it is for.
    fn executed(&self) -> Vec<Line> {
        let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let of_agent = [
            (".", "the project's own scripts and builds"),
            ("/tmp", "an agent's"),
        ];
        let of_agent = of_agent.iter().filter(|_| self.is_for_agent);
        let all = self.tools().flat_map(|tool| tool.executes);
        for (place, why) in all.chain(of_agent) {
            let known = places.entry(place).or_default();
            if known.is_empty() || (*place != "." && !known.contains(why)) {
                known.push(why);
            }
        }
        let lines = places.into_iter();
        lines
            .map(|(place, why)| (place.to_owned(), why.join("; ")))
            .collect()
    }

    fn protected(&self) -> Vec<Line> {
        let own = (self.file.to_owned(), "this policy".to_owned());
        // A build reads it; nothing of it is to come from there.
        let git =
            (self.has_git() && !self.is_for_agent && !self.project.has_git_elsewhere).then(|| {
                (
                    ".git".to_owned(),
                    "what git runs, and its history".to_owned(),
                )
            });
        let trusted = TRUSTED.iter().filter_map(|trusted| {
            let is_there = self.project.trusted.contains(&trusted);
            let is_link = self.project.links.iter().any(|link| link == trusted.path);
            let planted = trusted.planted.filter(|_| self.is_for_agent && !is_link);
            let path = match is_there {
                true => trusted.path,
                false => planted?,
            };
            Some((path.to_owned(), trusted.why.to_owned()))
        });
        let variables = self.project.variables.iter();
        let variables = variables.map(|name| (name.clone(), "variables, and keys".to_owned()));
        [own]
            .into_iter()
            .chain(git)
            .chain(trusted)
            .chain(variables)
            .collect()
    }

    fn profiles(&self) -> Vec<&'static str> {
        let mut profiles: Vec<_> = self
            .tools()
            .flat_map(|tool| tool.profiles)
            .copied()
            .collect();
        profiles.dedup();
        profiles
    }

    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.is_for_agent {
            true => "for an agent that works on this project",
            false => "for builds of this project",
        };
        writeln!(
            f,
            "# What a guest may do, {what}. What is not granted is denied. Paths start at this file's\n\
             # folder: it belongs into the project's.\n#\n#     {}\n#\n\
             # `palisade explain` in the place of `palisade run` shows what it comes to on this machine.\n",
            self.example()
        )
    }

    fn write_profiles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profiles = self.profiles();
        if profiles.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = profiles.iter().map(|name| format!("\"{name}\"")).collect();
        writeln!(
            f,
            "# Variables of these tools, and what they have installed and fetched, to be read. Nothing with tokens.\n\
             profiles = [{}]\n",
            names.join(", ")
        )
    }

    fn write_grants(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[grants]")?;
        match self.is_read_only() {
            true => writeln!(f, "# The project.\nread = [\".\"]")?,
            false => writeln!(
                f,
                "# The project. What is written is executed where `exec` says."
            )?,
        }
        self.write_written(f)?;
        let executed = self.executed();
        if !executed.is_empty() && !self.is_read_only() {
            write_list(f, "exec", &executed)?;
        }
        self.write_protected(f)?;
        self.write_hidden(f)?;
        self.write_linked(f)?;
        if self.is_for_agent {
            writeln!(f, "# Terminals of its own.\ndevice = [\"pts\"]")?;
        }
        self.write_network(f)
    }

    fn is_read_only(&self) -> bool {
        self.settings.is_some_and(|settings| settings.is_read_only)
    }

    /// Values of the settings for a key, as lines of its list.
    fn of_settings(&self, values: fn(&Settings) -> &[String]) -> Vec<Line> {
        let lines = self.settings.iter().flat_map(|settings| {
            let why = format!("of {}'s settings", settings.of);
            let values = values(settings).iter();
            values.map(move |value| (value.clone(), why.clone()))
        });
        lines.collect()
    }

    fn write_written(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = self.of_settings(|settings| &settings.write);
        match (self.is_read_only(), written.is_empty()) {
            (true, true) => return Ok(()),
            (false, true) => return writeln!(f, "write = [\".\"]"),
            (true, false) => {}
            (false, false) => written.insert(0, (".".to_owned(), "the project".to_owned())),
        }
        write_list(f, "write", &written)
    }

    fn write_protected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_settings = self.of_settings(|settings| &settings.protect);
        if self.is_read_only() {
            return match of_settings.is_empty() {
                true => Ok(()),
                false => write_list(f, "protect", &of_settings),
            };
        }
        writeln!(
            f,
            "# To be read only: what somebody else runs or believes later. What is in it can be read: keep keys elsewhere.\n\
             # What changes it fails inside, a `git checkout` too; whoever replaces a file of it outside ends the guest."
        )?;
        if self.is_for_agent && self.has_git() {
            writeln!(
                f,
                "# Git's hooks and settings stay as they are unasked, but for those of submodules and of repositories in this one."
            )?;
        }
        let hidden = self.of_settings(|settings| &settings.hide);
        let is_hidden = |line: &Line| {
            let path = Path::new(&line.0);
            hidden.iter().any(|(hidden, _)| path.starts_with(hidden))
        };
        let mut protected = self.protected();
        protected.retain(|line| !is_hidden(line));
        let is_new = |line: &Line| protected.iter().all(|known| known.0 != line.0);
        let of_settings: Vec<_> = of_settings.into_iter().filter(is_new).collect();
        protected.extend(of_settings);
        write_list(f, "protect", &protected)?;
        for link in &self.project.links {
            writeln!(
                f,
                "# {link} is a link, which cannot be protected where it stands."
            )?;
        }
        if self.project.has_git_elsewhere {
            writeln!(
                f,
                "# This is a worktree or a submodule: git finds its repository only if that is granted, too."
            )?;
        }
        Ok(())
    }

    fn write_hidden(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = self.of_settings(|settings| &settings.hide);
        if hidden.is_empty() {
            return Ok(());
        }
        writeln!(f, "# Not there for the guest.")?;
        write_list(f, "hide", &hidden)
    }

    /// What is installed by links to a cache is the cache's own files.
    fn write_linked(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = self.of_settings(|settings| &settings.read);
        if self.project.linked.is_empty() {
            return match read.is_empty() {
                true => Ok(()),
                false => write_list(f, "read-if-there", &read),
            };
        }
        let folders: Vec<_> = self
            .project
            .linked
            .iter()
            .copied()
            .chain(read.iter().map(|(value, _)| value.as_str()))
            .map(quoted)
            .collect();
        writeln!(
            f,
            "# To be read and executed: its files may be those of a cache that all projects share. Install outside, or take\n\
             # this away and have them copied (package-import-method=copy, UV_LINK_MODE=copy).\nread-if-there = [{}]",
            folders.join(", ")
        )
    }

    fn write_network(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let granted = self.of_settings(|settings| &settings.connect);
        if !granted.is_empty() {
            writeln!(
                f,
                "# It can send whatever it reads wherever it may connect."
            )?;
            return write_list(f, "connect", &granted);
        }
        let of_model = self.is_for_agent.then_some(MODEL);
        let hosts: Vec<_> = of_model
            .into_iter()
            .chain(self.tools().flat_map(|tool| tool.hosts).copied())
            .collect();
        if hosts.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "# No network, and caches of tools are only read. To fetch inside, into caches of the guest's own; it can send\n\
             # whatever it reads wherever it may connect. Outside, settings of the project start programs when it is fetched."
        )?;
        let key = self.is_for_agent.then_some("ANTHROPIC_API_KEY");
        let variables: Vec<_> = key
            .into_iter()
            .chain(self.tools().filter_map(|tool| tool.cache))
            .map(|variable| format!("\"{variable}\""))
            .collect();
        if !variables.is_empty() {
            writeln!(f, "# env = [{}]", variables.join(", "))?;
        }
        writeln!(f, "# connect = [")?;
        for host in hosts {
            writeln!(f, "#     \"tcp://{host}:443\",")?;
        }
        writeln!(
            f,
            "# ]\n# Tests that listen, at this machine's own loopback:\n# listen = [\"tcp://127.0.0.1:0\"]"
        )
    }

    /// What of the settings is no grant.
    fn write_left(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(settings) = self.settings.filter(|settings| !settings.left.is_empty()) else {
            return Ok(());
        };
        writeln!(f, "\n# Of {}'s settings, left out:", settings.of)?;
        for (what, why) in &settings.left {
            writeln!(f, "#   {}: {why}", visible(what))?;
        }
        Ok(())
    }

    fn write_limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = match self.is_for_agent {
            true => "8h",
            false => "1h",
        };
        let memory = match self.holds_memory {
            true => "memory = \"4G\"",
            false => {
                "# `palisade doctor` says what is missing to bound memory here.\n# memory = \"4G\""
            }
        };
        writeln!(
            f,
            "\n[limits]\n{memory}\nprocesses = 1024\ntmp-size = \"2G\"\ntime = \"{time}\""
        )
    }
}

impl fmt::Display for Draft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        self.write_profiles(f)?;
        self.write_grants(f)?;
        self.write_limits(f)?;
        self.write_left(f)?;
        match self.is_for_agent {
            false => Ok(()),
            true => writeln!(
                f,
                "\n# What the agent has made runs outside as soon as you or your tools run it: look at `git status` before, also at what\n\
                 # git ignores, and at names like .envrc and .mcp.json that were not there."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::Policy;

    fn draft(names: &[&str], is_for_agent: bool, holds_memory: bool) -> String {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            match *name {
                ".git" | ".github" => std::fs::create_dir_all(folder.path().join(name)).unwrap(),
                name => std::fs::write(folder.path().join(name), "").unwrap(),
            }
        }
        let project = Project::look(folder.path()).unwrap().unwrap();
        let draft = Draft {
            project: &project,
            file: "policy.toml",
            is_for_agent,
            holds_memory,
            settings: None,
        };
        draft.to_string()
    }

    #[test]
    fn a_crate_on_a_forge() {
        let names = [
            "Cargo.toml",
            ".git",
            ".github",
            ".env",
            ".env.example",
            "README.md",
        ];
        insta::assert_snapshot!(draft(&names, false, true));
    }

    #[test]
    fn all_tools_for_an_agent() {
        let names = [
            "Cargo.toml",
            "package.json",
            "pyproject.toml",
            "go.mod",
            "pom.xml",
            "CMakeLists.txt",
            "Makefile",
            ".git",
        ];
        insta::assert_snapshot!(draft(&names, true, false));
    }

    #[test]
    fn nothing_known() {
        insta::assert_snapshot!(draft(&[], false, true));
    }

    /// Whatever lies there.
    #[test]
    fn every_draft_is_a_policy() {
        let markers = super::super::tool::TOOLS.iter().map(|tool| tool.markers[0]);
        for marker in markers.chain(["README"]) {
            for is_for_agent in [false, true] {
                let text = draft(&[marker, ".git", ".env.\"x"], is_for_agent, true);
                let policy = Policy::from_toml(&text, "policy.toml", Path::new("/project"));
                policy
                    .and_then(|policy| policy.validate())
                    .unwrap_or_else(|error| panic!("{text}\n{error}"));
            }
        }
    }
}
