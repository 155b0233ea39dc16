//! `linux.seccomp`: an engine's own filter.

use anyhow::bail;
use oci_spec::runtime::{
    Arch, LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompFilterFlag,
    LinuxSeccompOperator, LinuxSyscall,
};
use palisade_process::seccomp::{Action, Check, Expect, Filter, Test, call_number, long};
use std::collections::BTreeMap;

/// What `features` tells.
pub(crate) const ACTIONS: [&str; 8] = [
    "SCMP_ACT_KILL",
    "SCMP_ACT_KILL_PROCESS",
    "SCMP_ACT_KILL_THREAD",
    "SCMP_ACT_TRAP",
    "SCMP_ACT_ERRNO",
    "SCMP_ACT_TRACE",
    "SCMP_ACT_LOG",
    "SCMP_ACT_ALLOW",
];
pub(crate) const OPERATORS: [&str; 7] = [
    "SCMP_CMP_NE",
    "SCMP_CMP_LT",
    "SCMP_CMP_LE",
    "SCMP_CMP_EQ",
    "SCMP_CMP_GE",
    "SCMP_CMP_GT",
    "SCMP_CMP_MASKED_EQ",
];
pub(crate) const ARCHITECTURES: [&str; 1] = ["SCMP_ARCH_X86_64"];

/// `SECCOMP_FILTER_FLAG_SPEC_ALLOW`: without the kernel's mitigations of speculation.
pub(super) const SPEC_ALLOW: u32 = 1 << 2;

const RET_KILL_THREAD: u32 = 0;
const RET_TRAP: u32 = 0x0003_0000;
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_LOG: u32 = 0x7ffc_0000;

/// The filter and the flags that it is loaded with.
pub(super) fn filter(seccomp: &LinuxSeccomp) -> anyhow::Result<(Filter, u32)> {
    if seccomp.listener_path().is_some() {
        bail!(
            "policy: linux.seccomp.listenerPath is not supported: docs/containers.md has what is"
        );
    }
    // The list is of architectures beside the native one, which a filter is for in any case. The others' calls end the
    // process here, so that a filter that speaks of x86-64 says all there is to say.
    let foreign = seccomp.architectures().iter().flatten().all(|arch| {
        !matches!(
            arch,
            Arch::ScmpArchNative | Arch::ScmpArchX86_64 | Arch::ScmpArchX86 | Arch::ScmpArchX32
        )
    });
    if foreign
        && seccomp
            .architectures()
            .as_ref()
            .is_some_and(|all| !all.is_empty())
    {
        bail!("policy: linux.seccomp.architectures has none of this machine's");
    }
    let otherwise = action(seccomp.default_action(), seccomp.default_errno_ret())?;
    let mut filter = Filter::new(otherwise);
    for (number, rules) in by_call(seccomp)? {
        if let Some(rule) = rule(&rules, otherwise)? {
            filter.set(number, rule);
        }
    }
    if filter.rules().next().is_none() {
        // One that says the same of all calls is still a filter.
        filter.set(call_number("read").unwrap_or(0), otherwise);
    }
    Ok((filter, flags(seccomp)))
}

fn flags(seccomp: &LinuxSeccomp) -> u32 {
    let flags = seccomp.flags().iter().flatten();
    flags
        .map(|flag| match flag {
            LinuxSeccompFilterFlag::SeccompFilterFlagLog => 1 << 1,
            LinuxSeccompFilterFlag::SeccompFilterFlagSpecAllow => SPEC_ALLOW,
            // There is one thread, and nobody who listens.
            LinuxSeccompFilterFlag::SeccompFilterFlagTsync
            | LinuxSeccompFilterFlag::SeccompFilterFlagWaitKillableRecv => 0,
        })
        .fold(0, |all, flag| all | flag)
}

/// Rules by the number of the call. Names of other machines' calls are everywhere in such lists and mean nothing here.
fn by_call(seccomp: &LinuxSeccomp) -> anyhow::Result<BTreeMap<u32, Vec<&LinuxSyscall>>> {
    let mut calls: BTreeMap<u32, Vec<&LinuxSyscall>> = BTreeMap::new();
    for entry in seccomp.syscalls().iter().flatten() {
        for number in entry.names().iter().filter_map(|name| call_number(name)) {
            calls.entry(number).or_default().push(entry);
        }
    }
    Ok(calls)
}

/// As libseccomp has it: what is said without a condition ends the matter, whatever else is said; what is the default's anyway says
/// nothing. Of conditions that hold together the strictest counts.
fn rule(
    entries: &[&LinuxSyscall],
    otherwise: Action,
) -> anyhow::Result<Option<palisade_process::seccomp::Rule>> {
    let mut cases = Vec::new();
    for entry in entries {
        let action = action(entry.action(), entry.errno_ret())?;
        if action == otherwise {
            continue;
        }
        match entry.args().as_deref() {
            None | Some([]) => return Ok(Some(action.into())),
            Some(arguments) => cases.extend(conditions(arguments)?.map(|tests| (tests, action))),
        }
    }
    cases.sort_by_key(|(_, action)| action.leniency());
    let mut check = Check::otherwise(otherwise);
    for (tests, action) in cases {
        match tests {
            Some(tests) if tests.is_empty() => {
                // It always holds.
                check.otherwise = action;
                break;
            }
            Some(tests) => check = check.when(tests, action),
            None => {}
        }
    }
    Ok((!entries.is_empty()).then(|| check.into()))
}

/// Conditions on different arguments must all hold; of several on one argument, one (libseccomp has no other way to say it).
fn conditions(
    arguments: &[LinuxSeccompArg],
) -> anyhow::Result<impl Iterator<Item = Option<Vec<Test>>>> {
    let mut indices: Vec<_> = arguments.iter().map(LinuxSeccompArg::index).collect();
    indices.sort_unstable();
    let are_different = indices.windows(2).all(|pair| pair[0] != pair[1]);
    let groups: Vec<Vec<&LinuxSeccompArg>> = match are_different {
        true => vec![arguments.iter().collect()],
        false => arguments.iter().map(|argument| vec![argument]).collect(),
    };
    let mut all = Vec::new();
    for group in groups {
        let mut tests = Some(Vec::new());
        for argument in group {
            match test(argument)? {
                Held::By(test) => {
                    if let Some(tests) = &mut tests {
                        tests.push(test);
                    }
                }
                Held::Always => {}
                Held::Never => tests = None,
            }
        }
        all.push(tests);
    }
    Ok(all.into_iter())
}

enum Held {
    By(Test),
    Always,
    Never,
}

fn test(argument: &LinuxSeccompArg) -> anyhow::Result<Held> {
    use LinuxSeccompOperator as Operator;
    let Some(index) = u8::try_from(argument.index())
        .ok()
        .filter(|index| *index <= 5)
    else {
        bail!(
            "policy: linux.seccomp: there is no argument {}",
            argument.index()
        );
    };
    let value = argument.value();
    let expect = match argument.op() {
        Operator::ScmpCmpNe => Expect::Unequal(value),
        Operator::ScmpCmpEq => Expect::Equal(value),
        Operator::ScmpCmpGe => Expect::AtLeast(value),
        Operator::ScmpCmpLt if value == 0 => return Ok(Held::Never),
        Operator::ScmpCmpLt => Expect::Below(value),
        Operator::ScmpCmpGt => match value.checked_add(1) {
            Some(above) => Expect::AtLeast(above),
            None => return Ok(Held::Never),
        },
        Operator::ScmpCmpLe => match value.checked_add(1) {
            Some(above) => Expect::Below(above),
            None => return Ok(Held::Always),
        },
        Operator::ScmpCmpMaskedEq => {
            // Bits outside the mask are looked at on neither side.
            Expect::Masked {
                mask: value,
                value: argument.value_two().unwrap_or(0) & value,
            }
        }
    };
    Ok(Held::By(long(index).expect(expect)))
}

fn action(action: LinuxSeccompAction, errno: Option<u32>) -> anyhow::Result<Action> {
    let number = errno.unwrap_or(libc::EPERM as u32);
    let Ok(short) = u16::try_from(number) else {
        bail!("policy: linux.seccomp: {number} is no error number");
    };
    Ok(match action {
        LinuxSeccompAction::ScmpActAllow => Action::Allow,
        LinuxSeccompAction::ScmpActErrno => Action::Errno(short),
        LinuxSeccompAction::ScmpActKillProcess => Action::Kill,
        LinuxSeccompAction::ScmpActKill | LinuxSeccompAction::ScmpActKillThread => {
            Action::Other(RET_KILL_THREAD)
        }
        LinuxSeccompAction::ScmpActTrap => Action::Other(RET_TRAP | u32::from(short)),
        LinuxSeccompAction::ScmpActTrace => Action::Other(RET_TRACE | u32::from(short)),
        LinuxSeccompAction::ScmpActLog => Action::Other(RET_LOG),
        LinuxSeccompAction::ScmpActNotify => {
            bail!(
                "policy: linux.seccomp: SCMP_ACT_NOTIFY is not supported: docs/containers.md has what is"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const GETPRIORITY: u32 = 140;
    const EPERM: Action = Action::Errno(1);

    /// What becomes of a call with each of these first arguments.
    fn decided(default: &str, rules: serde_json::Value) -> Vec<Action> {
        let entries: Vec<LinuxSyscall> = serde_json::from_value(rules).unwrap();
        let entries: Vec<_> = entries.iter().collect();
        let otherwise = action(serde_json::from_value(default.into()).unwrap(), None).unwrap();
        let mut filter = Filter::new(otherwise);
        filter.set(GETPRIORITY, rule(&entries, otherwise).unwrap().unwrap());
        (0..4)
            .map(|first| filter.decide(GETPRIORITY, &[first, 0, 0, 0, 0, 0]))
            .collect()
    }

    fn entry(action: &str, args: serde_json::Value) -> serde_json::Value {
        json!({ "names": ["getpriority"], "action": action, "args": args })
    }

    #[test]
    fn what_is_said_without_a_condition_ends_the_matter() {
        let all = entry("SCMP_ACT_ERRNO", json!([]));
        let one = entry(
            "SCMP_ACT_LOG",
            json!([{ "index": 0, "value": 0, "op": "SCMP_CMP_EQ" }]),
        );
        for rules in [json!([all, one]), json!([one, all])] {
            assert_eq!(decided("SCMP_ACT_ALLOW", rules), [EPERM; 4]);
        }
    }

    #[test]
    fn the_strictest_of_conditions_counts() {
        let some = entry(
            "SCMP_ACT_ALLOW",
            json!([{ "index": 0, "value": 2, "op": "SCMP_CMP_LE" }]),
        );
        let one = entry(
            "SCMP_ACT_ERRNO",
            json!([{ "index": 0, "value": 1, "op": "SCMP_CMP_EQ" }]),
        );
        assert_eq!(
            decided("SCMP_ACT_KILL_PROCESS", json!([some, one])),
            [Action::Allow, EPERM, Action::Allow, Action::Kill]
        );
    }

    #[test]
    fn a_mask_is_of_both_sides() {
        let masked = json!([{ "index": 0, "value": 1, "valueTwo": 3, "op": "SCMP_CMP_MASKED_EQ" }]);
        assert_eq!(
            decided("SCMP_ACT_ALLOW", json!([entry("SCMP_ACT_ERRNO", masked)])),
            [Action::Allow, EPERM, Action::Allow, EPERM]
        );
    }
}
