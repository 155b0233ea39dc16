//! On a host that is a table.

use super::*;
use crate::{
    host::table::{HOME, Table},
    layout::Layout,
    view::Check,
};
use palisade_policy::Policy;

type Question = fn(&Reach<'_>) -> Result<(), PlanError>;

fn refusal(host: &Table, grants: &str, ask: Question) -> Option<PlanError> {
    let text = format!("[grants]\n{grants}");
    let policy = Policy::from_toml(&text, "policy.toml", Path::new(HOME)).unwrap();
    let layout = Layout::resolve(&policy, host, Check::Modes).unwrap();
    ask(&Reach::new(&layout, host)).err()
}

fn open_name(host: &Table, grants: &str) -> Option<String> {
    match refusal(host, grants, |reach| reach.refuse_open_names())? {
        PlanError::OpenByAnotherName { other, .. } => Some(other.to_string_lossy().into_owned()),
        error => panic!("{error}"),
    }
}

fn executable_name(host: &Table, grants: &str) -> Option<String> {
    match refusal(host, grants, |reach| reach.refuse_executable_names())? {
        PlanError::ExecutableByAnotherName { other, .. } => {
            Some(other.to_string_lossy().into_owned())
        }
        error => panic!("{error}"),
    }
}

fn meeting_place(host: &Table, grants: &str) -> Option<String> {
    match refusal(host, grants, |reach| reach.refuse_open_meeting_places())? {
        PlanError::MeetingPlaceByAnotherName { other, .. } => {
            Some(other.to_string_lossy().into_owned())
        }
        error => panic!("{error}"),
    }
}

/// The policy has compared names; here are links and mounts.
#[test]
fn a_protected_path_has_no_open_name() {
    let host = Table::with_work()
        .link("/home/ada/link", "work")
        .link("/home/ada/deep", "work/a/b")
        .bind("/home/ada/work/a", "/home/ada/data/bound")
        .bind("/home/ada/work/a/b", "/home/ada/work/again");
    let with = |more: &str| format!("protect = ['work/a/b/file']\n{more}");
    for (grants, other) in [
        (
            "write = ['work/a', 'link']",
            Some("/home/ada/link/a/b/file"),
        ),
        ("write = ['work/a', 'deep:/x']", Some("/x/file")),
        (
            "write = ['work/a', 'data/bound']",
            Some("/home/ada/data/bound/b/file"),
        ),
        (
            "write = ['work/a', 'data']",
            Some("/home/ada/data/bound/b/file"),
        ),
        ("write = ['work']", Some("/home/ada/work/again/file")),
        ("write = ['work/a', 'work/again:/x']", Some("/x/file")),
        ("write = ['work/a']", None),
        ("write = ['work/a']\nread = ['link', 'data']", None),
    ] {
        assert_eq!(
            open_name(&host, &with(grants)).as_deref(),
            other,
            "{grants}"
        );
    }
    let both = "write = ['work/a', 'link']\nprotect = ['work/a/b/file', 'link/a/b/file']";
    let linked = Table::with_work().link("/home/ada/link", "work");
    assert_eq!(open_name(&linked, both), None);
    // Below a protected folder: at its own place it was asked for.
    let nested = "write = ['work', 'work/a/b']\nprotect = ['work/a']";
    assert_eq!(open_name(&Table::with_work(), nested), None);
    let elsewhere = "write = ['work/a', 'deep:/x']\nprotect = ['work/a/b']";
    assert_eq!(open_name(&host, elsewhere).as_deref(), Some("/x"));
    // A mount shows a part of what is protected.
    for (more, other) in [("data", "/home/ada/data/deep"), ("data/deep:/y", "/y")] {
        let part = Table::with_work().bind("/home/ada/work/a/b", "/home/ada/data/deep");
        let grants = format!("write = ['work', '{more}']\nprotect = ['work/a']");
        assert_eq!(open_name(&part, &grants).as_deref(), Some(other));
    }
}

#[test]
fn what_is_written_is_not_executed_by_another_name() {
    for (grants, other) in [
        (
            "read = ['work']\nwrite = ['work:/w']",
            Some("/home/ada/work"),
        ),
        (
            "read = ['work']\nwrite = ['work/a:/w']",
            Some("/home/ada/work/a"),
        ),
        ("read = ['work/a:/tools']\nwrite = ['work']", Some("/tools")),
        ("read = ['work']\nwrite = ['work:/w']\nexec = ['/w']", None),
        ("read = ['work']\nwrite = ['work/a']", None),
        ("read = ['work/a']\nwrite = ['work']", None),
        ("read = ['data']\nwrite = ['work:/w']", None),
    ] {
        assert_eq!(
            executable_name(&Table::with_work(), grants).as_deref(),
            other,
            "{grants}"
        );
    }
}

/// Nor by a bind mount, another mount of its file system, or a name that looks like one of palisade's own.
#[test]
fn what_is_written_is_not_executed_by_another_mount() {
    let told = Table::with_work().bind("/home/ada/work/a", "/home/ada/data/bound");
    let untold = Table::with_work().alias("/home/ada/data/bound", "/home/ada/work/a");
    let both = [told, untold];
    for (grants, other) in [
        (
            "read = ['data/bound']\nwrite = ['work/a']",
            "/home/ada/data/bound",
        ),
        ("read = ['data/bound/b:/r']\nwrite = ['work/a']", "/r"),
        ("read = ['data/bound:/r']\nwrite = ['work/a/b']", "/r/b"),
        (
            "read = ['work/a:/.palisade-a']\nwrite = ['work']",
            "/.palisade-a",
        ),
    ] {
        for host in &both {
            assert_eq!(
                executable_name(host, grants).as_deref(),
                Some(other),
                "{grants}"
            );
        }
    }
    // By what lies or is mounted below a grant.
    let [told, _] = &both;
    for (grants, other) in [
        ("read = ['data/bound:/r']\nwrite = ['work']", "/r"),
        ("read = ['data']\nwrite = ['work']", "/home/ada/data/bound"),
        ("read = ['work']\nwrite = ['data']", "/home/ada/work/a"),
    ] {
        assert_eq!(
            executable_name(told, grants).as_deref(),
            Some(other),
            "{grants}"
        );
    }
    for grants in [
        "read = ['data/bound']\nwrite = ['work/a']\nexec = ['work/a']",
        "read = ['data/bound:/home/ada/work/a']\nwrite = ['work']",
        "read = ['data/bound']\nwrite = ['data']",
    ] {
        assert_eq!(executable_name(told, grants), None, "{grants}");
    }
}

/// Within one mount a folder with a socket could be moved there.
#[test]
fn a_folder_for_sockets_has_no_second_name() {
    let host = Table::with_work().bind("/home/ada/work/a", "/home/ada/data/bound");
    for (grants, other) in [
        (
            "write = ['work/a:/a', 'work']\nipc = ['/a']",
            "/home/ada/work/a",
        ),
        (
            "write = ['work/a', 'data']\nipc = ['work/a/b']",
            "/home/ada/data/bound/b",
        ),
    ] {
        assert_eq!(
            meeting_place(&host, grants).as_deref(),
            Some(other),
            "{grants}"
        );
    }
    for grants in [
        "write = ['work']\nipc = ['work/a']",
        "write = ['work', 'work/a']\nipc = ['work/a']",
        "write = ['work/a:/a', 'work/a:/b']\nipc = ['/a', '/b']",
        "write = ['work/a:/a', 'work']\nipc = ['/a', 'work/a']",
        "write = ['work/a', 'work/a/b:/b']\nipc = ['work/a']",
    ] {
        assert_eq!(meeting_place(&host, grants), None, "{grants}");
    }
}
