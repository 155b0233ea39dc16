//! `palisade grant` and `palisade revoke`: a running guest is granted more, and less again.

use super::domains;
use crate::{args::GrantArgs, say};
use anyhow::bail;
use palisade_command_line::FAILED;
use palisade_policy::visible;
use palisade_process::running::Change;

/// At a time: what is asked for and the answer are messages.
const MOST: usize = 64;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Grant,
    Revoke,
}

/// Has it done, all that can be; says what cannot.
pub(crate) fn grant(args: &GrantArgs, what: What) -> anyhow::Result<u8> {
    let flags = |flag: &'static str, values: &[String]| -> Vec<String> {
        values
            .iter()
            .map(|value| format!("{flag} {value}"))
            .collect()
    };
    let flags = [
        flags("--connect", &args.connect),
        flags("--listen", &args.listen),
    ]
    .concat();
    if flags.len() > MOST {
        bail!("usage: at most {MOST} at a time");
    }
    let change = match what {
        What::Grant => Change {
            grant: flags,
            ..Change::default()
        },
        What::Revoke => Change {
            revoke: flags,
            ..Change::default()
        },
    };
    let changed = domains::find(&args.domain)?.change(&change)?;
    for (flag, why) in &changed.refused {
        say::line(&format!("policy: {}: {}", visible(flag), visible(why)));
    }
    if what == What::Revoke && !changed.done.is_empty() {
        say::line("note: connections that are open stay");
    }
    Ok(if changed.refused.is_empty() {
        0
    } else {
        FAILED
    })
}
