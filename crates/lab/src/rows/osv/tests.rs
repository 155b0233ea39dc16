use super::*;
use crate::rows::present_on_terminal;

/// Each workload takes ten times as long as the one before, up to a point; huge pages help a little.
fn quiet_machine(row: &Jvm, subjects: &[(&str, f64)]) -> Samples {
    let contenders = row.workloads.iter().flat_map(|workload| {
        subjects
            .iter()
            .map(|(one, _)| Contender::new(workload, one))
    });
    let mut samples = Samples::new(contenders.collect());
    for round in 0..4 {
        let of_round = row
            .workloads
            .iter()
            .enumerate()
            .flat_map(|(index, workload)| {
                subjects.iter().map(move |(_, times)| {
                    let value = 15.8 * 10f64.powi(index as i32 % 5) * times;
                    vec![Reading {
                        measure: (*workload).to_owned(),
                        unit: UNIT,
                        values: vec![9e9, value * (1.0 + 1e-3 * f64::from(round)), 0.0],
                    }]
                })
            });
        samples.push_round(of_round.collect());
    }
    samples
}

const EVERYBODY: [(&str, f64); 5] = [
    (BARE, 1.0),
    (PALISADE, 1.004),
    (BUBBLEWRAP, 1.002),
    (BARE_HUGE, 0.96),
    (PALISADE_HUGE, 0.965),
];

#[test]
fn the_tables_fit_a_terminal() {
    let samples = quiet_machine(&JVM, &EVERYBODY);
    let (figures, text) = present_on_terminal(&JVM, &samples);
    assert_eq!(figures.len(), 21 * 5 + 4);
    insta::assert_snapshot!(text);
}

#[test]
fn who_is_not_there_leaves_no_trace() {
    let (figures, tables) = JVM.present(&quiet_machine(&JVM, &EVERYBODY[..2]));
    assert_eq!((figures.len(), tables.len()), (21 * 2 + 1, 1));
}

#[test]
fn a_mean_is_judged_by_its_own_target() {
    let verdict = |subject, times| {
        let samples = quiet_machine(&JVM, &[(BARE, 1.0), (subject, times)]);
        JVM.mean_figure(&samples, subject)
            .verdict
            .map(|verdict| verdict.to_string())
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(verdict(PALISADE, 0.999), text("pass"));
    assert_eq!(verdict(PALISADE, 1.02), text("short"));
    assert_eq!(verdict(PALISADE_HUGE, 0.98), text("pass"));
    assert_eq!(verdict(PALISADE_HUGE, 0.999), text("short"));
    assert_eq!(verdict(BARE_HUGE, 0.98), None);
}

#[test]
fn only_one_line_of_the_workload_that_was_asked_for_counts() {
    let parse = |text| parse_output(text, "serial").map_err(|error| error.to_string());
    let reading = parse("serial 1500 2500\n").unwrap();
    assert_eq!((reading.unit, reading.values), (UNIT, vec![1.5, 2.5]));
    for (text, complaint) in [
        ("derby 1 2\n", "the JVM ran \"derby\""),
        ("serial\n", "it printed \"serial\""),
        ("", "it printed \"\""),
        (
            "no huge pages\nserial 1 2\n",
            "the JVM printed \"no huge pages\"",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err(), complaint);
    }
}

#[test]
fn time_is_spent_on_runs_first_and_then_on_rounds() {
    let pace = |seconds, contenders| {
        let pace = Pace::of(Duration::from_secs(seconds), contenders);
        (pace.run_time.as_millis(), pace.most_rounds)
    };
    assert_eq!(pace(0, 105), (50, 4));
    assert_eq!(pace(240, 105), (50, 4));
    assert_eq!(pace(420, 105), (250, 4));
    assert_eq!(pace(17 * 60, 105), (1678, 4));
    assert_eq!(pace(3600, 105), (2500, 10));
}

#[test]
fn huge_pages_are_asked_for_only_where_there_are_some() {
    let offers = |setting: Option<&str>| {
        offers_huge_pages(&Environment {
            huge_pages: setting.map(ToOwned::to_owned),
            ..Environment::default()
        })
    };
    assert_eq!(
        [Some("always"), Some("madvise"), Some("never"), None].map(offers),
        [true, true, false, false]
    );
}
