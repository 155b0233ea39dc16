use super::*;
use crate::rows::{present_on_terminal, ukvm::MEMORY_500};

fn process(command: &str, called: &str, kib: u64) -> Process {
    Process {
        command: command.to_owned(),
        called: called.to_owned(),
        held: Held {
            bytes: kib << 10,
            private_bytes: kib << 8,
        },
    }
}

/// As they stand in a tree, parents first.
fn behind_palisade() -> Vec<Process> {
    vec![
        process("palisade", "palisade", 3000),
        process("memfd:palisade-", "palisade-keeper", 30),
        process("memfd:palisade-", "palisade-keeper", 66),
        process("opens", "opens", 120),
    ]
}

#[test]
fn the_program_s_memory_is_told_apart_from_the_wall_s() {
    let readings = readings(&behind_palisade()).unwrap();
    let seen: Vec<_> = readings
        .iter()
        .map(|one| (one.measure.as_str(), one.values[0] / 1024.0))
        .collect();
    assert_eq!(
        seen,
        [
            ("guest", 120.0),
            ("wall", 3096.0),
            ("wall, private", 774.0),
            ("wall: palisade", 3000.0),
            ("wall: palisade-keeper", 30.0),
            ("wall: palisade-keeper, its child", 66.0),
        ]
    );
}

#[test]
fn a_program_out_of_sight_is_no_memory_of_none() {
    let error = readings(&behind_palisade()[..3]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the program is no descendant of what was started: its memory cannot be told"
    );
}

#[test]
fn the_tables_fit_a_terminal() {
    let row = &MEMORY_500;
    let subjects = [BARE, PALISADE, "bubblewrap"];
    let mut samples = Samples::new(subjects.map(|one| Contender::new(row.name, one)).to_vec());
    let trees = [
        vec![process("opens", "opens", 116)],
        behind_palisade(),
        vec![
            process("bwrap", "bwrap", 400),
            process("bwrap", "bwrap", 200),
            process("opens", "opens", 116),
        ],
    ];
    for _ in 0..5 {
        samples.push_round(trees.iter().map(|tree| readings(tree).unwrap()).collect());
    }
    let (figures, text) = present_on_terminal(row, &samples);
    assert_eq!(figures.len(), 1 + 6 + 5);
    insta::assert_snapshot!(text);
}
