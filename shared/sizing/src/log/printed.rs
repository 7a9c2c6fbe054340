//! Figures as a log prints them: decimal digits with a unit, good to half the last digit.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::group_digits;

/// A number without sign, as its digits and how many of them are decimals.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Decimal {
    digits: u64,
    decimals: u32,
}

/// The unit that a figure was printed in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unit {
    /// 2^30 bytes, also where the engine prints GB.
    GiB,
    /// 10^9 bytes.
    Gb,
    /// 2^20 bytes, also where the engine prints MB.
    MiB,
    BytesPerToken,
    Tokens,
    Blocks,
    Requests,
    Layers,
    Slots,
    Cells,
    Entries,
    Rows,
    /// How many of something else.
    Times,
    Percent,
}

/// A printed figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    number: Decimal,
    unit: Unit,
    /// How often half of the last digit is in it: once for each rounded figure that it is the sum of, ten times for one
    /// with a digit less.
    halves: u64,
}

/// What a figure comes to when it is recomputed: a range, since the inputs are printed figures themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Decimal {
    /// `None` beyond what doubles hold exactly.
    pub(super) fn new(digits: u64, decimals: u32) -> Option<Self> {
        (digits <= 1 << 53 && decimals <= 12).then_some(Self { digits, decimals })
    }

    fn scale(self) -> f64 {
        10_f64.powi(i32::try_from(self.decimals).unwrap_or(0))
    }

    fn value(self) -> f64 {
        self.digits as f64 / self.scale()
    }

    pub(super) fn whole(self) -> Option<u64> {
        (self.decimals == 0).then_some(self.digits)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.whole() {
            Some(whole) => f.write_str(&group_digits(whole)),
            None => write!(f, "{:.*}", self.decimals as usize, self.value()),
        }
    }
}

impl Unit {
    /// Bytes of one, or 1.
    fn factor(self) -> f64 {
        match self {
            Self::GiB => f64::from(1_u32 << 30),
            Self::Gb => 1e9,
            Self::MiB => f64::from(1_u32 << 20),
            _ => 1.0,
        }
    }

    /// The unit of values in JSON: `B`, `tokens`, `x`, …
    fn base(self) -> &'static str {
        match self {
            Self::GiB | Self::Gb | Self::MiB | Self::BytesPerToken => "B",
            Self::Tokens => "tokens",
            Self::Blocks => "blocks",
            Self::Requests => "requests",
            Self::Layers => "layers",
            Self::Slots => "slots",
            Self::Cells => "cells",
            Self::Entries => "entries",
            Self::Rows => "rows",
            Self::Times => "x",
            Self::Percent => "%",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::GiB => " GiB",
            Self::Gb => " GB",
            Self::BytesPerToken => " B/token",
            Self::MiB => " MiB",
            Self::Tokens => " tokens",
            Self::Blocks => " blocks",
            Self::Requests => " requests",
            Self::Layers => " layers",
            Self::Slots => " slots",
            Self::Cells => " cells",
            Self::Entries => " entries",
            Self::Rows => " rows",
            Self::Times => "x",
            Self::Percent => " %",
        }
    }
}

impl Printed {
    pub(super) fn new(number: Decimal, unit: Unit) -> Self {
        Self { number, unit, halves: 1 }
    }

    /// The sum of two figures of one unit, with the tolerance of both.
    pub(super) fn plus(self, other: Self) -> Option<Self> {
        if self.unit != other.unit {
            return None;
        }
        let decimals = self.number.decimals.max(other.number.decimals);
        let (own, others) = (self.to_decimals(decimals)?, other.to_decimals(decimals)?);
        let number = Decimal::new(own.number.digits.checked_add(others.number.digits)?, decimals)?;
        Some(Self { number, unit: self.unit, halves: own.halves.checked_add(others.halves)? })
    }

    /// The same figure and tolerance with more digits behind the point.
    fn to_decimals(self, decimals: u32) -> Option<Self> {
        let by = 10_u64.checked_pow(decimals.checked_sub(self.number.decimals)?)?;
        let number = Decimal::new(self.number.digits.checked_mul(by)?, decimals)?;
        Some(Self { number, halves: self.halves.checked_mul(by)?, ..self })
    }

    /// In bytes, tokens and so on.
    pub fn value(self) -> f64 {
        self.number.value() * self.unit.factor()
    }

    /// Half of the last printed digit of each figure that it is the sum of. Counts are exact.
    pub fn tolerance(self) -> f64 {
        let exact = self.number.decimals == 0 && self.unit.factor() <= 1.0;
        if exact { 0.0 } else { 0.5 * self.halves as f64 / self.number.scale() * self.unit.factor() }
    }

    pub(super) fn range(self) -> Range {
        Range { low: (self.value() - self.tolerance()).max(0.0), high: self.value() + self.tolerance() }
    }

    pub(super) fn whole(self) -> Option<u64> {
        self.number.whole()
    }

    /// `range` in this figure's unit, to its digits.
    pub fn show(self, range: Range) -> String {
        let digits = |value: f64| {
            let scaled = value / self.unit.factor();
            match self.number.decimals {
                0 => whole(scaled).map_or_else(|| format!("{scaled:.0}"), group_digits),
                decimals => format!("{scaled:.*}", decimals as usize),
            }
        };
        let (low, high) = (digits(range.low), digits(range.high));
        let suffix = self.unit.suffix();
        if low == high { format!("{low}{suffix}") } else { format!("{low} to {high}{suffix}") }
    }

    /// The recomputed figure less this one, with its share: `-0.12x (-9.1 %)`; from the nearest end of the range.
    /// `None` where the two agree within `tolerance`.
    pub(super) fn difference(self, range: Range, tolerance: f64) -> Option<String> {
        let nearest = if self.value() < range.low { range.low } else { range.high };
        // One part in 2^40 is rounding of the arithmetic here.
        let slack = tolerance + self.value().abs() / f64::from(1_u32 << 30) / 1024.0;
        if (range.low - slack..=range.high + slack).contains(&self.value()) {
            return None;
        }
        let by = (nearest - self.value()) / self.unit.factor();
        let percent = by * self.unit.factor() / self.value() * 100.0;
        let share = match percent.abs() {
            _ if self.value() <= 0.0 => String::new(),
            size if size < 0.05 => " (under 0.1 %)".to_owned(),
            _ => format!(" ({percent:+.1} %)"),
        };
        let by = match (self.number.decimals, whole(by.abs())) {
            (0, Some(count)) => format!("{}{}", if by < 0.0 { '-' } else { '+' }, group_digits(count)),
            (decimals, _) => format!("{by:+.*}", decimals as usize),
        };
        Some(format!("{by}{}{share}", self.unit.suffix()))
    }
}

/// The nearest count; `None` below zero and beyond 64 bits.
pub(super) fn whole(value: f64) -> Option<u64> {
    format!("{value:.0}").parse().ok()
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.unit.suffix())
    }
}

/// The value in its base unit (bytes as integers), its tolerance and the unit.
impl Serialize for Printed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("Printed", 3)?;
        match whole(self.value()).filter(|_| self.number.decimals == 0 || self.unit.factor() > 1.0) {
            Some(count) => json.serialize_field("value", &count)?,
            None => json.serialize_field("value", &self.value())?,
        }
        json.serialize_field("tolerance", &self.tolerance())?;
        json.serialize_field("unit", self.unit.base())?;
        json.end()
    }
}

impl Range {
    /// Bytes in GiB, for words.
    pub(super) fn in_gib(self) -> String {
        Printed::new(Decimal { digits: 0, decimals: 2 }, Unit::GiB).show(self)
    }

    /// Times as the concurrency line prints them.
    pub(super) fn in_times(self) -> String {
        Printed::new(Decimal { digits: 0, decimals: 2 }, Unit::Times).show(self)
    }

    pub(super) fn exactly(value: f64) -> Self {
        Self { low: value, high: value }
    }
}

/// Both ends, in the base unit of the printed figure.
impl Serialize for Range {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("Range", 2)?;
        for (name, end) in [("low", self.low), ("high", self.high)] {
            match whole(end).filter(|_| end.fract() == 0.0) {
                Some(count) => json.serialize_field(name, &count)?,
                None => json.serialize_field(name, &end)?,
            }
        }
        json.end()
    }
}
