//! Figures of plans as they are typed and shown.

use kvscope_sizing::plan::Sensitivity;
use kvscope_sizing::{Bytes, UnitSystem, parse_count};

use crate::failure::Failure;

/// Bytes a second: `50GB/s`, `26.5 GiB/s`, or bits: `100Gbps`.
pub(super) fn bytes_per_second(name: &str, text: &str) -> Result<f64, Failure> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let wrong = || {
        Failure::input(format!(
            "{name}: {text:?} is no rate; write 50GB/s (10^9 bytes a second) or 100Gbps (10^9 bits a second)"
        ))
    };
    let rate = if let Some(bits) = compact.strip_suffix("bps").or_else(|| compact.strip_suffix("bit/s")) {
        parse_count(bits).map_err(|_| wrong())? as f64 / 8.0
    } else {
        let bytes = compact.strip_suffix("/s").ok_or_else(wrong)?;
        bytes.parse::<Bytes>().map_err(|_| wrong())?.get() as f64
    };
    if rate > 0.0 { Ok(rate) } else { Err(Failure::input(format!("{name}: a link of 0 B/s moves nothing"))) }
}

/// Seconds: `15us`, `1ms`, `2s`.
pub(super) fn seconds(name: &str, text: &str) -> Result<f64, Failure> {
    let given = humantime::parse_duration(text.trim());
    given
        .map(|duration| duration.as_secs_f64())
        .map_err(|_| Failure::input(format!("{name}: {text:?} is no time; write 15us, 1ms or 2s")))
}

/// A plain number.
pub(super) fn number(name: &str, text: &str) -> Result<f64, Failure> {
    let number: Option<f64> = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| Failure::input(format!("{name}: {text:?} is no number")))
}

/// `12.3 GB/s`
pub(super) fn rate_words(bytes_per_second: f64) -> String {
    format!("{}/s", whole(bytes_per_second).display(UnitSystem::Decimal))
}

/// `12.3 ms`
pub(super) fn time_words(seconds: f64) -> String {
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
pub(super) fn bit_rate_words(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    let units = [("Tbps", 1e12), ("Gbps", 1e9), ("Mbps", 1e6)];
    let (unit, size) = units.into_iter().find(|(_, size)| bits >= *size).unwrap_or(("bps", 1.0));
    format!("{} {unit}", three_digits(bits / size))
}

/// `1.14 TFLOP`
pub(super) fn operation_words(count: f64) -> String {
    let units = [("EFLOP", 1e18), ("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)];
    let (unit, size) = units.into_iter().find(|(_, size)| count >= *size).unwrap_or(("FLOP", 1.0));
    format!("{} {unit}", three_digits(count / size))
}

/// `53.9 %`
pub(super) fn percent_words(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Three significant figures.
pub(super) fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// `matters most to the time: bandwidth; a tenth less gives 2.31 s, a tenth more 1.95 s`
pub(super) fn sensitivity_words(
    of: &str,
    rows: &[Sensitivity],
    words: impl Fn(f64) -> String,
) -> Option<String> {
    let first = rows.first()?;
    let side = |value: Option<f64>| value.map_or("no answer".to_owned(), &words);
    Some(format!(
        "matters most to {of}: {}; a tenth less gives {}, a tenth more {}",
        first.input,
        side(first.with_less),
        side(first.with_more)
    ))
}

/// Bytes that a formula made, to the nearest.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float becomes the nearest integer within 64 bits, for words alone"
)]
pub(super) fn whole(bytes: f64) -> Bytes {
    Bytes::new(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_bits_and_bytes() {
        for (text, rate) in
            [("50GB/s", 50e9), ("26.5 GiB/s", 28_454_158_336.0), ("100Gbps", 12.5e9), ("8bit/s", 1.0)]
        {
            assert!((bytes_per_second("bandwidth", text).unwrap() - rate).abs() < 1e-6, "{text}");
        }
        for text in ["", "50", "50GB", "fast", "-1GB/s", "nan/s", "1e9/s"] {
            let error = bytes_per_second("bandwidth", text).unwrap_err().to_string();
            assert!(error.starts_with("bandwidth: ") && error.contains("is no rate"), "{text}: {error}");
        }
        let nothing = bytes_per_second("bandwidth", "0Gbps").unwrap_err().to_string();
        assert_eq!(nothing, "bandwidth: a link of 0 B/s moves nothing");
    }

    #[test]
    fn times_are_read_and_shown() {
        assert!((seconds("alpha", "15us").unwrap() - 15e-6).abs() < 1e-15);
        for text in ["", "15", "soon", "-1ms"] {
            assert!(seconds("alpha", text).is_err(), "{text}");
        }
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
        assert!(number("loss", "NaN").is_err() && number("loss", "1.5").is_ok());
    }

    #[test]
    fn rates_in_bits_and_operations_have_three_digits_and_a_unit() {
        assert_eq!(bit_rate_words(59.93e9 / 8.0), "59.9 Gbps");
        assert_eq!(bit_rate_words(64.0 * 59.93e9 / 8.0), "3.84 Tbps");
        assert_eq!(operation_words(1.143e12), "1.14 TFLOP");
        assert_eq!(operation_words(0.0), "0.00 FLOP");
    }
}
