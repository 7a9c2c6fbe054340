use super::{E2M1_DOUBLED, Simd};

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
    const PAIR_ROWS: usize = 2;
    type Pair = (F, F);

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
    unsafe fn div(a: F, b: F) -> F {
        lanewise!(i => a[i] / b[i])
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
    unsafe fn raise(a: F, shifted: F) -> F {
        lanewise!(i => f32::from_bits(a[i].to_bits().wrapping_add(shifted[i].to_bits() << 23)))
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
    unsafe fn store_halves(to: *mut u16, even: F, odd: F) {
        let mut pairs = [0_u16; 16];
        let mut i = 0;
        while i < 8 {
            pairs[2 * i] = narrow(even[i]);
            pairs[2 * i + 1] = narrow(odd[i]);
            i += 1;
        }
        // SAFETY: the caller gives 16 writable values.
        unsafe { to.cast::<[u16; 16]>().write_unaligned(pairs) }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> F {
        // SAFETY: the caller gives 8 readable values.
        let raw = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        lanewise!(i => widen(raw[i]))
    }

    #[inline(always)]
    unsafe fn store_bf16(to: *mut u16, value: F) {
        let mut halves = [0_u16; 8];
        let mut i = 0;
        while i < 8 {
            halves[i] = narrow(value[i]);
            i += 1;
        }
        // SAFETY: the caller gives 8 writable values.
        unsafe { to.cast::<[u16; 8]>().write_unaligned(halves) }
    }

    #[inline(always)]
    unsafe fn pair(factors: *const f32, index: usize) -> (F, F) {
        // SAFETY: the caller gives both factors of the pair.
        unsafe { ([factors.add(2 * index).read(); 8], [factors.add(2 * index + 1).read(); 8]) }
    }

    #[inline(always)]
    unsafe fn fma_pair(a: [u16; 16], factors: (F, F), c: F) -> F {
        // SAFETY: no instruction set is needed.
        unsafe { Self::fma(Self::odd(a), factors.1, Self::fma(Self::even(a), factors.0, c)) }
    }

    #[inline(always)]
    unsafe fn pack_pairs(_factors: *mut f32, _count: usize) {}

    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> F {
        // SAFETY: the caller gives 8 readable bytes.
        lanewise!(i => f32::from(unsafe { from.add(i).read() }.cast_signed()))
    }

    #[inline(always)]
    unsafe fn load_e4m3(from: *const u8) -> F {
        // SAFETY: the caller gives 8 readable bytes.
        lanewise!(i => e4m3_shrunk(unsafe { from.add(i).read() }))
    }

    #[inline(always)]
    unsafe fn load_e2m1(from: *const u8) -> F {
        lanewise!(i => {
            // SAFETY: the caller gives 4 readable bytes.
            let code = unsafe { from.add(i / 2).read() } >> (i % 2 * 4) & 15;
            f32::from(E2M1_DOUBLED[code as usize])
        })
    }

    #[inline(always)]
    unsafe fn load_e8m0(from: *const u8) -> F {
        // SAFETY: the caller gives 8 readable bytes.
        lanewise!(i => f32::from_bits(u32::from(unsafe { from.add(i).read() }) << 23))
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
    unsafe fn transpose_8x8(from: *const f32, row: usize, to: *mut f32, column: usize) {
        for r in 0..8 {
            for c in 0..8 {
                // SAFETY: the caller gives 8 rows and 8 columns of 8 places.
                unsafe { to.add(c * column + r).write(from.add(r * row + c).read()) }
            }
        }
    }

    #[inline(always)]
    unsafe fn prefetch(_address: *const u16) {}
}

/// The bits as those of an f32 whose exponents are 120 lower, put right but for [`E4M3_SHRINK`](super::E4M3_SHRINK).
#[inline(always)]
fn e4m3_shrunk(bits: u8) -> f32 {
    let bits = u32::from(bits);
    let small = f32::from_bits((bits & 0x80) << 24 | (bits & 0x7F) << 20);
    // 2^112.
    small * f32::from_bits(0x7780_0000)
}

#[inline(always)]
fn widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest bf16, a tie away from 0.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "16 bits are left after the shift")]
fn narrow(value: f32) -> u16 {
    (value.to_bits().wrapping_add(0x8000) >> 16) as u16
}
