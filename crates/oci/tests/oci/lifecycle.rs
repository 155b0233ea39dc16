//! From nothing to nothing.

use super::fixture::{Bundle, PATIENCE, User, is_root, users, wait_for};
use rustix::process::{Pid, Signal, WaitOptions};
use std::{fs, path::Path, process::Command, time::Instant};

#[test]
fn a_program_runs_and_its_code_is_the_runtimes() {
    for user in users() {
        let bundle = Bundle::new(user, "echo $$; cat /proc/sys/kernel/hostname; exit 7");
        let outcome = bundle.run();
        assert_eq!(outcome.code, Some(7), "{user:?}: {outcome:?}");
        // Init is the first process, the program the second.
        assert_eq!(outcome.stdout, "2\ninside\n", "{user:?}");
        assert_eq!(
            fs::read_dir(bundle.path().join("state")).unwrap().count(),
            0
        );
    }
}

#[test]
fn a_container_is_created_runs_and_has_stopped() {
    for user in users() {
        let bundle = Bundle::new(user, "read line; exit 3");
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        assert_eq!(bundle.status(), "created", "{user:?}");
        assert!(bundle.pid() > 0);
        bundle.ask(&["start", &bundle.id]).succeeded();
        bundle.wait_until("stopped");
        assert_eq!(bundle.pid(), 0);
        bundle
            .ask(&["start", &bundle.id])
            .refused_with("cannot start a container that has stopped");
        bundle.ask(&["delete", &bundle.id]).succeeded();
        bundle
            .ask(&["state", &bundle.id])
            .refused_with("does not exist");
    }
}

/// As engines do it: a monitor that is a subreaper waits for the pid that it was told of.
#[test]
fn whoever_is_the_subreaper_can_wait_for_the_first_process() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    for (script, code) in [("exit 9", Some(9)), ("kill -TERM $$", Some(143))] {
        let user = users()[0];
        let bundle = Bundle::new(user, script);
        bundle.write();
        let pid_file = bundle.path().join("state.pid");
        bundle
            .ask(&[
                "create",
                "--pid-file",
                pid_file.to_str().unwrap(),
                &bundle.id,
            ])
            .succeeded();
        let pid: i32 = fs::read_to_string(&pid_file).unwrap().parse().unwrap();
        assert_eq!(pid, bundle.pid());
        bundle.ask(&["start", &bundle.id]).succeeded();
        let ended = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty());
        let (_, status) = ended.unwrap().unwrap();
        assert_eq!(status.exit_status(), code, "{script}");
    }
}

#[test]
fn signals_reach_the_program() {
    for user in users() {
        let bundle = Bundle::new(
            user,
            "trap 'exit 5' TERM; echo ready > /work/ready; while :; do read line < /work/fifo; done",
        );
        rustix::fs::mknodat(
            rustix::fs::CWD,
            bundle.rootfs().join("work/fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o666),
            0,
        )
        .unwrap();
        end_by_signal(&bundle);
        bundle
            .ask(&["kill", &bundle.id, "TERM"])
            .refused_with("container not running");
    }
}

/// Init looks at whom it hears between those that it reaps, however many there are.
#[test]
fn signals_reach_a_program_whose_processes_make_one_another() {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../guests/friendly/chains.c"
    );
    let folder = tempfile::tempdir().unwrap();
    let chains = folder.path().join("chains");
    let built = Command::new("gcc")
        .args(["-O2", "-static", "-o"])
        .args([chains.as_path(), Path::new(source)])
        .status();
    assert!(built.unwrap().success());
    for user in users() {
        let bundle = Bundle::new(
            user,
            "trap 'exit 5' TERM; /work/chains 300 60 60 & echo ready > /work/ready; while :; do wait; done",
        );
        fs::copy(&chains, bundle.rootfs().join("work/chains")).unwrap();
        end_by_signal(&bundle);
    }
}

/// Once its program has said that it is ready.
fn end_by_signal(bundle: &Bundle) {
    start(bundle);
    wait_for(
        || bundle.rootfs().join("work/ready").exists(),
        "the program",
    );
    bundle.ask(&["kill", &bundle.id, "TERM"]).succeeded();
    bundle.wait_until("stopped");
}

fn start(bundle: &Bundle) {
    bundle.write();
    bundle.ask(&["create", &bundle.id]).succeeded();
    bundle.ask(&["start", &bundle.id]).succeeded();
}

/// The keeper of a container: the process that its first one is not the only child of.
fn keeper_of(bundle: &Bundle) -> i32 {
    let text = fs::read(
        bundle
            .path()
            .join("state")
            .join(&bundle.id)
            .join("state.json"),
    )
    .unwrap();
    let state: serde_json::Value = serde_json::from_slice(&text).unwrap();
    state["keeper"]["pid"].as_i64().unwrap() as i32
}

fn is_gone(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

#[test]
fn neither_outlives_the_other() {
    for user in users() {
        for started in [false, true] {
            for ends_keeper in [false, true] {
                let bundle = Bundle::new(user, "sleep 1000");
                bundle.write();
                bundle.ask(&["create", &bundle.id]).succeeded();
                if started {
                    bundle.ask(&["start", &bundle.id]).succeeded();
                }
                let (keeper, init) = (keeper_of(&bundle), bundle.pid());
                let ended = if ends_keeper { keeper } else { init };
                rustix::process::kill_process(Pid::from_raw(ended).unwrap(), Signal::KILL).unwrap();
                wait_for(|| is_gone(keeper) && is_gone(init), "the end of both");
                assert_eq!(bundle.status(), "stopped");
            }
        }
    }
}

#[test]
fn what_runs_is_deleted_by_force_alone_and_nothing_is_left() {
    for user in users() {
        let bundle = Bundle::new(user, "sleep 1000 & sleep 1000");
        start(&bundle);
        let (keeper, init) = (keeper_of(&bundle), bundle.pid());
        bundle
            .ask(&["delete", &bundle.id])
            .refused_with("that is not stopped: running");
        bundle.ask(&["delete", "--force", &bundle.id]).succeeded();
        wait_for(|| is_gone(keeper) && is_gone(init), "the end of both");
        let group = Path::new("/sys/fs/cgroup/pids").join(&bundle.id);
        assert!(!group.exists());
        // Of what is not there nothing is to be deleted.
        bundle.ask(&["delete", "--force", &bundle.id]).succeeded();
    }
}

#[test]
fn a_further_process_is_the_containers() {
    for user in users() {
        let bundle = Bundle::new(user, "sleep 1000");
        start(&bundle);
        let exec = |arguments: &[&str]| {
            let all = [&["exec", &bundle.id], arguments].concat();
            bundle.ask(&all)
        };
        let inside = exec(&[
            "/bin/sh",
            "-c",
            "cat /proc/sys/kernel/hostname; ls -id /proc/self/ns/pid; grep Seccomp: /proc/self/status",
        ]);
        let inside = inside.succeeded();
        assert!(inside.starts_with("inside\n"), "{inside}");
        assert!(inside.contains("Seccomp:\t2"), "{inside}");
        assert_eq!(exec(&["/bin/sh", "-c", "exit 4"]).code, Some(4));
        exec(&["/nosuch"]).refused_with("\"/nosuch\" cannot be executed");
        let listed = exec(&["/bin/sh", "-c", "cat /proc/1/comm"]).succeeded();
        assert_eq!(listed, "palisade-init\n");
    }
}

#[test]
fn a_detached_process_is_its_monitors_child() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let bundle = Bundle::new(users()[0], "sleep 1000");
    start(&bundle);
    let pid_file = bundle.path().join("state.exec");
    let path = pid_file.to_str().unwrap();
    bundle
        .ask(&[
            "exec",
            "-d",
            "--pid-file",
            path,
            &bundle.id,
            "/bin/sh",
            "-c",
            "exit 6",
        ])
        .succeeded();
    let pid: i32 = fs::read_to_string(&pid_file).unwrap().parse().unwrap();
    let ended = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty());
    assert_eq!(ended.unwrap().unwrap().1.exit_status(), Some(6));
}

#[test]
fn what_cannot_be_executed_is_told_before_the_start() {
    for user in users() {
        let mut bundle = Bundle::new(user, "");
        bundle.config["process"]["args"] = serde_json::json!(["nosuch"]);
        bundle.write();
        bundle.ask(&["create", &bundle.id]).refused_with(
            "executable file not found: \"nosuch\" cannot be executed: No such file or directory",
        );
        bundle
            .ask(&["state", &bundle.id])
            .refused_with("does not exist");
    }
}

#[test]
fn a_name_is_held_once() {
    let bundle = Bundle::new(users()[0], "sleep 1000");
    start(&bundle);
    bundle
        .ask(&["create", &bundle.id])
        .refused_with("container with id exists");
    assert_eq!(bundle.status(), "running");
    let listed = bundle.ask(&["list", "-q"]).succeeded();
    assert_eq!(listed.trim(), bundle.id);
}

/// A pod: one container's processes in the namespace of another's.
#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn with_processes_of_others_only_its_own_are_ended() {
    if !is_root() {
        return;
    }
    let first = Bundle::new(User::Root, "sleep 1000");
    start(&first);
    let mut second = Bundle::new(User::Root, "sleep 1001 & sleep 1002");
    for namespace in second.config["linux"]["namespaces"].as_array_mut().unwrap() {
        if namespace["type"] == "pid" {
            namespace["path"] = format!("/proc/{}/ns/pid", first.pid()).into();
        }
    }
    start(&second);
    let init = second.pid();
    let sleeps = || {
        let listed = first.ask(&[
            "exec",
            &first.id,
            "/bin/sh",
            "-c",
            "cat /proc/[0-9]*/cmdline",
        ]);
        listed.succeeded().replace('\0', " ")
    };
    let began = Instant::now();
    while !(sleeps().contains("sleep 1001") && sleeps().contains("sleep 1002")) {
        assert!(began.elapsed() < PATIENCE);
    }
    rustix::process::kill_process(Pid::from_raw(init).unwrap(), Signal::KILL).unwrap();
    second.wait_until("stopped");
    // As its monitor does: until then the namespace does not go (zap_pid_ns_processes in kernel/pid_namespace.c). Of a test that
    // runs alone it is nobody's child here.
    let _ = rustix::process::waitpid(Pid::from_raw(init), WaitOptions::empty());
    wait_for(
        || !sleeps().contains("sleep 1001") && !sleeps().contains("sleep 1002"),
        "the end of what the second started",
    );
    assert_eq!(first.status(), "running");
    assert!(sleeps().contains("sleep 1000"));
}

/// While it is made a name is its maker's.
#[test]
fn what_is_being_created_is_neither_deleted_nor_created_again() {
    let user = users()[0];
    let mut bundle = Bundle::new(user, "true");
    let (began, goes_on) = (bundle.path().join("began"), bundle.path().join("goes-on"));
    let script = format!(
        "echo > {}; until test -e {}; do :; done",
        began.display(),
        goes_on.display()
    );
    bundle.config["hooks"]["createRuntime"] =
        serde_json::json!([{ "path": "/bin/sh", "args": ["sh", "-c", script], "timeout": 20 }]);
    bundle.write();
    std::thread::scope(|scope| {
        let creating = scope.spawn(|| bundle.ask(&["create", &bundle.id]));
        wait_for(|| began.exists(), "the hook");
        assert_eq!(bundle.status(), "creating");
        bundle
            .ask(&["delete", &bundle.id])
            .refused_with("is being created");
        bundle.ask(&["create", &bundle.id]).refused_with("exists");
        fs::write(&goes_on, "").unwrap();
        creating.join().unwrap().succeeded();
    });
    assert_eq!(bundle.status(), "created");
}

#[test]
fn a_configuration_to_begin_with_is_written() {
    let bundle = Bundle::new(users()[0], "true");
    let path = bundle.path().join("config.json");
    for (flags, namespace) in [(&[][..], "mount"), (&["--rootless"][..], "user")] {
        bundle.ask(&[&["spec"], flags].concat()).succeeded();
        let text = fs::read_to_string(&path).unwrap();
        let spec: serde_json::Value = serde_json::from_str(&text).unwrap();
        let namespaces = spec["linux"]["namespaces"].as_array().unwrap();
        assert!(
            namespaces.iter().any(|one| one["type"] == namespace),
            "{flags:?}: {text}"
        );
        bundle.ask(&["spec"]).refused_with("exists");
        fs::remove_file(&path).unwrap();
    }
}

/// Whoever asked does not know of it, and nobody else does.
#[test]
fn a_container_that_cannot_be_told_of_is_not_left() {
    for user in users() {
        let bundle = Bundle::new(user, "exec sleep 1000");
        bundle.write();
        let words = ["create", "--pid-file", "/nonexistent/pid", &bundle.id];
        bundle.ask(&words).refused_with("cannot write");
        let first = format!("palisade-container\0{}\0", bundle.id);
        let is_there = fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            fs::read_to_string(entry.path().join("cmdline"))
                .is_ok_and(|words| words.starts_with(&first))
        });
        assert!(!is_there, "{user:?}");
        bundle
            .ask(&["state", &bundle.id])
            .refused_with("does not exist");
    }
}
