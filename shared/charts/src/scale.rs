//! Scales: values to pixels and back, and ticks.

/// How values are spread over pixels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ScaleKind {
    /// Equal differences, equal lengths.
    Linear,
    /// Equal factors, equal lengths; ticks at powers of two. For tokens.
    Log2,
    /// Equal factors, equal lengths; ticks at powers of ten. For bytes and time.
    Log10,
}

impl ScaleKind {
    fn warp(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log2 | Self::Log10 => value.log2(),
        }
    }
}

/// Which numbers count as round.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rounding {
    /// 1, 2, 5 times a power of ten.
    Decimal,
    /// Powers of two.
    Binary,
}

/// A map from a domain of values to a range of pixels. The range may run backwards, as y axes do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    kind: ScaleKind,
    domain: (f64, f64),
    range: (f64, f64),
    /// The domain's low end and width after the logarithm, if there is one: every projection needs them.
    warped: (f64, f64),
}

/// Decimal steps per power of ten that a log axis may add, sparse first.
const DECIMAL_MULTIPLES: [&[f64]; 4] =
    [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]];

impl Scale {
    /// `None` where the domain is not finite, is empty or runs backwards, or, for logarithms, is not above zero.
    pub fn new(kind: ScaleKind, domain: (f64, f64), range: (f64, f64)) -> Option<Self> {
        let (low, high) = domain;
        let fits =
            low.is_finite() && high.is_finite() && low < high && (kind == ScaleKind::Linear || low > 0.0);
        let warped_low = kind.warp(low);
        fits.then(|| Self { kind, domain, range, warped: (warped_low, kind.warp(high) - warped_low) })
    }

    /// How values are spread.
    pub const fn kind(&self) -> ScaleKind {
        self.kind
    }

    /// The domain.
    pub const fn domain(&self) -> (f64, f64) {
        self.domain
    }

    /// The range in pixels.
    pub const fn range(&self) -> (f64, f64) {
        self.range
    }

    /// Pixels of `value`. Values outside the domain land outside the range; a value that a logarithm does not have lands
    /// on negative infinity's side, so filter zeros before.
    pub fn project(&self, value: f64) -> f64 {
        let (low, width) = self.warped;
        let share = (self.kind.warp(value) - low) / width;
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    /// The value at `pixel`; the inverse of [`Scale::project`].
    pub fn unproject(&self, pixel: f64) -> f64 {
        let (low, width) = self.warped;
        let share = (pixel - self.range.0) / (self.range.1 - self.range.0);
        match self.kind {
            ScaleKind::Linear => low + share * width,
            ScaleKind::Log2 | ScaleKind::Log10 => (low + share * width).exp2(),
        }
    }

    /// Round values inside the domain, strictly rising: about `at_most` (at least 2; a domain that has no 2 round values
    /// that far apart gets up to 5 closer ones).
    pub fn ticks(&self, at_most: usize, rounding: Rounding) -> Vec<f64> {
        let at_most = at_most.max(2);
        let logarithmic = match (self.kind, rounding) {
            (ScaleKind::Linear, _) => Vec::new(),
            // Within a factor of four, even steps read better than 1-2-5.
            _ if self.domain.1 < 4.0 * self.domain.0 => Vec::new(),
            (_, Rounding::Binary) => self.power_ticks(2.0, &[1, 2, 3, 5, 10, 20], at_most),
            (_, Rounding::Decimal) => self.decimal_log_ticks(at_most),
        };
        if logarithmic.len() >= 2 { logarithmic } else { self.even_ticks(at_most, rounding) }
    }

    fn inside(&self, value: f64) -> bool {
        (self.domain.0..=self.domain.1).contains(&value)
    }

    /// Every `stride`-th power of `base`, with the smallest stride that stays within `at_most`.
    fn power_ticks(&self, base: f64, strides: &[i32], at_most: usize) -> Vec<f64> {
        let first = floor_to_i32(self.domain.0.log(base)) - 1;
        let last = floor_to_i32(self.domain.1.log(base)) + 2;
        strides
            .iter()
            .map(|&stride| {
                (first..=last)
                    .filter(|exponent| exponent.rem_euclid(stride) == 0)
                    .map(|exponent| base.powi(exponent))
                    .filter(|&tick| self.inside(tick))
                    .collect::<Vec<_>>()
            })
            .find(|ticks| ticks.len() <= at_most)
            .unwrap_or_default()
    }

    fn decimal_log_ticks(&self, at_most: usize) -> Vec<f64> {
        let powers = self.power_ticks(10.0, &[1, 2, 3, 6, 9], at_most);
        let first = floor_to_i32(self.domain.0.log10());
        let last = floor_to_i32(self.domain.1.log10()) + 1;
        let finer = DECIMAL_MULTIPLES.iter().map(|multiples| {
            (first..=last)
                .flat_map(|exponent| multiples.iter().map(move |multiple| decimal(*multiple, exponent)))
                .filter(|&tick| self.inside(tick))
                .collect::<Vec<_>>()
        });
        finer.filter(|ticks| ticks.len() <= at_most).fold(powers, |best, ticks| {
            let denser = ticks.len() > best.len();
            // Four labels or more say enough; below that, finer ones help.
            if denser && best.len() < 4 { ticks } else { best }
        })
    }

    fn even_ticks(&self, at_most: usize, rounding: Rounding) -> Vec<f64> {
        let width = self.domain.1 - self.domain.0;
        let mut step = Step::at_least(width / at_most as f64, rounding);
        loop {
            let ticks = self.multiples(step);
            if ticks.len() >= 2 {
                return ticks;
            }
            step = step.finer();
        }
    }

    fn multiples(&self, step: Step) -> Vec<f64> {
        let size = step.size();
        let first = (self.domain.0 / size).ceil();
        std::iter::successors(Some(first), |count| Some(count + 1.0))
            .map(|count| step.times(count))
            .skip_while(|&tick| tick < self.domain.0)
            .take_while(|&tick| tick <= self.domain.1)
            .collect()
    }
}

/// A round difference between ticks.
#[derive(Clone, Copy)]
enum Step {
    Decimal { multiple: f64, exponent: i32 },
    Binary { exponent: i32 },
}

impl Step {
    fn at_least(width: f64, rounding: Rounding) -> Self {
        match rounding {
            Rounding::Binary => Self::Binary { exponent: floor_to_i32(width.log2().ceil()) },
            Rounding::Decimal => {
                let exponent = floor_to_i32(width.log10());
                let multiple =
                    [1.0, 2.0, 5.0].into_iter().find(|multiple| decimal(*multiple, exponent) >= width);
                match multiple {
                    Some(multiple) => Self::Decimal { multiple, exponent },
                    None => Self::Decimal { multiple: 1.0, exponent: exponent + 1 },
                }
            }
        }
    }

    fn finer(self) -> Self {
        match self {
            Self::Binary { exponent } => Self::Binary { exponent: exponent - 1 },
            Self::Decimal { multiple, exponent } if multiple > 2.0 => {
                Self::Decimal { multiple: 2.0, exponent }
            }
            Self::Decimal { multiple, exponent } if multiple > 1.0 => {
                Self::Decimal { multiple: 1.0, exponent }
            }
            Self::Decimal { exponent, .. } => Self::Decimal { multiple: 5.0, exponent: exponent - 1 },
        }
    }

    fn size(self) -> f64 {
        self.times(1.0)
    }

    fn times(self, count: f64) -> f64 {
        match self {
            Self::Decimal { multiple, exponent } => decimal(count * multiple, exponent),
            Self::Binary { exponent } => count * 2.0_f64.powi(exponent),
        }
    }
}

/// `multiple × 10^exponent`, rounded once: dividing by a whole power of ten is exact where multiplying by 0.1 is not.
fn decimal(multiple: f64, exponent: i32) -> f64 {
    if exponent < 0 { multiple / 10.0_f64.powi(-exponent) } else { multiple * 10.0_f64.powi(exponent) }
}

#[allow(clippy::cast_possible_truncation, reason = "exponents of f64 are within ±1100")]
fn floor_to_i32(value: f64) -> i32 {
    value.floor() as i32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::label::{Quantity, tick_labels};
    use kvscope_sizing::UnitSystem;

    fn kinds() -> impl Strategy<Value = ScaleKind> {
        prop::sample::select(vec![ScaleKind::Linear, ScaleKind::Log2, ScaleKind::Log10])
    }

    fn roundings() -> impl Strategy<Value = Rounding> {
        prop::sample::select(vec![Rounding::Decimal, Rounding::Binary])
    }

    /// Low ends from 1e-6 to 1e15, high ends at least 1.01 times that.
    fn domains() -> impl Strategy<Value = (f64, f64)> {
        (-6.0..15.0_f64, 0.0044..9.0_f64)
            .prop_map(|(low, width)| (10.0_f64.powf(low), 10.0_f64.powf(low + width)))
    }

    fn quantities() -> impl Strategy<Value = Quantity> {
        prop::sample::select(vec![
            Quantity::Bytes(UnitSystem::Decimal),
            Quantity::Bytes(UnitSystem::Binary),
            Quantity::Tokens,
            Quantity::Seconds,
            Quantity::Times,
        ])
    }

    proptest! {
        #[test]
        fn ticks_rise_lie_inside_and_are_two_or_more(
            kind in kinds(), domain in domains(), rounding in roundings(), at_most in 2_usize..14, quantity in quantities(),
        ) {
            let scale = Scale::new(kind, domain, (0.0, 800.0)).unwrap();
            let ticks = scale.ticks(at_most, rounding);
            prop_assert!(ticks.len() >= 2, "{ticks:?}");
            prop_assert!(ticks.len() <= at_most.max(5) + 1, "{} ticks of {at_most}", ticks.len());
            prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
            prop_assert!(ticks.iter().all(|tick| (domain.0..=domain.1).contains(tick)), "{ticks:?}");
            let mut labels = tick_labels(&ticks, quantity);
            prop_assert_eq!(labels.len(), ticks.len());
            labels.sort();
            labels.dedup();
            prop_assert_eq!(labels.len(), ticks.len(), "{:?} {:?}", ticks, labels);
        }

        #[test]
        fn unproject_undoes_project(kind in kinds(), domain in domains(), share in 0.0..1.0_f64) {
            let scale = Scale::new(kind, domain, (740.0, 12.5)).unwrap();
            let value = domain.0 + share * (domain.1 - domain.0);
            let back = scale.unproject(scale.project(value));
            prop_assert!((back / value - 1.0).abs() < 1e-9, "{value} came back as {back}");
        }
    }

    #[test]
    fn the_token_axis_has_every_power_of_two() {
        let scale = Scale::new(ScaleKind::Log2, (1024.0, 1_048_576.0), (0.0, 700.0)).unwrap();
        let powers: Vec<f64> = (10..=20).map(|exponent| f64::from(1 << exponent)).collect();
        assert_eq!(scale.ticks(12, Rounding::Binary), powers);
        assert_eq!(
            scale.ticks(6, Rounding::Binary),
            [1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0]
        );
    }

    #[test]
    fn a_log_axis_within_one_decade_has_ticks() {
        let scale = Scale::new(ScaleKind::Log10, (3.0, 8.0), (0.0, 700.0)).unwrap();
        assert_eq!(scale.ticks(6, Rounding::Decimal), [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let decades = Scale::new(ScaleKind::Log10, (4e6, 4e11), (0.0, 400.0)).unwrap();
        assert_eq!(decades.ticks(7, Rounding::Decimal), [1e7, 1e8, 1e9, 1e10, 1e11]);
    }

    #[test]
    fn what_has_no_scale_is_refused() {
        for domain in [(0.0, 1.0), (-1.0, 1.0), (2.0, 2.0), (3.0, 2.0), (1.0, f64::INFINITY), (f64::NAN, 1.0)]
        {
            assert_eq!(Scale::new(ScaleKind::Log10, domain, (0.0, 1.0)), None, "{domain:?}");
        }
        assert!(Scale::new(ScaleKind::Linear, (0.0, 1.0), (0.0, 1.0)).is_some());
    }
}
