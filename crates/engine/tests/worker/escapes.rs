//! Ways out of a folder that lead nowhere.

use crate::{folders::check, harness::program};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

const NOTCAPABLE: &str = "76";

/// `inside` is the guest's; `outside` lies beside it with a secret and a folder.
struct Fixture {
    whole: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let whole = tempfile::tempdir().unwrap();
        let at = |path: &str| whole.path().join(path);
        fs::create_dir_all(at("inside/d")).unwrap();
        fs::write(at("inside/f"), "mine").unwrap();
        fs::create_dir_all(at("outside/folder")).unwrap();
        fs::write(at("outside/secret"), "secret").unwrap();
        symlink("../outside/secret", at("inside/to-secret")).unwrap();
        symlink("../outside", at("inside/to-outside")).unwrap();
        symlink("../outside/new", at("inside/to-new")).unwrap();
        symlink(at("outside/secret"), at("inside/absolute-secret")).unwrap();
        symlink(at("outside"), at("inside/absolute-outside")).unwrap();
        symlink(at("inside/f"), at("inside/absolute-own")).unwrap();
        symlink("..", at("inside/up")).unwrap();
        symlink("d/../../outside/secret", at("inside/winding")).unwrap();
        Self { whole }
    }

    fn inside(&self) -> PathBuf {
        self.whole.path().join("inside")
    }

    /// All that lies outside, and what is in it.
    fn outside(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let folder = self.whole.path().join("outside");
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).ok()))
            .collect()
    }
}

/// Every call, with every way out, in each place where it takes a path.
#[test]
fn no_call_leads_out_of_a_folder() {
    let fixture = Fixture::new();
    let before = fixture.outside();
    let absolute = fixture.whole.path().join("outside/secret");
    let files = [
        "../outside/secret",
        "d/../../outside/secret",
        "./../outside/secret",
        "to-outside/secret",
        "absolute-outside/secret",
        "up/outside/secret",
        absolute.to_str().unwrap(),
    ];
    let links = ["to-secret", "absolute-secret", "winding", "absolute-own"];
    let mut operations = Vec::new();
    for path in files {
        for call in [
            "read", "lread", "stat", "lstat", "times", "ltimes", "readlink", "unlink", "rmdir",
            "mkdir", "opendir",
        ] {
            operations.push(format!("{call}:{path}"));
        }
        for call in ["write", "create", "overwrite"] {
            operations.push(format!("{call}:{path}:changed"));
        }
        for call in ["rename", "link", "link-followed"] {
            operations.push(format!("{call}:{path}:taken"));
            operations.push(format!("{call}:f:{path}"));
        }
        operations.push(format!("symlink:f:{path}"));
        operations.push(format!("stat:{path}/"));
    }
    for path in links {
        for call in ["read", "stat", "times"] {
            operations.push(format!("{call}:{path}"));
        }
        operations.push(format!("write:{path}:changed"));
        operations.push(format!("overwrite:{path}:changed"));
        operations.push(format!("link-followed:{path}:taken"));
    }
    operations.push("write:to-new:made".into());
    for path in ["to-outside/", "absolute-outside/", "up/", "to-secret/"] {
        for call in [
            "read", "stat", "lstat", "times", "ltimes", "readlink", "opendir",
        ] {
            operations.push(format!("{call}:{path}"));
        }
        operations.push(format!("link:{path}:taken"));
        operations.push(format!("link-followed:{path}:taken"));
    }
    let parents = ["..", "../", "d/../..", "to-outside/..", "up", "../.."];
    for path in parents {
        operations.push(format!("stat:{path}"));
        operations.push(format!("opendir:{path}"));
    }
    for path in parents.into_iter().filter(|path| *path != "up") {
        for call in ["mkdir", "rmdir", "unlink"] {
            operations.push(format!("{call}:{path}"));
        }
        operations.push(format!("rename:d:{path}"));
        operations.push(format!("rename:{path}:d"));
    }
    let expected: Vec<_> = operations
        .iter()
        .map(|operation| (operation.as_str(), NOTCAPABLE))
        .collect();
    check(&fixture.inside(), &expected);
    assert_eq!(fixture.outside(), before);
    assert!(!fixture.inside().join("taken").exists());
    assert_eq!(fs::read(fixture.inside().join("f")).unwrap(), b"mine");
}

/// The control: the same calls reach what lies inside.
#[test]
fn links_and_parents_within_a_folder_are_followed() {
    let fixture = Fixture::new();
    symlink("d/../f", fixture.inside().join("winding-own")).unwrap();
    symlink("..", fixture.inside().join("d/up")).unwrap();
    check(
        &fixture.inside(),
        &[
            ("read:f", "ok mine"),
            ("read:d/../f", "ok mine"),
            ("read:winding-own", "ok mine"),
            ("read:d/up/f", "ok mine"),
            ("stat:d/..", "ok 3 0"),
            ("lstat:to-secret", "ok 7 0"),
            ("readlink:to-secret", "ok ../outside/secret"),
            ("rename:to-secret:moved", "ok"),
            ("unlink:moved", "ok"),
            ("ltimes:up", "ok"),
            // A link to wherever can be made; it leads nowhere.
            ("symlink:/etc/passwd:made", "ok"),
            ("read:made", NOTCAPABLE),
        ],
    );
}

/// `/proc/self/fd/N` jumps, whatever its text is.
#[test]
fn magic_links_are_not_followed() {
    let results = crate::folders::calls(
        Path::new("/proc/self"),
        &[
            "read:exe",
            "stat:cwd",
            "stat:fd/0",
            "stat:root",
            "read:cwd/Cargo.toml",
            "lstat:exe",
            "read:comm",
        ],
    );
    assert_eq!(results[..5], ["32"; 5]);
    assert_eq!(results[5..7], ["ok 7 0", "ok palisade-worker"]);
}

/// A folder that is swapped for a link to the outside, again and again.
#[test]
fn a_race_is_never_won() {
    const ROUNDS: &str = "20000";
    let fixture = Fixture::new();
    let at = |path: &str| fixture.inside().join(path);
    fs::write(at("d/secret"), "own").unwrap();
    let done = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, at("d"), CWD, at("to-outside"), RenameFlags::EXCHANGE).unwrap();
            }
        });
        let outcome = program("race")
            .within(&fixture.inside())
            .arguments([ROUNDS, "d/secret"])
            .run();
        done.store(true, Ordering::Relaxed);
        outcome.output().to_owned()
    });
    let seen: BTreeMap<&str, u32> = output
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(what, count)| (what, count.parse().unwrap()))
        .collect();
    assert_eq!(seen.get("s"), None, "{output}");
    assert!(
        seen["refused"] > 0 && seen["o"] > 0,
        "there was no race: {output}"
    );
}
