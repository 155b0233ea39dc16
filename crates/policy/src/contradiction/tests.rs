use std::{path::Path, time::Duration};

use super::*;
use crate::{DeviceGrant, EnvGrant, FileGrant, Limits, Policy, PolicyError};

/// A policy of grants as flags write them, relative to `/p`.
fn policy(grants: &[(Access, &str)]) -> Policy {
    let parse = |(access, text): &(Access, &str)| FileGrant::parse(*access, text, Path::new("/p"));
    let mut policy = Policy::default();
    policy.grants.files = grants.iter().map(parse).collect::<Result<_, _>>().unwrap();
    policy
}

fn find_contradiction(policy: &Policy) -> Option<Contradiction> {
    super::find_contradiction(&policy.grants, &policy.limits)
}

fn found(grants: &[(Access, &str)]) -> Contradiction {
    find_contradiction(&policy(grants)).expect("a contradiction")
}

fn assert_fine(grants: &[(Access, &str)]) {
    assert_eq!(policy(grants).validate(), Ok(()), "{grants:?}");
}

use Access::{Exec, Ipc, Protect, Read, Write};

#[test]
fn variables_that_nobody_has_read_are_not_left_out() {
    let text = "grants.env-file = ['a.env']";
    let policy = Policy::from_toml(text, "f", Path::new("/srv")).unwrap();
    let refusal = policy.validate().unwrap_err().to_string();
    assert!(
        refusal.contains("`/srv/a.env` is not read here"),
        "{refusal}"
    );
}

#[test]
fn usual_policies_are_fine() {
    assert_eq!(Policy::default().validate(), Ok(()));
    assert_eq!(Policy::nothing().validate(), Ok(()));
    assert_fine(&[
        (Read, "."),
        (Write, "out"),
        (Protect, "out/.env"),
        (Exec, "out"),
    ]);
    assert_fine(&[
        (Write, "."),
        (Read, "src"),
        (Write, "src/gen"),
        (Protect, ".git/hooks"),
    ]);
    assert_fine(&[
        (Exec, "/tmp"),
        (Ipc, "/tmp/run"),
        (Ipc, "/dev/shm"),
        (Protect, "/tmp/x"),
    ]);
    assert_fine(&[(Read, "/a:/x"), (Read, "/a:/y"), (Read, "/tmp/project")]);
    assert_fine(&[(Read, "/a"), (Read, "/a")]);
}

#[test]
fn variables_of_a_hand_made_policy() {
    let mut policy = policy(&[]);
    policy.grants.env = vec![EnvGrant {
        name: "A=B".into(),
        value: Some("x".into()),
    }];
    insta::assert_snapshot!(policy.validate().unwrap_err(), @"the variable `A=B` cannot be granted: the name has an `=` in it");
    policy.grants.env[0].name = "A".into();
    assert_eq!(policy.validate(), Ok(()));
    policy.grants.env[0].value = Some("x\0".into());
    assert!(policy.validate().is_err());
}

#[test]
fn relative_paths_of_a_hand_made_policy() {
    let mut policy = policy(&[(Read, "/a")]);
    policy.grants.files[0].host = "a".into();
    insta::assert_snapshot!(policy.validate().unwrap_err(), @"the path `a` is not absolute and free of `..`: write it in full");
    policy.grants.files[0].host = "/a/../b".into();
    assert!(matches!(
        policy.validate(),
        Err(PolicyError::Contradiction(Contradiction::UncleanPath(_)))
    ));
    policy.grants.files.clear();
    policy.grants.devices = vec![DeviceGrant { path: "pts".into() }];
    assert_eq!(policy.validate(), Ok(()));
    policy.grants.cwd = Some("work".into());
    assert_eq!(
        find_contradiction(&policy),
        Some(Contradiction::UncleanPath("work".into()))
    );
}

#[test]
fn reserved_places() {
    for text in ["/a:/proc", "/a:/proc/sys", "/a:/dev", "/a:/dev/null"] {
        let found = found(&[(Read, text)]);
        assert!(
            matches!(found, Contradiction::ReservedGuest { .. }),
            "{text}: {found}"
        );
    }
    for text in [
        "/",
        "/:/",
        "/proc:/",
        "/dev:/",
        "/:/host",
        "/proc:/p",
        "/proc/1/root:/r",
        "/dev:/d",
        "/dev/sda:/disk",
    ] {
        let found = found(&[(Write, text)]);
        assert!(
            matches!(found, Contradiction::ReservedHost { .. }),
            "{text}: {found}"
        );
    }
    assert_fine(&[
        (Write, "/dev/shm/ring"),
        (Read, "/process"),
        (Read, "/devel"),
    ]);
    insta::assert_snapshot!(found(&[(Read, "/")]), @"the host's `/` cannot be granted: grant the folders that are needed, each by its path");
    insta::assert_snapshot!(found(&[(Write, "/dev/sda:/disk")]), @"the host's `/dev/sda` cannot be granted: grant a device node with --device");
}

#[test]
fn a_folder_can_be_the_root() {
    assert_fine(&[(Read, "/a:/")]);
    assert_fine(&[(Write, "/a:/"), (Read, "/b:/data"), (Protect, "/bin")]);
    assert_fine(&[(Write, "/a:/"), (Exec, "/"), (Ipc, "/run")]);
    // Its private folders are the guest's to write to in either case.
    assert_fine(&[(Read, "/a:/"), (Exec, "/tmp")]);
    let found = found(&[(Read, "/a:/"), (Exec, "/bin")]);
    assert!(
        matches!(found, Contradiction::NotWritable { .. }),
        "{found}"
    );
}

#[test]
fn one_guest_path_has_one_host_path() {
    insta::assert_snapshot!(found(&[(Read, "/a:/w"), (Read, "x"), (Write, "/b:/w")]), @"`/w` inside the domain is granted from two host paths, `/a` and `/b`: give one of them another guest path, as in `/b:/other`");
    insta::assert_snapshot!(found(&[(Read, "/a"), (Write, "/a")]), @"`/a` is granted both for reading and for writing: keep one");
}

#[test]
fn rules_need_a_writable_place() {
    insta::assert_snapshot!(found(&[(Read, "."), (Protect, ".git/hooks")]), @"protect `/p/.git/hooks` has no effect, for nothing at or above it is writable: drop it, or grant a folder above it with `--write /p/.git`");
    insta::assert_snapshot!(found(&[(Read, "."), (Exec, "bin")]), @"exec `/p/bin` has no effect, for nothing at or above it is writable: what is readable may be executed without it; drop it, or `--write /p/bin`");
    insta::assert_snapshot!(found(&[(Write, "a:/work"), (Protect, "a/.env")]), @"protect `/p/a/.env` has no effect, for nothing at or above it is writable: name it as the guest sees it, `--protect /work/.env`");
    let deeper_read = found(&[(Write, "."), (Read, "ro"), (Ipc, "ro/run")]);
    assert!(matches!(
        deeper_read,
        Contradiction::NotWritable { access: Ipc, .. }
    ));
    let host_tmp_read_only = found(&[(Read, "/tmp"), (Exec, "/tmp")]);
    assert!(matches!(
        host_tmp_read_only,
        Contradiction::NotWritable { access: Exec, .. }
    ));
    let neighbour = found(&[(Write, "/work"), (Ipc, "/workshop")]);
    assert!(matches!(
        neighbour,
        Contradiction::NotWritable { access: Ipc, .. }
    ));
}

#[test]
fn a_whole_grant_cannot_be_protected() {
    insta::assert_snapshot!(found(&[(Write, "."), (Protect, ".")]), @"`/p` is granted for writing and protected as a whole: grant it with read instead");
}

#[test]
fn protection_covers_every_name_of_a_path() {
    let twice = [(Write, "/h:/a"), (Write, "/h/x:/b"), (Protect, "/a/x/.env")];
    insta::assert_snapshot!(found(&twice), @"`/a/x/.env` is protected, but the guest can write the same path as `/b/.env`: protect that too");
    assert_fine(&[&twice[..], &[(Protect, "/b/.env")]].concat());
    assert_fine(&[&twice[..], &[(Read, "/h/x/.env:/b/.env")]].concat());
    assert_fine(&[(Write, "/h:/a"), (Read, "/h:/b"), (Protect, "/a/.env")]);
}

mod network;

#[test]
fn limits_have_a_least() {
    let with = |limits: Limits| {
        find_contradiction(&Policy {
            limits,
            ..Policy::default()
        })
    };
    let name_of = |found: Option<Contradiction>| match found {
        Some(Contradiction::LimitTooSmall { limit, .. }) => limit,
        other => panic!("{other:?}"),
    };
    let none = Limits::default;
    #[rustfmt::skip]
    let cases = [
        ("memory", Limits { memory_bytes: Some((1 << 20) - 1), ..none() }),
        ("processes", Limits { processes: Some(0), ..none() }),
        ("files", Limits { files: Some(7), ..none() }),
        ("file-size", Limits { file_size_bytes: Some(0), ..none() }),
        ("tmp-size", Limits { tmp_size_bytes: Some(0), ..none() }),
        ("time", Limits { time: Some(Duration::ZERO), ..none() }),
        ("cpu-time", Limits { cpu_time: Some(Duration::ZERO), ..none() }),
        ("output", Limits { output_bytes: Some(0), ..none() }),
    ];
    for (name, limits) in cases {
        assert_eq!(name_of(with(limits)), name);
    }
    for cores in [0.0, 0.009, -1.0, 4097.0, f64::NAN, f64::INFINITY] {
        let limits = Limits {
            cpu_cores: Some(cores),
            ..none()
        };
        assert!(
            matches!(with(limits), Some(Contradiction::Cores { .. })),
            "{cores}"
        );
    }
    let least = Limits {
        memory_bytes: Some(1 << 20),
        cpu_cores: Some(0.01),
        processes: Some(1),
        files: Some(8),
        ..none()
    };
    assert_eq!(with(least), None);
    let small = Limits {
        memory_bytes: Some(4096),
        ..none()
    };
    insta::assert_snapshot!(with(small).unwrap(), @"the limit memory = 4K is too small: the least that makes sense is 1M");
}
