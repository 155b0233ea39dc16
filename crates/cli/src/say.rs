//! What palisade says on stderr, and the exit code that goes with it.

use palisade_process::LaunchError;
use palisade_wall::{Ending, Exit, Report};

/// Prints why palisade refused or failed. Causes that are not in the message follow it.
pub(crate) fn error(error: &anyhow::Error) {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    eprintln!("palisade: {line}");
}

/// 126 and 127 are the guest's program that can't be executed or found, as in every shell.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<LaunchError>() {
        Some(LaunchError::NotFound { .. }) => 127,
        Some(LaunchError::CannotExecute { .. }) => 126,
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
        Ending::Guest | Ending::Supervisor => return by_signal(report),
    };
    eprintln!("palisade: {line}; raise it if that was meant");
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
        31 => eprintln!(
            "palisade: guest: ended by {name}: it made a system call of another architecture (32-bit)"
        ),
        25 => eprintln!("palisade: limit: the guest wrote a file larger than --file-size allows"),
        24 => {
            eprintln!("palisade: limit: a process used more processor time than --cpu-time allows");
        }
        _ => eprintln!("palisade: guest: ended by {name}"),
    }
}

fn signal_name(number: u8) -> String {
    let name = signal_hook::low_level::signal_name(number.into());
    name.map_or_else(|| format!("signal {number}"), ToOwned::to_owned)
}
