//! Which of many is asked for next.

/// How much more often some are asked for than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popularity {
    /// All as often.
    Even,
    /// The second half as often as the first, the third a third as often: Zipf's law with the exponent 1, as requests
    /// for pages have it (Breslau 1999).
    Zipf,
}

/// Draws places from a list, the same ones every time.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// By place, what part of all draws is for it or one before it.
    up_to: Vec<f64>,
    numbers: u64,
}

impl Choice {
    /// Of so many, one at least.
    pub(crate) fn new(count: usize, popularity: Popularity) -> Self {
        let weight = |place: usize| match popularity {
            Popularity::Even => 1.0,
            Popularity::Zipf => 1.0 / (place + 1) as f64,
        };
        let all: f64 = (0..count).map(weight).sum();
        let mut sum = 0.0;
        let up_to = (0..count).map(|place| {
            sum += weight(place) / all;
            sum
        });
        Self {
            up_to: up_to.collect(),
            numbers: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// A place.
    pub(crate) fn next(&mut self) -> usize {
        // 53 bits are as many as a double has.
        let part = (self.number() >> 11) as f64 / (1u64 << 53) as f64;
        let place = self.up_to.partition_point(|up_to| *up_to <= part);
        place.min(self.up_to.len() - 1)
    }

    /// xorshift64 (Marsaglia 2003).
    fn number(&mut self) -> u64 {
        self.numbers ^= self.numbers << 13;
        self.numbers ^= self.numbers >> 7;
        self.numbers ^= self.numbers << 17;
        self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(count: usize, popularity: Popularity) -> Vec<usize> {
        let mut choice = Choice::new(count, popularity);
        let mut drawn = vec![0; count];
        (0..60_000).for_each(|_| drawn[choice.next()] += 1);
        drawn
    }

    #[test]
    fn the_second_is_asked_half_as_often_as_the_first() {
        let drawn = drawn(100, Popularity::Zipf);
        let times = |place: usize| drawn[0] as f64 / drawn[place] as f64;
        assert!((1.8..2.2).contains(&times(1)), "{drawn:?}");
        assert!((8.0..12.0).contains(&times(9)), "{drawn:?}");
        assert!(drawn.iter().all(|count| *count > 0), "{drawn:?}");
    }

    #[test]
    fn all_are_asked_as_often() {
        let drawn = drawn(3, Popularity::Even);
        let is_third = |count: &usize| (19_000..21_000).contains(count);
        assert!(drawn.iter().all(is_third), "{drawn:?}");
        assert_eq!(Choice::new(1, Popularity::Zipf).next(), 0);
    }
}
