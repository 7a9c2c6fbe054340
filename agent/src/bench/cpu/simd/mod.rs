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
mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use portable::Portable;

/// An instruction set that the kernels exist for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum InstructionSet {
    /// 16 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx512,
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
            let has_avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if has_avx2 && is_x86_feature_detected!("avx512f") {
                sets.push(Self::Avx512);
            }
            if has_avx2 {
                sets.push(Self::Avx2);
            }
        }
        sets.push(Self::Portable);
        sets
    }

    /// The widest available set whose double vectors divide all of `widths`.
    pub(crate) fn for_widths(widths: &[usize]) -> Option<Self> {
        Self::available().into_iter().find(|set| set.divides(widths))
    }

    /// Whether rows of these widths are whole double vectors.
    pub(crate) fn divides(self, widths: &[usize]) -> bool {
        widths.iter().all(|width| *width > 0 && width % (2 * self.lanes()) == 0)
    }

    /// f32 values in one vector.
    pub(crate) fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::LANES,
            Self::Portable => Portable::LANES,
        }
    }

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
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

    unsafe fn splat(value: f32) -> Self::F;
    unsafe fn load(from: *const f32) -> Self::F;
    unsafe fn store(to: *mut f32, value: Self::F);
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;
    /// `a × b + c`.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// 2 to the power of each lane, for lanes ≤ 0; what is below −126 gives about 1e-38.
    unsafe fn exp2(a: Self::F) -> Self::F;
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
    /// Adds raw bits, so that a load cannot be left out.
    unsafe fn add_bits(a: Self::H, b: Self::H) -> Self::H;
    /// One number that depends on all bits.
    unsafe fn fold_bits(a: Self::H) -> u64;

    /// Widens 8 rows of 16 bf16 values, `row` values apart, and writes them transposed: row 0, 2, …, 14, 1, 3, …, 15 of
    /// the block, each of 8 f32 values, `column` values apart.
    unsafe fn transpose_8x16(from: *const u16, row: usize, to: *mut f32, column: usize);

    /// Asks for the cache line at `address`; any address is allowed.
    unsafe fn prefetch(address: *const u16);
}

/// Calls `$body::<S>($argument)` with the instruction set `$set` switched on in the compiled code.
macro_rules! dispatch {
    ($set:expr, $body:ident, $argument:expr, $Argument:ty) => {{
        use $crate::bench::cpu::simd::InstructionSet;
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx2,fma")]
        fn with_avx512(argument: $Argument) {
            // SAFETY: this function is only called where AVX-512 was detected.
            unsafe { $body::<$crate::bench::cpu::simd::Avx512>(argument) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn with_avx2(argument: $Argument) {
            // SAFETY: this function is only called where AVX2 and FMA were detected.
            unsafe { $body::<$crate::bench::cpu::simd::Avx2>(argument) }
        }
        let argument = $argument;
        match $set {
            // SAFETY: `InstructionSet` values come from `available`, which detects them.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => unsafe { with_avx512(argument) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => unsafe { with_avx2(argument) },
            // SAFETY: the portable operations need no instruction set.
            InstructionSet::Portable => unsafe { $body::<$crate::bench::cpu::simd::Portable>(argument) },
        }
    }};
}
pub(crate) use dispatch;

/// Coefficients of 2^f for −0.5 ≤ f ≤ 0.5: ln(2)^k / k!. The first term left out is 1.2e-7 at most.
const EXP2: [f32; 7] =
    [1.0, std::f32::consts::LN_2, 0.240_226_5, 0.055_504_11, 0.009_618_129, 0.001_333_355_8, 0.000_154_035_3];

/// Where value `index` of a row stands when each block of `2 × lanes` values is kept as its even, then its odd values.
pub(crate) fn split_place(index: usize, lanes: usize) -> usize {
    let block = index / (2 * lanes) * (2 * lanes);
    let within = index % (2 * lanes);
    block + within / 2 + (within % 2) * lanes
}

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
        transposed: &'a mut [f32],
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
            S::transpose_8x16(probe.halves.as_ptr(), 24, probe.transposed.as_mut_ptr(), 40);
        }
    }

    #[test]
    fn every_set_computes_what_the_names_say() {
        let input: Vec<f32> = (0_u8..64).map(|i| -f32::from(i) * 1.37).collect();
        let values: Vec<f32> = (0_u8..192).map(f32::from).collect();
        let halves: Vec<u16> = values.iter().map(|value| bf16::from_f32(*value).to_bits()).collect();
        for set in InstructionSet::available() {
            let lanes = set.lanes();
            let (mut exp2, mut reduced) = (vec![0.0; 64], vec![0.0; 6]);
            let (mut split, mut transposed) = (vec![0.0; 64], vec![0.0; 16 * 40]);
            let argument = Probe {
                input: &input,
                exp2: &mut exp2,
                reduced: &mut reduced,
                halves: &halves,
                split: &mut split,
                transposed: &mut transposed,
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
                let got = split[split_place(index, lanes)];
                assert!((got - values[index]).abs() < 1e-6, "{set:?}: value {index} is {got}");
            }
            for row in 0..8 {
                for d in 0..16 {
                    let got = transposed[(d / 2 + d % 2 * 8) * 40 + row];
                    assert!(
                        (got - values[row * 24 + d]).abs() < 1e-6,
                        "{set:?}: row {row}, value {d} is {got}"
                    );
                }
            }
        }
    }
}
