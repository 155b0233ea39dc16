use super::*;
use crate::rows::present_on_terminal;

fn results(changed: &[(&str, Outcome)]) -> Results {
    let tests = (0..50).map(|number| (format!("test_{number:02}"), Outcome::Passed));
    let changed = changed
        .iter()
        .map(|(name, outcome)| ((*name).to_owned(), *outcome));
    tests.chain(changed).collect()
}

/// Two rounds of the first suite.
fn samples(runs: [[Results; 2]; 2]) -> Samples {
    let contenders = [BARE, PALISADE].map(|one| Contender::new(SUITES[0].title, one));
    let mut samples = Samples::new(contenders.to_vec());
    for round in runs {
        samples.push_round(round.iter().map(readings).collect());
    }
    samples
}

#[test]
fn equal_lists_pass() {
    let same = || results(&[("test_07", Outcome::Failed)]);
    let (figures, text) =
        present_on_terminal(&Conformance, &samples([[same(), same()], [same(), same()]]));
    let verdicts: Vec<_> = figures.iter().filter_map(|figure| figure.verdict).collect();
    assert_eq!(verdicts, [Verdict::Pass]);
    insta::assert_snapshot!(text);
}

#[test]
fn differences_are_short_and_named() {
    let long = "org.example.with.many.parts.of.a.name.that.take.columns.away.VeryLongTest.testOfManyWords()";
    let outside = |flaky| results(&[(long, Outcome::Passed), ("test_flaky", flaky)]);
    let inside = || {
        results(&[
            (long, Outcome::Failed),
            ("test_flaky", Outcome::Passed),
            ("test_03", Outcome::Skipped),
        ])
    };
    let runs = [
        [outside(Outcome::Passed), inside()],
        [outside(Outcome::Failed), inside()],
    ];
    let (figures, text) = present_on_terminal(&Conformance, &samples(runs));
    let verdicts: Vec<_> = figures.iter().filter_map(|figure| figure.verdict).collect();
    assert_eq!(verdicts, [Verdict::Short]);
    insta::assert_snapshot!(text);
}

#[test]
fn so_many_differences_are_not_all_shown() {
    let failed: Vec<_> = (0..50)
        .map(|number| (format!("test_{number:02}"), Outcome::Failed))
        .collect();
    let inside = || failed.iter().cloned().collect::<Results>();
    let runs = [[results(&[]), inside()], [results(&[]), inside()]];
    let (_, text) = present_on_terminal(&Conformance, &samples(runs));
    assert!(
        text.contains("and 10 more, which the samples name"),
        "{text}"
    );
}
