/// `1234567` as `1,234,567`.
pub fn group_digits(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Reads a count as people type it: digits, with `,` or `_` only before groups of exactly three, a decimal part where a
/// suffix makes the whole an integer, and a suffix `K M G T` (powers of 1,000) or `Ki Mi Gi Ti` (powers of 1,024).
pub fn parse_count(text: &str) -> Result<u64, String> {
    let text = text.trim();
    whole(text).map_err(|why| match why {
        NoCount::Unread => {
            format!("{text:?} is not a count; write 100000, 100K (decimal) or 128Ki (binary)")
        }
        NoCount::Fraction => format!("{text:?} is not a whole number; write one without a part of it"),
        NoCount::TooLarge => format!("{text:?} is more than {}; write a smaller count", u64::MAX),
    })
}

/// Why a text is no count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NoCount {
    /// It has other characters than counts have, or in another order.
    Unread,
    /// A part of one is left beside the count.
    Fraction,
    /// It is beyond 64 bits.
    TooLarge,
}

fn whole(text: &str) -> Result<u64, NoCount> {
    let typed = typed(text)?;
    if typed.rest { Err(NoCount::Fraction) } else { Ok(typed.count) }
}

/// The same, cut off to a whole count where a suffix stands behind a decimal part: of `4.99Gi` 0.76 are left out.
pub(super) fn parse_cut_off(text: &str) -> Result<u64, NoCount> {
    let cut = typed(text)?;
    if cut.rest && text.trim().ends_with(|c: char| c.is_ascii_digit()) {
        return Err(NoCount::Fraction);
    }
    Ok(cut.count)
}

/// A count as it is typed.
struct Typed {
    count: u64,
    /// Whether a part of one is left beside the count.
    rest: bool,
}

fn typed(text: &str) -> Result<Typed, NoCount> {
    let text = text.trim();
    let number_end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '_'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(number_end);
    let factor: u64 = match suffix {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        "t" | "T" => 1_000_000_000_000,
        "p" | "P" => 1_000_000_000_000_000,
        "e" | "E" => 1_000_000_000_000_000_000,
        "ki" | "Ki" | "KI" => 1 << 10,
        "mi" | "Mi" | "MI" => 1 << 20,
        "gi" | "Gi" | "GI" => 1 << 30,
        "ti" | "Ti" | "TI" => 1 << 40,
        "pi" | "Pi" | "PI" => 1 << 50,
        "ei" | "Ei" | "EI" => 1 << 60,
        _ => return Err(NoCount::Unread),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let plain = without_separators(whole).ok_or(NoCount::Unread)?;
    if plain.is_empty() || fraction.contains(['.', ',', '_']) || number.ends_with('.') {
        return Err(NoCount::Unread);
    }
    let whole: u64 = plain.parse().map_err(|_| NoCount::TooLarge)?;
    let mut typed = Typed { count: whole.checked_mul(factor).ok_or(NoCount::TooLarge)?, rest: false };
    if !fraction.is_empty() {
        let digits = u32::try_from(fraction.len()).ok();
        let scale = digits.and_then(|digits| 10_u64.checked_pow(digits)).ok_or(NoCount::Unread)?;
        let part = fraction.parse::<u64>().map_err(|_| NoCount::Unread)?;
        let (part, scale) = (u128::from(part) * u128::from(factor), u128::from(scale));
        typed.rest = part % scale != 0;
        typed.count = u64::try_from(part / scale)
            .ok()
            .and_then(|part| typed.count.checked_add(part))
            .ok_or(NoCount::TooLarge)?;
    }
    Ok(typed)
}

/// Runs of layers that are listed one by one; of more, the first ones and the last.
const LISTED_RUNS: usize = 5;

/// Layer numbers that rise, in short: `0–2, 7, 11–12`; where they come at one distance, `3, 7, … 59`; where they are many
/// runs, the first ones and the last: `0–2, 4–6, 8–10, … 56–58`.
pub fn layer_ranges(layers: &[usize]) -> String {
    if let [first, second, .., last] = layers {
        let step = second - first;
        let even = layers.windows(2).all(|pair| pair[1] - pair[0] == step);
        if even && step > 1 {
            return format!("{first}, {second}, … {last}");
        }
    }
    let mut runs = layer_runs(layers);
    if runs.len() > LISTED_RUNS {
        let last = runs.pop().unwrap_or_default();
        runs.truncate(LISTED_RUNS - 2);
        runs.push(format!("… {last}"));
    }
    runs.join(", ")
}

/// Layer numbers that rise, one text for each run without a gap: `0–2`, `7`.
fn layer_runs(layers: &[usize]) -> Vec<String> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &layer in layers {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == layer => *end = layer,
            _ => runs.push((layer, layer)),
        }
    }
    runs.iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}–{to}") }).collect()
}

/// The digits of `1,234,567`. `None` where a group is not of three digits: in `80,5` the comma may stand for a point.
fn without_separators(whole: &str) -> Option<String> {
    let mut groups = whole.split([',', '_']);
    let first = groups.next()?;
    let mut digits = first.to_owned();
    for group in groups {
        if group.len() != 3 || first.is_empty() || first.len() > 3 {
            return None;
        }
        digits.push_str(group);
    }
    Some(digits)
}

/// [`group_digits`] of what may be beyond 64 bits, which stays in one group then.
pub(crate) fn group_wide(count: u128) -> String {
    u64::try_from(count).map_or_else(|_| count.to_string(), group_digits)
}

/// Every digit of a reduced ratio: `5,031.4375`; the ratio itself where no decimal ends or it is longer than 64 digits.
pub(crate) fn exact_digits(numerator: u128, denominator: u128) -> String {
    let whole = group_wide(numerator / denominator);
    let mut rest = numerator % denominator;
    let mut decimals = String::new();
    while rest != 0 && decimals.len() < 64 {
        let Some(tenfold) = rest.checked_mul(10) else { break };
        decimals.push(char::from(b'0' + u8::try_from(tenfold / denominator).unwrap_or(0)));
        rest = tenfold % denominator;
    }
    match (rest, decimals.is_empty()) {
        (0, true) => whole,
        (0, false) => format!("{whole}.{decimals}"),
        _ => format!("{}/{}", group_wide(numerator), group_wide(denominator)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_stand_before_groups_of_three_only() {
        for (text, count) in [
            ("100,000", 100_000),
            ("100_000", 100_000),
            ("1,234,567", 1_234_567),
            ("1,234.5K", 1_234_500),
            ("12", 12),
            ("1.55E", 1_550_000_000_000_000_000),
            ("2.5Pi", 5 << 49),
        ] {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        for text in
            ["80,5", "80,5G", "1,2345", "1234,567", ",123", "1,,234", "1,234,", "_", "1_00", "1.5,000K"]
        {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    /// 2^64 is 18,446,744,073,709,551,616, the first count that 64 bits do not hold.
    #[test]
    fn what_is_no_count_says_why() {
        for (text, why) in [
            ("18446744073709551616", "is more than 18446744073709551615"),
            ("16Ei", "is more than 18446744073709551615"),
            ("1.5", "is not a whole number"),
            ("many", "is not a count"),
        ] {
            let error = parse_count(text).unwrap_err();
            assert!(error.contains(why) && error.contains("; write "), "{error}");
        }
        assert_eq!(parse_count("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_cut_off("16Ei"), Err(NoCount::TooLarge));
        assert_eq!((parse_cut_off("1.5"), parse_cut_off("1.5Ki")), (Err(NoCount::Fraction), Ok(1536)));
    }

    #[test]
    fn layer_numbers_are_said_shortly() {
        assert_eq!(layer_ranges(&[]), "");
        assert_eq!(layer_ranges(&[0, 1, 2, 7, 11, 12]), "0–2, 7, 11–12");
        assert_eq!(layer_ranges(&[3, 7, 11, 15]), "3, 7, … 15");
        assert_eq!(layer_ranges(&[5]), "5");
        assert_eq!(layer_ranges(&[0, 1, 2, 3]), "0–3");
        assert_eq!(layer_ranges(&[0, 2]), "0, 2");
        assert_eq!(layer_ranges(&[0, 1, 4, 5, 8, 9, 12, 13, 16]), "0–1, 4–5, 8–9, 12–13, 16");
        assert_eq!(layer_ranges(&[0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20]), "0–1, 4–5, 8–9, … 20");
    }

    #[test]
    fn digits_in_groups_of_three() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (3_264_061_440, "3,264,061,440")] {
            assert_eq!(group_digits(count), text);
        }
    }
}
