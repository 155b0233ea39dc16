//! Refused calls that are told of: `palisade.watch`.

use super::{
    broker::{bundle, end_one_of, lines},
    fixture::{Bundle, User, users, wait_for},
};
use serde_json::{Value, json};
use std::fs;

/// Makes calls that are refused, and says how each ended.
const CALLS: &str = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    done = libc.syscall(number, *arguments)
    return "done" if done >= 0 else errno.errorcode[ctypes.get_errno()]
MOUNT, UNSHARE, PERSONALITY, SETHOSTNAME, KEYCTL, IO_URING_SETUP = 165, 272, 135, 170, 250, 425
print(call(MOUNT, 0, 0, 0, 0, 0), call(UNSHARE, 0x10000000), call(KEYCTL, 0, 0), call(IO_URING_SETUP, 1, 0))
print(call(PERSONALITY, 0x8), call(PERSONALITY, 0), call(SETHOSTNAME, b"x", 1), call(9999))
try: socket.socket(40)
except OSError as error: print(errno.errorcode[error.errno])
threads = [threading.Thread(target=lambda: None) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.stdout.flush()
"#;

/// The engine's own filter refuses one call, and another where an argument says so.
fn watched(user: User, program: &str, annotations: Value) -> Bundle {
    let mut bundle = bundle(user, program, annotations);
    let personality = json!({
        "names": ["personality"],
        "action": "SCMP_ACT_ERRNO",
        "errnoRet": 95,
        "args": [{ "index": 0, "value": 0, "op": "SCMP_CMP_NE" }],
    });
    let sethostname =
        json!({ "names": ["sethostname"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95 });
    bundle.config["linux"]["seccomp"] = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [personality, sethostname],
    });
    bundle
}

fn denied(bundle: &Bundle) -> Vec<Value> {
    let report = bundle.ask(&["report", &bundle.id]).succeeded();
    let report: Value = serde_json::from_str(&report).unwrap();
    report["denied"].as_array().unwrap().clone()
}

#[test]
fn a_filter_may_say_that_a_call_went_well_which_was_not_made() {
    for user in users() {
        let program = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(272, 0x10000000), errno.errorcode[ctypes.get_errno()], libc.syscall(63, 0))
"#;
        let mut bundle = watched(user, program, json!({ "palisade.watch": "calls" }));
        let uname = json!({ "names": ["uname"], "action": "SCMP_ACT_ERRNO", "errnoRet": 0 });
        bundle.config["linux"]["seccomp"]["syscalls"][1] = uname;
        assert_eq!(lines(bundle.run()), ["-1 EPERM 0"], "{user:?}");
    }
}

/// Who is watched gets the same answers.
#[test]
fn refused_calls_end_as_without_and_are_told_with_what_would_allow_them() {
    for user in users() {
        let without = lines(watched(user, CALLS, json!({})).run());
        let program = format!("{CALLS}\nthreading.Event().wait()");
        let bundle = watched(user, &program, json!({ "palisade.watch": "calls" }));
        bundle.write();
        let out = bundle.path().join("out");
        let file = fs::File::create(&out).unwrap();
        let created = bundle
            .runtime()
            .args(["create", "--bundle"])
            .arg(bundle.path())
            .arg(&bundle.id)
            .stdout(file)
            .status();
        assert!(created.unwrap().success(), "{user:?}");
        bundle.ask(&["start", &bundle.id]).succeeded();
        let said = || fs::read_to_string(&out).unwrap();
        wait_for(
            || said().lines().count() == without.len(),
            "the program's words",
        );
        assert_eq!(said().lines().collect::<Vec<_>>(), without, "{user:?}");
        let denied = denied(&bundle);
        let find = |call: &str| denied.iter().find(|one| one["call"] == call);
        for (call, flags) in [
            ("mount", "--cap-add SYS_ADMIN"),
            ("unshare", "--cap-add SYS_ADMIN"),
            ("keyctl", "--annotation palisade.seccomp=engine"),
            ("io_uring_setup", "--annotation palisade.seccomp=engine"),
            ("personality", "--security-opt seccomp=PROFILE"),
            ("sethostname", "--cap-add SYS_ADMIN"),
            ("socket", "--annotation palisade.seccomp=engine"),
        ] {
            let one = find(call).unwrap_or_else(|| panic!("{call}: {denied:#?}"));
            assert_eq!(one["flags"], flags, "{call}");
            assert_eq!(one["process"]["name"], "python3", "{call}");
        }
        assert_eq!(find("personality").unwrap()["target"], "argument 1 = 0x8");
        let unknown = find("unknown call").unwrap();
        assert_eq!(unknown["target"], "number 9999");
        assert!(unknown["flags"].is_null(), "nothing would: {unknown}");
        assert!(find("clone3").is_none(), "every thread begins with it");
        let log = bundle.path().join("log");
        let log = log.to_str().unwrap();
        let deleted = bundle.ask(&["--log", log, "delete", "--force", &bundle.id]);
        deleted.succeeded();
        let told = fs::read_to_string(log).unwrap();
        assert!(
            told.contains("python3") && told.contains(": mount was denied"),
            "{told}"
        );
        assert!(
            told.contains("--cap-add SYS_ADMIN would allow it"),
            "{told}"
        );
    }
}

#[test]
fn a_further_process_is_watched_too() {
    for user in users() {
        let wait = "threading.Event().wait()";
        let annotations = json!({ "palisade.watch": "calls", "palisade.network": "broker" });
        let bundle = watched(user, wait, annotations);
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        bundle.ask(&["start", &bundle.id]).succeeded();
        let program = r#"
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(165, 0, 0, 0, 0, 0), errno.errorcode[ctypes.get_errno()])
try: socket.create_connection(("192.0.2.7", 443))
except OSError as error: print(errno.errorcode[error.errno])
"#;
        for _ in 0..2 {
            let further = ["exec", &bundle.id, "/usr/bin/python3", "-I", "-c", program];
            let said = lines(bundle.ask(&further));
            assert_eq!(said, ["-1 EPERM", "EACCES"], "{user:?}");
        }
        let denied = denied(&bundle);
        let calls: Vec<_> = denied
            .iter()
            .map(|one| one["call"].as_str().unwrap())
            .collect();
        assert_eq!(calls, ["mount", "connect"], "{denied:#?}");
        let of_network = &denied[1]["annotation"];
        assert_eq!(*of_network, "palisade.connect=tcp://192.0.2.7:443");
    }
}

/// A filter of a program's own must not come to answer for the supervisor.
#[test]
fn nobody_inside_gets_a_listener() {
    for user in users() {
        let program = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction))]
libc.prctl(38, 1, 0, 0, 0)
def load(action, flags):
    filter = (Instruction * 1)(Instruction(6, 0, 0, action))
    done = libc.syscall(317, 1, flags, ctypes.byref(Program(1, filter)))
    return done if done == 0 else errno.errorcode[ctypes.get_errno()]
print(load(0x7fc00000, 8), load(0x7fff0000, 0))
print(libc.syscall(165, 0, 0, 0, 0, 0), errno.errorcode[ctypes.get_errno()])
"#;
        let outcome = watched(user, program, json!({ "palisade.watch": "calls" })).run();
        assert_eq!(lines(outcome), ["EBUSY 0", "-1 EPERM"], "{user:?}");
    }
}

#[test]
fn a_watched_container_ends_with_who_watches() {
    for user in users() {
        let wait = "threading.Event().wait()";
        let bundle = watched(user, wait, json!({ "palisade.watch": "calls" }));
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        bundle.ask(&["start", &bundle.id]).succeeded();
        end_one_of(&bundle, "palisade-broke");
        wait_for(|| bundle.status() == "stopped", "its end");
    }
}
