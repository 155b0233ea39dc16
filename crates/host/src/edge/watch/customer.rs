//! Who the clients of a worker's connections are, by address.

use super::Sweep;
use crate::{
    config::Limits,
    permits::{Permit, Permits, Share},
    quota::{
        bucket::{cost_ns, take},
        now_ns,
    },
};
use palisade_engine::lock::lock;
use std::{
    cell::RefCell,
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    rc::{Rc, Weak},
    sync::{Mutex, atomic::Ordering},
    time::Duration,
};

/// Connections that every client may have, however few are left.
const FLOOR: u32 = 64;

/// Those of one worker that have a connection.
#[derive(Default)]
pub(super) struct Customers(RefCell<HashMap<IpAddr, Weak<Customer>>>);

/// One of them: an address, or a network of IPv6 that one customer has (RFC 6177).
pub(in crate::edge) struct Customer {
    address: Option<IpAddr>,
    connections: Share,
    requests: Rc<Share>,
}

impl Customer {
    fn new(address: Option<IpAddr>) -> Rc<Self> {
        Rc::new(Self {
            address,
            connections: Share::default(),
            requests: Rc::default(),
        })
    }

    /// A permit for one more request of it.
    pub(in crate::edge) fn permit(&self) -> Option<Permit> {
        let permits = Permits::here();
        match self.address {
            Some(_) => permits.take(&self.requests),
            // Who may connect to a socket of the file system is known to the operator.
            None => permits.take(&Rc::default()),
        }
    }
}

/// How often each client may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientRate {
    /// Between two requests, in ns.
    step_ns: u64,
    /// Of those that come at once after a pause.
    burst_ns: u64,
}

impl ClientRate {
    pub(super) fn of(limits: &Limits) -> Option<Self> {
        let rate = limits.client_rate?;
        let burst = limits.client_burst.unwrap_or(rate);
        Some(Self {
            step_ns: cost_ns(1, rate),
            burst_ns: cost_ns(burst, rate),
        })
    }
}

/// Clients that have asked a moment ago, on whatever worker and by whatever connection. One whose requests are paid for
/// by the time that passed is none any more.
#[derive(Debug, Default)]
pub(crate) struct ClientRates([Mutex<Paid>; SHARDS]);

/// When each one's requests are paid for, by the monotonic clock in ns.
#[derive(Debug, Default)]
struct Paid {
    until_ns: HashMap<IpAddr, u64>,
    /// How many there were when those that are paid for were last forgotten.
    kept: usize,
}

/// Tables of clients, so that workers seldom meet at one.
const SHARDS: usize = 16;
/// Clients of a table that are kept without a look at whether they are of any interest.
const FEW: usize = 1024;

impl ClientRates {
    /// Counts a request of a client.
    ///
    /// # Errors
    /// It has asked too often: when it may again.
    fn take(&self, client: IpAddr, rate: ClientRate, now_ns: u64) -> Result<(), Duration> {
        let mut paid = lock(&self.0[shard_of(client)]);
        if paid.until_ns.len() >= 2 * paid.kept.max(FEW) {
            paid.until_ns.retain(|_, until_ns| *until_ns > now_ns);
            paid.kept = paid.until_ns.len();
        }
        let until_ns = paid.until_ns.entry(client).or_default();
        *until_ns = take(*until_ns, rate.step_ns, rate.burst_ns, now_ns)?;
        Ok(())
    }
}

impl Sweep {
    /// Counts a request of a client. Those of a Unix socket are not told apart.
    ///
    /// # Errors
    /// It has asked too often: when it may again.
    pub(in crate::edge) fn count_request(&self, client: &Customer) -> Result<(), Duration> {
        match (self.bounds().client_rate, client.address) {
            (Some(rate), Some(address)) => self.shared.client_rates.take(address, rate, now_ns()),
            _ => Ok(()),
        }
    }

    /// The client of a connection that was accepted; `None`: it has more of them than are left.
    pub(in crate::edge) fn customer(&self, address: Option<IpAddr>) -> Option<Rc<Customer>> {
        let Some(address) = address.map(network_of) else {
            return Some(Customer::new(None));
        };
        let mut clients = self.customers.0.borrow_mut();
        let known = clients.get(&address).and_then(Weak::upgrade);
        let client = known.unwrap_or_else(|| {
            let client = Customer::new(Some(address));
            clients.insert(address, Rc::downgrade(&client));
            client
        });
        client
            .connections
            .may_have_more(self.left_for_each_worker().max(FLOOR))
            .then_some(client)
    }

    /// Connections that are left, as far as they are this worker's affair.
    fn left_for_each_worker(&self) -> u32 {
        let taken = self.shared.connections.load(Ordering::Relaxed);
        let left = self.bounds().connections.saturating_sub(taken);
        u32::try_from(left / self.workers).unwrap_or(u32::MAX)
    }

    pub(super) fn customer_came(client: &Customer) {
        client.connections.add();
    }

    /// A connection has ended. The last one takes its client out of the books.
    pub(super) fn customer_went(&self, client: &Customer) {
        client.connections.take_away();
        if let Some(address) = client.address
            && client.connections.is_nothing()
        {
            self.customers.0.borrow_mut().remove(&address);
        }
    }
}

/// The last bits that are a customer's own: networks differ in those below, if in any.
fn shard_of(client: IpAddr) -> usize {
    let bits = match client {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    };
    bits as usize % SHARDS
}

/// Whose address it is: in IPv6 a whole network of 64 bits.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            Ipv6Addr::from_bits(network).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_asks_too_often_waits_alone() {
        let limits = Limits {
            client_rate: Some(10),
            client_burst: Some(3),
            ..Limits::default()
        };
        let rate = ClientRate::of(&limits).unwrap();
        let rates = ClientRates::default();
        let [one, other] = ["192.0.2.1", "192.0.2.17"].map(|text| text.parse().unwrap());
        let taken = |client, now_ns| rates.take(client, rate, now_ns).is_ok();
        let now_ns = 1_000_000_000;
        assert_eq!((0..10).filter(|_| taken(one, now_ns)).count(), 3);
        assert!(taken(other, now_ns), "another one of the same table");
        assert!(taken(one, now_ns + 100_000_000) && !taken(one, now_ns + 100_000_000));
    }

    #[test]
    fn clients_that_are_paid_for_are_forgotten() {
        let rate = ClientRate::of(&Limits {
            client_rate: Some(1000),
            ..Limits::default()
        });
        let rates = ClientRates::default();
        for client in 0..1_000_000_u32 {
            // A µs apart: a thousand of them are not paid for at one time.
            let address = std::net::Ipv4Addr::from_bits(client).into();
            let now_ns = u64::from(client) * 1000;
            rates.take(address, rate.unwrap(), now_ns).unwrap();
        }
        let kept: usize = rates.0.iter().map(|shard| lock(shard).until_ns.len()).sum();
        assert!(kept <= SHARDS * 2 * FEW, "{kept}");
        assert!(ClientRate::of(&Limits::default()).is_none());
    }

    #[test]
    fn a_customer_has_one_address() {
        let same = [
            ("2001:db8::1", "2001:db8::ffff:1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
        ];
        for (one, other) in same {
            let of = |text: &str| network_of(text.parse().unwrap());
            assert_eq!(of(one), of(other));
        }
        let other = [
            ("2001:db8::1", "2001:db8:0:1::1"),
            ("192.0.2.1", "192.0.2.2"),
        ];
        for (one, other) in other {
            let of = |text: &str| network_of(text.parse().unwrap());
            assert_ne!(of(one), of(other));
        }
    }
}
