//! Who did something.

use palisade_policy::visible;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number on the host; 0 where only the domain knew it.
    pub pid: u32,
    /// Its name, which it can choose (`PR_SET_NAME`): characters that a terminal acts on are
    /// written as `\u{…}`, bytes that are not UTF-8 as `�`.
    pub name: String,
}

impl Process {
    /// A process by the name the kernel has for it (`/proc/PID/comm` without its end of line).
    #[doc(alias = "comm")]
    pub fn new(pid: u32, name: &[u8]) -> Self {
        Self {
            pid,
            name: visible(&String::from_utf8_lossy(name)).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_name_itself_what_a_terminal_acts_on() {
        let process = Process::new(7, b"a\x1b[2J\n\xff\xe2\x80\xae");
        assert_eq!(process.name, "a\\u{1b}[2J\\n\u{fffd}\\u{202e}");
        assert_eq!(Process::new(7, "grün b".as_bytes()).name, "grün b");
    }
}
