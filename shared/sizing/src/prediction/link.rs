use serde::{Deserialize, Serialize};

use super::FittedTime;
use crate::Bytes;

/// What a tier's transfers cost, fitted to measured ones: t = start + blocks × α + bytes / β.
///
/// α is what each block adds beside its bytes and β the rate that large blocks approach; the same two constants describe
/// network transfers and paged copies (α–β model, Hockney 1994). The start is paid once a transfer. It describes the points
/// that it was fitted to; what it says of others is judged on points that it has not seen.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LinkFit {
    /// Points that it was fitted to.
    pub points: u32,
    /// Seconds that a transfer takes to start.
    pub start_seconds: f64,
    /// α: seconds that each block adds.
    pub alpha_seconds: f64,
    /// β: bytes a second beside that.
    pub beta_bytes_per_second: f64,
    /// (fitted − measured) / measured of each point that it was fitted to, in their order.
    pub residuals: Vec<f64>,
}

/// One measured transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkPoint {
    /// Blocks that were moved.
    pub blocks: u64,
    /// Bytes of them together.
    pub bytes: Bytes,
    /// Measured seconds.
    pub measured_seconds: f64,
}

/// How many constants a fit has: start, α and 1/β.
const TERMS: usize = 3;

impl LinkFit {
    /// The constants with the least sum of squared relative differences, none below zero; none where the points have no
    /// time or tell no rate.
    pub fn of(points: &[LinkPoint]) -> Option<Self> {
        // Divided by the measured time, each point asks for a row × constants = 1.
        let rows: Vec<[f64; TERMS]> = points
            .iter()
            .filter(|point| point.measured_seconds > 0.0)
            .map(|point| {
                [1.0, point.blocks as f64, point.bytes.get() as f64].map(|term| term / point.measured_seconds)
            })
            .collect();
        // Three constants have eight choices of which are zero: the best of those without a negative one is the answer.
        let fits = (1_usize..1 << TERMS).filter_map(|used| least_squares(&rows, used));
        let (_, [start_seconds, alpha_seconds, seconds_per_byte]) =
            fits.filter(|(_, constants)| constants[2] > 0.0).min_by(|a, b| a.0.total_cmp(&b.0))?;
        let mut fit = Self {
            points: u32::try_from(rows.len()).unwrap_or(u32::MAX),
            start_seconds,
            alpha_seconds,
            beta_bytes_per_second: 1.0 / seconds_per_byte,
            residuals: Vec::new(),
        };
        fit.residuals = points
            .iter()
            .filter(|point| point.measured_seconds > 0.0)
            .map(|point| fit.time(&[(point.blocks, point.bytes)]).0 / point.measured_seconds - 1.0)
            .collect();
        Some(fit)
    }

    /// The time of one transfer of so many blocks with so many bytes together, for each size of block that it has.
    pub fn time(&self, parts: &[(u64, Bytes)]) -> FittedTime {
        let of_part = |(blocks, bytes): &(u64, Bytes)| {
            self.alpha_seconds * *blocks as f64 + bytes.get() as f64 / self.beta_bytes_per_second
        };
        FittedTime(self.start_seconds + parts.iter().map(of_part).sum::<f64>())
    }
}

/// The sum of squared differences from 1 and the constants, where only those in the bit set `used` may differ from zero; none
/// where the rows do not tell them apart or one came out negative.
fn least_squares(rows: &[[f64; TERMS]], used: usize) -> Option<(f64, [f64; TERMS])> {
    let places: Vec<usize> = (0..TERMS).filter(|place| used >> place & 1 == 1).collect();
    if rows.len() < places.len() {
        return None;
    }
    // Terms differ by ten orders of magnitude; in units of their own size the equations can be solved.
    let size = |place: usize| rows.iter().map(|row| row[place].powi(2)).sum::<f64>().sqrt();
    let sizes: Vec<f64> = places.iter().map(|place| size(*place)).collect();
    if sizes.contains(&0.0) {
        return None;
    }
    let mut equations: Vec<Vec<f64>> = Vec::new();
    for (a, size_a) in places.iter().zip(&sizes) {
        let mut equation: Vec<f64> = places
            .iter()
            .zip(&sizes)
            .map(|(b, size_b)| rows.iter().map(|row| row[*a] / size_a * (row[*b] / size_b)).sum())
            .collect();
        equation.push(rows.iter().map(|row| row[*a] / size_a).sum());
        equations.push(equation);
    }
    let solution = solve(equations)?;
    let mut constants = [0.0; TERMS];
    for ((place, size), value) in places.iter().zip(&sizes).zip(solution) {
        constants[*place] = value / size;
    }
    if constants.iter().any(|constant| !constant.is_finite() || *constant < 0.0) {
        return None;
    }
    let difference = |row: &[f64; TERMS]| {
        row.iter().zip(&constants).map(|(term, constant)| term * constant).sum::<f64>() - 1.0
    };
    Some((rows.iter().map(|row| difference(row).powi(2)).sum(), constants))
}

/// Gauss–Jordan with pivots, each equation with its right side last; none where they do not determine the unknowns.
fn solve(mut equations: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    for column in 0..equations.len() {
        let pivot = (column..equations.len())
            .max_by(|a, b| equations[*a][column].abs().total_cmp(&equations[*b][column].abs()))?;
        equations.swap(column, pivot);
        if equations[column][column].abs() < 1e-9 {
            return None;
        }
        let head = equations[column].clone();
        for (row, equation) in equations.iter_mut().enumerate() {
            let share = equation[column] / head[column];
            if row != column {
                equation.iter_mut().zip(&head).for_each(|(value, above)| *value -= share * above);
            }
        }
    }
    Some(equations.iter().enumerate().map(|(place, row)| row[row.len() - 1] / row[place]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(blocks: u64, bytes: u64, measured_seconds: f64) -> LinkPoint {
        LinkPoint { blocks, bytes: Bytes::new(bytes), measured_seconds }
    }

    /// 20 µs to start, 5 µs a block, 2 GB/s.
    fn made(blocks: u64, bytes: u64) -> LinkPoint {
        point(blocks, bytes, 20e-6 + 5e-6 * blocks as f64 + bytes as f64 / 2e9)
    }

    #[test]
    fn constants_that_made_the_points_come_back() {
        let points = [made(256, 1 << 20), made(4096, 16 << 20), made(1, 1 << 20), made(4, 64 << 20)];
        let fit = LinkFit::of(&points).unwrap();
        assert!((fit.start_seconds - 20e-6).abs() < 1e-10, "{fit:?}");
        assert!((fit.alpha_seconds - 5e-6).abs() < 1e-11, "{fit:?}");
        assert!((fit.beta_bytes_per_second / 2e9 - 1.0).abs() < 1e-6, "{fit:?}");
        assert_eq!((fit.points, fit.residuals.len()), (4, 4));
        assert!(fit.residuals.iter().all(|residual| residual.abs() < 1e-6));
        // Two parts by hand: 20 µs + 12 × 5 µs + 3,000,000 B / 2 GB/s = 1.58 ms.
        let both = fit.time(&[(10, Bytes::new(1_000_000)), (2, Bytes::new(2_000_000))]);
        assert!((both.0 - 1.58e-3).abs() < 1e-8, "{both:?}");
    }

    #[test]
    fn no_constant_is_below_zero() {
        // Many blocks that were faster than one: α would come out negative, and is zero.
        let fit =
            LinkFit::of(&[point(256, 1 << 20, 1e-3), point(1, 1 << 20, 1.2e-3), point(1, 4 << 20, 4e-3)]);
        let fit = fit.unwrap();
        assert!(
            fit.alpha_seconds == 0.0 && fit.start_seconds >= 0.0 && fit.beta_bytes_per_second > 0.0,
            "{fit:?}"
        );
    }

    #[test]
    fn a_single_point_gives_its_rate_and_none_gives_nothing() {
        // One point cannot tell three constants: whatever is left describes it.
        let fit = LinkFit::of(&[point(1, 1_000_000, 1e-3)]);
        assert!(fit.is_some_and(|fit| (fit.time(&[(1, Bytes::new(1_000_000))]).0 - 1e-3).abs() < 1e-12));
        assert_eq!(LinkFit::of(&[]), None);
        assert_eq!(LinkFit::of(&[point(1, 0, 1e-3)]), None);
        assert_eq!(LinkFit::of(&[point(1, 1, 0.0)]), None);
    }

    #[test]
    fn residuals_are_of_the_points_and_signed() {
        // Two transfers of equal shape, 0.8 and 1.25 ms: with u = 1/t the rate term is Σu / Σu² = 2.05 / 2.2025 ms.
        let fit = LinkFit::of(&[point(1, 1 << 20, 0.8e-3), point(1, 1 << 20, 1.25e-3)]).unwrap();
        let right = 2.05 / 2.2025 * 1e-3;
        assert!((fit.residuals[0] - (right / 0.8e-3 - 1.0)).abs() < 1e-9, "{fit:?}");
        assert!((fit.residuals[1] - (right / 1.25e-3 - 1.0)).abs() < 1e-9, "{fit:?}");
    }
}
