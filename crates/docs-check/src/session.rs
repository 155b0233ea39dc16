//! Commands and what they print, as a document shows them.

use crate::{Document, Fence};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Stands between the outputs of two commands; no document prints it.
const SEPARATOR: char = '\u{1e}';

/// A document's examples: `$ command` lines, each followed by what it prints, both streams
/// together. All of a document is one session, so that an example finds what those above it left.
///
/// Only blocks marked `console run` are played. `...` alone on a line stands for any lines, `[..]`
/// inside a line for any characters. A line that begins with `>` goes on with the command before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// Line of its block in the document.
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// Where sessions are played: one folder for all of a document's, commands found on this PATH.
#[derive(Debug)]
pub struct Shell {
    /// The folder they start in.
    pub folder: PathBuf,
    /// Searched first.
    pub programs: PathBuf,
}

impl Session {
    /// Reads a document's blocks; `None` if it has none to play.
    #[must_use]
    pub fn of_document(document: &Document) -> Option<Self> {
        let mut session = Self::default();
        for fence in document
            .fences()
            .iter()
            .filter(|fence| fence.info == "console run")
        {
            session.read(fence);
        }
        (!session.steps.is_empty()).then_some(session)
    }

    fn read(&mut self, fence: &Fence) {
        let first = self.steps.len();
        for line in &fence.content {
            let step = self.steps[first..].last_mut();
            match (line.strip_prefix("$ "), line.strip_prefix('>'), step) {
                (Some(command), ..) => self.steps.push(Step::new(fence.line, command)),
                (None, Some(more), Some(step)) if step.expected.is_empty() => step.resume(more),
                (None, _, Some(step)) => step.expected.push(line.clone()),
                (None, _, None) => {}
            }
        }
    }

    /// Plays the commands in one shell and tells each that printed something else.
    ///
    /// # Panics
    ///
    /// If no shell can be started.
    #[must_use]
    pub fn play(&self, shell: &Shell) -> Vec<String> {
        let printed = shell.run(&self.script());
        let outputs: Vec<_> = printed.split(SEPARATOR).skip(1).collect();
        if outputs.len() != self.steps.len() {
            return vec![format!(
                "only {} of {} commands were run:\n{printed}",
                outputs.len(),
                self.steps.len()
            )];
        }
        self.steps
            .iter()
            .zip(outputs)
            .filter_map(|(step, output)| step.difference(output))
            .collect()
    }

    /// Each command sees the status of the one before it in `$?`.
    fn script(&self) -> String {
        let mut script = String::from("exec 2>&1\nstatus=0\n");
        for step in &self.steps {
            script += &format!(
                "printf '\\036\\n'; (exit $status)\n{}\nstatus=$?\n",
                step.command
            );
        }
        script
    }
}

impl Step {
    fn new(line: usize, command: &str) -> Self {
        Self {
            line,
            command: command.to_owned(),
            expected: Vec::new(),
        }
    }

    fn resume(&mut self, more: &str) {
        self.command.push('\n');
        self.command
            .push_str(more.strip_prefix(' ').unwrap_or(more));
    }

    fn difference(&self, output: &str) -> Option<String> {
        let printed: Vec<_> = output.lines().skip(1).collect();
        let expected: Vec<_> = self.expected.iter().map(String::as_str).collect();
        (!lines_match(&expected, &printed)).then(|| {
            format!(
                "line {}: $ {}\nshown:\n{}\nprinted:\n{}",
                self.line,
                self.command,
                expected.join("\n"),
                printed.join("\n")
            )
        })
    }
}

impl Shell {
    fn run(&self, script: &str) -> String {
        let path = std::env::join_paths(
            std::iter::once(self.programs.clone())
                .chain(["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from)),
        )
        .unwrap_or_else(|error| panic!("{}: {error}", self.programs.display()));
        let output = Command::new("bash")
            .args(["-c", script])
            .current_dir(&self.folder)
            .env_clear()
            .envs([
                ("HOME", self.folder.as_os_str()),
                ("PATH", &path),
                ("LANG", "C.UTF-8".as_ref()),
            ])
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("bash: {error}"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A shell whose commands find `program` under its own name.
    ///
    /// # Panics
    ///
    /// If the folder cannot be written.
    #[must_use]
    pub fn new(folder: &Path, program: &Path) -> Self {
        let programs = folder.join("bin");
        let link = programs.join(program.file_name().unwrap_or_default());
        let linked =
            fs::create_dir(&programs).and_then(|()| std::os::unix::fs::symlink(program, &link));
        linked.unwrap_or_else(|error| panic!("{}: {error}", link.display()));
        let start = folder.join("home");
        fs::create_dir(&start).unwrap_or_else(|error| panic!("{}: {error}", start.display()));
        Self {
            folder: start,
            programs,
        }
    }
}

fn lines_match(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
    }
}

fn line_matches(expected: &str, printed: &str) -> bool {
    let Some((before, after)) = expected.split_once("[..]") else {
        return expected == printed;
    };
    printed.strip_prefix(before).is_some_and(|rest| {
        let cuts = (0..=rest.len()).filter(|cut| rest.is_char_boundary(*cut));
        cuts.into_iter()
            .any(|cut| line_matches(after, &rest[cut..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document::parse("x.md".into(), text)
    }

    fn play(text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let document = document(&format!("```console run\n{text}```\n"));
        let session = Session::of_document(&document).unwrap();
        session.play(&Shell::new(folder.path(), Path::new("/bin/true")))
    }

    #[test]
    fn what_is_shown_is_what_is_printed() {
        assert_eq!(
            play("$ echo one; echo two >&2\none\ntwo\n$ true\n"),
            [""; 0]
        );
    }

    #[test]
    fn a_command_sees_the_status_and_the_folder_of_the_one_before() {
        assert_eq!(
            play("$ (exit 7)\n$ echo $?\n7\n$ mkdir a && cd a\n$ basename $PWD\na\n"),
            [""; 0]
        );
    }

    #[test]
    fn a_command_may_go_on_over_lines() {
        assert_eq!(play("$ cat <<END\n> text\n> END\ntext\n"), [""; 0]);
    }

    #[test]
    fn another_output_is_told() {
        let told = play("$ echo one\ntwo\n");
        assert_eq!(told, ["line 1: $ echo one\nshown:\ntwo\nprinted:\none"]);
        assert_eq!(play("$ echo one\n").len(), 1, "an output that is not shown");
        assert_eq!(
            play("$ exit 3\n$ echo never\nnever\n").len(),
            1,
            "a shell that ended early"
        );
    }

    #[test]
    fn wildcards() {
        assert!(lines_match(&["a", "...", "z"], &["a", "b", "c", "z"]));
        assert!(lines_match(&["..."], &[]));
        assert!(!lines_match(&["a", "..."], &["b"]));
        assert!(line_matches("pid [..] of [..].", "pid 12 of ä."));
        assert!(!line_matches("pid [..].", "pid 12"));
    }

    #[test]
    fn blocks_of_one_document_are_one_session() {
        let told = play("$ mkdir a && cd a\n```\n\ntext\n\n```console run\n$ basename $PWD\na\n");
        assert_eq!(told, [""; 0]);
    }

    #[test]
    fn other_blocks_are_not_played() {
        assert_eq!(
            Session::of_document(&document("```console\n$ rm -rf /\n```\n")),
            None
        );
    }
}
