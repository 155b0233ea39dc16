use super::*;

/// An even number is of the group `true`.
impl Member for u32 {
    type Group = bool;

    fn group(&self) -> bool {
        self.is_multiple_of(2)
    }

    fn activity(counts: &[u64]) -> u64 {
        counts[0]
    }
}

type Two = Places<u32, 2>;

fn counts(of: &[(u32, u64)]) -> Vec<(u32, [u64; 2])> {
    of.iter()
        .map(|(member, count)| (*member, [*count, 10 * count]))
        .collect()
}

fn seated(places: &Two) -> Vec<u32> {
    let known = places.known.iter();
    known
        .filter(|(_, known)| known.has_place)
        .map(|(member, _)| *member)
        .collect()
}

#[test]
fn all_have_places_where_there_are_enough() {
    let mut places = Two::default();
    places.observe(&counts(&[(1, 0), (2, 5)]), 2, Instant::now());
    assert_eq!(places.own(&1), Some(&[0, 0]));
    assert_eq!(places.own(&2), Some(&[5, 50]));
    assert_eq!((places.others(true), places.others(false)), (None, None));
}

#[test]
fn the_most_active_have_places_and_the_idle_none() {
    let mut places = Two::default();
    let now = Instant::now();
    places.observe(&counts(&[(1, 0), (2, 5), (3, 9), (4, 7)]), 2, now);
    assert_eq!(seated(&places), [3, 4]);
    assert_eq!(places.others(true), Some(&[5, 50]));
    assert_eq!(places.others(false), Some(&[0, 0]));
    let mut places = Two::default();
    places.observe(&counts(&[(1, 0), (2, 0), (3, 0)]), 2, now);
    assert_eq!(
        seated(&places),
        [0; 0],
        "they are kept for who does something"
    );
    places.observe(&counts(&[(1, 0), (2, 0), (3, 1)]), 2, now);
    assert_eq!(seated(&places), [3]);
    assert_eq!(places.own(&3), Some(&[1, 10]), "from its first request on");
}

#[test]
fn a_place_is_kept_until_a_review_finds_somebody_clearly_more_active() {
    let mut places = Two::default();
    let begun = Instant::now();
    places.observe(&counts(&[(1, 10), (2, 1), (3, 2)]), 1, begun);
    assert_eq!(seated(&places), [1]);
    places.observe(&counts(&[(1, 20), (2, 1), (3, 900)]), 1, begun + REVIEW / 2);
    assert_eq!(seated(&places), [1], "no review is due");
    places.observe(&counts(&[(1, 500), (2, 1), (3, 900)]), 1, begun + REVIEW);
    assert_eq!(seated(&places), [1], "898 is not twice 490");
    places.observe(
        &counts(&[(1, 501), (2, 1), (3, 910)]),
        1,
        begun + 2 * REVIEW,
    );
    assert_eq!(seated(&places), [3]);
    assert_eq!(
        places.own(&3),
        Some(&[10, 100]),
        "what it did before stays with the others"
    );
    assert_eq!(
        places.others(false),
        Some(&[901, 9010]),
        "and what 1 has done since it left"
    );
    assert_eq!(places.own(&1), None);
    places.observe(
        &counts(&[(1, 1501), (2, 1), (3, 911)]),
        1,
        begun + 3 * REVIEW,
    );
    assert_eq!(
        places.own(&1),
        Some(&[1500, 15000]),
        "it goes on where it was"
    );
}

#[test]
fn a_lower_limit_takes_places_from_the_least_active() {
    let mut places = Two::default();
    let now = Instant::now();
    places.observe(&counts(&[(1, 3), (2, 9), (3, 6)]), 3, now);
    places.observe(&counts(&[(1, 4), (2, 19), (3, 10)]), 2, now);
    assert_eq!(seated(&places), [2, 3]);
    places.observe(&counts(&[(1, 4), (2, 19), (3, 10)]), 0, now);
    assert_eq!(seated(&places), [0; 0]);
    assert_eq!(
        places.others(true),
        Some(&[0, 0]),
        "it has done nothing since"
    );
}

#[test]
fn what_is_forgotten_still_counts_and_begins_anew() {
    let mut places = Two::default();
    let now = Instant::now();
    places.observe(&counts(&[(1, 9), (3, 2), (5, 1)]), 1, now);
    places.leave(&3, &[4, 40]);
    assert_eq!(places.others(false), Some(&[5, 50]));
    // The same name again, and another that was never looked at meanwhile.
    places.observe(&counts(&[(1, 9), (3, 1), (5, 1)]), 1, now);
    assert_eq!(places.others(false), Some(&[6, 60]));
    places.leave(&77, &[4, 40]);
    assert_eq!(places.others(false), Some(&[6, 60]));
}

#[test]
fn a_count_that_begins_below_takes_nothing_away() {
    let mut places = Two::default();
    let now = Instant::now();
    places.observe(&counts(&[(1, 9), (3, 5)]), 1, now);
    places.observe(&counts(&[(1, 2), (3, 1)]), 1, now);
    assert_eq!(places.own(&1), Some(&[9, 90]));
    assert_eq!(places.others(false), Some(&[5, 50]));
    places.observe(&counts(&[(1, 4), (3, 2)]), 1, now);
    assert_eq!(places.own(&1), Some(&[11, 110]));
    assert_eq!(places.others(false), Some(&[6, 60]));
}

/// Traffic that wanders over 200 members while the limit changes, members come and go and looks are irregular.
#[test]
fn no_series_goes_down_and_none_is_lost() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut places = Two::default();
    let mut now = Instant::now();
    let mut all: BTreeMap<u32, [u64; 2]> = (0..200).map(|member| (member, [0; 2])).collect();
    let mut seen: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    let mut seen_others = [[0; 2]; 2];
    let (mut counted, mut forgotten, mut moves) = (0, 0, 0);
    for round in 0..2000_u64 {
        now += Duration::from_secs(next(120));
        for _ in 0..next(300) {
            let member = (round / 8 + next(20)) as u32 % 200;
            let more = 1 + next(9);
            if let Some(counts) = all.get_mut(&member) {
                add(counts, &[more, 10 * more]);
                counted += more;
            }
        }
        let member = next(200) as u32;
        match next(10) {
            0 => {
                if let Some(counts) = all.remove(&member) {
                    let known = places.known.get(&member);
                    forgotten += known.map_or(counts[0], |known| {
                        let last = if known.has_place {
                            counts[0] - known.last[0]
                        } else {
                            0
                        };
                        known.own[0] + last
                    });
                    places.leave(&member, &counts);
                    seen.remove(&member);
                }
            }
            1 => {
                all.entry(member).or_default();
            }
            _ => {}
        }
        let most = 20 + (round / 500) as usize % 3 * 10;
        let members: Vec<_> = all
            .iter()
            .map(|(member, counts)| (*member, *counts))
            .collect();
        let before = seated(&places);
        places.observe(&members, most, now);
        moves += before
            .iter()
            .filter(|member| places.own(member).is_none())
            .count();
        assert!(seated(&places).len() <= most);
        for (member, counts) in &members {
            let own = places.known[member].own;
            let before = seen.insert(*member, own).unwrap_or_default();
            assert!(own >= before && own[0] <= counts[0] && own[1] == 10 * own[0]);
        }
        for (at, group) in [false, true].into_iter().enumerate() {
            let others = places.others(group).copied().unwrap_or_default();
            assert!(others[0] >= seen_others[at][0]);
            seen_others[at] = others;
        }
    }
    let shown: u64 = seen
        .values()
        .chain(&seen_others)
        .map(|counts| counts[0])
        .sum();
    assert_eq!(shown + forgotten, counted);
    assert!(moves > 50, "{moves} moves");
}
