use super::*;
use crate::network::{Endpoint, Transport};
use palisade_policy::{Access, Capability, FileGrant, Grants, Limits};
use std::{fs, time::Duration};

fn everything() -> Policy {
    let grant = |access, path: &str| FileGrant {
        access,
        host: path.into(),
        guest: None,
    };
    Policy {
        grants: Grants {
            files: vec![
                grant(Access::Read, "/tmp/lab"),
                grant(Access::Write, "/tmp/lab/open"),
                grant(Access::Protect, "/tmp/lab/open/.git"),
            ],
            env: vec![EnvGrant {
                name: "MODE".into(),
                value: Some("fast".into()),
            }],
            cwd: Some("/tmp/lab/open".into()),
            ..Grants::nothing()
        },
        limits: Limits {
            memory_bytes: Some(512 << 20),
            files: Some(64),
            time: Some(Duration::from_secs(600)),
            ..Limits::default()
        },
        allow_degraded: [Capability::Memory].into(),
        ..Policy::default()
    }
}

fn lay_out(subject: &dyn Subject, policy: &Policy, room: &Path) -> String {
    let command = Command {
        program: "/tmp/lab/true".into(),
        arguments: vec!["now".into()],
    };
    let line = subject
        .command_line(policy, &command, &Network::None, room)
        .unwrap();
    let line = line.join(" ".as_ref()).into_string().unwrap();
    line.replace(room.to_str().unwrap(), "ROOM")
}

fn network_line(subject: &dyn Subject, network: &Network) -> anyhow::Result<String> {
    let command = Command::new("/usr/sbin/server");
    let room = tempfile::tempdir().unwrap();
    let line = subject.command_line(&Policy::default(), &command, network, room.path())?;
    Ok(line.join(" ".as_ref()).into_string().unwrap())
}

fn endpoint(transport: Transport) -> Endpoint {
    Endpoint {
        transport,
        address: [127, 0, 0, 1].into(),
        port: 8080,
        namespace: Some("/proc/17/ns/net".into()),
    }
}

/// Each in its own words.
#[test]
fn a_network_is_one_port() {
    let [tcp, udp] = [Transport::Tcp, Transport::Udp].map(endpoint);
    let networks = [
        Network::Connects(tcp.clone()),
        Network::Listens(tcp),
        Network::Connects(udp.clone()),
        Network::Listens(udp),
    ];
    let palisade = Palisade::new("/bin/palisade".into());
    let (sandlock, bubblewrap) = (installed("sandlock"), installed("bubblewrap"));
    let expected = [
        (
            "--connect tcp://127.0.0.1:8080",
            "--net-allow 127.0.0.1:8080",
        ),
        ("--listen tcp://127.0.0.1:8080", "--net-allow-bind 8080"),
        (
            "--connect udp://127.0.0.1:8080",
            "--net-allow udp://127.0.0.1:8080",
        ),
        ("--listen udp://127.0.0.1:8080", "--net-allow udp://*:*"),
    ];
    for (network, (ours, theirs)) in networks.iter().zip(expected) {
        let line = |subject| network_line(subject, network).unwrap();
        assert_eq!(
            line(&palisade),
            format!("/bin/palisade run {ours} -- /usr/sbin/server")
        );
        let sandlock = line(&sandlock);
        assert!(sandlock.contains(&format!(" {theirs} ")), "{sandlock}");
        assert!(line(&bubblewrap).contains("--unshare-all --die-with-parent"));
        assert!(line(&bubblewrap).contains(" --share-net "));
    }
    assert!(!line(&bubblewrap, &Policy::default()).contains("--share-net"));
}

#[test]
fn a_container_s_network_is_a_namespace_that_the_lab_made() {
    let network = Network::Listens(endpoint(Transport::Tcp));
    let line = network_line(&installed("bridged"), &network);
    match rustix::process::geteuid().is_root() {
        true => assert_eq!(
            line.unwrap(),
            "nsenter --net=/proc/17/ns/net /usr/sbin/server"
        ),
        false => assert!(line.unwrap_err().to_string().starts_with("only root")),
    }
}

#[test]
fn networks_are_for_those_that_have_rules_for_them() {
    let network = Network::Listens(endpoint(Transport::Tcp));
    let takers = |network: &Network| {
        let command = Command::new("/bin/ls");
        let takers = PEERS
            .into_iter()
            .filter(|peer| peer.takes(&command, network));
        takers.map(|peer| peer.name).collect::<Vec<_>>()
    };
    assert_eq!(
        takers(&network),
        ["bubblewrap", "sandlock", "bridged", "pasta"]
    );
    let alone = takers(&Network::None);
    assert!(!alone.contains(&"bridged") && !alone.contains(&"pasta") && alone.contains(&"runc"));
}

fn line(subject: &dyn Subject, policy: &Policy) -> String {
    lay_out(subject, policy, tempfile::tempdir().unwrap().path())
}

fn installed(name: &str) -> InstalledPeer {
    let peer = peer(name).unwrap();
    InstalledPeer::new(peer, Path::new("/bin").join(peer.program))
}

#[test]
fn bare_is_the_command_itself() {
    assert_eq!(line(&Bare, &everything()), "/tmp/lab/true now");
}

#[test]
fn palisade_gets_the_policy_as_flags() {
    let palisade = Palisade::new("/bin/palisade".into());
    insta::assert_snapshot!(line(&palisade, &everything()), @"/bin/palisade run --no-system --read /tmp/lab --write /tmp/lab/open --protect /tmp/lab/open/.git --env MODE=fast --cwd /tmp/lab/open --memory 512M --files 64 --time 10m --allow-degraded memory -- /tmp/lab/true now");
    insta::assert_snapshot!(line(&palisade, &Policy::default()), @"/bin/palisade run -- /tmp/lab/true now");
}

/// A command of somebody's own may have a network too.
#[test]
fn granted_connections_are_flags() {
    let mut policy = Policy::default();
    let grants = &mut policy.grants;
    grants.connect = vec!["tcp://example.com:443".parse().unwrap()];
    grants.listen = vec!["udp://127.0.0.1:53,host-port=5353".parse().unwrap()];
    let palisade = Palisade::new("/bin/palisade".into());
    insta::assert_snapshot!(line(&palisade, &policy), @"/bin/palisade run --connect tcp://example.com:443 --listen udp://127.0.0.1:53,host-port=5353 -- /tmp/lab/true now");
    assert!(line(&installed("bubblewrap"), &policy).contains(" --share-net "));
}

#[test]
fn a_path_that_is_another_one_inside_is_shown_there() {
    let mut policy = Policy::default();
    policy.grants.files.push(FileGrant {
        access: Access::Read,
        host: "/srv/a:b".into(),
        guest: Some("/data".into()),
    });
    let palisade = Palisade::new("/bin/palisade".into());
    assert!(line(&palisade, &policy).contains(r"--read /srv/a\:b:/data"));
    assert!(line(&installed("bubblewrap"), &policy).contains("--ro-bind /srv/a:b /data"));
}

#[test]
fn bubblewrap_gets_the_grants_after_its_own_folders() {
    let bubblewrap = installed("bubblewrap");
    insta::assert_snapshot!(line(&bubblewrap, &everything()), @"/bin/bwrap --unshare-all --die-with-parent --new-session --cap-drop ALL --proc /proc --dev /dev --tmpfs /tmp --ro-bind /tmp/lab /tmp/lab --bind /tmp/lab/open /tmp/lab/open --chdir /tmp/lab/open -- /tmp/lab/true now");
    assert!(line(&bubblewrap, &Policy::default()).contains("--ro-bind /usr /usr"));
}

#[test]
fn firejail_hides_what_was_not_granted() {
    insta::assert_snapshot!(line(&installed("firejail"), &everything()), @"/bin/firejail --quiet --noprofile --deterministic-exit-code --deterministic-shutdown --net=none --ipc-namespace --noroot --caps.drop=all --nonewprivs --nogroups --seccomp --private-dev --private --blacklist=/boot --blacklist=/media --blacklist=/mnt --blacklist=/opt --blacklist=/srv --blacklist=/sys --blacklist=/var --whitelist=/tmp/lab --read-only=/tmp/lab --whitelist=/tmp/lab/open --read-write=/tmp/lab/open --rlimit-nofile=64 -- /tmp/lab/true now");
    let alone = line(&installed("firejail"), &Policy::default());
    assert!(alone.contains("--private --private-tmp"), "{alone}");
}

#[test]
fn sandlock_gets_the_grants_as_rules() {
    insta::assert_snapshot!(line(&installed("sandlock"), &everything()), @"/bin/sandlock run --fs-read /proc --fs-read /dev --fs-write /dev/null --fs-write /dev/zero --fs-read /tmp/lab --fs-read /tmp/lab/open --fs-write /tmp/lab/open --max-memory 512M --max-open-files 64 --timeout 600 --cwd /tmp/lab/open -- /tmp/lab/true now");
    assert!(line(&installed("sandlock"), &Policy::default()).contains("--fs-read /usr"));
}

/// A command line is for every process of the machine to read.
#[test]
fn no_command_line_of_a_peer_shows_a_value() {
    // Two are another of them in a network, which not every machine has.
    let in_networks = [&bridged::BRIDGED, &pasta::PASTA].map(|peer| peer.name);
    for peer in PEERS
        .into_iter()
        .filter(|peer| !in_networks.contains(&peer.name))
    {
        let room = tempfile::tempdir().unwrap();
        let text = lay_out(&installed(peer.name), &everything(), room.path());
        assert!(!text.contains("fast"), "{text}");
    }
}

#[test]
fn a_wasm_file_gets_folders() {
    let folder = tempfile::tempdir().unwrap();
    let mut policy = everything();
    policy.grants.files[0].host = folder.path().into();
    let text = line(&installed("wasmtime"), &policy);
    let text = text.replace(folder.path().to_str().unwrap(), "FOLDER");
    insta::assert_snapshot!(text, @"/bin/wasmtime run --dir FOLDER::FOLDER --env MODE -W max-memory-size=536870912 -W timeout=600s /tmp/lab/true now");
}

#[test]
fn wasm_files_are_for_engines_alone() {
    let takers = |program: &str| {
        let command = Command::new(program);
        let all = PEERS.into_iter();
        all.filter(move |peer| peer.takes(&command, &Network::None))
    };
    let engines: Vec<_> = takers("/w/filter.wasm").map(|peer| peer.name).collect();
    assert_eq!(engines, ["wasmtime", "node", "deno"]);
    let others: Vec<_> = takers("/bin/ls").collect();
    assert!(others.len() == 6 && others.iter().all(|peer| !peer.is_engine()));
}

#[test]
fn engines_in_javascript_get_a_script_and_what_it_is_told() {
    let mut policy = everything();
    let folder = tempfile::tempdir().unwrap();
    policy.grants.files[0].host = folder.path().into();
    let shown = |name: &str| {
        let text = line(&installed(name), &policy);
        text.replace(folder.path().to_str().unwrap(), "FOLDER")
    };
    insta::assert_snapshot!(shown("node"), @r#"/bin/node --no-warnings ROOM/wasi.mjs {"program":"/tmp/lab/true","arguments":["now"],"variables":["MODE"],"preopens":{"FOLDER":"FOLDER"}}"#);
    insta::assert_snapshot!(shown("deno"), @r#"/bin/deno run --allow-all --quiet ROOM/wasi.mjs {"program":"/tmp/lab/true","arguments":["now"],"variables":["MODE"],"preopens":{"FOLDER":"FOLDER"}}"#);
    policy.grants.env[0].value = None;
    let command = Command {
        program: "/w/a.wasm".into(),
        arguments: vec![std::os::unix::ffi::OsStringExt::from_vec(vec![0xff])],
    };
    let refused = installed("node").command_line(&policy, &command, &Network::None, folder.path());
    assert!(refused.unwrap_err().to_string().contains("is not text"));
}

#[test]
fn an_engine_finds_the_system_s_folders_open() {
    let text = line(&installed("wasmtime"), &Policy::default());
    assert!(
        text.contains("--dir /usr::/usr --dir /etc::/etc --dir /dev::/dev"),
        "{text}"
    );
}

/// The command line of a runtime, and what it says about the bundle.
#[test]
fn runtimes_get_a_bundle() {
    let mut policy = everything();
    policy.limits.memory_bytes = None;
    let room = tempfile::tempdir().unwrap();
    let words = lay_out(&installed("crun"), &policy, room.path());
    let (words, id) = words.rsplit_once(' ').unwrap();
    assert!(id.starts_with("palisade-lab-"));
    insta::assert_snapshot!(words, @"/bin/crun --root ROOM/state --cgroup-manager=disabled run --bundle ROOM/bundle");
    let text = fs::read_to_string(room.path().join("bundle/config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    for kind in ["uidMappings", "gidMappings"] {
        config["linux"][kind][0]["hostID"] = "ours".into();
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&config).unwrap());
    let killed = ["crun", "--root", "state", "run", "--bundle", "b", "id"].map(OsString::from);
    let end = installed("crun").line_to_end(&killed).unwrap();
    assert_eq!(end, ["crun", "--root", "state", "delete", "--force", "id"]);
    let other = lay_out(
        &installed("crun"),
        &policy,
        tempfile::tempdir().unwrap().path(),
    );
    assert!(!other.ends_with(id), "each line has an id of its own");
}

#[test]
fn the_links_of_a_bundle_are_those_of_the_host() {
    let room = tempfile::tempdir().unwrap();
    let words = lay_out(&installed("runc"), &Policy::default(), room.path());
    assert!(words.starts_with("/bin/runc --root ROOM/state run --bundle ROOM/bundle "));
    for folder in bubblewrap::BESIDE_USR {
        let inside = room.path().join("bundle/rootfs").join(&folder[1..]);
        assert_eq!(fs::read_link(folder).ok(), fs::read_link(inside).ok());
    }
}

#[test]
fn gvisor_brings_its_own_users_without_privilege() {
    let room = tempfile::tempdir().unwrap();
    lay_out(&installed("runsc"), &Policy::default(), room.path());
    let text = fs::read_to_string(room.path().join("bundle/config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let namespaces = config["linux"]["namespaces"].as_array().unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let has_users = namespaces.iter().any(|one| one["type"] == "user");
    assert_eq!(has_users, is_root);
    assert_eq!(config["linux"]["uidMappings"].is_array(), is_root);
}

#[test]
fn gvisor_is_told_to_have_no_network() {
    let words = line(&installed("runsc"), &Policy::default());
    assert!(
        words.starts_with("/bin/runsc --root ROOM/state --network=none"),
        "{words}"
    );
}

#[test]
fn peers_have_names_of_their_own() {
    assert!(
        PEERS
            .iter()
            .all(|one| peer(one.name).is_some_and(|found| found.name == one.name))
    );
    assert!(peer("docker").is_none());
    let (installed, absent) = find_peers(PEERS);
    assert_eq!(installed.len() + absent.len(), PEERS.len());
}

#[test]
fn a_version_is_a_name_and_a_number() {
    for (name, told, shown) in [
        ("nginx", "nginx version: nginx/1.22.1", "nginx 1.22.1"),
        (
            "redis-server",
            "Redis server v=7.0.15 sha=00000000:0 bits=64",
            "redis-server 7.0.15",
        ),
        (
            "ab",
            "This is ApacheBench, Version 2.3 <$Revision$>",
            "ab 2.3",
        ),
        (
            "bridged",
            "nftables v1.0.6 (Lester Gooch #5)",
            "bridged 1.0.6",
        ),
        (
            "sshd",
            "OpenSSH_9.2, OpenSSL 3.0.19 27 Jan 2026",
            "sshd 9.2",
        ),
        ("bubblewrap", "bubblewrap 0.8.0", "bubblewrap 0.8.0"),
        ("pasta", "pasta unknown version", "pasta"),
    ] {
        assert_eq!(named_version(name, told), shown);
    }
}
