//! The sentences: how the guest ended, and each denial.

use super::{
    opens,
    remedy::{MANY, Missed},
};
use crate::{denial, say};
use palisade_policy::visible;
use palisade_process::places::IN_PART;
use palisade_wall::{Denial, Ending, Exit, Granted, Report, ask::Verdict};

/// A command line longer than this is cut.
const MOST_COMMAND_CHARS: usize = 120;

/// The whole explanation, in lines.
pub(super) fn explain(report: &Report, missed: &[Missed]) -> String {
    let mut text = format!("{}\n", describe_end(report));
    if let Some(trap) = &report.trap {
        text += &format!("It broke a rule of WebAssembly: {}.\n", visible(trap));
    }
    for granted in &report.granted {
        text += &format!("- {}\n", describe_granted(granted));
    }
    if report.denials.is_empty() {
        text += "Nothing was denied that the wall could tell of.\n";
    }
    let mut told: Vec<&Missed> = Vec::new();
    for denial in by_importance(report) {
        let whole = missed.iter().find(|one| one.allows(denial));
        let group = whole.and_then(|whole| Some((whole, Group::of(whole, report)?)));
        match group {
            Some((whole, _)) if told.contains(&whole) => {}
            Some((whole, group)) => {
                told.push(whole);
                text += &format!("- {}\n", group.describe());
            }
            None => text += &format!("- {}\n", describe(denial)),
        }
    }
    text
}

/// What it is likely to have failed for comes first: a limit, then what a process was denied that failed itself, and then what
/// others were.
fn by_importance(report: &Report) -> Vec<&Denial> {
    let mut denials: Vec<_> = report.denials.iter().collect();
    let is_limit = |denial: &Denial| {
        let flag = denial.grant.as_deref();
        flag.is_some_and(|flag| !flag.contains(' '))
    };
    denials.sort_by_key(|denial| (denial.probe, !is_limit(denial), !denial.is_of_failed()));
    denials
}

fn describe_granted(granted: &Granted) -> String {
    let how = match granted.verdict {
        _ if granted.revoked_at_us.is_some() => "until it was taken back",
        Some(Verdict::Once) => "once",
        Some(Verdict::Always) => "always",
        _ => "until it ended",
    };
    let what = visible(granted.grant.split_once(' ').map_or("", |(_, value)| value));
    match &granted.process {
        Some(process) => format!(
            "{} asked for {what} and was granted it, {how}.",
            visible(&process.name)
        ),
        None => format!("{what} was granted by `palisade grant`, {how}."),
    }
}

/// Many files in a folder that one flag would allow.
struct Group<'a> {
    folder: &'a Missed,
    denials: Vec<&'a Denial>,
}

impl<'a> Group<'a> {
    fn of(folder: &'a Missed, report: &'a Report) -> Option<Self> {
        folder.path()?;
        let denials = report.denials.iter();
        let denials: Vec<_> = denials.filter(|denial| folder.allows(denial)).collect();
        (denials.len() >= MANY).then_some(Self { folder, denials })
    }

    fn describe(&self) -> String {
        let access = match self.folder.key {
            "write" => "write access to ",
            _ => "",
        };
        format!(
            "{} wanted {access}{} files and folders below {}: {}; {}.",
            self.who(),
            self.denials.len(),
            visible(&self.folder.value),
            reason_of(self.denials[0]),
            advise_flag(&self.folder.grant()),
        )
    }

    fn who(&self) -> String {
        const MOST_NAMES: usize = 3;
        let processes = (self.denials.iter()).filter_map(|denial| denial.process.as_ref());
        let mut names: Vec<_> = Vec::new();
        for name in processes.map(|process| visible(&process.name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        match names.len() {
            0 => "The guest".to_owned(),
            1..=MOST_NAMES => names.join(", "),
            _ => format!("{} and others", names[..MOST_NAMES].join(", ")),
        }
    }
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
        Some(process) => {
            let name = visible(&process.name);
            format!("{name} (process {}){}", process.pid, how_it_ended(denial))
        }
        None => "The guest".to_owned(),
    };
    let times = denial::times(denial).map_or_else(String::new, |times| format!(" {times}"));
    let what = visible(&denial.what);
    if denial.probe && denial.address.is_none() && denial.call.is_some() {
        return format!(
            "{who} wanted {what}{times}: {}; most programs do without.",
            reason_of(denial)
        );
    }
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

/// Of a process that failed: it may be for this.
fn how_it_ended(denial: &Denial) -> String {
    match denial.ended.filter(|_| denial.is_of_failed()) {
        Some(Exit::Code(code)) => format!(", which ended with exit code {code},"),
        Some(Exit::Signal(signal)) => {
            format!(", which was ended by {},", say::signal_name(signal))
        }
        _ => String::new(),
    }
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
        let told = Some(denial::without_flag(denial)).filter(|told| is_open && *told != IN_PART);
        return told.map(str::to_owned);
    };
    Some(advise_flag(grant))
}

fn advise_flag(grant: &str) -> String {
    let flag = denial::flag(grant);
    match opens::describe(grant) {
        Some(opened) => format!("`{flag}` would open {opened}"),
        None if grant.contains(' ') => format!("`{flag}` would allow it"),
        None => format!("a larger `{flag}` would allow it"),
    }
}
