//! What palisade says on stderr, and the exit code that goes with it.

use palisade_lab::cost::CommandError;
use palisade_process::LaunchError;
use palisade_wall::{Ending, Exit, Report};
use std::io::Write;

/// Prints a line on stderr, if there is still somebody to read it: a terminal that is gone is no
/// reason to fail.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "palisade: {text}");
}

/// Prints why palisade refused or failed. Causes that are not in the message follow it.
pub(crate) fn error(error: &anyhow::Error) {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    self::line(&line);
}

/// 126 and 127 are the guest's program that can't be executed or found, as in every shell.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    let launched = error.downcast_ref::<LaunchError>();
    let looked_up = error.downcast_ref::<CommandError>();
    match (launched, looked_up) {
        (Some(LaunchError::NotFound { .. }), _) | (_, Some(CommandError::NotFound { .. })) => 127,
        (Some(LaunchError::CannotExecute { .. }), _)
        | (_, Some(CommandError::CannotExecute { .. })) => 126,
        _ => crate::FAILED,
    }
}

/// Prints why the guest ended, where its own output can't have told.
pub(crate) fn ending(report: &Report) {
    let line = match report.ending {
        Ending::TimeLimit => "limit: the guest ran longer than --time allows",
        Ending::CpuTimeLimit => "limit: the guest used more processor time than --cpu-time allows",
        Ending::OutputLimit => "limit: the guest wrote more than --output allows",
        Ending::MemoryLimit => "limit: the guest used more memory than --memory allows",
        Ending::Guest | Ending::Supervisor => return by_itself(report),
    };
    self::line(&format!("{line}; raise it if that was meant"));
}

fn by_itself(report: &Report) {
    match &report.trap {
        Some(trap) => line(&format!("guest: trap: {trap}")),
        None => by_signal(report),
    }
}

fn by_signal(report: &Report) {
    // Asked for from outside or by the end of a pipeline: nobody wonders about these.
    const EXPECTED: [u8; 4] = [1, 2, 13, 15];
    let Exit::Signal(signal) = report.exit else {
        return;
    };
    if EXPECTED.contains(&signal) {
        return;
    }
    let name = signal_name(signal);
    match signal {
        31 => line(&format!(
            "guest: ended by {name}: it made a system call of another architecture (32-bit)"
        )),
        25 => line("limit: the guest wrote a file larger than --file-size allows"),
        24 => line("limit: a process used more processor time than --cpu-time allows"),
        _ => line(&format!("guest: ended by {name}")),
    }
}

/// `SIGSEGV`, or the number where it has no name.
pub(crate) fn signal_name(number: u8) -> String {
    let name = signal_hook::low_level::signal_name(number.into());
    name.map_or_else(|| format!("signal {number}"), ToOwned::to_owned)
}
