//! On a host that is a table.

use super::*;
use crate::{
    host::table::{HOME, Table},
    plan::{PlanError, Step},
    reach::Reach,
    view::Check,
};

/// A checkout at `work`, with what `git init` makes.
fn checkout() -> Table {
    repository(Table::with_work(), "/home/ada/work/.git")
}

fn repository(host: Table, at: &str) -> Table {
    let file = |host: Table, name: &str| host.file(&format!("{at}/{name}"), "");
    let folder = |host: Table, name: &str| host.folder(&format!("{at}/{name}"));
    let host = ["objects", "refs", "hooks"]
        .into_iter()
        .fold(host.folder(at), folder);
    ["HEAD", "config"].into_iter().fold(host, file)
}

fn layout(host: &Table, text: &str) -> Layout {
    let policy = Policy::from_toml(text, "policy.toml", Path::new(HOME)).unwrap();
    assert_eq!(policy.validate(), Ok(()));
    Layout::resolve(&policy, host, Check::Modes).unwrap()
}

/// What is guarded, below the home.
fn guards(host: &Table, grants: &str) -> Vec<String> {
    let layout = layout(host, &format!("[grants]\n{grants}"));
    let paths = layout.guards().map(|path| path.to_string_lossy());
    let below = paths.map(|path| path.strip_prefix(HOME).unwrap_or(&path).to_owned());
    below.collect()
}

fn placeholders(host: &Table, grants: &str) -> Vec<(String, bool)> {
    let layout = layout(host, &format!("[grants]\n{grants}"));
    let arrangement = layout.arrange(host).unwrap();
    let held = arrangement.placeholders.iter();
    held.map(|held| (held.path.display().to_string(), held.folder))
        .collect()
}

const OF_WORK: [&str; 2] = ["/work/.git/config", "/work/.git/hooks"];

#[test]
fn hooks_and_settings_of_a_checkout_stay_as_they_are() {
    let host = checkout();
    assert_eq!(guards(&host, "write = ['work']"), OF_WORK);
    assert_eq!(
        guards(&host, "write = ['work:/w']"),
        ["/w/.git/config", "/w/.git/hooks"]
    );
    let layout = layout(&host, "grants.write = ['work']");
    for path in OF_WORK {
        let path = format!("{HOME}{path}");
        assert!(!layout.can_write(Path::new(&path)), "{path}");
        assert!(!layout.can_write(Path::new(&format!("{path}/x"))), "{path}");
    }
    let open = ["index.lock", "HEAD", "refs/heads/main", "hooks.d"];
    for name in open {
        assert!(layout.can_write(&Path::new(HOME).join("work/.git").join(name)));
    }
    let steps = layout.arrange(&host).unwrap().steps;
    let git = Path::new("/home/ada/work/.git");
    let is_pin = |step: &Step| matches!(step, Step::Remount { target, .. } if target == git);
    assert!(steps.iter().any(is_pin), "it cannot be moved away");
}

#[test]
fn nothing_is_guarded_where_there_is_nothing_to_guard() {
    let host = checkout();
    for grants in [
        "read = ['work']",
        "write = ['data']",
        "write = ['work/a']",
        "read = ['work']\nwrite = ['work/a']",
        // It lies deeper.
        "write = ['.']",
    ] {
        assert_eq!(guards(&host, grants), [""; 0], "{grants}");
    }
    let opened = layout(&host, "guard = false\n[grants]\nwrite = ['work']");
    assert_eq!(opened.guards().count(), 0);
    assert!(opened.can_write(Path::new("/home/ada/work/.git/hooks/pre-commit")));
}

#[test]
fn what_leads_to_a_repository_is_guarded() {
    let host = Table::with_work().file("/home/ada/work/.git", "gitdir: /home/ada/other");
    assert_eq!(guards(&host, "write = ['work']"), ["/work/.git"]);
    let host = checkout()
        .file("/home/ada/work/.git/commondir", "..")
        .folder("/home/ada/work/.git/worktrees")
        .folder("/home/ada/work/.git/worktrees/side")
        .file("/home/ada/work/.git/worktrees/side/HEAD", "")
        .file("/home/ada/work/.git/worktrees/side/commondir", "../..")
        .file("/home/ada/work/.git/worktrees/side/gitdir", "/x/.git");
    let expected = [
        "/work/.git/commondir",
        "/work/.git/config",
        "/work/.git/hooks",
        "/work/.git/worktrees/side/commondir",
        "/work/.git/worktrees/side/gitdir",
    ];
    assert_eq!(guards(&host, "write = ['work']"), expected);
}

#[test]
fn a_repository_is_guarded_as_the_grant() {
    let host = repository(Table::with_work(), "/home/ada/data");
    assert_eq!(
        guards(&host, "write = ['data']"),
        ["/data/config", "/data/hooks"]
    );
    let host = checkout();
    assert_eq!(
        guards(&host, "write = ['work/.git:/g']"),
        ["/g/config", "/g/hooks"]
    );
    // Not one to git.
    let host = Table::with_work().file("/home/ada/data/HEAD", "");
    assert_eq!(guards(&host, "write = ['data']"), [""; 0]);
}

#[test]
fn what_is_missing_is_held() {
    let hooks = Table::with_work()
        .folder("/home/ada/work/.git")
        .file("/home/ada/work/.git/config", "");
    let held = [("/home/ada/work/.git/hooks".to_owned(), true)];
    assert_eq!(placeholders(&hooks, "write = ['work']"), held);
    assert_eq!(placeholders(&checkout(), "write = ['work']"), []);
    let with_worktrees = checkout().file(
        "/home/ada/work/.git/config",
        "[extensions]\n\tworktreeConfig = true\n",
    );
    let held = [("/home/ada/work/.git/config.worktree".to_owned(), false)];
    assert_eq!(placeholders(&with_worktrees, "write = ['work']"), held);
}

#[test]
fn the_policy_s_own_words_win() {
    let host = checkout();
    for (grants, guarded) in [
        (
            "write = ['work']\nprotect = ['work/.git/hooks']",
            &["/work/.git/config"][..],
        ),
        ("write = ['work']\nprotect = ['work/.git']", &[]),
        ("write = ['work']\nread = ['work/.git']", &[]),
        (
            "write = ['work', 'work/.git/hooks']",
            &["/work/.git/config"],
        ),
        (
            "write = ['work']\nexec = ['work/.git/hooks']",
            &["/work/.git/config"],
        ),
        (
            "write = ['work']\nipc = ['work/.git/hooks']",
            &["/work/.git/config"],
        ),
    ] {
        assert_eq!(guards(&host, grants), guarded, "{grants}");
        let layout = layout(&host, &format!("[grants]\n{grants}"));
        layout.arrange(&host).unwrap();
        Reach::new(&layout, &host).refuse_second_names().unwrap();
    }
}

#[test]
fn another_grant_that_leads_there_is_guarded_too() {
    let host = checkout();
    assert_eq!(
        guards(&host, "write = ['.:/all', 'work:/w', 'work/.git:/g']"),
        [
            "/all/work/.git/config",
            "/all/work/.git/hooks",
            "/g/config",
            "/g/hooks",
            "/w/.git/config",
            "/w/.git/hooks",
        ]
    );
    // Asked for by its own name.
    let layout = layout(&host, "grants.write = ['work', 'work/.git/hooks:/h']");
    Reach::new(&layout, &host).refuse_second_names().unwrap();
}

#[test]
fn a_mount_that_leads_there_is_refused() {
    let host = checkout().bind("/home/ada/work/.git", "/home/ada/data/again");
    let layout = layout(&host, "grants.write = ['work', 'data']");
    let refused = Reach::new(&layout, &host).refuse_second_names();
    assert!(
        matches!(&refused, Err(PlanError::GuardOpenByAnotherName { other, .. }) if other.starts_with("/home/ada/data/again")),
        "{refused:?}"
    );
    let opened = self::layout(&host, "guard = false\ngrants.write = ['work', 'data']");
    Reach::new(&opened, &host).refuse_second_names().unwrap();
}

#[test]
fn a_link_in_its_place_is_refused_and_the_flag_is_named() {
    let hooks = checkout().link("/home/ada/work/.git/hooks", "../githooks");
    let git = repository(Table::with_work(), "/home/ada/data")
        .link("/home/ada/work/.git", "/home/ada/data");
    for host in [hooks, git] {
        let layout = layout(&host, "grants.write = ['work']");
        let refused = layout.arrange(&host).unwrap_err();
        assert!(matches!(refused, PlanError::GuardBehindLink { .. }));
        assert!(refused.to_string().contains("--no-guard"), "{refused}");
    }
}

/// There nothing can be mounted, and the policy has not asked for it.
#[test]
fn without_mounts_nothing_is_guarded_or_refused() {
    let mut layout = layout(&checkout(), "grants.write = ['work']");
    layout.drop_guards();
    assert_eq!(layout.guards().count(), 0);
    layout.without_mounts().unwrap();
}
