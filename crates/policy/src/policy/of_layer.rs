//! From a layer to a policy and back.

use super::Policy;
use crate::{Access, EnvGrant, FileGrant, Grants, PolicyLayer};

impl Policy {
    /// Fills what is unset from the default policy and drops what repeats itself.
    pub(super) fn of_layer(mut layer: PolicyLayer) -> Self {
        let default = Grants::default();
        layer.files.sort_by_key(|file| file.access);
        Self {
            wall: layer.wall,
            grants: Grants {
                files: without_repetition(without_weaker(layer.files)),
                env: last_of_each_name(layer.env),
                env_files: without_repetition(layer.env_files),
                devices: without_repetition(layer.devices),
                connect: without_repetition(layer.connect),
                listen: without_repetition(layer.listen),
                cwd: layer.cwd.or(default.cwd),
                system: layer.system.unwrap_or(default.system),
                guard: layer.guard.unwrap_or(default.guard),
                profiles: layer.profiles,
            },
            limits: layer.limits,
            allow_degraded: layer.allow_degraded,
        }
    }
}

/// The layer that says all that `policy` says.
impl From<Policy> for PolicyLayer {
    fn from(policy: Policy) -> Self {
        let Policy {
            wall,
            grants,
            limits,
            allow_degraded,
        } = policy;
        Self {
            wall,
            profiles: grants.profiles,
            system: Some(grants.system),
            guard: Some(grants.guard),
            cwd: grants.cwd,
            files: grants.files,
            env: grants.env,
            env_files: grants.env_files,
            devices: grants.devices,
            connect: grants.connect,
            listen: grants.listen,
            limits,
            allow_degraded,
        }
    }
}

fn without_repetition<T: PartialEq>(list: Vec<T>) -> Vec<T> {
    let mut kept: Vec<T> = Vec::with_capacity(list.len());
    for item in list {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// Drops each read grant of what is granted for writing at the same guest path, and each that may be missing of what
/// is granted without that.
fn without_weaker(files: Vec<FileGrant>) -> Vec<FileGrant> {
    let is_stronger = |one: &FileGrant, other: &FileGrant| match other.access {
        Access::Read => one.access == Access::Write,
        Access::ReadIfThere => matches!(one.access, Access::Read | Access::Write),
        _ => false,
    };
    let is_weaker = |file: &&FileGrant| {
        let same =
            |other: &&FileGrant| other.host == file.host && other.guest_path() == file.guest_path();
        let mut others = files.iter().filter(same);
        others.any(|other| is_stronger(other, file))
    };
    files
        .iter()
        .filter(|file| !is_weaker(file))
        .cloned()
        .collect()
}

/// Keeps the last grant of each name, at the place of the first.
fn last_of_each_name(env: Vec<EnvGrant>) -> Vec<EnvGrant> {
    let mut kept: Vec<EnvGrant> = Vec::with_capacity(env.len());
    for grant in env {
        match kept.iter_mut().find(|earlier| earlier.name == grant.name) {
            Some(earlier) => *earlier = grant,
            None => kept.push(grant),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Profile, WallKind};

    fn layer(text: &str) -> PolicyLayer {
        PolicyLayer::from_toml(text, "layer", Path::new("/p")).unwrap()
    }

    fn merged(file: &str, flags: &str) -> Policy {
        Policy::from_layers([layer(file), layer(flags)])
    }

    #[test]
    fn lists_add_up_and_repetitions_count_once() {
        let policy = merged(
            "profiles = ['java']\n[grants]\nread = ['a', 'b', 'a']\ndevice = ['pts']",
            "profiles = ['node']\n[grants]\nread = ['b', 'b:/c']\ndevice = ['pts', '/dev/fuse']",
        );
        let shown: Vec<_> = policy
            .grants
            .files
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, ["/p/a", "/p/b", "/p/b:/c"]);
        assert_eq!(
            policy.grants.profiles,
            [Profile::Java, Profile::Node].into()
        );
        assert_eq!(policy.grants.devices.len(), 2);
    }

    #[test]
    fn network_grants_add_up() {
        let policy = merged(
            "[grants]\nconnect = ['tcp://a.example:443', 'unix:x']\nlisten = ['inherited']",
            "[grants]\nconnect = ['tcp://A.example.:443']\nlisten = ['tcp://*:80', 'inherited']",
        );
        let connect: Vec<_> = policy
            .grants
            .connect
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(connect, ["tcp://a.example:443", "unix:/p/x"]);
        let listen: Vec<_> = policy
            .grants
            .listen
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(listen, ["inherited", "tcp://*:80"]);
    }

    #[test]
    fn a_single_value_comes_from_the_highest_layer_that_has_one() {
        let file = "wall = 'process'\ncwd = '/a'\n[limits]\nmemory = '1G'\ncpu = 1";
        let policy = merged(file, "cwd = '/b'\n[limits]\nmemory = '2G'");
        assert_eq!(policy.wall, Some(WallKind::Process));
        assert_eq!(policy.grants.cwd, Some("/b".into()));
        assert_eq!(policy.limits.memory_bytes, Some(2 << 30));
        assert_eq!(policy.limits.cpu_cores, Some(1.0));
    }

    #[test]
    fn the_system_view_stays_unless_someone_said_no() {
        let system = |file, flags| merged(file, flags).grants.system;
        assert!(system("", ""));
        assert!(!system("", "system = false"));
        assert!(!system("system = true", "system = false"));
        assert!(!system("system = false", ""));
        assert!(system("system = false", "system = true"));
    }

    #[test]
    fn the_guard_stays_unless_someone_said_no() {
        let guard = |file, flags| merged(file, flags).grants.guard;
        assert!(guard("", ""));
        assert!(!guard("", "guard = false"));
        assert!(!guard("guard = false", ""));
        assert!(guard("guard = false", "guard = true"));
    }

    #[test]
    fn what_may_be_missing_gives_way_to_what_may_not() {
        let policy = merged(
            "grants.read-if-there = ['a', 'b', 'c', 'd:/e']",
            "grants.read = ['a', 'd:/e']\ngrants.write = ['b']",
        );
        let files = policy.grants.files.iter();
        let shown: Vec<_> = files
            .map(|file| format!("{} {file}", file.access))
            .collect();
        let expected = [
            "read /p/a",
            "read /p/d:/e",
            "read-if-there /p/c",
            "write /p/b",
        ];
        assert_eq!(shown, expected);
        assert_eq!(policy.validate(), Ok(()));
    }

    #[test]
    fn the_last_value_of_a_variable_wins() {
        let policy = merged("grants.env = ['A=1', 'B', 'A=2']", "grants.env = ['B=3']");
        let shown: Vec<_> = policy.grants.env.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["A=2", "B=3"]);
    }

    #[test]
    fn read_and_write_of_one_path_is_write() {
        for (file, flags) in [("read", "write"), ("write", "read")] {
            let list = |access| format!("grants.{access} = ['a', 'b:/c']");
            let policy = merged(&list(file), &list(flags));
            let accesses: Vec<_> = policy.grants.files.iter().map(|file| file.access).collect();
            assert_eq!(accesses, [Access::Write, Access::Write]);
            assert_eq!(policy.validate(), Ok(()));
        }
    }

    #[test]
    fn a_policy_is_a_layer_too() {
        let policy = merged(
            "system = false\n[grants]\nwrite = ['a:/b']\nconnect = ['udp://[::1]:53']\nlisten = ['tcp://localhost:80']",
            "[limits]\ncpu = 2",
        );
        assert_eq!(Policy::from_layers([policy.clone().into()]), policy);
    }
}
