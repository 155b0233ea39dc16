//! The table: each probe of `guests/portable`, where and under which policy it runs.
//!
//! ```text
//! {base}/readable            granted for reading; writable/ in it for writing
//!        writable            granted for writing; readable/ in it for reading, protected/ protected
//!        hidden              not granted
//!        single/file         this file is granted for reading, its folder is not
//!        other               granted for writing: where `moving` moves to and from
//!        there/readable      granted for reading at /inside/readable
//!        there/writable      granted for writing at /inside/writable
//!        links               granted for reading: links to the others
//! ```

use super::differences::is_out_of_reach;
use super::folder::HIDDEN_TEXT;
use super::{Line, Observation, Wall};
use crate::guests::Probe;
use crate::policy::Grant::{self, Cwd, Env, Limit, Listen, Protect, Read, ReadAt, Write, WriteAt};

/// What the policy allows at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing.
    None,
    /// To read.
    Read,
    /// To read and to change.
    Write,
}

/// The guest's stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The end of a file at once.
    Empty,
    /// These bytes.
    Text(&'static str),
    /// So many bytes of a pattern.
    Pattern(usize),
}

/// One probe in one situation.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What is run.
    pub probe: Probe,
    /// As in test names.
    pub name: &'static str,
    /// The probe's arguments: templates.
    pub arguments: &'static [&'static str],
    /// Grants and limits, beside the guest's own folder.
    pub policy: &'static [Grant],
    /// What the policy allows at the place that the probe works on, if it is one.
    pub access: Option<Access>,
    /// What it may read.
    pub input: Input,
    /// What somebody says to the listener that it was given.
    pub call: Option<&'static str>,
}

impl Case {
    const fn new(probe: Probe, name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self {
            probe,
            name,
            arguments,
            policy: &[],
            access: None,
            input: Input::Empty,
            call: None,
        }
    }

    const fn under(mut self, policy: &'static [Grant]) -> Self {
        self.policy = policy;
        self
    }

    const fn reading(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// `PROBE/CASE`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.probe.name(), self.name)
    }

    /// What no list of expectations can excuse.
    ///
    /// # Errors
    ///
    /// What was seen that the policy does not grant, or not seen although it does.
    pub fn judge(&self, wall: Wall, seen: &Observation) -> Result<(), String> {
        if seen.lines.iter().any(|line| line.0.contains(HIDDEN_TEXT)) {
            return Err("ESCAPE: the text of a file that is not granted came out".to_owned());
        }
        if let Some(path) = seen.changed.iter().find(|path| !is_writable(path)) {
            return Err(format!("ESCAPE: {path} changed on the host"));
        }
        let is_reached = wall == Wall::Process || !is_out_of_reach(self);
        match self.access {
            Some(access) => self.judge_place(if is_reached { access } else { Access::None }, seen),
            None => Ok(()),
        }
    }

    fn judge_place(&self, access: Access, seen: &Observation) -> Result<(), String> {
        let is_read = seen
            .lines
            .contains(&Line("read: content of a file|".to_owned()));
        if self.probe == Probe::Reading && is_read != (access >= Access::Read) {
            return Err(format!(
                "{access:?} is allowed, but the file was read: {is_read}"
            ));
        }
        if !CHANGING.contains(&self.probe) {
            return Ok(());
        }
        let is_changed = !seen.changed.is_empty();
        // A link in the place may be changed, and what else moves does so between other places.
        if is_changed != (access == Access::Write) && self.probe != Probe::Moving {
            return Err(format!(
                "{access:?} is allowed, but something changed: {is_changed}"
            ));
        }
        Ok(())
    }
}

const CHANGING: [Probe; 5] = [
    Probe::Writing,
    Probe::Making,
    Probe::Removing,
    Probe::Moving,
    Probe::Spelling,
];

/// What the common policy grants for writing, below the base.
const WRITABLE: [&str; 4] = [
    "writable/",
    "readable/writable/",
    "other/",
    "there/writable/",
];
const KEPT: [&str; 2] = ["writable/readable/", "writable/protected/"];

fn is_writable(path: &str) -> bool {
    let below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    below(&WRITABLE) && !below(&KEPT)
}

/// The policy of every probe that works on files.
const FILES: &[Grant] = &[
    Read("{base}/readable"),
    Write("{base}/readable/writable"),
    Write("{base}/writable"),
    Read("{base}/writable/readable"),
    Protect("{base}/writable/protected"),
    Read("{base}/single/file"),
    Write("{base}/other"),
    ReadAt("{base}/there/readable", "/inside/readable"),
    WriteAt("{base}/there/writable", "/inside/writable"),
    Read("{base}/links"),
    Cwd("{base}/writable"),
];

/// Name, path, and what is allowed there.
const PLACES: &[(&str, &[&str], Access)] = &[
    (
        "readable",
        &["{base}/readable", "{base}/other"],
        Access::Read,
    ),
    (
        "writable",
        &["{base}/writable", "{base}/other"],
        Access::Write,
    ),
    ("hidden", &["{base}/hidden", "{base}/other"], Access::None),
    ("missing", &["{base}/missing", "{base}/other"], Access::None),
    (
        "protected",
        &["{base}/writable/protected", "{base}/other"],
        Access::Read,
    ),
    (
        "read-below-write",
        &["{base}/writable/readable", "{base}/other"],
        Access::Read,
    ),
    (
        "write-below-read",
        &["{base}/readable/writable", "{base}/other"],
        Access::Write,
    ),
    (
        "single-file",
        &["{base}/single", "{base}/other"],
        Access::Read,
    ),
    (
        "read-elsewhere",
        &["/inside/readable", "{base}/other"],
        Access::Read,
    ),
    (
        "write-elsewhere",
        &["/inside/writable", "{base}/other"],
        Access::Write,
    ),
    (
        "link-to-readable",
        &["{base}/links/readable", "{base}/other"],
        Access::Read,
    ),
    (
        "link-to-writable",
        &["{base}/links/writable", "{base}/other"],
        Access::Write,
    ),
    (
        "link-to-hidden",
        &["{base}/links/hidden", "{base}/other"],
        Access::None,
    ),
    (
        "absolute-link",
        &["{base}/links/absolute", "{base}/other"],
        Access::Read,
    ),
    (
        "absolute-link-to-hidden",
        &["{base}/links/absolute-hidden", "{base}/other"],
        Access::None,
    ),
    (
        "climb-to-readable",
        &["{base}/writable/../readable", "{base}/other"],
        Access::Read,
    ),
    (
        "climb-to-hidden",
        &["{base}/writable/../hidden", "{base}/other"],
        Access::None,
    ),
    (
        "climb-over-all",
        &["{base}/../../../../../../..{base}/readable", "{base}/other"],
        Access::Read,
    ),
    ("here", &[".", "{base}/other"], Access::Write),
    ("relative", &["../readable", "../other"], Access::Read),
    ("tmp", &["/tmp", "{base}/other"], Access::Write),
];

/// Where Go's own way with paths may matter.
const GO_PLACES: [&str; 6] = [
    "readable",
    "writable",
    "hidden",
    "protected",
    "write-elsewhere",
    "link-to-writable",
];

/// Every case, probe by probe.
#[must_use]
pub fn all() -> Vec<Case> {
    Probe::ALL
        .iter()
        .flat_map(|probe| of_probe(*probe))
        .collect()
}

fn at_every_place(probe: Probe) -> Vec<Case> {
    let cases = PLACES.iter().map(|(name, arguments, access)| Case {
        access: Some(*access),
        ..Case::new(probe, name, arguments).under(FILES)
    });
    // What is in /tmp nobody outside sees, and the suite can't lay a file there.
    cases
        .filter(|case| case.name != "tmp" || probe == Probe::Making)
        .map(|case| Case {
            access: case.access.filter(|_| case.name != "tmp"),
            ..case
        })
        .collect()
}

const fn alone(probe: Probe) -> Case {
    Case::new(probe, "alone", &[])
}

fn of_probe(probe: Probe) -> Vec<Case> {
    let case = |name, arguments| Case::new(probe, name, arguments);
    match probe {
        Probe::Reading
        | Probe::Folders
        | Probe::Writing
        | Probe::Making
        | Probe::Removing
        | Probe::Moving
        | Probe::Spelling => at_every_place(probe),
        Probe::Devices | Probe::Processes | Probe::Clocks | Probe::Randomness => vec![alone(probe)],
        Probe::Absent => vec![alone(probe)],
        Probe::Arguments => vec![
            case("none", &[]),
            case("plain", &["one", "two"]),
            case(
                "odd",
                &[
                    "",
                    " ",
                    "--",
                    "-x",
                    "a b",
                    "ä",
                    "line\nend",
                    "\u{1b}[31m",
                    "*",
                    "$HOME",
                    "'",
                ],
            ),
        ],
        Probe::Root => vec![
            alone(probe),
            case("cwd", &[]).under(&[Write("{base}/writable"), Cwd("{base}/writable")]),
        ],
        Probe::Environment => vec![
            alone(probe),
            case("granted", &[]).under(&[
                Env("GRANTED=yes"),
                Env("EMPTY="),
                Env("WITH=a=b"),
                Env("HOME=/elsewhere"),
            ]),
        ],
        Probe::Place => vec![
            case("granted", &[]).under(FILES),
            case("default", &[]).under(&[]),
            case("below", &[]).under(&[
                Read("{base}/readable"),
                Write("{base}/writable"),
                Cwd("{base}/writable/sub"),
            ]),
        ],
        Probe::Input => vec![
            case("empty", &[]),
            case("text", &[]).reading(Input::Text("a line\nand another")),
            case("large", &[]).reading(Input::Pattern(3_000_001)),
        ],
        Probe::Streams => vec![
            case("empty", &[]),
            case("text", &[]).reading(Input::Text("text")),
        ],
        Probe::Polling => vec![
            case("empty", &[]),
            case("text", &[]).reading(Input::Text("text")),
        ],
        Probe::ExitCode => vec![
            case("0", &["0"]),
            case("1", &["1"]),
            case("2", &["2"]),
            case("124", &["124"]),
            case("125", &["125"]),
            case("126", &["126"]),
            case("127", &["127"]),
            case("128", &["128"]),
            case("137", &["137"]),
            case("255", &["255"]),
            case("256", &["256"]),
            case("257", &["257"]),
            case("-1", &["-1"]),
            case("at-once", &["42", "at once"]),
        ],
        Probe::Fault => vec![
            case("abort", &["abort"]),
            case("trap", &["trap"]),
            case("division-by-zero", &["division by zero"]),
            case("quotient-too-large", &["quotient too large"]),
            case("read-nowhere", &["read nowhere"]),
            case("write-nowhere", &["write nowhere"]),
            case("write-at-null", &["write at null"]),
            case("call-null", &["call null"]),
            case("recursion", &["recursion"]),
        ],
        Probe::Loop => vec![
            case("time", &[]).under(&[Limit("time", "500ms")]),
            case("cpu-time", &[]).under(&[Limit("cpu-time", "1s")]),
        ],
        Probe::Sleep => vec![case("time", &[]).under(&[Limit("time", "500ms")])],
        Probe::Allocate => vec![
            case("within", &["32"]).under(&[Limit("memory", "256M")]),
            case("beyond", &["400"]).under(&[Limit("memory", "128M")]),
            case("unlimited", &["300"]),
        ],
        Probe::Flood => vec![
            case("within", &["1"]).under(&[Limit("output", "4M")]),
            case("beyond", &["32"]).under(&[Limit("output", "1M")]),
        ],
        Probe::OpenMany => vec![
            case("within", &["/dev/null", "20"]).under(&[Limit("files", "64")]),
            case("beyond", &["/dev/null", "1000"]).under(&[Limit("files", "64")]),
        ],
        Probe::GrowFile => vec![
            case("within", &["{base}/writable", "8"])
                .under(&[Write("{base}/writable"), Limit("file-size", "64M")]),
            case("beyond", &["{base}/writable", "8"])
                .under(&[Write("{base}/writable"), Limit("file-size", "4M")]),
        ],
        Probe::FillTmp => vec![
            case("within", &["/tmp", "4"]).under(&[Limit("tmp-size", "16M")]),
            case("beyond", &["/tmp", "32"]).under(&[Limit("tmp-size", "16M")]),
        ],
        Probe::GoFiles => at_every_place(probe)
            .into_iter()
            .filter(|case| GO_PLACES.contains(&case.name))
            .collect(),
        Probe::GoGiven => vec![
            case("alone", &["one", "two words", ""]),
            case("granted", &[])
                .under(&[
                    Write("{base}/writable"),
                    Cwd("{base}/writable"),
                    Env("GRANTED=yes"),
                ])
                .reading(Input::Pattern(100_000)),
        ],
        Probe::GoRoutines => vec![alone(probe)],
        // Where its code lies is no matter of walls.
        Probe::GoPanic => vec![alone(probe).under(&[Env("GOTRACEBACK=none")])],
        Probe::GoServe => vec![Case {
            call: Some("POST /path HTTP/1.0\r\nContent-Length: 4\r\n\r\nbody"),
            ..case("ready", &[]).under(&[Listen("tcp://127.0.0.1:{port},ready")])
        }],
        Probe::Serve => vec![
            case("none", &[]),
            Case {
                call: Some("a word to the server\n"),
                ..case("ready", &[]).under(&[Listen("tcp://127.0.0.1:{port},ready")])
            },
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{all, is_writable};

    #[test]
    fn titles_are_unique() {
        let titles: HashSet<_> = all().iter().map(super::Case::title).collect();
        assert_eq!(titles.len(), all().len());
    }

    #[test]
    fn what_the_policy_keeps_is_not_writable() {
        assert!(is_writable("writable/new"));
        assert!(is_writable("readable/writable/new"));
        assert!(!is_writable("readable/new"));
        assert!(!is_writable("writable/protected/new"));
        assert!(!is_writable("writable"));
    }
}
