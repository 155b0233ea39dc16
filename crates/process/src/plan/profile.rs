//! What the profiles of tool chains add: what is installed and fetched already, to be read where it is there, and the
//! variables by which programs find it.
//!
//! None of it is written to. What lies in such a cache is executed outside later, by builds that nobody watches: a
//! guest that could write there would choose what. And nothing is shown that holds tokens: not the folder around a
//! cache, and no file of settings (`credentials.toml`, `settings.xml`, `.gitconfig`).

use crate::{
    host::{Host, Kind},
    layout::Layout,
    view::filled_folders,
};
use palisade_policy::{Access, FileGrant, Policy, Profile};
use palisade_wall::{ChromiumFlags, Surroundings};
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The guest's home: what is looked for there has to appear there.
const HOME_INSIDE: &str = "/tmp";
/// A file of git's settings up to this size is read.
const SETTINGS_BYTES: u64 = 64 * 1024;

/// The script that is made for the domain, one of those that Debian's `/usr/bin/chromium` runs before it starts the browser.
pub(super) const CHROMIUM_SCRIPT: &str = "/etc/chromium.d/palisade";
const CHROMIUM_SETS: &str = "\
# Made by palisade for this domain (--profile chromium). Chromium's own sandbox needs user namespaces, which no
# guest makes. The wall is around all of it.
export CHROMIUM_FLAGS=\"$CHROMIUM_FLAGS --no-sandbox\"
";

/// The policy with the grants of its profiles. Where it shows something itself, that stays.
pub(super) fn with_grants(policy: &Policy, surroundings: &Surroundings) -> Policy {
    let mut policy = policy.clone();
    let all = policy.grants.profiles.clone();
    let added = all.iter().flat_map(|profile| of(*profile, surroundings));
    let files = &policy.grants.files;
    let is_shown = |grant: &FileGrant| {
        let mut shown = files.iter().filter(|file| file.access.maps_host_path());
        shown.any(|file| grant.guest_path().starts_with(file.guest_path()))
    };
    let added: Vec<_> = added.filter(|grant| !is_shown(grant)).collect();
    policy.grants.files.extend(added);
    policy
}

/// The files that a profile shows, where they are there.
pub fn of(profile: Profile, surroundings: &Surroundings) -> Vec<FileGrant> {
    match profile {
        Profile::Rust => {
            let cargo = cargo_home(surroundings).into_iter();
            let cargo =
                cargo.flat_map(|home| ["bin", "registry", "git"].map(|name| home.join(name)));
            let rustup = rustup_home(surroundings).into_iter();
            let rustup = rustup.flat_map(|home| {
                ["toolchains", "settings.toml", "update-hashes"].map(|name| home.join(name))
            });
            cargo.chain(rustup).map(at_its_own_path).collect()
        }
        Profile::Go => go_modules(surroundings)
            .map(at_its_own_path)
            .into_iter()
            .collect(),
        Profile::Maven => {
            let below = Path::new(".m2/repository");
            let repository = in_home(surroundings, below);
            let grant = repository.map(|host| FileGrant {
                guest: Some(Path::new(HOME_INSIDE).join(below)),
                ..at_its_own_path(host)
            });
            grant.into_iter().collect()
        }
        Profile::Git
        | Profile::Chromium
        | Profile::Java
        | Profile::Python
        | Profile::Node
        | Profile::Palisade => Vec::new(),
    }
}

/// Tells Chromium to do without its own sandbox, where it can be told; `None` where the policy does not ask for that.
///
/// Debian's Chromium forgets the variable `CHROMIUM_FLAGS`, and reads it from shell scripts.
pub(super) fn set_chromium_flags(
    layout: &mut Layout,
    policy: &Policy,
    host: &dyn Host,
) -> Option<ChromiumFlags> {
    let folder = *filled_folders(policy).first()?;
    let is_there = || {
        let found = host.find(folder);
        found.is_ok_and(|found| found.kind == Kind::Folder)
    };
    if !policy.grants.system || !layout.can_fill(folder) || !is_there() {
        return Some(ChromiumFlags::NoPlace);
    }
    let is_made = layout.add_file(CHROMIUM_SCRIPT, 0o444, CHROMIUM_SETS.into());
    Some(match is_made {
        true => ChromiumFlags::Set,
        false => ChromiumFlags::NoPlace,
    })
}

fn at_its_own_path(host: PathBuf) -> FileGrant {
    FileGrant {
        access: Access::ReadIfThere,
        host,
        guest: None,
    }
}

/// Folders that come first in the guest's `PATH`.
pub(super) fn program_folders(policy: &Policy, surroundings: &Surroundings) -> Vec<PathBuf> {
    let all = policy.grants.profiles.iter();
    let folders = all.filter_map(|profile| match profile {
        Profile::Rust => cargo_home(surroundings).map(|home| home.join("bin")),
        Profile::Go => Some("/usr/local/go/bin".into()),
        _ => None,
    });
    folders.collect()
}

/// Variables of a profile that name a place, or who the user is.
pub(super) fn variables(
    profile: Profile,
    surroundings: &Surroundings,
    host: &dyn Host,
) -> Vec<(OsString, OsString)> {
    let variable = |name: &str, path: Option<PathBuf>| Some((name.into(), path?.into()));
    match profile {
        Profile::Rust => {
            let places = [
                variable("CARGO_HOME", cargo_home(surroundings)),
                variable("RUSTUP_HOME", rustup_home(surroundings)),
            ];
            places.into_iter().flatten().collect()
        }
        Profile::Go => {
            let modules = variable("GOMODCACHE", go_modules(surroundings));
            let local = Some(("GOTOOLCHAIN".into(), "local".into()));
            modules.into_iter().chain(local).collect()
        }
        Profile::Git => of_git(surroundings, host),
        _ => Vec::new(),
    }
}

/// Who commits. Git's own settings may name programs and hold tokens: of these two lines are passed on.
fn of_git(surroundings: &Surroundings, host: &dyn Host) -> Vec<(OsString, OsString)> {
    let files = [".gitconfig", ".config/git/config"];
    let files = files.map(|name| in_home(surroundings, Path::new(name)));
    let contents = files.iter().flatten();
    let contents: Vec<_> = contents
        .filter_map(|path| host.content(path, SETTINGS_BYTES))
        .collect();
    let of_user = |key: &str| {
        contents
            .iter()
            .find_map(|content| setting_of_user(&String::from_utf8_lossy(content), key))
    };
    let mut variables = vec![("GIT_TERMINAL_PROMPT".into(), "0".into())];
    for (key, names) in [
        ("name", ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"]),
        ("email", ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"]),
    ] {
        for name in names {
            let value = surroundings.variable(name).map(OsStr::to_owned);
            let value = value.or_else(|| of_user(key).map(OsString::from));
            variables.extend(value.map(|value| (name.into(), value)));
        }
    }
    variables
}

/// `name` or `email` of the section `[user]`, git-config(1), where it is written plainly.
fn setting_of_user(settings: &str, key: &str) -> Option<String> {
    let mut in_section = false;
    for line in settings.lines().map(str::trim) {
        if line.starts_with('[') {
            in_section = line.eq_ignore_ascii_case("[user]");
        } else if in_section
            && let Some((name, value)) = line.split_once('=')
            && name.trim().eq_ignore_ascii_case(key)
        {
            let value = value.trim().trim_matches('"');
            let is_plain = !value.is_empty() && !value.contains(['"', '\\', '#', ';']);
            return is_plain.then(|| value.to_owned());
        }
    }
    None
}

fn cargo_home(surroundings: &Surroundings) -> Option<PathBuf> {
    named_or_in_home(surroundings, "CARGO_HOME", ".cargo")
}

fn rustup_home(surroundings: &Surroundings) -> Option<PathBuf> {
    named_or_in_home(surroundings, "RUSTUP_HOME", ".rustup")
}

fn go_modules(surroundings: &Surroundings) -> Option<PathBuf> {
    let named = folder_named(surroundings, "GOMODCACHE");
    named.or_else(|| Some(named_or_in_home(surroundings, "GOPATH", "go")?.join("pkg/mod")))
}

fn named_or_in_home(surroundings: &Surroundings, variable: &str, below: &str) -> Option<PathBuf> {
    let named = folder_named(surroundings, variable);
    named.or_else(|| in_home(surroundings, Path::new(below)))
}

fn in_home(surroundings: &Surroundings, below: &Path) -> Option<PathBuf> {
    home(surroundings).map(|home| home.join(below))
}

/// The folder of whoever starts palisade.
pub(super) fn home(surroundings: &Surroundings) -> Option<PathBuf> {
    folder_named(surroundings, "HOME")
}

/// A variable that is an absolute path without `..`.
fn folder_named(surroundings: &Surroundings, variable: &str) -> Option<PathBuf> {
    use std::path::Component;
    let path = PathBuf::from(surroundings.variable(variable)?);
    let is_clean = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    (path.is_absolute() && is_clean && path != Path::new("/")).then(|| path.components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_commits_is_read_and_nothing_else() {
        let settings = "[credential]\n\tname = token\n[user]\n\tName = Ada Lovelace\n\temail = \"a@example.com\"\n\
                        [url \"https://token@example.com\"]\n\tname = x\n";
        assert_eq!(
            setting_of_user(settings, "name").as_deref(),
            Some("Ada Lovelace")
        );
        assert_eq!(
            setting_of_user(settings, "email").as_deref(),
            Some("a@example.com")
        );
        assert_eq!(setting_of_user(settings, "signingkey"), None);
        assert_eq!(setting_of_user("[user]\nname = a # b", "name"), None);
        assert_eq!(setting_of_user("[user \"x\"]\nname = a", "name"), None);
    }

    #[test]
    fn odd_folders_are_not_taken() {
        let with = |value: &str| Surroundings {
            environment: vec![("CARGO_HOME".into(), value.into())],
            ..Surroundings::default()
        };
        assert_eq!(cargo_home(&with("/a/./b/")), Some("/a/b".into()));
        for odd in ["", "/", "a", "/a/../b"] {
            assert_eq!(cargo_home(&with(odd)), None, "{odd}");
        }
    }
}
