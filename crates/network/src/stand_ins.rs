//! Addresses that stand for names which nobody has looked up.
//!
//! To look a name up is to send it to whoever answers for it: a guest that may ask for names of its choosing
//! needs no other connection to send what it knows. So where a user is asked what a guest may reach, a guest's own
//! lookup gets an address that means nothing to anybody, and the name is looked up when it may be.

use palisade_policy::HostName;
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
};

/// 198.18.0.0/15 is for tests of network devices (RFC 2544): nobody is there, and no grant of a wider network is about it.
const FIRST: u32 = Ipv4Addr::new(198, 18, 0, 1).to_bits();
/// A guest may ask for as many names as it likes.
const MOST: usize = 4096;

/// Names and what stands for them, of one guest.
#[derive(Debug, Default)]
pub struct StandIns {
    names: Vec<HostName>,
    places: HashMap<HostName, usize>,
}

impl StandIns {
    /// What stands for `name`: always the same. `None` when there are too many.
    pub fn of(&mut self, name: &HostName) -> Option<Ipv4Addr> {
        let place = match self.places.get(name) {
            Some(place) => *place,
            None if self.names.len() == MOST => return None,
            None => {
                self.names.push(name.clone());
                self.places.insert(name.clone(), self.names.len() - 1);
                self.names.len() - 1
            }
        };
        Some(Ipv4Addr::from_bits(FIRST + place as u32))
    }

    /// All names, in the order in which they were asked for.
    pub fn names(&self) -> &[HostName] {
        &self.names
    }

    /// The name that `address` stands for.
    pub fn name(&self, address: IpAddr) -> Option<&HostName> {
        let IpAddr::V4(address) = address else {
            return None;
        };
        let place = address.to_bits().checked_sub(FIRST)?;
        self.names.get(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_address_and_there_are_so_many() {
        let mut stand_ins = StandIns::default();
        let name = |index: usize| -> HostName { format!("h{index}.example").parse().unwrap() };
        for index in 0..MOST {
            let address = stand_ins.of(&name(index)).unwrap();
            assert!(!crate::address::is_public(address.into()));
            assert_eq!(stand_ins.name(address.into()), Some(&name(index)));
        }
        assert_eq!(stand_ins.of(&name(MOST)), None);
        assert_eq!(stand_ins.of(&name(0)), Some(Ipv4Addr::new(198, 18, 0, 1)));
        for nobody in ["198.18.0.0", "198.18.16.1", "198.17.0.1", "0.0.0.0", "::1"] {
            assert_eq!(stand_ins.name(nobody.parse().unwrap()), None, "{nobody}");
        }
    }
}
