//! Which processors a process may have (sched_setaffinity(2)).

use super::{Result, call6, number};

const WORDS: usize = 16;

/// A set of them, as the kernel writes it: the first `bytes` count.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Processors {
    bits: [u64; WORDS],
    bytes: usize,
}

impl Processors {
    /// Those of a process, 0 for the calling one. The kernel refuses where it has more than there is room for.
    fn of(process: i32) -> Result<Self> {
        let mut bits = [0; WORDS];
        let room = size_of_val(&bits);
        // SAFETY: the kernel writes as many bytes at most.
        let bytes = unsafe { call!(number::SCHED_GETAFFINITY, process, room, bits.as_mut_ptr()) }?;
        Ok(Self { bits, bytes })
    }

    /// All but the one that this runs on; `None` if there are no others.
    fn others(mut self) -> Result<Option<Self>> {
        let mut this = 0u32;
        // SAFETY: the kernel writes one number.
        unsafe { call!(number::GETCPU, &raw mut this, 0) }?;
        if let Some(word) = self.bits.get_mut(this as usize / 64) {
            *word &= !(1 << (this % 64));
        }
        Ok(self.bits.iter().any(|word| *word != 0).then_some(self))
    }

    fn give_to(&self, process: i32) -> Result<()> {
        let bits = self.bits.as_ptr();
        // SAFETY: the kernel reads as many bytes, of which there are not more.
        unsafe { call!(number::SCHED_SETAFFINITY, process, self.bytes, bits).map(drop) }
    }
}

/// The calling process has these from here on.
pub(crate) fn set_affinity(mask: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads `len` bytes of a borrowed slice.
    unsafe { call!(number::SCHED_SETAFFINITY, 0, mask.len(), mask.as_ptr()).map(drop) }
}

/// Puts a child that has just begun on another processor than this one's, if there is any and it may be put there, and leaves it
/// the choice that it had: of virtual processors the kernel takes one that is idle for one that does not run, and puts nobody there
/// who was just begun (`vcpu_is_preempted`).
///
/// Nobody else may change the child's meanwhile. A child that is not given its choice back must not go on.
pub(crate) fn put_elsewhere(child: i32) -> Result<()> {
    let own = Processors::of(0);
    let others = own.and_then(Processors::others);
    let (Ok(own), Ok(Some(others))) = (own, others) else {
        return Ok(());
    };
    if others.give_to(child).is_err() {
        return Ok(());
    }
    // Asked for all, the kernel gives what control groups leave, and goes on doing so when they leave something else
    // (`user_cpus_ptr`); of less than that it is plain that somebody wished it.
    let all = Processors {
        bits: [u64::MAX; WORDS],
        ..own
    };
    let is_given_back = all.give_to(child).is_ok() && Processors::of(child) == Ok(own);
    match is_given_back {
        true => Ok(()),
        false => own.give_to(child),
    }
}
