//! Memory that several workers change at once, each its own part.
#![allow(unsafe_code, reason = "parts of different workers are handed out through one pointer")]

use std::marker::PhantomData;
use std::ops::Range;

use super::conv;
use super::element::Values;

/// A slice that is lent to several workers. Whoever asks for a part vouches that nobody else changes it meanwhile.
#[derive(Debug)]
pub(crate) struct Shared<'a, T> {
    first: *mut T,
    len: usize,
    lent: PhantomData<&'a mut [T]>,
}

// SAFETY: parts are only handed out to callers that vouch for them, and plain values may be used on any thread.
unsafe impl<T: Send + Sync> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { first: slice.as_mut_ptr(), len: slice.len(), lent: PhantomData }
    }

    /// The values of `range`, to be changed.
    ///
    /// # Safety
    /// Until the part is dropped nobody else uses any of its values.
    #[allow(clippy::mut_from_ref, reason = "the caller vouches that parts do not overlap")]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: the range lies within the slice; the caller vouches that nobody else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(range.start), range.len()) }
    }

    /// The values of `range`, to be read.
    ///
    /// # Safety
    /// Until the part is dropped nobody changes any of its values.
    pub(crate) unsafe fn read(&self, range: Range<usize>) -> &[T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: the range lies within the slice; the caller vouches that nobody changes it.
        unsafe { std::slice::from_raw_parts(self.first.add(range.start), range.len()) }
    }

    /// A pointer to value `index`, for what is not one contiguous part.
    pub(crate) fn pointer(&self, index: usize) -> *mut T {
        assert!(index <= self.len);
        self.first.wrapping_add(index)
    }
}

/// State values of either storage.
#[derive(Debug)]
pub(crate) enum SharedValues<'a> {
    F32(Shared<'a, f32>),
    /// bf16 bits.
    Bf16(Shared<'a, u16>),
}

impl SharedValues<'_> {
    /// The values of `range`, to be changed.
    ///
    /// # Safety
    /// As for [`Shared::part`].
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> Values<'_> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::F32(values) => Values::F32(values.part(range)),
                Self::Bf16(values) => Values::Bf16(values.part(range)),
            }
        }
    }

    /// Where value `index` is.
    pub(crate) fn pointer(&self, index: usize) -> conv::State {
        match self {
            Self::F32(values) => conv::State::F32(values.pointer(index)),
            Self::Bf16(values) => conv::State::Bf16(values.pointer(index)),
        }
    }
}
