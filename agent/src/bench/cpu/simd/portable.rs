use super::{EXP2, Simd};

/// Plain Rust over arrays of 8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

type F = [f32; 8];

macro_rules! lanewise {
    ($index:ident => $value:expr) => {{
        let mut lanes = [0.0_f32; 8];
        let mut $index = 0;
        while $index < 8 {
            lanes[$index] = $value;
            $index += 1;
        }
        lanes
    }};
}

impl Simd for Portable {
    type F = F;
    type H = [u16; 16];
    const LANES: usize = 8;
    const BLOCK_ROWS: usize = 2;

    #[inline(always)]
    unsafe fn splat(value: f32) -> F {
        [value; 8]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> F {
        // SAFETY: the caller gives 8 readable values.
        unsafe { from.cast::<F>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, value: F) {
        // SAFETY: the caller gives 8 writable values.
        unsafe { to.cast::<F>().write_unaligned(value) }
    }

    #[inline(always)]
    unsafe fn add(a: F, b: F) -> F {
        lanewise!(i => a[i] + b[i])
    }

    #[inline(always)]
    unsafe fn sub(a: F, b: F) -> F {
        lanewise!(i => a[i] - b[i])
    }

    #[inline(always)]
    unsafe fn mul(a: F, b: F) -> F {
        lanewise!(i => a[i] * b[i])
    }

    #[inline(always)]
    unsafe fn max(a: F, b: F) -> F {
        lanewise!(i => if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    unsafe fn fma(a: F, b: F, c: F) -> F {
        // Without the instruction `mul_add` would be a library call a lane.
        if cfg!(target_arch = "aarch64") {
            lanewise!(i => a[i].mul_add(b[i], c[i]))
        } else {
            lanewise!(i => a[i] * b[i] + c[i])
        }
    }

    #[inline(always)]
    unsafe fn exp2(a: F) -> F {
        lanewise!(i => exp2_lane(a[i]))
    }

    #[inline(always)]
    unsafe fn sum(a: F) -> f32 {
        ((a[0] + a[4]) + (a[1] + a[5])) + ((a[2] + a[6]) + (a[3] + a[7]))
    }

    #[inline(always)]
    unsafe fn sum4(a: [F; 4]) -> [f32; 4] {
        // SAFETY: no instruction set is needed.
        unsafe { [Self::sum(a[0]), Self::sum(a[1]), Self::sum(a[2]), Self::sum(a[3])] }
    }

    #[inline(always)]
    unsafe fn largest(a: F) -> f32 {
        let mut largest = a[0];
        for lane in a {
            if lane > largest {
                largest = lane;
            }
        }
        largest
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> [u16; 16] {
        // SAFETY: the caller gives 16 readable values.
        unsafe { from.cast::<[u16; 16]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn even(a: [u16; 16]) -> F {
        lanewise!(i => widen(a[2 * i]))
    }

    #[inline(always)]
    unsafe fn odd(a: [u16; 16]) -> F {
        lanewise!(i => widen(a[2 * i + 1]))
    }

    #[inline(always)]
    unsafe fn add_bits(a: [u16; 16], b: [u16; 16]) -> [u16; 16] {
        let mut sum = a;
        let mut i = 0;
        while i < 16 {
            sum[i] = a[i].wrapping_add(b[i]);
            i += 1;
        }
        sum
    }

    #[inline(always)]
    unsafe fn fold_bits(a: [u16; 16]) -> u64 {
        let mut folded = 0_u64;
        for value in a {
            folded = folded.wrapping_add(u64::from(value));
        }
        folded
    }

    #[inline(always)]
    unsafe fn transpose_8x16(from: *const u16, row: usize, to: *mut f32, column: usize) {
        for token in 0..8 {
            for d in 0..16 {
                // SAFETY: the caller gives 8 rows of 16 values and 16 columns of 8 places.
                unsafe {
                    let place = (d / 2 + d % 2 * 8) * column + token;
                    to.add(place).write(widen(from.add(token * row + d).read()));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn prefetch(_address: *const u16) {}
}

#[inline(always)]
fn widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// 2^x = 2^n × 2^f with n the nearest integer: the polynomial gives 2^f, the exponent bits 2^n.
#[inline(always)]
fn exp2_lane(x: f32) -> f32 {
    let x = if x > -126.0 { x } else { -126.0 };
    // Adding and taking away 1.5 × 2^23 rounds to the nearest integer and leaves it in the low bits.
    let shifted = x + 12_582_912.0;
    let n = shifted - 12_582_912.0;
    let f = x - n;
    let mut y = EXP2[6];
    let mut k = 6;
    while k > 0 {
        k -= 1;
        y = y * f + EXP2[k];
    }
    f32::from_bits(y.to_bits().wrapping_add(shifted.to_bits() << 23))
}
