//! What `strace -ff` writes of one process: a call a line.

/// Whose calls they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// What was started.
    Command,
    /// Palisade's keeper.
    Keeper,
    /// Another process of the wall's: palisade's init is one.
    Init,
    /// The process that becomes the program, up to the call that makes it that.
    Guest,
}

impl Role {
    pub(super) const ALL: [Self; 4] = [Self::Command, Self::Keeper, Self::Init, Self::Guest];

    /// In samples.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Keeper => "keeper",
            Self::Init => "init",
            Self::Guest => "guest",
        }
    }

    /// In tables.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Command => "the command",
            Self::Keeper => "its keeper",
            Self::Init => "init, or another process",
            Self::Guest => "the guest, until its program runs",
        }
    }
}

/// A process.
#[derive(Debug, PartialEq)]
pub(super) struct Trace<'a> {
    pub(super) role: Role,
    /// Names of the calls, in order.
    pub(super) calls: Vec<&'a str>,
}

/// `is_alone` says that there was no other process: what was started is the program then.
pub(super) fn read_trace(text: &str, is_alone: bool) -> Trace<'_> {
    let lines: Vec<(&str, &str)> = text.lines().filter_map(read_line).collect();
    let executed = |(name, line): &&(&str, &str)| {
        matches!(*name, "execve" | "execveat") && line.ends_with("= 0")
    };
    let is_first = lines.first().filter(|line| executed(line)).is_some();
    let last_executed = lines.iter().rposition(|line| executed(&line));
    let role = match last_executed {
        Some(0) if is_alone => Role::Guest,
        // Nothing keeps strace from reading its memory, whoever started it.
        Some(at) if lines[at].1.contains("[\"palisade-keeper") => Role::Keeper,
        _ if is_first => Role::Command,
        Some(_) => Role::Guest,
        None => Role::Init,
    };
    let until = match last_executed {
        Some(at) if role == Role::Guest => at + 1,
        _ => lines.len(),
    };
    let calls = lines[..until].iter().map(|(name, _)| *name).collect();
    Trace { role, calls }
}

/// The call's name and the whole line; `None` of signals and ends.
fn read_line(line: &str) -> Option<(&str, &str)> {
    let (name, _) = line.split_once('(')?;
    let is_name = |name: &str| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    (!name.is_empty() && is_name(name)).then_some((name, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_s_own_calls_are_not_the_wall_s() {
        let text = "setpgid(0, 0)    = 0\nexecve(0x7fc286029b22, 0x7fc286024010, 0x7fc286023000) = 0\nbrk(NULL) = 0x1\n+++ exited with 0 +++\n";
        let trace = read_trace(text, false);
        assert_eq!(
            (trace.role, trace.calls),
            (Role::Guest, vec!["setpgid", "execve"])
        );
    }

    #[test]
    fn each_process_is_known_by_what_it_executes() {
        let command = "execve(\"/bin/palisade\", [\"palisade\", \"run\"], 0x7ffe /* 1 var */) = 0\nbrk(NULL) = 0x1\n";
        let keeper = "close_range(3, 3, 0) = 0\nexecveat(4, \"\", [\"palisade-keeper         \"...], 0x7f /* 0 vars */, AT_EMPTY_PATH) = 0\nppoll([], 0) = 1\n";
        let init = "mount(NULL, \"/\") = 0\nexecve(\"/nowhere\", [], []) = -1 ENOENT (No such file)\nwait4(-1) = 2\n";
        for (text, role, calls) in [
            (command, Role::Command, 2),
            (keeper, Role::Keeper, 3),
            (init, Role::Init, 3),
        ] {
            let trace = read_trace(text, false);
            assert_eq!((trace.role, trace.calls.len()), (role, calls), "{text}");
        }
        let bare = read_trace(
            "execve(\"/bin/true\", [\"true\"], 0x7ffe) = 0\nexit_group(0) = ?\n",
            true,
        );
        assert_eq!((bare.role, bare.calls), (Role::Guest, vec!["execve"]));
    }
}
