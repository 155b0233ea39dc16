use super::*;
use crate::{Outcome, Warning, sample::Reading};

/// A row whose rounds are these, with figures of bare and `subject`.
fn row(unit: Unit, subject: &str, bare: &[f64], ours: &[f64]) -> KeptRow {
    let contenders = [BARE, subject].map(|one| Contender::new("true", one));
    let mut samples = Samples::new(contenders.to_vec());
    for (bare, ours) in bare.iter().zip(ours) {
        let round = [*bare, *ours].map(|value| {
            vec![Reading {
                measure: "wall".into(),
                unit,
                values: vec![value],
            }]
        });
        samples.push_round(round.to_vec());
    }
    let figure = |one| Figure::of(&samples, one, None, ("wall", unit), None);
    KeptRow {
        outcome: Outcome {
            row: "start".into(),
            figures: contenders.iter().map(figure).collect(),
            ..Outcome::default()
        },
        samples,
    }
}

fn run(rows: Vec<KeptRow>) -> KeptRun {
    KeptRun {
        path: "/nowhere".into(),
        environment: Environment::default(),
        rows,
    }
}

/// A run in which bare takes `bare` and ours `ours`, every round the same.
fn steady(bare: f64, ours: f64) -> KeptRun {
    let unit = Unit::Microseconds;
    run(vec![row(unit, "palisade run", &[bare; 9], &[ours; 9])])
}

fn counts(subject: &str, ours: &[f64]) -> KeptRun {
    run(vec![row(Unit::Count, subject, &[5.0; 9], ours)])
}

fn ours(comparison: &Comparison) -> &Compared {
    let mut ours = comparison.compared.iter().filter(|one| one.is_ours);
    ours.next().expect("a figure of ours")
}

#[test]
fn a_machine_that_is_slower_in_all_changes_nothing() {
    let comparison = compare(&steady(100.0, 110.0), &steady(200.0, 220.0));
    let figure = ours(&comparison);
    assert_eq!(
        (figure.basis, figure.change),
        (Basis::RatioToBare, Change::Same)
    );
    assert_eq!(
        (figure.before, figure.after, figure.ratio.value),
        (1.1, 1.1, 1.0)
    );
    assert!(!comparison.is_worse());
}

#[test]
fn the_tolerance_is_an_end_that_belongs_to_it() {
    let at = |ours_us: f64| {
        let comparison = compare(&steady(100.0, 100.0), &steady(100.0, ours_us));
        (ours(&comparison).change, comparison.is_worse())
    };
    assert_eq!(at(105.0), (Change::Same, false));
    assert_eq!(at(105.1), (Change::Slower, true));
    assert_eq!(at(95.3), (Change::Same, false));
    assert_eq!(at(95.2), (Change::Faster, false));
}

#[test]
fn a_rate_that_falls_is_slower() {
    let rate = |ours: f64| {
        let unit = Unit::PerSecond;
        run(vec![row(unit, "palisade run", &[100.0; 9], &[ours; 9])])
    };
    let after = |ours_after| {
        let comparison = compare(&rate(90.0), &rate(ours_after));
        (ours(&comparison).change, comparison.is_worse())
    };
    assert_eq!(after(70.0), (Change::Slower, true));
    assert_eq!(after(90.0), (Change::Same, false));
    assert_eq!(after(99.0), (Change::Faster, false));
}

#[test]
fn an_interval_over_the_end_of_the_tolerance_tells_nothing() {
    let unit = Unit::Microseconds;
    let noisy = [100.0, 120.0, 100.0, 120.0, 110.0];
    let after = run(vec![row(unit, "palisade run", &[100.0; 5], &noisy)]);
    let comparison = compare(&steady(100.0, 100.0), &after);
    let figure = ours(&comparison);
    assert_eq!((figure.ratio.low, figure.ratio.high), (1.0, 1.2));
    assert_eq!(figure.change, Change::CannotTell);
    assert!(!comparison.is_worse());
}

#[test]
fn what_bare_and_others_do_decides_nothing() {
    let of_peer = |ours_us| {
        let unit = Unit::Microseconds;
        run(vec![row(unit, "bubblewrap", &[100.0; 9], &[ours_us; 9])])
    };
    let comparison = compare(&of_peer(100.0), &of_peer(300.0));
    let [bare, peer] = &comparison.compared[..] else {
        panic!("{comparison:?}");
    };
    assert_eq!((bare.basis, bare.change), (Basis::Itself, Change::Same));
    assert_eq!(
        (peer.basis, peer.change),
        (Basis::RatioToBare, Change::Slower)
    );
    assert!(!comparison.is_worse());
    assert_eq!(comparison.verdict(), "Nothing was compared.");
}

#[test]
fn a_count_may_not_grow_at_all() {
    let at = |calls: f64| {
        let comparison = compare(
            &counts("palisade run", &[400.0; 9]),
            &counts("palisade run", &[calls; 9]),
        );
        (ours(&comparison).basis, ours(&comparison).change)
    };
    assert_eq!(at(400.0), (Basis::Count, Change::Same));
    assert_eq!(at(401.0), (Basis::Count, Change::Slower));
    assert_eq!(at(399.0), (Basis::Count, Change::Faster));
}

#[test]
fn a_call_that_was_never_made_is_more() {
    let from_none = |calls: f64| {
        let none = counts("palisade run", &[0.0; 3]);
        let comparison = compare(&none, &counts("palisade run", &[calls; 3]));
        ours(&comparison).change
    };
    assert_eq!([0.0, 1.0].map(from_none), [Change::Same, Change::Slower]);
}

#[test]
fn other_circumstances_are_told_and_only_ratios_compared() {
    let mut after = steady(100.0, 110.0);
    after.environment.kernel = Some("6.12".into());
    after.environment.uid = 1000;
    let comparison = compare(&steady(100.0, 110.0), &after);
    assert_eq!(
        comparison.differences,
        [
            ("kernel", "not known".into(), "6.12".into()),
            ("user", "root".into(), "ordinary".into())
        ]
    );
    let [only] = &comparison.compared[..] else {
        panic!("{comparison:?}");
    };
    assert_eq!(only.basis, Basis::RatioToBare);
    assert_eq!(comparison.left_out.len(), 1, "bare itself");
}

#[test]
fn counts_are_compared_across_kernels_and_not_across_walls() {
    let before = counts("palisade run", &[400.0; 9]);
    let after = |change: fn(&mut Environment)| {
        let mut after = counts("palisade run", &[500.0; 9]);
        change(&mut after.environment);
        compare(&before, &after)
    };
    assert!(after(|environment| environment.kernel = Some("6.12".into())).is_worse());
    let left_out = after(|environment| environment.cgroups = Some("2".into()));
    assert!(left_out.compared.is_empty() && !left_out.is_worse());
    assert_eq!(
        left_out.left_out[0].0,
        "counts differ by nature, for control groups was `not known` and is `2`"
    );
    let other_view = after(|environment| environment.system_view = Some("6 links".into()));
    assert!(other_view.compared.is_empty());
}

#[test]
fn calls_that_vary_are_not_compared() {
    let of = |measure: &str, count| {
        let mut run = counts("palisade run", &[count; 9]);
        for figure in &mut run.rows[0].outcome.figures {
            figure.measure = measure.into();
        }
        run
    };
    assert!(compare(&of("wall", 4.0), &of("wall", 5.0)).is_worse());
    let comparison = compare(&of(VARYING, 4.0), &of(VARYING, 5.0));
    assert!(comparison.compared.is_empty() && comparison.left_out.is_empty());
}

#[test]
fn what_only_one_run_has_is_told() {
    let mut before = steady(1.0, 2.0);
    let mut other = before.rows[0].clone();
    other.outcome.row = "syscalls".into();
    before.rows.push(other.clone());
    other.outcome.row = "mk-2".into();
    let mut after = steady(1.0, 2.0);
    after.rows.push(other);
    let comparison = compare(&before, &after);
    assert_eq!(
        comparison.left_out,
        [
            (
                "the second run does not have it".to_owned(),
                vec!["syscalls".to_owned()]
            ),
            (
                "the first run does not have it".to_owned(),
                vec!["mk-2".to_owned()]
            ),
        ]
    );
}

#[test]
fn a_row_that_failed_is_not_compared() {
    let mut after = steady(1.0, 2.0);
    after.rows[0].outcome.failed = Some("no room".into());
    let comparison = compare(&steady(1.0, 2.0), &after);
    assert!(comparison.compared.is_empty());
    assert_eq!(
        comparison.left_out[0].0,
        "it failed in the second run: no room"
    );
}

#[test]
fn what_disturbed_a_run_is_said_once() {
    let busy = Warning::MachineBusy {
        load: 3.0,
        processors: 2,
    };
    let few = Warning::FewRounds { rounds: 2 };
    let doubted = |mut run: KeptRun| {
        run.rows[0].outcome.warnings = [&busy, &few].map(Doubt::from).to_vec();
        run.rows.push(run.rows[0].clone());
        run.rows[1].outcome.row = "mk-2".into();
        run
    };
    let comparison = compare(&steady(1.0, 2.0), &steady(1.0, 2.0));
    assert_eq!(comparison.doubts, [""; 0]);
    let mut before = steady(1.0, 2.0);
    before.rows.push(before.rows[0].clone());
    before.rows[1].outcome.row = "mk-2".into();
    let comparison = compare(&before, &doubted(steady(1.0, 2.0)));
    assert_eq!(comparison.doubts, [format!("second run: {busy}")]);
    let calls = || counts("palisade run", &[400.0; 3]);
    let mut disturbed = calls();
    disturbed.rows[0].outcome.warnings = vec![Doubt::from(&busy)];
    assert_eq!(compare(&calls(), &disturbed).doubts, [""; 0]);
}

#[test]
fn a_comparison_is_a_table_with_a_verdict() {
    let mut after = steady(100.0, 120.0);
    after.environment.host = Some("thinkpad".into());
    after.rows.extend(
        counts("palisade run", &[401.0; 3])
            .rows
            .into_iter()
            .map(|mut row| {
                row.outcome.row = "counts".into();
                row
            }),
    );
    let mut before = steady(100.0, 110.0);
    before.rows.extend(
        counts("palisade run", &[400.0; 3])
            .rows
            .into_iter()
            .map(|mut row| {
                row.outcome.row = "counts".into();
                row
            }),
    );
    let text = compare(&before, &after).to_string();
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    insta::assert_snapshot!(text);
}
