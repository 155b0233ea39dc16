//! Why the guest was refused, and what would have allowed it.

mod proxy;

pub use proxy::{HelloFault, ProxyRefusal, RequestFault};

use std::fmt;

use palisade_policy::{HostName, Transport};
use serde::Serialize;

/// A call that no grant covers.
///
/// Displayed as one clause, without the call and its address: "no grant covers it; `--connect
/// tcp://192.0.2.1:443` would".
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The flag that would have allowed it, such as `--connect tcp://127.0.0.1:5432`; `None` where
    /// no grant can.
    pub grant: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.grant {
            Some(grant) => write!(f, "{}; `{grant}` would allow it", self.reason),
            None => write!(f, "{}; no grant can allow it", self.reason),
        }
    }
}

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// No grant names this address.
    NotGranted,
    /// The address is granted, at other ports.
    OtherPort,
    /// The address is granted, by another transport than this one.
    OtherTransport(#[serde(serialize_with = "as_text")] Transport),
    /// The address is granted, on another network interface.
    OtherInterface,
    /// A granted network has the address in it, but such an address must be granted itself.
    Special(&'static str),
    /// A granted name stands for the address, which is private or special: who answers for the name
    /// must not choose what is reached inside (DNS rebinding).
    #[doc(alias = "rebinding")]
    BehindName(#[serde(serialize_with = "as_text")] HostName),
    /// Operators of whoever started the guest are answered there, whoever they say they are.
    OfOperators,
    /// Nobody can connect to port 0.
    PortZero,
    /// The guest may not bind this address and port.
    NotBindable,
    /// The guest may not listen where this socket is bound.
    NotListenable,
    /// The socket is bound nowhere, so that it would listen at every interface.
    Unbound,
    /// Whoever started the guest was asked, and said no or nothing.
    Declined,
    /// The name may be reached, and has no address that this machine finds.
    Unfound,
    /// A name that a name server was asked, but not seen in the question.
    Unseen,
    /// The kernel carries its calls out past every filter.
    Ring,
    /// The proxy for wildcards refused.
    Proxy(ProxyRefusal),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGranted => f.write_str("no grant covers it"),
            Self::OtherPort => f.write_str("it is granted at other ports only"),
            Self::OtherTransport(asked) => write!(f, "it is not granted for {asked}"),
            Self::OtherInterface => f.write_str("it is granted on another interface"),
            Self::Special(range) => write!(
                f,
                "no wider network covers a {range} address, which must be granted itself"
            ),
            Self::BehindName(name) => write!(
                f,
                "`{name}` stands for it, but a name does not grant what is not public"
            ),
            Self::OfOperators => {
                f.write_str("operators of the server that started the guest ask there")
            }
            Self::PortZero => f.write_str("nobody listens at port 0"),
            Self::NotBindable => f.write_str("the guest may not bind it"),
            Self::NotListenable => f.write_str("the guest may not listen there"),
            Self::Unbound => {
                f.write_str("the socket is bound to no address and would listen at every interface")
            }
            Self::Declined => f.write_str("whoever was asked did not allow it"),
            Self::Ring => f.write_str("no filter sees what is done by it, so no guest has it"),
            Self::Unfound => f.write_str("this machine finds no address of that name"),
            Self::Unseen => f.write_str(
                "no name server answers a guest, and which name it was could not be seen",
            ),
            Self::Proxy(refusal) => refusal.fmt(f),
        }
    }
}

impl Reason {
    /// Whether it is worth a question: whether the one who started the guest could have granted just that.
    pub fn may_be_asked(&self) -> bool {
        match self {
            Self::NotGranted
            | Self::OtherPort
            | Self::OtherTransport(_)
            | Self::Special(_)
            | Self::BehindName(_)
            | Self::NotBindable
            | Self::NotListenable => true,
            Self::OtherInterface
            | Self::OfOperators
            | Self::PortZero
            | Self::Unbound
            | Self::Declined
            | Self::Unfound
            | Self::Unseen
            | Self::Ring
            | Self::Proxy(_) => false,
        }
    }
}

pub(crate) fn as_text<T: fmt::Display, S: serde::Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
