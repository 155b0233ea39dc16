//! The instructions of classic BPF that a seccomp filter is made of.
//!
//! Only the opcodes that this compiler emits are named here. Up to the first load of an argument
//! they are also the only ones that the kernel's `seccomp_is_const_allow` can follow.

/// One instruction, laid out as the kernel's `struct sock_filter`.
#[doc(alias = "sock_filter")]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The opcode.
    pub code: u16,
    /// Instructions to skip when a test holds.
    pub jt: u8,
    /// Instructions to skip when a test fails.
    pub jf: u8,
    /// The operand: an offset, a constant or a distance.
    pub k: u32,
}

impl Instruction {
    /// A statement: no test, no jump distances.
    pub(super) const fn statement(code: u16, k: u32) -> Self {
        Self {
            code,
            jt: 0,
            jf: 0,
            k,
        }
    }

    /// How many bytes the kernel reads of it.
    pub(super) const BYTES: usize = 8;

    /// The bytes that the kernel reads, in this machine's byte order.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let [c0, c1] = self.code.to_ne_bytes();
        let [k0, k1, k2, k3] = self.k.to_ne_bytes();
        [c0, c1, self.jt, self.jf, k0, k1, k2, k3]
    }
}

/// Opcodes, as `linux/bpf_common.h` composes them.
pub(super) mod opcode {
    /// A ← the 32-bit word at offset `k` of `struct seccomp_data`.
    pub(in super::super) const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    /// A ← A & `k`.
    pub(in super::super) const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    /// Skip `k` instructions.
    pub(in super::super) const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
    /// Does A equal `k`?
    pub(in super::super) const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    /// Is A at least `k`?
    pub(in super::super) const IF_AT_LEAST: u16 =
        (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    /// Has A any bit of `k`?
    pub(in super::super) const IF_ANY_BIT: u16 =
        (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    /// End with `k`.
    pub(in super::super) const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
}

/// Offsets into `struct seccomp_data`.
pub(super) mod offset {
    /// The system-call number.
    pub(in super::super) const NUMBER: u32 = 0;
    /// The architecture token.
    pub(in super::super) const ARCHITECTURE: u32 = 4;

    /// The low 32 bits of an argument.
    pub(in super::super) const fn low(argument: u8) -> u32 {
        16 + 8 * argument as u32
    }

    /// The high 32 bits of an argument. Both supported architectures are little-endian.
    pub(in super::super) const fn high(argument: u8) -> u32 {
        low(argument) + 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_the_kernel_s_layout() {
        assert_eq!(size_of::<Instruction>(), Instruction::BYTES);
        let jump = Instruction {
            code: opcode::IF_EQUAL,
            jt: 1,
            jf: 2,
            k: 0x0403_0201,
        };
        assert_eq!(jump.to_bytes()[2..4], [1, 2]);
        assert_eq!(jump.to_bytes()[4..], 0x0403_0201_u32.to_ne_bytes());
        assert_eq!(jump.to_bytes()[..2], 0x15_u16.to_ne_bytes());
    }
}
