//! Names to addresses.

use std::{net::IpAddr, time::Duration};

use palisade_policy::HostName;

/// Who knows the addresses of names and the interfaces of this machine.
pub trait Resolve: Send + Sync {
    /// The addresses of `name`.
    ///
    /// # Errors
    /// When nobody knows any.
    fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError>;

    /// The index of a network interface, by its name or its index in decimal.
    fn interface(&self, zone: &str) -> Option<u32>;
}

/// What a name stands for, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its addresses; never none.
    pub addresses: Vec<IpAddr>,
    /// How long they hold.
    pub ttl: Duration,
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// There is no such name, or it has no address.
    #[error("no name server knows it: correct the name or leave the grant out")]
    NotFound,
    /// Nobody answered.
    #[error("no name server answered ({0}): check the machine's network and /etc/resolv.conf")]
    NoAnswer(String),
    /// The lookup itself failed.
    #[error("the lookup failed in palisade itself; please report it")]
    Broken,
}

impl ResolveError {
    /// Whose fault it is.
    pub fn fault(&self) -> &'static str {
        match self {
            Self::NotFound => "policy",
            Self::NoAnswer(_) => "host",
            Self::Broken => "wall",
        }
    }
}
