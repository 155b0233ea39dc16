use super::*;
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::PathBuf,
};
use tempfile::TempDir;

const NAME: &str = "copy";

/// A folder and its copy.
struct Pair {
    source: TempDir,
    holder: TempDir,
    mirror: Mirror,
}

impl Pair {
    fn new() -> Self {
        let source = tempfile::tempdir().unwrap();
        fs::create_dir_all(source.path().join("sub/below")).unwrap();
        for name in ["first", "second", "sub/third", "sub/below/fourth"] {
            fs::write(source.path().join(name), name).unwrap();
        }
        symlink("first", source.path().join("link")).unwrap();
        let mut pair = Self {
            source,
            holder: tempfile::tempdir().unwrap(),
            mirror: Mirror::default(),
        };
        pair.refresh();
        pair
    }

    fn refresh(&mut self) -> usize {
        let (source, holder) = (self.source.path(), self.holder.path());
        self.mirror
            .refresh(source, holder, NAME.as_ref(), &|_, _| false)
            .unwrap()
    }

    fn copy(&self, name: &str) -> PathBuf {
        self.holder.path().join(NAME).join(name)
    }

    fn source(&self, name: &str) -> PathBuf {
        self.source.path().join(name)
    }

    fn inode(&self, name: &str) -> u64 {
        fs::symlink_metadata(self.copy(name)).unwrap().ino()
    }

    /// All that can be seen of both is the same.
    #[track_caller]
    fn are_equal(&self) {
        assert_eq!(seen(&self.copy("")), seen(&self.source("")));
    }
}

/// Names, modes, times of folders and files, and contents.
fn seen(folder: &Path) -> Vec<String> {
    let mut all: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            let data = fs::symlink_metadata(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let (mode, time) = (data.mode(), (data.mtime(), data.mtime_nsec()));
            if data.is_dir() {
                let below = seen(&path).into_iter();
                let below = below.map(|line| format!("{name}/{line}"));
                let itself = format!("{name} {mode:o} {time:?}");
                below.chain([itself]).collect::<Vec<_>>()
            } else if data.is_symlink() {
                vec![format!("{name} {:?}", fs::read_link(&path).unwrap())]
            } else {
                let text = fs::read_to_string(&path).unwrap();
                vec![format!("{name} {mode:o} {time:?} {text}")]
            }
        })
        .collect();
    all.sort();
    all
}

#[test]
fn what_nobody_touched_is_not_copied_again() {
    let mut pair = Pair::new();
    pair.are_equal();
    let names = ["first", "link", "sub", "sub/third", "sub/below/fourth"];
    let before = names.map(|name| pair.inode(name));
    fs::write(pair.copy("second"), "by a run").unwrap();
    let elsewhere = pair.holder.path().join("elsewhere");
    fs::hard_link(pair.copy("second"), &elsewhere).unwrap();
    pair.refresh();
    pair.are_equal();
    assert_eq!(names.map(|name| pair.inode(name)), before);
    // It is made anew rather than written over.
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), "by a run");
}

#[test]
fn whatever_a_run_did_is_undone() {
    let acts: [fn(&Pair); 9] = [
        |pair| fs::remove_dir_all(pair.copy("sub")).unwrap(),
        |pair| fs::write(pair.copy("sub/new"), "").unwrap(),
        |pair| fs::rename(pair.copy("first"), pair.copy("sub/third")).unwrap(),
        |pair| fs::set_permissions(pair.copy("sub"), Permissions::from_mode(0o0)).unwrap(),
        |pair| fs::set_permissions(pair.copy("first"), Permissions::from_mode(0o400)).unwrap(),
        |pair| {
            fs::remove_dir_all(pair.copy("sub")).unwrap();
            symlink(pair.source(""), pair.copy("sub")).unwrap();
        },
        |pair| {
            fs::remove_file(pair.copy("link")).unwrap();
            fs::create_dir_all(pair.copy("link/below")).unwrap();
        },
        |pair| fs::hard_link(pair.copy("first"), pair.copy("sub/also")).unwrap(),
        // With the length and the time that it had.
        |pair| {
            let file = File::options().write(true).open(pair.copy("first"));
            let file = file.unwrap();
            let time = file.metadata().unwrap().modified().unwrap();
            (&file).write_all(b"FIRST").unwrap();
            file.set_modified(time).unwrap();
        },
    ];
    let mut pair = Pair::new();
    for (number, act) in acts.iter().enumerate() {
        act(&pair);
        let differs = number == 3 || seen(&pair.copy("")) != seen(&pair.source(""));
        assert!(differs, "act {number} does nothing");
        assert_eq!(pair.refresh(), 0, "act {number}");
        pair.are_equal();
    }
}

#[test]
fn what_the_user_changes_is_changed_in_the_copy() {
    let mut pair = Pair::new();
    fs::write(pair.source("first"), "FIRST").unwrap();
    fs::remove_dir_all(pair.source("sub/below")).unwrap();
    fs::write(pair.source("sub/below"), "a file now").unwrap();
    fs::create_dir(pair.source("other")).unwrap();
    fs::remove_file(pair.source("second")).unwrap();
    pair.refresh();
    pair.are_equal();
}

/// A change right after the copy, however fast it comes.
#[test]
fn a_change_at_once_is_seen() {
    let mut pair = Pair::new();
    for _ in 0..50 {
        fs::write(pair.copy("first"), "FIRST").unwrap();
        pair.refresh();
        assert_eq!(fs::read_to_string(pair.copy("first")).unwrap(), "first");
    }
}

/// Root is not kept out by modes.
#[test]
fn folders_that_are_closed_are_copied_and_made_again() {
    let mut pair = Pair::new();
    let closed = Permissions::from_mode(0o500);
    fs::set_permissions(pair.source("sub"), closed.clone()).unwrap();
    pair.refresh();
    pair.are_equal();
    fs::write(pair.copy("sub/third"), "by a run").unwrap();
    fs::set_permissions(pair.copy("sub/below"), closed).unwrap();
    pair.refresh();
    pair.are_equal();
    remove_from(pair.holder.path(), NAME.as_ref()).unwrap();
    assert!(!pair.copy("").exists());
    fs::set_permissions(pair.source("sub"), Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn no_link_leads_out_of_what_is_removed() {
    let mut pair = Pair::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "").unwrap();
    fs::create_dir(pair.copy("new")).unwrap();
    symlink(outside.path(), pair.copy("new/link")).unwrap();
    pair.refresh();
    pair.are_equal();
    assert!(outside.path().join("kept").exists());
}

#[test]
fn a_copy_inside_the_folder_is_no_part_of_it() {
    let mut pair = Pair::new();
    let holder = tempfile::tempdir_in(pair.source.path()).unwrap();
    pair.holder = holder;
    pair.mirror = Mirror::default();
    pair.refresh();
    pair.refresh();
    let name = pair.holder.path().file_name().unwrap();
    assert!(!pair.copy("").join(name).exists());
    assert!(pair.copy("sub/third").exists());
}

#[test]
fn a_large_file_is_copied_whole() {
    let mut pair = Pair::new();
    let text = "0123456789abcdef".repeat(BUFFER_BYTES / 8);
    fs::write(pair.source("large"), &text).unwrap();
    pair.refresh();
    assert!(fs::read_to_string(pair.copy("large")).unwrap() == text);
}

/// Deeper than there are descriptors, and than a path is long.
#[test]
fn folders_in_folders_are_removed() {
    const DEEP: usize = 3000;
    let holder = tempfile::tempdir().unwrap();
    let root = open_folder(CWD, holder.path().as_os_str()).unwrap();
    let mut folder = root.try_clone().unwrap();
    for _ in 0..DEEP {
        mkdirat(&folder, "d", Mode::RWXU).unwrap();
        symlinkat("nowhere", &folder, "link").unwrap();
        folder = open_folder(&folder, OsStr::new("d")).unwrap();
    }
    fchmod(&folder, Mode::empty()).unwrap();
    remove(root.as_fd(), OsStr::new("d")).unwrap();
    remove(root.as_fd(), OsStr::new("link")).unwrap();
    assert_eq!(names_in(&root).unwrap(), [""; 0]);
}
