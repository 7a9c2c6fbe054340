use serde::Serialize;

use crate::Tokens;

/// A tenth more or less.
const STEP: f64 = 0.1;

/// Whether an answer also says what a tenth of each input does to it, which takes many times as long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Moving {
    /// It does.
    Inputs,
    /// It answers what is asked and nothing else.
    Nothing,
}

/// What a plan's answer becomes when one input is a tenth less or more and the others stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// The input, in the plan's own word.
    pub input: &'static str,
    /// The answer with a tenth less of it; none where there is no answer.
    pub with_less: Option<f64>,
    /// The answer with a tenth more.
    pub with_more: Option<f64>,
}

impl Sensitivity {
    /// How far apart the two answers are; an answer that is no longer there counts for more than any other.
    fn swing(&self) -> f64 {
        match (self.with_less, self.with_more) {
            (Some(less), Some(more)) => (more - less).abs(),
            _ => f64::INFINITY,
        }
    }
}

impl Moving {
    /// What a tenth of each input does, where that is asked.
    pub(super) fn rows(self, rows: impl FnOnce() -> Vec<Sensitivity>) -> Vec<Sensitivity> {
        match self {
            Self::Inputs => rows(),
            Self::Nothing => Vec::new(),
        }
    }
}

/// A count as the answer to a moved input needs it: the nearest whole one, and none above what fits.
pub(super) fn count(moved: f64) -> Option<u64> {
    crate::cost::whole(moved).ok()
}

/// The same as tokens.
pub(super) fn tokens(moved: f64) -> Option<Tokens> {
    count(moved).map(Tokens::new)
}

/// The answer with each input a tenth less and a tenth more, the input that matters most first. An input of zero has no tenth
/// and no row.
pub fn sensitivities(
    inputs: &[(&'static str, f64)],
    answer: impl Fn(&[f64]) -> Option<f64>,
) -> Vec<Sensitivity> {
    let at = |place: usize, factor: f64| {
        let changed = inputs.iter().enumerate().map(
            |(index, (_, value))| {
                if index == place { value * factor } else { *value }
            },
        );
        answer(&changed.collect::<Vec<_>>()).filter(|answer| answer.is_finite())
    };
    let mut rows: Vec<Sensitivity> = inputs
        .iter()
        .enumerate()
        .filter(|(_, (_, value))| *value != 0.0)
        .map(|(place, (input, _))| Sensitivity {
            input,
            with_less: at(place, 1.0 - STEP),
            with_more: at(place, 1.0 + STEP),
        })
        .collect();
    crate::sort_short(&mut rows, |a, b| a.swing() < b.swing());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_that_matters_most_comes_first() {
        // 10 / 2 + 1: a tenth of the divisor moves the answer by 5 / 0.9 − 5 / 1.1, of the dividend by 1, of the rest by 0.2.
        let rows = sensitivities(&[("rest", 1.0), ("dividend", 10.0), ("divisor", 2.0)], |of| {
            Some(of[1] / of[2] + of[0])
        });
        let order: Vec<&str> = rows.iter().map(|row| row.input).collect();
        assert_eq!(order, ["divisor", "dividend", "rest"]);
        assert!((rows[0].with_less.unwrap() - (5.0 / 0.9 + 1.0)).abs() < 1e-12);
        assert!((rows[2].with_more.unwrap() - 6.1).abs() < 1e-12);
    }

    #[test]
    fn an_input_of_zero_has_no_row() {
        let rows = sensitivities(&[("zero", 0.0), ("one", 1.0)], |of| Some(of[0] + of[1]));
        assert_eq!(rows.iter().map(|row| row.input).collect::<Vec<_>>(), ["one"]);
    }

    #[test]
    fn an_answer_that_vanishes_matters_most_and_is_no_infinity() {
        let rows = sensitivities(&[("a", 1.0), ("b", 1.0)], |of| {
            if of[1] < 1.0 { Some(f64::INFINITY) } else { Some(of[0]) }
        });
        assert_eq!((rows[0].input, rows[0].with_less), ("b", None));
    }
}
