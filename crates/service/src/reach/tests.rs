use super::*;
use palisade_policy::{DeviceGrant, EnvGrant};
use std::os::fd::AsRawFd;

fn toml(text: &str) -> Result<Reach, ReachError> {
    let policy = Policy::from_toml(text, "test", Path::new("/")).expect("a policy");
    Reach::of(&policy, Links::Followed)
}

fn refusal(text: &str) -> String {
    toml(text).expect_err("refused").to_string()
}

#[test]
fn nothing_is_granted_by_itself() {
    let reach = Reach::of(&Policy::default(), Links::Followed).unwrap();
    assert!(reach.folders.is_empty() && reach.variables.is_empty());
    assert!(reach.gate.network().is_empty());
    assert_eq!(reach.memory_bytes as u64, MEMORY_BYTES);
    assert_eq!((reach.time, reach.cpu_time), (None, CPU_TIME));
}

#[test]
fn folders_are_found_and_their_links_followed() {
    let outside = tempfile::tempdir().unwrap();
    let link = outside.path().join("link");
    let folder = outside.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    let reach = toml(&format!(
        "[grants]\nread = [\"{}:/site\"]\nwrite = [\"{}\"]\n",
        link.display(),
        outside.path().display(),
    ))
    .unwrap();
    assert_eq!(reach.folders[0].guest, "/site");
    let opened = reach.folders[0].descriptor.as_raw_fd();
    let opened = std::fs::read_link(format!("/proc/self/fd/{opened}"));
    assert_eq!(opened.unwrap(), std::fs::canonicalize(&folder).unwrap());
    assert!(matches!(reach.folders[0].permissions, FsPerms::ReadOnly));
    assert!(matches!(reach.folders[1].permissions, FsPerms::ReadWrite));
}

#[test]
fn the_kernels_own_file_systems_are_refused_under_any_name() {
    for folder in ["/proc", "/proc/self", "/sys", "/dev", "/"] {
        let text = refusal(&format!("[grants]\nread = [\"{folder}:/data\"]\n"));
        assert!(text.starts_with("policy: "), "{text}");
        assert!(text.contains("kernel's own"), "{folder}: {text}");
    }
}

#[test]
fn what_a_service_cannot_have_is_refused_with_advice() {
    let mut policy = Policy::nothing();
    policy.grants.devices.push(DeviceGrant {
        path: "/dev/fuse".into(),
    });
    assert!(
        Reach::of(&policy, Links::Followed)
            .unwrap_err()
            .to_string()
            .contains("devices")
    );
    for (text, words) in [
        ("[grants]\nconnect = [\"udp://127.0.0.1:53\"]", "udp"),
        ("[grants]\nconnect = [\"unix:/run/x\"]", "/run/x"),
        (
            "[grants]\nconnect = [\"tcp://*.example.com:443\"]",
            "example.com",
        ),
        ("[grants]\nlisten = [\"tcp://localhost:80\"]", "listen"),
        ("[grants]\nread = [\"/srv:/\"]", "as its root"),
        ("[limits]\nprocesses = 8", "processes"),
        ("[limits]\ncpu = 0.5", "cpu"),
        ("wall = \"process\"", "process wall"),
    ] {
        assert!(refusal(text).contains(words), "{text}: {}", refusal(text));
    }
}

#[test]
fn a_file_and_what_is_not_there_are_told_apart() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    assert!(refusal(&format!("[grants]\nread = [\"{path}\"]")).contains("no folder"));
    assert!(refusal("[grants]\nread = [\"/does/not/exist\"]").contains("/does/not/exist"));
}

#[test]
fn variables_are_those_granted_and_no_others() {
    let mut policy = Policy::nothing();
    let grant = |name: &str, value: Option<&str>| EnvGrant {
        name: name.into(),
        value: value.map(str::to_owned),
    };
    policy.grants.env = vec![
        grant("GREETING", Some("hello")),
        grant("PATH", None),
        grant("NOT_SET_ANYWHERE", None),
    ];
    let reach = Reach::of(&policy, Links::Followed).unwrap();
    let names: Vec<_> = reach
        .variables
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["GREETING", "PATH"]);
    assert_eq!(reach.variables[0].1, "hello");
}

#[test]
fn a_folder_that_a_link_leads_to_may_be_refused() {
    let above = tempfile::tempdir().unwrap();
    let above = above.path().canonicalize().unwrap();
    std::fs::create_dir_all(above.join("real/data")).unwrap();
    std::os::unix::fs::symlink("real", above.join("link")).unwrap();
    let reach = |folder: &str, links| {
        let folder = above.join(folder);
        let text = format!("[grants]\nread = ['{}:/data']", folder.display());
        let policy = Policy::from_toml(&text, "test", Path::new("/")).unwrap();
        Reach::of(&policy, links).map(drop)
    };
    for links in [Links::Followed, Links::Refused] {
        reach("real/data", links).unwrap();
    }
    reach("link/data", Links::Followed).unwrap();
    let refused = reach("link/data", Links::Refused);
    assert!(matches!(refused, Err(ReachError::ByLink { .. })));
}
