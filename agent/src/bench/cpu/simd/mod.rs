//! The vector operations that the kernels are written in, and the choice of an instruction set at run time.
//!
//! A kernel is one generic body, `#[inline(always)]`, over [`Simd`]. [`dispatch!`] calls it through a function that has
//! the instruction set's `target_feature`. Every helper below such a function is `#[inline(always)]`: a plain call
//! would be compiled without the instruction set, and slower than no vectors at all.
#![allow(
    unsafe_code,
    reason = "vector loads and stores go through pointers; each kernel checks its bounds on entry"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512_bf16::Avx512Bf16;
pub(crate) use portable::Portable;
#[cfg(test)]
mod stored_tests;

/// An instruction set that the kernels exist for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum InstructionSet {
    /// 16 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 16 lanes; products of bf16 pairs in one instruction where both sides are bf16.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    /// 8 lanes with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Plain Rust, 8 lanes that the compiler maps to what the target always has.
    Portable,
}

impl InstructionSet {
    /// What this processor can run, the widest first.
    pub(crate) fn available() -> Vec<Self> {
        let mut sets = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            // A hypervisor may hide one of them and show the others.
            let has_avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            if has_avx2 && is_x86_feature_detected!("avx512f") {
                if is_x86_feature_detected!("avx512bf16") {
                    sets.push(Self::Avx512Bf16);
                }
                sets.push(Self::Avx512);
            }
            if has_avx2 {
                sets.push(Self::Avx2);
            }
        }
        sets.push(Self::Portable);
        sets
    }

    /// Whether rows of these widths are whole double vectors.
    pub(crate) fn divides(self, widths: &[usize]) -> bool {
        widths.iter().all(|width| *width > 0 && width % (2 * self.lanes()) == 0)
    }

    /// f32 values in one vector.
    pub(crate) fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 | Self::Avx512Bf16 => Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::LANES,
            Self::Portable => Portable::LANES,
        }
    }

    /// [`Simd::BLOCK_ROWS`].
    pub(crate) fn block_rows(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 | Self::Avx512Bf16 => Avx512::BLOCK_ROWS,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::BLOCK_ROWS,
            Self::Portable => Portable::BLOCK_ROWS,
        }
    }

    /// Whether factors of bf16 pairs are rounded to bf16 and packed two in a word.
    #[cfg(test)]
    pub(crate) fn packs_pairs(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => true,
            _ => false,
        }
    }

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => "avx512bf16",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }
}

/// Vectors of f32 and raw bf16 of one instruction set.
///
/// # Safety
/// Every method needs a processor that has the instruction set; pointers must be valid for what the name says.
/// None needs alignment.
pub(crate) trait Simd: Copy {
    /// `LANES` f32 values.
    type F: Copy;
    /// `2 × LANES` bf16 values as loaded.
    type H: Copy;
    /// f32 values in [`Simd::F`].
    const LANES: usize;
    /// Rows that a block of two accumulating vectors a row keeps in registers.
    const BLOCK_ROWS: usize;
    /// Rows of such a block that leave registers for two vectors of bf16 pairs and their two halves.
    const PAIR_ROWS: usize;
    /// The factors of one bf16 pair, in all lanes.
    type Pair: Copy;

    unsafe fn splat(value: f32) -> Self::F;
    unsafe fn load(from: *const f32) -> Self::F;
    unsafe fn store(to: *mut f32, value: Self::F);
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;
    /// `a × b + c`.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// 2 to the power of each lane, for lanes ≤ 126; what is below −126 gives about 1e-38.
    #[inline(always)]
    unsafe fn exp2(a: Self::F) -> Self::F {
        // SAFETY: the caller's instruction set.
        unsafe { exp2_each::<Self, 1>([a])[0] }
    }
    /// Adds the integer that adding 1.5 × 2^23 left in the low bits of `shifted` to the exponent of `a`.
    unsafe fn raise(a: Self::F, shifted: Self::F) -> Self::F;
    unsafe fn sum(a: Self::F) -> f32;
    /// The sums of four vectors.
    unsafe fn sum4(a: [Self::F; 4]) -> [f32; 4];
    unsafe fn largest(a: Self::F) -> f32;

    /// `2 × LANES` bf16 values.
    unsafe fn load_halves(from: *const u16) -> Self::H;
    /// Values 0, 2, 4, … as f32.
    unsafe fn even(a: Self::H) -> Self::F;
    /// Values 1, 3, 5, … as f32.
    unsafe fn odd(a: Self::H) -> Self::F;
    /// Rounds to the nearest bf16, a tie away from 0, which takes one operation where ties to even take four, and stores
    /// `2 × LANES` of them: what [`Simd::even`] and [`Simd::odd`] give comes back. Not for NaN.
    unsafe fn store_halves(to: *mut u16, even: Self::F, odd: Self::F);
    /// `LANES` bf16 values as f32, in order.
    unsafe fn load_bf16(from: *const u16) -> Self::F;
    /// Rounds as [`Simd::store_halves`] does and stores `LANES` values in order. Not for NaN.
    unsafe fn store_bf16(to: *mut u16, value: Self::F);
    /// The factors of pair `index`, from f32 values that [`Simd::pack_pairs`] has gone over.
    unsafe fn pair(factors: *const f32, index: usize) -> Self::Pair;
    /// `even(a) × first factor + odd(a) × second factor + c`.
    unsafe fn fma_pair(a: Self::H, factors: Self::Pair, c: Self::F) -> Self::F;
    /// Puts `count` factors, a multiple of the lanes, in the form that [`Simd::pair`] reads, in place.
    unsafe fn pack_pairs(factors: *mut f32, count: usize);

    /// `LANES` signed bytes.
    unsafe fn load_i8(from: *const u8) -> Self::F;
    /// `LANES` values of fp8 (e4m3) divided by [`E4M3_SHRINK`]; no NaN among them.
    unsafe fn load_e4m3(from: *const u8) -> Self::F;
    /// `LANES` values of fp4 (e2m1), the first in the low four bits of the first byte, times 2.
    unsafe fn load_e2m1(from: *const u8) -> Self::F;
    /// `LANES` powers of two (e8m0); the codes of 2^-127 and NaN not among them.
    unsafe fn load_e8m0(from: *const u8) -> Self::F;

    /// Adds raw bits, so that a load cannot be left out.
    unsafe fn add_bits(a: Self::H, b: Self::H) -> Self::H;
    /// One number that depends on all bits.
    unsafe fn fold_bits(a: Self::H) -> u64;

    /// Transposes 8 rows of 8 f32 values, `row` values apart, to rows `column` values apart.
    unsafe fn transpose_8x8(from: *const f32, row: usize, to: *mut f32, column: usize);

    /// Asks for the cache line at `address`; any address is allowed.
    unsafe fn prefetch(address: *const u16);
}

/// What [`Simd::load_e4m3`] leaves out: fp8 bits are read as those of an f16, whose exponents are 8 lower.
pub(crate) const E4M3_SHRINK: f32 = 256.0;

/// Twice the value of each e2m1 code: magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6, then the same with a minus sign.
const E2M1_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Calls `$body::<S>($argument)` with the instruction set `$set` switched on in the compiled code.
macro_rules! dispatch {
    ($set:expr, $body:ident, $argument:expr, $Argument:ty) => {{
        use $crate::bench::cpu::simd::InstructionSet;
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx2,fma,f16c")]
        fn with_avx512(argument: $Argument) {
            // SAFETY: this function is only called where AVX-512 was detected.
            unsafe { $body::<$crate::bench::cpu::simd::Avx512>(argument) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn with_avx2(argument: $Argument) {
            // SAFETY: this function is only called where AVX2 and FMA were detected.
            unsafe { $body::<$crate::bench::cpu::simd::Avx2>(argument) }
        }
        let argument = $argument;
        match $set {
            // SAFETY: `InstructionSet` values come from `available`, which detects them.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 | InstructionSet::Avx512Bf16 => unsafe { with_avx512(argument) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => unsafe { with_avx2(argument) },
            // SAFETY: the portable operations need no instruction set.
            InstructionSet::Portable => unsafe { $body::<$crate::bench::cpu::simd::Portable>(argument) },
        }
    }};
}
pub(crate) use dispatch;

/// [`dispatch!`] for a body that multiplies bf16 pairs: AVX-512 BF16 has a code of its own.
macro_rules! dispatch_pairs {
    ($set:expr, $body:ident, $argument:expr, $Argument:ty) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512bf16,avx512f,avx2,fma,f16c")]
        fn with_pairs(argument: $Argument) {
            // SAFETY: this function is only called where AVX-512 BF16 was detected.
            unsafe { $body::<$crate::bench::cpu::simd::Avx512Bf16>(argument) }
        }
        match $set {
            // SAFETY: `InstructionSet` values come from `available`, which detects them.
            #[cfg(target_arch = "x86_64")]
            $crate::bench::cpu::simd::InstructionSet::Avx512Bf16 => unsafe { with_pairs($argument) },
            set => $crate::bench::cpu::simd::dispatch!(set, $body, $argument, $Argument),
        }
    }};
}
pub(crate) use dispatch_pairs;

/// [`Simd::exp2`] of several vectors, step by step together: one alone is a chain of dependent operations.
///
/// # Safety
/// As for [`Simd::exp2`].
#[inline(always)]
pub(crate) unsafe fn exp2_each<S: Simd, const N: usize>(a: [S::F; N]) -> [S::F; N] {
    // SAFETY: the caller's instruction set.
    unsafe {
        // 2^x = 2^n × 2^f with n the nearest integer, which adding 1.5 × 2^23 leaves in the low bits: the polynomial gives
        // 2^f, the exponent bits 2^n.
        let magic = S::splat(12_582_912.0);
        let lowest = S::splat(-126.0);
        let (mut shifted, mut f) = (a, a);
        for i in 0..N {
            let x = S::max(a[i], lowest);
            shifted[i] = S::add(x, magic);
            f[i] = S::sub(x, S::sub(shifted[i], magic));
        }
        let mut k = EXP2.len() - 1;
        let mut y = [S::splat(EXP2[k]); N];
        while k > 0 {
            k -= 1;
            let coefficient = S::splat(EXP2[k]);
            for i in 0..N {
                y[i] = S::fma(y[i], f[i], coefficient);
            }
        }
        for i in 0..N {
            y[i] = S::raise(y[i], shifted[i]);
        }
        y
    }
}

/// Coefficients of the polynomial of degree 5 that differs least from 2^f, relative to it, for −0.5 ≤ f ≤ 0.5 among those
/// with its value and slope at 0: by 1.1e-7 at most.
const EXP2: [f32; 6] =
    [1.0, std::f32::consts::LN_2, 0.240_222_81, 0.055_505_6, 0.009_669_729_5, 0.001_330_034_9];

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    struct Probe<'a> {
        input: &'a [f32],
        exp2: &'a mut [f32],
        reduced: &'a mut [f32],
        halves: &'a [u16],
        split: &'a mut [f32],
        /// Quotients, bf16 values read in order, then `input` rounded in pairs and one by one.
        stored: &'a mut [f32],
        rounded: &'a mut [u16],
    }

    #[inline(always)]
    unsafe fn probe<S: Simd>(probe: Probe<'_>) {
        assert!(probe.input.len() >= 4 * S::LANES && probe.exp2.len() >= 4 * S::LANES);
        // SAFETY: lengths are checked above and by the test that fills them.
        unsafe {
            let mut four = [S::splat(0.0); 4];
            for (index, vector) in four.iter_mut().enumerate() {
                *vector = S::load(probe.input.as_ptr().add(index * S::LANES));
                S::store(probe.exp2.as_mut_ptr().add(index * S::LANES), S::exp2(*vector));
            }
            probe.reduced[..4].copy_from_slice(&S::sum4(four));
            probe.reduced[4] = S::sum(four[1]);
            probe.reduced[5] = S::largest(four[2]);
            let raw = S::load_halves(probe.halves.as_ptr());
            S::store(probe.split.as_mut_ptr(), S::even(raw));
            S::store(probe.split.as_mut_ptr().add(S::LANES), S::odd(raw));
            S::store(probe.stored.as_mut_ptr(), S::div(four[1], four[2]));
            S::store(probe.stored.as_mut_ptr().add(S::LANES), S::load_bf16(probe.halves.as_ptr()));
            S::store_halves(probe.rounded.as_mut_ptr(), four[1], four[2]);
            S::store_bf16(probe.rounded.as_mut_ptr().add(2 * S::LANES), four[3]);
        }
    }

    #[test]
    fn every_set_computes_what_the_names_say() {
        let input: Vec<f32> = (0_u8..64).map(|i| 20.0 - f32::from(i) * 1.37).collect();
        let values: Vec<f32> = (0_u8..192).map(f32::from).collect();
        let halves: Vec<u16> = values.iter().map(|value| bf16::from_f32(*value).to_bits()).collect();
        for set in InstructionSet::available() {
            let lanes = set.lanes();
            let (mut exp2, mut reduced) = (vec![0.0; 64], vec![0.0; 6]);
            let mut split = vec![0.0; 64];
            let (mut stored, mut rounded) = (vec![0.0; 32], vec![0; 48]);
            let argument = Probe {
                input: &input,
                exp2: &mut exp2,
                reduced: &mut reduced,
                halves: &halves,
                split: &mut split,
                stored: &mut stored,
                rounded: &mut rounded,
            };
            dispatch!(set, probe, argument, Probe<'_>);

            for (x, y) in input.iter().zip(&exp2).take(4 * lanes) {
                let right = f64::from(*x).exp2();
                assert!(
                    (f64::from(*y) - right).abs() <= right * 1e-6 + 1e-37,
                    "{set:?}: 2^{x} = {y}, not {right}"
                );
            }
            let sum = |n: usize| input[n * lanes..(n + 1) * lanes].iter().map(|x| f64::from(*x)).sum::<f64>();
            for n in 0..4 {
                assert!((f64::from(reduced[n]) - sum(n)).abs() < 1e-2, "{set:?}: sum {n}");
            }
            assert!((f64::from(reduced[4]) - sum(1)).abs() < 1e-2);
            assert!((reduced[5] - input[2 * lanes]).abs() < 1e-6);
            for index in 0..2 * lanes {
                let got = split[index / 2 + index % 2 * lanes];
                assert!((got - values[index]).abs() < 1e-6, "{set:?}: value {index} is {got}");
            }
            for lane in 0..lanes {
                let right = input[lanes + lane] / input[2 * lanes + lane];
                assert!((stored[lane] - right).abs() <= right.abs() * 1e-6, "{set:?}: quotient {lane}");
                assert!((stored[lanes + lane] - values[lane]).abs() < 1e-6, "{set:?}: bf16 value {lane}");
                let bf16 = |index: usize| bf16::from_f32(input[index]).to_bits();
                assert_eq!(rounded[2 * lane], bf16(lanes + lane), "{set:?}");
                assert_eq!(rounded[2 * lane + 1], bf16(2 * lanes + lane), "{set:?}");
                assert_eq!(rounded[2 * lanes + lane], bf16(3 * lanes + lane), "{set:?}");
            }
        }
    }
}
