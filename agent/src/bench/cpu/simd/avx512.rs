use std::arch::x86_64::*;

use super::avx2::e2m1_doubled;
use super::{Avx2, Simd};

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
    // With the two pages that are scored together these are 8 sums: as many as two multiply-adds a cycle keep busy.
    const PAIR_ROWS: usize = 4;
    type Pair = (__m512, __m512);

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
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
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
    unsafe fn raise(a: __m512, shifted: __m512) -> __m512 {
        unsafe {
            let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted));
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), exponent))
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
    unsafe fn store_halves(to: *mut u16, even: __m512, odd: __m512) {
        unsafe {
            let even = _mm512_srli_epi32::<16>(rounded(even));
            let odd = _mm512_and_si512(rounded(odd), _mm512_set1_epi32(-0x1_0000));
            _mm512_storeu_si512(to.cast(), _mm512_or_si512(even, odd));
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> __m512 {
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    unsafe fn store_bf16(to: *mut u16, value: __m512) {
        unsafe {
            let high = _mm512_srli_epi32::<16>(rounded(value));
            _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(high));
        }
    }

    #[inline(always)]
    unsafe fn pair(factors: *const f32, index: usize) -> (__m512, __m512) {
        unsafe { (_mm512_set1_ps(*factors.add(2 * index)), _mm512_set1_ps(*factors.add(2 * index + 1))) }
    }

    #[inline(always)]
    unsafe fn fma_pair(a: __m512i, factors: (__m512, __m512), c: __m512) -> __m512 {
        unsafe { Self::fma(Self::odd(a), factors.1, Self::fma(Self::even(a), factors.0, c)) }
    }

    #[inline(always)]
    unsafe fn pack_pairs(_factors: *mut f32, _count: usize) {}

    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn load_e4m3(from: *const u8) -> __m512 {
        unsafe {
            // The sign fills the upper byte; after the shift it stands in bits 15 and 14, and the mask takes the latter.
            let wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(from.cast()));
            let half =
                _mm256_and_si256(_mm256_slli_epi16::<7>(wide), _mm256_set1_epi16(0xBFFF_u16.cast_signed()));
            _mm512_cvtph_ps(half)
        }
    }

    #[inline(always)]
    unsafe fn load_e2m1(from: *const u8) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(e2m1_doubled(_mm_loadl_epi64(from.cast())))) }
    }

    #[inline(always)]
    unsafe fn load_e8m0(from: *const u8) -> __m512 {
        unsafe {
            let exponents = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponents))
        }
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
    unsafe fn transpose_8x8(from: *const f32, row: usize, to: *mut f32, column: usize) {
        unsafe { Avx2::transpose_8x8(from, row, to, column) }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u16) {
        unsafe { Avx2::prefetch(address) }
    }
}

/// The nearest bf16, a tie away from 0, in the high half of each lane; the low half is left over.
#[inline(always)]
unsafe fn rounded(value: __m512) -> __m512i {
    unsafe { _mm512_add_epi32(_mm512_castps_si512(value), _mm512_set1_epi32(0x8000)) }
}

#[inline(always)]
unsafe fn halves_added(a: __m512) -> __m256 {
    unsafe {
        let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(a)));
        _mm256_add_ps(_mm512_castps512_ps256(a), high)
    }
}
