//! The system view: what a program needs to start, read-only, and nothing personal.
//!
//! What of the host's settings belongs to it is a rule: programs read it to start, to verify others, or to
//! restrain themselves (what a converter of pictures must not open, by which protocols a build tool
//! fetches), it is no place for secrets, and everybody on the host may read it (of [`LINKS_ALONE`] that is not
//! asked). An ordinary user's guest has the groups of that user, which no unprivileged process can leave
//! (setgroups(2) in a user namespace), so the kernel alone would let it read the keys of `ssl-cert`.

use crate::{
    host::{Entry, EntryKind, Found, Host, Kind},
    machine::Tier,
    paths::{join, normalized},
};
use palisade_policy::{Policy, Profile};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Folders that hold programs and libraries. A symlink among them stays a symlink (merged `/usr`).
const PROGRAM_FOLDERS: [&str; 8] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
];

/// What of `/etc` programs read to start, and to verify others: the dynamic linker, time zones, TLS roots,
/// names of protocols, alternatives, fonts, settings of language runtimes, and of programs that do less by theirs. A folder stands here whole
/// only if nothing but such things belongs in it: `ssl` and `pki` have private keys beside their
/// certificates. Not here are accounts, hosts and keys, made for the domain where programs need them;
/// what administrators put tokens and passwords into (`npmrc`, `pip.conf`, `profile`, `bash.bashrc`,
/// `gitconfig`); and what only servers read.
const SETTINGS: [&str; 44] = [
    "alternatives",
    "ca-certificates",
    "chromium.d",
    "chromium/policies",
    "crypto-policies",
    "debian_version",
    "firefox/policies",
    "fonts",
    "gai.conf",
    "ghostscript",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "libreoffice",
    "locale.alias",
    "localtime",
    "magic",
    "maven",
    "mime.types",
    "os-release",
    "perl",
    "pki/ca-trust/extracted",
    "pki/java",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/ct_log_list.cnf",
    "pki/tls/fips_local.cnf",
    "pki/tls/openssl.cnf",
    "pki/tls/openssl.d",
    "protocols",
    "services",
    "ssl/ca-bundle.pem",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/ct_log_list.cnf",
    "ssl/engdef.d",
    "ssl/engines.d",
    "ssl/openssl-1_1.cnf",
    "ssl/openssl.cnf",
    "terminfo",
    "texmf",
    "timezone",
];

/// Holds the names of hundreds of programs, each a link into `/usr`, and is no place for anything else: what
/// else lies in it is shown unasked. To look costs an ordinary user's start a fifth of its planning.
const LINKS_ALONE: &str = "/etc/alternatives";

/// Here Maven finds the passwords of servers that a host's administrators gave to all. Where there are none it is
/// shown, for it also says which repositories are blocked.
const OF_MAVEN: &str = "/etc/maven/settings.xml";
/// What begins with `<` around a password there.
const PASSWORDS: [&str; 4] = ["password", "passphrase", "privateKey", "httpHeaders"];
/// Its size if nobody has put much into it.
const OF_MAVEN_BYTES: u64 = 64 * 1024;

/// Runtimes whose folder in `/etc` carries a version in its name, and what of it is shown: not the pools of
/// PHP's server. Passwords for Java's remote control are their owner's alone, or Java does not start.
const VERSIONED_SETTINGS: [(&str, &[&str]); 4] = [
    ("ImageMagick", &[""]),
    ("java", &[""]),
    ("php", &["conf.d", "php.ini"]),
    ("python", &[""]),
];

/// Scripts that Debian's `/usr/bin/chromium` runs before it starts the browser.
const CHROMIUM_FLAGS: &str = "/etc/chromium.d";

/// The device nodes that give nothing away and take nothing.
pub(crate) const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Settings up to this size are copied: cheaper than a mount, and a mount costs at the end too.
const COPIED_BYTES: u64 = 16 * 1024;

/// Looks at what lies in one folder, cheaply if that is where it says it is.
pub(crate) struct Lookup<'a> {
    host: &'a dyn Host,
    folder: &'a Path,
    is_link: bool,
}

impl<'a> Lookup<'a> {
    /// A folder right below the root, or the root.
    pub(crate) fn new(host: &'a dyn Host, folder: &'a Path) -> Self {
        let is_link = folder != Path::new("/") && host.link(folder).is_some();
        Self {
            host,
            folder,
            is_link,
        }
    }

    pub(crate) fn find(&self, path: &Path) -> rustix::io::Result<Found> {
        match path.parent() == Some(self.folder) && !self.is_link {
            true => self.host.find_unlinked(path),
            false => self.host.find(path),
        }
    }
}

/// Folders of the system view that files of a profile lie in.
pub(crate) fn filled_folders(policy: &Policy) -> Vec<&'static Path> {
    let is_chromium = policy.grants.profiles.contains(&Profile::Chromium);
    let folder = is_chromium.then(|| Path::new(CHROMIUM_FLAGS));
    folder.into_iter().collect()
}

/// One piece of the system view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A symlink as on the host.
    Symlink { path: PathBuf, target: PathBuf },
    /// A small file, copied.
    Copy { path: PathBuf, content: Arc<[u8]> },
    /// A file or folder, mounted read-only.
    Mount { path: PathBuf, found: Found },
}

/// How sure a plan must be that everybody on the host may read what the view shows of `/etc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The guest is nobody on the host: the kernel lets it read nothing else.
    Modes,
    /// The guest has its user's groups, or is its user: what lies in a folder is looked at as well.
    Contents,
}

impl Check {
    pub(crate) fn of(tier: Tier) -> Self {
        match tier {
            Tier::Privileged => Self::Modes,
            Tier::UserNamespace | Tier::Bare => Self::Contents,
        }
    }

    fn looks_into(self, folder: &Path) -> bool {
        self == Self::Contents && folder != Path::new(LINKS_ALONE)
    }
}

/// Whether a plan looks through all that lies in a folder of the host's, however deep, before the system view shows it whole.
pub fn is_looked_through(folder: &Path, tier: Tier) -> bool {
    folder.starts_with("/etc") && Check::of(tier).looks_into(folder)
}

/// The pieces of the system view that this host has. Those of `opened` are folders that files of the domain's own
/// lie in, beside what the host has there.
pub(crate) fn system_view(host: &dyn Host, check: Check, opened: &[&Path]) -> Vec<Piece> {
    let root = Lookup::new(host, Path::new("/"));
    let programs = PROGRAM_FOLDERS
        .iter()
        .filter_map(|path| program_folder(&root, Path::new(path)));
    let etc = Lookup::new(host, Path::new("/etc"));
    let settings = settings(host)
        .into_iter()
        .flat_map(|(path, kind)| setting(&etc, path, kind, check))
        .flat_map(|piece| open_up(&etc, piece, opened));
    programs.chain(settings).collect()
}

/// How many links, copied files and mounts the system view of `host` is made of: `6 links, 21 files, 9 mounts`. Each
/// costs a start its system calls.
pub fn system_view_of(host: &dyn Host) -> String {
    let (mut links, mut files, mut mounts) = (0, 0, 0);
    for piece in system_view(host, Check::Modes, &[]) {
        match piece {
            Piece::Symlink { .. } => links += 1,
            Piece::Copy { .. } => files += 1,
            Piece::Mount { .. } => mounts += 1,
        }
    }
    format!("{links} links, {files} files, {mounts} mounts")
}

fn program_folder(root: &Lookup, path: &Path) -> Option<Piece> {
    if let Some(target) = root.host.link(path) {
        return Some(Piece::Symlink {
            path: path.into(),
            target,
        });
    }
    let found = root
        .find(path)
        .ok()
        .filter(|found| found.kind == Kind::Folder)?;
    Some(Piece::Mount {
        path: path.into(),
        found,
    })
}

/// Those that are there. Folders are listed, once each: that is cheaper than to ask for what is not there.
fn settings(host: &dyn Host) -> Vec<(PathBuf, EntryKind)> {
    let etc = Path::new("/etc");
    let mut listed = Listed {
        host,
        folders: Vec::new(),
    };
    let of_version = |entry: &Entry| {
        let text = entry.name.to_string_lossy();
        let runtime = VERSIONED_SETTINGS
            .iter()
            .find(|(runtime, _)| is_version_of(&text, runtime));
        let shown = runtime.map_or(&[][..], |(_, shown)| shown);
        let folder = etc.join(&entry.name);
        shown
            .iter()
            .map(|below| join(&folder, Path::new(below)))
            .collect::<Vec<_>>()
    };
    let versioned: Vec<_> = listed.entries(etc).iter().flat_map(of_version).collect();
    let settings = SETTINGS.iter().map(|name| etc.join(name));
    settings
        .chain(versioned)
        .filter_map(|path| listed.find(&path).map(|kind| (path, kind)))
        .collect()
}

/// What lies in some folders.
struct Listed<'a> {
    host: &'a dyn Host,
    folders: Vec<(PathBuf, Vec<Entry>)>,
}

impl Listed<'_> {
    fn entries(&mut self, folder: &Path) -> &[Entry] {
        let is_it = |(listed, _): &(PathBuf, _)| listed.as_os_str() == folder.as_os_str();
        let position = self.folders.iter().position(is_it);
        let position = position.unwrap_or_else(|| {
            let entries = self.host.entries(folder);
            self.folders.push((folder.into(), entries));
            self.folders.len() - 1
        });
        &self.folders[position].1
    }

    /// What lies at a path below `/etc`.
    fn find(&mut self, path: &Path) -> Option<EntryKind> {
        let (folder, name) = (path.parent()?, path.file_name()?);
        if folder != Path::new("/etc") {
            self.find(folder)?;
        }
        let entries = self.entries(folder);
        let position = entries.binary_search_by(|entry| entry.name.as_os_str().cmp(name));
        position.ok().map(|position| entries[position].kind)
    }
}

/// `java-17-openjdk`, `python3`, `python3.11`; not `javascript-common`.
fn is_version_of(name: &str, runtime: &str) -> bool {
    name.strip_prefix(runtime)
        .is_some_and(|rest| rest.starts_with(['-', '.']) || rest.starts_with(char::is_numeric))
}

/// The pieces that a setting comes to: those of them that everybody on the host may read.
fn setting(etc: &Lookup, path: PathBuf, kind: EntryKind, check: Check) -> Vec<Piece> {
    let host = etc.host;
    if kind == EntryKind::Link
        && let Some(target) = host.link(&path)
    {
        let absolute = path.parent().unwrap_or(Path::new("/")).join(&target);
        if normalized(&absolute).starts_with("/usr") {
            return vec![Piece::Symlink { path, target }];
        }
    }
    if kind != EntryKind::Folder
        && let Some(content) = host.content(&path, COPIED_BYTES)
    {
        let content = content.into();
        return vec![Piece::Copy { path, content }];
    }
    let is_shown = |found: &Found| match found.kind {
        Kind::File => found.mode & 0o4 == 0o4,
        Kind::Folder => found.mode & 0o5 == 0o5,
        Kind::Device | Kind::Socket | Kind::Fifo => false,
    };
    let Some(found) = etc.find(&path).ok().filter(is_shown) else {
        return Vec::new();
    };
    let is_open = || {
        !has_passwords_of_maven(host, &path)
            && (!check.looks_into(&path) || host.is_open_to_all(&found.canonical))
    };
    match found.kind == Kind::Folder && !is_open() {
        true => in_pieces(etc, &path),
        false => vec![Piece::Mount { path, found }],
    }
}

/// Whether this is Maven's folder, and its settings may hold a password: what cannot be read may.
fn has_passwords_of_maven(host: &dyn Host, folder: &Path) -> bool {
    let settings = Path::new(OF_MAVEN);
    settings.parent() == Some(folder)
        && host
            .content(settings, OF_MAVEN_BYTES)
            .is_none_or(|content| has_password(&content))
}

/// Whether XML has a password outside its comments. A comment without an end is none.
fn has_password(content: &[u8]) -> bool {
    // As text it is looked through by whole words, at each start. What is no UTF-8 keeps its `<`.
    let text = String::from_utf8_lossy(content);
    let mut rest = &*text;
    // In UTF-16 it is not read.
    if rest.contains('\0') {
        return true;
    }
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        // One of all that `servers` has.
        let is_server = rest.starts_with("server") && !rest.starts_with("servers");
        if is_server || PASSWORDS.iter().any(|word| rest.starts_with(word)) {
            return true;
        }
        if let Some(comment) = rest.strip_prefix("!--")
            && let Some(length) = comment.find("-->")
        {
            rest = &comment[length..];
        }
    }
    false
}

/// A mount would cover what the domain puts into the folder itself.
fn open_up(etc: &Lookup, piece: Piece, opened: &[&Path]) -> Vec<Piece> {
    match piece {
        Piece::Mount { path, found }
            if found.kind == Kind::Folder && opened.contains(&path.as_path()) =>
        {
            in_pieces(etc, &path)
        }
        piece => vec![piece],
    }
}

/// What lies in a folder, piece by piece, and nothing that is not for everybody.
fn in_pieces(etc: &Lookup, folder: &Path) -> Vec<Piece> {
    let host = etc.host;
    let entries = host.entries(folder).into_iter();
    let pieces = entries.flat_map(|Entry { name, kind }| {
        let path = folder.join(name);
        if path == Path::new(OF_MAVEN) && has_passwords_of_maven(host, folder) {
            return Vec::new();
        }
        match host.link(&path).filter(|_| kind == EntryKind::Link) {
            Some(target) => vec![Piece::Symlink { path, target }],
            None => setting(etc, path, kind, Check::Contents),
        }
    });
    pieces.collect()
}

#[cfg(test)]
mod tests;
