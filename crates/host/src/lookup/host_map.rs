//! Values by host: a name, `*.NAME` for every name below one, or an address.

use std::{borrow::Cow, collections::HashMap, net::Ipv6Addr};

/// Values by host, as routes write hosts.
#[derive(Clone, Debug)]
pub struct HostMap<T> {
    /// Names and addresses.
    exact: HashMap<Box<str>, T>,
    /// `*.NAME`, by what follows `*.`.
    below: HashMap<Box<str>, T>,
    /// Bytes of the longest of these: longer ends of a name need not be looked for.
    longest: usize,
}

impl<T> Default for HostMap<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            below: HashMap::new(),
            longest: 0,
        }
    }
}

impl<T> HostMap<T> {
    /// Whether there is no host.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.below.is_empty()
    }

    /// The value of a host as it is written in a file.
    pub fn entry(&mut self, host: &str) -> &mut T
    where
        T: Default,
    {
        let host = host.strip_suffix('.').unwrap_or(host);
        if let Some(name) = host.strip_prefix("*.") {
            self.longest = self.longest.max(name.len());
            return self.below.entry(formed(name).into()).or_default();
        }
        let host = match host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]").into(),
            Err(_) => formed(host),
        };
        self.exact.entry(host.into()).or_default()
    }

    /// The value of the very host that is asked for, and not of a name above it.
    pub fn own(&self, host: &str) -> Option<&T> {
        self.exact.get(&*formed(host))
    }

    /// The values of a host that is asked for, the one that says most first: its own, then those of names above it, the
    /// longest first.
    pub fn fitting(&self, host: &str) -> impl Iterator<Item = &T> {
        let host = formed(host);
        let own = self.exact.get(&*host);
        let starts = 1..match self.below.is_empty() || host.starts_with('[') {
            true => 1,
            false => host.len(),
        };
        let ends = starts.filter_map(move |at| {
            let end = host.get(at + 1..).filter(|_| host.as_bytes()[at] == b'.')?;
            match end.len() <= self.longest {
                true => self.below.get(end),
                false => None,
            }
        });
        own.into_iter().chain(ends)
    }
}

/// A name in small letters; an address of IPv6, in its brackets, as it is written in one way.
fn formed(host: &str) -> Cow<'_, str> {
    let inner = host.strip_prefix('[');
    let address = inner.and_then(|inner| inner.strip_suffix(']')?.parse::<Ipv6Addr>().ok());
    match address {
        Some(address) => format!("[{address}]").into(),
        None if host.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            host.to_ascii_lowercase().into()
        }
        None => host.into(),
    }
}

/// Whether every request for host `inner` is one for `outer`, as files write hosts.
pub fn covers_host(outer: &str, inner: &str) -> bool {
    let below = |end: &str| {
        let head = inner.strip_suffix(end);
        head.is_some_and(|head| head.ends_with('.'))
    };
    outer == inner || outer.strip_prefix("*.").is_some_and(below)
}
