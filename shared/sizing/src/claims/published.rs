use std::fmt;

use crate::Ratio;

/// A figure as it was printed: `2.4`, `10.0`, `70272`. Its last digit says how exact it is meant to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    text: String,
    value: Ratio,
    last_digit: Ratio,
}

/// How a source came to its last digit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Rounding {
    /// To the nearest.
    #[default]
    Nearest,
    /// The digits after it were cut off.
    Down,
    /// To the nearest ten, as in "about 1,970".
    Tens,
    /// It is exact.
    Exact,
}

impl Published {
    /// The exact value of the printed digits.
    pub fn value(&self) -> Ratio {
        self.value
    }

    /// Whether `computed`, brought to as many digits, is this figure.
    pub fn has_digits_of(&self, computed: Ratio, rounding: Rounding) -> bool {
        let Ok(difference) = computed.minus(self.value) else { return false };
        let half = Ratio::new(1, 2).and_then(|half| half.times(self.last_digit));
        match rounding {
            Rounding::Exact => difference == Ratio::ZERO,
            Rounding::Nearest => half.is_ok_and(|half| difference.magnitude() <= half),
            Rounding::Tens => difference.magnitude() <= Ratio::whole(5),
            Rounding::Down => difference >= Ratio::ZERO && difference < self.last_digit,
        }
    }

    /// Reads `2.4` or `70272`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction}");
        if whole.is_empty() || !digits.chars().all(|digit| digit.is_ascii_digit()) || text.ends_with('.') {
            return None;
        }
        let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        Some(Self {
            text: text.to_owned(),
            value: Ratio::new(digits.parse().ok()?, scale).ok()?,
            last_digit: Ratio::new(1, scale).ok()?,
        })
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_printed_digit_decides() {
        let figure = |text: &str| Published::read(text).unwrap();
        let exact = |numerator: i128| Ratio::new(numerator, 1000).unwrap();
        let cases = [
            ("10.0", 10_015, Rounding::Nearest, true),
            ("10.0", 10_051, Rounding::Nearest, false),
            ("10", 10_499, Rounding::Nearest, true),
            ("37", 37_683, Rounding::Nearest, false),
            ("37", 37_683, Rounding::Down, true),
            ("37", 36_999, Rounding::Down, false),
            ("37", 38_000, Rounding::Down, false),
            ("1970", 1_967_300, Rounding::Tens, true),
            ("1970", 1_975_001, Rounding::Tens, false),
            ("890", 890_000, Rounding::Exact, true),
            ("890", 890_001, Rounding::Exact, false),
        ];
        for (text, thousandths, rounding, same) in cases {
            let found = figure(text).has_digits_of(exact(thousandths), rounding);
            assert_eq!(found, same, "{text} {thousandths}");
        }
        assert!(["", ".5", "5.", "-1", "1e3", "1,000"].iter().all(|text| Published::read(text).is_none()));
    }
}
