//! Single values as flags and policy files write them, and what is wrong with one.
//!
//! Every parser here takes the text as typed and returns a value or a [`ValueError`] that says
//! what was given, why it is refused and what is accepted. Grants have theirs beside them:
//! [`FileGrant::parse`](crate::FileGrant::parse), and `FromStr` for
//! [`EnvGrant`](crate::EnvGrant), [`DeviceGrant`](crate::DeviceGrant), network grants and the enums
//! of names.

mod decimal;
mod duration;
mod env;
mod env_file;
mod network;
mod number;
mod path;
mod size;

pub use duration::{format_duration, parse_duration};
pub use env_file::{EnvFileError, EnvFileProblem, parse_env_file};
pub use network::NetworkReason;
pub(crate) use number::MAX_CORES;
pub use number::{parse_cores, parse_count};
pub use path::{parse_cwd, parse_path};
pub use size::{format_size, parse_size};

use crate::{Access, Capability, Profile, Transport, WallKind, quote::quote, word::nearest};

/// A value that was refused: which kind of value, what was given, why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}; {}", self.title(), self.advice())]
pub struct ValueError {
    kind: ValueKind,
    given: String,
    reason: Reason,
}

impl ValueError {
    pub(crate) fn new(kind: ValueKind, given: &str, reason: Reason) -> Self {
        Self {
            kind,
            given: given.to_owned(),
            reason,
        }
    }

    pub(crate) fn unknown_name(kind: ValueKind, given: &str) -> Self {
        let reason = match given {
            "" => Reason::Empty,
            _ => Reason::UnknownName,
        };
        Self::new(kind, given, reason)
    }

    /// What kind of value was expected.
    pub fn kind(&self) -> ValueKind {
        self.kind
    }

    /// The text that was given.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Why it was refused.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The error's first part: which value is wrong.
    pub(crate) fn title(&self) -> String {
        let noun = self.kind.noun();
        match self.given.as_str() {
            "" => format!("an empty string is not a valid {noun}"),
            given => format!("{} is not a valid {noun}", quote(given)),
        }
    }

    /// The error's last part: what to write instead.
    pub(crate) fn advice(&self) -> String {
        match self.kind.accepted() {
            Accepted::Form(form, example) => format!("accepted is {form}, as in `{example}`"),
            Accepted::Names(names) => advise_name(&self.given, names),
        }
    }
}

/// Names the nearest of `known`, and all of them.
pub fn advise_name(given: &str, known: &[&str]) -> String {
    let all = known.join(", ");
    match nearest(&given.to_lowercase(), known) {
        Some(name) => format!("did you mean `{name}`? (known: {all})"),
        None => format!("known: {all}"),
    }
}

/// What a kind of value accepts.
enum Accepted {
    /// Anything of this form, and an example.
    Form(&'static str, &'static str),
    /// One of these.
    Names(&'static [&'static str]),
}

/// The kinds of values that a policy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A [`FileGrant`](crate::FileGrant) of this access.
    File(Access),
    /// An [`EnvGrant`](crate::EnvGrant).
    Env,
    /// A [`DeviceGrant`](crate::DeviceGrant).
    Device,
    /// A [`ConnectGrant`](crate::ConnectGrant).
    Connect,
    /// A [`ListenGrant`](crate::ListenGrant).
    Listen,
    /// A [`HostName`](crate::HostName).
    HostName,
    /// An [`IpNetwork`](crate::IpNetwork).
    IpNetwork,
    /// A [`Transport`].
    Transport,
    /// The guest's working directory.
    Cwd,
    /// A path on the host.
    Path,
    /// A number of bytes.
    Size,
    /// A length of time.
    Duration,
    /// A number of processors.
    Cores,
    /// A number of things.
    Count,
    /// An [`Access`].
    Access,
    /// A [`WallKind`].
    Wall,
    /// A [`Capability`].
    Capability,
    /// A [`Profile`].
    Profile,
}

impl ValueKind {
    fn noun(self) -> &'static str {
        match self {
            Self::File(access) => match access {
                Access::Read => "read grant",
                Access::ReadIfThere => "read-if-there grant",
                Access::Write => "write grant",
                Access::Protect => "protect path",
                Access::Exec => "exec path",
                Access::Ipc => "ipc path",
            },
            Self::Env => "environment grant",
            Self::Device => "device grant",
            Self::Connect => "connect grant",
            Self::Listen => "listen grant",
            Self::HostName => "host name",
            Self::IpNetwork => "network",
            Self::Transport => "transport",
            Self::Cwd => "working directory",
            Self::Path => "path",
            Self::Size => "size",
            Self::Duration => "length of time",
            Self::Cores => "number of cores",
            Self::Count => "count",
            Self::Access => "access",
            Self::Wall => "wall",
            Self::Capability => "capability",
            Self::Profile => "profile",
        }
    }

    fn accepted(self) -> Accepted {
        use Accepted::{Form, Names};
        match self {
            Self::File(access) if access.maps_host_path() => Form(
                r"PATH or PATH:GUEST, where GUEST is absolute and `\:` is a colon within a name",
                "./src:/work",
            ),
            Self::File(_) => Form("one path as the guest sees it", ".git/hooks"),
            Self::Env => Form("NAME or NAME=VALUE", "LANG=C.UTF-8"),
            Self::Device => Form("an absolute path or the word `pts`", "/dev/fuse"),
            Self::Connect => Form(
                "tcp://HOST:PORTS or udp://HOST:PORTS, where HOST is a name, an address or a \
                 network, or unix:PATH[:GUEST], or internet[:PORTS]",
                "tcp://example.com:443",
            ),
            Self::Listen => Form(
                "tcp://ADDRESS:PORT or udp://ADDRESS:PORT, after it `,host-port=N` and `,ready` \
                 where wanted, or the word `inherited`",
                "tcp://127.0.0.1:8080",
            ),
            Self::HostName => Form(
                "letters, digits, hyphens and underscores between dots",
                "api.example.com",
            ),
            Self::IpNetwork => Form("ADDRESS or ADDRESS/PREFIX", "2001:db8::/32"),
            Self::Transport => Names(Transport::NAMES),
            Self::Cwd => Form("a folder as the guest sees it", "/work"),
            Self::Path => Form("a path, absolute or from the file's own folder", "./site"),
            Self::Size => Form(
                "a whole number of bytes, or a number with K, M, G or T (powers of 1024, as are \
                 KiB, MiB, GiB and TiB) or with KB, MB, GB or TB (powers of 1000)",
                "512M",
            ),
            Self::Duration => Form(
                "a number of seconds, or numbers with d, h, m, s and ms, the longest first",
                "1h30m",
            ),
            Self::Cores => Form("a number above 0 and up to 4096", "1.5"),
            Self::Count => Form("a whole number of at least 1", "64"),
            Self::Access => Names(Access::NAMES),
            Self::Wall => Names(WallKind::NAMES),
            Self::Capability => Names(Capability::NAMES),
            Self::Profile => Names(Profile::NAMES),
        }
    }
}

/// Why a value was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing was given.
    #[error("nothing was given")]
    Empty,
    /// Nothing on one side of a colon.
    #[error("nothing stands before or after the colon")]
    EmptyPart,
    /// No path and no environment string can carry a NUL byte.
    #[error("it has a NUL byte")]
    Nul,
    /// The text has no number where one belongs.
    #[error("there is no number where one belongs")]
    NotANumber,
    /// More digits than any sensible number has.
    #[error("the number has more digits than can be held")]
    TooManyDigits,
    /// The unit is not known.
    #[error("the unit {} is not known", quote(.0))]
    UnknownUnit(String),
    /// A number within a sum of units has no unit.
    #[error("{} has no unit", quote(.0))]
    MissingUnit(String),
    /// The units of a duration do not descend.
    #[error("the unit `{0}` does not follow a longer one")]
    UnitOrder(&'static str),
    /// Something that comes in whole pieces only was given a fraction.
    #[error("it is not a whole number")]
    NotWhole,
    /// Zero, or so little that it rounds to zero. A limit that is not wanted is left out.
    #[error("it comes to zero (leave it out for no limit)")]
    Zero,
    /// Above the largest value.
    #[error("it is above the largest possible value, {0}")]
    TooLarge(&'static str),
    /// A shell expands `~`, a policy does not.
    #[error("`~` is not expanded here: write the folder's full path (or `./~` for that name)")]
    Tilde,
    /// `..` after a name, where symlinks make its meaning unsure.
    #[error("`..` may stand only at the start of a relative path")]
    ParentInside,
    /// The path inside the domain is relative.
    #[error("the guest path {} is not absolute", quote(.0))]
    RelativeGuest(String),
    /// The path inside the domain has `..`.
    #[error("the guest path {} has `..` in it", quote(.0))]
    ParentInGuest(String),
    /// `:GUEST` where nothing is mapped.
    #[error("it takes no `:GUEST` part, for it names a path inside the domain")]
    UnexpectedGuest,
    /// More than one unescaped colon.
    #[error(r"it has more than one colon (write `\:` for a colon within a name)")]
    TooManyColons,
    /// A device that is neither absolute nor a known set.
    #[error("it is neither absolute nor `pts`")]
    NotAbsolute,
    /// `=VALUE` without a name.
    #[error("there is no name before the `=`")]
    NoName,
    /// An `=` within a name, which ends it.
    #[error("the name has an `=` in it")]
    EqualsInName,
    /// White space or a control character within a name.
    #[error("the name has a space or an unprintable character in it")]
    BlankInName,
    /// Not one of the known names.
    #[error("there is no such name")]
    UnknownName,
    /// What only a network grant can have wrong.
    #[error(transparent)]
    Network(#[from] NetworkReason),
}
