//! The short causal convolution before a recurrence, or alone: `y = Σ wⱼ·sⱼ + w_last·x` for each channel, then the oldest of
//! the kept inputs leaves and x comes.
//!
//! The state is `[kernel − 1][channels]`, the oldest input first; every step reads all of it and writes all of it, one
//! column further (vLLM and SGLang shift it too). The taps are bf16, `[kernel][channels]`, held in blocks as bf16 state is. A bias, where a model has one,
//! is left out.
//!
//! - **Bytes**: `(kernel − 1) × channels` values are read and as many written. Taps are weights, which are not counted.
//! - **FLOPs**: 2 × kernel a channel, and an activation.
//! - **Arithmetic intensity**: 2 / 3 FLOP a byte with bf16 state and a kernel of 4: bound by memory. Alone, it also writes its
//!   outputs, 4 bytes a channel, which are as large as what it changes of the state: a large batch of bf16 stays below half
//!   of the bound.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

use std::ops::Range;

use super::element::Element;
use crate::bench::cpu::simd::{InstructionSet, Simd, dispatch, exp2_each};

/// A layer's convolution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Convolution {
    /// Taps of the kernel, at least 2.
    pub(crate) kernel: usize,
    pub(crate) channels: usize,
    pub(crate) around: Around,
}

/// What happens to a channel before and after the convolution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Around {
    /// Nothing before, x·σ(x) after: gated DeltaNet, KDA and Mamba.
    Silu,
    /// A factor before and one after, both from the projections: LFM2.
    Factors,
}

impl Convolution {
    /// State values of a request.
    pub(crate) fn values(&self) -> usize {
        (self.kernel - 1) * self.channels
    }

    /// Values of a layer's taps.
    pub(crate) fn taps(&self) -> usize {
        self.kernel * self.channels
    }

    /// Values that a request's projections give: x, then both factors where there are any.
    pub(crate) fn inputs(&self) -> usize {
        match self.around {
            Around::Silu => self.channels,
            Around::Factors => 3 * self.channels,
        }
    }

    /// Channels that workers take together: whole pairs of vectors of every instruction set.
    pub(crate) const BLOCK: usize = 32;

    /// Whether whole blocks make up the channels.
    pub(crate) fn is_whole(&self) -> bool {
        self.channels > 0 && self.channels.is_multiple_of(Self::BLOCK)
    }

    /// Blocks of a request's channels.
    pub(crate) fn blocks(&self) -> usize {
        self.channels / Self::BLOCK
    }

    /// The channels of some blocks.
    pub(crate) fn channels_of(blocks: Range<usize>) -> Range<usize> {
        blocks.start * Self::BLOCK..blocks.end * Self::BLOCK
    }
}

/// Some channels of one request in one layer.
#[derive(Debug)]
pub(crate) struct Span<'a> {
    pub(crate) channels: Range<usize>,
    pub(crate) taps: &'a [u16],
    /// Of the whole request, [`Convolution::inputs`].
    pub(crate) inputs: &'a [f32],
    /// Of those channels.
    pub(crate) output: &'a mut [f32],
    /// The first value of the request's state.
    pub(crate) state: State,
}

/// Where a request's state is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    F32(*mut f32),
    /// bf16 bits.
    Bf16(*mut u16),
}

/// Takes one input into some channels and gives their outputs.
///
/// # Safety
/// `span.state` is valid for [`Convolution::values`], and nobody else uses those channels meanwhile.
pub(crate) unsafe fn update(set: InstructionSet, convolution: Convolution, span: Span<'_>) {
    let Range { start, end } = span.channels;
    assert!(convolution.is_whole() && start <= end && end <= convolution.channels);
    assert!(start.is_multiple_of(Convolution::BLOCK) && end.is_multiple_of(Convolution::BLOCK));
    assert_eq!(span.taps.len(), convolution.taps());
    assert_eq!(span.inputs.len(), convolution.inputs());
    assert_eq!(span.output.len(), end - start);
    dispatch!(set, body, (convolution, span), (Convolution, Span<'_>));
}

#[inline(always)]
unsafe fn body<S: Simd>((convolution, span): (Convolution, Span<'_>)) {
    // SAFETY: `update` checked the lengths; its caller vouches for the state.
    unsafe {
        match (span.state, convolution.around) {
            (State::F32(state), Around::Silu) => shift::<S, f32, false>(convolution, state, span),
            (State::F32(state), Around::Factors) => shift::<S, f32, true>(convolution, state, span),
            (State::Bf16(state), Around::Silu) => shift::<S, u16, false>(convolution, state, span),
            (State::Bf16(state), Around::Factors) => shift::<S, u16, true>(convolution, state, span),
        }
    }
}

#[inline(always)]
unsafe fn shift<S: Simd, E: Element, const FACTORS: bool>(
    convolution: Convolution,
    state: *mut E,
    span: Span<'_>,
) {
    let (channels, newest) = (convolution.channels, convolution.kernel - 1);
    let (taps, inputs) = (span.taps.as_ptr(), span.inputs.as_ptr());
    let mut channel = span.channels.start;
    // SAFETY: `update` checked the lengths; channels come in whole pairs of vectors.
    unsafe {
        while channel < span.channels.end {
            let mut x = f32::load_pair::<S>(inputs.add(channel));
            if FACTORS {
                x = multiply::<S>(x, f32::load_pair::<S>(inputs.add(channels + channel)));
            }
            let mut sum = multiply::<S>(x, u16::load_pair::<S>(taps.add(newest * channels + channel)));
            for column in 0..newest {
                let at = state.add(column * channels + channel);
                let kept = E::load_pair::<S>(at);
                let tap = u16::load_pair::<S>(taps.add(column * channels + channel));
                sum = [S::fma(kept[0], tap[0], sum[0]), S::fma(kept[1], tap[1], sum[1])];
                if column > 0 {
                    E::copy_pair::<S>(at, at.sub(channels));
                }
            }
            E::store_pair::<S>(state.add((newest - 1) * channels + channel), x);
            let y = if FACTORS {
                multiply::<S>(sum, f32::load_pair::<S>(inputs.add(2 * channels + channel)))
            } else {
                silu::<S>(sum)
            };
            f32::store_pair::<S>(span.output.as_mut_ptr().add(channel - span.channels.start), y);
            channel += 2 * S::LANES;
        }
    }
}

#[inline(always)]
unsafe fn multiply<S: Simd>(a: [S::F; 2], b: [S::F; 2]) -> [S::F; 2] {
    // SAFETY: the caller's instruction set.
    unsafe { [S::mul(a[0], b[0]), S::mul(a[1], b[1])] }
}

/// x·σ(x) = x / (1 + e^−x).
#[inline(always)]
unsafe fn silu<S: Simd>(x: [S::F; 2]) -> [S::F; 2] {
    // SAFETY: the caller's instruction set. Where e^−x would be beyond 2^126 the result is below 1e-36 either way.
    unsafe {
        let mut exponents = x;
        for half in 0..2 {
            let exponent = S::max(S::mul(x[half], S::splat(std::f32::consts::LOG2_E)), S::splat(-126.0));
            exponents[half] = S::sub(S::splat(0.0), exponent);
        }
        let powers = exp2_each::<S, 2>(exponents);
        let mut y = x;
        for half in 0..2 {
            y[half] = S::div(x[half], S::add(S::splat(1.0), powers[half]));
        }
        y
    }
}
