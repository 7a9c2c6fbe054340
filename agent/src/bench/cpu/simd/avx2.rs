use std::arch::x86_64::*;

use super::{E2M1_DOUBLED, Simd};

/// 8 lanes, AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2;

// SAFETY of every block below: the processor has AVX2 and FMA, and pointers are valid for what `Simd` says.
impl Simd for Avx2 {
    type F = __m256;
    type H = __m256i;
    const LANES: usize = 8;
    // 6 rows × 2 vectors = 12 of 16 registers; the rest holds one row's factor and two loaded vectors.
    const BLOCK_ROWS: usize = 6;
    const PAIR_ROWS: usize = 4;
    type Pair = (__m256, __m256);

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m256 {
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, value: __m256) {
        unsafe { _mm256_storeu_ps(to, value) }
    }

    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn raise(a: __m256, shifted: __m256) -> __m256 {
        unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), exponent))
        }
    }

    #[inline(always)]
    unsafe fn sum(a: __m256) -> f32 {
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    unsafe fn sum4(a: [__m256; 4]) -> [f32; 4] {
        unsafe {
            let pairs = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
            let four = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps::<1>(pairs));
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), four);
            sums
        }
    }

    #[inline(always)]
    unsafe fn largest(a: __m256) -> f32 {
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> __m256i {
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn even(a: __m256i) -> __m256 {
        unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<16>(a)) }
    }

    #[inline(always)]
    unsafe fn odd(a: __m256i) -> __m256 {
        unsafe { _mm256_castsi256_ps(_mm256_and_si256(a, _mm256_set1_epi32(-0x1_0000))) }
    }

    #[inline(always)]
    unsafe fn store_halves(to: *mut u16, even: __m256, odd: __m256) {
        unsafe {
            let even = _mm256_srli_epi32::<16>(rounded(even));
            _mm256_storeu_si256(to.cast(), _mm256_blend_epi16::<0b1010_1010>(even, rounded(odd)));
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> __m256 {
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    unsafe fn store_bf16(to: *mut u16, value: __m256) {
        unsafe {
            let high = _mm256_srli_epi32::<16>(rounded(value));
            // Packing works within each half: the second and fourth quarters are not wanted.
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(high, high));
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed));
        }
    }

    #[inline(always)]
    unsafe fn pair(factors: *const f32, index: usize) -> (__m256, __m256) {
        unsafe { (_mm256_set1_ps(*factors.add(2 * index)), _mm256_set1_ps(*factors.add(2 * index + 1))) }
    }

    #[inline(always)]
    unsafe fn fma_pair(a: __m256i, factors: (__m256, __m256), c: __m256) -> __m256 {
        unsafe { Self::fma(Self::odd(a), factors.1, Self::fma(Self::even(a), factors.0, c)) }
    }

    #[inline(always)]
    unsafe fn pack_pairs(_factors: *mut f32, _count: usize) {}

    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn load_e4m3(from: *const u8) -> __m256 {
        unsafe {
            // The sign fills the upper byte; after the shift it stands in bits 15 and 14, and the mask takes the latter.
            let wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(from.cast()));
            let half = _mm_and_si128(_mm_slli_epi16::<7>(wide), _mm_set1_epi16(0xBFFF_u16.cast_signed()));
            _mm256_cvtph_ps(half)
        }
    }

    #[inline(always)]
    unsafe fn load_e2m1(from: *const u8) -> __m256 {
        unsafe {
            let codes = _mm_cvtsi32_si128(from.cast::<i32>().read_unaligned());
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(e2m1_doubled(codes)))
        }
    }

    #[inline(always)]
    unsafe fn load_e8m0(from: *const u8) -> __m256 {
        unsafe {
            let exponents = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponents))
        }
    }

    #[inline(always)]
    unsafe fn add_bits(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_add_epi64(a, b) }
    }

    #[inline(always)]
    unsafe fn fold_bits(a: __m256i) -> u64 {
        let mut parts = [0_u64; 4];
        unsafe { _mm256_storeu_si256(parts.as_mut_ptr().cast(), a) };
        parts[0].wrapping_add(parts[1]).wrapping_add(parts[2]).wrapping_add(parts[3])
    }

    #[inline(always)]
    unsafe fn transpose_8x8(from: *const f32, row: usize, to: *mut f32, column: usize) {
        unsafe {
            let rows = [
                Self::load(from),
                Self::load(from.add(row)),
                Self::load(from.add(2 * row)),
                Self::load(from.add(3 * row)),
                Self::load(from.add(4 * row)),
                Self::load(from.add(5 * row)),
                Self::load(from.add(6 * row)),
                Self::load(from.add(7 * row)),
            ];
            store_transposed(rows, to, column);
        }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u16) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}

/// The nearest bf16, a tie away from 0, in the high half of each lane; the low half is left over.
#[inline(always)]
unsafe fn rounded(value: __m256) -> __m256i {
    unsafe { _mm256_add_epi32(_mm256_castps_si256(value), _mm256_set1_epi32(0x8000)) }
}

/// Twice the values of the e2m1 codes in the first eight bytes, as signed bytes in order.
#[inline(always)]
pub(super) unsafe fn e2m1_doubled(codes: __m128i) -> __m128i {
    unsafe {
        let four_bits = _mm_set1_epi8(15);
        let low = _mm_and_si128(codes, four_bits);
        let high = _mm_and_si128(_mm_srli_epi16::<4>(codes), four_bits);
        let table = _mm_loadu_si128(E2M1_DOUBLED.as_ptr().cast());
        _mm_shuffle_epi8(table, _mm_unpacklo_epi8(low, high))
    }
}

#[inline(always)]
unsafe fn store_transposed(rows: [__m256; 8], to: *mut f32, column: usize) {
    unsafe {
        let mut pairs = [_mm256_setzero_ps(); 8];
        let mut i = 0;
        while i < 4 {
            pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
            i += 1;
        }
        let mut fours = pairs;
        i = 0;
        while i < 2 {
            let p = 4 * i;
            fours[p] = _mm256_shuffle_ps::<0x44>(pairs[p], pairs[p + 2]);
            fours[p + 1] = _mm256_shuffle_ps::<0xEE>(pairs[p], pairs[p + 2]);
            fours[p + 2] = _mm256_shuffle_ps::<0x44>(pairs[p + 1], pairs[p + 3]);
            fours[p + 3] = _mm256_shuffle_ps::<0xEE>(pairs[p + 1], pairs[p + 3]);
            i += 1;
        }
        i = 0;
        while i < 4 {
            _mm256_storeu_ps(to.add(i * column), _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]));
            _mm256_storeu_ps(
                to.add((i + 4) * column),
                _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]),
            );
            i += 1;
        }
    }
}
