//! What images and their programs have tried with other runtimes.

use super::fixture::{Bundle, User, is_root, users};
use serde_json::json;
use std::fs;

/// A link of the image's leads into the image, whatever it says (CVE-2021-30465 and its kind).
#[test]
fn a_mount_follows_no_link_out_of_the_image() {
    for user in users() {
        let mut bundle = Bundle::new(user, "ls -d /etc/palisade-attack /work/up/x; :");
        let rootfs = bundle.rootfs();
        std::os::unix::fs::symlink("/etc", rootfs.join("work/absolute")).unwrap();
        std::os::unix::fs::symlink("../../../../../../etc", rootfs.join("work/relative")).unwrap();
        fs::create_dir(rootfs.join("work/up")).unwrap();
        for name in [
            "/work/absolute/palisade-attack",
            "/work/relative/palisade-attack",
            "/work/up/../../../x",
        ] {
            bundle.mount(json!({ "destination": name, "type": "tmpfs", "source": "tmpfs" }));
        }
        let outcome = bundle.run();
        assert!(
            outcome.stdout.contains("/etc/palisade-attack"),
            "{user:?}: {outcome:?}"
        );
        assert!(!fs::exists("/etc/palisade-attack").unwrap());
        assert!(rootfs.join("etc/palisade-attack").exists());
    }
}

/// A working directory that is a descriptor of the runtime's (CVE-2024-21626).
#[test]
fn no_descriptor_leads_outside() {
    for user in users() {
        for number in 3..24 {
            let mut bundle = Bundle::new(
                user,
                "cat ../../../../etc/hostname ../../etc/hostname etc/hostname; pwd -P",
            );
            bundle.config["process"]["cwd"] = json!(format!("/proc/self/fd/{number}"));
            let outcome = bundle.run();
            let host = fs::read_to_string("/etc/hostname").unwrap_or_default();
            assert!(
                host.trim().is_empty() || !outcome.stdout.contains(host.trim()),
                "{user:?} {number}: {outcome:?}"
            );
        }
    }
}

#[test]
fn a_further_process_gets_no_descriptor_of_the_hosts() {
    for user in users() {
        let bundle = Bundle::new(user, "sleep 1000");
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        bundle.ask(&["start", &bundle.id]).succeeded();
        for number in 3..24 {
            let cwd = format!("/proc/self/fd/{number}");
            let outcome =
                bundle.ask(&["exec", "--cwd", &cwd, &bundle.id, "/bin/ls", "-A", "../.."]);
            assert_ne!(outcome.code, Some(0), "{user:?} {number}: {outcome:?}");
        }
    }
}

/// The runtime's program is not the container's to change (CVE-2019-5736).
#[test]
fn nothing_of_the_runtime_is_in_reach() {
    for user in users() {
        let script = "ls -l /proc/1/exe /proc/1/cwd /proc/1/root /proc/1/fd 2>&1; cat /proc/1/environ /proc/1/maps 2>&1; echo x > /proc/1/mem";
        let bundle = Bundle::new(user, script);
        let outcome = bundle.run();
        for denied in ["/proc/1/exe", "/proc/1/root", "/proc/1/maps"] {
            let line = outcome.stdout.lines().find(|line| line.contains(denied));
            let line = line.unwrap_or_default();
            assert!(
                line.contains("ermission denied"),
                "{user:?} {denied}: {outcome:?}"
            );
        }
    }
}

#[test]
fn init_is_not_the_containers_to_end() {
    for user in users() {
        let script = "for s in 9 19; do kill -$s 1; done; kill -0 1 && echo alive";
        let outcome = Bundle::new(user, script).run();
        assert_eq!(outcome.stdout, "alive\n", "{user:?}: {outcome:?}");
        assert_eq!(outcome.code, Some(0));
    }
}

#[test]
fn no_namespace_is_made_without_the_right() {
    for user in users() {
        let script = "unshare -U true; unshare -m true; mount -t tmpfs x /work; /usr/sbin/chroot /work true; :";
        let outcome = Bundle::new(user, script).run();
        assert_eq!(
            outcome.stderr.matches("ermission denied").count()
                + outcome.stderr.matches("not permitted").count()
                + outcome.stderr.matches("must be superuser").count(),
            4,
            "{user:?}: {outcome:?}"
        );
    }
}

/// Abstract sockets of the host are in reach of who shares its network (CVE-2020-15257).
#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn the_hosts_abstract_sockets_are_not_in_reach() {
    if !is_root() {
        return;
    }
    use std::os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    };
    let name = format!("palisade-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let script = format!(
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(chr(0) + \"{name}\"); print(\"connected\")'"
    );
    let mut bundle = Bundle::new(User::Root, &script);
    let namespaces = bundle.config["linux"]["namespaces"].as_array_mut().unwrap();
    namespaces.retain(|namespace| namespace["type"] != "network");
    let outcome = bundle.run();
    assert_eq!(outcome.stdout, "", "{outcome:?}");
    assert!(outcome.stderr.contains("not permitted"), "{outcome:?}");
}

/// Whoever gets at init gets no call that the container has not.
#[test]
fn init_is_filtered_and_has_one_capability() {
    for user in users() {
        let said = Bundle::new(
            user,
            "grep -E '^(Seccomp|NoNewPrivs|CapEff|CapBnd):' /proc/1/status",
        )
        .run()
        .succeeded();
        assert!(said.contains("Seccomp:\t2"), "{user:?}: {said}");
        assert!(said.contains("NoNewPrivs:\t1"), "{user:?}: {said}");
        assert_eq!(
            said.matches("0000000000000020").count(),
            2,
            "{user:?}: {said}"
        );
    }
}

/// A process that enters is seen in the container before it is confined (CVE-2016-9962). In a user namespace of its own a
/// container may have every capability over its processes.
#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn nobody_looks_into_a_process_that_enters() {
    if !is_root() {
        return;
    }
    let script = r#"
import os
while not os.path.exists("/work/stop"):
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or int(pid) <= 2 + int(os.getpid() > 2):
            continue
        try:
            before = open(f"/proc/{pid}/comm").read().strip()
            os.readlink(f"/proc/{pid}/root")
            after = open(f"/proc/{pid}/comm").read().strip()
            if before == after and before not in ("true", "python3"):
                open("/work/caught", "a").write(before + "\n")
        except OSError:
            pass
"#;
    let mut bundle = Bundle::new(User::Root, "");
    bundle.config["process"]["args"] = json!(["python3", "-c", script]);
    let mapping = json!([{ "containerID": 0, "hostID": 100000, "size": 65536 }]);
    bundle.config["linux"]["uidMappings"] = mapping.clone();
    bundle.config["linux"]["gidMappings"] = mapping;
    let set = json!(["CAP_SYS_PTRACE"]);
    bundle.config["process"]["capabilities"] =
        json!({ "bounding": set, "effective": set, "permitted": set });
    let namespaces = bundle.config["linux"]["namespaces"].as_array_mut().unwrap();
    namespaces.push(json!({ "type": "user" }));
    let work = bundle.rootfs().join("work");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&work, mode).unwrap();
    bundle.write();
    bundle.ask(&["create", &bundle.id]).succeeded();
    bundle.ask(&["start", &bundle.id]).succeeded();
    for _ in 0..20 {
        bundle.ask(&["exec", &bundle.id, "/bin/true"]).succeeded();
    }
    fs::write(work.join("stop"), "").unwrap();
    bundle.wait_until("stopped");
    let caught = fs::read_to_string(work.join("caught")).unwrap_or_default();
    assert_eq!(caught, "");
}

/// A group that somebody is in is not the container's to empty at its end.
#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn a_control_group_in_use_is_not_taken() {
    if !is_root() {
        return;
    }
    let stranger = Bundle::new(User::Root, "sleep 1000");
    stranger.write();
    stranger.ask(&["create", &stranger.id]).succeeded();
    stranger.ask(&["start", &stranger.id]).succeeded();
    for path in [format!("/{}", stranger.id), "/".into(), "/..".into()] {
        let mut bundle = Bundle::new(User::Root, "true");
        bundle.config["linux"]["cgroupsPath"] = json!(path);
        bundle.run().refused_with("is in use");
        bundle.ask(&["delete", "--force", &bundle.id]).succeeded();
    }
    assert_eq!(stranger.status(), "running");
}

/// A link for `/dev` led device nodes into a volume of the host's, in place of what was there.
#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn devices_are_made_by_no_link() {
    if !is_root() {
        return;
    }
    let mut bundle = Bundle::new(User::Root, "true");
    let volume = bundle.path().join("volume");
    fs::create_dir(&volume).unwrap();
    fs::write(volume.join("null"), "kept").unwrap();
    fs::create_dir(bundle.rootfs().join("volume")).unwrap();
    fs::remove_dir(bundle.rootfs().join("dev")).unwrap();
    std::os::unix::fs::symlink("volume", bundle.rootfs().join("dev")).unwrap();
    bundle.mount(json!({ "destination": "/volume", "source": volume, "options": ["bind"] }));
    bundle.run().refused_with("symbolic links");
    assert_eq!(fs::read_to_string(volume.join("null")).unwrap(), "kept");
    assert_eq!(fs::read_dir(&volume).unwrap().count(), 1);
}

/// A path to a namespace of the host's makes it nobody else's.
#[test]
fn the_hosts_namespaces_are_the_hosts_by_whatever_path() {
    for user in users() {
        let mut bundle = Bundle::new(user, "true");
        for namespace in bundle.config["linux"]["namespaces"].as_array_mut().unwrap() {
            if namespace["type"] == "uts" {
                namespace["path"] = json!("/proc/self/ns/uts");
            }
        }
        bundle
            .run()
            .refused_with("hostname without a uts namespace would be the host's");
    }
}
