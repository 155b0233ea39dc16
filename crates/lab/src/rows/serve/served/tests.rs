use super::super::{COMPONENTS, FILES, FILTERS, PICTURES, PROGRAMS, REPLY_LATENCY};
use super::*;
use crate::{
    rows::{present_on_terminal, serve::load::requests},
    sample::Reading,
};

static ROWS: [(&str, &Served); 6] = [
    ("kp-7", &REPLY_LATENCY),
    ("serve-filter", &FILTERS),
    ("serve-files", &FILES),
    ("serve-component", &COMPONENTS),
    ("serve-program", &PROGRAMS),
    ("serve-pictures", &PICTURES),
];

/// Each lane is a little better or worse than the one before it, in each of six rounds.
fn samples(row: &Served) -> Samples {
    let lanes = || row.lanes.iter().zip(0_u8..);
    let contenders = row
        .documents
        .iter()
        .flat_map(|document| lanes().map(|(lane, _)| Contender::new(document.title, lane.subject)));
    let mut samples = Samples::new(contenders.collect());
    for round in 0..6 {
        let noise = 0.01 * f64::from(round % 3);
        let readings = row.documents.iter().flat_map(|_| {
            lanes().map(|(_, place)| match row.way {
                Way::Busy => vec![requests(50_000.0 - 200.0 * f64::from(place) + noise)],
                Way::InTurn => {
                    let us = 20.0 + 0.4 * f64::from(place) + noise;
                    vec![
                        Reading::one_us(REPLY, us),
                        Reading::one_us(FASTEST, us - 1.0),
                    ]
                }
            })
        });
        samples.push_round(readings.collect());
    }
    samples
}

#[test]
fn contenders_stand_down_with_what_they_are_held_to() {
    for (name, row) in ROWS {
        let (figures, text) = present_on_terminal(row, &samples(row));
        insta::assert_snapshot!(name, text);
        let judged = figures.iter().filter(|one| one.verdict.is_some()).count();
        let targets = row.judgements.iter().filter(|one| one.target.is_some());
        assert_eq!(judged, targets.count() * row.documents.len());
    }
}

/// 50,000 in a second are 20 µs each, 49,800 are 20.08.
#[test]
fn the_price_of_isolation_is_a_difference_of_times() {
    let (figures, text) = present_on_terminal(&FILTERS, &samples(&FILTERS));
    let prices: Vec<_> = figures
        .iter()
        .filter(|one| one.measure == ISOLATION)
        .collect();
    assert_eq!(prices.len(), FILTERS.isolations.len(), "{text}");
    for price in prices {
        let more = price.difference.unwrap();
        assert!(more.low > 0.075 && more.high < 0.085, "{more:?}");
    }
    let mut samples = samples(&FILTERS);
    let is_fresh = |one: &Contender| one.subject == FILTERS.isolations[0].fresh;
    let fresh = samples.contenders().iter().position(is_fresh).unwrap();
    samples.leave_out(fresh);
    let (figures, _) = present_on_terminal(&FILTERS, &samples);
    let prices = figures.iter().filter(|one| one.measure == ISOLATION);
    assert_eq!(prices.count(), FILTERS.isolations.len() - 1);
}

#[test]
fn every_judgement_is_of_lanes_that_there_are() {
    for (_, row) in ROWS {
        let is_lane = |subject: &str| row.lanes.iter().any(|lane| lane.subject == subject);
        let mut judgements = row.judgements.iter();
        assert!(judgements.all(|one| is_lane(one.subject) && is_lane(one.against)));
        let mut isolations = row.isolations.iter();
        assert!(isolations.all(|one| is_lane(one.kept) && is_lane(one.fresh)));
    }
}

/// Without nginx there is nobody to compare with, and nothing is judged.
#[test]
fn who_is_not_here_is_compared_with_nobody() {
    let mut samples = samples(&FILES);
    for nginx in [3, 1] {
        samples.leave_out(nginx);
    }
    let (figures, _) = present_on_terminal(&FILES, &samples);
    assert!(
        figures
            .iter()
            .all(|one| one.verdict.is_none() && one.ratio.is_none())
    );
}
