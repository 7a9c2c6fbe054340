use std::arch::x86_64::*;

use super::{Avx2, EXP2, Simd};

/// 16 lanes, AVX-512F.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512;

// SAFETY of every block below: the processor has AVX-512F and AVX2, and pointers are valid for what `Simd` says.
impl Simd for Avx512 {
    type F = __m512;
    type H = __m512i;
    const LANES: usize = 16;
    // 8 rows × 2 vectors = 16 of 32 registers: enough to hide the latency, and it divides the usual head counts.
    const BLOCK_ROWS: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m512 {
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, value: __m512) {
        unsafe { _mm512_storeu_ps(to, value) }
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn exp2(a: __m512) -> __m512 {
        unsafe {
            let x = _mm512_max_ps(a, _mm512_set1_ps(-126.0));
            // Adding and taking away 1.5 × 2^23 rounds to the nearest integer and leaves it in the low bits.
            let magic = _mm512_set1_ps(12_582_912.0);
            let shifted = _mm512_add_ps(x, magic);
            let f = _mm512_sub_ps(x, _mm512_sub_ps(shifted, magic));
            let mut y = _mm512_set1_ps(EXP2[6]);
            let mut k = 6;
            while k > 0 {
                k -= 1;
                y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(EXP2[k]));
            }
            let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted));
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(y), exponent))
        }
    }

    #[inline(always)]
    unsafe fn sum(a: __m512) -> f32 {
        unsafe { _mm512_reduce_add_ps(a) }
    }

    #[inline(always)]
    unsafe fn sum4(a: [__m512; 4]) -> [f32; 4] {
        unsafe {
            Avx2::sum4([halves_added(a[0]), halves_added(a[1]), halves_added(a[2]), halves_added(a[3])])
        }
    }

    #[inline(always)]
    unsafe fn largest(a: __m512) -> f32 {
        unsafe { _mm512_reduce_max_ps(a) }
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> __m512i {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn even(a: __m512i) -> __m512 {
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(a)) }
    }

    #[inline(always)]
    unsafe fn odd(a: __m512i) -> __m512 {
        unsafe { _mm512_castsi512_ps(_mm512_and_si512(a, _mm512_set1_epi32(-0x1_0000))) }
    }

    #[inline(always)]
    unsafe fn add_bits(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi64(a, b) }
    }

    #[inline(always)]
    unsafe fn fold_bits(a: __m512i) -> u64 {
        unsafe { _mm512_reduce_add_epi64(a).cast_unsigned() }
    }

    #[inline(always)]
    unsafe fn transpose_8x16(from: *const u16, row: usize, to: *mut f32, column: usize) {
        unsafe { Avx2::transpose_8x16(from, row, to, column) }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u16) {
        unsafe { Avx2::prefetch(address) }
    }
}

#[inline(always)]
unsafe fn halves_added(a: __m512) -> __m256 {
    unsafe {
        let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(a)));
        _mm256_add_ps(_mm512_castps512_ps256(a), high)
    }
}
