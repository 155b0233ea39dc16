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
mod quotas;
mod races;
mod reroute;
mod resources;
mod syscalls;
mod together;
mod wasi;

use crate::attack::Attack;
use crate::guests::{
    Broker, Connect, Controls, Datagrams, Exec, Family, Files, Inbound, Ipc, Leaks, Metadata,
    Network, Protocols, Quotas, Races, Reroute, Resources, Syscalls, Together, WasiLeaks,
    WasiNames, WasiPaths, WasiResources,
};

/// Turns one family's enum into its rows, each with the guest's name.
macro_rules! rows {
    ($family:ident, $row:path) => {
        $family::ALL
            .iter()
            .map(|guest| Attack {
                name: guest.name(),
                ..$row(*guest)
            })
            .collect()
    };
}

/// Every attack of a native program, in the order of the C table. Controls are not attacks.
#[must_use]
pub fn all() -> Vec<Attack> {
    Family::ALL
        .iter()
        .filter(|family| **family != Family::Controls)
        .flat_map(|family| of_family(*family))
        .collect()
}

/// Every attack of a module on the wasm wall.
#[must_use]
pub fn modules() -> Vec<Attack> {
    let families: [Vec<Attack>; 4] = [
        rows!(WasiPaths, wasi::paths),
        rows!(WasiNames, wasi::names),
        rows!(WasiLeaks, wasi::leaks),
        rows!(WasiResources, wasi::resources),
    ];
    families.into_iter().flatten().collect()
}

/// Whether a module makes this attack, and the wasm wall faces it.
#[must_use]
pub fn is_of_module(attack: &Attack) -> bool {
    modules().iter().any(|other| other.name == attack.name)
}

/// The attack or control of that name.
#[must_use]
pub fn named(name: &str) -> Option<Attack> {
    Family::ALL
        .iter()
        .flat_map(|family| of_family(*family))
        .chain(modules())
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

fn of_family(family: Family) -> Vec<Attack> {
    match family {
        Family::Broker => rows!(Broker, broker::row),
        Family::Connect => rows!(Connect, connect::row),
        Family::Datagrams => rows!(Datagrams, datagrams::row),
        Family::Inbound => rows!(Inbound, inbound::row),
        Family::Protocols => rows!(Protocols, protocols::row),
        Family::Quotas => rows!(Quotas, quotas::row),
        Family::Races => rows!(Races, races::row),
        Family::Reroute => rows!(Reroute, reroute::row),
        Family::Controls => rows!(Controls, controls::row),
        Family::Exec => rows!(Exec, exec::row),
        Family::Files => rows!(Files, files::row),
        Family::Ipc => rows!(Ipc, ipc::row),
        Family::Leaks => rows!(Leaks, leaks::row),
        Family::Metadata => rows!(Metadata, metadata::row),
        Family::Network => rows!(Network, network::row),
        Family::Resources => rows!(Resources, resources::row),
        Family::Syscalls => rows!(Syscalls, syscalls::row),
        Family::Together => rows!(Together, together::row),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{all, modules};
    use crate::attack::Attack;
    use crate::catalogue::{ROWS, WITHOUT_ATTACK};

    fn both() -> impl Iterator<Item = Attack> {
        all().into_iter().chain(modules())
    }

    #[test]
    fn every_row_of_the_catalogue_has_an_attack_or_a_reason() {
        let attacked: HashSet<_> = both().map(|attack| attack.entry).collect();
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
        for attack in both() {
            assert!((1..=ROWS.len()).contains(&attack.entry), "{}", attack.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = both().map(|attack| attack.name).collect();
        assert_eq!(names.len(), both().count());
    }
}
