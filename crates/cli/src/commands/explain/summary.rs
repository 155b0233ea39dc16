//! What a plan comes to, in ten lines or fewer, for who has never read one.

use crate::shell;
use palisade_policy::{Access, ConnectGrant, FileGrant, Policy, setting::LIMITS, write_line};
use palisade_process::Launcher;
use palisade_wall::{Command, Level, Plan, View};
use std::fmt::Display;

/// Of each kind; the steps below name all.
const MOST_NAMED: usize = 4;

/// The lines, each with what it is about before it.
pub(super) fn describe(
    policy: &Policy,
    command: &Command,
    plan: &dyn Plan<Launcher = Launcher>,
) -> String {
    let view = plan.view();
    let lines = [
        ("program", program(command, plan)),
        ("reads", reads(policy, view)),
        ("writes", writes(policy, view)),
        ("executes", executes(policy, plan)),
        ("reaches", reaches(policy)),
        ("devices", devices(policy, view)),
        ("variables", variables(view)),
        ("limits", limits(view)),
        ("weaker", weaker(view)),
    ];
    let mut text = String::new();
    for (about, told) in lines {
        // Writing to a String cannot fail.
        let _ = write_line(&mut text, format_args!("{about:<10}{told}"));
    }
    text
}

fn program(command: &Command, plan: &dyn Plan<Launcher = Launcher>) -> String {
    let words = std::iter::once(&command.program).chain(&command.arguments);
    let words: Vec<_> = words.map(shell::quote).collect();
    format!(
        "{}, behind the {} wall, in {}",
        words.join(" "),
        plan.wall(),
        plan.view().cwd().display()
    )
}

fn reads(policy: &Policy, view: &dyn View) -> String {
    let mut told = granted(policy, Access::Read);
    let optional = policy.grants.files.iter().filter(|grant| {
        grant.access == Access::ReadIfThere && !view.absent().contains(&grant.host)
    });
    told.extend(optional.map(show));
    if policy.grants.system && !policy.grants.files.iter().any(FileGrant::is_root) {
        told.push("the system's programs, libraries and some settings".to_owned());
    }
    told.extend(view.of_profiles().iter().map(show));
    if view.is_of_host() {
        told.push("some of /proc".to_owned());
    }
    list(&told, "nothing of the host's") + &hides(policy).unwrap_or_default()
}

/// What is kept from the guest in what it reads.
fn hides(policy: &Policy) -> Option<String> {
    let hidden = granted(policy, Access::Hide);
    (!hidden.is_empty()).then(|| format!("; not {}", list(&hidden, "")))
}

fn writes(policy: &Policy, view: &dyn View) -> String {
    let protected = granted(policy, Access::Protect);
    let mut told = list(&granted(policy, Access::Write), "nothing of the host's");
    if !protected.is_empty() {
        told = format!("{told}; not {}", list(&protected, ""));
    }
    if !view.kept_for_git().is_empty() {
        told += "; not what git executes of it";
    }
    if view.has_private_folder() {
        told += "; and in a /tmp and /dev/shm of its own, which are gone at the end";
    }
    told
}

fn executes(policy: &Policy, plan: &dyn Plan<Launcher = Launcher>) -> String {
    if !plan.is_native() {
        return "no program but the worker that runs its module".to_owned();
    }
    match &granted(policy, Access::Exec)[..] {
        [] => "what it reads, nothing that it can write".to_owned(),
        some => format!("what it reads, and of what it can write {}", list(some, "")),
    }
}

fn reaches(policy: &Policy) -> String {
    let grants = &policy.grants;
    let connects = grants.connect.iter().map(|grant| match grant {
        ConnectGrant::Unix(_) => format!("connects to the socket {grant}"),
        ConnectGrant::Public { .. } => {
            format!("connects to {grant}: all that is public, by address and by name")
        }
        ConnectGrant::Internet { .. } => format!("connects to {grant}"),
    });
    let listens = grants
        .listen
        .iter()
        .map(|grant| format!("listens at {grant}"));
    let all: Vec<_> = connects.chain(listens).collect();
    list(&all, "no network, not even this machine's loopback")
}

fn devices(policy: &Policy, view: &dyn View) -> String {
    let granted: Vec<_> = policy
        .grants
        .devices
        .iter()
        .map(ToString::to_string)
        .collect();
    let told = list(&granted, "the five harmless ones");
    // To each process the terminal that it has.
    match !view.is_of_host() && view.shows("/dev/tty".as_ref()) {
        true => format!("{told}, and its own terminal as /dev/tty"),
        false => told,
    }
}

/// Names alone: values stand below, but for those that may be secrets.
fn variables(view: &dyn View) -> String {
    let names = view.environment().iter().map(|variable| {
        let text = variable.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        name.to_owned()
    });
    let names: Vec<_> = names.collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(" "),
    }
}

/// Those that were asked for, as far as they are held.
fn limits(view: &dyn View) -> String {
    let held = view
        .enforcement()
        .iter()
        .filter(|row| LIMITS.iter().any(|limit| limit.key == row.capability));
    let held: Vec<_> = held
        .map(|row| format!("{} {}", row.capability, row.requested))
        .collect();
    match held.is_empty() {
        true => "none asked for, but wide ones on processes and its own /tmp".to_owned(),
        false => held.join(", "),
    }
}

/// What is enforced in part, or not at all.
fn weaker(view: &dyn View) -> String {
    let weak = view
        .enforcement()
        .iter()
        .filter(|row| row.actual != Level::Full);
    let weak: Vec<_> = weak
        .map(|row| format!("{} ({})", row.capability, row.mechanism))
        .collect();
    list(&weak, "nothing: this machine enforces all of it")
}

fn granted(policy: &Policy, access: Access) -> Vec<String> {
    let files = policy
        .grants
        .files
        .iter()
        .filter(|grant| grant.access == access);
    files.map(show).collect()
}

fn show(grant: &FileGrant) -> String {
    let host = grant.host.display();
    match &grant.guest {
        Some(guest) => format!("{host} as {}", guest.display()),
        None => host.to_string(),
    }
}

/// The first few, and how many more.
fn list(all: &[impl Display], none: &str) -> String {
    if all.is_empty() {
        return none.to_owned();
    }
    let named: Vec<_> = all
        .iter()
        .take(MOST_NAMED)
        .map(ToString::to_string)
        .collect();
    let rest = all.len() - named.len();
    match (named.join(", "), rest) {
        (named, 0) => named,
        (named, rest) => format!("{named} and {rest} more"),
    }
}
