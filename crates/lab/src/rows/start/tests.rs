use super::*;
use crate::rows::present_on_terminal;

fn phases() -> Vec<Phase> {
    let phase = |name: &str, done_us| Phase {
        name: name.into(),
        done_us,
    };
    vec![
        phase("namespaces", 300.0),
        phase("plan-sent", 310.0),
        phase("root-built", 390.0),
        phase("program-running", 450.0),
        phase("domain-gone", 700.0),
    ]
}

fn names_and_values(readings: &[Reading]) -> Vec<(&str, f64)> {
    readings
        .iter()
        .map(|reading| (reading.measure.as_str(), reading.values[0]))
        .collect()
}

#[test]
fn a_run_is_its_steps_and_the_rest() {
    assert_eq!(
        names_and_values(&readings(1000.0, &phases())),
        [
            ("wall", 1000.0),
            ("namespaces", 300.0),
            ("plan-sent", 10.0),
            ("root-built", 80.0),
            ("program-running", 60.0),
            ("domain-gone", 250.0),
            ("rest", 300.0),
        ]
    );
}

/// Namespaces and root are there long before the plan is sent.
fn parked_phases() -> Vec<Phase> {
    let mut phases = phases();
    phases[1].done_us += 5080.0;
    phases[3].done_us += 5000.0;
    phases[4].done_us += 5000.0;
    phases
}

#[test]
fn what_was_done_ahead_is_no_part_of_a_run() {
    assert_eq!(
        names_and_values(&readings(420.0, &parked_phases())),
        [
            ("wall", 420.0),
            ("program-running", 60.0),
            ("domain-gone", 250.0),
            ("rest", 110.0)
        ]
    );
}

#[test]
fn steps_that_overlap_are_told_in_the_order_they_ended() {
    let mut phases = phases();
    phases.swap(0, 1);
    assert_eq!(readings(1000.0, &phases), readings(1000.0, &self::phases()));
}

/// Twelve rounds in which everybody takes about as long as on a quiet machine.
fn quiet_machine() -> Samples {
    let contenders = [
        (STATIC, "bare", 392.0),
        (STATIC, "palisade run", 1310.0),
        (STATIC, FLOOR, 1100.0),
        (STATIC, WALL_FLOOR, 1250.0),
        (STATIC, "bubblewrap", 3420.0),
        (STATIC, "palisade run --report", 1360.0),
        (STATIC, "library, keeper up", 760.0),
        (STATIC, "library, parked", 420.0),
        (STATIC, "library, planned", 390.0),
        (STATIC, PARKED_FLOOR, 350.0),
        (STATIC, PARKED_WALL_FLOOR, 395.0),
        (SYSTEM, "bare", 590.0),
        (SYSTEM, "palisade run", 1905.5),
        (SYSTEM, FLOOR, 1300.0),
        (SYSTEM, WALL_FLOOR, 1700.0),
        (SYSTEM, "bubblewrap", 3800.0),
        (SYSTEM, SAME_VIEW, 7800.0),
        (MODULE, "bare", 390.0),
        (MODULE, "palisade run, wasm", 1900.0),
        (MODULE, "wasmtime", 4400.0),
        (MODULE, "node", 41_000.0),
        (MODULE, "palisade run, cold", 31_000.0),
    ];
    let mut samples = Samples::new(
        contenders
            .map(|(workload, subject, _)| Contender::new(workload, subject))
            .to_vec(),
    );
    for round in 0..12 {
        let of_round = contenders.map(|(_, subject, wall_us)| {
            let wall_us = wall_us + f64::from(round % 5);
            match subject {
                "palisade run --report" | "library, keeper up" => readings(wall_us, &phases()),
                "library, parked" | "library, planned" => readings(wall_us, &parked_phases()),
                _ => vec![Reading::one_us(WALL, wall_us)],
            }
        });
        samples.push_round(of_round.to_vec());
    }
    samples
}

#[test]
fn the_tables_fit_a_terminal() {
    let (figures, text) = present_on_terminal(&Start, &quiet_machine());
    insta::assert_snapshot!(text);
    let to_floor = figures.iter().filter(|figure| figure.is_to_floor()).count();
    assert_eq!(to_floor, 9);
    assert_eq!(
        figures.len(),
        22 + 9 + to_floor,
        "what is not shown is kept"
    );
}

/// Else others would have taken fewer turns, and the target be told as undecided.
#[test]
fn whom_a_start_is_compared_with_takes_part_as_long_as_it_does() {
    let (figures, _) = Start.present(&quiet_machine());
    let compared = figures
        .iter()
        .filter_map(|figure| Some((figure.measure.strip_prefix("wall to ")?, figure)));
    let mut count = 0;
    for (other, figure) in compared {
        let against = figure.against.as_deref();
        assert_eq!(against, Some(other), "{}", figure.contender.subject);
        count += 1;
    }
    assert_eq!(count, 9 + 9);
}

#[test]
fn every_target_belongs_to_a_contender() {
    let subjects = std::iter::once(PALISADE).chain(LIBRARY.map(|(name, _)| name));
    let targets: Vec<_> = subjects
        .filter_map(|subject| target_of(&Contender::new(STATIC, subject)))
        .collect();
    assert_eq!(
        targets,
        [
            Target::AtMost(1500.0),
            Target::AtMostOverBare(200.0),
            Target::AtMostOverBare(0.0)
        ]
    );
}
