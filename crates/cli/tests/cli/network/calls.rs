//! Network calls one by one: the same program with no wall and behind it comes to the same results.

use super::{compile, guest, in_own_network};
use crate::cli::stage::{Stage, cases};

cases![calls_come_to_what_they_come_to_without_a_wall];

/// Where the wall's answer is another: what the guest does, without a wall, and behind it.
const DIFFERENT: [[&str; 3]; 6] = [
    // The filter lets no such socket through to where the kernel would tell the reasons apart.
    ["no type", "ESOCKTNOSUPPORT", "EPROTONOSUPPORT"],
    // Sending before connecting is refused as by a kernel without it: programs then connect.
    ["fast open by sending", "1", "EOPNOTSUPP"],
    ["peer by sending", "127.0.0.1 7000", "ENOTCONN"],
    // An option that is not listed is unknown, as to a kernel without it.
    ["fast open by option", "0", "ENOPROTOOPT"],
    // No grant has a port 0.
    ["to no port", "EINVAL", "EACCES"],
    ["send three, the first to nowhere", "EINVAL", "EACCES"],
];

fn calls_come_to_what_they_come_to_without_a_wall(stage: &Stage) {
    let program = compile(stage, "semantics", include_str!("semantics.c"));
    let flags = format!(
        "--read {program} --connect tcp://localhost:7000-7003 --connect udp://localhost:7000-7003 \
         --listen tcp://*:7000-7003 --listen udp://*:7000-7003 --listen tcp://*:0"
    );
    let bare = stage.call(program.as_ref(), [stage.text("")]);
    let bare = in_own_network(stage, "", &bare).run();
    bare.is(0);
    let behind = guest(stage, &flags, &format!("{program} /tmp"));
    let behind = in_own_network(stage, "", &behind).run();
    behind.is(0);
    let mut expected: Vec<_> = bare.text().lines().map(str::to_owned).collect();
    for [what, without, with] in DIFFERENT {
        let line = format!("{what}: {without}");
        let place = expected.iter().position(|found| *found == line);
        let place = place.unwrap_or_else(|| panic!("no {line:?} without a wall"));
        expected[place] = format!("{what}: {with}");
    }
    let found = behind.text();
    for (found, expected) in found.lines().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.len());
}
