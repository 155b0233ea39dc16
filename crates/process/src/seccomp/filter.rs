//! A filter as data: which call ends how, and which arguments decide.

use super::rules::Rules;
use crate::wire;
use std::collections::BTreeMap;

use serde::Serialize;

/// What becomes of every system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Filter {
    rules: Rules,
    otherwise: Action,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Action {
    /// The kernel performs it.
    Allow,
    /// The kernel skips it and returns this error number, at most 4095.
    Errno(u16),
    /// The supervisor answers it (seccomp_unotify(2)).
    Notify,
    /// The supervisor or init looks at it and lets it go on.
    Look,
    /// The supervisor is told of it, and answers that there is no such call.
    Absent,
    /// The supervisor has it carried out inside, under Landlock rules that the caller is not under.
    Ruled,
    /// The kernel ends the process with `SIGSYS`.
    Kill,
    /// What else seccomp(2) knows: the value that a filter returns.
    Other(u32),
}

/// What a filter says about one system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Rule {
    /// The same for every argument. Such calls that are allowed are answered by the kernel's bitmap
    /// and never run the filter.
    Always(Action),
    /// The arguments decide. Such calls run the filter each time.
    Check(Check),
}

/// A list of cases: the first that applies decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The cases, in the order in which they are tried.
    pub cases: Vec<Case>,
    /// What happens when none applies.
    pub otherwise: Action,
}

/// One line of a [`Check`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// All must hold for the case to apply.
    pub tests: Vec<Test>,
    /// What happens then.
    pub action: Action,
}

/// One comparison of one argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Test {
    /// Which argument, from 0 to 5.
    pub argument: u8,
    /// How much of the register the kernel looks at.
    pub width: Width,
    /// What it must be.
    pub expect: Expect,
}

/// How much of an argument's 64-bit register counts.
///
/// It must be what the kernel itself reads. A filter that compares more lets a guest hide a value
/// behind garbage in the upper half; a filter that compares less lets it smuggle one there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Width {
    /// The kernel declares `int`, `unsigned` or a shorter type and ignores the upper 32 bits.
    Int,
    /// The kernel declares `long` or `u64` and reads all 64 bits.
    Long,
}

/// What an argument is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Expect {
    /// Exactly this value.
    Equal(u64),
    /// This value once all bits outside the mask are cleared.
    Masked {
        /// The bits that are looked at.
        mask: u64,
        /// What they must be.
        value: u64,
    },
    /// At least one bit of this mask.
    AnyBit(u64),
    /// One of these values.
    OneOf(Vec<u64>),
    /// Anything but this value.
    Unequal(u64),
    /// This value or a larger one.
    AtLeast(u64),
    /// A smaller value than this.
    Below(u64),
}

impl Filter {
    /// A filter with no rule yet, which does `otherwise` to every call.
    #[must_use]
    pub fn new(otherwise: Action) -> Self {
        Self {
            rules: Rules::new(),
            otherwise,
        }
    }

    /// Sets what happens to one call, whatever was set for it before.
    pub fn set(&mut self, number: u32, rule: impl Into<Rule>) {
        self.rules.insert(number, rule.into());
    }

    /// Has somebody look at what is allowed of one call, but where this test holds.
    pub(super) fn look_at(&mut self, number: u32, except: Option<Test>) {
        let looked = |action| match action {
            Action::Allow => Action::Look,
            other => other,
        };
        let mut check = match self.rules.remove(number) {
            Some(Rule::Check(check)) => check,
            Some(Rule::Always(action)) => Check::otherwise(action),
            None => return,
        };
        for case in &mut check.cases {
            case.action = looked(case.action);
        }
        // Only what is allowed may be an exception, and whatever decides comes before it.
        if check.otherwise == Action::Allow {
            check = match except {
                Some(test) => check.when([test], Action::Allow),
                None => check,
            };
            check.otherwise = Action::Look;
        }
        self.set(number, check);
    }

    /// What this filter and an older one around it come to. The kernel takes the stricter of two, and of two error numbers the newer
    /// filter's (seccomp(2)).
    #[must_use]
    pub fn and(&self, older: &Self) -> Self {
        let mut both = Self::new(self.otherwise.or_stricter(older.otherwise));
        for (number, _) in self.rules().chain(older.rules()) {
            let rules = [self, older].map(|filter| filter.check_of(number));
            both.set(number, rules[0].and(&rules[1]));
        }
        both
    }

    /// Leaves what is refused with an error number to a supervisor, but for these calls.
    #[must_use]
    pub fn asking(mut self, except: &[u32]) -> Self {
        let asked = |action: &mut Action| {
            if let Action::Errno(_) = action {
                *action = Action::Notify;
            }
        };
        asked(&mut self.otherwise);
        for (_, rule) in self
            .rules
            .iter_mut()
            .filter(|(call, _)| !except.contains(call))
        {
            match rule {
                Rule::Always(action) => asked(action),
                Rule::Check(check) => {
                    asked(&mut check.otherwise);
                    check
                        .cases
                        .iter_mut()
                        .for_each(|case| asked(&mut case.action));
                }
            }
        }
        self
    }

    /// Which arguments of a call are looked at, and the bits of them that the kernel reads.
    #[must_use]
    pub fn looked_at(&self, number: u32) -> BTreeMap<u8, u64> {
        let cases = self.check_of(number).cases;
        let mut looked_at = BTreeMap::new();
        for test in cases.iter().flat_map(|case| &case.tests) {
            *looked_at.entry(test.argument).or_default() |= test.width.mask();
        }
        looked_at
    }

    fn check_of(&self, number: u32) -> Check {
        match self.rules.get(number) {
            None => Check::otherwise(self.otherwise),
            Some(Rule::Always(action)) => Check::otherwise(*action),
            Some(Rule::Check(check)) => check.clone(),
        }
    }

    /// The program that seccomp(2) takes: eight bytes an instruction.
    ///
    /// # Errors
    ///
    /// When it has no rule, a rule that cannot mean what it says, or too many rules.
    pub fn program(&self) -> Result<Vec<u8>, super::CompileError> {
        super::program(self)
    }

    /// The calls that have a rule, by ascending number.
    pub fn rules(&self) -> impl Iterator<Item = (u32, &Rule)> {
        self.rules.iter()
    }

    /// What happens to a call that has no rule.
    #[must_use]
    pub fn otherwise(&self) -> Action {
        self.otherwise
    }

    /// What this filter means for one call on the native architecture. The compiled program must
    /// agree; the tests compare the two.
    #[must_use]
    pub fn decide(&self, number: u32, arguments: &[u64; 6]) -> Action {
        match self.rules.get(number) {
            None => self.otherwise,
            Some(Rule::Always(action)) => *action,
            Some(Rule::Check(check)) => check.decide(arguments),
        }
    }
}

impl Action {
    /// The order in which the kernel prefers what several filters say, the strictest first (seccomp(2)).
    #[must_use]
    pub fn leniency(self) -> i32 {
        (self.value() & libc::SECCOMP_RET_ACTION_FULL) as i32
    }

    fn or_stricter(self, other: Self) -> Self {
        match other.leniency() < self.leniency() {
            true => other,
            false => self,
        }
    }

    /// What a program returns for it.
    pub(super) fn value(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Errno(errno) => libc::SECCOMP_RET_ERRNO | u32::from(errno),
            Self::Notify => libc::SECCOMP_RET_USER_NOTIF,
            Self::Look => libc::SECCOMP_RET_USER_NOTIF | wire::LOOK,
            Self::Absent => libc::SECCOMP_RET_USER_NOTIF | wire::ABSENT,
            Self::Ruled => libc::SECCOMP_RET_USER_NOTIF | wire::RULED,
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
            Self::Other(value) => value,
        }
    }
}

impl Check {
    /// A check with no case yet.
    #[must_use]
    pub fn otherwise(action: Action) -> Self {
        Self {
            cases: Vec::new(),
            otherwise: action,
        }
    }

    /// Adds a case after those that are there.
    #[must_use]
    pub fn when(mut self, tests: impl Into<Vec<Test>>, action: Action) -> Self {
        self.cases.push(Case {
            tests: tests.into(),
            action,
        });
        self
    }

    /// As [`when`](Self::when), where the plan needs it.
    #[must_use]
    pub fn when_if(self, needed: bool, tests: impl Into<Vec<Test>>, action: Action) -> Self {
        match needed {
            true => self.when(tests, action),
            false => self,
        }
    }

    /// Cases of this one are tried in turn, each with all of the other's: the first pair that applies is of the first of each that does.
    fn and(&self, other: &Self) -> Self {
        let all = |check: &Self| {
            let last = Case {
                tests: Vec::new(),
                action: check.otherwise,
            };
            check
                .cases
                .iter()
                .cloned()
                .chain([last])
                .collect::<Vec<_>>()
        };
        let (ours, theirs) = (all(self), all(other));
        let pairs = ours
            .iter()
            .flat_map(|one| theirs.iter().map(move |other| (one, other)));
        let mut cases: Vec<Case> = pairs
            .map(|(one, other)| Case {
                tests: [&one.tests[..], &other.tests].concat(),
                action: one.action.or_stricter(other.action),
            })
            .collect();
        let otherwise = cases.pop().map_or(self.otherwise, |last| last.action);
        Self { cases, otherwise }
    }

    fn decide(&self, arguments: &[u64; 6]) -> Action {
        self.cases
            .iter()
            .find(|case| case.tests.iter().all(|test| test.holds(arguments)))
            .map_or(self.otherwise, |case| case.action)
    }
}

impl Test {
    fn holds(&self, arguments: &[u64; 6]) -> bool {
        let word = self.width.mask() & arguments[usize::from(self.argument)];
        match &self.expect {
            Expect::Equal(value) => word == *value,
            Expect::Masked { mask, value } => word & mask == *value,
            Expect::AnyBit(mask) => word & mask != 0,
            Expect::OneOf(values) => values.contains(&word),
            Expect::Unequal(value) => word != *value,
            Expect::AtLeast(value) => word >= *value,
            Expect::Below(value) => word < *value,
        }
    }

    /// Whether some argument can meet it. One that none can meet is a slip of the pen.
    pub(super) fn can_hold(&self) -> bool {
        let fits = |value: &u64| value & !self.width.mask() == 0;
        match &self.expect {
            Expect::Equal(value) | Expect::Unequal(value) | Expect::AtLeast(value) => fits(value),
            Expect::Below(value) => fits(value) && *value != 0,
            Expect::Masked { mask, value } => fits(mask) && value & !mask == 0,
            Expect::AnyBit(mask) => fits(mask) && *mask != 0,
            Expect::OneOf(values) => !values.is_empty() && values.iter().all(fits),
        }
    }
}

impl Width {
    fn mask(self) -> u64 {
        match self {
            Self::Int => u64::from(u32::MAX),
            Self::Long => u64::MAX,
        }
    }
}

impl From<Action> for Rule {
    fn from(action: Action) -> Self {
        Self::Always(action)
    }
}

/// A check without a case is no check, and must not cost one.
impl From<Check> for Rule {
    fn from(check: Check) -> Self {
        match check.cases.is_empty() {
            true => Self::Always(check.otherwise),
            false => Self::Check(check),
        }
    }
}

/// One argument, to be compared.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    index: u8,
    width: Width,
}

/// An argument that the kernel declares `int`, `unsigned` or shorter.
#[must_use]
pub fn int(index: u8) -> Argument {
    let width = Width::Int;
    Argument { index, width }
}

/// An argument that the kernel declares `long` or `u64`.
#[must_use]
pub fn long(index: u8) -> Argument {
    let width = Width::Long;
    Argument { index, width }
}

impl Argument {
    /// It is exactly `value`.
    #[must_use]
    pub fn is(self, value: u64) -> Test {
        self.expect(Expect::Equal(value))
    }

    /// Its bits below `mask` are `value`.
    #[must_use]
    pub fn masked(self, mask: u64, value: u64) -> Test {
        self.expect(Expect::Masked { mask, value })
    }

    /// It has no bit outside `mask`.
    #[must_use]
    pub fn within(self, mask: u64) -> Test {
        self.masked(self.width.mask() & !mask, 0)
    }

    /// It has at least one bit of `mask`.
    #[must_use]
    pub fn has_any(self, mask: u64) -> Test {
        self.expect(Expect::AnyBit(mask))
    }

    /// It is one of `values`.
    #[must_use]
    pub fn one_of(self, values: impl Into<Vec<u64>>) -> Test {
        self.expect(Expect::OneOf(values.into()))
    }

    /// It is as expected.
    #[must_use]
    pub fn expect(self, expect: Expect) -> Test {
        Test {
            argument: self.index,
            width: self.width,
            expect,
        }
    }
}
