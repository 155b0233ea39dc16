//! `mounts` of the configuration.

use crate::cgroup::{Groups, Version};
use anyhow::{Context, bail};
use oci_spec::runtime::{LinuxIdMapping, Mount};
use palisade_process::container::{Bind, Step};
use std::path::{Path, PathBuf};

/// `MS_PRIVATE` and its kind (mount(2)).
pub(super) const PRIVATE: u64 = 1 << 18;
pub(super) const SLAVE: u64 = 1 << 19;
const SHARED: u64 = 1 << 20;
const UNBINDABLE: u64 = 1 << 17;

/// `MOUNT_ATTR_*` (mount_setattr(2)).
pub(super) const RDONLY: u64 = 1;
const NOSUID: u64 = 2;
const NODEV: u64 = 4;
const NOEXEC: u64 = 8;
/// All that is about times of access, of which one value holds at a time.
const ATIME: u64 = 0x70;
const NOATIME: u64 = 0x10;
const STRICTATIME: u64 = 0x20;
const NODIRATIME: u64 = 0x80;
const NOSYMFOLLOW: u64 = 0x0020_0000;

/// A word, what it sets and what it clears.
const ATTRIBUTES: [(&str, u64, u64); 18] = [
    ("ro", RDONLY, 0),
    ("rw", 0, RDONLY),
    ("nosuid", NOSUID, 0),
    ("suid", 0, NOSUID),
    ("nodev", NODEV, 0),
    ("dev", 0, NODEV),
    ("noexec", NOEXEC, 0),
    ("exec", 0, NOEXEC),
    ("noatime", NOATIME, ATIME),
    ("atime", 0, ATIME),
    ("relatime", 0, ATIME),
    ("norelatime", 0, ATIME),
    ("strictatime", STRICTATIME, ATIME),
    ("nostrictatime", 0, ATIME),
    ("nodiratime", NODIRATIME, 0),
    ("diratime", 0, NODIRATIME),
    ("nosymfollow", NOSYMFOLLOW, 0),
    ("symfollow", 0, NOSYMFOLLOW),
];

const PROPAGATIONS: [(&str, u64); 8] = [
    ("private", PRIVATE),
    ("rprivate", PRIVATE),
    ("slave", SLAVE),
    ("rslave", SLAVE),
    ("shared", SHARED),
    ("rshared", SHARED),
    ("unbindable", UNBINDABLE),
    ("runbindable", UNBINDABLE),
];

/// Words that ask for nothing: what is so anyway, or what the kernel has no more.
const NOTHING: [&str; 9] = [
    "defaults",
    "async",
    "nomand",
    "mand",
    "loud",
    "silent",
    "noiversion",
    "iversion",
    "remount",
];

/// What is said of the file system itself.
const OF_FILE_SYSTEM: [&str; 3] = ["sync", "dirsync", "lazytime"];

/// All words that `features` tells.
pub(crate) const MOUNT_OPTIONS: [&str; 46] = [
    "async",
    "atime",
    "bind",
    "defaults",
    "dev",
    "diratime",
    "dirsync",
    "exec",
    "idmap",
    "lazytime",
    "mand",
    "noatime",
    "nodev",
    "nodiratime",
    "noexec",
    "nomand",
    "norelatime",
    "nostrictatime",
    "nosuid",
    "nosymfollow",
    "private",
    "ratime",
    "rbind",
    "rdev",
    "relatime",
    "remount",
    "rexec",
    "ridmap",
    "rnodev",
    "rnoexec",
    "rnosuid",
    "ro",
    "rprivate",
    "rro",
    "rrw",
    "rshared",
    "rslave",
    "rsuid",
    "rw",
    "shared",
    "slave",
    "strictatime",
    "suid",
    "symfollow",
    "sync",
    "tmpcopyup",
];

/// What the words of one mount come to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    set: u64,
    clear: u64,
    set_below: u64,
    clear_below: u64,
    propagation: u64,
    bind: bool,
    recursive: bool,
    mapped: bool,
    mapped_below: bool,
    copy_up: bool,
    others: Vec<(String, Option<String>)>,
}

fn options(words: &[String]) -> anyhow::Result<Options> {
    let mut options = Options::default();
    for word in words {
        read(word, &mut options)?;
    }
    Ok(options)
}

fn read(word: &str, options: &mut Options) -> anyhow::Result<()> {
    let attribute = |word: &str| ATTRIBUTES.iter().find(|(name, ..)| *name == word);
    if let Some((_, set, clear)) = attribute(word) {
        // The last word counts.
        options.set = options.set & !clear | set;
        options.clear = options.clear & !set | clear;
        return Ok(());
    }
    if let Some((_, propagation)) = PROPAGATIONS.iter().find(|(name, _)| *name == word) {
        options.propagation = *propagation;
        return Ok(());
    }
    match word {
        "bind" => options.bind = true,
        "rbind" => (options.bind, options.recursive) = (true, true),
        "tmpcopyup" => options.copy_up = true,
        "notmpcopyup" => options.copy_up = false,
        // Podman says so of what it has mounted itself.
        "copy" | "nocopy" | "U" | "chown" => {}
        "idmap" => options.mapped = true,
        "ridmap" => (options.mapped, options.mapped_below) = (true, true),
        word if NOTHING.contains(&word) => {}
        word if OF_FILE_SYSTEM.contains(&word) => options.others.push((word.into(), None)),
        word => {
            let below = word.strip_prefix('r').and_then(attribute);
            if let Some((_, set, clear)) = below {
                options.set_below = options.set_below & !clear | set;
                options.clear_below = options.clear_below & !set | clear;
                return Ok(());
            }
            let (key, value) = match word.split_once('=') {
                Some((key, value)) => (key, Some(value.to_owned())),
                None => (word, None),
            };
            options.others.push((key.into(), value));
        }
    }
    Ok(())
}

/// What is needed of the container beside a mount itself.
pub(super) struct Surroundings<'a> {
    pub(super) bundle: &'a Path,
    pub(super) groups: &'a Groups,
    /// `context=` for what takes it (SELinux).
    pub(super) label: Option<&'a str>,
    /// The container's mappings of users and groups; `None` where it has the host's.
    pub(super) mappings: Option<[&'a [LinuxIdMapping]; 2]>,
}

/// The steps of one mount.
pub(super) fn steps(
    mount: &Mount,
    surroundings: &Surroundings<'_>,
    steps: &mut Vec<Step>,
) -> anyhow::Result<()> {
    let target = mount.destination();
    let about = || format!("policy: mounts: {target:?}");
    // The specification wants an absolute one; engines of old wrote others.
    let target = Path::new("/").join(target);
    let words = mount.options().as_deref().unwrap_or_default();
    let mut options = options(words).with_context(about)?;
    map(mount, surroundings, &mut options).with_context(about)?;
    let kind = mount.typ().as_deref().unwrap_or_default();
    let source = mount.source().clone().unwrap_or_default();
    if is_bind(mount, &options) {
        if source.as_os_str().is_empty() {
            return Err(anyhow::anyhow!("there is no source to bind")).with_context(about);
        }
        steps.push(Step::Bind(bind(
            surroundings.bundle.join(source),
            target,
            &options,
        )));
        return Ok(());
    }
    match kind {
        "" => Err(anyhow::anyhow!("there is no type")).with_context(about),
        "cgroup" | "cgroup2" => {
            mount_groups(&target, &options, surroundings.groups, steps);
            Ok(())
        }
        kind => {
            let mut others = options.others;
            if let Some(label) = surroundings
                .label
                .filter(|_| matches!(kind, "tmpfs" | "devpts" | "mqueue" | "shm"))
            {
                others.push(("context".into(), Some(label.into())));
            }
            steps.push(Step::Mount {
                kind: kind.into(),
                source: source.to_string_lossy().into_owned(),
                target,
                attributes: (options.set | options.set_below) & !(options.clear & !options.set),
                propagation: options.propagation,
                copies: options.copy_up && kind == "tmpfs",
                options: others,
            });
            Ok(())
        }
    }
}

/// A mapping of the mount's own must be the container's: there is one user namespace to map by.
fn map(
    mount: &Mount,
    surroundings: &Surroundings<'_>,
    options: &mut Options,
) -> anyhow::Result<()> {
    let own = [mount.uid_mappings(), mount.gid_mappings()]
        .map(|mappings| mappings.as_deref().unwrap_or_default());
    let has_own = own.iter().any(|mappings| !mappings.is_empty());
    options.mapped |= has_own;
    if !options.mapped {
        return Ok(());
    }
    if !is_bind(mount, options) {
        bail!("only a bind mount's files can be mapped");
    }
    let Some(mappings) = surroundings.mappings else {
        bail!("its files cannot be mapped without a user namespace");
    };
    if has_own && own != mappings {
        bail!(
            "uidMappings and gidMappings of a mount must be those of linux: others are not supported"
        );
    }
    Ok(())
}

fn is_bind(mount: &Mount, options: &Options) -> bool {
    options.bind || mount.typ().as_deref() == Some("bind")
}

/// What is said of a bind mount that is of the file system which is mounted already. The kernel does not look at it.
pub(super) fn meaningless(mount: &Mount) -> Option<String> {
    let options = options(mount.options().as_deref().unwrap_or_default()).ok()?;
    // Labels are for whoever made the files; engines see to them.
    let words = options.others.iter().map(|(word, _)| word.as_str());
    let words: Vec<_> = words.filter(|word| !matches!(*word, "z" | "Z")).collect();
    (is_bind(mount, &options) && !words.is_empty()).then(|| {
        format!(
            "policy: mounts: {:?}: nothing comes of {} for a bind mount",
            mount.destination(),
            words.join(", ")
        )
    })
}

/// A file of palisade's own, over what the image or the engine has there.
pub(super) fn read_only(source: &Path, target: &Path) -> Step {
    Step::Bind(Bind {
        source: source.into(),
        target: target.into(),
        set: RDONLY | NOSUID | NODEV | NOEXEC,
        propagation: PRIVATE,
        ..Bind::default()
    })
}

fn bind(source: PathBuf, target: PathBuf, options: &Options) -> Bind {
    Bind {
        source,
        target,
        recursive: options.recursive,
        set: options.set,
        clear: options.clear,
        set_below: options.set_below,
        clear_below: options.clear_below,
        propagation: match options.propagation {
            0 => PRIVATE,
            propagation => propagation,
        },
        mapped: options.mapped,
        mapped_below: options.mapped_below,
    }
}

/// A file system in memory is filled before it is read-only: a `/dev` has devices and mounts of its own.
pub(super) fn make_read_only_last(steps: &mut Vec<Step>) {
    let mut sealed = Vec::new();
    for step in steps.iter_mut() {
        if let Step::Mount {
            kind,
            target,
            attributes,
            ..
        } = step
            && kind == "tmpfs"
            && *attributes & RDONLY != 0
        {
            *attributes &= !RDONLY;
            sealed.push(Step::Restrict {
                path: target.clone(),
                attributes: RDONLY,
                recursive: false,
            });
        }
    }
    steps.append(&mut sealed);
}

/// The container's own groups, as far as it may see them.
fn mount_groups(target: &Path, options: &Options, groups: &Groups, steps: &mut Vec<Step>) {
    let bind = |group: &crate::cgroup::Group, target: PathBuf| {
        Step::Bind(Bind {
            source: group.folder.clone(),
            target,
            set: options.set,
            clear: options.clear,
            propagation: PRIVATE,
            ..Bind::default()
        })
    };
    match groups.version {
        Version::Two => {
            for group in groups.all.iter().take(1) {
                steps.push(bind(group, target.into()));
            }
        }
        _ => {
            steps.push(Step::Mount {
                kind: "tmpfs".into(),
                source: "tmpfs".into(),
                target: target.into(),
                attributes: NOSUID | NODEV | NOEXEC,
                propagation: 0,
                copies: false,
                options: vec![
                    ("mode".into(), Some("755".into())),
                    ("size".into(), Some("1m".into())),
                ],
            });
            for group in &groups.all {
                let name = group.controllers.trim_start_matches("name=");
                steps.push(bind(group, target.join(name)));
                if name.contains(',') {
                    for one in name.split(',') {
                        steps.push(Step::Link {
                            path: target.join(one),
                            target: name.into(),
                        });
                    }
                }
            }
            if options.set & RDONLY != 0 {
                steps.push(Step::Restrict {
                    path: target.into(),
                    attributes: RDONLY,
                    recursive: true,
                });
            }
        }
    }
}
