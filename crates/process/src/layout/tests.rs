//! Rules of the layout, on a host that is a table.

use super::{arrange::is_open_to_all, *};
use crate::host::{
    Identity,
    table::{HOME, Table},
};
use crate::{
    plan_error::PlanError,
    steps::{Placeholder, Step},
    view::Check,
};
use palisade_policy::Policy;
use palisade_policy::PolicyLayer;

fn policy(grants: &str) -> Policy {
    let text = format!("[grants]\n{grants}");
    Policy::from_toml(&text, "policy.toml", Path::new(HOME)).unwrap()
}

fn layout_on(host: &Table, grants: &str) -> Layout {
    Layout::resolve(&policy(grants), host, Check::Contents).unwrap()
}

fn layout(grants: &str) -> Layout {
    layout_on(&Table::with_work(), grants)
}

fn arrange(grants: &str) -> Arrangement {
    layout(grants).arrange(&Table::with_work()).unwrap()
}

fn identity_of(path: &str) -> Identity {
    Table::with_work().find(Path::new(path)).unwrap().identity
}

/// Steps at or below a path of the domain, without the folders that lead there.
fn steps_below(arrangement: &Arrangement, path: &str) -> Vec<String> {
    let steps = arrangement.steps.iter().filter(|step| match step {
        Step::Mount { target, .. } | Step::Remount { target, .. } => target.starts_with(path),
        _ => false,
    });
    steps.map(ToString::to_string).collect()
}

#[test]
fn the_guest_finds_what_is_granted_under_its_own_name() {
    let layout = layout("read = ['work']");
    for shown in [
        "/home/ada/work",
        "/home/ada/work/a/b",
        "/usr/bin",
        "/bin/sh",
        "/etc/os-release",
    ] {
        assert!(layout.shows(Path::new(shown)), "{shown}");
    }
    for hidden in [
        "/home/ada",
        "/home/ada/data",
        "/etc/shadow",
        "/",
        "/home/ada/workshop",
    ] {
        assert!(!layout.shows(Path::new(hidden)), "{hidden}");
    }
}

#[test]
fn no_grant_reaches_a_proc_file_system() {
    let host = Table::with_work()
        .folder("/home/ada/data/x")
        .proc("/home/ada/data/proc");
    let refused = |grants: &str| refuse_proc(&policy(grants), &host).err();
    for grants in ["write = ['data']", "read = ['data/proc']", "read = ['.']"] {
        let error = refused(grants);
        assert!(
            matches!(error, Some(PlanError::HoldsProc { .. })),
            "{grants}"
        );
    }
    assert!(refused("write = ['work', 'data/x']").is_none());
}

#[test]
fn another_name_is_not_the_same_name() {
    let mapped = layout("read = ['work:/w']");
    assert!(!mapped.shows(Path::new("/home/ada/work")));
    let linked = Table::with_work().link("/home/ada/link", "work");
    assert!(layout_on(&linked, "read = ['link']").shows(Path::new("/home/ada/link/a")));
}

#[test]
fn what_is_above_a_grant_leads_to_it() {
    let layout = layout("read = ['work/a']");
    assert!(layout.leads_to_grant(Path::new("/home/ada/work")));
    assert!(layout.leads_to_grant(Path::new(HOME)));
    assert!(
        !layout.leads_to_grant(Path::new("/home/ada/work/a")),
        "the grant itself is shown"
    );
    assert!(!layout.leads_to_grant(Path::new("/home/ada/data")));
    assert!(
        !layout.leads_to_grant(Path::new("/etc")),
        "the system view is no grant"
    );
}

#[test]
fn only_what_is_granted_for_writing_can_be_written() {
    let layout = layout("read = ['work']\nwrite = ['work/a']\nprotect = ['work/a/b/c']");
    assert!(layout.can_write(Path::new("/home/ada/work/a/b/file")));
    assert!(layout.can_write(Path::new("/home/ada/work/a/absent")));
    for kept in [
        "/home/ada/work/other",
        "/home/ada/work/a/b/c",
        "/home/ada/work/a/b/c/deep",
        "/home/ada/data",
        "/usr/bin",
        "/dev/null",
    ] {
        assert!(!layout.can_write(Path::new(kept)), "{kept}");
    }
}

#[test]
fn another_name_is_a_way_to_write_too() {
    let mapped = layout("write = ['work:/w']");
    assert!(mapped.can_write(Path::new("/home/ada/work/a/b/file")));
    let twice = layout("read = ['work']\nwrite = ['work/a:/w']");
    assert!(
        twice.can_write(Path::new("/home/ada/work/a/b/file")),
        "read-only there, writable elsewhere"
    );
    let linked = Table::with_work().link("/home/ada/link", "work");
    assert!(layout_on(&linked, "write = ['link:/w']").can_write(Path::new("/home/ada/work/a")));
}

#[test]
fn devices_and_private_folders_are_not_the_host_s_disk() {
    assert!(!layout("").writes_to_host());
    assert!(!layout("device = ['/dev/fuse']").writes_to_host());
    assert!(!layout("read = ['work']").writes_to_host());
    assert!(layout("write = ['work/a/b/file']").writes_to_host());
}

#[test]
fn each_parent_of_a_nested_grant_is_pinned_once_and_before_it() {
    let arrangement = arrange("write = ['work']\nread = ['work/a/b/c', 'work/a/b/file']");
    assert_eq!(
        steps_below(&arrangement, HOME),
        [
            "mount     /home/ada/work (nosuid,nodev,noexec)",
            "pin       /home/ada/work/a",
            "pin       /home/ada/work/a/b",
            "mount     /home/ada/work/a/b/c (ro,nosuid,nodev)",
            "mount     /home/ada/work/a/b/file (ro,nosuid,nodev)",
        ]
    );
}

#[test]
fn nothing_is_pinned_where_nothing_can_be_renamed() {
    let arrangement = arrange("read = ['work']\nwrite = ['work/a/b/c']");
    let pins = steps_below(&arrangement, HOME)
        .into_iter()
        .filter(|step| step.starts_with("pin"));
    assert_eq!(pins.count(), 0);
}

#[test]
fn protected_paths_pin_their_parents() {
    let arrangement = arrange("write = ['work']\nprotect = ['work/a/b/file', 'work/a/x']");
    assert_eq!(
        steps_below(&arrangement, "/home/ada/work/a"),
        [
            "pin       /home/ada/work/a",
            "pin       /home/ada/work/a/b",
            "remount   /home/ada/work/a/b/file (+ro)",
            "remount   /home/ada/work/a/x (+ro)",
        ]
    );
    assert_eq!(
        arrangement.placeholders,
        [Placeholder {
            path: "/home/ada/work/a/x".into(),
            parent: identity_of("/home/ada/work/a"),
            folder: false,
            to_fill: false
        }]
    );
}

#[test]
fn the_first_missing_part_is_held() {
    let arrangement = arrange("write = ['work:/w']\nprotect = ['/w/a/new/deep/file']");
    assert_eq!(
        arrangement.placeholders,
        [Placeholder {
            path: "/home/ada/work/a/new".into(),
            parent: identity_of("/home/ada/work/a"),
            folder: true,
            to_fill: false
        }]
    );
    assert_eq!(
        steps_below(&arrangement, "/w/a"),
        ["pin       /w/a", "remount   /w/a/new (+ro)"]
    );
}

/// Somebody outside can take away what a mount stands on. That is noticed where the guest could do more
/// without the mount, and nowhere else.
#[test]
fn what_could_be_lost_is_guarded() {
    let guarded = |grants: &str| {
        let arrangement = arrange(grants);
        let watched = arrangement.steps.iter().filter_map(|step| match step {
            Step::Watch { target } => Some(target.clone()),
            _ => None,
        });
        let mut watched: Vec<_> = watched.collect();
        watched.sort();
        assert_eq!(watched, arrangement.guarded, "{grants}");
        let names = watched
            .iter()
            .map(|path| path.to_string_lossy().into_owned());
        names.collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(
        guarded("write = ['work']\nprotect = ['work/a/b/file', 'work/new']"),
        [
            "/home/ada/work/a",
            "/home/ada/work/a/b",
            "/home/ada/work/a/b/file",
            "/home/ada/work/new"
        ]
    );
    assert_eq!(
        guarded("write = ['work']\nread = ['work/a/b']"),
        ["/home/ada/work/a", "/home/ada/work/a/b"]
    );
    assert_eq!(
        guarded("write = ['work', 'work/a']\nexec = ['work']"),
        none,
        "as executable as what is around it"
    );
    for grants in [
        "read = ['work']\nwrite = ['work/a']",
        "write = ['work', 'work/a/b']",
        "write = ['work']\nexec = ['work/a/b']",
        "write = ['work:/tmp']",
    ] {
        assert_eq!(guarded(grants), none, "{grants}");
    }
}

/// What lies at a path is watched before a mount hides it.
#[test]
fn what_is_guarded_is_watched_before_it_is_mounted_on() {
    let arrangement = arrange("write = ['work']\nread = ['data:/home/ada/work/a/b']");
    let place = Path::new("/home/ada/work/a/b");
    let position = |is_it: fn(&Step, &Path) -> bool| {
        let mut steps = arrangement.steps.iter();
        steps.position(|step| is_it(step, place)).unwrap()
    };
    let watch = position(|step, place| matches!(step, Step::Watch { target } if target == place));
    let mount =
        position(|step, place| matches!(step, Step::Mount { target, .. } if target == place));
    assert_eq!(watch + 1, mount);
}

/// One placeholder holds all that is below it.
#[test]
fn two_protected_paths_below_one_missing_folder() {
    let arrangement =
        arrange("write = ['work']\nprotect = ['work/.git/hooks', 'work/.git/config']");
    let paths: Vec<_> = arrangement
        .placeholders
        .iter()
        .map(|held| held.path.as_path())
        .collect();
    assert_eq!(paths, [Path::new("/home/ada/work/.git")]);
    assert_eq!(
        steps_below(&arrangement, "/home/ada/work/.git"),
        ["remount   /home/ada/work/.git (+ro)"]
    );
    let arrangement = arrange("write = ['work']\nprotect = ['work/.git', 'work/.git/config']");
    assert_eq!(
        arrangement.placeholders,
        [Placeholder {
            path: "/home/ada/work/.git".into(),
            parent: identity_of("/home/ada/work"),
            folder: false,
            to_fill: false
        }]
    );
}

#[test]
fn writable_again_below_a_protected_path() {
    let arrangement = arrange("write = ['work', 'work/a/b/c']\nprotect = ['work/a']");
    assert_eq!(
        steps_below(&arrangement, "/home/ada/work/a"),
        [
            "remount   /home/ada/work/a (+ro)",
            "mount     /home/ada/work/a/b/c (nosuid,nodev,noexec)"
        ]
    );
}

#[test]
fn protected_in_a_private_folder() {
    let policy = policy("write = ['work']");
    let mut layout = Layout::resolve(&policy, &Table::with_work(), Check::Contents).unwrap();
    layout
        .mount_points
        .insert("/tmp/kept".into(), MountPoint::Protected);
    let arrangement = layout.arrange(&Table::with_work()).unwrap();
    assert_eq!(
        steps_below(&arrangement, "/tmp/kept"),
        ["remount   /tmp/kept (+ro)"]
    );
    assert!(
        arrangement.placeholders.is_empty(),
        "nothing of the host's disk"
    );
}

#[test]
fn execution_is_granted_below_a_path_and_nowhere_else() {
    let arrangement = arrange("write = ['work', 'data']\nexec = ['work/a/b']");
    assert_eq!(
        steps_below(&arrangement, HOME),
        [
            "mount     /home/ada/data (nosuid,nodev,noexec)",
            "mount     /home/ada/work (nosuid,nodev,noexec)",
            "pin       /home/ada/work/a",
            "remount   /home/ada/work/a/b (-noexec)",
        ]
    );
}

#[test]
fn a_folder_is_made_before_what_is_in_it() {
    for grants in [
        "read = ['work:/deep/in/the/domain', 'data:/deep/er']",
        "write = ['work']\nread = ['work/a/b/c']\nprotect = ['work/x/y']",
        "exec = ['/tmp/x/y']\ndevice = ['/dev/fuse', 'pts']",
    ] {
        let layout = layout(grants);
        let mut there: BTreeSet<PathBuf> = ["/".into()].into();
        for step in layout.arrange(&Table::with_work()).unwrap().steps {
            let (made, needs) = match &step {
                Step::MakeFolder { path, .. }
                | Step::MakeSymlink { path, .. }
                | Step::WriteFile { path, .. } => {
                    (Some(path.clone()), path.parent().unwrap().to_path_buf())
                }
                Step::Mount { target, .. } => (None, target.clone()),
                Step::Remount { target, .. } => (None, target.clone()),
                _ => continue,
            };
            let on_host = layout.host_path(&needs).is_some();
            assert!(
                on_host || there.contains(&needs),
                "{grants}: {step} needs {}",
                needs.display()
            );
            there.extend(made);
        }
    }
}

#[test]
fn a_device_is_not_a_file_grant() {
    let error = Layout::resolve(
        &policy("read = ['/dev/shm']"),
        &Table::with_work().folder("/dev/shm"),
        Check::Contents,
    );
    assert!(error.is_ok(), "a folder of the host's shared memory");
    let linked = Table::with_work().link("/home/ada/device", "/dev/null");
    let error =
        Layout::resolve(&policy("read = ['device']"), &linked, Check::Contents).unwrap_err();
    assert!(matches!(error, PlanError::IsADevice { .. }), "{error}");
}

#[test]
fn who_may_use_a_file_shows_in_its_mode() {
    let found = |kind, mode| Found {
        canonical: "/x".into(),
        kind,
        identity: Identity::default(),
        uid: 0,
        gid: 0,
        mode,
        size_bytes: 0,
    };
    for (kind, writable, mode, open) in [
        (Kind::File, false, 0o644, true),
        (Kind::File, false, 0o640, false),
        (Kind::File, true, 0o644, false),
        (Kind::File, true, 0o666, true),
        (Kind::Folder, false, 0o755, true),
        (Kind::Folder, false, 0o711, false),
        (Kind::Folder, true, 0o755, false),
        (Kind::Folder, true, 0o1777, true),
        (Kind::Socket, false, 0o622, false),
        (Kind::Device, true, 0o600, true),
    ] {
        assert_eq!(
            is_open_to_all(&found(kind, mode), writable),
            open,
            "{kind:?} {writable} {mode:o}"
        );
    }
}

#[test]
fn without_mounts_only_plain_grants_are_possible() {
    let paths = |grants: &str| -> Vec<_> {
        let open = layout(grants).without_mounts().unwrap();
        open.into_iter()
            .filter(|open| open.path.starts_with(HOME))
            .map(|open| (open.path, open.writable))
            .collect()
    };
    assert_eq!(
        paths("read = ['data']\nwrite = ['work']"),
        [
            ("/home/ada/data".into(), false),
            ("/home/ada/work".into(), true)
        ]
    );
    for grants in [
        "read = ['work']\nwrite = ['work/a']",
        "read = ['work:/w']",
        "write = ['work']\nread = ['work/a']",
        "write = ['work']\nprotect = ['work/a']",
    ] {
        let error = layout(grants).without_mounts().unwrap_err();
        assert!(
            matches!(error, PlanError::NeedsMounts { .. }),
            "{grants}: {error}"
        );
    }
}

#[test]
fn policies_in_layers_come_to_the_same_layout() {
    let file = PolicyLayer::from_toml("[grants]\nread = ['work']", "f", Path::new(HOME)).unwrap();
    let flags = PolicyLayer::from_toml("[grants]\nwrite = ['work']", "f", Path::new(HOME)).unwrap();
    let both = Policy::from_layers([file, flags]);
    let layout = Layout::resolve(&both, &Table::with_work(), Check::Contents).unwrap();
    assert!(layout.can_write(Path::new("/home/ada/work/a")));
}

#[test]
fn sockets_and_fifos_are_granted_like_files() {
    let host = Table::with_work().fifo("/home/ada/pipe");
    let arrangement = layout_on(&host, "write = ['pipe']").arrange(&host).unwrap();
    assert_eq!(
        steps_below(&arrangement, HOME),
        ["mount     /home/ada/pipe (nosuid,nodev,noexec)"]
    );
    let made = arrangement.steps.iter().any(
        |step| matches!(step, Step::WriteFile { path, .. } if path == Path::new("/home/ada/pipe")),
    );
    assert!(made, "something to mount on");
}

#[test]
fn programs_are_shown_wherever_the_host_keeps_them() {
    for host in [Table::merged_usr(), Table::split_usr()] {
        let layout = layout_on(&host, "");
        for program in ["/bin/sh", "/usr/bin/env", "/lib64/ld-linux-x86-64.so.2"] {
            assert!(layout.shows(Path::new(program)), "{program}");
        }
    }
}

#[test]
fn what_executing_takes_is_the_place_around() {
    let layout =
        layout("write = ['work']\nread = ['data']\nexec = ['/home/ada/work/bin', '/dev/shm']");
    let grant = |path: &str| layout.exec_grant(Path::new(path)).map(Path::to_path_buf);
    assert_eq!(grant("/home/ada/work/a/t"), Some("/home/ada/work".into()));
    assert_eq!(grant("/tmp/a/t"), Some("/tmp".into()));
    for other in [
        "/home/ada/work/bin/t",
        "/dev/shm/t",
        "/home/ada/data/t",
        "/usr/bin/t",
        "/t",
    ] {
        assert_eq!(grant(other), None, "{other}");
    }
    for executed in [
        "/usr/bin/true",
        "/bin/sh",
        "/home/ada/data/t",
        "/home/ada/work/bin/t",
    ] {
        assert!(layout.executes(Path::new(executed)), "{executed}");
    }
    for other in [
        "/tmp/t",
        "/home/ada/work/t",
        "/usr/bin/../../tmp/t",
        "/home/ada/t",
    ] {
        assert!(!layout.executes(Path::new(other)), "{other}");
    }
}
