use super::*;
use crate::rows::present_on_terminal;
use crate::workloads::Workloads;
use std::ffi::OsString;

#[test]
fn the_workload_measures_every_operation() {
    let workloads = Workloads::new().unwrap();
    let program = workloads.add_syscalls().unwrap().into_os_string();
    let folder = workloads.folder().as_os_str().to_owned();
    let words: [OsString; 4] = [program, folder, "10".into(), "2".into()];
    let output = Program::new(&words).unwrap().run_for_output().unwrap();
    let readings = parse_output(&output).unwrap();
    let names: Vec<_> = readings
        .iter()
        .map(|reading| reading.measure.as_str())
        .collect();
    assert_eq!(names, OPERATIONS.map(|(name, ..)| name));
    assert!(
        readings
            .iter()
            .all(|reading| reading.values.len() == 2 && reading.values.iter().all(|&ns| ns > 0.0)),
        "{output}"
    );
}

#[test]
fn an_operation_that_is_refused_ends_the_workload() {
    let workloads = Workloads::new().unwrap();
    let program = workloads.add_syscalls().unwrap().into_os_string();
    std::fs::remove_file(workloads.files_folder().join("0")).unwrap();
    let folder = workloads.folder().as_os_str().to_owned();
    let words: [OsString; 4] = [program, folder, "10".into(), "2".into()];
    let error = Program::new(&words).unwrap().run_for_output().unwrap_err();
    assert_eq!(
        error.to_string(),
        "exit status: 1: syscalls: open/close: No such file or directory"
    );
}

#[test]
fn output_that_leaves_an_operation_out_is_refused() {
    assert_eq!(
        parse_output("getpid 1 2\n").unwrap_err().to_string(),
        "syscalls left out open+close"
    );
    assert_eq!(
        parse_output("getpid 1 x\n").unwrap_err().to_string(),
        "syscalls printed \"getpid 1 x\""
    );
    assert_eq!(
        parse_output("getpid\n").unwrap_err().to_string(),
        "syscalls printed \"getpid\""
    );
}

/// Each operation takes 100 ns more than the one before; walls cost what filters and mounts cost.
fn quiet_machine() -> Samples {
    let contenders =
        [BARE, PALISADE, ALL_ON, BUBBLEWRAP].map(|subject| Contender::new(WORKLOAD, subject));
    let mut samples = Samples::new(contenders.to_vec());
    for round in 0..10 {
        let of_round = [1.0, 1.04, 1.1, 1.002].map(|times| {
            let reading = |(index, (name, ..)): (usize, &(&str, &str, f64))| {
                let noise = f64::from(round % 3) * times * times;
                let ns = 100.0 * (index + 1) as f64 * times + noise;
                Reading {
                    measure: (*name).to_owned(),
                    unit: Unit::Nanoseconds,
                    values: vec![ns, ns, 9e9],
                }
            };
            OPERATIONS.iter().enumerate().map(reading).collect()
        });
        samples.push_round(of_round.to_vec());
    }
    samples
}

#[test]
fn the_table_fits_a_terminal() {
    let (figures, text) = present_on_terminal(&Syscalls, &quiet_machine());
    insta::assert_snapshot!(text);
    assert_eq!(figures.len(), 4 * OPERATIONS.len() + 3);
}

#[test]
fn a_peer_that_is_not_there_leaves_its_column_empty() {
    let contenders = [BARE, PALISADE, ALL_ON].map(|subject| Contender::new(WORKLOAD, subject));
    let mut samples = Samples::new(contenders.to_vec());
    let readings = || {
        OPERATIONS.map(|(name, ..)| Reading {
            measure: name.into(),
            unit: Unit::Nanoseconds,
            values: vec![7.0],
        })
    };
    for _ in 0..2 {
        samples.push_round([(); 3].map(|()| readings().to_vec()).to_vec());
    }
    let (_, tables) = Syscalls.present(&samples);
    let text = tables[0].1.to_string();
    let getpid = text
        .lines()
        .find(|line| line.starts_with("getpid"))
        .unwrap();
    assert_eq!(
        getpid.split_whitespace().collect::<Vec<_>>(),
        "getpid 7.0 ≤ 1.15 1.000 1.000–1.000 pass 1.000 1.000–1.000 pass"
            .split(' ')
            .collect::<Vec<_>>()
    );
}
