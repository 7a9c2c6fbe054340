//! Figures of plans in words, the same on the command line and on the page.

use crate::{Bytes, UnitSystem, group_digits};

/// `12.3 GB/s`
pub fn rate_words(bytes_per_second: f64) -> String {
    format!("{}/s", whole(bytes_per_second).display(UnitSystem::Decimal))
}

/// `12.3 ms`
pub fn time_words(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    for (unit, name) in [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")] {
        if seconds >= unit {
            return format!("{} {name}", three_digits(seconds / unit));
        }
    }
    format!("{} ns", three_digits(seconds * 1e9))
}

/// `4.71 Gbps`, `3.84 Tbps`
pub fn bit_rate_words(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    let units = [("Tbps", 1e12), ("Gbps", 1e9), ("Mbps", 1e6)];
    let (unit, size) = units.into_iter().find(|(_, size)| bits >= *size).unwrap_or(("bps", 1.0));
    format!("{} {unit}", three_digits(bits / size))
}

/// `1.14 TFLOP`
pub fn operation_words(count: f64) -> String {
    let units = [("EFLOP", 1e18), ("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)];
    let (unit, size) = units.into_iter().find(|(_, size)| count >= *size).unwrap_or(("FLOP", 1.0));
    format!("{} {unit}", three_digits(count / size))
}

/// `53.9 %`, `0.0312 %`
pub fn percent_words(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 {
        return format!("{} %", three_digits(percent));
    }
    format!("{percent:.1} %")
}

/// Three significant figures or more: `1,234`, `12.3`, `0.000450`, `1.20e-9`.
pub fn three_digits(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && size < 1e-6 {
        return format!("{value:.2e}");
    }
    if (999.5..1e15).contains(&value) {
        return group_digits(whole(value).get());
    }
    let mut decimals = match size {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    // A small figure keeps its digits: 0.00 would be another one.
    let mut shown = size;
    while shown > 0.0 && shown < 0.9995 {
        shown *= 10.0;
        decimals += 1;
    }
    format!("{value:.decimals$}")
}

/// Bytes that a formula made, to the nearest.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float becomes the nearest integer within 64 bits, for words alone"
)]
pub fn whole(bytes: f64) -> Bytes {
    Bytes::new(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_with_three_digits() {
        for (value, words) in [
            (7.4, "7.40 s"),
            (0.00045, "450 µs"),
            (1.5, "1.50 s"),
            (0.0123, "12.3 ms"),
            (15e-6, "15.0 µs"),
            (3e-9, "3.00 ns"),
            (0.0, "0 s"),
        ] {
            assert_eq!(time_words(value), words);
        }
    }

    #[test]
    fn rates_in_bits_and_operations_have_three_digits_and_a_unit() {
        assert_eq!(bit_rate_words(59.93e9 / 8.0), "59.9 Gbps");
        assert_eq!(bit_rate_words(64.0 * 59.93e9 / 8.0), "3.84 Tbps");
        assert_eq!(operation_words(1.143e12), "1.14 TFLOP");
        assert_eq!(operation_words(0.0), "0.00 FLOP");
    }

    #[test]
    fn a_share_is_nothing_only_where_it_is_none() {
        for (share, words) in [(0.5386, "53.9 %"), (0.000_312, "0.0312 %"), (0.0, "0.0 %"), (1.0, "100.0 %")]
        {
            assert_eq!(percent_words(share), words);
        }
    }

    #[test]
    fn what_is_small_keeps_its_digits() {
        for (value, words) in [
            (0.5, "0.500"),
            (0.00123, "0.00123"),
            (0.99961, "1.00"),
            (1.0, "1.00"),
            (0.0, "0.00"),
            (-0.031_4, "-0.0314"),
            (1.2e-9, "1.20e-9"),
            (1234.4, "1,234"),
        ] {
            assert_eq!(three_digits(value), words);
        }
    }
}
