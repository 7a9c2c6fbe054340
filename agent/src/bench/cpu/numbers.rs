//! Narrow numbers one at a time: what a decode step writes of the one token that it adds.

use half::bf16;

/// The largest magnitude of e4m3.
pub(crate) const LARGEST_E4M3: f32 = 448.0;
/// The largest magnitude of e2m1.
pub(crate) const LARGEST_E2M1: f32 = 6.0;

/// The value of every e4m3 code; the two NaN codes are 0, so that a table look-up never poisons a sum.
pub(crate) const E4M3: [f32; 256] = e4m3_table();

const fn e4m3_table() -> [f32; 256] {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let (exponent, mantissa) = (code >> 3 & 15, code & 7);
        let magnitude = if code & 0x7F == 0x7F {
            0.0
        } else if exponent == 0 {
            mantissa as f32 / 512.0
        } else {
            // The exponent's bias is 7 here and 127 in an f32.
            #[allow(clippy::cast_possible_truncation, reason = "below 256")]
            let bits = ((exponent + 120) << 23 | mantissa << 20) as u32;
            f32::from_bits(bits)
        };
        table[code] = if code < 128 { magnitude } else { -magnitude };
        code += 1;
    }
    table
}

/// The nearest e4m3, ties to even; what is beyond the largest becomes the largest.
pub(crate) fn to_e4m3(value: f32) -> u8 {
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = value.abs().min(LARGEST_E4M3);
    let code = if magnitude < 1.0 / 64.0 {
        // Subnormals are multiples of 2^-9, and 8 of them the smallest normal.
        rounded(magnitude * 512.0)
    } else {
        let bits = magnitude.to_bits();
        let to_three_bits = bits + 0x7_FFFF + (bits >> 20 & 1);
        (to_three_bits >> 20) - (120 << 3)
    };
    #[allow(clippy::cast_possible_truncation, reason = "at most 0x7E")]
    let code = code as u8;
    sign | code
}

/// The nearest e2m1 code, ties to the even code.
pub(crate) fn to_e2m1(value: f32) -> u8 {
    let sign = if value.is_sign_negative() { 8 } else { 0 };
    // Half way between neighbours of 0, 0.5, 1, 1.5, 2, 3, 4, 6; at an even lower neighbour the tie stays below.
    let bounds = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
    let magnitude = value.abs();
    let mut code = 0;
    for (lower, bound) in (0_u8..).zip(bounds) {
        if magnitude > bound || (magnitude >= bound && lower % 2 == 1) {
            code = lower + 1;
        }
    }
    sign | code
}

/// The e8m0 code of the smallest power of two that is at least `value`.
pub(crate) fn to_e8m0_above(value: f32) -> u8 {
    let bits = value.abs().max(f32::MIN_POSITIVE).to_bits();
    let exponent = (bits >> 23) + u32::from(bits & 0x7F_FFFF != 0);
    u8::try_from(exponent.min(254)).expect("at most 254")
}

/// The power of two that an e8m0 code means; the codes of 2^-127 and NaN do not occur here.
pub(crate) fn from_e8m0(code: u8) -> f32 {
    f32::from_bits(u32::from(code) << 23)
}

/// The nearest bf16, low byte first.
pub(crate) fn to_bf16(value: f32) -> [u8; 2] {
    bf16::from_f32(value).to_le_bytes()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 8")]
fn rounded(value: f32) -> u32 {
    value.round_ties_even() as u32
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "codes stand for exact values")]
mod tests {
    use super::*;
    use crate::bench::cpu::reference::e4m3;

    /// Of all codes the nearest, by trying all.
    #[test]
    fn e4m3_is_the_nearest_of_all_codes() {
        for code in (0..=255_u8).filter(|code| code & 0x7F != 0x7F) {
            assert_eq!(f64::from(E4M3[usize::from(code)]), e4m3(code));
            assert_eq!(e4m3(to_e4m3(E4M3[usize::from(code)])), e4m3(code));
        }
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let value = (random.f32() - 0.5) * 2_f32.powi(random.i32(-10..11));
            let off = |code: u8| (e4m3(code) - f64::from(value)).abs();
            let least =
                (0..=255_u8).filter(|code| code & 0x7F != 0x7F).map(off).fold(f64::INFINITY, f64::min);
            assert_eq!(off(to_e4m3(value)), least, "{value}");
        }
        // Half way between 1 and 1.125, and between 1.125 and 1.25: to the even mantissa.
        assert_eq!((e4m3(to_e4m3(1.0625)), e4m3(to_e4m3(1.1875))), (1.0, 1.25));
        assert_eq!(e4m3(to_e4m3(-1e9)), -448.0);
    }

    #[test]
    fn e2m1_is_the_nearest_of_all_codes_and_ties_go_to_even() {
        let values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0_f32];
        for (code, value) in (0_u8..).zip(values) {
            assert_eq!((to_e2m1(value), to_e2m1(-value - 1e-9)), (code, code + 8));
        }
        for (tie, code) in
            [(0.25, 0), (0.75, 2), (1.25, 2), (1.75, 4), (2.5, 4), (3.5, 6), (5.0, 6), (9.0, 7)]
        {
            assert_eq!(to_e2m1(tie), code, "{tie}");
        }
    }

    #[test]
    fn e8m0_covers_the_value() {
        for (value, power) in
            [(1.0, 1.0), (1.01, 2.0), (0.75, 1.0), (448.0, 512.0), (2_f32.powi(-20), 2_f32.powi(-20))]
        {
            assert_eq!(from_e8m0(to_e8m0_above(value)), power, "{value}");
        }
    }
}
