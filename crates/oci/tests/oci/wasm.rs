//! Images whose program is WebAssembly: `guests/wasi/cli-guest.c`, and modules that are written here.

use super::fixture::{Bundle, User, is_root, users};
use serde_json::json;
use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/wasi/cli-guest.c");
const MAGIC: &[u8] = b"\0asm\x01\0\0\0";

fn guest() -> &'static [u8] {
    static GUEST: OnceLock<Vec<u8>> = OnceLock::new();
    GUEST.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("guest.wasm");
        let mut compiler = Command::new("clang-19");
        compiler.args(["--target=wasm32-wasi", "-O1", SOURCE, "-o"]);
        let status = compiler.arg(&built).status();
        let status = status
            .unwrap_or_else(|error| panic!("clang-19: {error}: tools/setup test installs it"));
        assert!(status.success());
        fs::read(built).unwrap()
    })
}

/// The same program as a component of WASI 0.2.
fn component() -> Vec<u8> {
    let encoder = wit_component::ComponentEncoder::default().module(guest());
    let adapted = encoder.and_then(|encoder| {
        encoder.adapter(
            WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
            WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
        )
    });
    adapted.and_then(|mut encoder| encoder.encode()).unwrap()
}

/// Where the worker and the compiler were built.
fn built(name: &str) -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_palisade-oci")).with_file_name(name);
    assert!(
        beside.exists(),
        "there is no {beside:?}: cargo build --workspace --bins makes it"
    );
    beside
}

/// An image of nothing but this file.
fn image(user: User, module: &[u8], words: &[&str]) -> Bundle {
    let mut bundle = Bundle::new(user, "");
    for name in ["palisade-worker", "palisade-compiler"] {
        // By another process, as the runtime itself.
        let copied = Command::new("cp")
            .arg(built(name))
            .arg(bundle.path())
            .status();
        assert!(copied.unwrap().success());
    }
    fs::write(bundle.rootfs().join("prog.wasm"), module).unwrap();
    let args: Vec<_> = ["/prog.wasm"].iter().chain(words).collect();
    bundle.config["process"]["args"] = json!(args);
    let mounts = bundle.config["mounts"].as_array_mut().unwrap();
    mounts.retain(|mount| mount["destination"] != "/usr");
    bundle
}

fn annotate(bundle: &mut Bundle, name: &str, word: &str) {
    bundle.config["annotations"] = json!({ name: word });
}

#[test]
fn arguments_environment_and_exit_code_are_the_programs() {
    for user in users() {
        let words = ["say", "hello", "env", "TERM", "here", "exit", "7"];
        let outcome = image(user, guest(), &words).run();
        assert_eq!(outcome.stdout, "hello\nxterm\n/\n", "{user:?}: {outcome:?}");
        assert_eq!(outcome.code, Some(7), "{user:?}: {outcome:?}");
    }
}

#[test]
fn a_component_does_as_a_module_does() {
    for user in users() {
        let words = [
            "say",
            "hello",
            "env",
            "TERM",
            "put",
            "/work/made",
            "show",
            "/work/made",
        ];
        let as_module = image(user, guest(), &words).run();
        let outcome = image(user, &component(), &words).run();
        assert_eq!(outcome.code, Some(0), "{user:?}: {outcome:?}");
        assert_eq!(outcome.stdout, as_module.stdout, "{user:?}: {outcome:?}");
    }
}

#[test]
fn files_are_those_of_the_image_and_its_mounts() {
    for user in users() {
        let words = ["show", "/etc/given", "put", "/work/made", "put", "here"];
        let mut bundle = image(user, guest(), &words);
        fs::write(bundle.rootfs().join("etc/given"), "given\n").unwrap();
        bundle.config["process"]["cwd"] = json!("/tmp");
        let outcome = bundle.run();
        assert!(outcome.stdout.contains("given"), "{user:?}: {outcome:?}");
        for made in ["work/made", "tmp/here"] {
            assert!(bundle.rootfs().join(made).exists(), "{made}: {outcome:?}");
        }
    }
}

/// The file that is run may be in what is mounted.
#[test]
fn a_program_that_is_mounted_is_found() {
    for user in users() {
        let mut bundle = image(user, b"", &["say", "mounted"]);
        fs::create_dir(bundle.path().join("given")).unwrap();
        fs::write(bundle.path().join("given/prog.wasm"), guest()).unwrap();
        bundle
            .mount(json!({ "destination": "/app", "source": "given", "options": ["bind", "ro"] }));
        bundle.config["process"]["args"][0] = json!("/app/prog.wasm");
        assert_eq!(bundle.run().succeeded(), "mounted\n");
    }
}

#[test]
fn a_program_without_a_slash_is_looked_for_as_a_native_one() {
    let mut bundle = image(users()[0], guest(), &["say", "found"]);
    bundle.config["process"]["args"][0] = json!("prog.wasm");
    assert_eq!(bundle.run().succeeded(), "found\n");
}

/// Whatever an image's links say, what is run and what is read lies in the image.
#[test]
fn links_of_an_image_lead_into_it() {
    for user in users() {
        let words = ["show", "/work/absolute", "show", "/work/climbing"];
        let mut bundle = image(user, b"", &words);
        let rootfs = bundle.rootfs();
        fs::remove_file(rootfs.join("prog.wasm")).unwrap();
        fs::write(rootfs.join("etc/real.wasm"), guest()).unwrap();
        fs::write(rootfs.join("etc/passwd"), "the image's\n").unwrap();
        symlink("/../../../etc/real.wasm", rootfs.join("prog.wasm")).unwrap();
        symlink("/etc/passwd", rootfs.join("work/absolute")).unwrap();
        symlink("../../../../../etc/passwd", rootfs.join("work/climbing")).unwrap();
        let outcome = bundle.run();
        assert_eq!(outcome.code, Some(0), "{user:?}: {outcome:?}");
        assert!(!outcome.stdout.contains("root:"), "{user:?}: {outcome:?}");
        // One that would lead to WebAssembly of the host's leads to nothing.
        let outside = bundle.path().join("outside.wasm");
        fs::write(&outside, guest()).unwrap();
        fs::remove_file(rootfs.join("prog.wasm")).unwrap();
        symlink(&outside, rootfs.join("prog.wasm")).unwrap();
        annotate(&mut bundle, "run.oci.handler", "wasm");
        bundle.run().refused_with("is none in this image");
    }
}

#[test]
fn what_is_no_valid_module_is_refused_before_anything_is_made() {
    for user in users() {
        let garbage = [MAGIC, b"garbage follows"].concat();
        let bundle = image(user, &garbage, &[]);
        bundle.write();
        let outcome = bundle.ask(&["create", &bundle.id]);
        outcome.refused_with("guest: /prog.wasm cannot be run");
        bundle
            .ask(&["state", &bundle.id])
            .refused_with("does not exist");
    }
}

#[test]
fn a_module_that_is_too_large_is_refused_unread() {
    const MORE_THAN_ANY: u64 = 300 << 20;
    let bundle = image(users()[0], MAGIC, &[]);
    let path = bundle.rootfs().join("prog.wasm");
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(MORE_THAN_ANY).unwrap();
    bundle.run().refused_with("larger than 256 MiB");
}

/// An annotation is the image's word: it makes nothing WebAssembly.
#[test]
fn an_annotation_alone_decides_nothing() {
    for user in users() {
        for (name, word) in [
            ("run.oci.handler", "wasm"),
            ("module.wasm.image/variant", "compat"),
        ] {
            let mut native = Bundle::new(user, "echo native");
            annotate(&mut native, name, word);
            native.run().refused_with(name);
        }
        let mut native = Bundle::new(user, "echo native");
        annotate(&mut native, "module.wasm.image/variant", "compat-smart");
        assert_eq!(native.run().succeeded(), "native\n");
        let mut bundle = image(user, guest(), &["say", "annotated"]);
        annotate(&mut bundle, "run.oci.handler", "wasm");
        assert_eq!(bundle.run().succeeded(), "annotated\n");
    }
}

/// An image may have a FIFO there, or a device: nobody opens it.
#[test]
fn what_is_no_file_is_not_waited_for() {
    for user in users() {
        let mut bundle = image(user, b"", &[]);
        let path = bundle.rootfs().join("prog.wasm");
        fs::remove_file(&path).unwrap();
        let kind = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from(0o755);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        annotate(&mut bundle, "run.oci.handler", "wasm");
        bundle.run().refused_with("is none in this image");
    }
}

/// They are native programs of the image's, and held as its program is.
#[test]
fn hooks_in_the_container_run_before_the_worker() {
    for user in users() {
        let mut bundle = image(user, guest(), &["show", "/work/hooked"]);
        bundle
            .mount(json!({ "destination": "/usr", "source": "/usr", "options": ["rbind", "ro"] }));
        bundle.config["hooks"] = json!({ "startContainer": [{
            "path": "/bin/sh", "args": ["sh", "-c", "echo hooked > /work/hooked"],
        }] });
        assert_eq!(bundle.run().succeeded(), "hooked\n");
    }
}

#[test]
fn a_trap_ends_it_and_is_told() {
    for user in users() {
        let outcome = image(user, guest(), &["trap"]).run();
        assert_eq!(outcome.code, Some(134), "{user:?}: {outcome:?}");
        let told = "palisade: guest: it was ended by a fault: wasm `unreachable`";
        assert!(outcome.stderr.contains(told), "{user:?}: {outcome:?}");
    }
}

#[test]
fn what_cannot_be_had_is_told_by_the_worker() {
    for user in users() {
        let module = r#"(module (import "env" "nosuch" (func)) (func (export "_start")) (memory (export "memory") 1))"#;
        let outcome = image(user, &wat::parse_str(module).unwrap(), &[]).run();
        assert_eq!(outcome.code, Some(125), "{user:?}: {outcome:?}");
        let told = "palisade: guest: /prog.wasm cannot be run: ";
        assert!(outcome.stderr.contains(told), "{user:?}: {outcome:?}");
        assert!(outcome.stderr.contains("nosuch"), "{user:?}: {outcome:?}");
    }
}

#[test]
fn a_loop_without_end_is_ended_by_a_signal() {
    for user in users() {
        let bundle = image(user, guest(), &["spin"]);
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        assert_eq!(bundle.status(), "created");
        bundle.ask(&["start", &bundle.id]).succeeded();
        assert_eq!(bundle.status(), "running");
        bundle.ask(&["kill", &bundle.id, "TERM"]).succeeded();
        bundle.wait_until("stopped");
    }
}

/// By `/proc/self/mem` a host function that opens files for the guest would hand it the engine.
#[test]
fn there_is_no_proc_and_none_can_be_mounted() {
    for user in users() {
        let words = ["show", "/proc/self/status", "list", "/proc", "list", "/sys"];
        let outcome = image(user, guest(), &words).run();
        // Both folders are the image's own, and empty.
        let expected = "show /proc/self/status: ENOENT\n";
        assert_eq!(outcome.stdout, expected, "{user:?}: {outcome:?}");
        let mut bundle = image(user, guest(), &["list", "/work"]);
        bundle.mount(json!({
            "destination": "/work", "source": "/", "options": ["rbind", "ro"],
        }));
        bundle.run().refused_with("a /proc is mounted");
    }
}

/// Of the worker the host says the same as of any program in a container, and less.
#[test]
fn the_worker_has_less_than_a_program_has() {
    for user in users() {
        let mut bundle = image(user, guest(), &["sleep"]);
        let all = json!(["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_KILL", "CAP_SETUID"]);
        bundle.config["process"]["capabilities"] =
            json!({ "bounding": all, "effective": all, "permitted": all });
        bundle.config["process"]["noNewPrivileges"] = json!(false);
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        bundle.ask(&["start", &bundle.id]).succeeded();
        let report = bundle.ask(&["report", &bundle.id]).succeeded();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let program = report["program"].as_u64().unwrap();
        let status = fs::read_to_string(format!("/proc/{program}/status")).unwrap();
        for line in [
            "CapBnd:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ] {
            assert!(status.contains(line), "{user:?}: {line}: {status}");
        }
    }
}

/// `/proc/PID/exe` of a program that runs is a way to its file, and to change that once it has ended (CVE-2019-5736).
#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn nobody_changes_the_worker_by_its_process() {
    if !is_root() {
        return;
    }
    for user in users() {
        let bundle = image(user, guest(), &["sleep"]);
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        bundle.ask(&["start", &bundle.id]).succeeded();
        let report = bundle.ask(&["report", &bundle.id]).succeeded();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let flags = rustix::fs::OFlags::PATH;
        let exe = format!("/proc/{}/exe", report["program"]);
        let exe = rustix::fs::open(exe, flags, rustix::fs::Mode::empty()).unwrap();
        bundle.ask(&["kill", &bundle.id, "KILL"]).succeeded();
        bundle.wait_until("stopped");
        let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&exe));
        let mut file = File::options().write(true).open(&again);
        // A copy in memory can be opened, and is sealed.
        let written = file
            .as_mut()
            .map(|file| std::io::Write::write(file, b"x").is_ok());
        assert!(!matches!(written, Ok(true)), "{user:?}");
        let worker = bundle.path().join("palisade-worker");
        assert_eq!(fs::read(worker).unwrap()[..4], *b"\x7fELF");
    }
}

#[test]
fn a_further_process_is_webassembly_or_is_not_there() {
    for user in users() {
        let bundle = image(user, guest(), &["sleep"]);
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        bundle.ask(&["start", &bundle.id]).succeeded();
        let words = [
            "exec",
            &bundle.id,
            "/prog.wasm",
            "say",
            "further",
            "exit",
            "5",
        ];
        let outcome = bundle.ask(&words);
        assert_eq!(outcome.stdout, "further\n", "{user:?}: {outcome:?}");
        assert_eq!(outcome.code, Some(5), "{user:?}: {outcome:?}");
        let words = ["exec", &bundle.id, "/bin/sh"];
        bundle.ask(&words).refused_with("/bin/sh");
        // What the guest may have made of itself.
        fs::copy("/bin/true", bundle.rootfs().join("prog.wasm")).unwrap();
        let words = ["exec", &bundle.id, "/prog.wasm"];
        bundle.ask(&words).refused_with("is no WebAssembly");
    }
}

/// The guest hears of it, and is not killed.
#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn memory_cannot_grow_beyond_the_control_groups_limit() {
    if !is_root() {
        return;
    }
    let mut bundle = image(User::Root, guest(), &["grow", "512", "say", "alive"]);
    bundle.config["linux"]["resources"] = json!({ "memory": { "limit": 128 << 20 } });
    let outcome = bundle.run();
    assert_eq!(outcome.stdout, "grew by less\nalive\n", "{outcome:?}");
}

/// Who could write there would have code of his own executed in later containers.
#[test]
fn what_palisade_relies_on_is_not_the_containers_to_write() {
    for user in users() {
        for name in ["cache", "palisade-worker"] {
            let mut bundle = image(user, guest(), &["say", "reached"]);
            let path = bundle.path().join(name);
            let _ = bundle.run().succeeded();
            bundle.mount(json!({ "destination": "/work", "source": path, "options": ["rbind"] }));
            bundle.run().refused_with("palisade relies on it");
        }
    }
}

/// `ro` is of the top alone, as mount(8) has it.
#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn a_mount_below_one_that_can_only_be_read_is_a_way_to_write() {
    if !is_root() {
        return;
    }
    let mut bundle = image(User::Root, guest(), &["say", "reached"]);
    let cache = bundle.path().join("cache");
    fs::create_dir_all(&cache).unwrap();
    let run = |words: &[&str]| {
        Command::new(words[0])
            .args(&words[1..])
            .arg(&cache)
            .status()
    };
    assert!(run(&["mount", "-t", "tmpfs", "tmpfs"]).unwrap().success());
    let source = bundle.path().to_owned();
    bundle.mount(json!({ "destination": "/work", "source": source, "options": ["rbind", "ro"] }));
    let at_top = bundle.run();
    let mounts = bundle.config["mounts"].as_array_mut().unwrap();
    mounts.last_mut().unwrap()["options"] = json!(["rbind", "rro"]);
    let all = bundle.run();
    assert!(run(&["umount"]).unwrap().success());
    at_top.refused_with("palisade relies on it");
    assert_eq!(all.succeeded(), "reached\n");
}

#[test]
fn it_is_explained_before_it_is_made() {
    let bundle = image(users()[0], guest(), &["say", "nothing"]);
    bundle.write();
    let plan = bundle.ask(&["explain"]).succeeded();
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["process"]["without_proc"], true);
    let executable = plan["process"]["executable"].as_str().unwrap();
    assert!(executable.ends_with("palisade-worker"), "{executable}");
}
