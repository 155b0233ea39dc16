use super::*;
use crate::rows::present_on_terminal;

const COMMAND: &str = "execve(\"/bin/palisade\", [\"palisade\"], 0x7ffe) = 0\nopenat(AT_FDCWD, \"x\") = 3\nopenat(AT_FDCWD, \"y\") = 3\nbrk(0x2000) = 0x2000\nexit_group(0) = ?\n";
const KEEPER: &str = "close_range(3, 3, 0) = 0\nexecveat(4, \"\", [\"palisade-keeper\"], 0x7f, AT_EMPTY_PATH) = 0\nppoll([], 0) = 1\nread(3, \"\", 1) = 0\n";
const INIT: &str = "mount(NULL, \"/\") = 0\nread(3, \"\", 1) = 0\n";
const GUEST: &str = "dup3(4, 0, 0) = 0\nexecve(0x7f, 0x7f, 0x7f) = 0\nbrk(NULL) = 0x1\n";

#[test]
fn what_depends_on_who_is_first_stands_apart() {
    let readings = readings(&[COMMAND, KEEPER, INIT, GUEST]);
    let counted: Vec<_> = readings
        .iter()
        .map(|one| (one.measure.as_str(), one.values[0]))
        .collect();
    assert_eq!(
        counted,
        [
            ("all", 9.0),
            ("command", 3.0),
            ("keeper", 2.0),
            ("init", 2.0),
            ("guest", 2.0),
            ("varying", 4.0),
            ("call: close_range", 1.0),
            ("call: dup3", 1.0),
            ("call: execve", 2.0),
            ("call: execveat", 1.0),
            ("call: mount", 1.0),
            ("call: openat", 2.0),
            ("call: read", 1.0),
        ]
    );
}

#[test]
fn the_tables_fit_a_terminal() {
    let contenders = COLUMNS.map(|(subject, _)| Contender::new(WORKLOAD, subject));
    let mut samples = Samples::new(contenders.to_vec());
    let bare = ["execve(\"/bin/true\", [], []) = 0\nexit_group(0) = ?\n"];
    let ours = [COMMAND, KEEPER, INIT, GUEST];
    for _ in 0..7 {
        samples.push_round(vec![
            readings(&bare),
            readings(&ours),
            readings(&ours),
            readings(&[COMMAND, GUEST]),
        ]);
    }
    let (_, text) = present_on_terminal(&Counts, &samples);
    insta::assert_snapshot!(text);
}

#[test]
fn perf_s_count_is_the_first_field() {
    let text = "# started on Sun\n\n570996,,instructions:u,1000,100.00,,\n";
    assert_eq!(read_instructions(text), Some(570_996));
    assert_eq!(
        read_instructions("<not supported>,,instructions:u,0,100.00,,\n"),
        None
    );
}
