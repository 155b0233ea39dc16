use std::{
    ffi::OsStr,
    net::Ipv4Addr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::*;
use crate::{
    Access, Capability, ConnectGrant, DeviceGrant, EnvGrant, FileGrant, HostPattern, ListenAddress,
    ListenGrant, Policy, PolicyLayer, Ports, Profile, Transport, UnixGrant, WallKind,
};
use crate::{document::TomlProblem, setting::TABLES};

mod mutation;
mod reference;

const BASE: &str = "/srv/app";

const FULL: &str = r#"
wall = "process"
profiles = ["java", "node"]
system = false
guard = false
cwd = "/work"
allow-degraded = ["memory", "cpu-time"]

[grants]
read = ["src:/work", '/opt/a\:b']
read-if-there = ["extra:/extra"]
write = ["../out"]
exec = ["/tmp"]
ipc = ["/tmp/sockets"]
protect = ["../out/.env"]
env = ["LANG", "MODE=a=b \"c\"\t"]
env-file = ["secrets.env"]
device = ["/dev/fuse", "pts"]
connect = ["tcp://*.Example.com:443", "udp://[2001:db8::/32]:*", 'unix:run/a\:b:/c']
listen = ["tcp://*:8000-8099", "udp://127.0.0.1:0", "tcp://localhost:80,ready", "inherited"]

[limits]
memory = "512M"
cpu = 1.5
processes = 64
files = "1024"
file-size = 0x1000
tmp-size = "1.5G"
time = "1h30m"
cpu-time = 0.25
output = 1_000_000
"#;

fn read(text: &str) -> Result<PolicyLayer, TomlError> {
    PolicyLayer::from_toml(text, "policy.toml", Path::new(BASE))
}

fn message(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

fn file(access: Access, host: &str, guest: Option<&str>) -> FileGrant {
    FileGrant {
        access,
        host: host.into(),
        guest: guest.map(PathBuf::from),
    }
}

fn listen(transport: Transport, address: ListenAddress, ports: Ports) -> ListenGrant {
    ListenGrant::At {
        transport,
        address,
        ports,
        host_port: None,
        ready: false,
    }
}

#[test]
fn every_key_is_read() {
    let layer = read(FULL).unwrap();
    let expected = PolicyLayer {
        wall: Some(WallKind::Process),
        profiles: [Profile::Java, Profile::Node].into(),
        system: Some(false),
        guard: Some(false),
        cwd: Some("/work".into()),
        files: vec![
            file(Access::Read, "/srv/app/src", Some("/work")),
            file(Access::Read, "/opt/a:b", None),
            file(Access::ReadIfThere, "/srv/app/extra", Some("/extra")),
            file(Access::Write, "/srv/out", None),
            file(Access::Protect, "/srv/out/.env", None),
            file(Access::Exec, "/tmp", None),
            file(Access::Ipc, "/tmp/sockets", None),
        ],
        env: vec![
            EnvGrant {
                name: "LANG".into(),
                value: None,
            },
            EnvGrant {
                name: "MODE".into(),
                value: Some("a=b \"c\"\t".into()),
            },
        ],
        env_files: vec!["/srv/app/secrets.env".into()],
        devices: ["/dev/fuse", "pts"]
            .map(|path| DeviceGrant { path: path.into() })
            .into(),
        connect: vec![
            ConnectGrant::Internet {
                transport: Transport::Tcp,
                host: HostPattern::Wildcard("example.com".parse().unwrap()),
                ports: Ports::one(443),
            },
            ConnectGrant::Internet {
                transport: Transport::Udp,
                host: HostPattern::Network("2001:db8::/32".parse().unwrap()),
                ports: Ports::ANY,
            },
            ConnectGrant::Unix(UnixGrant {
                host: "/srv/app/run/a:b".into(),
                guest: Some("/c".into()),
            }),
        ],
        listen: vec![
            listen(
                Transport::Tcp,
                ListenAddress::Every,
                Ports::new(8000..=8099).unwrap(),
            ),
            listen(
                Transport::Udp,
                ListenAddress::Address {
                    address: Ipv4Addr::LOCALHOST.into(),
                    zone: None,
                },
                Ports::KERNEL_PICKS,
            ),
            ListenGrant::At {
                transport: Transport::Tcp,
                address: ListenAddress::Localhost,
                ports: Ports::one(80),
                host_port: None,
                ready: true,
            },
            ListenGrant::Inherited,
        ],
        limits: crate::Limits {
            memory_bytes: Some(512 << 20),
            cpu_cores: Some(1.5),
            processes: Some(64),
            files: Some(1024),
            file_size_bytes: Some(4096),
            tmp_size_bytes: Some(3 << 29),
            time: Some(Duration::from_secs(5400)),
            cpu_time: Some(Duration::from_millis(250)),
            output_bytes: Some(1_000_000),
        },
        allow_degraded: [Capability::Memory, Capability::CpuTime].into(),
    };
    assert_eq!(layer, expected);
}

#[test]
fn an_empty_file_says_nothing() {
    assert_eq!(read(""), Ok(PolicyLayer::default()));
    assert_eq!(read("[grants]\n[limits]\n"), Ok(PolicyLayer::default()));
    let policy = Policy::from_toml("", "policy.toml", Path::new(BASE)).unwrap();
    assert_eq!(policy, Policy::default());
}

#[test]
fn every_listed_key_is_known() {
    for table in TABLES {
        let name = match table.name {
            "" => "".to_owned(),
            name => format!("{name}."),
        };
        for key in table.keys() {
            let error = read(&format!("{name}{key} = 1979-05-27")).unwrap_err();
            let known = matches!(error.problem(), TomlProblem::WrongType { .. });
            assert!(known, "{name}{key}: {error}");
        }
    }
}

#[test]
fn unknown_keys_are_shown_with_their_line() {
    insta::assert_snapshot!(message("system = true\n\n[limits]\ncpu = 2\nmemroy = '512M'\n"), @r"
    unknown key `memroy` in [limits]
     --> policy.toml:5:1
      |
    5 | memroy = '512M'
      | ^^^^^^
      |
      = help: did you mean `memory`? (known: memory, cpu, processes, files, file-size, tmp-size, time, cpu-time, output)
    ");
    insta::assert_snapshot!(message("[grant]\nread = []"), @r"
    unknown key `grant` at the top, before any table
     --> policy.toml:1:2
      |
    1 | [grant]
      |  ^^^^^
      |
      = help: did you mean `grants`? (known: wall, profiles, system, guard, cwd, allow-degraded, grants, limits)
    ");
    insta::assert_snapshot!(message("memory = '1G'"), @r"
    unknown key `memory` at the top, before any table
     --> policy.toml:1:1
      |
    1 | memory = '1G'
      | ^^^^^^
      |
      = help: `memory` belongs in [limits]
    ");
    insta::assert_snapshot!(message("[limits]\nfile_size = 1"), @r"
    unknown key `file_size` in [limits]
     --> policy.toml:2:1
      |
    2 | file_size = 1
      | ^^^^^^^^^
      |
      = help: did you mean `file-size`? (known: memory, cpu, processes, files, file-size, tmp-size, time, cpu-time, output)
    ");
    insta::assert_snapshot!(message("[grants]\n\"🦀\\n\" = 1"), @r#"
    unknown key `🦀\n` in [grants]
     --> policy.toml:2:1
      |
    2 | "🦀\n" = 1
      | ^^^^^^
      |
      = help: known: read, read-if-there, write, protect, hide, exec, ipc, env, env-file, device, connect, listen
    "#);
}

#[test]
fn wrong_values_are_shown_with_their_line() {
    insta::assert_snapshot!(message("[limits]\ntime = '12 parsecs'"), @r"
    `12 parsecs` is not a valid length of time
     --> policy.toml:2:8
      |
    2 | time = '12 parsecs'
      |        ^^^^^^^^^^^^ the unit `parsecs` is not known
      |
      = help: accepted is a number of seconds, or numbers with d, h, m, s and ms, the longest first, as in `1h30m`
    ");
    insta::assert_snapshot!(message("[limits]\nmemory = 0"), @r"
    `0` is not a valid size
     --> policy.toml:2:10
      |
    2 | memory = 0
      |          ^ it comes to zero (leave it out for no limit)
      |
      = help: accepted is a whole number of bytes, or a number with K, M, G or T (powers of 1024, as are KiB, MiB, GiB and TiB) or with KB, MB, GB or TB (powers of 1000), as in `512M`
    ");
    insta::assert_snapshot!(message("[grants]\nread = [\n  '/a',\n  '/b/../c',\n]"), @r"
    `/b/../c` is not a valid read grant
     --> policy.toml:4:3
      |
    4 |   '/b/../c',
      |   ^^^^^^^^^ `..` may stand only at the start of a relative path
      |
      = help: accepted is PATH or PATH:GUEST, where GUEST is absolute and `\:` is a colon within a name, as in `./src:/work`
    ");
    insta::assert_snapshot!(message("profiles = ['jave']"), @r"
    `jave` is not a valid profile
     --> policy.toml:1:13
      |
    1 | profiles = ['jave']
      |             ^^^^^^ there is no such name
      |
      = help: did you mean `java`? (known: java, python, node, rust, go, maven, git, chromium, palisade)
    ");
    insta::assert_snapshot!(message("[limits]\nprocesses = 1.5"), @r"
    `1.5` is not a valid count
     --> policy.toml:2:13
      |
    2 | processes = 1.5
      |             ^^^ it is not a whole number
      |
      = help: accepted is a whole number of at least 1, as in `64`
    ");
}

#[test]
fn wrong_types_are_shown_with_their_line() {
    insta::assert_snapshot!(message("system = 'yes'"), @r"
    `system` must be true or false, not a string
     --> policy.toml:1:10
      |
    1 | system = 'yes'
      |          ^^^^^
    ");
    insta::assert_snapshot!(message("[grants]\nread = '/a'"), @r"
    `read` must be a list of strings, not a string
     --> policy.toml:2:8
      |
    2 | read = '/a'
      |        ^^^^
    ");
    insta::assert_snapshot!(message("[grants]\nread = ['/a', 1]"), @r"
    each entry of `read` must be a string, not a number
     --> policy.toml:2:15
      |
    2 | read = ['/a', 1]
      |               ^
    ");
    insta::assert_snapshot!(message("[[limits]]\nmemory = 1"), @r"
    `limits` must be a table, not a list
     --> policy.toml:1:1
      |
    1 | [[limits]]
      | ^^^^^^^^^^
    ");
}

#[test]
fn what_is_not_toml_is_shown_with_its_line() {
    insta::assert_snapshot!(message("cwd = '/a'\ncwd = '/b'"), @r"
    the policy is not valid TOML: duplicate key
     --> policy.toml:2:1
      |
    2 | cwd = '/b'
      | ^^^
    ");
    insta::assert_snapshot!(message("[limits\nmemory = 1"), @r"
    the policy is not valid TOML: unclosed table, expected `]`
     --> policy.toml:1:8
      |
    1 | [limits
      |        ^
    ");
    insta::assert_snapshot!(message("cwd = "), @r"
    the policy is not valid TOML: string values must be quoted, expected literal string
     --> policy.toml:1:7
      |
    1 | cwd = 
      |       ^
    ");
}

#[test]
fn the_first_error_of_the_text_is_told() {
    let error = read("zzz = 1\naaa = 1").unwrap_err();
    assert_eq!(error.span(), 0..3);
}

#[test]
fn a_hostile_file_does_not_reach_the_terminal() {
    let error = read("cwd = \"a\\u001b[2J\\u0000\" # \u{202e}").unwrap_err();
    let name = PolicyLayer::from_toml("x = 1", "\x1b[31mred", Path::new(BASE)).unwrap_err();
    for shown in [error.to_string(), name.to_string()] {
        assert!(!shown.contains(['\x1b', '\0', '\u{202e}']), "{shown:?}");
    }
}

#[test]
fn what_is_written_reads_back() {
    for text in [
        "",
        FULL,
        "system = true",
        "[limits]\ntime = 0.000000001\ncpu = 0.1",
    ] {
        let layer = read(text).unwrap();
        let written = layer.to_toml().unwrap();
        // Written paths are absolute: the folder has no say any more.
        let again = PolicyLayer::from_toml(&written, "written", Path::new("/elsewhere"));
        assert_eq!(again.as_ref(), Ok(&layer), "{written}");
    }
    for policy in [Policy::default(), Policy::nothing()] {
        let written = policy.to_toml().unwrap();
        let again = Policy::from_toml(&written, "written", Path::new("/"));
        assert_eq!(again, Ok(policy));
    }
}

#[test]
fn a_policy_is_written_in_the_order_of_the_reference() {
    insta::assert_snapshot!(read(FULL).unwrap().to_toml().unwrap(), @r#"
    wall = "process"
    profiles = ["java", "node"]
    system = false
    guard = false
    cwd = "/work"
    allow-degraded = ["memory", "cpu-time"]

    [grants]
    read = ["/srv/app/src:/work", "/opt/a\\:b"]
    read-if-there = ["/srv/app/extra:/extra"]
    write = ["/srv/out"]
    protect = ["/srv/out/.env"]
    exec = ["/tmp"]
    ipc = ["/tmp/sockets"]
    env = ["LANG", "MODE=a=b \"c\"\u0009"]
    env-file = ["/srv/app/secrets.env"]
    device = ["/dev/fuse", "pts"]
    connect = ["tcp://*.example.com:443", "udp://[2001:db8::/32]:*", "unix:/srv/app/run/a\\:b:/c"]
    listen = ["tcp://*:8000-8099", "udp://127.0.0.1:0", "tcp://localhost:80,ready", "inherited"]

    [limits]
    memory = "512M"
    cpu = 1.5
    processes = 64
    files = "1024"
    file-size = "4K"
    tmp-size = "1536M"
    time = "1h30m"
    cpu-time = "250ms"
    output = "1000000"
    "#);
}

#[test]
fn awkward_paths_are_written_and_read_back() {
    for name in [
        "a:b",
        "a\\b",
        "a\\:b",
        "\"q\"",
        "new\nline",
        "tab\t\u{7f}",
        "grüße 🦀",
        "a#b",
    ] {
        let layer = PolicyLayer {
            files: vec![FileGrant {
                access: Access::Write,
                host: Path::new("/x").join(name),
                guest: Some(Path::new("/y").join(name)),
            }],
            cwd: Some(Path::new("/y").join(name)),
            ..PolicyLayer::default()
        };
        assert_eq!(read(&layer.to_toml().unwrap()), Ok(layer), "{name:?}");
    }
}

#[test]
fn a_path_that_is_not_unicode_cannot_be_written() {
    let path = PathBuf::from(OsStr::from_bytes(b"/a\xff"));
    let socket = UnixGrant {
        host: path.clone(),
        guest: None,
    };
    let connecting = PolicyLayer {
        connect: vec![ConnectGrant::Unix(socket)],
        ..PolicyLayer::default()
    };
    assert!(connecting.to_toml().is_err());
    let policy = PolicyLayer {
        cwd: Some(path.clone()),
        ..PolicyLayer::default()
    };
    let error = policy.to_toml().unwrap_err();
    insta::assert_snapshot!(error, @"`/a�` is not UTF-8, which a policy file must be: pass this path as a flag");
    assert_eq!(error, NotUnicode { path });
}
