//! How the elements of a page are stored, and what reads them into vectors.
//!
//! A page of [`PAGE_TOKENS`] tokens keeps keys with the tokens in lanes, so that scores need no sum across lanes, and
//! values with the columns in lanes. Pairs of bf16 share a 32-bit lane: keys as `[dim pair][token][2]`, values as
//! `[token pair][column][2]`. Bytes stand alone: keys as `[dim][token]`, values as `[token][column]`.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; callers state the lengths")]
#![allow(clippy::cast_ptr_alignment, reason = "vector loads need no alignment")]

use super::PAGE_TOKENS;
use crate::bench::cpu::simd::{E4M3_SHRINK, Simd};

/// The storage of keys and values, as sizing names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Format {
    /// 2 bytes a value.
    Bf16,
    /// e4m3, 1 byte a value.
    Fp8,
    /// e4m3 and one f32 scale a token and head.
    Fp8PerTokenHead,
    /// Signed bytes and one f32 scale a token and head.
    Int8PerTokenHead,
}

impl Format {
    /// Bytes of one value.
    pub(crate) fn element_bytes(self) -> usize {
        match self {
            Self::Bf16 => 2,
            Self::Fp8 | Self::Fp8PerTokenHead | Self::Int8PerTokenHead => 1,
        }
    }

    /// Bytes of the scales of one token and head, keys or values.
    pub(crate) fn scale_bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::Fp8 => 0,
            Self::Fp8PerTokenHead | Self::Int8PerTokenHead => 4,
        }
    }
}

/// Reads pairs of elements: of two dims for a vector of tokens, or of two tokens for a vector of columns.
///
/// # Safety
/// Every method needs the instruction set of `S`, and a page's keys or values of one head of the width that it is
/// called with.
pub(super) trait Stored<S: Simd>: Copy {
    /// One vector of pairs.
    type Two: Copy;
    /// The two factors of a pair, in all lanes.
    type Factors: Copy;

    /// Elements of dims `2 × pair` and `2 × pair + 1` for the tokens from `token` on.
    unsafe fn keys(of_head: *const u8, pair: usize, token: usize) -> Self::Two;
    /// Elements of tokens `2 × pair` and `2 × pair + 1` for the columns from `column` on.
    unsafe fn values(of_head: *const u8, width: usize, pair: usize, column: usize) -> Self::Two;
    /// Factors of pair `index`, after [`Stored::pack`].
    unsafe fn factors(from: *const f32, index: usize) -> Self::Factors;
    /// Adds both products.
    unsafe fn fma(two: Self::Two, factors: Self::Factors, sum: S::F) -> S::F;
    /// Puts `count` factors in the form that [`Stored::factors`] reads.
    unsafe fn pack(factors: *mut f32, count: usize);
    /// What the elements of the tokens from `token` on are multiplied with; `None` for 1.
    unsafe fn scale(scales: *const u8, token: usize) -> Option<S::F>;
}

#[derive(Clone, Copy)]
pub(super) struct Bf16;

impl<S: Simd> Stored<S> for Bf16 {
    type Two = S::H;
    type Factors = S::Pair;

    #[inline(always)]
    unsafe fn keys(of_head: *const u8, pair: usize, token: usize) -> S::H {
        // SAFETY: the caller's lengths.
        unsafe { S::load_halves(of_head.cast::<u16>().add((pair * PAGE_TOKENS + token) * 2)) }
    }

    #[inline(always)]
    unsafe fn values(of_head: *const u8, width: usize, pair: usize, column: usize) -> S::H {
        // SAFETY: the caller's lengths.
        unsafe { S::load_halves(of_head.cast::<u16>().add((pair * width + column) * 2)) }
    }

    #[inline(always)]
    unsafe fn factors(from: *const f32, index: usize) -> S::Pair {
        // SAFETY: the caller's lengths.
        unsafe { S::pair(from, index) }
    }

    #[inline(always)]
    unsafe fn fma(two: S::H, factors: S::Pair, sum: S::F) -> S::F {
        // SAFETY: the caller has the instruction set.
        unsafe { S::fma_pair(two, factors, sum) }
    }

    #[inline(always)]
    unsafe fn pack(factors: *mut f32, count: usize) {
        // SAFETY: the caller's lengths.
        unsafe { S::pack_pairs(factors, count) }
    }

    #[inline(always)]
    unsafe fn scale(_scales: *const u8, _token: usize) -> Option<S::F> {
        None
    }
}

/// Bytes that `Byte` reads, with a scale a token.
#[derive(Clone, Copy)]
pub(super) struct Bytes<Byte>(std::marker::PhantomData<Byte>);

/// One kind of byte.
pub(super) trait Byte: Copy {
    /// What [`Byte::load`] leaves out.
    const SHRINK: f32;
    /// One vector.
    ///
    /// # Safety
    /// The instruction set of `S` and as many bytes as lanes.
    unsafe fn load<S: Simd>(from: *const u8) -> S::F;
}

#[derive(Clone, Copy)]
pub(super) struct E4m3;

impl Byte for E4m3 {
    const SHRINK: f32 = E4M3_SHRINK;

    #[inline(always)]
    unsafe fn load<S: Simd>(from: *const u8) -> S::F {
        // SAFETY: the caller's lengths.
        unsafe { S::load_e4m3(from) }
    }
}

#[derive(Clone, Copy)]
pub(super) struct I8;

impl Byte for I8 {
    const SHRINK: f32 = 1.0;

    #[inline(always)]
    unsafe fn load<S: Simd>(from: *const u8) -> S::F {
        // SAFETY: the caller's lengths.
        unsafe { S::load_i8(from) }
    }
}

impl<S: Simd, B: Byte> Stored<S> for Bytes<B> {
    type Two = (S::F, S::F);
    type Factors = (S::F, S::F);

    #[inline(always)]
    unsafe fn keys(of_head: *const u8, pair: usize, token: usize) -> Self::Two {
        // SAFETY: the caller's lengths.
        unsafe {
            let first = of_head.add(2 * pair * PAGE_TOKENS + token);
            (B::load::<S>(first), B::load::<S>(first.add(PAGE_TOKENS)))
        }
    }

    #[inline(always)]
    unsafe fn values(of_head: *const u8, width: usize, pair: usize, column: usize) -> Self::Two {
        // SAFETY: the caller's lengths.
        unsafe {
            let first = of_head.add(2 * pair * width + column);
            (B::load::<S>(first), B::load::<S>(first.add(width)))
        }
    }

    #[inline(always)]
    unsafe fn factors(from: *const f32, index: usize) -> Self::Factors {
        // SAFETY: the caller's lengths.
        unsafe { (S::splat(from.add(2 * index).read()), S::splat(from.add(2 * index + 1).read())) }
    }

    #[inline(always)]
    unsafe fn fma(two: Self::Two, factors: Self::Factors, sum: S::F) -> S::F {
        // SAFETY: the caller has the instruction set.
        unsafe { S::fma(two.1, factors.1, S::fma(two.0, factors.0, sum)) }
    }

    #[inline(always)]
    unsafe fn pack(_factors: *mut f32, _count: usize) {}

    #[inline(always)]
    unsafe fn scale(scales: *const u8, token: usize) -> Option<S::F> {
        // SAFETY: the caller's lengths.
        unsafe { Some(S::mul(S::load(scales.add(4 * token).cast()), S::splat(B::SHRINK))) }
    }
}
