//! As whom and with what a program runs.

use super::fixture::{Bundle, User, is_root, users};
use serde_json::json;

/// A line of `/proc/self/status`.
fn line<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.map_or("", str::trim)
}

#[test]
fn nothing_is_given_that_was_not_asked_for() {
    for user in users() {
        let bundle = Bundle::new(user, "cat /proc/self/status; env; umask; ls /proc/self/fd");
        let said = bundle.run().succeeded();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(line(&said, set), "0000000000000000", "{user:?} {set}");
        }
        assert_eq!(line(&said, "NoNewPrivs"), "1");
        assert_eq!(line(&said, "Seccomp"), "2");
        assert!(said.contains("\n0022\n"), "{said}");
        // Those of `ls` itself are four.
        assert!(said.ends_with("0\n1\n2\n3\n"), "{said}");
        for variable in ["PATH=/usr/bin:/bin", "TERM=xterm", "HOME=/"] {
            assert!(
                said.lines().any(|line| line == variable),
                "{variable}: {said}"
            );
        }
    }
}

#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn users_groups_and_capabilities_are_the_images() {
    if !is_root() {
        return;
    }
    let mut bundle = Bundle::new(User::Root, "cat /proc/self/status; umask");
    bundle.config["process"]["user"] =
        json!({ "uid": 1234, "gid": 2345, "additionalGids": [7, 8], "umask": 7 });
    let set = json!(["CAP_CHOWN", "CAP_NET_BIND_SERVICE"]);
    bundle.config["process"]["capabilities"] = json!({
        "bounding": set, "effective": set, "permitted": set, "inheritable": set, "ambient": set,
    });
    bundle.config["process"]["noNewPrivileges"] = json!(false);
    let said = bundle.run().succeeded();
    assert_eq!(line(&said, "Uid"), "1234\t1234\t1234\t1234");
    assert_eq!(line(&said, "Gid"), "2345\t2345\t2345\t2345");
    assert_eq!(line(&said, "Groups"), "7 8");
    assert_eq!(line(&said, "NoNewPrivs"), "0");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(line(&said, set), "0000000000000401", "{set}");
    }
    assert!(said.contains("\n0007\n"), "{said}");
}

#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn a_user_namespace_has_its_own_root() {
    if !is_root() {
        return;
    }
    let mut bundle = Bundle::new(
        User::Root,
        "cat /proc/self/uid_map; stat -c %u /work /dev/null",
    );
    let mapping = json!([{ "containerID": 0, "hostID": 100000, "size": 65536 }]);
    bundle.config["linux"]["uidMappings"] = mapping.clone();
    bundle.config["linux"]["gidMappings"] = mapping;
    let namespaces = &mut bundle.config["linux"]["namespaces"];
    namespaces
        .as_array_mut()
        .unwrap()
        .push(json!({ "type": "user" }));
    let said = bundle.run().succeeded();
    let words: Vec<_> = said.split_ascii_whitespace().collect();
    // Files of the host's root are nobody's inside.
    assert_eq!(words, ["0", "100000", "65536", "65534", "65534"], "{said}");
}

/// Engines have the first container of each pod spared, also where its root is nobody outside.
#[test]
fn a_score_holds_in_a_user_namespace() {
    if !is_root() {
        return;
    }
    let score = if may_spare() { -998 } else { 500 };
    let mut bundle = Bundle::new(
        User::Root,
        "cat /proc/1/oom_score_adj /proc/self/oom_score_adj",
    );
    let mapping = json!([{ "containerID": 0, "hostID": 100000, "size": 65536 }]);
    let linux = &mut bundle.config["linux"];
    linux["uidMappings"] = mapping.clone();
    linux["gidMappings"] = mapping;
    let namespaces = linux["namespaces"].as_array_mut().unwrap();
    namespaces.push(json!({ "type": "user" }));
    bundle.config["process"]["oomScoreAdj"] = json!(score);
    assert_eq!(bundle.run().succeeded(), format!("{score}\n{score}\n"));
}

/// CAP_SYS_RESOURCE, which root of a machine may have been left without.
fn may_spare() -> bool {
    const SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = u64::from_str_radix(line(&status, "CapEff"), 16).unwrap();
    effective & 1 << SYS_RESOURCE != 0
}

#[test]
fn limits_and_scores_hold() {
    for user in users() {
        let mut bundle = Bundle::new(user, "ulimit -n; ulimit -Hn; cat /proc/self/oom_score_adj");
        bundle.config["process"]["rlimits"] =
            json!([{ "type": "RLIMIT_NOFILE", "soft": 100, "hard": 200 }]);
        bundle.config["process"]["oomScoreAdj"] = json!(500);
        assert_eq!(bundle.run().succeeded(), "100\n200\n500\n", "{user:?}");
    }
}

#[test]
fn the_working_directory_is_made_and_entered() {
    for user in users() {
        let mut bundle = Bundle::new(user, "pwd");
        bundle.config["process"]["cwd"] = json!("/work/a/b");
        assert_eq!(bundle.run().succeeded(), "/work/a/b\n");
    }
}

#[test]
fn settings_are_the_namespaces_own() {
    let before = std::fs::read_to_string("/proc/sys/kernel/msgmax").unwrap();
    for user in users() {
        let mut bundle = Bundle::new(
            user,
            "cat /proc/sys/kernel/msgmax; echo 1 > /proc/sys/kernel/msgmax",
        );
        bundle.config["linux"]["sysctl"] = json!({ "kernel.msgmax": "4242" });
        let outcome = bundle.run();
        assert_eq!(outcome.stdout, "4242\n", "{user:?}: {outcome:?}");
        assert!(
            outcome.stderr.contains("Read-only file system"),
            "{outcome:?}"
        );
    }
    assert_eq!(
        std::fs::read_to_string("/proc/sys/kernel/msgmax").unwrap(),
        before
    );
}

#[test]
fn the_engines_filter_and_palisades_hold_together() {
    // mkdir is refused by what the engine asks for, keyctl whatever it asks for.
    let script = "mkdir /work/made; python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.syscall(250, 0, 0), ctypes.get_errno())'";
    for user in users() {
        let mut bundle = Bundle::new(user, script);
        bundle.config["linux"]["seccomp"] = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
            "syscalls": [{ "names": ["mkdir", "mkdirat", "nosuch"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28 }],
        });
        let outcome = bundle.run();
        assert!(
            outcome.stderr.contains("No space left on device"),
            "{outcome:?}"
        );
        assert_eq!(outcome.stdout, "-1 1\n", "{outcome:?}");
    }
}

/// What is done for the program before it runs is no call of its own: whatever a profile refuses, palisade needs only to execute it.
#[test]
fn a_filter_may_refuse_what_palisade_does_itself() {
    let refused = [
        "getcwd",
        "chdir",
        "fchdir",
        "prctl",
        "setsid",
        "umask",
        "close_range",
        "dup3",
        "fcntl",
        "poll",
        "ppoll",
        "recvmsg",
        "sendmsg",
        "sendto",
        "recvfrom",
        "futex",
        "write",
        "rt_sigaction",
        "rt_sigprocmask",
        "setresuid",
        "setresgid",
        "setgroups",
        "capset",
        "seccomp",
        "execveat",
        "keyctl",
        "prlimit64",
        "wait4",
    ];
    for user in users() {
        for refused in refused {
            let mut bundle = Bundle::new(user, "");
            bundle.config["process"]["args"] = json!(["/usr/bin/true"]);
            bundle.config["linux"]["seccomp"] = json!({
                "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": [{ "names": [refused], "action": "SCMP_ACT_ERRNO" }],
            });
            let outcome = bundle.run();
            assert_eq!(outcome.code, Some(0), "{refused}: {outcome:?}");
        }
    }
}

#[test]
fn conditions_of_a_filter_are_understood() {
    let script =
        "for mode in 700 701 755; do mkdir -m $mode /work/$mode 2>/dev/null && echo $mode; done; :";
    for user in users() {
        let mut bundle = Bundle::new(user, script);
        bundle.config["process"]["user"]["umask"] = json!(0);
        let rule = |op: &str, value: u64| {
            json!({
                "names": ["mkdir"], "action": "SCMP_ACT_ERRNO",
                "args": [{ "index": 1, "op": op, "value": value }],
            })
        };
        // 0o701 and above.
        bundle.config["linux"]["seccomp"] = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [rule("SCMP_CMP_GT", 0o700)],
        });
        assert_eq!(bundle.run().succeeded(), "700\n");
    }
}

#[test]
fn a_network_of_its_own_has_a_loopback() {
    let script = "python3 -c 'import socket; l = socket.create_server((\"127.0.0.1\", 0)); socket.create_connection(l.getsockname()); print(\"connected\")'";
    for user in users() {
        assert_eq!(
            Bundle::new(user, script).run().succeeded(),
            "connected\n",
            "{user:?}"
        );
    }
}

#[test]
fn a_home_is_where_the_image_says() {
    for user in users() {
        let bundle = Bundle::new(user, "echo $HOME");
        let passwd = bundle.rootfs().join("etc/passwd");
        std::fs::write(&passwd, "root:x:0:0::/root:/bin/sh\n").unwrap();
        assert_eq!(bundle.run().succeeded(), "/root\n", "{user:?}");
        // A link leads into the image, and a FIFO holds nobody up.
        std::fs::remove_file(&passwd).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &passwd).unwrap();
        assert_eq!(bundle.run().succeeded(), "/\n", "{user:?}");
    }
}
