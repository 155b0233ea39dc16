//! What is said of a guest's end, and the exit code that goes with a failure. It leaves by [`palisade_command_line::say`].

pub(crate) use palisade_command_line::say::{
    error, json, line, lines, print, print_json, print_own,
};

use crate::denial;
use palisade_command_line::FAILED;
use palisade_policy::visible;
use palisade_wall::{Cause, Ending, Error, Exit, Report};

/// 126 and 127 are the guest's program that can't be executed or found, as in every shell; 124 is the limit
/// on time, which compiling may have used up.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<Error>().map(Error::cause) {
        Some(Cause::TimeLimit) => Ending::TimeLimit.shell_code(Exit::Code(0)),
        Some(Cause::NotFound) => 127,
        Some(Cause::CannotExecute) => 126,
        _ => FAILED,
    }
}

/// Prints why the guest ended, where its own output can't have told.
pub(crate) fn ending(report: &Report) {
    let line = match report.ending {
        Ending::TimeLimit => "limit: the guest ran longer than --time allows",
        Ending::CpuTimeLimit => "limit: the guest used more processor time than --cpu-time allows",
        Ending::OutputLimit => "limit: the guest wrote more than --output allows",
        Ending::MemoryLimit => "limit: the guest used more memory than --memory allows",
        Ending::Unprotected => return unprotected(report),
        Ending::Operator => return line("the guest was ended by `palisade kill`"),
        Ending::Guest | Ending::Supervisor => return by_itself(report),
    };
    self::line(&format!("{line}; raise it if that was meant"));
}

/// Prints which limits a guest that failed by itself ran into, where a mechanism can tell: programs report these
/// as riddles, if at all.
pub(crate) fn limits(report: &Report) {
    if report.ending == Ending::Guest && report.exit_code != 0 {
        reached(report).iter().for_each(|text| line(text));
    }
}

fn reached(report: &Report) -> Vec<String> {
    let limits = report.denials.iter().filter_map(|denial| {
        let flag = denial.grant.as_deref()?;
        let is_known = ["--memory", "--processes", "--tmp-size"].contains(&flag);
        is_known.then(|| {
            let times =
                denial::times(denial).map_or_else(String::new, |times| format!(", {times}"));
            format!(
                "limit: the guest wanted {} than {flag} allows{times}; raise it if that was meant",
                denial.what
            )
        })
    });
    limits.collect()
}

fn unprotected(report: &Report) {
    let path = visible(report.lost.as_deref().unwrap_or("a protected path"));
    let of_git = match path.split('/').any(|name| name == ".git") {
        true => {
            ". What git executes is guarded unasked: --no-guard (guard = false) leaves it to the guest"
        }
        false => "",
    };
    line(&format!(
        "host: {path} was moved, replaced or removed outside, which takes its protection away, and the guest was ended; look \
         at what is there now. What lies in a protected folder may be replaced: protect the folder, or grant it with --read{of_git}"
    ));
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
