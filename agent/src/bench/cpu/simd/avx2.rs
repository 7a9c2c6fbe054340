use std::arch::x86_64::*;

use super::{EXP2, Simd};

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
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn exp2(a: __m256) -> __m256 {
        unsafe {
            let x = _mm256_max_ps(a, _mm256_set1_ps(-126.0));
            // Adding and taking away 1.5 × 2^23 rounds to the nearest integer and leaves it in the low bits.
            let magic = _mm256_set1_ps(12_582_912.0);
            let shifted = _mm256_add_ps(x, magic);
            let f = _mm256_sub_ps(x, _mm256_sub_ps(shifted, magic));
            let mut y = _mm256_set1_ps(EXP2[6]);
            let mut k = 6;
            while k > 0 {
                k -= 1;
                y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(EXP2[k]));
            }
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), exponent))
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
    unsafe fn transpose_8x16(from: *const u16, row: usize, to: *mut f32, column: usize) {
        unsafe {
            let raw = [
                Self::load_halves(from),
                Self::load_halves(from.add(row)),
                Self::load_halves(from.add(2 * row)),
                Self::load_halves(from.add(3 * row)),
                Self::load_halves(from.add(4 * row)),
                Self::load_halves(from.add(5 * row)),
                Self::load_halves(from.add(6 * row)),
                Self::load_halves(from.add(7 * row)),
            ];
            let mut even = [_mm256_setzero_ps(); 8];
            let mut odd = even;
            let mut i = 0;
            while i < 8 {
                even[i] = Self::even(raw[i]);
                odd[i] = Self::odd(raw[i]);
                i += 1;
            }
            store_transposed(even, to, column);
            store_transposed(odd, to.add(8 * column), column);
        }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u16) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
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
