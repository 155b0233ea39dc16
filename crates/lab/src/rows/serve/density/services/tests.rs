use super::*;
use crate::rows::{
    present_on_terminal,
    serve::density::{DOCUMENTS, POPULAR},
};

/// Rounds of two contenders, the one with one and ten thousand services.
fn samples(kinds: &[Kind], objects: &[&str]) -> Samples {
    let mut contenders: Vec<Contender> = kinds
        .iter()
        .map(|kind| Contender::new(WORKLOAD, kind.subject()))
        .collect();
    contenders.push(Contender::new(WORKLOAD, BUDGETS));
    let mut samples = Samples::new(contenders.clone());
    for round in 0..6 {
        let more = 1.0 + f64::from(round) / 1000.0;
        let of_count = |count: usize, slower: f64| {
            let mut readings = vec![
                Reading::one_us(&format!("{FIRST}-{count}"), 200e3 * more),
                Reading::one_bytes(&format!("{RESIDENT}-{count}"), 60 << 20),
                Reading::one_bytes(&format!("{RESTED}-{count}"), 40_000),
                Reading::one_bytes(&format!("{BEYOND}-{count}"), 6_000),
                Reading::one_count(&format!("{DESCRIPTORS}-{count}"), 10_100),
                Reading::one_count(&format!("{MAPPINGS}-{count}"), 31_000),
                Reading::one_us(&format!("{RELOAD}-{count}"), 70e3 * more),
                Reading::one_us(&format!("{RELOAD_ALL}-{count}"), 90e3 * more),
            ];
            readings.extend(cold_readings(&[150e3, 160e3, 900e3], count));
            let rates = objects
                .iter()
                .map(|object| rate(&format!("{object}-{count}"), 40e3 * more / slower));
            readings.extend(rates);
            readings
        };
        let crowd = || [of_count(1, 1.0), of_count(10_000, 1.05)].concat();
        let mut runs: Vec<_> = kinds.iter().map(|_| crowd()).collect();
        let budget = |part: usize| {
            let per_s = 40e3 * more * (0.5 + part as f64 / 200.0);
            rate(&format!("{BUDGET}-{part}"), per_s)
        };
        runs.push(BUDGET_PARTS.map(budget).to_vec());
        samples.push_round(runs);
    }
    samples
}

#[test]
fn services_stand_down_and_costs_across() {
    let kinds = [Kind::Components, Kind::Nginx];
    let (figures, text) = present_on_terminal(&POPULAR, &samples(&kinds, &["small", "large"]));
    insta::assert_snapshot!(text);
    let reload = figures.iter().find(|one| one.measure == "reload-10000");
    let verdict = reload
        .and_then(|one| one.verdict)
        .map(|one| one.to_string());
    assert_eq!(verdict.as_deref(), Some("short"));
    let of_nginx = |one: &&Figure| one.contender.subject == Kind::Nginx.subject();
    let nginx: Vec<_> = figures.iter().filter(of_nginx).collect();
    assert!(!nginx.is_empty() && nginx.iter().all(|one| one.target.is_none()));
}

#[test]
fn one_document_has_one_column() {
    let (figures, text) =
        present_on_terminal(&DOCUMENTS, &samples(&[Kind::Programs], &["document"]));
    assert!(text.contains("100 KB"), "{text}");
    assert!(
        figures
            .iter()
            .any(|one| one.against.as_deref() == Some("one service"))
    );
}
