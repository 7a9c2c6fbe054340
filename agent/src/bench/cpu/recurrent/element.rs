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
    /// Whether the halves of a block of two vectors take turns in memory: value 0, value `LANES`, value 1 and so on. bf16
    /// is held so where kernels take blocks, since widening every second value takes one operation.
    pub(crate) fn interleaves(self) -> bool {
        self == Self::Bf16
    }

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

    /// A block of `2 × LANES` values, held as [`Storage::interleaves`] says: its first half, then its second.
    ///
    /// # Safety
    /// As for [`Simd::load`].
    unsafe fn load_pair<S: Simd>(from: *const Self) -> [S::F; 2];

    /// Stores what [`Element::load_pair`] gives.
    ///
    /// # Safety
    /// As for [`Simd::store`].
    unsafe fn store_pair<S: Simd>(to: *mut Self, pair: [S::F; 2]);

    /// Moves a block as it is held.
    ///
    /// # Safety
    /// As for [`Simd::load`] and [`Simd::store`]; the blocks do not overlap.
    #[inline(always)]
    unsafe fn copy_pair<S: Simd>(from: *const Self, to: *mut Self) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, 2 * S::LANES) }
    }
}

// SAFETY of every block below: the caller's pointers and instruction set.
impl Element for f32 {
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

/// Puts rows of bf16 state in order whose blocks of `block` values are held as [`Storage::interleaves`] says; what is left
/// of a row is in order.
pub(crate) fn in_order<T: Copy>(held: &[T], row: usize, block: usize) -> Vec<T> {
    let of_block = |values: &[T]| -> Vec<T> {
        if values.len() < block {
            return values.to_vec();
        }
        let (first, second) = (values.iter().step_by(2), values.iter().skip(1).step_by(2));
        first.chain(second).copied().collect()
    };
    held.chunks(row).flat_map(|row| row.chunks(block)).flat_map(of_block).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_put_in_order_and_the_rest_of_a_row_stays() {
        let held = [0, 2, 1, 3, 8, 9, 4, 6, 5, 7, 10, 11];
        assert_eq!(in_order(&held, 6, 4), [0, 1, 2, 3, 8, 9, 4, 5, 6, 7, 10, 11]);
    }

    #[test]
    fn half_units_of_the_last_place() {
        // bf16 has 128 values from 1 to 2 and as many from 1/2 to 1.
        for (value, half) in [(1.0, 1.0 / 256.0), (1.99, 1.0 / 256.0), (-0.75, 1.0 / 512.0)] {
            assert!((Storage::Bf16.half_unit(value) - half).abs() < 1e-12, "{value}");
        }
        assert!((Storage::F32.half_unit(1.5) - f64::from(f32::EPSILON) / 2.0).abs() < 1e-15);
        assert!(Storage::Bf16.half_unit(0.0).abs() < 1e-300);
    }
}
