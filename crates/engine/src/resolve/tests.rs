use super::*;
use rustix::fs::{Mode, fstat, open as open_path};
use std::{fs, os::unix::fs::symlink, path::Path};

#[test]
fn a_path_splits_before_its_last_component() {
    let parts = |path: &'static str| {
        let (parent, name) = split(path.as_bytes())?;
        let text = |bytes| str::from_utf8(bytes).unwrap();
        Ok::<_, Unresolved>((text(parent), text(name)))
    };
    assert_eq!(parts("a"), Ok(("", "a")));
    assert_eq!(parts("a/b"), Ok(("a/", "b")));
    assert_eq!(parts("a//b//"), Ok(("a//", "b//")));
    assert_eq!(parts("a/.."), Ok(("a/", "..")));
    assert_eq!(parts(""), Err(Unresolved::Kernel(Kernel::NOENT)));
    assert_eq!(parts("/"), Err(Unresolved::Outside));
    assert_eq!(parts("/etc/passwd"), Err(Unresolved::Outside));
}

#[test]
fn a_plain_name_has_one_component_and_stays() {
    assert!(is_plain_name(b"a") && is_plain_name(b"."));
    for path in ["", "..", "a/", "a/b", "/"] {
        assert!(!is_plain_name(path.as_bytes()), "{path}");
    }
}

#[test]
fn a_path_that_only_descends_is_not_absolute_and_has_no_dots() {
    for path in ["a", "a/b//c/", ".", "./a", ""] {
        assert!(only_descends(path.as_bytes()), "{path}");
    }
    for path in ["..", "a/..", "../a", "a/../b", "/", "/a", "a..b"] {
        assert!(!only_descends(path.as_bytes()), "{path}");
    }
}

/// Names that each folder of the fixture may have, and some that none has.
const NAMES: [&str; 14] = [
    "d", "e", "f", "to-d", "to-f", "up", "out", "absolute", "round", "winding", "dangling", ".",
    "..", "none",
];

/// Files that opening may make.
const MADE: [&str; 4] = ["none", "d/none", "d/e/none", "nothing"];

fn lay(fixture: &Path) {
    let at = |path: &str| fixture.join("inside").join(path);
    fs::create_dir_all(at("d/e")).unwrap();
    fs::create_dir(fixture.join("outside")).unwrap();
    for file in ["f", "d/f", "d/e/f", "../outside/f"] {
        fs::write(at(file), "").unwrap();
    }
    let links = [
        ("d", "to-d"),
        ("f", "to-f"),
        ("..", "up"),
        ("../outside", "out"),
        ("/", "absolute"),
        ("round", "round"),
        ("to-d/e/../../f", "winding"),
        ("nothing", "dangling"),
        ("e", "d/to-d"),
        ("../f", "d/to-f"),
        ("..", "d/up"),
        ("../../outside/f", "d/out"),
        ("../../inside/f", "d/winding"),
        ("../..", "d/e/up"),
        ("../../to-d/e/", "d/e/winding"),
    ];
    for (text, name) in links {
        symlink(text, at(name)).unwrap();
    }
}

/// All paths of up to so many names.
fn paths(most: usize) -> Vec<String> {
    let mut paths = Vec::new();
    let mut longest: Vec<String> = NAMES.map(str::to_owned).into();
    for _ in 0..most {
        paths.extend(longest.iter().cloned());
        paths.extend(longest.iter().map(|path| format!("{path}/")));
        longest = longest
            .iter()
            .flat_map(|path| NAMES.map(|name| format!("{path}/{name}")))
            .collect();
    }
    paths
}

/// Which file was opened, or why none was.
fn opened(
    resolver: &Resolver,
    folder: &OwnedFd,
    path: &str,
    flags: OFlags,
) -> Result<u64, Unresolved> {
    let file = resolver.open(folder.as_fd(), path.as_bytes(), flags)?;
    Ok(fstat(file).unwrap().st_ino)
}

fn check_equal(most: usize, flags: &[OFlags]) {
    let fixture = tempfile::tempdir().unwrap();
    lay(fixture.path());
    let inside = fixture.path().join("inside");
    let folder = open_path(&inside, OFlags::DIRECTORY, Mode::empty()).unwrap();
    let (by_kernel, by_walk) = (Resolver::new(), Resolver::new());
    by_walk.has_openat2.set(false);
    let (mut reached, mut refused) = (0, 0);
    for path in paths(most) {
        for flags in flags {
            let makes = flags.contains(OFlags::CREATE);
            let results = [&by_kernel, &by_walk].map(|resolver| {
                let result = opened(resolver, &folder, &path, *flags);
                let made = MADE.map(|name| makes && fs::remove_file(inside.join(name)).is_ok());
                // A new file has a new number.
                (
                    result.map(|number| if made.contains(&true) { 0 } else { number }),
                    made,
                )
            });
            assert_eq!(results[0], results[1], "{path} with {flags:?}");
            match results[0].0 {
                Ok(_) => reached += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(by_kernel.has_openat2.get(), "this kernel has no openat2");
    assert!(
        reached > 50 && refused > 50,
        "{reached} reached, {refused} refused"
    );
    assert_eq!(
        fs::read_dir(fixture.path().join("outside"))
            .unwrap()
            .count(),
        1
    );
}

/// Walking says the same as the kernel does, for every path of three names in a folder of links.
#[test]
fn a_walk_ends_where_the_kernel_does() {
    check_equal(
        3,
        &[
            OFlags::PATH,
            OFlags::PATH | OFlags::NOFOLLOW,
            OFlags::RDONLY,
            OFlags::RDONLY | OFlags::NOFOLLOW,
            OFlags::RDONLY | OFlags::DIRECTORY,
            OFlags::WRONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW,
            OFlags::WRONLY,
        ],
    );
}

#[test]
fn a_walk_makes_what_the_kernel_does() {
    check_equal(
        2,
        &[
            OFlags::WRONLY | OFlags::CREATE,
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC,
            OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW,
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
        ],
    );
}

#[test]
fn a_walk_never_begins_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let folder = open_path(folder.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    let resolver = Resolver::new();
    resolver.has_openat2.set(false);
    assert_eq!(
        opened(&resolver, &folder, "/etc/passwd", OFlags::RDONLY),
        Err(Unresolved::Outside)
    );
    assert_eq!(
        opened(&resolver, &folder, "", OFlags::RDONLY),
        Err(Unresolved::Kernel(Kernel::NOENT))
    );
}
