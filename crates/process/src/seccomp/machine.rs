//! The kernel's side of a filter, for tests: a checker and an interpreter of classic BPF.

use super::{
    compile::NATIVE_ARCHITECTURE,
    filter::Action,
    instruction::{Instruction, offset, opcode},
};

/// One system call as a filter sees it: `struct seccomp_data`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: u32,
    pub(super) architecture: u32,
    pub(super) arguments: [u64; 6],
}

/// What a program did with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) action: Action,
    /// Whether the kernel's `seccomp_is_const_allow` would have given up on the way: at a load of
    /// anything but the number and the architecture.
    pub(super) argument_read: bool,
    /// How many instructions ran.
    pub(super) steps: usize,
}

/// A call of the native architecture.
pub(super) fn native(number: u32, arguments: [u64; 6]) -> Call {
    let architecture = NATIVE_ARCHITECTURE;
    Call {
        number,
        architecture,
        arguments,
    }
}

/// What `bpf_check_classic` and `seccomp_check_filter` insist on.
pub(super) fn check(program: &[Instruction]) {
    assert!((1..=4096).contains(&program.len()));
    assert_eq!(program.last().unwrap().code, opcode::RETURN);
    for (at, instruction) in program.iter().enumerate() {
        let reach = match instruction.code {
            opcode::LOAD => {
                assert!(instruction.k % 4 == 0 && instruction.k < 64);
                0
            }
            opcode::AND | opcode::RETURN => 0,
            opcode::JUMP => instruction.k as usize,
            opcode::IF_EQUAL | opcode::IF_AT_LEAST | opcode::IF_ANY_BIT => {
                usize::from(instruction.jt.max(instruction.jf))
            }
            other => panic!("opcode {other:#x} at {at}"),
        };
        assert!(at + reach < program.len(), "{at} jumps out of the program");
    }
}

/// Runs a program.
pub(super) fn run(program: &[Instruction], call: &Call) -> Outcome {
    let mut accumulator = 0;
    let mut argument_read = false;
    let (mut at, mut steps) = (0, 0);
    loop {
        steps += 1;
        let Instruction { code, jt, jf, k } = program[at];
        let branch = |holds: bool| usize::from(if holds { jt } else { jf });
        at += 1;
        match code {
            opcode::LOAD => {
                argument_read |= k > offset::ARCHITECTURE;
                accumulator = load(call, k);
            }
            opcode::AND => accumulator &= k,
            opcode::JUMP => at += k as usize,
            opcode::IF_EQUAL => at += branch(accumulator == k),
            opcode::IF_AT_LEAST => at += branch(accumulator >= k),
            opcode::IF_ANY_BIT => at += branch(accumulator & k != 0),
            opcode::RETURN => {
                let action = action(k);
                return Outcome {
                    action,
                    argument_read,
                    steps,
                };
            }
            other => panic!("opcode {other:#x}"),
        }
    }
}

fn load(call: &Call, at: u32) -> u32 {
    let argument = |at: u32| call.arguments[(at as usize - 16) / 8];
    match at {
        offset::NUMBER => call.number,
        offset::ARCHITECTURE => call.architecture,
        at if at % 8 == 0 => argument(at) as u32,
        at => (argument(at) >> 32) as u32,
    }
}

fn action(value: u32) -> Action {
    const LOOK: u32 = libc::SECCOMP_RET_USER_NOTIF | crate::wire::LOOK;
    const ABSENT: u32 = libc::SECCOMP_RET_USER_NOTIF | crate::wire::ABSENT;
    const RULED: u32 = libc::SECCOMP_RET_USER_NOTIF | crate::wire::RULED;
    match value & 0xffff_0000 {
        _ if value == LOOK => Action::Look,
        _ if value == ABSENT => Action::Absent,
        _ if value == RULED => Action::Ruled,
        libc::SECCOMP_RET_ALLOW => Action::Allow,
        libc::SECCOMP_RET_ERRNO => Action::Errno(value as u16),
        libc::SECCOMP_RET_USER_NOTIF => Action::Notify,
        libc::SECCOMP_RET_KILL_PROCESS => Action::Kill,
        _ => Action::Other(value),
    }
}
