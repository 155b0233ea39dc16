//! Which paths may be advised to be granted: none that holds more than what was asked for.

use crate::host::{Found, Kind};
use palisade_policy::{Pattern, acts_on_terminal};
use std::path::{Component, Path, PathBuf};

/// What a user keeps from every guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The user's home, without links.
    home: Option<PathBuf>,
    /// What the user has named beside what everybody keeps.
    named: Vec<Named>,
}

/// A path, or what a pattern finds; all below it, too.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Path(PathBuf),
    Pattern(Pattern),
}

impl Kept {
    /// Of a user with this home, who has named these lines beside ([`check_line`]); those that name nothing are passed over. Of a
    /// link that is named, what it leads to is kept, too: `find` tells that.
    pub fn new<S: AsRef<str>>(
        home: Option<PathBuf>,
        lines: impl IntoIterator<Item = S>,
        find: impl Fn(&Path) -> Option<Found>,
    ) -> Self {
        let paths = lines
            .into_iter()
            .filter_map(|line| path_of(line.as_ref(), home.as_deref()).ok()?);
        let named = paths.flat_map(|path| match Pattern::of(&path) {
            Some(pattern) => vec![Named::Pattern(pattern)],
            None => {
                let path = Pattern::plain(&path);
                let target = find(&path).map(|found| found.canonical);
                let target = target.filter(|target| *target != path);
                [Some(path), target]
                    .into_iter()
                    .flatten()
                    .map(Named::Path)
                    .collect()
            }
        });
        Self {
            named: named.collect(),
            home,
        }
    }

    /// The user's home, without links.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Whether this may be advised to be granted.
    pub fn judge(&self, found: &Found) -> Advice {
        match judge(found, self.home()) {
            Grant if self.is_named(&found.canonical) => NAMED,
            advice => advice,
        }
    }

    /// Whether programs keep keys, passwords or what was typed where a path leads, by its names; or the user does.
    pub(crate) fn keeps_secrets(&self, path: &Path) -> bool {
        keeps_secrets(path, self.home()) || self.is_named(path)
    }

    /// Whether the user has named it, or something around it.
    pub fn is_named(&self, path: &Path) -> bool {
        self.named.iter().any(|named| match named {
            Named::Path(named) => path.starts_with(named),
            Named::Pattern(pattern) => path.ancestors().any(|path| pattern.finds(path)),
        })
    }
}

/// Why a line names nothing that can be kept.
///
/// # Errors
///
/// The reason, as a clause.
pub fn check_line(line: &str) -> Result<(), &'static str> {
    path_of(line, Some(Path::new("/"))).map(drop)
}

/// `/path`, `~/path`, or a name or path that is meant wherever it lies; `*`, `?` and `**` stand for others. A line that is empty, or
/// begins with `#`, has none.
fn path_of(line: &str, home: Option<&Path>) -> Result<Option<PathBuf>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if line.contains(acts_on_terminal) {
        return Err("it has characters that a terminal acts on");
    }
    if line.starts_with(['"', '\'', '$', '\u{feff}']) {
        return Err("a name stands alone: no quotes, no variables, nothing before it");
    }
    let path = match line
        .strip_prefix("~/")
        .map(|below| below.trim_start_matches('/'))
    {
        Some(below) => Pattern::escape(home.ok_or("there is no home")?).join(below),
        None if line == "~" => return Err("a home is kept from every guest anyway"),
        None if line.starts_with('~') => return Err("another user's home is named in full"),
        None if line.starts_with('/') => line.into(),
        None => Path::new("/**").join(line),
    };
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    match is_plain && path.components().count() > 1 {
        true => Ok(Some(path.components().collect())),
        false => Err("it is no path without `..`"),
    }
}

/// What may be said of a path that the guest does not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The flag.
    Grant,
    /// No flag, and why.
    Refuse(&'static str),
    /// Nothing: the domain has its own, or no grant of files helps.
    Nothing,
}

/// What is to be done where no flag is advised.
pub const IN_PART: &str = "grant only what the guest needs of it";

use Advice::{Grant, Nothing, Refuse};

const HOMES: Advice = Refuse("it holds a home, with keys, passwords and histories");
const EVERYBODYS: Advice = Refuse("it holds what everybody on this machine keeps there");
const SETTINGS: Advice = Refuse("it holds the machine's settings, passwords among them");
const RUNNING: Advice =
    Refuse("sockets lie there by which services are told what to do with this machine");
/// Why what is known as a key by its name is granted to nobody unasked.
pub const SECRET: Advice = Refuse("keys and passwords are kept there");
/// Why what a user has named is granted to nobody.
pub const NAMED: Advice = Refuse("you keep it from every guest");
const PRIVATE: Advice = Refuse("not everybody on this machine may read it");

/// Paths that are never advised whole. What lies below them may be.
const WHOLE: &[(&str, Advice)] = &[
    ("/", EVERYBODYS),
    ("/boot", SETTINGS),
    ("/etc", SETTINGS),
    ("/etc/ssh", SECRET),
    ("/home", HOMES),
    ("/media", EVERYBODYS),
    ("/mnt", EVERYBODYS),
    ("/opt", EVERYBODYS),
    ("/root", HOMES),
    ("/srv", EVERYBODYS),
    ("/tmp", Nothing),
    ("/dev/shm", Nothing),
    ("/var", EVERYBODYS),
    ("/var/cache", EVERYBODYS),
    ("/var/lib", EVERYBODYS),
    ("/var/log", EVERYBODYS),
    ("/var/mail", HOMES),
    ("/var/spool", EVERYBODYS),
    ("/var/tmp", EVERYBODYS),
];

/// Paths that are not advised, nor anything below them.
const ALL_BELOW: &[(&str, Advice)] = &[
    ("/dev", Nothing),
    ("/proc", Nothing),
    ("/run", RUNNING),
    ("/sys", Refuse("it shows the machine's devices")),
    ("/etc/ssl/private", SECRET),
];

/// Names below which programs keep keys, passwords and what was typed, wherever they lie; in small letters.
#[rustfmt::skip]
const SECRETS: [&str; 74] = [
    ".aliyun", ".anthropic", ".authinfo", ".aws", ".azure", ".bitcoin", ".boto", ".claude", ".cloudflared", ".codex",
    ".credentials", ".cursor", ".docker", ".electrum", ".ethereum", ".gemini", ".git-credentials", ".gnupg", ".htpasswd", ".kube",
    ".mozilla", ".msmtprc", ".my.cnf", ".netrc", ".npmrc", ".oci", ".openai", ".password-store", ".pgpass", ".pki", ".pypirc",
    ".s3cfg", ".ssh", ".terraform.d", ".terraformrc", ".thunderbird", ".vault-token", ".vault_pass", ".xauthority", ".yarnrc.yml",
    "application_default_credentials.json", "auth.json", "clouds.yaml", "credentials", "credentials.json", "keyrings",
    "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", "secring.gpg", "wallet.dat",
    ".histfile", ".lesshst", ".node_repl_history", ".psql_history", ".sqlite_history", ".viminfo", "fish_history",
    ".envrc", ".env", "settings-security.xml",
    ".claude.json", ".condarc", ".curlrc", ".databrickscfg", ".dockercfg", ".kaggle", ".subversion", ".vnc", ".wgetrc", "kaggle.json",
    "login.keychain-db", "terraform.tfstate",
];

/// The same below a home, as it is written there.
#[rustfmt::skip]
const SECRETS_OF_HOME: [&str; 37] = [
    ".bundle/config", ".cache/huggingface/token", ".cargo/credentials", ".cargo/credentials.toml", ".config/1Password",
    ".config/Bitwarden", ".config/BraveSoftware", ".config/Signal", ".config/chromium", ".config/composer/auth.json",
    ".config/containers/auth.json", ".config/doctl", ".config/gcloud", ".config/gh", ".config/git/credentials",
    ".config/github-copilot", ".config/glab-cli", ".config/google-chrome", ".config/hub", ".config/microsoft-edge", ".config/op",
    ".config/openstack", ".config/opera", ".config/rclone", ".config/sops", ".config/vivaldi", ".gem/credentials",
    ".gradle/gradle.properties", ".ivy2/.credentials", ".local/share/zsh", ".local/state/bash", ".m2/settings.xml",
    ".nuget/NuGet", ".sbt/.credentials", ".config/pip", ".var/app", "snap",
];

/// Beginnings of names of keys, of files of variables, and of their copies for one place or another.
const BEGINNINGS: [&str; 6] = [
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    ".env.",
    ".env-",
];

/// What such files are called that are meant to be read.
const EXAMPLES: [&str; 4] = [".example", ".sample", ".template", ".pub"];

/// Ends of names of what was typed.
const HISTORIES: [&str; 2] = ["_history", ".history"];

/// Endings of files with keys.
const OF_KEYS: [&str; 9] = [
    "jks", "kdbx", "key", "keystore", "ovpn", "p12", "p8", "pfx", "ppk",
];

/// What copies are called.
const COPIES: [&str; 6] = ["~", ".bak", ".backup", ".old", ".orig", ".save"];

/// Where homes are.
const HOMES_LIE_IN: [&str; 2] = ["/home", "/var/home"];

/// Folders of a home that hold what all of its programs keep.
const OF_HOME: [&str; 6] = [
    ".cache",
    ".cargo",
    ".config",
    ".local",
    ".local/share",
    ".local/state",
];

/// Whether this may be advised to be granted to a guest of somebody's who has named nothing. `home` is the user's, without links.
fn judge(found: &Found, home: Option<&Path>) -> Advice {
    let path = found.canonical.as_path();
    let of_table = || {
        let whole = WHOLE.iter().find(|(place, _)| path == Path::new(place));
        let below = || ALL_BELOW.iter().find(|(place, _)| path.starts_with(place));
        whole.or_else(below).map(|row| row.1)
    };
    if !matches!(found.kind, Kind::File | Kind::Folder) {
        return Nothing;
    }
    of_table()
        .or_else(|| of_home(path, home))
        .or_else(|| of_names(path))
        .or_else(|| of_modes(found))
        .unwrap_or(Grant)
}

/// Whether what is written there is executed or obeyed outside the wall by others than whoever has it run there: settings of the
/// machine, of shells, editors and version control.
pub(crate) fn runs_outside(path: &Path, home: Option<&Path>) -> bool {
    const OF_MACHINE: [&str; 8] = [
        "/bin",
        "/boot",
        "/etc",
        "/lib",
        "/lib64",
        "/sbin",
        "/usr",
        "/var/spool",
    ];
    const NAMES: [&str; 12] = [
        ".git",
        ".hg",
        ".husky",
        ".svn",
        ".vscode",
        ".idea",
        ".github",
        ".gitlab-ci.yml",
        ".envrc",
        ".gitconfig",
        ".gitmodules",
        ".profile",
    ];
    const BEGINNINGS: [&str; 6] = [".bash", ".zsh", ".zlog", ".zprofile", ".xinit", ".xsession"];
    const OF_HOME: [&str; 10] = [
        ".cargo/bin",
        ".config/autostart",
        ".config/fish",
        ".config/git",
        ".config/systemd",
        ".local/bin",
        ".local/share/applications",
        ".pyenv/shims",
        "bin",
        "go/bin",
    ];
    let is_machines = OF_MACHINE.iter().any(|place| path.starts_with(place));
    let runs = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy().to_ascii_lowercase();
        NAMES.contains(&name.as_str()) || BEGINNINGS.iter().any(|begin| name.starts_with(begin))
    };
    let of_home = home_around(path, home).and_then(|home| path.strip_prefix(home).ok());
    let is_homes =
        of_home.is_some_and(|below| OF_HOME.iter().any(|place| below.starts_with(place)));
    is_machines || is_homes || path.iter().any(runs)
}

/// Whether programs keep keys, passwords or what was typed where a path leads, by its names.
pub(crate) fn keeps_secrets(path: &Path, home: Option<&Path>) -> bool {
    let is_secret = |advice| matches!(advice, Refuse(_));
    of_home(path, home).is_some_and(is_secret) || of_names(path).is_some_and(is_secret)
}

fn of_home(path: &Path, home: Option<&Path>) -> Option<Advice> {
    let is_anybodys = |folder: &&str| path.parent() == Some(Path::new(folder));
    if HOMES_LIE_IN.iter().any(is_anybodys) {
        return Some(HOMES);
    }
    if home.is_some_and(|home| home.starts_with(path)) {
        return Some(HOMES);
    }
    let below = path.strip_prefix(home_around(path, home)?).ok()?;
    let is_secret = SECRETS_OF_HOME
        .iter()
        .any(|secret| below.starts_with(secret));
    let is_whole = OF_HOME.iter().any(|name| below == Path::new(name));
    (is_secret || is_whole).then_some(SECRET)
}

/// The home that a path lies in, whoever's.
fn home_around<'a>(path: &'a Path, home: Option<&'a Path>) -> Option<&'a Path> {
    let is_anybodys = |home: &&Path| {
        let around = home.parent();
        HOMES_LIE_IN
            .iter()
            .any(|folder| around == Some(Path::new(folder)))
    };
    let own = home.filter(|home| path.starts_with(home));
    let roots = Some(Path::new("/root")).filter(|home| path.starts_with(home));
    own.or_else(|| path.ancestors().find(is_anybodys)).or(roots)
}

fn of_names(path: &Path) -> Option<Advice> {
    let is_secret = |name: &std::ffi::OsStr| {
        // However it is written: some disks do not tell letters apart.
        let name = name.to_string_lossy().to_ascii_lowercase();
        let copied = COPIES.iter().find_map(|copy| name.strip_suffix(copy));
        let name = copied.unwrap_or(&name);
        let is_example = EXAMPLES.iter().any(|example| name.ends_with(example));
        let begins = BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning));
        let ends = HISTORIES.iter().any(|ending| name.ends_with(ending));
        let is_of_keys = name.rsplit_once('.').is_some_and(|(before, ending)| {
            OF_KEYS.contains(&ending) || ending == "pem" && before.contains("key")
        });
        SECRETS.contains(&name) || (begins || ends || is_of_keys) && !is_example
    };
    path.iter().any(is_secret).then_some(SECRET)
}

/// A folder that everybody may write to and nobody empty; and what the machine keeps from some.
fn of_modes(found: &Found) -> Option<Advice> {
    const STICKY_FOR_ALL: u32 = 0o1002;
    const READ_BY_ALL: u32 = 0o4;
    let is_shared = found.kind == Kind::Folder && found.mode & STICKY_FOR_ALL == STICKY_FOR_ALL;
    if is_shared {
        return Some(EVERYBODYS);
    }
    let is_machines = ["/etc", "/var/lib", "/var/log", "/var/spool"]
        .iter()
        .any(|place| found.canonical.starts_with(place));
    (is_machines && found.mode & READ_BY_ALL == 0).then_some(PRIVATE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Identity;

    fn found(path: &str, kind: Kind, mode: u32) -> Found {
        Found {
            canonical: path.into(),
            kind,
            identity: Identity::default(),
            uid: 0,
            gid: 0,
            mode,
            size_bytes: 0,
        }
    }

    fn judged(path: &str, kind: Kind, mode: u32) -> Advice {
        judge(&found(path, kind, mode), Some(Path::new("/home/me")))
    }

    #[test]
    fn what_holds_everybodys_things_is_never_advised() {
        for path in [
            "/",
            "/etc",
            "/home",
            "/home/me",
            "/home/you",
            "/root",
            "/var",
            "/var/tmp",
            "/run",
            "/run/user/1000",
            "/opt",
            "/srv",
            "/mnt",
            "/sys/class",
            "/home/me/.ssh",
            "/home/me/.ssh/config",
            "/home/me/.config",
            "/home/me/.cargo",
            "/srv/a/.git-credentials",
        ] {
            let advice = judged(path, Kind::Folder, 0o755);
            assert!(matches!(advice, Refuse(_)), "{path}: {advice:?}");
        }
        for path in ["/tmp", "/dev/shm", "/dev", "/proc", "/proc/1/maps"] {
            assert_eq!(judged(path, Kind::Folder, 0o755), Nothing, "{path}");
        }
        assert_eq!(judged("/data/drop", Kind::Folder, 0o1777), EVERYBODYS);
        assert_eq!(judged("/etc/shadow", Kind::File, 0o640), PRIVATE);
    }

    #[test]
    fn a_project_and_its_files_are() {
        for path in [
            "/home/me/project",
            "/tmp/x",
            "/srv/www",
            "/opt/tool",
            "/etc/app.conf",
            "/var/tmp/x",
            "/home/me/.config/app",
            "/home/me/.nvm/versions/node/v22",
        ] {
            assert_eq!(judged(path, Kind::Folder, 0o755), Grant, "{path}");
        }
        assert_eq!(judged("/home/me/project/key", Kind::File, 0o600), Grant);
    }

    #[test]
    fn keys_are_known_by_their_names() {
        for path in [
            "/srv/app/.env.production",
            "/srv/app/.ENV",
            "/home/me/.config/git/credentials",
            "/data/id_rsa_work",
            "/data/ID_ED25519",
            "/data/server-key.pem",
            "/data/x.KEY",
            "/home/me/.irb_history",
            "/home/me/.local/share/zsh/history",
            "/home/me/.config/containers/auth.json",
        ] {
            let advice = judged(path, Kind::File, 0o600);
            assert!(matches!(advice, Refuse(_)), "{path}: {advice:?}");
        }
        for path in [
            "/srv/app/.env.example",
            "/data/id_rsa.pub",
            "/data/cacert.pem",
            "/data/token.py",
            "/data/monkey",
        ] {
            assert_eq!(judged(path, Kind::File, 0o644), Grant, "{path}");
        }
    }

    #[test]
    fn what_others_run_is_known_by_its_place() {
        let runs = |path: &str| runs_outside(Path::new(path), Some(Path::new("/home/me")));
        for path in [
            "/home/me/project/.git/hooks/pre-commit",
            "/home/me/.bashrc",
            "/home/me/.zshenv",
            "/home/me/bin/tool",
            "/home/me/.config/systemd/user/x.service",
            "/etc/cron.d/x",
            "/usr/local/bin/x",
            "/srv/x/.vscode/tasks.json",
        ] {
            assert!(runs(path), "{path}");
        }
        for path in [
            "/home/me/project/src",
            "/srv/bin",
            "/home/me/.cache/x",
            "/data/git",
        ] {
            assert!(!runs(path), "{path}");
        }
    }

    #[test]
    fn copies_of_keys_are_keys() {
        for path in [
            "/data/.env~",
            "/data/.netrc.bak",
            "/data/.env-prod",
            "/data/x.ppk",
            "/home/me/.claude.json",
        ] {
            let advice = judged(path, Kind::File, 0o600);
            assert!(matches!(advice, Refuse(_)), "{path}: {advice:?}");
        }
        assert_eq!(judged("/data/notes.bak", Kind::File, 0o644), Grant);
    }

    #[test]
    fn what_a_user_names_is_kept_too() {
        let lines = [
            "# mine",
            "",
            "~/letters",
            "*.vault",
            "secret/**/x",
            "/srv/keys/",
        ];
        let find = |path: &Path| {
            (path == Path::new("/home/me/letters"))
                .then(|| found("/data/post", Kind::Folder, 0o755))
        };
        let kept = Kept::new(Some("/home/me".into()), lines, find);
        for path in [
            "/home/me/letters",
            "/home/me/letters/one",
            "/data/post/one",
            "/srv/a.vault",
            "/srv/a.vault/inside",
            "/data/secret/x",
            "/data/secret/deep/x/y",
            "/srv/keys/one",
        ] {
            let found = found(path, Kind::File, 0o644);
            assert_eq!(kept.judge(&found), NAMED, "{path}");
            assert!(kept.keeps_secrets(Path::new(path)), "{path}");
        }
        for path in [
            "/home/me/project",
            "/srv/avault",
            "/data/secret",
            "/srv/keys2",
        ] {
            let found = found(path, Kind::File, 0o644);
            assert_eq!(kept.judge(&found), Grant, "{path}");
        }
        // What everybody keeps stays so.
        assert_eq!(
            kept.judge(&found("/home/me/.ssh", Kind::Folder, 0o700)),
            SECRET
        );
        assert_eq!(Kept::new(None, ["~/x"], |_| None), Kept::default());
        let kept = Kept::new(Some("/home/me".into()), ["~//x"], |_| None);
        assert!(kept.is_named(Path::new("/home/me/x")));
    }

    #[test]
    fn a_line_that_names_nothing_is_refused() {
        for (line, is_one) in [
            ("# x", true),
            ("  ", true),
            ("~/x", true),
            ("**/x", true),
            ("/", false),
            ("~", false),
            ("~you/x", false),
            ("\"~/x\"", false),
            ("$HOME/x", false),
            ("\u{feff}~/x", false),
            ("/a/../b", false),
            ("..", false),
            ("a\u{1b}[2J", false),
        ] {
            assert_eq!(check_line(line).is_ok(), is_one, "{line}");
        }
    }

    #[test]
    fn no_grant_of_files_helps_with_what_is_neither_file_nor_folder() {
        for kind in [Kind::Device, Kind::Socket, Kind::Fifo] {
            assert_eq!(judged("/home/me/x", kind, 0o666), Nothing);
        }
    }

    #[test]
    fn all_names_are_published() {
        const PAGE: &str = include_str!("../../../docs/sensitive.md");
        let names: [(&str, &[&str]); 7] = [
            ("", &SECRETS),
            ("~/", &SECRETS_OF_HOME),
            ("", &BEGINNINGS),
            ("", &EXAMPLES),
            ("", &HISTORIES),
            (".", &OF_KEYS),
            ("~/", &OF_HOME),
        ];
        for (prefix, names) in names {
            for name in names {
                assert!(PAGE.contains(&format!("`{prefix}{name}`")), "{name}");
            }
        }
        assert!(
            COPIES
                .iter()
                .all(|copy| PAGE.contains(&format!("`{copy}`")))
        );
    }
}
