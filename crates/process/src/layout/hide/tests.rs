use super::*;
use crate::{
    host::table::Table,
    layout::{Arrangement, Place},
    view::Check,
};
use palisade_policy::{FileGrant, Grants};

const WORK: &str = "/home/ada/work";

fn host() -> Table {
    Table::with_work()
        .file("/home/ada/work/.env", "key")
        .file("/home/ada/work/a/b/k.pem", "key")
        .file("/home/ada/work/a/c.pem", "key")
        .link("/home/ada/work/link", "a")
}

/// `read /home/ada/work`, `hide .env`: each a line.
fn policy(lines: &[&str]) -> Policy {
    let files = lines.iter().map(|line| {
        let (access, path) = line.split_once(' ').unwrap();
        FileGrant::parse(access.parse().unwrap(), path, Path::new(WORK)).unwrap()
    });
    Policy {
        grants: Grants {
            files: files.collect(),
            ..Grants::nothing()
        },
        ..Policy::default()
    }
}

fn accepting(lines: &[&str]) -> Policy {
    let mut policy = policy(lines);
    policy.allow_degraded.insert(Capability::Hide);
    policy
}

fn layout_of(policy: &Policy, host: &Table) -> Result<Layout, PlanError> {
    Layout::resolve(policy, host, Check::Modes)
}

fn arranged(policy: &Policy, host: &Table) -> Result<Arrangement, PlanError> {
    layout_of(policy, host)?.arrange(host)
}

/// What hides, in words.
fn steps(policy: &Policy, host: &Table) -> Vec<String> {
    let arrangement = arranged(policy, host).unwrap();
    let hides = |step: &&Step| matches!(step, Step::Hide { .. } | Step::Cover { .. });
    let steps = arrangement.steps.iter().filter(hides);
    steps.map(ToString::to_string).collect()
}

fn refusal(policy: &Policy, host: &Table) -> String {
    match layout_of(policy, host) {
        Ok(layout) => {
            let reach = crate::reach::Reach::new(&layout, host);
            let arranged = layout.arrange(host).map(drop);
            let refused = arranged.and_then(|()| reach.refuse_second_names());
            refused.unwrap_err().to_string()
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn names_lie_over_what_is_read_and_something_empty_over_what_is_written() {
    let read = policy(&["read .", "hide .env", "hide a/b/k.pem", "hide no/such"]);
    let expected = ["hide      in /home/ada/work: .env, a/b/k.pem, no"];
    assert_eq!(steps(&read, &host()), expected);
    let written = policy(&["write .", "hide a"]);
    assert_eq!(steps(&written, &host()), ["cover     /home/ada/work/a"]);
    let nested = policy(&["read .", "write a", "hide .env", "hide a/b"]);
    let expected = [
        "hide      in /home/ada/work: .env, a/b",
        "cover     /home/ada/work/a/b",
    ];
    assert_eq!(steps(&nested, &host()), expected);
}

#[test]
fn the_folders_that_lead_to_a_name_keep_their_modes() {
    let host = host()
        .folder("/home/ada/work/closed")
        .with_mode("/home/ada/work/closed", 0o2710);
    let read = policy(&["read .", "hide closed/a/b"]);
    let arrangement = arranged(&read, &host).unwrap();
    let folders = arrangement.steps.iter().find_map(|step| match step {
        Step::Hide { folders, .. } => Some(folders.clone()),
        _ => None,
    });
    let expected = [("".into(), 0o755), ("closed".into(), 0o2710)];
    assert_eq!(folders.unwrap(), expected);
}

#[test]
fn what_is_hidden_is_not_there() {
    let layout = layout_of(&policy(&["read .", "hide a/b"]), &host()).unwrap();
    let at = |path: &str| Path::new(WORK).join(path);
    for path in ["a/b", "a/b/c", "a/b/new"] {
        assert!(layout.is_hidden(&at(path)), "{path}");
        assert_eq!(layout.place(&at(path)), Place::Hidden, "{path}");
        assert_eq!(layout.host_path(&at(path)), None, "{path}");
        assert_eq!(layout.hidden_on_host(&at(path)), Some(at(path)), "{path}");
        assert!(!layout.shows(&at(path)), "{path}");
    }
    assert!(!layout.is_hidden(&at("a")));
    assert!(layout.shows(&at("a/c.pem")));
}

#[test]
fn what_cannot_be_held_is_refused_or_accepted() {
    for (lines, why) in [
        (&["read .", "hide **/*.pem"][..], "a pattern"),
        (&["write .", "hide .env"], "is no folder itself"),
        (&["write .", "hide no/such"], "is no folder itself"),
    ] {
        let refused = refusal(&policy(lines), &host());
        assert!(refused.contains(why), "{why}: {refused}");
        assert!(refused.contains("--allow-degraded hide"), "{refused}");
        let layout = layout_of(&accepting(lines), &host()).unwrap();
        assert!(layout.hidden_counts().is_unheld, "{lines:?}");
    }
    let held = layout_of(&accepting(&["read .", "hide .env"]), &host()).unwrap();
    assert!(!held.hidden_counts().is_unheld);
}

#[test]
fn a_pattern_finds_what_is_there() {
    let read = accepting(&["read .", "hide **/*.pem"]);
    let expected = ["hide      in /home/ada/work: a/b/k.pem, a/c.pem"];
    assert_eq!(steps(&read, &host()), expected);
    let nothing = accepting(&["read .", "hide **/*.key"]);
    assert_eq!(steps(&nothing, &host()), [""; 0]);
    // A folder that is found goes with all that it holds.
    let folder = accepting(&["read .", "hide **/b", "hide **/*.pem"]);
    let expected = ["hide      in /home/ada/work: a/b, a/c.pem"];
    assert_eq!(steps(&folder, &host()), expected);
    // In each grant by its own.
    let other = accepting(&["read a:/other", "read .:/work", "hide /other/*.pem"]);
    assert!(refusal(&other, &host()).contains("sees the same as /work/a/c.pem"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (lines, why) in [
        (
            &["read a", "hide .env"][..],
            "lies in no folder that is granted",
        ),
        (&["hide /usr/bin/cc"], "lies in no folder that is granted"),
        (
            &["read .", "hide /tmp/x"],
            "lies in no folder that is granted",
        ),
        (&["read .", "hide link/c.pem"], "work/link is a symlink"),
        (&["read .", "hide link"], "work/link is a symlink"),
        (
            &["read .", "read .env:/x", "hide .env"],
            "sees the same as /x",
        ),
        (&["read .", "read a/b:/x", "hide a"], "sees the same as /x"),
        (&["read .", "read .:/x", "hide a"], "sees the same as /x/a"),
    ] {
        let refused = refusal(&policy(lines), &host());
        assert!(refused.contains(why), "{lines:?}: {refused}");
    }
    let found = accepting(&["read .", "write a/b", "hide **/a"]);
    assert!(refusal(&found, &host()).contains("a/b lies there"));
}

#[test]
fn other_mounts_of_the_hosts_are_looked_at() {
    let bound = host().bind("/home/ada/work/a", "/home/ada/data");
    let seen = policy(&["read .", "read ../data", "hide a"]);
    assert!(refusal(&seen, &bound).contains("sees the same as /home/ada/data"));
    let below = host()
        .folder("/home/ada/work/m")
        .bind("/home/ada/data", "/home/ada/work/m");
    let read = policy(&["read .", "hide .env"]);
    assert!(refusal(&read, &below).contains("at /home/ada/work/m"));
    let written = policy(&["write .", "hide a"]);
    assert_eq!(steps(&written, &below), ["cover     /home/ada/work/a"]);
}
