//! Every instruction set reads stored numbers as their formats define them.
#![allow(clippy::float_cmp, reason = "every value here is exact")]

use half::bf16;

use super::*;

struct Probe<'a> {
    bytes: &'a [u8],
    values: &'a mut [f32],
    reader: Reader,
}

#[derive(Clone, Copy, Debug)]
enum Reader {
    I8,
    E4m3,
    E2m1,
}

#[inline(always)]
unsafe fn probe<S: Simd>(probe: Probe<'_>) {
    for first in (0..probe.values.len()).step_by(S::LANES) {
        // SAFETY: the tests give whole vectors.
        unsafe {
            let from = |per_byte: usize| probe.bytes.as_ptr().add(first / per_byte);
            let value = match probe.reader {
                Reader::I8 => S::load_i8(from(1)),
                Reader::E4m3 => S::load_e4m3(from(1)),
                Reader::E2m1 => S::load_e2m1(from(2)),
            };
            S::store(probe.values.as_mut_ptr().add(first), value);
        }
    }
}

fn read(set: InstructionSet, bytes: &[u8], reader: Reader, count: usize) -> Vec<f32> {
    let mut values = vec![0.0; count];
    let argument = Probe { bytes, values: &mut values, reader };
    dispatch!(set, probe, argument, Probe<'_>);
    values
}

#[test]
fn bytes_are_signed_integers() {
    let bytes: Vec<u8> = (0..=255).collect();
    for set in InstructionSet::available() {
        for (byte, got) in bytes.iter().zip(read(set, &bytes, Reader::I8, 256)) {
            assert_eq!(f64::from(got), f64::from(byte.cast_signed()), "{set:?}");
        }
    }
}

/// OCP 8-bit floating point specification, E4M3: 1 sign, 4 exponent and 3 mantissa bits, bias 7, subnormals, no infinity,
/// NaN where all magnitude bits are set.
#[test]
fn fp8_codes_have_the_values_of_the_specification() {
    let bytes: Vec<u8> = (0..=255).map(|code: u8| if code & 0x7F == 0x7F { 0x7E } else { code }).collect();
    for set in InstructionSet::available() {
        for (code, got) in bytes.iter().zip(read(set, &bytes, Reader::E4m3, 256)) {
            let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
            let magnitude = match exponent {
                0 => mantissa / 8.0 * 2_f64.powi(-6),
                _ => (1.0 + mantissa / 8.0) * 2_f64.powi(exponent - 7),
            };
            let right = if code & 0x80 == 0 { magnitude } else { -magnitude };
            assert_eq!(f64::from(got * E4M3_SHRINK), right, "{set:?}: code {code:#x}");
        }
    }
}

/// OCP microscaling formats specification, E2M1: 1 sign, 2 exponent and 1 mantissa bit, bias 1.
#[test]
fn fp4_codes_have_the_values_of_the_specification() {
    let magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    // Every code once as the first and once as the second of a byte.
    let bytes: Vec<u8> = (0..16).map(|code: u8| code | (15 - code) << 4).collect();
    for set in InstructionSet::available() {
        let got = read(set, &bytes, Reader::E2m1, 32);
        for place in 0..32 {
            let code = if place % 2 == 0 { place / 2 } else { 15 - place / 2 };
            let right = if code < 8 { magnitudes[code] } else { -magnitudes[code - 8] };
            assert_eq!(got[place], 2.0 * right, "{set:?}: value {place}");
        }
    }
}

struct Pairs<'a> {
    halves: &'a [u16],
    factors: &'a mut [f32],
    sums: &'a mut [f32],
    transposed: &'a mut [f32],
}

#[inline(always)]
unsafe fn multiply<S: Simd>(pairs: Pairs<'_>) {
    assert!(pairs.factors.len() == 64 && pairs.transposed.len() >= 8 * 11);
    // SAFETY: the test gives 32 halves, 64 factors and 16 sums.
    unsafe {
        S::transpose_8x8(pairs.factors.as_ptr(), 8, pairs.transposed.as_mut_ptr(), 11);
        S::pack_pairs(pairs.factors.as_mut_ptr(), 64);
        let raw = S::load_halves(pairs.halves.as_ptr());
        let mut sum = S::splat(0.5);
        for index in [0, 9, 31] {
            sum = S::fma_pair(raw, S::pair(pairs.factors.as_ptr(), index), sum);
        }
        S::store(pairs.sums.as_mut_ptr(), sum);
    }
}

#[test]
fn pairs_are_multiplied_by_their_two_factors() {
    // Small integers and halves of them are exact in bf16, so every set must give the exact sum.
    let values: Vec<f32> = (0_u8..32).map(|i| f32::from(i) - 16.0).collect();
    let halves: Vec<u16> = values.iter().map(|value| bf16::from_f32(*value).to_bits()).collect();
    let factors: Vec<f32> = (0_u8..64).map(|i| f32::from(i) / 2.0 - 9.0).collect();
    for set in InstructionSet::available() {
        let (mut packed, mut sums, mut transposed) = (factors.clone(), vec![0.0; 16], vec![0.0; 88]);
        let argument =
            Pairs { halves: &halves, factors: &mut packed, sums: &mut sums, transposed: &mut transposed };
        dispatch_pairs!(set, multiply, argument, Pairs<'_>);
        for lane in 0..set.lanes() {
            let product = |index: usize| {
                values[2 * lane] * factors[2 * index] + values[2 * lane + 1] * factors[2 * index + 1]
            };
            assert_eq!(sums[lane], 0.5 + product(0) + product(9) + product(31), "{set:?}: lane {lane}");
        }
        for (row, column) in (0..8).flat_map(|row| (0..8).map(move |column| (row, column))) {
            assert_eq!(transposed[column * 11 + row], factors[row * 8 + column], "{set:?}");
        }
    }
}
