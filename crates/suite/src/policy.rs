//! The policies that an attack faces, and the grants that they are made of.

/// What a policy grants besides what it takes to start the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Nothing at all: no system view, only the guest's own folder.
    Nothing,
    /// The system view and a folder of fixtures to read.
    Minimum,
    /// Also a scratch folder to write, with one corner for programs and one for sockets.
    Generous,
    /// The generous policy and what the attack's control adds.
    Control,
}

impl Policy {
    /// The three policies that an attack faces.
    pub const FACED: [Self; 3] = [Self::Nothing, Self::Minimum, Self::Generous];

    /// As in test names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Minimum => "minimum",
            Self::Generous => "generous",
            Self::Control => "control",
        }
    }

    /// What it grants of the servers that [`crate::fixtures::Fixture::Servers`] brings: the doors, never the witnesses.
    #[must_use]
    pub const fn doors(self) -> &'static [Grant] {
        use Grant::{Connect, Listen};
        match self {
            Self::Nothing => &[],
            Self::Minimum => &[Connect("tcp://127.0.0.1:{door-tcp4}")],
            Self::Generous | Self::Control => &[
                Connect("tcp://127.0.0.1:{door-tcp4}"),
                Connect("tcp://[::1]:{door-tcp6}"),
                Connect("udp://127.0.0.1:{door-udp4}"),
                Connect("udp://[::1]:{door-udp6}"),
                Listen("tcp://127.0.0.1:{listen}"),
                Listen("udp://127.0.0.1:{listen}"),
            ],
        }
    }

    /// The policy of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Nothing, Self::Minimum, Self::Generous, Self::Control]
            .into_iter()
            .find(|p| p.name() == name)
    }

    /// What it grants.
    #[must_use]
    pub const fn grants(self) -> &'static [Grant] {
        use Grant::{Env, Exec, Ipc, NoSystem, Read, ReadAt, Write};
        const GUEST: Grant = ReadAt("{bin}", "/guest");
        match self {
            Self::Nothing => &[NoSystem, GUEST],
            Self::Minimum => &[GUEST, Read("{readable}")],
            Self::Generous | Self::Control => &[
                GUEST,
                Read("{readable}"),
                Write("{scratch}"),
                Exec("{scratch}/bin"),
                Ipc("{scratch}/run"),
                Env("LANG=C"),
            ],
        }
    }
}

/// One permission or limit. Paths and addresses are templates: `{scratch}/bin`, `{tcp4}`, see
/// [`crate::warden`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// No system view.
    NoSystem,
    /// Read a path at the same place inside.
    Read(&'static str),
    /// Read a path at another place inside.
    ReadAt(&'static str, &'static str),
    /// Write a path at the same place inside.
    Write(&'static str),
    /// Write a path at another place inside.
    WriteAt(&'static str, &'static str),
    /// Execute files below this writable path.
    Exec(&'static str),
    /// Make sockets and FIFOs below this writable path.
    Ipc(&'static str),
    /// Keep this path inside a writable grant as it is, or absent.
    Protect(&'static str),
    /// Keep this path inside a grant from the guest.
    Hide(&'static str),
    /// What git executes in a writable grant is the guest's.
    NoGuard,
    /// `NAME=VALUE`.
    Env(&'static str),
    /// Start here.
    Cwd(&'static str),
    /// Take further grants from this file.
    PolicyFile(&'static str),
    /// Connect to, and send to: `tcp://127.0.0.1:{door-tcp4}`.
    Connect(&'static str),
    /// Take connections at: `tcp://127.0.0.1:{listen}`.
    Listen(&'static str),
    /// Bound `0` to `1`: `("memory", "32M")`.
    Limit(&'static str, &'static str),
}

impl Grant {
    /// Whether `self` takes the place of `other` in one policy.
    #[must_use]
    pub fn replaces(self, other: Self) -> bool {
        match (self, other) {
            (Self::Limit(one, _), Self::Limit(another, _)) => one == another,
            _ => self == other,
        }
    }
}
