//! What would have allowed what was denied: flags for a command line, lines for a policy.
//!
//! A guest chose what it tried. So each value is read as a policy reads it; what cannot be read so, or acts on a terminal, is no
//! remedy.

use super::opens;
use crate::{commands::disk::Disk, denial, shell::quote};
use palisade_policy::{Access, ConnectGrant, FileGrant, ListenGrant, visible};
use palisade_process::{
    Host, Kind, ThisHost,
    places::{Advice, IN_PART, NAMED},
};
use palisade_wall::{Denial, Report};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// A flag, the key of a policy's `[grants]` that says the same, and whether it has such a value.
type GrantKind = (&'static str, &'static str, fn(&str) -> bool);

const KINDS: [GrantKind; 5] = [
    (READ, "read", |value| is_file(Access::Read, value)),
    (WRITE, "write", |value| is_file(Access::Write, value)),
    ("--connect", "connect", |value| {
        value.parse::<ConnectGrant>().is_ok()
    }),
    ("--listen", "listen", |value| {
        value.parse::<ListenGrant>().is_ok()
    }),
    ("--exec", "exec", |value| Path::new(value).is_absolute()),
];

const READ: &str = "--read";
const WRITE: &str = "--write";

/// A folder is granted instead of so many things in it.
pub(super) const MANY: usize = 3;

/// And if it holds so many times as much at most.
const MOST_BESIDE: usize = 4;

/// By its whole path, and never all there is.
fn is_file(access: Access, value: &str) -> bool {
    value.starts_with('/') && parse(access, value).is_some_and(|grant| grant.host != Path::new("/"))
}

fn parse(access: Access, value: &str) -> Option<FileGrant> {
    FileGrant::parse(access, value, Path::new("/")).ok()
}

/// A grant that a guest missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) struct Missed {
    flag: &'static str,
    pub(in crate::commands) key: &'static str,
    pub(in crate::commands) value: String,
}

impl Missed {
    fn read(grant: &str) -> Option<Self> {
        let (flag, value) = grant.split_once(' ')?;
        let (flag, key, is_one) = KINDS.iter().find(|(known, _, _)| *known == flag)?;
        (is_one(value) && visible(value) == value).then(|| Self {
            flag,
            key,
            value: value.to_owned(),
        })
    }

    /// To read what lies at a path.
    pub(in crate::commands) fn of_path(path: &Path) -> Option<Self> {
        let grant = FileGrant {
            access: Access::Read,
            host: path.into(),
            guest: None,
        };
        path.to_str()
            .and_then(|_| Self::read(&format!("{READ} {grant}")))
    }

    /// As a report has it.
    pub(in crate::commands) fn grant(&self) -> String {
        format!("{} {}", self.flag, self.value)
    }

    /// As a policy's list has it.
    pub(in crate::commands) fn as_value(&self) -> super::apply::Value {
        super::apply::Value {
            key: self.key,
            text: self.value.clone(),
            why: None,
        }
    }

    /// Whether it allows what was denied here.
    pub(in crate::commands) fn allows(&self, denial: &Denial) -> bool {
        let grant = denial.grant.as_deref().and_then(Self::read);
        grant.is_some_and(|grant| grant == *self || grant.flag == self.flag && self.holds(&grant))
    }

    pub(in crate::commands) fn holds(&self, other: &Self) -> bool {
        let paths = self.path().zip(other.path());
        paths.is_some_and(|(path, other)| other.starts_with(path))
    }

    /// What it would open.
    pub(super) fn opened(&self) -> String {
        opens::describe(&self.grant()).unwrap_or_else(|| self.value.clone())
    }

    /// The path that is granted, if nothing else is and it has no other one inside.
    pub(in crate::commands) fn path(&self) -> Option<PathBuf> {
        let grant = self.file()?;
        grant.guest.is_none().then_some(grant.host)
    }

    /// The file or folder of the host's that would be shown, wherever that is inside.
    pub(in crate::commands) fn file(&self) -> Option<FileGrant> {
        let access = match self.flag {
            READ => Access::Read,
            WRITE => Access::Write,
            _ => return None,
        };
        parse(access, &self.value)
    }
}

/// The grants that would have allowed what a report tells of, and those that somebody gave while the guest ran; many in one folder as
/// one. What costs a guest nothing is none.
pub(in crate::commands) fn missed(report: &Report, disk: &Disk) -> Vec<Missed> {
    folded(each_missed(report), disk)
}

/// Takes the flags away from what the user has named as kept from every guest since the report was written.
pub(super) fn withhold(report: &mut Report, disk: &Disk) {
    let is_kept = |grant: &str| {
        let file = Missed::read(grant).and_then(|missed| missed.file());
        file.is_some_and(|file| disk.keeps(&file.host))
    };
    for denial in &mut report.denials {
        if denial.grant.take_if(|grant| is_kept(grant)).is_some()
            && let Advice::Refuse(why) = NAMED
        {
            denial.reason = Some(format!("it is not granted, and {why}: {IN_PART}"));
        }
    }
    report.granted.retain(|granted| !is_kept(&granted.grant));
}

/// The same, each by itself.
pub(in crate::commands) fn each_missed(report: &Report) -> Vec<Missed> {
    let given = report.granted.iter();
    let given = given.filter(|granted| granted.revoked_at_us.is_none());
    let given = given.map(|granted| granted.grant.as_str());
    let lost = report.denials.iter().filter(|denial| !denial.probe);
    let lost = lost.filter_map(|denial| denial.grant.as_deref());
    let grants = given.chain(lost).filter_map(Missed::read);
    let mut all: Vec<Missed> = Vec::new();
    for grant in grants {
        if !all.contains(&grant) {
            all.push(grant);
        }
    }
    all
}

/// Many in one folder of this machine as the folder.
pub(in crate::commands) fn folded(all: Vec<Missed>, disk: &Disk) -> Vec<Missed> {
    fold(all, disk)
}

/// What lies in folders that may be granted whole.
trait Folders {
    /// Names of what lies in a folder, each with whether it may be granted unasked; none where the folder may not.
    fn entries(&self, folder: &Path) -> Option<Vec<(PathBuf, bool)>>;
}

impl Folders for Disk {
    fn entries(&self, folder: &Path) -> Option<Vec<(PathBuf, bool)>> {
        let advised = |path: &Path| {
            let found = self.itself(path)?;
            (self.judge(&found) == Advice::Grant).then_some(found)
        };
        advised(folder)?;
        let entries = ThisHost.entries(folder).into_iter();
        let paths = entries.map(|entry| folder.join(entry.name));
        let judged = paths.map(|path| {
            let found = advised(&path);
            (path, found.is_some_and(|found| found.kind == Kind::File))
        });
        Some(judged.collect())
    }
}

/// Many things in one folder are the folder, where it holds little else; and what is granted with another is left out.
fn fold(mut all: Vec<Missed>, folders: &dyn Folders) -> Vec<Missed> {
    while let Some(folder) = crowded(&all, folders) {
        let is_below = |one: &Missed| {
            one.flag == READ && one.path().is_some_and(|path| path.starts_with(&folder))
        };
        let first = all.iter().position(is_below).unwrap_or(all.len());
        all.retain(|one| !is_below(one));
        let value = FileGrant {
            access: Access::Read,
            host: folder.clone(),
            guest: None,
        };
        let whole = Missed::read(&format!("{READ} {value}"));
        whole.into_iter().for_each(|whole| all.insert(first, whole));
    }
    let granted: Vec<_> = all.iter().map(|one| (one.flag, one.path())).collect();
    let has_wider = |one: &Missed| {
        let Some(path) = one.path() else { return false };
        granted.iter().any(|(flag, wider)| {
            let Some(wider) = wider else { return false };
            let gives = *flag == WRITE || one.flag == READ;
            let is_itself = *flag == one.flag && *wider == path;
            gives && !is_itself && path.starts_with(wider)
        })
    };
    all.into_iter().filter(|one| !has_wider(one)).collect()
}

/// The deepest folder in which many things are missed, and little else lies.
fn crowded(all: &[Missed], folders: &dyn Folders) -> Option<PathBuf> {
    let read = all.iter().filter(|one| one.flag == READ);
    let asked: BTreeSet<_> = read.filter_map(Missed::path).collect();
    let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
    for folder in asked.iter().filter_map(|path| path.parent()) {
        *counts.entry(folder).or_default() += 1;
    }
    let mut many: Vec<_> = counts
        .into_iter()
        .filter(|(_, count)| *count >= MANY)
        .collect();
    many.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.components().count()));
    let is_whole = |folder: &Path, count: usize| {
        let Some(entries) = folders.entries(folder) else {
            return false;
        };
        let is_harmless =
            |(path, is_advised): &(PathBuf, bool)| *is_advised || asked.contains(path);
        entries.len() <= MOST_BESIDE * count && entries.iter().all(is_harmless)
    };
    let whole = many
        .into_iter()
        .find(|(folder, count)| is_whole(folder, *count));
    whole.map(|(folder, _)| folder.into())
}

/// All of it, as it can be copied: the command line that allows it, and lines of a policy. Nothing where there is no remedy.
pub(super) fn describe(missed: &[Missed], report: &Report) -> String {
    if missed.is_empty() {
        return String::new();
    }
    let flags: Vec<_> = (missed.iter())
        .map(|one| denial::flag(&one.grant()))
        .collect();
    let flags = flags.join(" ");
    // Another program has started it, with whatever it says; or the report tells of a word only that it is no text.
    let line = command_line(report, &flags).unwrap_or_else(|| format!("palisade run {flags} …"));
    let when = match report.exit_code {
        0 => "It ended well without. To allow it all the same",
        _ => "To allow it",
    };
    format!("{when}: {line}\n{}", lines(missed))
}

/// The command again with these flags, as a shell reads it.
fn command_line(report: &Report, flags: &str) -> Option<String> {
    let called = report.called.as_ref()?;
    let mut words = called.flags.iter().chain(&report.command);
    if words.any(|word| word.contains(char::REPLACEMENT_CHARACTER)) {
        return None;
    }
    let before = std::iter::once("").chain(called.flags.iter().map(String::as_str));
    let given = before
        .zip(&called.flags)
        .map(|(before, word)| flag_word(before, word));
    let guest = report.command.iter().map(quote);
    let words = given
        .chain([flags.to_owned(), "--".to_owned()])
        .chain(guest);
    let words: Vec<_> = words.collect();
    let is_here = std::env::current_dir().is_ok_and(|here| here == Path::new(&called.folder));
    let go = match is_here {
        true => String::new(),
        false => format!("cd {} && ", quote(&called.folder)),
    };
    Some(format!("{go}palisade run {}", words.join(" ")))
}

/// What a variable was set to no report tells: the shell has to know it, or says that it does not.
fn flag_word(before: &str, word: &str) -> String {
    let prefix = match word {
        _ if ["-e", "--env"].contains(&before) => "",
        word if word.starts_with("--env=") => "--env=",
        word if word.starts_with("-e") => "-e",
        _ => return quote(word),
    };
    let name = word[prefix.len()..].strip_suffix("=…");
    let is_name = |name: &&str| {
        !name.starts_with(|letter: char| letter.is_ascii_digit())
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    match name.filter(is_name) {
        Some(name) => format!("\"{prefix}{name}=${{{name}:?}}\""),
        None => quote(word),
    }
}

/// A line for each key.
fn lines(missed: &[Missed]) -> String {
    let line = |key: &str| {
        let values = missed.iter().filter(|one| one.key == key);
        let values: Vec<_> = values
            .map(|one| toml_edit::Value::from(&one.value).to_string())
            .collect();
        (!values.is_empty())
            .then(|| format!("In a policy: grants.{key} = [{}]\n", values.join(", ")))
    };
    KINDS.iter().filter_map(|(_, key, _)| line(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::denial::tests::refused;
    use palisade_process::LocalMounts;
    use palisade_wall::{Command, Exit, mock::MockWall};

    fn disk() -> Disk {
        Disk::of(None, &[], LocalMounts::here())
    }

    fn report(denials: Vec<Denial>) -> Report {
        let report = MockWall::new(Exit::Code(7)).report(&Command::new("guest"));
        Report { denials, ..report }
    }

    #[test]
    fn each_is_told_once_as_flags_and_as_lines() {
        let report = report(vec![
            refused("connect", "tcp://a.example:443", "--connect"),
            refused("listen", "tcp://*:80", "--listen"),
            refused("connect", "tcp://a.example:443", "--connect"),
            refused("connect", "unix:/run/a \"b\".sock", "--connect"),
        ]);
        insta::assert_snapshot!(describe(&missed(&report, &disk()), &report), @r#"
        To allow it: palisade run --connect tcp://a.example:443 --listen 'tcp://*:80' --connect 'unix:/run/a "b".sock' …
        In a policy: grants.connect = ["tcp://a.example:443", 'unix:/run/a "b".sock']
        In a policy: grants.listen = ["tcp://*:80"]
        "#);
    }

    #[test]
    fn a_shell_reads_the_same_command_again() {
        let called = |folder: &str, flags: &[&str], command: &[&str]| {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            Report {
                command: words(command),
                called: Some(palisade_wall::Called {
                    folder: folder.into(),
                    flags: words(flags),
                }),
                ..report(Vec::new())
            }
        };
        let here = std::env::current_dir().unwrap();
        let here = here.to_str().unwrap();
        let line = |folder: &str, flags: &[&str], command: &[&str]| {
            command_line(&called(folder, flags, command), "--read x")
        };
        let flags = ["--env", "A=…", "-eB=…", "--env=c d=…", "-e", "D"];
        insta::assert_snapshot!(
            line(here, &flags, &["sh", "-c", "# fetch\ncurl 'x'"]).unwrap(),
            @r#"palisade run --env "A=${A:?}" "-eB=${B:?}" '--env=c d=…' -e D --read x -- sh -c $'# fetch\ncurl \'x\''"#
        );
        assert_eq!(
            line("/srv/a b", &[], &["true"]).unwrap(),
            "cd '/srv/a b' && palisade run --read x -- true"
        );
        assert_eq!(line(here, &[], &["cat", "\u{fffd}"]), None, "no text");
    }

    #[test]
    fn what_is_no_grant_is_no_remedy() {
        let no_grants = [
            "--time",
            "--connect tcp://a.example",
            "--connect unix:/\u{1b}[2J",
            "--connect tcp://a.example:443\n[grants]",
            "--exec relative",
            "--read /",
            "--frobnicate y",
        ];
        let of = |grant: &str| Denial {
            grant: Some(grant.to_owned()),
            ..refused("connect", "x", "--connect")
        };
        assert_eq!(missed(&report(no_grants.map(of).into()), &disk()), []);
        let probe = Denial {
            probe: true,
            ..refused("connect", "tcp://a.example:443", "--connect")
        };
        let report = report(vec![probe]);
        assert_eq!(describe(&missed(&report, &disk()), &report), "");
    }

    fn of_flags(grants: &[&str]) -> Vec<Missed> {
        grants
            .iter()
            .map(|grant| Missed::read(grant).unwrap())
            .collect()
    }

    /// Of files that anybody may have, but for names that begin with a dot; of folders none that nobody asked for.
    struct Tree(&'static [&'static str]);

    impl Folders for Tree {
        fn entries(&self, folder: &Path) -> Option<Vec<(PathBuf, bool)>> {
            let below = self.0.iter().map(Path::new);
            let paths = below.filter(|path| path.parent() == Some(folder));
            let has_more = |path: &Path| {
                self.0
                    .iter()
                    .any(|other| Path::new(other).parent() == Some(path))
            };
            let is_secret = |path: &Path| path.file_name().unwrap().as_encoded_bytes()[0] == b'.';
            let judged = paths.map(|path| (path.into(), !has_more(path) && !is_secret(path)));
            folder.starts_with("/opt").then(|| judged.collect())
        }
    }

    #[test]
    fn many_things_in_a_folder_are_the_folder() {
        let tree = Tree(&[
            "/opt/tool",
            "/opt/tool/bin",
            "/opt/tool/bin/t",
            "/opt/tool/lib",
            "/opt/tool/lib/a",
            "/opt/tool/lib/b",
            "/opt/tool/lib/c",
            "/opt/tool/lib/d",
            "/opt/tool/etc",
            "/opt/x",
            "/opt/y",
            "/opt/hidden",
            "/opt/hidden/z",
        ]);
        let all = of_flags(&[
            "--read /home/ada/.gitconfig",
            "--read /opt/tool/lib/a",
            "--read /opt/tool/lib/b",
            "--listen tcp://*:80",
            "--read /opt/tool/lib/c",
            "--read /opt/tool/bin",
            "--read /opt/tool/etc",
            "--read /opt/x",
            "--read /opt/y",
            "--write /opt/tool/log",
            "--read /opt/tool/log",
        ]);
        let expected = of_flags(&[
            "--read /home/ada/.gitconfig",
            "--read /opt/tool",
            "--listen tcp://*:80",
            "--read /opt/x",
            "--read /opt/y",
            "--write /opt/tool/log",
        ]);
        assert_eq!(fold(all, &tree), expected);
    }

    #[test]
    fn what_nobody_asked_for_is_not_opened() {
        let asked = ["--read /opt/a", "--read /opt/b", "--read /opt/c"];
        for tree in [
            &["/opt/a", "/opt/b", "/opt/c", "/opt/.env"][..],
            &["/opt/a", "/opt/b", "/opt/c", "/opt/d", "/opt/d/e"],
            &[
                "/opt/a", "/opt/b", "/opt/c", "/opt/1", "/opt/2", "/opt/3", "/opt/4", "/opt/5",
                "/opt/6", "/opt/7", "/opt/8", "/opt/9", "/opt/10",
            ],
        ] {
            let tree = Tree(tree);
            assert_eq!(
                fold(of_flags(&asked), &tree),
                of_flags(&asked),
                "{:?}",
                tree.0
            );
        }
        let written = of_flags(&["--write /opt/a", "--write /opt/b", "--write /opt/c"]);
        let tree = Tree(&["/opt/a", "/opt/b", "/opt/c"]);
        assert_eq!(
            fold(written.clone(), &tree),
            written,
            "a folder's names are more than its files"
        );
    }

    #[test]
    fn another_path_inside_stays_by_itself() {
        let all = of_flags(&[
            "--read /opt/x:/b/x",
            "--read /opt/y:/b/y",
            "--read /opt/z:/b/z",
        ]);
        let tree = Tree(&["/opt/x", "/opt/y", "/opt/z"]);
        assert_eq!(fold(all.clone(), &tree), all);
    }
}
