//! openat2(2) where modes are guarded: for a program whose `struct open_how` are constants.
//!
//! A filter cannot look behind a pointer, and so not at the mode of a file that openat2 makes. But it sees the
//! pointer. A program that has every structure it will ever use in its own file, in a segment that cannot be
//! written, says with the address what it wants.
//!
//! That holds as long as nothing else comes to that address in any process of the domain:
//!
//! - nothing maps, unmaps, moves or unprotects memory there (`hold`), and nothing else writes to memory that is
//!   not writable: `ptrace` and `process_vm_writev` are refused anyway, there is no `/proc`, and the supervisor
//!   writes results only where the guest could;
//! - no other program is executed, for its file could have other constants there
//!   ([`crate::plan::Runner`]).
//!
//! An address that is no structure's is refused: structures are [`STRIDE`] apart.

use super::{
    allow_list::{ALLOW, EPERM, Groups, set},
    filter::{Check, Filter, Test, long},
};

/// Where the structures are.
pub const AT: u64 = 0x12_0000;
/// How far they reach.
pub const BYTES: u64 = 0x2_0000;
/// From one to the next.
pub const STRIDE: u64 = 32;
/// What the kernel is told that each has: `OPEN_HOW_SIZE_VER0`.
#[doc(alias = "OPEN_HOW_SIZE_VER0")]
pub const STRUCTURE_BYTES: u64 = 24;

/// The bits of an address that the kernel looks at. Above them there may be a tag, which it takes off the addresses of mprotect(2)
/// and others (tagged-address-abi.rst of arm64, `CONFIG_ADDRESS_MASKING` of x86).
const UNTAGGED: u64 = (1 << 48) - 1;
/// Everything below the end of the structures. In two parts, for a test looks at bits. Whoever has five levels of page tables
/// is refused what differs in higher bits alone, where nothing is unless it was asked for.
const LOW: [(u64, u64); 2] = [(UNTAGGED & !0xf_ffff, 0), (UNTAGGED & !0x3_ffff, 0x10_0000)];

const FIXED: u64 = (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u64;

const _: () = assert!(AT + BYTES == 0x14_0000 && AT.is_multiple_of(BYTES));

/// What openat2 may be told.
pub(super) fn openat2(otherwise: super::Action) -> Check {
    let is_structure = long(2).masked(!(BYTES - 1) | (STRIDE - 1), AT);
    Check::otherwise(otherwise).when([is_structure, long(3).is(STRUCTURE_BYTES)], ALLOW)
}

/// Keeps the structures as they are.
pub(super) fn hold(filter: &mut Filter) {
    for call in [
        libc::SYS_munmap,
        libc::SYS_mprotect,
        libc::SYS_pkey_mprotect,
    ] {
        set(filter, call, refuse_low(Check::otherwise(ALLOW), 0, &[]));
    }
    let fixed = long(3).has_any(libc::MREMAP_FIXED as u64);
    let mremap = refuse_low(Check::otherwise(ALLOW), 0, &[]);
    set(filter, libc::SYS_mremap, refuse_low(mremap, 4, &[fixed]));
    let anywhere = Check::otherwise(ALLOW).when([long(1).is(0)], ALLOW);
    set(filter, libc::SYS_shmat, refuse_low(anywhere, 1, &[]));
}

/// mmap(2) with its other cases: an address is a hint without `MAP_FIXED`, and is taken if it is free. Zero is
/// no hint, but a place that `vm.mmap_min_addr` may leave open.
pub(super) fn mmap(other: Check, groups: &Groups) -> Check {
    let anywhere = [long(0).is(0), long(3).masked(FIXED, 0)];
    match groups.constant_open_how {
        true => refuse_low(other.when(anywhere, ALLOW), 0, &[]),
        false => other,
    }
}

fn refuse_low(check: Check, address: u8, and: &[Test]) -> Check {
    LOW.iter().fold(check, |check, (mask, value)| {
        let mut tests = and.to_vec();
        tests.push(long(address).masked(*mask, *value));
        check.when(tests, EPERM)
    })
}
