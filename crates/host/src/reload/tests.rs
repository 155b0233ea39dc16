use super::watch::Watch;
use crate::{generation::Suspects, stamp::ExactStamp};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

/// No change takes so long to be seen unless it is not.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longer than the quiet that is waited for.
const NOTHING_FOR: Duration = Duration::from_millis(400);

async fn is_seen(watch: &mut Watch, files: &[&PathBuf], act: impl FnOnce()) {
    watch.follow(files.iter().map(|path| (*path).clone()).collect());
    act();
    whose_change(watch).await;
}

/// Waits for a change, and tells whose it is.
async fn whose_change(watch: &mut Watch) -> Suspects {
    let seen = tokio::time::timeout(PATIENCE, watch.changed()).await;
    seen.expect("the change was not seen")
}

fn run(act: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(act);
}

#[test]
fn a_file_that_is_another_one_is_seen_however_it_comes() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("host.toml");
        fs::write(&file, "1").unwrap();
        let mut watch = Watch::open().unwrap();
        is_seen(&mut watch, &[&file], || fs::write(&file, "22").unwrap()).await;
        is_seen(&mut watch, &[&file], || {
            let new = folder.path().join(".host.toml.swp");
            fs::write(&new, "3").unwrap();
            fs::rename(&new, &file).unwrap();
        })
        .await;
        is_seen(&mut watch, &[&file], || fs::remove_file(&file).unwrap()).await;
        is_seen(&mut watch, &[&file], || fs::write(&file, "4").unwrap()).await;
    });
}

/// As a config map of Kubernetes is mounted: `host.toml → ..data/host.toml`, `..data → ..1`.
#[test]
fn a_link_that_turns_is_seen() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["..1", "..2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("host.toml"), version).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/host.toml", at("host.toml")).unwrap();
        let mut watch = Watch::open().unwrap();
        is_seen(&mut watch, &[&at("host.toml")], || {
            symlink("..2", at("..new")).unwrap();
            fs::rename(at("..new"), at("..data")).unwrap();
        })
        .await;
        assert_eq!(fs::read_to_string(at("host.toml")).unwrap(), "..2");
        is_seen(&mut watch, &[&at("host.toml")], || {
            fs::write(at("..2/host.toml"), "new").unwrap();
        })
        .await;
    });
}

#[test]
fn a_folder_that_is_swapped_is_seen() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["live", "next"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("a.wasm"), name).unwrap();
        }
        let mut watch = Watch::open().unwrap();
        is_seen(&mut watch, &[&at("live/a.wasm")], || {
            fs::rename(at("live"), at("old")).unwrap();
            fs::rename(at("next"), at("live")).unwrap();
        })
        .await;
    });
}

/// Only their files are looked at then.
#[test]
fn a_change_is_its_tenants() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut watch = Watch::open().unwrap();
        for name in ["main", "a", "b", "shared"] {
            fs::write(at(name), "1").unwrap();
        }
        let stamped = |name: &str| (at(name), ExactStamp::of(&at(name)));
        watch.follow(vec![at("main")]);
        watch.follow_group(&"a".into(), vec![stamped("a"), stamped("shared")]);
        watch.follow_group(&"b".into(), vec![stamped("b"), stamped("shared")]);
        for (name, whose) in [
            ("a", &["a"][..]),
            ("b", &["b"]),
            ("shared", &["a", "b"]),
            ("main", &[""]),
        ] {
            fs::write(at(name), format!("of {name}, and longer")).unwrap();
            let whose = Suspects::from_iter(whose.iter().map(|name| (*name).into()));
            assert_eq!(whose_change(&mut watch).await, whose, "{name}");
        }
    });
}

/// As whoever deploys puts a whole tree in another one's place.
#[test]
fn a_folder_far_above_that_is_swapped_is_seen_again_and_again() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["live", "1", "2"] {
            fs::create_dir_all(at(name).join("a/b")).unwrap();
            fs::write(at(name).join("a/b/c.wasm"), name).unwrap();
        }
        let file = at("live/a/b/c.wasm");
        let mut watch = Watch::open().unwrap();
        for (part, next) in [("", "1"), ("a", "2/a")] {
            is_seen(&mut watch, &[&file], || {
                fs::rename(
                    at("live").join(part),
                    at(&format!("old {next}").replace('/', "-")),
                )
                .unwrap();
                fs::rename(at(next), at("live").join(part)).unwrap();
            })
            .await;
            // What is there now is watched, also for who knows its stamp already.
            is_seen(&mut watch, &[&file], || {
                fs::write(&file, "and longer").unwrap();
            })
            .await;
            fs::write(&file, "x").unwrap();
        }
    });
}

/// One of those who have it was told by another way.
#[test]
fn what_one_knows_of_a_file_of_several_the_others_are_told() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shared");
        fs::write(&file, "1").unwrap();
        let stamped = || vec![(file.clone(), ExactStamp::of(&file))];
        let mut watch = Watch::open().unwrap();
        watch.follow_group(&"a".into(), stamped());
        watch.follow_group(&"b".into(), stamped());
        fs::write(&file, "another one").unwrap();
        watch.follow_group(&"a".into(), stamped());
        let both = Suspects::from_iter(["a", "b"].map(Into::into));
        assert_eq!(whose_change(&mut watch).await, both, "b was not told");
    });
}

#[test]
fn other_files_of_the_folder_are_nobodys_business() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("host.toml");
        fs::write(&file, "1").unwrap();
        let mut watch = Watch::open().unwrap();
        watch.follow(vec![file.clone()]);
        fs::write(folder.path().join("host.log"), "x").unwrap();
        let seen = tokio::time::timeout(NOTHING_FOR, watch.changed()).await;
        assert!(seen.is_err(), "nothing that is served has changed");
        // Whoever was waiting may go and come again: what happened meanwhile is not lost.
        fs::write(&file, "2 and more").unwrap();
        let at_once = tokio::time::timeout(Duration::from_millis(1), watch.changed()).await;
        assert!(at_once.is_err());
        tokio::time::timeout(PATIENCE, watch.changed())
            .await
            .expect("it was lost");
    });
}

#[test]
fn what_changed_while_it_was_read_is_seen() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let file: PathBuf = folder.path().join("host.toml");
        fs::write(&file, "1").unwrap();
        let mut watch = Watch::open().unwrap();
        watch.follow(vec![file.clone()]);
        let known = watch.stamps();
        fs::write(&file, "written between the look and the reading").unwrap();
        watch.follow_on(Some(vec![file.clone()]), &known);
        tokio::time::timeout(PATIENCE, watch.changed())
            .await
            .expect("it was not seen");
    });
}

#[test]
fn a_file_that_is_not_there_yet_is_watched_for() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("later/a.wasm");
        let mut watch = Watch::open().unwrap();
        is_seen(&mut watch, &[&file], || {
            fs::create_dir(folder.path().join("later")).unwrap();
            fs::write(&file, "x").unwrap();
        })
        .await;
        assert!(Path::new(&file).exists());
    });
}
