//! Figures of plans as text.

/// `1.84 s`, `12.3 ms`, `450 µs`: three significant figures.
pub(super) fn seconds(time: f64) -> String {
    let units = [("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)];
    let (unit, size) = units.into_iter().find(|(_, size)| time >= *size).unwrap_or(("ns", 1e-9));
    format!("{} {unit}", figures(time / size))
}

/// `4.71 Gbps`, `3.84 Tbps`
pub(super) fn bit_rate(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    let units = [("Tbps", 1e12), ("Gbps", 1e9), ("Mbps", 1e6)];
    let (unit, size) = units.into_iter().find(|(_, size)| bits >= *size).unwrap_or(("bps", 1.0));
    format!("{} {unit}", figures(bits / size))
}

/// `1.14 TFLOP`
pub(super) fn operations(count: f64) -> String {
    let units = [("EFLOP", 1e18), ("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)];
    let (unit, size) = units.into_iter().find(|(_, size)| count >= *size).unwrap_or(("FLOP", 1.0));
    format!("{} {unit}", figures(count / size))
}

/// Three significant figures.
fn figures(number: f64) -> String {
    let decimals = match number {
        _ if number >= 99.95 => 0,
        _ if number >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_figures_with_a_unit() {
        assert_eq!(seconds(7.4), "7.40 s");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(0.00045), "450 µs");
        assert_eq!(bit_rate(59.93e9 / 8.0), "59.9 Gbps");
        assert_eq!(bit_rate(64.0 * 59.93e9 / 8.0), "3.84 Tbps");
        assert_eq!(operations(1.143e12), "1.14 TFLOP");
        assert_eq!(operations(0.0), "0.00 FLOP");
    }
}
