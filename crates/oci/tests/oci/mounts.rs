//! What a container sees of files.

use super::fixture::{Bundle, User, is_root, users};
use serde_json::json;
use std::fs;

#[test]
fn mounts_have_what_their_options_say() {
    for user in users() {
        let mut bundle = Bundle::new(
            user,
            "cat /given/file; echo more > /given/file; touch /usr/x; mount | grep -E ' on /(memory|given) '",
        );
        let given = bundle.path().join("given");
        fs::create_dir(&given).unwrap();
        fs::write(given.join("file"), "given\n").unwrap();
        bundle
            .mount(json!({ "destination": "/given", "source": given, "options": ["bind", "ro", "nosuid"] }))
            .mount(json!({
                "destination": "/memory", "type": "tmpfs", "source": "tmpfs",
                "options": ["nodev", "noexec", "size=1m"],
            }));
        let outcome = bundle.run();
        assert!(
            outcome.stdout.starts_with("given\n"),
            "{user:?}: {outcome:?}"
        );
        assert!(outcome.stdout.contains("ro,nosuid"), "{outcome:?}");
        assert!(outcome.stdout.contains("nodev,noexec"), "{outcome:?}");
        assert!(outcome.stdout.contains("size=1024k"), "{outcome:?}");
        assert_eq!(
            outcome.stderr.matches("Read-only file system").count(),
            2,
            "{outcome:?}"
        );
        assert_eq!(fs::read_to_string(given.join("file")).unwrap(), "given\n");
    }
}

/// `/etc/resolv.conf` of many images is a link to where a service would write it. All of it stays in the image.
#[test]
fn a_link_to_nothing_is_mounted_at_its_end() {
    for user in users() {
        let mut bundle = Bundle::new(user, "cat /etc/resolv.conf /run/lower/given /run/far");
        let given = bundle.path().join("given");
        fs::write(&given, "given\n").unwrap();
        let links = [
            ("etc/resolv.conf", "../run/upper/stub.conf"),
            ("run/lower", "/../../run/deep/./folder"),
            ("run/far", "chain"),
            ("run/chain", "../../../../run/end"),
        ];
        for (link, target) in links {
            std::os::unix::fs::symlink(target, bundle.rootfs().join(link)).unwrap();
        }
        for place in ["/etc/resolv.conf", "/run/lower/given", "/run/far"] {
            bundle.mount(json!({ "destination": place, "source": given, "options": ["bind"] }));
        }
        let outcome = bundle.run();
        assert_eq!(
            outcome.stdout, "given\ngiven\ngiven\n",
            "{user:?}: {outcome:?}"
        );
        for place in ["upper/stub.conf", "deep/folder/given", "end"] {
            assert!(bundle.rootfs().join("run").join(place).exists(), "{place}");
        }
    }
}

#[test]
fn a_link_to_itself_is_refused() {
    for user in users() {
        let mut bundle = Bundle::new(user, "true");
        std::os::unix::fs::symlink("itself", bundle.rootfs().join("run/itself")).unwrap();
        bundle.mount(json!({ "destination": "/run/itself", "type": "tmpfs", "source": "tmpfs" }));
        bundle.run().refused_with("/run/itself");
    }
}

#[test]
fn a_root_can_be_read_only() {
    for user in users() {
        let mut bundle = Bundle::new(user, "touch /x; echo in > /memory/x && cat /memory/x");
        bundle.config["root"]["readonly"] = json!(true);
        bundle.mount(json!({ "destination": "/memory", "type": "tmpfs", "source": "tmpfs" }));
        let outcome = bundle.run();
        assert_eq!(outcome.stdout, "in\n", "{user:?}: {outcome:?}");
        assert!(
            outcome.stderr.contains("Read-only file system"),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_file_system_in_memory_can_begin_with_the_images_files() {
    for user in users() {
        let mut bundle = Bundle::new(
            user,
            "cd /filled; ls -R; cat below/file; readlink link; stat -c %a below",
        );
        let filled = bundle.rootfs().join("filled");
        fs::create_dir_all(filled.join("below")).unwrap();
        fs::write(filled.join("below/file"), "of the image\n").unwrap();
        std::os::unix::fs::symlink("/elsewhere", filled.join("link")).unwrap();
        bundle.mount(json!({
            "destination": "/filled", "type": "tmpfs", "source": "tmpfs", "options": ["tmpcopyup"],
        }));
        let said = bundle.run().succeeded();
        assert_eq!(
            said, ".:\nbelow\nlink\n\n./below:\nfile\nof the image\n/elsewhere\n755\n",
            "{user:?}"
        );
    }
}

#[test]
fn what_is_masked_is_empty_and_what_is_read_only_stays() {
    for user in users() {
        let mut bundle = Bundle::new(
            user,
            "cat /work/secret; ls /work/folder; echo x > /work/kept; cat /work/kept",
        );
        let work = bundle.rootfs().join("work");
        fs::write(work.join("secret"), "secret").unwrap();
        fs::write(work.join("kept"), "kept\n").unwrap();
        fs::create_dir(work.join("folder")).unwrap();
        fs::write(work.join("folder/secret"), "secret").unwrap();
        bundle.config["linux"]["maskedPaths"] = json!(["/work/secret", "/work/folder", "/nosuch"]);
        bundle.config["linux"]["readonlyPaths"] = json!(["/work/kept", "/nosuch"]);
        let outcome = bundle.run();
        assert_eq!(outcome.stdout, "kept\n", "{user:?}: {outcome:?}");
        assert!(
            outcome.stderr.contains("Read-only file system"),
            "{outcome:?}"
        );
    }
}

#[test]
fn every_container_has_its_devices() {
    for user in users() {
        let bundle = Bundle::new(
            user,
            "for d in null zero full random urandom tty; do test -c /dev/$d || echo no $d; done; readlink /dev/ptmx /dev/fd; echo x > /dev/null; head -c 1 /dev/zero | wc -c",
        );
        assert_eq!(
            bundle.run().succeeded(),
            "pts/ptmx\n/proc/self/fd\n1\n",
            "{user:?}"
        );
    }
}

#[test]
fn a_root_can_hand_its_mounts_on() {
    for user in users() {
        for (word, shown) in [("shared", true), ("slave", false), ("private", false)] {
            let mut bundle = Bundle::new(
                user,
                "grep ' / / ' /proc/self/mountinfo || head -n 1 /proc/self/mountinfo",
            );
            bundle.config["linux"]["rootfsPropagation"] = json!(word);
            let said = bundle.run().succeeded();
            assert_eq!(said.contains("shared:"), shown, "{user:?} {word}: {said}");
        }
    }
}

/// A bundle of root's whose root is user 100000 of the host, and a folder of the host's root in it.
fn mapped(script: &str, mount: &serde_json::Value) -> Bundle {
    let mut bundle = Bundle::new(User::Root, script);
    let given = bundle.path().join("given");
    fs::create_dir(&given).unwrap();
    fs::write(given.join("before"), "").unwrap();
    let mapping = json!([{ "containerID": 0, "hostID": 100000, "size": 65536 }]);
    let linux = &mut bundle.config["linux"];
    linux["uidMappings"] = mapping.clone();
    linux["gidMappings"] = mapping;
    let namespaces = linux["namespaces"].as_array_mut().unwrap();
    namespaces.push(json!({ "type": "user" }));
    let mut whole = json!({ "destination": "/work", "source": given });
    let fields = mount.as_object().unwrap().clone();
    whole.as_object_mut().unwrap().extend(fields);
    bundle.mount(whole);
    bundle
}

/// As engines have it for volumes of pods with users of their own.
#[test]
fn files_can_be_shown_as_those_of_the_containers_users() {
    use std::os::unix::fs::MetadataExt;
    if !is_root() {
        return;
    }
    let mapping = json!([{ "containerID": 0, "hostID": 100000, "size": 65536 }]);
    for mount in [
        json!({ "options": ["bind", "idmap"] }),
        json!({ "options": ["rbind", "ridmap", "rslave"] }),
        json!({ "options": ["rbind"], "uidMappings": mapping, "gidMappings": mapping }),
    ] {
        let bundle = mapped(
            "echo made > /work/after; stat -c %u:%g /work/before /work/after",
            &mount,
        );
        assert_eq!(bundle.run().succeeded(), "0:0\n0:0\n", "{mount}");
        let about = fs::metadata(bundle.path().join("given/after")).unwrap();
        assert_eq!((about.uid(), about.gid()), (0, 0), "{mount}");
    }
}

#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn files_that_cannot_be_shown_as_others_are_refused() {
    if !is_root() {
        return;
    }
    let other = json!([{ "containerID": 0, "hostID": 200000, "size": 65536 }]);
    mapped(
        "true",
        &json!({ "options": ["bind"], "uidMappings": other, "gidMappings": other }),
    )
    .run()
    .refused_with("must be those of linux");
    mapped(
        "true",
        &json!({ "type": "tmpfs", "source": "tmpfs", "options": ["idmap"] }),
    )
    .run()
    .refused_with("only a bind mount");
    let mut bundle = Bundle::new(User::Root, "true");
    bundle
        .mount(json!({ "destination": "/given", "source": "/usr", "options": ["bind", "idmap"] }));
    bundle.run().refused_with("without a user namespace");
}
