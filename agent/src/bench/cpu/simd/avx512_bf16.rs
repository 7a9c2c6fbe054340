use std::arch::x86_64::*;

use super::{Avx512, Simd};

/// 16 lanes, AVX-512F, and products of bf16 pairs in one instruction: factors are rounded to bf16, sums are f32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Bf16;

/// Everything but the pairs is AVX-512F's.
macro_rules! as_avx512 {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[inline(always)]
            unsafe fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: the processor has AVX-512F, and the caller gives what `Simd` says.
                unsafe { Avx512::$name($($argument),*) }
            }
        )*
    };
}

// SAFETY of every block below: the processor has AVX-512 BF16, and pointers are valid for what `Simd` says.
impl Simd for Avx512Bf16 {
    type F = __m512;
    type H = __m512i;
    type Pair = __m512i;
    const LANES: usize = Avx512::LANES;
    const BLOCK_ROWS: usize = Avx512::BLOCK_ROWS;
    const PAIR_ROWS: usize = Avx512::PAIR_ROWS;

    as_avx512! {
        splat(value: f32) -> __m512;
        load(from: *const f32) -> __m512;
        store(to: *mut f32, value: __m512);
        add(a: __m512, b: __m512) -> __m512;
        sub(a: __m512, b: __m512) -> __m512;
        mul(a: __m512, b: __m512) -> __m512;
        div(a: __m512, b: __m512) -> __m512;
        max(a: __m512, b: __m512) -> __m512;
        fma(a: __m512, b: __m512, c: __m512) -> __m512;
        raise(a: __m512, shifted: __m512) -> __m512;
        sum(a: __m512) -> f32;
        sum4(a: [__m512; 4]) -> [f32; 4];
        largest(a: __m512) -> f32;
        load_halves(from: *const u16) -> __m512i;
        even(a: __m512i) -> __m512;
        odd(a: __m512i) -> __m512;
        store_halves(to: *mut u16, even: __m512, odd: __m512);
        load_bf16(from: *const u16) -> __m512;
        store_bf16(to: *mut u16, value: __m512);
        load_i8(from: *const u8) -> __m512;
        load_e4m3(from: *const u8) -> __m512;
        load_e2m1(from: *const u8) -> __m512;
        load_e8m0(from: *const u8) -> __m512;
        add_bits(a: __m512i, b: __m512i) -> __m512i;
        fold_bits(a: __m512i) -> u64;
        transpose_8x8(from: *const f32, row: usize, to: *mut f32, column: usize);
        prefetch(address: *const u16);
    }

    #[inline(always)]
    unsafe fn pair(factors: *const f32, index: usize) -> __m512i {
        unsafe { _mm512_set1_epi32(factors.cast::<i32>().add(index).read()) }
    }

    #[inline(always)]
    unsafe fn fma_pair(a: __m512i, factors: __m512i, c: __m512) -> __m512 {
        // SAFETY: the three types are the same 512 bits.
        unsafe {
            let (a, factors) = std::mem::transmute::<(__m512i, __m512i), (__m512bh, __m512bh)>((a, factors));
            _mm512_dpbf16_ps(c, a, factors)
        }
    }

    #[inline(always)]
    unsafe fn pack_pairs(factors: *mut f32, count: usize) {
        let mut done = 0;
        while done < count {
            unsafe {
                // What is written lies before what is read next.
                let packed = _mm512_cvtneps_pbh(_mm512_loadu_ps(factors.add(done)));
                let packed = std::mem::transmute::<__m256bh, __m256i>(packed);
                _mm256_storeu_si256(factors.cast::<u16>().add(done).cast(), packed);
            }
            done += 16;
        }
    }
}
