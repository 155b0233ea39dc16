//! From a [`Filter`] to a classic BPF program.
//!
//! ```text
//!   A ← arch ── not ours ──▶ kill the process
//!   A ← nr
//!   binary search over runs of neighbouring numbers that end alike, by weight
//!        ├─▶ return                             (no argument read: the kernel's bitmap applies)
//!        └─▶ A ← argument, test, … , return     (a check)
//! ```
//!
//! Since Linux 5.11 `seccomp_cache_prepare` walks each filter once per number when it is installed
//! (`seccomp_is_const_allow`, commit 8e01b51a31a1). It follows loads of `nr` and `arch`, jumps and
//! returns, and gives up at anything else; a number for which it reaches `RET ALLOW` is later
//! allowed by one bit test, without running the filter. So nothing but those stands before a
//! check, and only the calls that have a check pay for the search. Of these a few are made all the time: the search
//! comes to them first ([`OFTEN`]). To all others it comes by how many numbers they are, each of which the kernel
//! follows once.
//!
//! Jumps of classic BPF go forward only and reach 255 instructions. The program is therefore
//! written from its end: when a jump is written, its targets are there, the distance is known, and
//! one that is too far goes over an unconditional jump, whose distance has 32 bits.

use std::ops::Range;
use thiserror::Error;

use super::{
    filter::{Action, Check, Expect, Filter, Rule, Test, Width},
    instruction::{Instruction, offset, opcode},
};

/// The kernel's `BPF_MAXINSNS`.
const MAX_INSTRUCTIONS: usize = libc::BPF_MAXINSNS as usize;

/// Numbers from here on belong to the x32 table on x86-64 (`__X32_SYSCALL_BIT`) and to nobody on
/// other architectures. `-1`, which a tracer writes to skip a call, is among them.
const FOREIGN_NUMBERS: u32 = 0x4000_0000;

/// Calls that programs make all the time, and that a check may stand on.
const OFTEN: [libc::c_long; 4] = [
    libc::SYS_openat,
    libc::SYS_mmap,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
];
/// How much more than of one number a search is about one of them.
const WEIGHT_OF_OFTEN: usize = 200;
/// The numbers that the kernel follows are below this (`NR_syscalls`).
const FOLLOWED_NUMBERS: u32 = 500;

/// How far away a return may be to be shared. Branches that are written before they get to it
/// leave some of their 255 to the instructions in between.
const NEAR: usize = 200;

/// The largest error number that `SECCOMP_RET_ERRNO` passes on; the kernel clamps larger ones.
const MAX_ERRNO: u16 = 4095;

/// The kernel's token for the architecture this is compiled for.
#[doc(alias = "AUDIT_ARCH_X86_64")]
#[cfg(target_arch = "x86_64")]
pub(super) const NATIVE_ARCHITECTURE: u32 = 0xc000_003e;
/// The kernel's token for the architecture this is compiled for.
#[doc(alias = "AUDIT_ARCH_AARCH64")]
#[cfg(target_arch = "aarch64")]
pub(super) const NATIVE_ARCHITECTURE: u32 = 0xc000_00b7;

/// Why a filter is no program. Each is a mistake in the filter's making, never the guest's doing.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CompileError {
    /// There is no rule, and no rule must never come to mean no filter.
    #[error("wall: a system-call filter without a single rule is not a filter; give it rules")]
    Empty,
    /// A rule for a number that no call of this architecture has.
    #[error("wall: system call {number:#x} lies outside the native table; remove its rule")]
    Number {
        /// The number in question.
        number: u32,
    },
    /// A test of a seventh argument.
    #[error("wall: system call {number} is tested on argument {argument}; calls have 0 to 5")]
    Argument {
        /// The call in question.
        number: u32,
        /// The argument it was to be tested on.
        argument: u8,
    },
    /// A test that no argument can meet, so that its case would silently never apply.
    #[error("wall: system call {number} has a test that can never hold: {test:?}; correct it")]
    NeverHolds {
        /// The call in question.
        number: u32,
        /// The test in question.
        test: Test,
    },
    /// An error number that the kernel would change.
    #[error("wall: {errno} is no error number; the kernel knows 0 to {MAX_ERRNO}")]
    Errno {
        /// The number in question.
        errno: u16,
    },
    /// The program is longer than the kernel accepts.
    #[error(
        "wall: the filter has {instructions} instructions, the kernel takes {MAX_INSTRUCTIONS}; \
         use fewer rules"
    )]
    TooLong {
        /// The program's length.
        instructions: usize,
    },
}

/// Compiles a filter for the native architecture.
///
/// A call of any other architecture kills the process: its numbers mean something else, and no
/// program makes one by accident. Numbers of the x32 table return `ENOSYS`, as on a kernel
/// without it.
///
/// # Errors
///
/// When the filter has no rule, a rule that cannot mean what it says, or too many rules.
pub fn compile(filter: &Filter) -> Result<Vec<Instruction>, CompileError> {
    validate(filter)?;
    let program = Backward::write(filter);
    match program.len() {
        0..=MAX_INSTRUCTIONS => Ok(program),
        instructions => Err(CompileError::TooLong { instructions }),
    }
}

/// The same, as seccomp(2) takes it: eight bytes an instruction.
pub(crate) fn program(filter: &Filter) -> Result<Vec<u8>, CompileError> {
    let instructions = compile(filter)?;
    let mut bytes = Vec::with_capacity(instructions.len() * Instruction::BYTES);
    for instruction in instructions {
        bytes.extend_from_slice(&instruction.to_bytes());
    }
    Ok(bytes)
}

fn validate(filter: &Filter) -> Result<(), CompileError> {
    if filter.rules().next().is_none() {
        return Err(CompileError::Empty);
    }
    validate_action(filter.otherwise())?;
    filter
        .rules()
        .try_for_each(|(number, rule)| validate_rule(number, rule))
}

fn validate_rule(number: u32, rule: &Rule) -> Result<(), CompileError> {
    if number >= FOREIGN_NUMBERS {
        return Err(CompileError::Number { number });
    }
    let check = match rule {
        Rule::Always(action) => return validate_action(*action),
        Rule::Check(check) => check,
    };
    validate_action(check.otherwise)?;
    for case in &check.cases {
        validate_action(case.action)?;
        for test in &case.tests {
            validate_test(number, test)?;
        }
    }
    Ok(())
}

fn validate_test(number: u32, test: &Test) -> Result<(), CompileError> {
    let argument = test.argument;
    if argument > 5 {
        return Err(CompileError::Argument { number, argument });
    }
    if !test.can_hold() {
        let test = test.clone();
        return Err(CompileError::NeverHolds { number, test });
    }
    Ok(())
}

fn validate_action(action: Action) -> Result<(), CompileError> {
    match action {
        Action::Errno(errno) if errno > MAX_ERRNO => Err(CompileError::Errno { errno }),
        _ => Ok(()),
    }
}

/// Neighbouring numbers that end alike: from `first` to the next run.
struct Run<'a> {
    first: u32,
    ending: Ending<'a>,
}

/// [`Rule`], borrowed, so that the default action can stand beside the rules.
#[derive(Clone, Copy, PartialEq)]
enum Ending<'a> {
    Return(Action),
    Check(&'a Check),
}

/// Runs, and how much a search is about them.
struct Runs<'a> {
    runs: &'a [Run<'a>],
    /// Up to each of them.
    weights: Vec<usize>,
}

impl<'a> Runs<'a> {
    fn of(runs: &'a [Run<'a>]) -> Self {
        let nexts = runs.iter().skip(1).map(|run| run.first);
        let each = runs.iter().zip(nexts.chain([u32::MAX]));
        let weights = each.scan(0, |all, (run, next)| {
            *all += weight(run, next);
            Some(*all)
        });
        Self {
            runs,
            weights: [0].into_iter().chain(weights).collect(),
        }
    }

    /// Where to divide these, of which there are two at least, so that both sides weigh about the same.
    fn middle(&self, range: &Range<usize>) -> usize {
        let half = self.weights[range.start].midpoint(self.weights[range.end]);
        let inner = range.start + 1..range.end - 1;
        inner.start + self.weights[inner].partition_point(|weight| *weight < half)
    }
}

/// How much a search is about the numbers up to the `next` run's.
fn weight(run: &Run<'_>, next: u32) -> usize {
    let numbers = next.min(FOLLOWED_NUMBERS).saturating_sub(run.first);
    let is_often = OFTEN.contains(&libc::c_long::from(run.first));
    match run.ending {
        Ending::Check(_) if is_often => WEIGHT_OF_OFTEN,
        _ => 1 + numbers as usize,
    }
}

impl<'a> From<&'a Rule> for Ending<'a> {
    fn from(rule: &'a Rule) -> Self {
        match rule {
            Rule::Always(action) => Self::Return(*action),
            Rule::Check(check) => Self::Check(check),
        }
    }
}

/// Divides all numbers from 0 to `u32::MAX` into runs.
fn divide(filter: &Filter) -> Vec<Run<'_>> {
    let otherwise = Ending::Return(filter.otherwise());
    let mut runs = Vec::with_capacity(256);
    let mut next = 0;
    for (number, rule) in filter.rules() {
        if number > next {
            extend(&mut runs, next, otherwise);
        }
        extend(&mut runs, number, rule.into());
        next = number + 1;
    }
    if next < FOREIGN_NUMBERS {
        extend(&mut runs, next, otherwise);
    }
    let absent = Ending::Return(Action::Errno(libc::ENOSYS as u16));
    extend(&mut runs, FOREIGN_NUMBERS, absent);
    runs
}

/// Begins a run at `first`, unless the last one ends the same way and simply goes on.
fn extend<'a>(runs: &mut Vec<Run<'a>>, first: u32, ending: Ending<'a>) {
    if runs.last().is_none_or(|last| last.ending != ending) {
        runs.push(Run { first, ending });
    }
}

/// A place in the program: how many instructions there are from it to the end.
type Distance = usize;

/// A program under construction, last instruction first.
#[derive(Default)]
struct Backward {
    code: Vec<Instruction>,
    /// The returns so far. Runs and checks share them, because the kernel's own compiler spends
    /// three times as long on a return as on a test, at every start.
    returns: Vec<(Action, Distance)>,
}

impl Backward {
    /// The whole program, turned the right way round.
    fn write(filter: &Filter) -> Vec<Instruction> {
        let mut program = Self::default();
        let runs = divide(filter);
        program.search(&Runs::of(&runs), 0..runs.len());
        let native = program.put(opcode::LOAD, offset::NUMBER);
        let foreign = program.ret(Action::Kill);
        program.branch(opcode::IF_EQUAL, NATIVE_ARCHITECTURE, native, foreign);
        program.put(opcode::LOAD, offset::ARCHITECTURE);
        program.code.reverse();
        program.code
    }

    /// Finds the run of this range that the number in A belongs to, and ends as it says.
    fn search(&mut self, all: &Runs<'_>, range: Range<usize>) -> Distance {
        if range.len() == 1 {
            return self.end(all.runs[range.start].ending);
        }
        let middle = all.middle(&range);
        let above = self.search(all, middle..range.end);
        let below = self.search(all, range.start..middle);
        self.branch(opcode::IF_AT_LEAST, all.runs[middle].first, above, below)
    }

    fn end(&mut self, ending: Ending<'_>) -> Distance {
        match ending {
            Ending::Return(action) => self.ret(action),
            Ending::Check(check) => self.check(check),
        }
    }

    fn check(&mut self, check: &Check) -> Distance {
        let mut next_case = self.ret(check.otherwise);
        for case in check.cases.iter().rev() {
            let applies = self.ret(case.action);
            let tests = case.tests.iter().rev();
            next_case = tests.fold(applies, |holds, test| self.test(test, holds, next_case));
        }
        next_case
    }

    /// Goes on at `holds` when the argument meets the test, else at `fails`.
    fn test(&mut self, test: &Test, holds: Distance, fails: Distance) -> Distance {
        match &test.expect {
            Expect::Equal(value) => self.matches(test, u64::MAX, *value, holds, fails),
            Expect::OneOf(values) => values.iter().rev().fold(fails, |next, value| {
                self.matches(test, u64::MAX, *value, holds, next)
            }),
            Expect::Masked { mask, value } => self.matches(test, *mask, *value, holds, fails),
            Expect::AnyBit(mask) => self.any_bit(test, *mask, holds, fails),
            Expect::Unequal(value) => self.matches(test, u64::MAX, *value, fails, holds),
            Expect::AtLeast(value) => self.at_least(test, *value, holds, fails),
            Expect::Below(value) => self.at_least(test, *value, fails, holds),
        }
    }

    /// Both halves must match where both count.
    fn matches(
        &mut self,
        on: &Test,
        mask: u64,
        value: u64,
        holds: Distance,
        fails: Distance,
    ) -> Distance {
        let low = offset::low(on.argument);
        let low = self.word_matches(low, mask as u32, value as u32, holds, fails);
        match on.width {
            Width::Int => low,
            Width::Long => {
                let high = offset::high(on.argument);
                self.word_matches(high, high_half(mask), high_half(value), low, fails)
            }
        }
    }

    fn word_matches(
        &mut self,
        at: u32,
        mask: u32,
        value: u32,
        yes: Distance,
        no: Distance,
    ) -> Distance {
        self.branch(opcode::IF_EQUAL, value, yes, no);
        if mask != u32::MAX {
            self.put(opcode::AND, mask);
        }
        self.put(opcode::LOAD, at)
    }

    /// The high halves decide unless they are the same.
    fn at_least(&mut self, on: &Test, value: u64, holds: Distance, fails: Distance) -> Distance {
        self.branch(opcode::IF_AT_LEAST, value as u32, holds, fails);
        let low = self.put(opcode::LOAD, offset::low(on.argument));
        if on.width == Width::Int {
            return low;
        }
        let high = high_half(value);
        let not_equal = match high.checked_add(1) {
            Some(above) => self.branch(opcode::IF_AT_LEAST, above, holds, fails),
            None => fails,
        };
        self.branch(opcode::IF_EQUAL, high, low, not_equal);
        self.put(opcode::LOAD, offset::high(on.argument))
    }

    /// One bit in either half is enough where both count.
    fn any_bit(&mut self, on: &Test, mask: u64, holds: Distance, fails: Distance) -> Distance {
        self.branch(opcode::IF_ANY_BIT, mask as u32, holds, fails);
        let low = self.put(opcode::LOAD, offset::low(on.argument));
        match on.width {
            Width::Int => low,
            Width::Long => {
                self.branch(opcode::IF_ANY_BIT, high_half(mask), holds, low);
                self.put(opcode::LOAD, offset::high(on.argument))
            }
        }
    }

    /// A return near enough to be shared, or else a new one.
    fn ret(&mut self, action: Action) -> Distance {
        let here = self.code.len();
        let shared = |known: &&(Action, Distance)| known.0 == action && here - known.1 < NEAR;
        if let Some((_, place)) = self.returns.iter().find(shared) {
            return *place;
        }
        let place = self.put(opcode::RETURN, action.value());
        self.returns.push((action, place));
        place
    }

    /// A test of A that goes on at one of two places behind it.
    fn branch(&mut self, code: u16, k: u32, holds: Distance, fails: Distance) -> Distance {
        // The detour for `fails` may come to stand between the branch and `holds`; one
        // instruction is kept free for it.
        let holds = self.within_reach(holds, 1);
        let fails = self.within_reach(fails, 0);
        self.code.push(Instruction {
            code,
            jt: (self.code.len() - holds) as u8,
            jf: (self.code.len() - fails) as u8,
            k,
        });
        self.code.len()
    }

    /// `place`, or a detour to it when it is too far for the eight bits of a branch.
    fn within_reach(&mut self, place: Distance, reserve: usize) -> Distance {
        let distance = self.code.len() - place;
        if distance + reserve <= usize::from(u8::MAX) {
            return place;
        }
        self.put(opcode::JUMP, distance as u32)
    }

    fn put(&mut self, code: u16, k: u32) -> Distance {
        self.code.push(Instruction::statement(code, k));
        self.code.len()
    }
}

fn high_half(value: u64) -> u32 {
    (value >> 32) as u32
}
