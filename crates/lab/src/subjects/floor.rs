//! A row's floor: the program that does the least around a command.

use super::{Subject, words_of};
use crate::{figure::FLOOR, network::Network};
use anyhow::{Context, bail};
use palisade_policy::Policy;
use palisade_process::{Tier, is_looked_through};
use palisade_wall::Command;
use serde_json::Value;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// One of `lab/workloads/floor-*.c`, which takes the command as its last arguments.
#[derive(Clone, Debug)]
pub struct FloorProgram {
    program: PathBuf,
    /// What it is told before.
    words: Vec<OsString>,
}

impl FloorProgram {
    /// The one at `program`.
    pub(crate) fn new(program: PathBuf) -> Self {
        Self {
            program,
            words: Vec::new(),
        }
    }

    /// The same, doing more.
    pub(crate) fn with(&self, words: Vec<OsString>) -> Self {
        let mut more = self.clone();
        more.words.extend(words);
        more
    }

    /// The same where all but the command is made ahead and then waits to be told.
    pub(crate) fn parked(&self, command: &Command) -> Vec<OsString> {
        let mut parked = self.clone();
        parked.words.insert(0, "--parked".into());
        parked.line(command)
    }

    /// The command in it.
    pub(crate) fn line(&self, command: &Command) -> Vec<OsString> {
        let program = [self.program.clone().into()].into_iter();
        let words = self.words.iter().cloned();
        program.chain(words).chain(words_of(command)).collect()
    }
}

impl Subject for FloorProgram {
    fn name(&self) -> &'static str {
        FLOOR
    }

    fn command_line(
        &self,
        _policy: &Policy,
        command: &Command,
        _network: &Network,
        _room: &Path,
    ) -> anyhow::Result<Vec<OsString>> {
        Ok(self.line(command))
    }
}

/// The words by which `floor-wall` does what palisade told (`explain --json`) on a machine of this tier.
///
/// # Errors
///
/// When a step is none that it can do: the floor would be less than the wall.
pub(crate) fn steps_of(told: &Value, tier: Tier) -> anyhow::Result<Vec<OsString>> {
    let steps = told["steps"].as_array();
    let steps = steps.context("palisade explain tells no steps")?;
    let words = steps.iter().map(|step| words_of_step(step, tier));
    let words: Vec<_> = words.collect::<anyhow::Result<_>>()?;
    Ok(words.into_iter().flatten().map(OsString::from).collect())
}

/// The root is made, left and named in any case.
fn words_of_step(step: &Value, tier: Tier) -> anyhow::Result<Vec<&str>> {
    let text = |key: &str| {
        let text = step[key].as_str();
        text.with_context(|| format!("a step of palisade explain has no {key}: {step}"))
    };
    let kind = text("step")?;
    Ok(match kind {
        "make-root" | "leave-host" | "name-host" => vec![],
        "make-folder" => vec!["--folder", text("path")?],
        "make-symlink" => vec!["--link", text("target")?, text("path")?],
        "write-file" => vec!["--file", text("path")?, text("content")?],
        "mount" => {
            let (source, target) = (text("source")?, text("target")?);
            let folder = Path::new(source);
            let is_looked_through = is_looked_through(folder, tier) && folder.is_dir();
            let look = is_looked_through.then_some(["--look", source]);
            let look = look.into_iter().flatten();
            look.chain(["--mount", source, target]).collect()
        }
        "remount" => vec!["--scratch", text("target")?],
        "mount-proc" => vec!["--proc", text("target")?],
        other => bail!("the floor of a wall knows no step {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_wall_of_the_floor_has_each_step_of_palisades() {
        let told = json!({"steps": [
            {"step": "make-root", "size_bytes": 1},
            {"step": "make-folder", "path": "/dev", "mode": 493},
            {"step": "make-symlink", "path": "/dev/fd", "target": "/proc/self/fd"},
            {"step": "write-file", "path": "/dev/null", "content": ""},
            {"step": "mount", "source": "/dev/null", "target": "/dev/null"},
            {"step": "write-file", "path": "/etc/passwd", "content": "me"},
            {"step": "remount", "target": "/tmp", "set": "nodev", "clear": ""},
            {"step": "mount-proc", "target": "/proc"},
            {"step": "leave-host"},
        ]});
        let words = steps_of(&told, Tier::Privileged).unwrap();
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "--folder /dev --link /proc/self/fd /dev/fd --file /dev/null  --mount /dev/null /dev/null \
             --file /etc/passwd me --scratch /tmp --proc /proc"
        );
    }

    /// As in a plan of an ordinary user's.
    #[test]
    fn it_looks_through_what_a_plan_looks_through() {
        let mounts = ["/usr", "/etc", "/etc/passwd", "/etc/alternatives"]
            .map(|path| json!({"step": "mount", "source": path, "target": path}));
        let told = json!({"steps": mounts});
        let looks = |tier| {
            let words = steps_of(&told, tier).unwrap();
            let looks = words.split(|word| word == "--look").skip(1);
            looks.map(|rest| rest[0].clone()).collect::<Vec<_>>()
        };
        assert_eq!(looks(Tier::UserNamespace), ["/etc"]);
        assert!(looks(Tier::Privileged).is_empty());
    }

    #[test]
    fn a_step_that_it_cannot_do_is_an_error() {
        let told = json!({"steps": [{"step": "hide", "target": "/a"}]});
        let error = steps_of(&told, Tier::Privileged).unwrap_err().to_string();
        assert_eq!(error, "the floor of a wall knows no step hide");
    }
}
