use super::{folder::base, *};
use rustix::fs::FileType;
use std::{
    fs,
    io::Read,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

const CODE: &[u8] = b"machine code";

fn name(text: &str) -> EntryName {
    EntryName::of([text.as_bytes()])
}

fn opened() -> (tempfile::TempDir, Cache) {
    let base = tempfile::tempdir().unwrap();
    let cache = Cache::open(base.path()).unwrap();
    (base, cache)
}

fn entry(cache: &Cache, name: EntryName) -> PathBuf {
    cache.path.join(ENTRIES).join(name.file_name())
}

/// As its owner can, who is no guest.
fn overwrite(path: &Path, bytes: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o400)).unwrap();
}

/// What a worker would find in the descriptor.
fn code_in(held: &Held) -> Vec<u8> {
    let mut bytes = Vec::new();
    crate::compile::again(held.file())
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// An entry that `spoil` has changed is not given out, and is gone.
fn is_refused(spoil: impl FnOnce(&Path)) {
    let (_base, cache) = opened();
    cache.put(name("a"), CODE).unwrap();
    let path = entry(&cache, name("a"));
    spoil(&path);
    assert!(cache.get(name("a")).is_none());
    assert!(fs::symlink_metadata(&path).is_err(), "it is still there");
    cache.put(name("a"), CODE).unwrap();
    assert!(cache.get(name("a")).is_some(), "it can't be made anew");
}

#[test]
fn root_keeps_nothing_in_the_home_of_somebody_else() {
    let path = |text: &str| Some(PathBuf::from(text));
    let told = |caches, home, is_root| base(caches, home, is_root).ok();
    assert_eq!(told(None, path("/"), true), path("/.cache"));
    assert_eq!(told(path("/etc/x"), path("/"), true), path("/etc/x"));
    assert_eq!(told(path("x"), None, true), path("/var/cache"));
    assert_eq!(told(None, None, false), None);
    let home = tempfile::tempdir().unwrap();
    let home = home.path().to_owned();
    let below = home.join("a/b");
    assert_eq!(
        told(Some(below.clone()), Some(home.clone()), false),
        Some(below.clone())
    );
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&home, Some(65534), None).unwrap();
    }
    assert_eq!(told(Some(below), Some(home), true), path("/var/cache"));
}

#[test]
fn code_is_found_under_its_name_and_no_other() {
    let (base, cache) = opened();
    assert!(cache.get(name("a")).is_none());
    let put = cache.put(name("a"), CODE).unwrap();
    assert!(code_in(&put).starts_with(CODE));
    drop(cache);
    let again = Cache::open(base.path()).unwrap();
    assert!(code_in(&again.get(name("a")).unwrap()).starts_with(CODE));
    assert!(again.get(name("b")).is_none());
}

#[test]
fn names_tell_their_parts_apart() {
    let parts = |parts: &[&[u8]]| EntryName::of(parts.iter().copied());
    assert_ne!(parts(&[b"ab", b"c"]), parts(&[b"a", b"bc"]));
    assert_ne!(parts(&[b"ab"]), parts(&[b"ab", b""]));
    assert_eq!(parts(&[b"ab", b"c"]), parts(&[b"ab", b"c"]));
}

#[test]
fn an_entry_with_any_byte_changed_is_refused() {
    let (_base, cache) = opened();
    cache.put(name("a"), CODE).unwrap();
    let path = entry(&cache, name("a"));
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        overwrite(&path, &changed);
        assert!(cache.get(name("a")).is_none(), "byte {at}");
        fs::write(&path, &whole).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(cache.get(name("a")).is_some(), "byte {at} put back");
    }
}

#[test]
fn an_entry_of_any_other_length_is_refused() {
    let (_base, cache) = opened();
    cache.put(name("a"), CODE).unwrap();
    let path = entry(&cache, name("a"));
    let mut longer = fs::read(&path).unwrap();
    longer.push(0);
    fs::remove_file(&path).unwrap();
    for length in (0..longer.len() - 1).chain([longer.len()]) {
        fs::write(&path, &longer[..length]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(cache.get(name("a")).is_none(), "{length} bytes");
    }
}

#[test]
fn an_entry_under_the_name_of_another_is_refused() {
    let (_base, cache) = opened();
    cache.put(name("a"), CODE).unwrap();
    cache.put(name("b"), b"other code").unwrap();
    fs::copy(entry(&cache, name("b")), entry(&cache, name("a"))).unwrap();
    assert!(cache.get(name("a")).is_none());
}

#[test]
fn an_entry_of_another_key_is_refused() {
    let (base, cache) = opened();
    cache.put(name("a"), CODE).unwrap();
    fs::remove_file(base.path().join("palisade").join(KEY)).unwrap();
    let rekeyed = Cache::open(base.path()).unwrap();
    assert!(rekeyed.get(name("a")).is_none());
}

#[test]
fn an_entry_that_others_could_change_is_refused() {
    is_refused(|path| fs::set_permissions(path, fs::Permissions::from_mode(0o620)).unwrap());
    is_refused(|path| fs::hard_link(path, path.with_extension("link")).unwrap());
    is_refused(|path| {
        let moved = path.with_extension("moved");
        fs::rename(path, &moved).unwrap();
        symlink(&moved, path).unwrap();
    });
    is_refused(|path| {
        fs::remove_file(path).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).unwrap();
    });
}

#[test]
fn a_folder_in_the_place_of_an_entry_is_told_and_keeps_nothing() {
    let (_base, cache) = opened();
    fs::create_dir(entry(&cache, name("a"))).unwrap();
    assert!(cache.get(name("a")).is_none());
    let error = cache.put(name("a"), CODE).unwrap_err();
    assert!(matches!(error, CacheError::Folder { .. }), "{error}");
    assert_eq!(
        room::entries(&cache.folder).len(),
        0,
        "an unfinished file is left"
    );
}

#[test]
fn folders_and_key_are_the_callers_alone() {
    let (base, cache) = opened();
    cache.put(name("a"), CODE).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let outer = base.path().join("palisade");
    assert_eq!(mode(&outer.join(ENTRIES)), 0o700);
    assert_eq!(mode(&outer.join(KEY)), 0o600);
    assert_eq!(mode(&entry(&cache, name("a"))), 0o400);
}

#[test]
fn a_cache_that_others_can_use_is_not_used() {
    let (base, _) = opened();
    let outer = base.path().join("palisade");
    for (path, mode) in [
        (outer.clone(), 0o770),
        (outer.clone(), 0o707),
        (outer.join(ENTRIES), 0o750),
        (outer.join(ENTRIES), 0o705),
    ] {
        let kept = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = Cache::open(base.path()).unwrap_err();
        assert!(matches!(error, CacheError::Untrusted { .. }), "{error}");
        fs::set_permissions(&path, kept).unwrap();
        Cache::open(base.path()).unwrap();
    }
}

/// Made ahead by another user, in a place that both can write to, with modes that look right.
#[test]
fn what_another_user_made_ahead_is_not_used() {
    const ANOTHER: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let give = |path: &Path| std::os::unix::fs::chown(path, Some(ANOTHER), None).unwrap();
    for folder in ["palisade", "palisade/code"] {
        let (base, _) = opened();
        give(&base.path().join(folder));
        let error = Cache::open(base.path()).unwrap_err();
        assert!(matches!(error, CacheError::Untrusted { .. }), "{error}");
    }
    let (base, cache) = opened();
    give(&base.path().join("palisade").join(KEY));
    assert_ne!(Cache::open(base.path()).unwrap().key, cache.key);
    is_refused(give);
}

#[test]
fn a_cache_behind_a_link_is_not_used() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir(base.path().join("elsewhere")).unwrap();
    symlink("elsewhere", base.path().join("palisade")).unwrap();
    assert!(Cache::open(base.path()).is_err());
    assert_eq!(
        fs::read_dir(base.path().join("elsewhere")).unwrap().count(),
        0
    );
}

#[test]
fn a_key_that_others_could_know_is_made_anew() {
    let (base, cache) = opened();
    let path = base.path().join("palisade").join(KEY);
    for spoil in [
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap(),
        |path: &Path| fs::write(path, b"short").unwrap(),
        |path: &Path| fs::hard_link(path, path.with_extension("link")).unwrap(),
        |path: &Path| {
            fs::rename(path, path.with_extension("moved")).unwrap();
            symlink(path.with_extension("moved"), path).unwrap();
        },
    ] {
        spoil(&path);
        let rekeyed = Cache::open(base.path()).unwrap();
        assert_ne!(rekeyed.key, cache.key);
    }
}

#[test]
fn the_entries_used_longest_ago_make_room() {
    let (base, cache) = opened();
    let code = vec![7; 1000];
    cache.set_most_bytes(2 * (code.len() + TRAILER_BYTES) as u64);
    for (text, age_s) in [("old", 300), ("older", 200)] {
        cache.put(name(text), &code).unwrap();
        let file = cache.get(name(text)).unwrap();
        let time = Timespec {
            tv_sec: now_s() - age_s * 3600,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        rustix::fs::futimens(file.file(), &times).unwrap();
    }
    // Used again: now `older` is what was used longest ago.
    assert!(cache.get(name("old")).is_some());
    cache.put(name("new"), &code).unwrap();
    let kept = ["old", "older", "new"].map(|text| entry(&cache, name(text)).exists());
    assert_eq!(kept, [true, false, true]);
    drop(base);
}

#[test]
fn two_that_make_the_same_entry_do_no_harm() {
    let (base, _) = opened();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let cache = Cache::open(base.path()).unwrap();
                    let code = cache.get(name("a"));
                    let code = code.unwrap_or_else(|| cache.put(name("a"), CODE).unwrap());
                    assert!(code_in(&code).starts_with(CODE));
                }
            });
        }
    });
    let cache = Cache::open(base.path()).unwrap();
    assert_eq!(room::entries(&cache.folder).len(), 1);
}

#[test]
fn many_that_make_the_key_at_once_agree() {
    let base = tempfile::tempdir().unwrap();
    let keys: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Cache::open(base.path()).unwrap().key))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert_ne!(keys[0], [0; KEY_BYTES]);
}

/// What was found whole is not read through again, until somebody writes to it.
#[test]
fn a_write_is_told_by_its_time() {
    let (_base, cache) = opened();
    cache.room().coarse_s = 0;
    cache.put(name("a"), CODE).unwrap();
    let path = entry(&cache, name("a"));
    let seen = |path: &Path| Seen::from(&rustix::fs::stat(path).unwrap());
    let has_seen = |path: &Path| cache.room().has_seen(name("a"), seen(path));
    assert!(cache.get(name("a")).is_some());
    assert!(!has_seen(&path), "nobody has it stay");
    cache.spare(name("a"));
    assert!(cache.get(name("a")).is_some());
    if !tells_each_change(rustix::fs::statfs(&path).unwrap().f_type) {
        assert!(!has_seen(&path), "a change may have no time here");
        return;
    }
    assert!(has_seen(&path));
    // One that its owner could open for writing as it is.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(cache.get(name("a")).is_some());
    assert!(!has_seen(&path), "it can be written to");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    assert!(cache.get(name("a")).is_some());
    assert!(has_seen(&path));
    // Until the clock of the file system is another.
    let before = seen(&path);
    while seen(&path) == before {
        overwrite(&path, &vec![0; CODE.len() + TRAILER_BYTES]);
    }
    assert!(!has_seen(&path));
    assert!(
        cache.get(name("a")).is_none(),
        "a changed entry is given out"
    );
    cache.put(name("a"), CODE).unwrap();
    assert!(cache.get(name("a")).is_some());
    cache.spare_no_more(name("a"));
    assert!(!has_seen(&path), "it is remembered for ever");
}

/// Who writes within what a file system takes for one moment leaves the same time.
#[test]
fn what_changed_just_now_is_read_through_again() {
    let (_base, cache) = opened();
    cache.spare(name("a"));
    cache.put(name("a"), CODE).unwrap();
    cache.room().coarse_s = 3600;
    assert!(cache.get(name("a")).is_some());
    let now = Seen::from(&rustix::fs::stat(entry(&cache, name("a"))).unwrap());
    assert!(!cache.room().has_seen(name("a"), now));
}

/// A child of the server's that was forked while it wrote, say: it has every descriptor until it executes a program.
#[test]
fn who_kept_a_descriptor_for_writing_changes_nothing() {
    let (_base, cache) = opened();
    cache.put(name("a"), CODE).unwrap();
    let path = entry(&cache, name("a"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let kept = fs::OpenOptions::new().write(true).open(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    let held = cache.get(name("a")).expect("it is as it was written");
    assert!(matches!(held, Held::Sealed(_)), "{held:?}");
    kept.write_all_at(b"hostile", 0).unwrap();
    kept.set_len(0).unwrap();
    assert!(code_in(&held).starts_with(CODE), "what was checked changed");
    assert!(
        cache.get(name("a")).is_none(),
        "a changed entry is given out"
    );
}

/// The same by a mapping, whose descriptor is closed.
#[test]
fn who_kept_a_mapping_for_writing_changes_nothing() {
    let (_base, cache) = opened();
    cache.put(name("a"), CODE).unwrap();
    let path = entry(&cache, name("a"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut child = std::process::Command::new("python3")
        .args(["-c", MAPS, path.to_str().unwrap()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3, as the other tests of guests need it");
    let mut said = [0; 1];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut said)
        .unwrap();
    let held = cache.get(name("a")).expect("it is as it was written");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(code_in(&held).starts_with(CODE), "what was checked changed");
    assert!(
        fs::read(&path).unwrap().starts_with(b"hostile"),
        "nothing was attacked"
    );
}

/// Maps a file for writing, closes it, says so, and writes when its input ends.
const MAPS: &str = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
kept = mmap.mmap(file, 0)
os.close(file)
sys.stdout.write('.'); sys.stdout.flush()
sys.stdin.read()
kept[0:7] = b'hostile'
";

/// Whoever wants to write to what is being mapped waits until it is.
#[test]
fn nobody_opens_for_writing_what_is_held() {
    let (_base, cache) = opened();
    let held = cache.put(name("a"), CODE).unwrap();
    let Held::Leased(_) = &held else {
        eprintln!("ignored: the temporary folder's file system has no leases, {held:?} stands in");
        return;
    };
    let path = entry(&cache, name("a"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let flags = OFlags::WRONLY | OFlags::NONBLOCK;
    let open = || rustix::fs::open(&path, flags, Mode::empty());
    assert_eq!(open().unwrap_err(), Errno::AGAIN);
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NONBLOCK;
    let cut = rustix::fs::open(&path, flags, Mode::empty());
    assert_eq!(cut.unwrap_err(), Errno::AGAIN);
    drop(held);
    open().expect("the lease was given back");
}

#[test]
fn what_is_mapped_outlives_its_entry() {
    let (_base, cache) = opened();
    let held = cache.put(name("a"), CODE).unwrap();
    fs::remove_file(entry(&cache, name("a"))).unwrap();
    assert!(code_in(&held).starts_with(CODE));
    assert!(cache.get(name("a")).is_none());
}

#[test]
fn what_is_spared_stays_whatever_room_it_takes() {
    let (_base, cache) = opened();
    cache.set_most_bytes(1);
    cache.spare(name("a"));
    cache.spare(name("a"));
    for text in ["a", "b", "c"] {
        cache.put(name(text), CODE).unwrap();
    }
    let kept = || ["a", "b", "c"].map(|text| entry(&cache, name(text)).exists());
    assert_eq!(kept(), [true, false, true]);
    cache.spare_no_more(name("a"));
    cache.put(name("d"), CODE).unwrap();
    assert_eq!(kept(), [true, false, false]);
    cache.spare_no_more(name("a"));
    cache.put(name("e"), CODE).unwrap();
    assert_eq!(kept(), [false; 3]);
}

#[test]
fn programs_that_are_run_take_no_room_of_what_is_served() {
    let (base, cache) = opened();
    let served = Cache::open_for_servers(base.path(), 1 << 20).unwrap();
    served.put(name("a"), CODE).unwrap();
    assert!(cache.get(name("a")).is_none());
    cache.set_most_bytes(1);
    cache.put(name("b"), CODE).unwrap();
    assert!(served.get(name("a")).is_some());
}
