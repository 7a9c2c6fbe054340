//! Numbers as words: ticks, values with three significant figures, ratios.

use kvscope_sizing::{Tokens, UnitSystem};

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Bytes, with units of one system.
    Bytes(UnitSystem),
    /// Tokens of one request.
    Tokens,
    /// Seconds.
    Seconds,
    /// A ratio.
    Times,
    /// Requests, or blocks and checkpoints of them.
    Requests,
    /// Percent of a whole.
    Percent,
    /// Bits a second.
    BitRate,
}

/// Labels of rising `ticks`, short, and distinct for distinct ticks.
pub fn tick_labels(ticks: &[f64], quantity: Quantity) -> Vec<String> {
    // f64 has 17 significant digits; that many tell any two apart.
    let mut labels = Vec::new();
    for digits in 2..=17 {
        labels = ticks.iter().map(|&tick| tick_label(tick, quantity, digits)).collect();
        if labels.windows(2).all(|pair: &[String]| pair[0] != pair[1]) {
            break;
        }
    }
    labels
}

/// Seconds with three significant figures: `1.24 ms`, `35.0 µs`.
pub fn seconds(value: f64) -> String {
    let (scaled, unit) = in_unit(value, SECONDS);
    format!("{} {unit}", three_figures(scaled))
}

/// A ratio with two or three figures: `0.98×`, `7.8×`, `48×`.
pub fn times(ratio: f64) -> String {
    format!("{}×", two_figures(ratio))
}

/// `lead` and the words for figures that are of one of several ranks: `, one rank of 8`; nothing for one rank.
pub fn one_rank(lead: &str, ranks: u64) -> String {
    if ranks > 1 { format!("{lead}one rank of {ranks}") } else { String::new() }
}

/// `value` with three significant figures.
pub fn three_figures(value: f64) -> String {
    let decimals = if value >= 99.95 { 0 } else { usize::from(value < 9.995) + 1 };
    format!("{value:.decimals$}")
}

/// A ratio as people say it: two figures below ten, whole from ten on, groups of three from a thousand on.
pub(crate) fn two_figures(ratio: f64) -> String {
    if ratio >= 9.95 {
        return kvscope_sizing::group_digits(nearest_u64(ratio));
    }
    if ratio >= 0.995 || ratio <= 0.0 {
        return format!("{ratio:.1}");
    }
    // Rounded first, so that 0.0996 reads 0.10 and not 0.100.
    let exponent =
        format!("{ratio:.1e}").rsplit_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    let decimals = exponent.map_or(2, |exponent| 1 + usize::try_from(-exponent).unwrap_or(0));
    format!("{ratio:.decimals$}")
}

/// A context with its unit: `100,000 tokens`, `1 token`.
pub fn context(tokens: Tokens) -> String {
    let unit = if tokens.get() == 1 { "token" } else { "tokens" };
    format!("{tokens} {unit}")
}

/// A place along an x axis with its unit: `100,000 tokens`, `25 Gbps`.
pub(crate) fn place(at: Tokens, across: Quantity) -> String {
    match across {
        Quantity::BitRate => tick_label(at.get() as f64, across, 3),
        Quantity::Requests => counted(at.get(), "request", "requests"),
        _ => context(at),
    }
}

/// Whether a table's cell is a number, also that of the row that was set.
pub(crate) fn is_number(cell: &str) -> bool {
    let number = cell.strip_suffix(" (set)").unwrap_or(cell);
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, ',' | '.' | 'e' | '-' | '+');
    number.contains(|c: char| c.is_ascii_digit()) && number.chars().all(is_part)
}

/// `count things`, with `thing` for one.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", kvscope_sizing::group_digits(count), if count == 1 { one } else { many })
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from f64 saturates, and what saturates is far beyond any figure"
)]
pub(crate) fn nearest_u64(value: f64) -> u64 {
    value.round() as u64
}

const SECONDS: &[(f64, &str)] = &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
const BIT_RATES: &[(f64, &str)] =
    &[(1e12, "Tbps"), (1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1.0, "bps")];
const DECIMAL_BYTES: &[(f64, &str)] =
    &[(1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
const BINARY_BYTES: &[(f64, &str)] = &[
    (1_152_921_504_606_846_976.0, "EiB"),
    (1_125_899_906_842_624.0, "PiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_073_741_824.0, "GiB"),
    (1_048_576.0, "MiB"),
    (1024.0, "KiB"),
    (1.0, "B"),
];

fn tick_label(tick: f64, quantity: Quantity, digits: usize) -> String {
    match quantity {
        Quantity::Tokens if tick >= 0.0 && tick.fract() == 0.0 && tick < 9e15 => {
            Tokens::new(nearest_u64(tick)).short()
        }
        Quantity::Requests if tick >= 1.0 && tick.fract() == 0.0 && tick < 9e15 => {
            kvscope_sizing::group_digits(nearest_u64(tick))
        }
        Quantity::Tokens | Quantity::Requests => trimmed(tick, digits),
        Quantity::Times => format!("{}×", trimmed(tick, digits)),
        Quantity::Percent => format!("{} %", trimmed(tick, digits)),
        Quantity::Seconds => with_unit(tick, SECONDS, digits),
        Quantity::BitRate => with_unit(tick, BIT_RATES, digits),
        Quantity::Bytes(UnitSystem::Decimal) => with_unit(tick, DECIMAL_BYTES, digits),
        Quantity::Bytes(UnitSystem::Binary) => with_unit(tick, BINARY_BYTES, digits),
    }
}

fn with_unit(value: f64, units: &[(f64, &'static str)], digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let (scaled, unit) = in_unit(value, units);
    format!("{} {unit}", trimmed(scaled, digits))
}

/// `value` in the largest unit that leaves at least 1, or the smallest there is.
fn in_unit(value: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    let (size, unit) = units.iter().find(|(size, _)| value >= *size).unwrap_or(&units[units.len() - 1]);
    (value / size, unit)
}

/// `value` with at most `digits` significant digits and no trailing zeros.
fn trimmed(value: f64, digits: usize) -> String {
    let whole_digits = if value.abs() >= 1.0 { nearest_u64(value.abs().log10().floor()) } else { 0 };
    let leading_zeros =
        if value != 0.0 && value.abs() < 1.0 { nearest_u64(-value.abs().log10().floor()) } else { 0 };
    let decimals = (digits as u64 + leading_zeros).saturating_sub(1 + whole_digits);
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or(17));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_labels_are_short() {
        assert_eq!(
            tick_labels(&[1e7, 1e8, 1e9, 1e10, 1e11], Quantity::Bytes(UnitSystem::Decimal)),
            ["10 MB", "100 MB", "1 GB", "10 GB", "100 GB"]
        );
        assert_eq!(
            tick_labels(&[0.0, 5e9, 1e10, 1.5e10], Quantity::Bytes(UnitSystem::Decimal)),
            ["0", "5 GB", "10 GB", "15 GB"]
        );
        assert_eq!(
            tick_labels(&[1_048_576.0, 1_073_741_824.0], Quantity::Bytes(UnitSystem::Binary)),
            ["1 MiB", "1 GiB"]
        );
        assert_eq!(tick_labels(&[1024.0, 131_072.0, 1_048_576.0], Quantity::Tokens), ["1Ki", "128Ki", "1Mi"]);
        assert_eq!(
            tick_labels(&[1e-6, 1e-3, 0.01, 1.0], Quantity::Seconds),
            ["1 µs", "1 ms", "10 ms", "1 s"]
        );
        assert_eq!(tick_labels(&[0.95, 1.0, 1.05], Quantity::Times), ["0.95×", "1×", "1.1×"]);
        assert_eq!(tick_labels(&[0.5, 1.0, 10_000.0], Quantity::Requests), ["0.5", "1", "10,000"]);
    }

    #[test]
    fn values_have_three_figures() {
        assert_eq!(seconds(0.001_236), "1.24 ms");
        assert_eq!(seconds(35e-6), "35.0 µs");
        assert_eq!(seconds(2.0), "2.00 s");
        assert_eq!(times(7.78), "7.8×");
        assert_eq!(times(48.3), "48×");
        assert_eq!(times(0.982), "0.98×");
        assert_eq!(times(0.020_73), "0.021×");
        assert_eq!(times(0.0996), "0.10×");
        assert_eq!(times(1.0), "1.0×");
        assert_eq!(times(0.0), "0.0×");
        assert_eq!(times(1234.4), "1,234×");
    }
}
