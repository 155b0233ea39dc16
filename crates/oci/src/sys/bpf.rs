//! A program of the kernel's that says which devices a control group may use (bpf(2), `linux/bpf.h`).

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

/// `BPF_DEVCG_DEV_*` and `BPF_DEVCG_ACC_*`.
pub(crate) const BLOCK: i32 = 1;
pub(crate) const CHARACTER: i32 = 2;
pub(crate) const MAKE: i32 = 1;
pub(crate) const READ: i32 = 2;
pub(crate) const WRITE: i32 = 4;

/// What a rule says.
pub(crate) struct DeviceRule {
    pub(crate) allow: bool,
    pub(crate) kind: Option<i32>,
    pub(crate) major: Option<i32>,
    pub(crate) minor: Option<i32>,
    /// Of `MAKE`, `READ` and `WRITE`.
    pub(crate) access: i32,
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u8,
    /// Destination in the low half.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const LOAD_WORD: u8 = 0x61;
const MOVE: u8 = 0xb4;
const MOVE_REGISTER: u8 = 0xbc;
const AND: u8 = 0x54;
const SHIFT_RIGHT: u8 = 0x74;
const IF_NOT_EQUAL: u8 = 0x55;
const IF_EQUAL: u8 = 0x15;
const EXIT: u8 = 0x95;

const fn put(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction {
        code,
        registers: to | from << 4,
        offset,
        immediate,
    }
}

/// The last rule that fits decides, so that they are looked at from the last on; nothing is allowed that none fits. One that
/// allows must allow all that is asked for, one that denies any of it.
fn program(rules: &[DeviceRule]) -> Vec<Instruction> {
    // r2: kind, r3: access, r4: major, r5: minor of `struct bpf_cgroup_dev_ctx`, which is in r1.
    let mut code = vec![
        put(LOAD_WORD, 2, 1, 0, 0),
        put(AND, 2, 0, 0, 0xffff),
        put(LOAD_WORD, 3, 1, 0, 0),
        put(SHIFT_RIGHT, 3, 0, 0, 16),
        put(LOAD_WORD, 4, 1, 4, 0),
        put(LOAD_WORD, 5, 1, 8, 0),
    ];
    for rule in rules.iter().rev() {
        let mut tests = Vec::new();
        if let Some(kind) = rule.kind {
            tests.push(vec![put(IF_NOT_EQUAL, 2, 0, 0, kind)]);
        }
        let (mask, fails) = match rule.allow {
            true => (!rule.access & (MAKE | READ | WRITE), IF_NOT_EQUAL),
            false => (rule.access, IF_EQUAL),
        };
        tests.push(vec![
            put(MOVE_REGISTER, 1, 3, 0, 0),
            put(AND, 1, 0, 0, mask),
            put(fails, 1, 0, 0, 0),
        ]);
        if let Some(major) = rule.major {
            tests.push(vec![put(IF_NOT_EQUAL, 4, 0, 0, major)]);
        }
        if let Some(minor) = rule.minor {
            tests.push(vec![put(IF_NOT_EQUAL, 5, 0, 0, minor)]);
        }
        let mut tests: Vec<_> = tests.concat();
        const ANSWER: usize = 2;
        let length = tests.len();
        for (at, test) in tests.iter_mut().enumerate() {
            if matches!(test.code, IF_EQUAL | IF_NOT_EQUAL) {
                test.offset = (length - at - 1 + ANSWER) as i16;
            }
        }
        code.extend(tests);
        code.push(put(MOVE, 0, 0, 0, rule.allow.into()));
        code.push(put(EXIT, 0, 0, 0, 0));
    }
    code.push(put(MOVE, 0, 0, 0, 0));
    code.push(put(EXIT, 0, 0, 0, 0));
    code
}

const PROG_LOAD: i64 = 5;
const PROG_ATTACH: i64 = 8;

/// As much of `union bpf_attr` as the two commands read.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct Attach {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

/// Loads a program for these rules and attaches it to the group.
pub(crate) fn hold_devices(group: &File, rules: &[DeviceRule]) -> io::Result<()> {
    const CGROUP_DEVICE: u32 = 15;
    let code = program(rules);
    let load = Load {
        kind: CGROUP_DEVICE,
        count: code.len() as u32,
        instructions: code.as_ptr() as u64,
        license: c"Apache".as_ptr() as u64,
        ..Load::default()
    };
    // SAFETY: the structure is as long as is said, and what it points to outlives the call.
    let loaded = unsafe { bpf(PROG_LOAD, (&raw const load).cast(), size_of::<Load>()) }?;
    // SAFETY: the kernel has just given it, to nobody else.
    let loaded = unsafe { OwnedFd::from_raw_fd(loaded as i32) };
    /// `BPF_CGROUP_DEVICE`, and others may be attached beside it (`BPF_F_ALLOW_MULTI`).
    const DEVICE: u32 = 6;
    const ALLOW_MULTI: u32 = 2;
    let attach = Attach {
        target: group.as_raw_fd() as u32,
        program: loaded.as_raw_fd() as u32,
        kind: DEVICE,
        flags: ALLOW_MULTI,
    };
    // SAFETY: the structure is as long as is said.
    unsafe { bpf(PROG_ATTACH, (&raw const attach).cast(), size_of::<Attach>()) }.map(drop)
}

/// # Safety
///
/// `attributes` must be what the command reads, as long as said, with valid pointers.
unsafe fn bpf(command: i64, attributes: *const u8, length: usize) -> io::Result<i64> {
    // SAFETY: the caller's promise.
    match unsafe { libc::syscall(libc::SYS_bpf, command, attributes, length) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}
