//! The sentences: how the guest ended, and each denial.

use super::opens;
use crate::{denial, say};
use palisade_policy::visible;
use palisade_wall::{Denial, Ending, Exit, Report};

/// A command line longer than this is cut.
const MOST_COMMAND_CHARS: usize = 120;

/// The whole explanation, in lines.
pub(super) fn explain(report: &Report) -> String {
    let mut text = format!("{}\n", describe_end(report));
    if let Some(trap) = &report.trap {
        text += &format!("It broke a rule of WebAssembly: {}.\n", visible(trap));
    }
    if report.denials.is_empty() {
        text += "Nothing was denied that the wall could tell of.\n";
    }
    for denial in &report.denials {
        text += &format!("- {}\n", describe(denial));
    }
    text
}

fn describe_end(report: &Report) -> String {
    let how = match (report.ending, report.exit) {
        (Ending::Guest, Exit::Code(0)) => "ended well".to_owned(),
        (Ending::Guest, Exit::Code(code)) => format!("ended itself with exit code {code}"),
        (Ending::Guest, Exit::Signal(signal)) => {
            format!("was ended by {}", say::signal_name(signal))
        }
        (Ending::TimeLimit, _) => "was ended, for it ran longer than --time allows".to_owned(),
        (Ending::CpuTimeLimit, _) => {
            "was ended, for it used more processor time than --cpu-time allows".to_owned()
        }
        (Ending::OutputLimit, _) => "was ended, for it wrote more than --output allows".to_owned(),
        (Ending::MemoryLimit, _) => {
            "was ended by the kernel, for it used more memory than --memory allows".to_owned()
        }
        (Ending::Unprotected, _) => format!(
            "was ended, for somebody outside moved, replaced or removed {}, which takes its protection away",
            report
                .lost
                .as_deref()
                .map_or("a protected path".into(), visible)
        ),
        (Ending::Supervisor, _) => "was ended by whoever had started it".to_owned(),
        (Ending::Operator, _) => "was ended by `palisade kill`".to_owned(),
    };
    let code = match report.exit {
        Exit::Code(code) if report.exit_code == code => String::new(),
        _ => format!("; palisade answered with exit code {}", report.exit_code),
    };
    format!("{} {how}{code}.", command_of(report))
}

fn command_of(report: &Report) -> String {
    let words = report
        .command
        .iter()
        .map(|word| denial::quote(&visible(word)));
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST_COMMAND_CHARS) {
        Some((end, _)) => format!("`{} …`", &line[..end]),
        None => format!("`{line}`"),
    }
}

/// Who tried what, why it was refused, which flag would allow it, what that would open.
fn describe(denial: &Denial) -> String {
    let who = match &denial.process {
        Some(process) if process.pid == 0 => visible(&process.name).into_owned(),
        Some(process) => format!("{} (process {})", visible(&process.name), process.pid),
        None => "The guest".to_owned(),
    };
    let times = denial::times(denial).map_or_else(String::new, |times| format!(" {times}"));
    let what = visible(&denial.what);
    if denial.probe && denial.address.is_none() {
        return format!(
            "{who} asked a name server{times}, and there is none: which name it was could not be seen, and nothing is lost \
             if it was that of an address, for a log. `--connect tcp://NAME:PORT` grants one."
        );
    }
    if denial.probe {
        return format!(
            "{who} tried the route for {what}{times}, as getaddrinfo(3) does with each address of a \
             name: nothing is lost by it, and a grant is needed only if the program fails."
        );
    }
    let advice = advise(denial).map_or_else(String::new, |advice| format!("; {advice}"));
    format!("{who} wanted {what}{times}: {}{advice}.", reason_of(denial))
}

/// Where the wall did not say why, the flag tells which rule it was.
fn reason_of(denial: &Denial) -> String {
    match (&denial.reason, &denial.grant) {
        (Some(reason), _) => visible(reason).into_owned(),
        (None, None) => "no policy can allow it".to_owned(),
        (None, Some(grant)) if grant.contains(' ') => "no grant covers it".to_owned(),
        (None, Some(limit)) => format!("it is beyond the limit {}", visible(limit)),
    }
}

/// What can be done about it, where the reason leaves that open.
fn advise(denial: &Denial) -> Option<String> {
    let Some(grant) = &denial.grant else {
        let is_open = denial.process.is_some() && denial.reason.is_some();
        return is_open.then(|| "no flag allows it".to_owned());
    };
    let flag = denial::flag(grant);
    Some(match opens::describe(grant) {
        Some(opened) => format!("`{flag}` would open {opened}"),
        None if grant.contains(' ') => format!("`{flag}` would allow it"),
        None => format!("a larger `{flag}` would allow it"),
    })
}
