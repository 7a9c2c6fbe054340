use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::text::NoCount;
use crate::{Error, Result};

/// A number of bytes. Exact; arithmetic is checked and reports what overflowed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Bytes(u64);

/// The two families of byte units. They are always named: GB is 10^9 bytes, GiB is 2^30.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitSystem {
    /// kB, MB, GB: powers of 1,000.
    #[default]
    Decimal,
    /// KiB, MiB, GiB: powers of 1,024.
    Binary,
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// Wraps a count of bytes.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The count of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// A size of memory that a person gives: as text of bytes is read, but a plain number has to be one of a size that
    /// memory has, since `80` is rarely meant to be 80 bytes.
    ///
    /// # Errors
    ///
    /// No number of bytes, or a plain number below a million.
    pub fn given(text: &str) -> Result<Self> {
        let bytes: Self = text.parse()?;
        let plain = text.trim().ends_with(|c: char| c.is_ascii_digit());
        if plain && (1..1_000_000).contains(&bytes.0) {
            let number = text.trim();
            let what = format!(
                "{number} without a unit is {bytes}; write {number}GB (10^9 bytes), {number}GiB (2^30 bytes) or {number}B"
            );
            return Err(Error::setting("memory", what));
        }
        Ok(bytes)
    }

    /// `self + other`, or an overflow error.
    pub fn plus(self, other: Self) -> Result<Self> {
        self.0.checked_add(other.0).map(Self).ok_or_else(|| Error::overflow("adding byte figures"))
    }

    /// The sum of all parts, or an overflow error.
    pub fn total(parts: impl IntoIterator<Item = Self>) -> Result<Self> {
        parts.into_iter().try_fold(Self::ZERO, Self::plus)
    }

    /// `self × factor`, or an overflow error.
    pub fn times(self, factor: u64) -> Result<Self> {
        self.0
            .checked_mul(factor)
            .map(Self)
            .ok_or_else(|| Error::overflow(format!("{} B × {factor}", self.0)))
    }

    /// `self` rounded up to a whole multiple of `unit`.
    pub fn round_up_to(self, unit: u64) -> Result<Self> {
        self.0
            .checked_next_multiple_of(unit)
            .map(Self)
            .ok_or_else(|| Error::overflow(format!("rounding {} B up to {unit} B", self.0)))
    }

    /// The shortest text that [`Bytes::given`] reads back as the same: `60 GiB`, `79.5 GB`, else all digits.
    pub fn as_given(self) -> String {
        const UNITS: [(u64, &str); 6] = [
            (1 << 40, "TiB"),
            (1_000_000_000_000, "TB"),
            (1 << 30, "GiB"),
            (1_000_000_000, "GB"),
            (1 << 20, "MiB"),
            (1_000_000, "MB"),
        ];
        for (unit, name) in UNITS {
            // Halves and other parts of a hundred are typed too.
            let hundredths = self.0.checked_mul(100).filter(|hundredths| hundredths.is_multiple_of(unit));
            let Some(hundredths) = hundredths.map(|hundredths| hundredths / unit).filter(|h| *h >= 100)
            else {
                continue;
            };
            let text = match hundredths % 100 {
                0 => format!("{}", hundredths / 100),
                part => format!("{}.{part:02}", hundredths / 100),
            };
            let number = if text.contains('.') { text.trim_end_matches('0') } else { &text };
            return format!("{number} {name}");
        }
        format!("{} B", self.0)
    }

    /// Three significant figures with the unit's name: `25.4 GB`, `23.7 GiB`, `0 B`.
    pub fn display(self, system: UnitSystem) -> String {
        let (base, names): (f64, [&str; 6]) = match system {
            UnitSystem::Decimal => (1e3, ["kB", "MB", "GB", "TB", "PB", "EB"]),
            UnitSystem::Binary => (1024.0, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]),
        };
        if (self.0 as f64) < base {
            return format!("{} B", self.0);
        }
        let mut scaled = self.0 as f64 / base;
        let mut name = 0;
        // 999.5 would print as a fourth digit, so it moves to the next unit.
        while scaled >= base.min(999.5) && name + 1 < names.len() {
            scaled /= base;
            name += 1;
        }
        let decimals = if scaled >= 99.95 { 0 } else { usize::from(scaled < 9.995) + 1 };
        format!("{scaled:.decimals$} {}", names[name])
    }
}

impl UnitSystem {
    /// The system of the unit that a text of bytes names: decimal for `80GB` and `80G`, binary for `80GiB`. `None` for plain
    /// bytes.
    pub fn named_in(text: &str) -> Option<Self> {
        let prefix = text.trim().trim_end_matches(['B', 'b']).chars().next_back()?;
        match prefix {
            'i' | 'I' => Some(Self::Binary),
            prefix => prefix.is_alphabetic().then_some(Self::Decimal),
        }
    }
}

/// Reads what people type: `80GB`, `79.5 GiB`, `40G` (decimal), `40Gi` (binary), or plain bytes. Of a size such as `4.99 GiB`,
/// which logs print, the part of a byte is left out, so that no more is said to fit.
impl FromStr for Bytes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let number = compact.strip_suffix(['B', 'b']).unwrap_or(&compact);
        let wrong = |why| {
            let what = match why {
                NoCount::TooLarge => format!("{text:?} is more than {} bytes; write fewer", u64::MAX),
                NoCount::Unread | NoCount::Fraction => {
                    let example = "write 80GB (10^9 bytes), 79GiB (2^30 bytes) or plain bytes";
                    format!("{text:?} is no number of bytes; {example}")
                }
            };
            Error::setting("memory", what)
        };
        super::text::parse_cut_off(number).map_err(wrong).map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", super::group_digits(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_figures_and_a_named_unit() {
        let cases = [
            (0, "0 B", "0 B"),
            (999, "999 B", "999 B"),
            (1_000, "1.00 kB", "1000 B"),
            (1_024, "1.02 kB", "1.00 KiB"),
            (7_832_400_000, "7.83 GB", "7.29 GiB"),
            (25_395_200_000, "25.4 GB", "23.7 GiB"),
            (999_499_999, "999 MB", "953 MiB"),
            (999_500_000, "1.00 GB", "953 MiB"),
            (1_073_741_824, "1.07 GB", "1.00 GiB"),
        ];
        for (count, decimal, binary) in cases {
            assert_eq!(Bytes::new(count).display(UnitSystem::Decimal), decimal, "{count}");
            assert_eq!(Bytes::new(count).display(UnitSystem::Binary), binary, "{count}");
        }
    }

    #[test]
    fn reads_decimal_and_binary_units() {
        let rows = [
            ("80GB", 80_000_000_000),
            ("79.5 GiB", 85_362_475_008),
            ("40G", 40_000_000_000),
            ("1Ti", 1 << 40),
            ("12", 12),
            // 4.99 × 2^30 = 5,357,971,701.76, and a third of 10^9.
            ("4.99GiB", 5_357_971_701),
            ("0.333333333333 G", 333_333_333),
        ];
        for (text, count) in rows {
            assert_eq!(text.parse::<Bytes>().unwrap().get(), count, "{text}");
        }
        for text in ["", "GB", "-1GB", "many", "1.5B", "99999999999TB", "80,5GB", "79,5 GiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    /// Every unit that is read belongs to one of both systems, and digits alone to none.
    #[test]
    fn a_text_names_its_system() {
        for unit in ["K", "M", "G", "T"] {
            for (text, system) in [
                (format!("8{unit}"), UnitSystem::Decimal),
                (format!("8 {unit}B"), UnitSystem::Decimal),
                (format!("8{unit}iB"), UnitSystem::Binary),
                (format!("8.5 {}i ", unit.to_lowercase()), UnitSystem::Binary),
            ] {
                assert!(text.parse::<Bytes>().is_ok(), "{text}");
                assert_eq!(UnitSystem::named_in(&text), Some(system), "{text}");
            }
        }
        for plain in ["80000000", "80 B", " 8,000,000 "] {
            assert!(plain.parse::<Bytes>().is_ok(), "{plain}");
            assert_eq!(UnitSystem::named_in(plain), None, "{plain}");
        }
    }

    #[test]
    fn a_small_number_of_memory_needs_its_unit() {
        for text in ["80", " 79,500 ", "1", "999999"] {
            assert!(Bytes::given(text).unwrap_err().to_string().contains("without a unit"), "{text}");
        }
        for (text, bytes) in
            [("80B", 80), ("80GB", 80_000_000_000), ("1000000", 1_000_000), ("0", 0), ("1K", 1000)]
        {
            assert_eq!(Bytes::given(text).unwrap().get(), bytes, "{text}");
        }
    }

    #[test]
    fn a_given_size_is_written_as_it_is_typed() {
        for text in
            ["60 GiB", "80 GB", "79.5 GiB", "1.25 TB", "512 MiB", "100 MB", "123 B", "64424509441 B", "0 B"]
        {
            assert_eq!(Bytes::given(text).unwrap().as_given(), text);
        }
        for count in [u64::MAX, 1 << 63, 999_999, 1_048_577] {
            assert_eq!(Bytes::given(&Bytes::new(count).as_given()).unwrap().get(), count);
        }
    }

    #[test]
    fn overflow_is_an_error() {
        assert!(Bytes::new(u64::MAX).plus(Bytes::new(1)).is_err());
        assert!(Bytes::new(1 << 40).times(1 << 40).is_err());
        assert!(Bytes::total([Bytes::new(u64::MAX), Bytes::new(1)]).is_err());
        assert_eq!(Bytes::total([1, 2, 3].map(Bytes::new)).unwrap(), Bytes::new(6));
    }
}
