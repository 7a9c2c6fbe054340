use std::fmt;

use serde::{Serialize, Serializer};

use crate::{Bytes, BytesPerToken, Error, Result};

/// An exact signed ratio: differences of byte figures and of slopes, and published decimals (`2.4` is 12/5).
///
/// Reduced, with a positive denominator. In JSON it is a plain integer where it is whole, otherwise the nearest decimal
/// number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ratio {
    numerator: i128,
    denominator: i128,
}

impl Ratio {
    /// Nothing.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// `numerator / denominator`.
    ///
    /// # Errors
    ///
    /// A denominator of zero, or a ratio beyond 127 bits.
    pub fn new(numerator: i128, denominator: i128) -> Result<Self> {
        if denominator == 0 {
            return Err(Error::overflow("a ratio over zero"));
        }
        let divisor = super::gcd(numerator.unsigned_abs(), denominator.unsigned_abs());
        let divisor = i128::try_from(divisor).map_err(|_| overflow())?;
        let sign = denominator.signum();
        Ok(Self { numerator: numerator / divisor * sign, denominator: denominator / divisor * sign })
    }

    /// A whole number.
    pub fn whole(count: u64) -> Self {
        Self { numerator: i128::from(count), denominator: 1 }
    }

    /// A figure that was computed in floating point, to nine decimals.
    ///
    /// # Errors
    ///
    /// No number, an infinity, or a figure of 10^18 and more.
    pub fn decimal(figure: f64) -> Result<Self> {
        const PARTS: i64 = 1_000_000_000;
        let scaled = figure * PARTS as f64;
        if !scaled.is_finite() || scaled.abs() >= 1e27 {
            return Err(overflow());
        }
        // Exact: a float of this size prints as its whole value.
        let parts = format!("{scaled:.0}").parse().map_err(|_| overflow())?;
        Self::new(parts, i128::from(PARTS))
    }

    /// Numerator of the reduced ratio.
    pub const fn numerator(self) -> i128 {
        self.numerator
    }

    /// Denominator of the reduced ratio, positive.
    pub const fn denominator(self) -> i128 {
        self.denominator
    }

    /// `self + other`, or an overflow error.
    pub fn plus(self, other: Self) -> Result<Self> {
        let left = self.numerator.checked_mul(other.denominator);
        let right = other.numerator.checked_mul(self.denominator);
        let sum = left.zip(right).and_then(|(left, right)| left.checked_add(right)).ok_or_else(overflow)?;
        Self::new(sum, self.denominator.checked_mul(other.denominator).ok_or_else(overflow)?)
    }

    /// `self − other`, or an overflow error.
    pub fn minus(self, other: Self) -> Result<Self> {
        self.plus(Self { numerator: other.numerator.checked_neg().ok_or_else(overflow)?, ..other })
    }

    /// `self × other`, or an overflow error.
    pub fn times(self, other: Self) -> Result<Self> {
        let numerator = self.numerator.checked_mul(other.numerator).ok_or_else(overflow)?;
        Self::new(numerator, self.denominator.checked_mul(other.denominator).ok_or_else(overflow)?)
    }

    /// `self / other`, or an error where `other` is zero.
    pub fn over(self, other: Self) -> Result<Self> {
        let numerator = self.numerator.checked_mul(other.denominator).ok_or_else(overflow)?;
        Self::new(numerator, self.denominator.checked_mul(other.numerator).ok_or_else(overflow)?)
    }

    /// The distance from zero.
    #[must_use]
    pub fn magnitude(self) -> Self {
        Self { numerator: self.numerator.saturating_abs(), ..self }
    }

    /// Below, at or above zero: −1, 0 or 1.
    pub fn signum(self) -> i128 {
        self.numerator.signum()
    }

    /// Every digit, with its sign: `−57,344`, `+4.5625`; a ratio where no decimal ends: `+1/3`.
    pub fn exact(self) -> String {
        let digits = super::exact_digits(self.numerator.unsigned_abs(), self.denominator.unsigned_abs());
        format!("{}{digits}", self.sign())
    }

    fn sign(self) -> &'static str {
        if self.numerator < 0 { "−" } else { "+" }
    }

    /// The nearest floating point number.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

impl From<Bytes> for Ratio {
    fn from(bytes: Bytes) -> Self {
        Self::whole(bytes.get())
    }
}

impl From<BytesPerToken> for Ratio {
    fn from(slope: BytesPerToken) -> Self {
        Self { numerator: i128::from(slope.numerator()), denominator: i128::from(slope.denominator()) }
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.minus(*other).ok().map(|difference| difference.numerator.cmp(&0))
    }
}

/// With its sign, in groups of three digits, at most one decimal: `−57,344`, `+4.6`.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = self.sign();
        let (count, parts) = (self.numerator.unsigned_abs(), self.denominator.unsigned_abs());
        if parts == 1 {
            return write!(f, "{sign}{}", super::group_wide(count));
        }
        let tenths = (count % parts * 10 + parts / 2) / parts;
        write!(f, "{sign}{}.{}", super::group_wide(count / parts + tenths / 10), tenths % 10)
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match (self.denominator, i64::try_from(self.numerator)) {
            (1, Ok(whole)) => serializer.serialize_i64(whole),
            _ => serializer.serialize_f64(self.as_f64()),
        }
    }
}

fn overflow() -> Error {
    Error::overflow("a ratio of figures")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_exact_and_signed() {
        let half = Ratio::new(1, 2).unwrap();
        let third = Ratio::new(2, -6).unwrap();
        assert_eq!(half.plus(third).unwrap(), Ratio::new(1, 6).unwrap());
        assert_eq!(third.minus(half).unwrap(), Ratio::new(-5, 6).unwrap());
        assert_eq!(half.over(third).unwrap(), Ratio::new(-3, 2).unwrap());
        assert!(half.over(Ratio::ZERO).is_err());
        assert!(third < half);
    }

    #[test]
    fn shown_with_its_sign_and_at_most_one_decimal() {
        for (numerator, denominator, text) in
            [(-57_344, 1, "−57,344"), (10_296, 1, "+10,296"), (73, 16, "+4.6"), (-199, 100, "−2.0")]
        {
            assert_eq!(Ratio::new(numerator, denominator).unwrap().to_string(), text);
        }
        for (numerator, denominator, text) in
            [(-57_344, 1, "−57,344"), (73, 16, "+4.5625"), (-1, 3, "−1/3"), (0, 5, "+0")]
        {
            assert_eq!(Ratio::new(numerator, denominator).unwrap().exact(), text);
        }
        assert_eq!(serde_json::to_string(&Ratio::new(-73, 16).unwrap()).unwrap(), "-4.5625");
        assert_eq!(serde_json::to_string(&Ratio::new(-4, 2).unwrap()).unwrap(), "-2");
    }
}
