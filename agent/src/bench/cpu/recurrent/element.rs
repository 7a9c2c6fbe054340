//! How state values are stored, and how kernels read and write them: always as f32 in registers.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; callers state the lengths")]

use bytemuck::Pod;

use crate::bench::cpu::simd::Simd;

/// The storage of state values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Storage {
    /// 4 bytes a value.
    F32,
    /// 2 bytes a value, rounded to the nearest after every step.
    Bf16,
}

impl Storage {
    /// Bytes of one value.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// Half a unit of the last place of `value`: the most by which the nearest stored value is off.
    pub(crate) fn half_unit(self, value: f64) -> f64 {
        // Bits of the mantissa after the first.
        let kept = match self {
            Self::F32 => 23.0,
            Self::Bf16 => 7.0,
        };
        (value.abs().log2().floor() - kept - 1.0).exp2()
    }
}

/// State values that a kernel may change.
#[derive(Debug)]
pub(crate) enum Values<'a> {
    F32(&'a mut [f32]),
    /// bf16 bits.
    Bf16(&'a mut [u16]),
}

impl Values<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::Bf16(values) => values.len(),
        }
    }
}

/// Calls `$update::<S, E>($layer, pointer, $span)` with the element type of `$values` and a pointer to the first of them.
macro_rules! by_storage {
    ($values:expr, $pointer:ident => $update:ident::<$S:ident>($layer:expr, $state:ident, $span:expr)) => {
        match $values {
            $crate::bench::cpu::recurrent::element::Values::F32(values) => {
                let $pointer = values.as_mut_ptr();
                $update::<$S, f32>($layer, $state, $span)
            }
            $crate::bench::cpu::recurrent::element::Values::Bf16(values) => {
                let $pointer = values.as_mut_ptr();
                $update::<$S, u16>($layer, $state, $span)
            }
        }
    };
}
pub(crate) use by_storage;

/// A stored value: f32, or bf16 bits.
pub(crate) trait Element: Pod + Send + Sync {
    /// Whether [`Element::load_pair`] gives the even values of the block, then the odd ones, instead of both halves in
    /// order: widening bf16 this way takes one operation a vector.
    const SPLITS: bool;

    /// `LANES` values in order.
    ///
    /// # Safety
    /// As for [`Simd::load`].
    unsafe fn load<S: Simd>(from: *const Self) -> S::F;

    /// Stores `LANES` values in order.
    ///
    /// # Safety
    /// As for [`Simd::store`].
    unsafe fn store<S: Simd>(to: *mut Self, value: S::F);

    /// `2 × LANES` values, in the order that [`arrange`] gives to f32 values.
    ///
    /// # Safety
    /// As for [`Simd::load`].
    unsafe fn load_pair<S: Simd>(from: *const Self) -> [S::F; 2];

    /// Stores what [`Element::load_pair`] gives.
    ///
    /// # Safety
    /// As for [`Simd::store`].
    unsafe fn store_pair<S: Simd>(to: *mut Self, pair: [S::F; 2]);
}

// SAFETY of every block below: the caller's pointers and instruction set.
impl Element for f32 {
    const SPLITS: bool = false;

    #[inline(always)]
    unsafe fn load<S: Simd>(from: *const f32) -> S::F {
        unsafe { S::load(from) }
    }

    #[inline(always)]
    unsafe fn store<S: Simd>(to: *mut f32, value: S::F) {
        unsafe { S::store(to, value) }
    }

    #[inline(always)]
    unsafe fn load_pair<S: Simd>(from: *const f32) -> [S::F; 2] {
        unsafe { [S::load(from), S::load(from.add(S::LANES))] }
    }

    #[inline(always)]
    unsafe fn store_pair<S: Simd>(to: *mut f32, pair: [S::F; 2]) {
        unsafe {
            S::store(to, pair[0]);
            S::store(to.add(S::LANES), pair[1]);
        }
    }
}

impl Element for u16 {
    const SPLITS: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd>(from: *const u16) -> S::F {
        unsafe { S::load_bf16(from) }
    }

    #[inline(always)]
    unsafe fn store<S: Simd>(to: *mut u16, value: S::F) {
        unsafe { S::store_bf16(to, value) }
    }

    #[inline(always)]
    unsafe fn load_pair<S: Simd>(from: *const u16) -> [S::F; 2] {
        unsafe {
            let raw = S::load_halves(from);
            [S::even(raw), S::odd(raw)]
        }
    }

    #[inline(always)]
    unsafe fn store_pair<S: Simd>(to: *mut u16, pair: [S::F; 2]) {
        unsafe { S::store_halves(to, pair[0], pair[1]) }
    }
}

/// Puts `width` f32 values in the order of [`Element::load_pair`].
///
/// # Safety
/// Both have `width` values, a multiple of `2 × LANES`, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn arrange<S: Simd, E: Element>(from: *const f32, to: *mut f32, width: usize) {
    // SAFETY: the caller's lengths.
    unsafe {
        if !E::SPLITS {
            std::ptr::copy_nonoverlapping(from, to, width);
            return;
        }
        let mut block = 0;
        while block < width {
            for lane in 0..S::LANES {
                to.add(block + lane).write(from.add(block + 2 * lane).read());
                to.add(block + S::LANES + lane).write(from.add(block + 2 * lane + 1).read());
            }
            block += 2 * S::LANES;
        }
    }
}

/// Undoes [`arrange`].
///
/// # Safety
/// As for [`arrange`].
#[inline(always)]
pub(crate) unsafe fn restore<S: Simd, E: Element>(from: *const f32, to: *mut f32, width: usize) {
    // SAFETY: the caller's lengths.
    unsafe {
        if !E::SPLITS {
            std::ptr::copy_nonoverlapping(from, to, width);
            return;
        }
        let mut block = 0;
        while block < width {
            for lane in 0..S::LANES {
                to.add(block + 2 * lane).write(from.add(block + lane).read());
                to.add(block + 2 * lane + 1).write(from.add(block + S::LANES + lane).read());
            }
            block += 2 * S::LANES;
        }
    }
}

/// Asks for the cache lines of `values` elements that begin `ahead` bytes after `from`; any address is allowed.
///
/// # Safety
/// Needs the instruction set of `S`.
#[inline(always)]
pub(crate) unsafe fn prefetch<S: Simd, E: Element>(from: *const E, ahead: usize, values: usize) {
    let first = from.cast::<u8>().wrapping_add(ahead);
    let mut byte = 0;
    while byte < values * size_of::<E>() {
        // SAFETY: the address is only asked for.
        unsafe { S::prefetch(first.wrapping_add(byte).cast()) };
        byte += 64;
    }
}
