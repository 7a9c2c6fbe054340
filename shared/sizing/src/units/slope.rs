use std::fmt;

use serde::{Serialize, Serializer};

use super::{Bytes, gcd};
use crate::{Error, Result};

/// Bytes that one more token adds, exact: a compressed stream that keeps one 584-byte entry per 128 tokens grows by
/// 584/128 = 73/16 bytes a token.
///
/// In JSON it is a plain integer where it is whole, otherwise the nearest decimal number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BytesPerToken {
    numerator: u64,
    denominator: u64,
}

impl BytesPerToken {
    /// No growth.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// `bytes` added once every `tokens` tokens. `tokens` of zero is an error.
    pub fn new(bytes: Bytes, tokens: u64) -> Result<Self> {
        if tokens == 0 {
            return Err(Error::overflow("a growth of bytes per zero tokens"));
        }
        Ok(Self::reduced(u128::from(bytes.get()), u128::from(tokens)).expect("a reduced u64 ratio fits u64"))
    }

    /// Numerator of the reduced ratio, in bytes.
    pub const fn numerator(self) -> u64 {
        self.numerator
    }

    /// Denominator of the reduced ratio, in tokens.
    pub const fn denominator(self) -> u64 {
        self.denominator
    }

    /// `self + other`, or an overflow error.
    pub fn plus(self, other: Self) -> Result<Self> {
        let (a, b) = (u128::from(self.denominator), u128::from(other.denominator));
        let numerator = u128::from(self.numerator) * b + u128::from(other.numerator) * a;
        Self::reduced(numerator, a * b).ok_or_else(|| Error::overflow("adding slopes"))
    }

    /// `self × factor`, or an overflow error.
    pub fn times(self, factor: u64) -> Result<Self> {
        let numerator = u128::from(self.numerator) * u128::from(factor);
        Self::reduced(numerator, u128::from(self.denominator))
            .ok_or_else(|| Error::overflow(format!("slope × {factor}")))
    }

    /// `self ÷ divisor`, or an overflow error; a divisor of zero is one too.
    pub fn divided_by(self, divisor: u64) -> Result<Self> {
        let denominator = u128::from(self.denominator) * u128::from(divisor);
        let reduced = (divisor > 0).then(|| Self::reduced(u128::from(self.numerator), denominator)).flatten();
        reduced.ok_or_else(|| Error::overflow(format!("slope ÷ {divisor}")))
    }

    /// The nearest floating point number, for scales and ratios on screen.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// The whole number of bytes, where it is whole.
    pub fn whole(self) -> Option<u64> {
        (self.denominator == 1).then_some(self.numerator)
    }

    /// Every digit: `5,031.4375 B/token`; a ratio where no decimal ends: `1,000/3 B/token`.
    pub fn exact(self) -> String {
        let digits = super::exact_digits(u128::from(self.numerator), u128::from(self.denominator));
        format!("{digits} B/token")
    }

    fn reduced(numerator: u128, denominator: u128) -> Option<Self> {
        if denominator == 1 {
            return Some(Self { numerator: u64::try_from(numerator).ok()?, denominator: 1 });
        }
        // Division of 128 bits is many times slower, and almost every figure fits 64.
        if let (Ok(numerator), Ok(denominator)) = (u64::try_from(numerator), u64::try_from(denominator)) {
            let divisor = gcd(numerator, denominator).max(1);
            return Some(Self { numerator: numerator / divisor, denominator: denominator / divisor });
        }
        let divisor = gcd(numerator, denominator).max(1);
        Some(Self {
            numerator: u64::try_from(numerator / divisor).ok()?,
            denominator: u64::try_from(denominator / divisor).ok()?,
        })
    }
}

/// `30,720 B/token`; a fraction with one decimal: `5,031.4 B/token`.
impl fmt::Display for BytesPerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.numerator / self.denominator;
        let rest = self.numerator % self.denominator;
        if rest == 0 {
            return write!(f, "{} B/token", super::group_digits(whole));
        }
        let tenths =
            (u128::from(rest) * 10 + u128::from(self.denominator) / 2) / u128::from(self.denominator);
        if tenths == 10 {
            return write!(f, "{}.0 B/token", super::group_digits(whole + 1));
        }
        write!(f, "{}.{tenths} B/token", super::group_digits(whole))
    }
}

impl Serialize for BytesPerToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.whole() {
            Some(whole) => serializer.serialize_u64(whole),
            None => serializer.serialize_f64(self.as_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_stay_exact() {
        // DeepSeek-V4-Pro: 30 × (584 + 68)/4 + 31 × 584/128 = 4890 + 141.4375 (papers: V4 report, section on cache layout).
        let csa = BytesPerToken::new(Bytes::new(652), 4).unwrap().times(30).unwrap();
        let hca = BytesPerToken::new(Bytes::new(584), 128).unwrap().times(31).unwrap();
        let total = csa.plus(hca).unwrap();
        assert_eq!((total.numerator(), total.denominator()), (80_503, 16));
        assert_eq!(total.to_string(), "5,031.4 B/token");
        assert_eq!(total.exact(), "5,031.4375 B/token");
        assert_eq!(csa.exact(), "4,890 B/token");
        assert_eq!(BytesPerToken::new(Bytes::new(1000), 3).unwrap().exact(), "1,000/3 B/token");
        assert_eq!(serde_json::to_string(&total).unwrap(), "5031.4375");
        assert_eq!(serde_json::to_string(&csa).unwrap(), "4890");
    }
}
