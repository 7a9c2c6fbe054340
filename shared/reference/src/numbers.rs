//! Narrow numbers as their specifications define them, in f64.

/// One bf16, low byte first: the upper half of an f32.
pub fn bf16(bytes: [u8; 2]) -> f64 {
    f64::from(f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16))
}

/// One f32, low byte first.
pub fn f32_le(bytes: &[u8]) -> f64 {
    f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes")))
}

/// One fp8 number as the OCP 8-bit floating point specification defines E4M3: bias 7, subnormals, no infinity.
pub fn e4m3(code: u8) -> f64 {
    let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
    let magnitude = match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => mantissa / 8.0 * 2_f64.powi(-6),
        _ => (1.0 + mantissa / 8.0) * 2_f64.powi(exponent - 7),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// One fp4 number as the OCP microscaling specification defines E2M1: bias 1, one mantissa bit, a sign.
pub fn e2m1(code: u8) -> f64 {
    let magnitude = match code & 7 {
        0 => 0.0,
        1 => 0.5,
        code => (1.0 + f64::from(code & 1) / 2.0) * 2_f64.powi(i32::from(code >> 1) - 1),
    };
    if code & 8 == 0 { magnitude } else { -magnitude }
}

/// One scale as the same specification defines E8M0: a power of two, bias 127.
pub fn e8m0(code: u8) -> f64 {
    if code == 255 { f64::NAN } else { 2_f64.powi(i32::from(code) - 127) }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "codes stand for exact values")]
mod tests {
    use super::*;

    /// Values that the specifications print: the largest of E4M3 and E2M1, the smallest ones, and one.
    #[test]
    fn codes_of_the_specifications() {
        assert_eq!(
            (e4m3(0x7E), e4m3(0xFE), e4m3(0x01), e4m3(0x08)),
            (448.0, -448.0, 1.0 / 512.0, 1.0 / 64.0)
        );
        assert!(e4m3(0x7F).is_nan() && e8m0(255).is_nan());
        let all = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        for (code, value) in (0_u8..).zip(all) {
            assert_eq!((e2m1(code), e2m1(code | 8)), (value, -value));
        }
        assert_eq!((e8m0(127), e8m0(120)), (1.0, 1.0 / 128.0));
        assert_eq!((bf16([0x80, 0x3F]), f32_le(&[0, 0, 0x80, 0x3F])), (1.0, 1.0));
    }
}
