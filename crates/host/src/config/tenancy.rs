//! `include`, `[tenants]` and `[tenant.NAME]`: which further files there are, and what each of them may have.
//!
//! ```text
//!  [tenants]      what every tenant has, `{tenant}` being its name ──┐
//!  [tenant.NAME]  what one has instead ──────────────────────────────┴──▶ Bounds and Quotas of one tenant
//! ```
//!
//! Bounds are what a tenant's file may say, which is judged when it is read. [`Quotas`] are how much it may use, and may
//! change while it serves.

use super::{
    Quotas,
    error::Found,
    keys::{Entry, Kind, Section, keys},
    kind::{Form, HasName, In, OneOf, Texts},
    read::Reader,
    value::{self, Refusal, Word},
};
use palisade_policy::{
    document::{self, Key, Value},
    value::parse_path,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// What stands for a tenant's name.
const NAME: &str = "{tenant}";
/// A name that every tenant could have, to see whether what is written with one can be meant.
const EXAMPLE: &str = "example";

/// Which tenants there may be, and what each may have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tenancy {
    /// Where their files are.
    pub include: Vec<Include>,
    /// What all have.
    pub all: Share,
    /// What one has instead, by its name.
    pub each: BTreeMap<String, Share>,
    /// Whether header fields may have underscores, which is the site's to say.
    pub(super) underscores: bool,
}

/// `FOLDER/*.toml`: files of one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    /// The folder.
    pub folder: PathBuf,
    before: String,
    behind: String,
}

/// What `[tenants]` or `[tenant.NAME]` says; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    hosts: Option<Vec<String>>,
    paths: Option<Vec<String>>,
    folder: Option<PathBuf>,
    may: Option<BTreeSet<May>>,
    quotas: Quotas,
}

/// What a tenant's file may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Hosts that are given to it: names, `*.NAME` or addresses.
    pub hosts: Vec<String>,
    /// Beginnings of paths at these hosts.
    pub paths: Vec<String>,
    /// All files that it names lie below.
    pub folder: PathBuf,
    /// What it may have beyond files of its own.
    pub may: BTreeSet<May>,
    /// Header fields may have underscores.
    pub(super) underscores: bool,
}

/// Hosts and paths that a tenant has: requests for these are its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// A name, `*.NAME` or an address.
    pub host: String,
    /// How paths begin.
    pub path: String,
}

/// What a tenant's file can have only where the main file says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum May {
    /// Ask other servers: `upstream` services, and `connect` grants of guests.
    Connect,
    /// Programs that are not WebAssembly.
    Program,
    /// Addresses of this machine where a program listens.
    Listen,
    /// Execution of what a guest can write.
    Exec,
    /// Devices.
    Device,
    /// Profiles, which show more of this machine.
    Profile,
    /// Values of the server's own environment.
    Environment,
    /// Guests behind a wall of which something is missing.
    Degraded,
}

impl Word for May {
    const NOUN: &'static str = "permission of tenants";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("connect", Self::Connect),
        ("program", Self::Program),
        ("listen", Self::Listen),
        ("exec", Self::Exec),
        ("device", Self::Device),
        ("profile", Self::Profile),
        ("environment", Self::Environment),
        ("degraded", Self::Degraded),
    ];
    const ACCEPTED: &'static str =
        "`connect`, `program`, `listen`, `exec`, `device`, `profile`, `environment` or `degraded`";
}

impl May {
    /// The word of the file.
    pub(super) fn word(self) -> &'static str {
        let mut words = Self::WORDS.iter();
        words
            .find(|(_, may)| *may == self)
            .map_or("", |(word, _)| word)
    }
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.host, self.path)
    }
}

impl Include {
    /// The tenant whose file has this name, if it is one of these.
    pub fn tenant<'a>(&self, file: &'a OsStr) -> Option<&'a str> {
        let name = str::from_utf8(file.as_bytes()).ok()?;
        let inner = name.len() >= self.before.len() + self.behind.len();
        let fits = inner && name.starts_with(&self.before) && name.ends_with(&self.behind);
        // What is hidden is of an editor or an installer.
        (fits && !name.starts_with('.'))
            .then(|| name.strip_suffix(".toml"))
            .flatten()
    }
}

/// A file's name as a tenant's.
pub(super) fn check_tenant_name(name: &str) -> Result<(), Refusal> {
    match name.starts_with('.') {
        true => Err(Refusal::new(
            "name of a tenant",
            "it begins with a dot",
            "1 to 64 letters, digits and any of - _ . | :",
        )),
        false => value::check_name(name),
    }
}

impl Tenancy {
    /// What a tenant of this name may have.
    ///
    /// # Errors
    /// What its name or the main file makes impossible.
    pub fn bounds(&self, tenant: &str) -> Result<Bounds, String> {
        check_tenant_name(tenant).map_err(|refusal| refusal.to_string())?;
        let one = self.each.get(tenant);
        let folder = one
            .and_then(|one| one.folder.as_ref())
            .or(self.all.folder.as_ref());
        let folder = folder.ok_or_else(|| {
            format!(
                "policy: tenant {tenant} has no folder: write `folder = \"tenants/{NAME}\"` in [tenants] of the main file"
            )
        })?;
        let folder = folder.to_string_lossy().replace(NAME, tenant);
        let share = |part: fn(&Share) -> &Option<Vec<String>>| {
            let own = one.and_then(|one| part(one).as_ref());
            own.or(part(&self.all).as_ref()).cloned()
        };
        let may = one
            .and_then(|one| one.may.as_ref())
            .or(self.all.may.as_ref());
        let hosts = share(|share| &share.hosts).unwrap_or_default();
        let paths = share(|share| &share.paths).unwrap_or_else(|| vec!["/".into()]);
        Ok(Bounds {
            hosts: named(&hosts, tenant, value::parse_host)?,
            paths: named(&paths, tenant, value::parse_prefix)?,
            folder: folder.into(),
            may: may.cloned().unwrap_or_default(),
            underscores: self.underscores,
        })
    }
}

impl Tenancy {
    /// How much a tenant of this name may use.
    pub fn quotas(&self, tenant: &str) -> Quotas {
        let one = self.each.get(tenant);
        let own = one.map(|one| one.quotas.clone()).unwrap_or_default();
        own.or(&self.all.quotas)
    }
}

/// What was written, with a tenant's name in it.
fn named(
    written: &[String],
    tenant: &str,
    parse: fn(&str) -> Result<String, Refusal>,
) -> Result<Vec<String>, String> {
    let parse = |text: &String| {
        let text = text.replace(NAME, tenant);
        parse(&text).map_err(|refusal| format!("policy: tenant {tenant}: `{text}`: {refusal}"))
    };
    let mut all = written.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    all.sort();
    all.dedup();
    Ok(all)
}

impl Bounds {
    /// Everything that is given: each host with each path.
    pub fn given(&self) -> impl Iterator<Item = Claim> {
        self.hosts.iter().flat_map(|host| {
            self.paths.iter().map(|path| Claim {
                host: host.clone(),
                path: path.clone(),
            })
        })
    }
}

/// A host or a path in which `{tenant}` may stand.
pub(super) struct HostOfTenant;
/// The same of a path.
pub(super) struct PrefixOfTenant;
/// The same of a folder.
pub(super) struct FolderOfTenant;
/// Files of a folder.
pub(super) struct Pattern;

impl Form for HostOfTenant {
    type Value = String;

    fn parse(text: &str, _: &Reader<'_>) -> Result<String, Refusal> {
        value::parse_host(&text.replace(NAME, EXAMPLE)).map(|_| text.to_owned())
    }
}

impl Form for PrefixOfTenant {
    type Value = String;

    fn parse(text: &str, _: &Reader<'_>) -> Result<String, Refusal> {
        value::parse_prefix(&text.replace(NAME, EXAMPLE)).map(|_| text.to_owned())
    }
}

impl Form for FolderOfTenant {
    type Value = PathBuf;

    fn parse(text: &str, reader: &Reader<'_>) -> Result<PathBuf, Refusal> {
        const ACCEPTED: &str = "a folder of each tenant's own, as in `tenants/{tenant}`";
        let refuse = |reason: String| Refusal::new("folder of tenants", reason, ACCEPTED);
        let path = parse_path(text, reader.base_dir)
            .map_err(|error| refuse(error.reason().to_string()))?;
        let path = path.to_str().map(PathBuf::from);
        path.ok_or_else(|| refuse("it is not UTF-8".into()))
    }
}

impl Form for Pattern {
    type Value = Include;

    fn parse(text: &str, reader: &Reader<'_>) -> Result<Include, Refusal> {
        const ACCEPTED: &str = "files of one folder, as in `tenants.d/*.toml`";
        let refuse = |reason: &str| Refusal::new("pattern", reason, ACCEPTED);
        let (folder, file) = text.rsplit_once('/').unwrap_or((".", text));
        if folder.contains('*') {
            return Err(refuse("a folder's name has no `*`"));
        }
        let (before, behind) = match file.split_once('*') {
            Some((_, behind)) if behind.contains('*') => {
                return Err(refuse("there is more than one `*`"));
            }
            Some(parts) => parts,
            None => return Err(refuse("there is no `*`")),
        };
        if !behind.ends_with(".toml") {
            return Err(refuse("it does not end in `.toml`"));
        }
        let folder = if folder.is_empty() { "/" } else { folder };
        let folder = parse_path(folder, reader.base_dir)
            .map_err(|error| refuse(&error.reason().to_string()))?;
        Ok(Include {
            folder,
            before: before.into(),
            behind: behind.into(),
        })
    }
}

impl Section for Share {
    const PLACE: &'static str = "in [tenants]";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// Hosts that a tenant may claim, `{tenant}` being its name: names, *.NAME or addresses.
        "hosts": Texts<HostOfTenant> => |share, hosts| share.hosts = Some(hosts);
        /// How paths begin that it may claim at these hosts; all, if left out.
        "paths": Texts<PrefixOfTenant> => |share, paths| share.paths = Some(paths);
        /// The folder below which all files lie that it names.
        "folder": FolderOfTenant => |share, folder| share.folder = Some(folder);
        /// What it may have beyond files of its own and WebAssembly.
        "may": Texts<OneOf<May>> => |share, may| share.may = Some(may.into_iter().collect());
        /// How much it may use of what all have together.
        "quotas": In<Quotas> => |share, quotas| share.quotas = quotas;
    };
}

/// What every tenant has: a folder of one is none of another's.
pub(super) struct ShareOfAll;

impl Kind for ShareOfAll {
    type Value = Share;

    fn read(key: &Key, value: &Value, reader: &Reader<'_>) -> Result<Share, Found> {
        let share = Share::default().read(document::table(key, value)?, key.span(), reader)?;
        let is_own = |folder: &PathBuf| folder.file_name().is_some_and(|name| name == NAME);
        if share.folder.as_ref().is_some_and(|folder| !is_own(folder)) {
            let refusal = Refusal::new(
                "table of all tenants",
                "the last part of `folder` is not `{tenant}`: they would have one folder",
                "a folder of each tenant's own, as in `tenants/{tenant}`",
            );
            return Err(refusal.at_key(key));
        }
        Ok(share)
    }

    fn schema() -> serde_json::Value {
        <Share as Section>::schema()
    }
}

impl HasName for Share {
    fn read_named(
        name: &str,
        key: &Key,
        value: &Value,
        reader: &Reader<'_>,
    ) -> Result<Self, Found> {
        check_tenant_name(name).map_err(|refusal| refusal.at_key(key))?;
        Self::default().read(document::table(key, value)?, key.span(), reader)
    }

    fn schema() -> serde_json::Value {
        <Self as Section>::schema()
    }
}

impl Tenancy {
    /// Folders that are not each tenant's own.
    pub(super) fn overlapping_folders(&self) -> Option<String> {
        let sample = self.all.folder.as_deref().and_then(Path::parent);
        let mut folders: Vec<(PathBuf, &str)> = Vec::new();
        for (name, share) in &self.each {
            let Some(folder) = &share.folder else {
                continue;
            };
            let folder = PathBuf::from(folder.to_string_lossy().replace(NAME, name));
            // Siblings of all others' but for the one that would be its own.
            let others = sample.is_some_and(|sample| {
                folder.starts_with(sample) && folder != sample.join(name)
                    || sample.starts_with(&folder)
            });
            if others {
                return Some(format!("that of [tenant.{name}] and of [tenants]"));
            }
            folders.push((folder, name));
        }
        folders.sort();
        let overlap = folders
            .windows(2)
            .find(|pair| pair[1].0.starts_with(&pair[0].0));
        overlap.map(|pair| format!("those of [tenant.{}] and [tenant.{}]", pair[0].1, pair[1].1))
    }
}

#[cfg(test)]
mod tests;
