//! What a policy grants, as far as it is known.

use super::{
    changes::{Changes, outermost},
    ground::Ground,
    name_of,
};
use crate::{
    args::LearnArgs,
    commands::{
        init::project::Project,
        policy_text::{path_value, quoted},
        secrets::Secrets,
        why::remedy::{self, Missed},
    },
};
use palisade_network::address;
use palisade_policy::{Access, ConnectGrant, FileGrant, HostPattern, Profile, visible};
use palisade_process::{
    paths::{join, normalized},
    plan::profile_files,
};
use palisade_wall::{HadFor, Report, Surroundings};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt::Write,
    path::{Path, PathBuf},
};

/// Who needed it first.
pub(super) type First = Option<String>;

/// Keys of `[grants]` with their values, in the order in which they are written. Paths are whole, and the host's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Learned {
    pub(super) project: PathBuf,
    pub(super) profiles: Vec<Profile>,
    grants: BTreeMap<&'static str, BTreeMap<String, First>>,
}

/// Something that a guest missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) missed: Missed,
    /// Who asked for it first.
    first: First,
}

impl Wish {
    pub(super) fn missed(&self) -> &Missed {
        &self.missed
    }

    pub(super) fn is_of_network(&self) -> bool {
        ["connect", "listen"].contains(&self.missed.key)
    }

    /// Whether it leads to the internet alone: neither to this machine nor to its network.
    pub(super) fn is_public(&self) -> bool {
        match self.missed.value.parse() {
            Ok(ConnectGrant::Internet { host, .. }) if self.missed.key == "connect" => match host {
                HostPattern::Network(network) => {
                    network.is_single() && address::is_public(network.address)
                }
                HostPattern::Name(name) => name.to_string() != "localhost",
                _ => false,
            },
            _ => false,
        }
    }

    /// The path that is written, if it is that.
    pub(super) fn written(&self) -> Option<PathBuf> {
        let file = (self.missed.key == "write").then(|| self.missed.file())?;
        file.map(|file| file.host)
    }
}

/// What counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// What is another than it was.
    Changed,
    /// What the guest named to change it, too: files that were there for a while alone, and folders that it would have made.
    Named,
}

/// Who needs the program.
const ITSELF: &str = "the command itself";
/// What has a tool fetch to a folder of the guest's own, and how far above the first place that its profile shows its user's is.
const CACHES: [(Profile, &str, usize); 2] = [
    (Profile::Rust, "CARGO_HOME=/tmp/cargo", 1),
    (Profile::Go, "GOMODCACHE=/tmp/go-modules", 0),
];
/// What every guest sees.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"];

/// The domain's own folders, which take programs.
const OWN: [&str; 2] = ["/tmp", "/dev/shm"];

impl Learned {
    /// Before the first round: all of the project, in a copy, and the profiles of its tools.
    pub(super) fn of_project(folder: &Path, project: &Project, args: &LearnArgs) -> Self {
        let mut learned = Self {
            project: folder.into(),
            ..Self::default()
        };
        let named = args.profile.iter().copied();
        let of_tools = project.tools.iter().flat_map(|tool| tool.profiles);
        let of_tools = of_tools.filter_map(|name| name.parse().ok());
        let is_chromium =
            Path::new(&args.guest.program()).file_name() == Some(OsStr::new("chromium"));
        let of_program = is_chromium.then_some(Profile::Chromium);
        for profile in named.chain(of_tools).chain(of_program) {
            if !learned.profiles.contains(&profile) {
                learned.profiles.push(profile);
            }
        }
        for key in ["write", "ipc"] {
            learned.put_path(key, folder, None);
        }
        for place in [folder, Path::new(OWN[0]), Path::new(OWN[1])] {
            learned.put_path("exec", place, None);
        }
        learned.put_asked("connect", &args.connect);
        learned.put_asked("listen", &args.listen);
        learned.put_asked("env", &args.env);
        learned
    }

    pub(super) fn with_profiles_of(&self, other: &Self) -> Self {
        Self {
            profiles: other.profiles.clone(),
            ..self.clone()
        }
    }

    /// A path, as a list of `read`, `write`, `exec` or `ipc` has it.
    fn put_path(&mut self, key: &'static str, path: &Path, first: First) {
        self.put(key, path_value(path), first);
    }

    fn put_asked(&mut self, key: &'static str, values: &[impl ToString]) {
        for value in values {
            self.put(key, value.to_string(), Some(ASKED.into()));
        }
    }

    fn put(&mut self, key: &'static str, value: impl Into<String>, first: First) {
        let values = self.grants.entry(key).or_default();
        values.entry(value.into()).or_insert(first);
    }

    pub(super) fn add(&mut self, wish: Wish) {
        self.put(wish.missed.key, wish.missed.value, wish.first);
    }

    /// Whether it may connect anywhere.
    pub(super) fn connects(&self) -> bool {
        self.of("connect").next().is_some()
    }

    /// Gives tools that could not write to their user's cache one of the guest's own, which ends with it. Each once; gives the variables.
    pub(super) fn give_caches(&mut self, report: &Report) -> Vec<&'static str> {
        let surroundings = Surroundings::here(false);
        let is_lost = |cache: &Path| {
            report.denials.iter().any(|denial| {
                let path = denial.what.strip_prefix("write access to ").map(Path::new);
                path.is_some_and(|path| cache.starts_with(path) || path.starts_with(cache))
            })
        };
        let mut given = Vec::new();
        for (profile, variable, below) in CACHES {
            let files = profile_files(profile, &surroundings);
            let cache = files
                .first()
                .and_then(|file| file.host.ancestors().nth(below));
            let name = |variable: &str| variable.split('=').next().map(str::to_owned);
            // Whoever has named a place for it knows better.
            let is_set = self
                .of("env")
                .any(|(value, _)| name(value) == name(variable));
            let is_wanted =
                self.profiles.contains(&profile) && !is_set && cache.is_some_and(is_lost);
            if is_wanted {
                self.put("env", variable, Some(ITSELF.into()));
                given.push(variable);
            }
        }
        given
    }

    fn has(&self, missed: &Missed) -> bool {
        let values = self.grants.get(missed.key);
        values.is_some_and(|values| values.contains_key(&missed.value))
    }

    /// Values of a key, and who needed each first.
    pub(super) fn of(&self, key: &str) -> impl Iterator<Item = (&str, &First)> {
        let values = self.grants.get(key).into_iter().flatten();
        values.map(|(value, first)| (value.as_str(), first))
    }

    /// What is granted of the host's beside the project.
    pub(super) fn beside(&self) -> impl Iterator<Item = PathBuf> {
        let values = self.of("read").chain(self.of("write"));
        let paths = values.filter_map(|(value, _)| path_of(value));
        paths.filter(|path| !path.starts_with(&self.project))
    }

    pub(super) fn count(&self) -> usize {
        self.grants.values().map(BTreeMap::len).sum::<usize>() + self.profiles.len()
    }

    /// What a run asked for that would have been granted to it with a word from somebody; and what not even then, for that is
    /// among it.
    pub(super) fn wishes(
        &self,
        report: &Report,
        words: &[OsString],
        secrets: &Secrets,
    ) -> (Vec<Wish>, Vec<(Missed, String)>) {
        // What a link of the project's names in it lies in the copy, which is granted.
        let is_own = |missed: &Missed| {
            missed
                .file()
                .is_some_and(|file| file.host.starts_with(&self.project))
        };
        let (mut kept, mut open) = (Vec::new(), Vec::new());
        for missed in remedy::each_missed(report) {
            match missed.file().and_then(|file| secrets.in_way(&file.host)) {
                _ if is_own(&missed) => {}
                Some(why) => kept.push((missed, why)),
                None => open.push(missed),
            }
        }
        let open = remedy::folded(open, &secrets.disk).into_iter();
        let new = open.filter(|missed| !self.has(missed));
        let wishes = new.map(|missed| Wish {
            first: name_of(report, &missed),
            missed,
        });
        let mut wishes: Vec<_> = wishes.collect();
        for named in words.iter().filter_map(|word| self.named(word, secrets)) {
            if !wishes.iter().any(|wish| wish.missed.holds(&named.missed)) {
                wishes.push(named);
            }
        }
        (wishes, kept)
    }

    /// What the command line names beside the project, to be read: of a folder that a guest only looked for, no more is known.
    fn named(&self, word: &OsStr, secrets: &Secrets) -> Option<Wish> {
        let is_flag = word.as_encoded_bytes().starts_with(b"-");
        let path = normalized(&self.project.join(word));
        let is_seen = SYSTEM.iter().any(|folder| path.starts_with(folder));
        if is_flag || word.is_empty() || is_seen || path.starts_with(&self.project) {
            return None;
        }
        let is_granted =
            |value: &String| path_of(value).is_some_and(|granted| path.starts_with(granted));
        let mut granted = ["read", "write"].into_iter();
        let is_there = secrets.disk.itself(&path).is_some();
        let has = granted.any(|key| {
            let values = self.grants.get(key);
            values.is_some_and(|values| values.keys().any(is_granted))
        });
        if !is_there || has || secrets.in_way(&path).is_some() {
            return None;
        }
        Some(Wish {
            missed: Missed::of_path(&path)?,
            first: Some(ITSELF.into()),
        })
    }

    /// The command's program, where it lies neither in the project nor in what every guest sees: whoever named it wants it to be
    /// executed.
    pub(super) fn put_program(&mut self, program: &OsStr, secrets: &Secrets) -> Option<PathBuf> {
        let named = Path::new(program);
        let is_path = program.as_encoded_bytes().contains(&b'/');
        let path = is_path.then(|| normalized(&self.project.join(named)))?;
        let is_seen = SYSTEM.iter().any(|folder| path.starts_with(folder));
        if is_seen || path.starts_with(&self.project) || !path.is_file() {
            return None;
        }
        let value = path_value(&path);
        if secrets.in_way(&path).is_some() || value.contains(char::is_control) {
            return None;
        }
        self.put_path("read", &path, Some(ITSELF.into()));
        Some(path)
    }

    /// The same without what the run made no use of.
    pub(super) fn least(&self, report: &Report, changes: &Changes, written: Written) -> Self {
        let written = self.written(report, changes, written);
        let mut least = self.without_given();
        let folder = self.project.as_path();
        if written != [Path::new("")] {
            least.put_path("read", folder, first_of(report, folder, HadFor::Read));
        }
        for below in &written {
            let place = join(folder, below);
            let first = first_of(report, &place, HadFor::Write)
                .or_else(|| first_of(report, folder, HadFor::Write));
            least.put_path("write", &place, first);
        }
        let mut executed = self.executed(report, changes, &written);
        for place in outermost(executed.keys().cloned().collect()) {
            let first = executed.remove(&place).flatten();
            least.put_path("exec", &place, first);
        }
        for (place, first) in self.met(report, &written) {
            least.put_path("ipc", &place, first);
        }
        let surroundings = Surroundings::here(false);
        (least.profiles).retain(|profile| is_used(*profile, report, changes, &surroundings));
        least
    }

    /// Without what each round is given, whatever the command does.
    fn without_given(&self) -> Self {
        let is_given = |value: &str| {
            let is_in = |folder: &Path| path_of(value).is_some_and(|path| path.starts_with(folder));
            is_in(&self.project) || OWN.contains(&value)
        };
        let mut without = self.clone();
        for key in ["read", "write", "exec", "ipc"] {
            if let Some(values) = without.grants.get_mut(key) {
                values.retain(|value, _| !is_given(value));
            }
        }
        without
    }

    /// Folders of the project that are written to.
    fn written(&self, report: &Report, changes: &Changes, written: Written) -> Vec<PathBuf> {
        let named = had(report, HadFor::Write)
            .filter(|_| written == Written::Named)
            .map(|(place, _)| place)
            .filter(|folder| changes.has_folder(folder))
            .filter_map(|folder| Some(folder.strip_prefix(&self.project).ok()?.to_owned()));
        changes.to_be_written(&named.collect())
    }

    /// Where something is executed or loaded, as `exec` names it.
    fn executed(
        &self,
        report: &Report,
        changes: &Changes,
        written: &[PathBuf],
    ) -> BTreeMap<PathBuf, First> {
        // The guest's own start is nobody's call.
        let program = report
            .command
            .first()
            .filter(|program| program.contains('/'));
        let program = program.map(|program| normalized(&self.project.join(program)));
        let itself = program.as_deref().and_then(Path::parent);
        let itself = itself.map(|folder| (folder, Some(ITSELF.to_owned())));
        // A folder that is not there is one of a PATH.
        let started = had(report, HadFor::Execute).filter(|(folder, _)| changes.has_folder(folder));
        let loaded = had(report, HadFor::Load).filter(|(file, _)| changes.is_left(file));
        let loaded = loaded.filter_map(|(file, first)| Some((file.parent()?, first)));
        let mut executed = BTreeMap::new();
        for (folder, first) in itself.into_iter().chain(started).chain(loaded) {
            if let Some(place) = self.place_to_execute(folder, written) {
                executed.entry(place).or_insert(first);
            }
        }
        executed
    }

    /// Where sockets and FIFOs are made. A folder that a fresh checkout has not is granted with the one that it has.
    fn met(&self, report: &Report, written: &[PathBuf]) -> Vec<(PathBuf, First)> {
        let place = |folder: &Path| match folder.strip_prefix(&self.project) {
            Ok(below) => {
                let around = written.iter().find(|written| below.starts_with(written));
                around.map(|written| join(&self.project, written))
            }
            Err(_) => Some(folder.to_owned()),
        };
        let met = had(report, HadFor::Meet);
        met.filter_map(|(folder, first)| Some((place(folder)?, first)))
            .collect()
    }

    /// What `exec` names for a folder in which something was executed: a folder at the top of what is written, where it is
    /// none that a guest could only empty.
    fn place_to_execute(&self, folder: &Path, written: &[PathBuf]) -> Option<PathBuf> {
        if let Some(own) = OWN.iter().find(|own| folder.starts_with(own)) {
            return Some(own.into());
        }
        let Ok(below) = folder.strip_prefix(&self.project) else {
            let values = self.grants.get("write")?.keys();
            let mut values = values.filter_map(|value| path_of(value));
            return values.find(|place| folder.starts_with(place));
        };
        let written = written.iter().find(|written| below.starts_with(written))?;
        let rest = below.strip_prefix(written).ok()?;
        let first = rest.iter().next().map_or(Path::new(""), Path::new);
        Some(join(&join(&self.project, written), first))
    }

    /// As `palisade run` reads it, with what is written in the places that these are copied to.
    pub(super) fn for_a_round(&self, ground: &Ground) -> String {
        let mut text = String::new();
        let profiles = self.profiles.iter().map(|profile| quoted(profile.name()));
        let profiles: Vec<_> = profiles.collect();
        let _ = writeln!(text, "profiles = [{}]", profiles.join(", "));
        if ground.counts_memory {
            // More than there is: it is only to be counted.
            let _ = writeln!(text, "limits.memory = \"1T\"");
        }
        let _ = writeln!(text, "limits.processes = 32768");
        let _ = writeln!(text, "[grants]");
        for (key, values) in &self.grants {
            let values = values.keys().map(|value| match access(key) {
                Some(access) => ground.moved(access, value),
                None => value.clone(),
            });
            let values: Vec<_> = values.map(|value| quoted(&value)).collect();
            let _ = writeln!(text, "{key} = [{}]", values.join(", "));
        }
        text
    }

    /// What happens next, in a line.
    pub(super) fn promise(&self, ground: &Ground, args: &LearnArgs) -> String {
        let surroundings = Surroundings::here(false);
        let shows = |profile: &&Profile| !profile_files(**profile, &surroundings).is_empty();
        let shown: Vec<_> = (self.profiles.iter().filter(shows))
            .map(|profile| profile.name())
            .collect();
        let seen = match shown.is_empty() {
            true => " and the system".to_owned(),
            false => format!(", the system and what {} has fetched", shown.join(", ")),
        };
        let names_network = !args.connect.is_empty() || !args.listen.is_empty();
        let network = match (args.allow_network, names_network) {
            (true, _) => "all of the public network that it asks for",
            (false, true) => "the network that was named",
            (false, false) => "no network",
        };
        let fate = match &args.keep {
            Some(folder) => format!("kept in {}", visible(&folder.to_string_lossy())),
            None => "thrown away".to_owned(),
        };
        let missed = match (args.yes, args.allow_network) {
            (true, _) => "; other files that it misses are granted, but for keys",
            (_, true) => "",
            (false, false) => "; what it misses is granted if somebody agrees",
        };
        format!(
            "{} runs in a copy of {}, which is {fate}; it sees that{seen}, and has {network}{missed}",
            visible(&args.guest.program().to_string_lossy()),
            ground.told()
        )
    }
}

/// What a guest had for a purpose, and who had it first.
fn had(report: &Report, purpose: HadFor) -> impl Iterator<Item = (&Path, First)> {
    let had = report.had.iter().filter(move |had| had.purpose == purpose);
    had.map(|had| (Path::new(&had.place), Some(had.process.name.clone())))
}

fn first_of(report: &Report, around: &Path, purpose: HadFor) -> First {
    let mut below = had(report, purpose).filter(|(place, _)| place.starts_with(around));
    below.next()?.1
}

/// Whether a guest had anything of what a profile shows. Of variables nobody sees who reads them.
fn is_used(
    profile: Profile,
    report: &Report,
    changes: &Changes,
    surroundings: &Surroundings,
) -> bool {
    if profile == Profile::Git {
        return changes.touch(Path::new(".git"));
    }
    let files = profile_files(profile, surroundings);
    let is_had = |file: &FileGrant| {
        let mut had = report.had.iter();
        had.any(|had| Path::new(&had.place).starts_with(file.guest_path()))
    };
    files.is_empty() || files.iter().any(is_had)
}

/// Said of what the command line names.
pub(super) const ASKED: &str = "as it was asked for";

/// Of a list whose paths are the host's, and may lie elsewhere inside.
fn access(key: &str) -> Option<Access> {
    match key {
        "read" => Some(Access::Read),
        "write" => Some(Access::Write),
        _ => None,
    }
}

/// The host's path of a value.
pub(super) fn path_of(value: &str) -> Option<PathBuf> {
    let grant = FileGrant::parse(Access::Write, value, Path::new("/")).ok()?;
    Some(grant.host)
}
