//! Scales: from values to places along an axis, and where its ticks stand. Pure.

/// An axis from one value to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    /// Between two ticks.
    step: f64,
}

/// About so many ticks fit a phone.
const TICKS: f64 = 5.0;

impl Scale {
    /// The shortest axis that holds all `values` and begins and ends with a tick. Values that are no
    /// numbers are passed over; `None` if there are no others.
    pub(super) fn around(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let range = finite.fold(None, |range, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((value.min(low), value.max(high)))
        });
        let (low, high) = range?;
        let span = high - low;
        // All the same: an axis with that value in its middle.
        let span = if span > 0.0 {
            span
        } else {
            low.abs().max(1.0) * 0.1
        };
        let step = step_near(span / TICKS);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let last = if last > first { last } else { first + 1.0 };
        Self {
            low: first * step,
            high: last * step,
            step,
        }
        .if_drawable()
    }

    /// What is beyond the numbers of a computer, or too close together for them, has no axis.
    fn if_drawable(self) -> Option<Self> {
        const MOST_TICKS: f64 = 100.0;
        let ticks = (self.high - self.low) / self.step;
        let is_drawable =
            self.step.is_normal() && self.step >= 1e-30 && (1.0..=MOST_TICKS).contains(&ticks);
        is_drawable.then_some(self)
    }

    /// The shortest axis of whole numbers that holds all `values`: of logarithms, whose ticks are powers then.
    pub(super) fn around_powers(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let range = Self::around(values)?;
        let (low, high) = (range.low.floor(), range.high.ceil());
        let step = ((high - low) / TICKS).ceil();
        Self {
            low,
            high: low + ((high - low) / step).ceil() * step,
            step,
        }
        .if_drawable()
    }

    /// Where a value stands, in percent; what lies beyond an end stands at that end.
    pub(super) fn percent(&self, value: f64) -> f64 {
        (100.0 * (value - self.low) / (self.high - self.low)).clamp(0.0, 100.0)
    }

    /// Whether a value lies on the axis.
    pub(super) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The ticks, each with its label.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        let tick = |index| {
            let value = self.low + self.step * index as f64;
            // No `-0`.
            let value = if value.abs() < self.step / 2.0 {
                0.0
            } else {
                value
            };
            (value, format!("{value:.decimals$}"))
        };
        (0..=count).map(tick).collect()
    }
}

/// The round number (1, 2 or 5 times a power of ten) that is next above `size`.
fn step_near(size: f64) -> f64 {
    let power = 10f64.powf(size.log10().floor());
    let times = size / power;
    let round = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|round| times <= round * 1.000_001);
    round.unwrap_or(10.0) * power
}

/// Where sizes stand along an axis of their logarithms, in percent, with room at both ends: to the left
/// for the labels of the other axis.
pub(super) fn percents_of_logs(sizes: &[f64]) -> Vec<f64> {
    const LEFT: f64 = 16.0;
    const RIGHT: f64 = 94.0;
    let logs: Vec<f64> = sizes.iter().map(|size| size.ln()).collect();
    let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let span = high - low;
    let percent = |log: f64| {
        if span > 0.0 {
            LEFT + (RIGHT - LEFT) * (log - low) / span
        } else {
            f64::midpoint(LEFT, RIGHT)
        }
    };
    logs.into_iter().map(percent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64]) -> Vec<String> {
        let scale = Scale::around(values.iter().copied()).unwrap();
        scale.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn an_axis_begins_and_ends_with_a_round_tick() {
        assert_eq!(
            labels(&[0.98, 1.13]),
            ["0.95", "1.00", "1.05", "1.10", "1.15"]
        );
        assert_eq!(labels(&[0.0, 3.1]), ["0", "1", "2", "3", "4"]);
        assert_eq!(
            labels(&[-20.0, 30.0]),
            ["-20", "-10", "0", "10", "20", "30"]
        );
        assert_eq!(labels(&[1.0, 1.0]), ["1.00", "1.02"]);
        assert_eq!(labels(&[0.0, 0.0]), ["0.00", "0.02"]);
        assert_eq!(
            labels(&[40e3, 90e3]),
            ["40000", "50000", "60000", "70000", "80000", "90000"]
        );
    }

    #[test]
    fn an_axis_of_powers_has_whole_ones() {
        let labels = |values: [f64; 2]| {
            let scale = Scale::around_powers(values).unwrap();
            let ticks = scale.ticks().into_iter();
            ticks.map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(labels([-1.3, 0.4]), ["-2", "-1", "0", "1"]);
        assert_eq!(labels([1.2, 1.3]), ["1", "2"]);
        assert_eq!(labels([0.0, 9.0]), ["0", "2", "4", "6", "8", "10"]);
    }

    #[test]
    fn values_have_places_and_ends_hold_what_lies_beyond() {
        let scale = Scale::around([1.0, 2.0, f64::NAN]).unwrap();
        assert_eq!(
            [0.0, 1.0, 1.25, 2.0, 9.0].map(|value| scale.percent(value)),
            [0.0, 0.0, 25.0, 100.0, 100.0]
        );
        assert!(scale.holds(1.5) && !scale.holds(2.5) && !scale.holds(f64::NAN));
    }

    #[test]
    fn nothing_has_no_axis() {
        assert_eq!(Scale::around([f64::NAN, f64::INFINITY]), None);
    }

    #[test]
    fn what_no_axis_can_hold_has_none() {
        for values in [
            [f64::MAX, f64::MIN],
            [f64::MAX, 0.0],
            [f64::MAX, f64::MAX],
            [5e-324, 0.0],
            [1e300, 1e300 * (1.0 + f64::EPSILON)],
            [1.0, 1.0 + f64::EPSILON],
            [1e-300, 2e-300],
        ] {
            for scale in [Scale::around(values), Scale::around_powers(values)] {
                assert!(
                    scale.is_none_or(|scale| scale.ticks().len() <= 101),
                    "{values:?}"
                );
            }
        }
    }

    #[test]
    fn sizes_that_double_stand_at_equal_distances() {
        let places = percents_of_logs(&[4.0, 16.0, 64.0]);
        let places: Vec<_> = places.iter().map(|place| format!("{place:.6}")).collect();
        assert_eq!(places, ["16.000000", "55.000000", "94.000000"]);
        assert_eq!(percents_of_logs(&[500.0]), [55.0]);
    }
}
