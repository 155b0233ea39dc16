//! Addresses of this process's own that no grant gives: where a server's operators ask, and nobody needs to prove who he is.
//!
//! Whoever starts guests refuses a policy that grants such an address. But a port may be the process's own only after a
//! guest was started, or by a name that was looked up since: so each connection is judged once more, whatever is granted.

use crate::address::destination;
use std::{
    net::SocketAddr,
    sync::{PoisonError, RwLock},
};

/// All of this process: one at most, but while it changes.
static ALL: RwLock<Vec<SocketAddr>> = RwLock::new(Vec::new());

/// Withholds an address from all guests of this process until it is dropped.
#[derive(Debug)]
pub struct Withheld(SocketAddr);

impl Withheld {
    /// Withholds connections by tcp to what answers at `address`, however guests write it.
    pub fn new(address: SocketAddr) -> Self {
        let address = without_scope(address);
        let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
        all.push(address);
        Self(address)
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = all.iter().position(|address| *address == self.0) {
            all.remove(at);
        }
    }
}

/// Whether a connection by tcp to `address` arrives where none may.
pub fn is_withheld(address: SocketAddr) -> bool {
    let address = without_scope(address);
    let all = ALL.read().unwrap_or_else(PoisonError::into_inner);
    all.contains(&address)
}

/// Where a connection arrives; on which interface says nothing of a loopback.
fn without_scope(address: SocketAddr) -> SocketAddr {
    let address = destination(address);
    SocketAddr::new(address.ip(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Gate, Network, Reason, Resolve, ResolveError};
    use palisade_policy::{ConnectGrant, HostName, Transport};

    struct Nobody;

    impl Resolve for Nobody {
        fn addresses(&self, _: &HostName) -> Result<Answer, ResolveError> {
            Err(ResolveError::NotFound)
        }

        fn interface(&self, _: &str) -> Option<u32> {
            None
        }
    }

    #[test]
    fn what_is_withheld_is_denied_whatever_is_granted_and_however_it_is_written() {
        let granted = [
            "tcp://127.0.0.0/8:*",
            "udp://127.0.0.0/8:*",
            "tcp://[::1]:*",
        ];
        let granted: Vec<ConnectGrant> = granted.map(|grant| grant.parse().unwrap()).into();
        let gate = Gate::new(Network::resolve(&granted, &[], &Nobody).unwrap());
        let ask = |transport, address: &str| gate.connect(transport, address.parse().unwrap());
        let every = [
            "127.0.0.1:1",
            "0.0.0.0:1",
            "[::ffff:127.0.0.1]:1",
            "[::ffff:0.0.0.0]:1",
        ];
        let others = ["127.0.0.1:2", "127.0.0.2:1", "[::1]:1", "[::]:1"];
        let withheld = Withheld::new("127.0.0.1:1".parse().unwrap());
        for address in every {
            let refusal = ask(Transport::Tcp, address).unwrap_err();
            assert_eq!(refusal.reason, Reason::OfOperators, "{address}");
            assert_eq!(refusal.grant, None);
        }
        assert!(ask(Transport::Udp, every[0]).is_ok(), "nobody is there");
        for address in others {
            assert!(ask(Transport::Tcp, address).is_ok(), "{address}");
        }
        let again = Withheld::new("[::ffff:127.0.0.1]:1".parse().unwrap());
        drop(withheld);
        assert!(is_withheld(every[0].parse().unwrap()), "one is still there");
        drop(again);
        assert!(ask(Transport::Tcp, every[0]).is_ok());
    }
}
