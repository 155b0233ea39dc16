//! How a guest ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The guest's own end, as its parent saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// It called `exit` with this code.
    Code(u8),
    /// A signal ended it.
    Signal(u8),
}

/// Who or what brought the end about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The guest itself.
    Guest,
    /// The wall-clock limit.
    TimeLimit,
    /// The processor-time limit.
    CpuTimeLimit,
    /// The limit on bytes written.
    OutputLimit,
    /// The memory limit: the kernel killed a process of the domain.
    MemoryLimit,
    /// Whoever started it.
    Supervisor,
    /// Somebody else of the starter's user: `palisade kill`.
    Operator,
    /// Somebody outside moved, replaced or removed what a protecting mount stood on: without it the guest
    /// could have written there.
    Unprotected,
}

impl Exit {
    /// Reads a wait status of wait(2).
    pub fn from_wait_status(status: u32) -> Self {
        match status & 0x7f {
            0 => Self::Code((status >> 8) as u8),
            signal => Self::Signal(signal as u8),
        }
    }

    /// What a shell would see: the code, or 128 + signal.
    pub fn shell_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128u8.saturating_add(signal),
        }
    }
}

impl Ending {
    /// The launcher's exit code: limits have the codes that `timeout` and the kernel's own signals
    /// for them (SIGXCPU, SIGXFSZ, SIGKILL) give.
    pub fn shell_code(self, exit: Exit) -> u8 {
        match self {
            Self::Guest | Self::Supervisor | Self::Operator | Self::Unprotected => {
                exit.shell_code()
            }
            Self::TimeLimit => 124,
            Self::CpuTimeLimit => 152,
            Self::OutputLimit => 153,
            Self::MemoryLimit => 137,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "exit code {code}"),
            Self::Signal(signal) => write!(formatter, "signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses_are_read_as_wait_2_says() {
        assert_eq!(Exit::from_wait_status(0x0300), Exit::Code(3));
        assert_eq!(Exit::from_wait_status(0x000b), Exit::Signal(11));
        assert_eq!(
            Exit::from_wait_status(0x008b),
            Exit::Signal(11),
            "a core dump is still signal 11"
        );
    }

    #[test]
    fn limits_have_their_own_codes() {
        let killed = Exit::Signal(9);
        assert_eq!(Ending::Guest.shell_code(Exit::Code(7)), 7);
        assert_eq!(Ending::Guest.shell_code(killed), 137);
        assert_eq!(Ending::TimeLimit.shell_code(killed), 124);
        assert_eq!(Ending::CpuTimeLimit.shell_code(killed), 152);
        assert_eq!(Ending::OutputLimit.shell_code(killed), 153);
    }
}
