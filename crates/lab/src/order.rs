//! Who runs when.

/// The order of one round's contenders.
///
/// Two take turns A B, B A, B A, A B: a drift of the machine, and the advantage of running first or
/// after a certain other, cancel out over four rounds. With more, each pair of rounds also
/// begins one place further along.
pub fn order_of_round(round: usize, contenders: usize) -> Vec<usize> {
    let first = round / 2;
    let mut order: Vec<usize> = (0..contenders)
        .map(|turn| (first + turn) % contenders)
        .collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::order_of_round;

    #[test]
    fn two_contenders_alternate() {
        let orders: Vec<_> = (0..4).map(|round| order_of_round(round, 2)).collect();
        assert_eq!(orders, [[0, 1], [1, 0], [1, 0], [0, 1]]);
    }

    #[test]
    fn each_contender_has_each_turn_equally_often() {
        for contenders in 1..=9 {
            let mut turns = vec![vec![0; contenders]; contenders];
            for round in 0..2 * contenders {
                for (turn, contender) in order_of_round(round, contenders).into_iter().enumerate() {
                    turns[contender][turn] += 1;
                }
            }
            assert!(
                turns.iter().flatten().all(|&count| count == 2),
                "{contenders}: {turns:?}"
            );
        }
    }
}
