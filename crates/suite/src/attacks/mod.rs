//! The table: every guest of `guests/hostile`, one row each, one file per family.
//!
//! The guests' names come from the C table through the build. Each family is one
//! exhaustive `match`, so a guest without a row does not compile.

mod broker;
mod connect;
mod controls;
mod datagrams;
mod exec;
mod files;
mod inbound;
mod ipc;
mod leaks;
mod metadata;
mod network;
mod protocols;
mod races;
mod reroute;
mod resources;
mod syscalls;

use crate::attack::Attack;
use crate::guests::{
    Broker, Connect, Controls, Datagrams, Exec, Family, Files, Inbound, Ipc, Leaks, Metadata,
    Network, Protocols, Races, Reroute, Resources, Syscalls,
};

/// Every attack, in the order of the C table. Controls are not attacks.
#[must_use]
pub fn all() -> Vec<Attack> {
    Family::ALL
        .iter()
        .filter(|family| **family != Family::Controls)
        .flat_map(|family| of_family(*family))
        .collect()
}

/// The attack or control of that name.
#[must_use]
pub fn named(name: &str) -> Option<Attack> {
    Family::ALL
        .iter()
        .flat_map(|family| of_family(*family))
        .find(|attack| attack.name == name)
}

/// The row of a control.
#[must_use]
pub fn control(guest: Controls) -> Attack {
    Attack {
        name: guest.name(),
        ..controls::row(guest)
    }
}

/// Turns one family's enum into its rows, each with the guest's name.
macro_rules! rows {
    ($family:ident, $module:ident) => {
        $family::ALL
            .iter()
            .map(|guest| Attack {
                name: guest.name(),
                ..$module::row(*guest)
            })
            .collect()
    };
}

fn of_family(family: Family) -> Vec<Attack> {
    match family {
        Family::Broker => rows!(Broker, broker),
        Family::Connect => rows!(Connect, connect),
        Family::Datagrams => rows!(Datagrams, datagrams),
        Family::Inbound => rows!(Inbound, inbound),
        Family::Protocols => rows!(Protocols, protocols),
        Family::Races => rows!(Races, races),
        Family::Reroute => rows!(Reroute, reroute),
        Family::Controls => rows!(Controls, controls),
        Family::Exec => rows!(Exec, exec),
        Family::Files => rows!(Files, files),
        Family::Ipc => rows!(Ipc, ipc),
        Family::Leaks => rows!(Leaks, leaks),
        Family::Metadata => rows!(Metadata, metadata),
        Family::Network => rows!(Network, network),
        Family::Resources => rows!(Resources, resources),
        Family::Syscalls => rows!(Syscalls, syscalls),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::all;
    use crate::catalogue::{ROWS, WITHOUT_ATTACK};

    #[test]
    fn every_row_of_the_catalogue_has_an_attack_or_a_reason() {
        let attacked: HashSet<_> = all().iter().map(|attack| attack.entry).collect();
        for (index, row) in ROWS.iter().enumerate() {
            let excused = WITHOUT_ATTACK.iter().any(|(entry, _)| *entry == index + 1);
            assert!(
                attacked.contains(&(index + 1)) != excused,
                "row {}: {row:?}",
                index + 1
            );
        }
    }

    #[test]
    fn every_attack_comes_from_a_row() {
        for attack in all() {
            assert!((1..=ROWS.len()).contains(&attack.entry), "{}", attack.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = all().iter().map(|attack| attack.name).collect();
        assert_eq!(names.len(), all().len());
    }
}
