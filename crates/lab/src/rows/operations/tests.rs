use super::*;
use crate::rows::{network, present_on_terminal, sva::BANDWIDTH, syscalls::SYSCALLS, ukvm};
use crate::{figure::Verdict, sample::Reading, wasi::Toolchain};
use std::ffi::OsString;

/// Every row of this kind.
fn every_row() -> [&'static Operations; 6] {
    [
        &SYSCALLS,
        &ukvm::OPENS,
        &ukvm::BLOCKS,
        &ukvm::THREADS,
        &ukvm::CHECKED_OPENS,
        &BANDWIDTH,
    ]
}

/// Every row with two ends.
fn every_row_with_two_ends() -> [&'static Operations; 11] {
    [
        &network::REPLY,
        &network::BROKER,
        &network::BLOCKS,
        &network::PACKETS,
        &network::BULK,
        &network::DOCUMENTS,
        &network::REDIS,
        &network::FILES,
        &network::COPY,
        &network::MEMCACHED,
        &network::POSTGRES,
    ]
}

/// The command of a row with one end.
fn lay_out(row: &Operations, workloads: &Workloads) -> anyhow::Result<Command> {
    match row.workload {
        Workload::Alone(lay_out) => lay_out(workloads),
        Workload::TwoEnds(..) | Workload::InTurn(..) => unreachable!("{} has two ends", row.name),
    }
}

/// The row's program with no wall and little time.
fn run_bare(row: &Operations, workloads: &Workloads) -> anyhow::Result<String> {
    let command = lay_out(row, workloads)?;
    let mut words: Vec<OsString> = vec![command.program];
    words.extend(command.arguments);
    *words.last_mut().unwrap() = "2".into();
    Program::new(&words)?.run_for_output()
}

#[test]
fn each_workload_measures_every_operation_of_its_row() {
    for row in every_row() {
        let output = run_bare(row, &Workloads::new().unwrap()).unwrap();
        let readings = parse_output(&output, row.unit, &row.keys()).unwrap();
        let mut measured: Vec<_> = readings.iter().map(|one| one.measure.as_str()).collect();
        let mut expected: Vec<_> = row.operations.iter().map(|one| one.key).collect();
        measured.sort_unstable();
        expected.sort_unstable();
        assert_eq!(measured, expected, "{}", row.name);
        let is_whole =
            |one: &Reading| one.values.len() == 2 && one.values.iter().all(|&it| it > 0.0);
        assert!(readings.iter().all(is_whole), "{output}");
    }
}

#[test]
fn an_operation_that_is_refused_ends_the_workload() {
    let workloads = Workloads::new().unwrap();
    let command = lay_out(&SYSCALLS, &workloads).unwrap();
    std::fs::remove_file(workloads.files_folder().join("0")).unwrap();
    let words: Vec<_> = [command.program]
        .into_iter()
        .chain(command.arguments)
        .collect();
    let error = Program::new(&words).unwrap().run_for_output().unwrap_err();
    assert_eq!(
        error.to_string(),
        "exit status: 1: syscalls: open/close: No such file or directory"
    );
}

#[test]
fn output_that_leaves_an_operation_out_is_refused() {
    let parse = |text: &str| parse_output(text, Unit::Nanoseconds, &SYSCALLS.keys());
    for (text, complaint) in [
        ("getpid 1 2\n", "it left out open+close"),
        ("getpid 1 x\n", "it printed \"getpid 1 x\""),
        ("getpid\n", "it printed \"getpid\""),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), complaint);
    }
}

#[test]
fn figures_are_in_the_row_s_unit() {
    let keys = ["open-500"];
    let readings = parse_output("open-500 1500\nholding\n", Unit::Microseconds, &keys).unwrap();
    assert_eq!(readings, [Reading::one_us("open-500", 1.5)]);
}

/// Each operation takes 100 more than the one before; walls cost what filters and mounts cost.
fn quiet_machine(row: &Operations, subjects: &[&str]) -> Samples {
    const TIMES: [f64; 9] = [1.0, 1.04, 1.1, 1.002, 1.07, 1.5, 1.003, 1.001, 9.0];
    let contenders = subjects.iter().map(|one| Contender::new(row.name, one));
    let mut samples = Samples::new(contenders.collect());
    for round in 0..10 {
        let of_round = TIMES[..subjects.len()].iter().map(|times| {
            let reading = |(index, operation): (usize, &Operation)| {
                let noise = f64::from(round % 3) * times * times;
                let value = 100.0 * (index + 1) as f64 * times + noise;
                Reading {
                    measure: operation.key.to_owned(),
                    unit: row.unit,
                    values: vec![value, value, 9e9],
                }
            };
            row.operations.iter().enumerate().map(reading).collect()
        });
        samples.push_round(of_round.collect());
    }
    samples
}

fn subjects_of(row: &Operations) -> Vec<&'static str> {
    let ours = row.walls.iter().map(|wall| wall.subject);
    let everybody = [BARE].into_iter().chain(ours);
    everybody.chain(["bubblewrap"]).collect()
}

#[test]
fn every_table_fits_a_terminal() {
    for row in every_row() {
        let subjects = subjects_of(row);
        let (figures, text) = present_on_terminal(row, &quiet_machine(row, &subjects));
        let walls = subjects.len() - 1;
        assert_eq!(figures.len(), subjects.len() * row.operations.len() + walls);
        insta::assert_snapshot!(row.name, text);
    }
}

/// Between ours and peers.
fn subjects_with_floor(row: &Operations) -> Vec<&'static str> {
    let mut subjects = subjects_of(row);
    let bubblewrap = subjects.pop();
    let floors = [FLOOR, "floor, all on"].into_iter().take(row.walls.len());
    subjects.extend(floors.chain(bubblewrap));
    subjects
}

#[test]
fn every_table_with_a_floor_fits_a_terminal() {
    let with_ends = every_row_with_two_ends().into_iter();
    let rows = every_row().into_iter().chain(with_ends);
    for row in rows.filter(|row| row.floor.is_subject()) {
        let subjects = subjects_with_floor(row);
        let (figures, text) = present_on_terminal(row, &quiet_machine(row, &subjects));
        let to_floor = figures.iter().filter(|figure| figure.is_to_floor());
        let judged = to_floor.filter(|figure| figure.verdict.is_some()).count();
        assert_eq!(
            judged,
            row.walls.len() * row.operations.len(),
            "{}",
            row.name
        );
        insta::assert_snapshot!(format!("{}-floor", row.name), text);
    }
}

/// The floor is at 1.1 × bare: `mk-2` may cost 1.01, so nobody can reach that, and palisade's 1.04 is below the floor.
#[test]
fn a_target_below_the_floor_is_none_that_is_missed() {
    let row = &ukvm::OPENS;
    let (figures, _) = row.present(&quiet_machine(row, &subjects_with_floor(row)));
    let ours = figures
        .iter()
        .filter(|one| one.contender.subject == "palisade run");
    let to_bare = ours.clone().find(|one| one.measure == "open-500").unwrap();
    assert_eq!(to_bare.verdict, Some(Verdict::BelowFloor));
    assert!(to_bare.floor.is_some_and(|floor| floor.low > 1.01));
    let to_floor = ours
        .clone()
        .find(|one| one.measure == "open-500 to floor")
        .unwrap();
    assert_eq!(to_floor.verdict, Some(Verdict::Pass));
    let (figures, _) = row.present(&quiet_machine(row, &subjects_of(row)));
    let short = |one: &Figure| one.verdict == Some(Verdict::Short);
    assert!(figures.iter().any(short) && figures.iter().all(|one| one.floor.is_none()));
}

/// 5 ns for each of 500 opens are more than 2 % of a short time, and less of a long one.
#[test]
fn a_little_more_than_the_floor_is_allowed_for_each_call() {
    let target = |calls| Allowance::Calls(calls).target(Unit::Microseconds);
    assert_eq!(target(500), Target::AtMostTimesFloorOrOver(1.02, 2.5));
    let target = Allowance::Calls(1).target(Unit::Nanoseconds);
    assert_eq!(target, Target::AtMostTimesFloorOrOver(1.02, 5.0));
}

/// Beside those that can be asked for a network. Rates are the lower the more a wall costs, which the
/// samples of a quiet machine do not know.
#[test]
fn every_table_of_two_ends_fits_a_terminal() {
    for row in every_row_with_two_ends() {
        let subjects = [BARE, "palisade run", "bubblewrap", "sandlock", "bridged"];
        let (_, text) = present_on_terminal(row, &quiet_machine(row, &subjects));
        insta::assert_snapshot!(row.name, text);
    }
}

#[test]
fn a_rate_is_the_better_the_more_it_is() {
    let samples = |ours: f64| {
        let subjects = [BARE, "palisade run", "bridged"];
        let contenders = subjects.map(|one| Contender::new(network::MEMCACHED.name, one));
        let mut samples = Samples::new(contenders.to_vec());
        for _ in 0..5 {
            let rate = |value: f64| {
                vec![Reading {
                    measure: "requests".to_owned(),
                    unit: Unit::PerSecond,
                    values: vec![value],
                }]
            };
            samples.push_round([1000.0, ours, 500.0].map(rate).to_vec());
        }
        samples
    };
    let verdicts = |ours| {
        let (figures, _) = network::MEMCACHED.present(&samples(ours));
        let judged = figures.iter().filter_map(|figure| figure.verdict);
        judged
            .map(|verdict| verdict.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(verdicts(995.0), ["pass", "pass"]);
    assert_eq!(verdicts(700.0), ["short", "pass"]);
    assert_eq!(verdicts(600.0), ["short", "short"]);
}

#[test]
fn a_peer_that_is_not_there_has_no_column() {
    let samples = quiet_machine(&SYSCALLS, &subjects_of(&SYSCALLS)[..3]);
    let (_, tables) = SYSCALLS.present(&samples);
    assert_eq!(tables.len(), 1);
    assert!(!tables[0].1.to_string().contains("bwrap"));
}

/// Two walls leave room for one peer, the others stand below.
#[test]
fn peers_that_do_not_fit_have_a_table_of_their_own() {
    let peers = ["firejail", "sandlock", "crun", "runc", "runsc"];
    let subjects = [subjects_of(&SYSCALLS), peers.into()].concat();
    let (_, text) = present_on_terminal(&SYSCALLS, &quiet_machine(&SYSCALLS, &subjects));
    insta::assert_snapshot!("many-peers", text);
    let subjects = [subjects_of(&BANDWIDTH), peers.into()].concat();
    let (_, tables) = BANDWIDTH.present(&quiet_machine(&BANDWIDTH, &subjects));
    assert_eq!(tables.len(), 2);
}

/// What WASI has no calls for has no line, and peers that run programs stand in tables of their own.
#[test]
fn a_webassembly_program_has_a_table_of_its_own() {
    let subjects = [subjects_of(&SYSCALLS), vec![WASM, "wasmtime", "node"]].concat();
    let mut samples = quiet_machine(&SYSCALLS, &subjects);
    let lacks = SYSCALLS.through_wasi.unwrap().lacks;
    let rounds: Vec<_> = (0..samples.rounds())
        .map(|round| {
            let of = |subject: &&str| {
                let contender = Contender::new(SYSCALLS.name, subject);
                let is_native = subjects[..4].contains(subject);
                let keys = SYSCALLS.keys().into_iter();
                let keys = keys.filter(|key| is_native || !lacks.contains(key));
                let reading = |key: &str| Reading {
                    measure: key.to_owned(),
                    unit: SYSCALLS.unit,
                    values: vec![samples.series(&contender, key)[round]],
                };
                keys.map(reading).collect::<Vec<_>>()
            };
            subjects.iter().map(of).collect::<Vec<_>>()
        })
        .collect();
    samples = Samples::new(samples.contenders().to_vec());
    rounds
        .into_iter()
        .for_each(|round| samples.push_round(round));
    let (figures, text) = present_on_terminal(&SYSCALLS, &samples);
    insta::assert_snapshot!("through-wasi", text);
    let of_wasm = figures.iter().filter(|one| one.contender.subject == WASM);
    let (to_floor, of_wasm): (Vec<_>, Vec<_>) = of_wasm.partition(|one| one.is_to_floor());
    assert_eq!(to_floor.len(), SYSCALLS.operations.len() - lacks.len());
    assert!(of_wasm.iter().all(|figure| figure.verdict.is_none()));
    assert_eq!(of_wasm.len(), SYSCALLS.operations.len() - lacks.len() + 1);
}

/// The workloads that go through WASI compile where there is a compiler, which all tests need.
#[test]
fn workloads_through_wasi_compile() {
    let rows = every_row().into_iter();
    let rows = rows.filter_map(|row| Some((row.name, row.through_wasi?)));
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 5);
    if std::env::var_os("CI").is_none() && Toolchain::find().is_err() {
        eprintln!("skipped: {}", Toolchain::find().unwrap_err());
        return;
    }
    let workloads = Workloads::new().unwrap();
    for (name, through) in rows {
        let program = workloads.add_wasm(through.program);
        let program = std::fs::read(program.expect(name)).unwrap();
        assert_eq!(program[..8], *b"\0asm\x01\0\0\0", "{name}");
    }
}
