//! The proxy for wildcards.

use std::fmt;

use serde::Serialize;

/// Why the proxy refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyRefusal {
    /// Neither a wildcard nor a granted name covers it.
    NotGranted,
}

impl fmt::Display for ProxyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGranted => f.write_str("no grant covers it"),
        }
    }
}
