//! Whether a figure agrees with what a case states.

use serde_json::Value;

use crate::engine::Figure;

/// Compares within a relative tolerance of the stated value; exactly where the tolerance is zero.
pub(super) fn agrees(got: Figure, stated: &Value, rel_tol: f64, unit: Option<&str>) -> (bool, String) {
    if let Some(unit) = unit.filter(|unit| *unit != got.unit()) {
        return (false, format!("the case is in {unit}, the answer in {}", got.unit()));
    }
    let Some(expected) = stated.as_f64() else {
        return (false, format!("{stated} is not a number"));
    };
    if let (Some(got), Some(stated)) = (got.whole(), whole(stated))
        && got == stated
    {
        return (true, "exact".to_owned());
    }
    let difference = got.as_f64() - expected;
    let relative = if expected == 0.0 { difference.abs() } else { (difference / expected).abs() };
    let exact = rel_tol == 0.0 && difference == 0.0 && got.whole().is_none();
    let within = rel_tol > 0.0 && relative <= rel_tol;
    (exact || within, format!("differs by {relative:.3e} of the stated value, tolerance {rel_tol:e}"))
}

/// A whole number, also where it is written as `131072.0`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^53 and not negative")]
fn whole(value: &Value) -> Option<u64> {
    let of_fraction =
        || value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number));
    value.as_u64().or_else(|| of_fraction().map(|number| number as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Bytes, Tokens};

    #[test]
    fn without_a_tolerance_one_token_matters() {
        let tokens = |count: u64| Figure::Tokens(Tokens::new(count));
        assert!(agrees(tokens(445_439), &json!(445_439), 0.0, Some("tokens")).0);
        assert!(!agrees(tokens(445_440), &json!(445_439), 0.0, Some("tokens")).0);
        assert!(agrees(tokens(131_072), &json!(131_072.0), 0.0, None).0);
        assert!(!agrees(tokens(131_073), &json!(131_072.0), 0.0, None).0);
        // Beyond 2^53 floating point would not see the difference.
        let large = Figure::Bytes(Bytes::new(9_007_199_254_740_993));
        assert!(!agrees(large, &json!(9_007_199_254_740_992_u64), 0.0, None).0);
    }

    #[test]
    fn a_tolerance_is_relative_to_the_stated_value() {
        assert!(agrees(Figure::Ratio(12.7307), &json!(12.73), 7.22e-4, Some("x")).0);
        assert!(!agrees(Figure::Ratio(12.75), &json!(12.73), 7.22e-4, Some("x")).0);
        assert!(!agrees(Figure::Ratio(12.73), &json!(12.73), 0.1, Some("blocks")).0);
        assert!(!agrees(Figure::Ratio(f64::NAN), &json!(12.73), 0.1, None).0);
    }
}
