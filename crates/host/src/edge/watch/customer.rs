//! Who the clients of a worker's connections are, by address.

use super::Sweep;
use crate::permits::{Permit, Permits, Share};
use std::{
    cell::RefCell,
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    rc::{Rc, Weak},
    sync::atomic::Ordering,
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

impl Sweep {
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
