//! The compressor of DeepSeek-V4's attention: how the tokens of a group become one entry.
//!
//! Every token leaves a row of values and gates. Entry j is, for each channel by itself, the mean of the group's values
//! under a softmax of their gates; a bias for each place in the group adds to the gates. HCA takes the 128 tokens of group
//! j. CSA overlaps: rows have two halves, and entry j takes half A of the 4 tokens of group j − 1 and half B of the 4 of
//! group j (arXiv 2606.19348). Then comes an RMS norm, and the rotary part turns by the position of the group's first token.
//!
//! A row is `[half][values]`, then `[half][gates]`, all f32; where an indexer has a compressor of its own, its row follows.
//! Rows lie in a ring, position modulo rows. A step writes one row and, where it ends a group, reads all:
//! `rows × values × 4` bytes and about one multiply-add for each two values. Memory bounds it.
#![allow(unsafe_code, reason = "vector loads and stores go through pointers; lengths are checked on entry")]

use std::ops::Range;

use crate::bench::cpu::simd::{InstructionSet, Simd, dispatch, exp2_each};

const EPSILON: f32 = 1e-6;

/// Shape of one compressor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Pooling {
    /// Channels of an entry; a multiple of 16.
    pub(super) width: usize,
    /// Rotary channels, the last ones.
    pub(super) rope: usize,
    /// Tokens of a group.
    pub(super) ratio: usize,
    /// 2 where groups overlap by one, else 1.
    pub(super) halves: usize,
}

impl Pooling {
    /// f32 values of one token's row.
    pub(super) fn row(self) -> usize {
        2 * self.halves * self.width
    }

    /// Rows that are kept.
    pub(super) fn rows(self) -> usize {
        self.halves * self.ratio
    }
}

/// What a trained compressor brings: here random.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// `[place in the group][half][width]`, added to the gates.
    pub(super) bias: Vec<f32>,
    /// `[width]`, of the norm.
    pub(super) gain: Vec<f32>,
    /// `[rope / 2]`, cosine and sine of the group's position.
    pub(super) turns: Vec<(f32, f32)>,
}

impl Weights {
    pub(super) fn random(pooling: Pooling, position: usize, random: &mut fastrand::Rng) -> Self {
        let bias = (0..pooling.ratio * pooling.halves * pooling.width).map(|_| random.f32() - 0.5).collect();
        let gain = (0..pooling.width).map(|_| 0.5 + random.f32()).collect();
        #[allow(clippy::cast_possible_truncation, reason = "a cosine needs no f64")]
        let turn = |pair: usize| {
            let angle = position as f64 / 10_000_f64.powf(2.0 * pair as f64 / pooling.rope as f64);
            (angle.cos() as f32, angle.sin() as f32)
        };
        Self { bias, gain, turns: (0..pooling.rope / 2).map(turn).collect() }
    }
}

/// One request's rows, from which a part of one entry is made.
pub(super) struct Span<'a> {
    pub(super) pooling: Pooling,
    pub(super) weights: &'a Weights,
    /// The ring of rows, `stride` values apart.
    pub(super) rows: &'a [f32],
    pub(super) stride: usize,
    /// First value of a row that belongs to this compressor.
    pub(super) first: usize,
    /// Tokens so far: the group ends with the last of them.
    pub(super) tokens: usize,
    /// Which channels are made; whole blocks of [`BLOCK`].
    pub(super) channels: Range<usize>,
    /// `[channels]`, the means that are made.
    pub(super) means: &'a mut [f32],
}

/// Channels that no two workers share: the lanes of the widest registers.
pub(super) const BLOCK: usize = 16;

/// Makes the means of the group that ends here; [`finish`] makes an entry of them.
pub(super) fn pool(set: InstructionSet, span: Span<'_>) {
    let pooling = span.pooling;
    let is_whole = |channel: usize| channel.is_multiple_of(BLOCK) && channel <= pooling.width;
    assert!(is_whole(span.channels.start) && is_whole(span.channels.end) && is_whole(pooling.width));
    assert!(span.tokens > 0 && span.tokens.is_multiple_of(pooling.ratio));
    assert!(span.first + pooling.row() <= span.stride && pooling.rows() * span.stride <= span.rows.len());
    assert!(span.means.len() == span.channels.len());
    assert_eq!(span.weights.bias.len(), pooling.ratio * pooling.halves * pooling.width);
    dispatch!(set, body, span, Span<'_>);
}

/// The RMS norm and the turn of the rotary channels, of an entry of means.
pub(super) fn finish(pooling: Pooling, weights: &Weights, entry: &mut [f32]) {
    assert!(entry.len() == pooling.width && weights.gain.len() == pooling.width);
    assert!(pooling.rope <= pooling.width && weights.turns.len() == pooling.rope / 2);
    let squares: f32 = entry.iter().map(|mean| mean * mean).sum();
    let norm = (squares / pooling.width as f32 + EPSILON).sqrt().recip();
    for (value, gain) in entry.iter_mut().zip(&weights.gain) {
        *value *= gain * norm;
    }
    let rotary = &mut entry[pooling.width - pooling.rope..];
    for (pair, (cosine, sine)) in rotary.chunks_exact_mut(2).zip(&weights.turns) {
        let (x, y) = (pair[0], pair[1]);
        pair[0] = x * cosine - y * sine;
        pair[1] = x * sine + y * cosine;
    }
}

#[inline(always)]
unsafe fn body<S: Simd>(span: Span<'_>) {
    let mut span = span;
    let mut channel = span.channels.start;
    while channel < span.channels.end {
        // Rows lie a power of two apart: only what is taken of a line at once is taken from a near cache.
        let vectors = ((span.channels.end - channel) / S::LANES).min(4);
        // SAFETY: `pool` checked the lengths; blocks are whole vectors.
        unsafe {
            match vectors {
                4 => means::<S, 4>(&mut span, channel),
                2 | 3 => means::<S, 2>(&mut span, channel),
                _ => means::<S, 1>(&mut span, channel),
            }
        }
        channel += if vectors == 3 { 2 } else { vectors } * S::LANES;
    }
}

/// The means of `C` vectors of channels.
#[inline(always)]
unsafe fn means<S: Simd, const C: usize>(span: &mut Span<'_>, channel: usize) {
    let Pooling { width, ratio, halves, .. } = span.pooling;
    // Tokens before the first have no part in the first overlapping group.
    let members = (halves * ratio).min(span.tokens);
    // SAFETY: `pool` checked the lengths.
    unsafe {
        // (values, gates, bias) of a member; the last `ratio` are the group that ends, in the last half.
        let member = |index: usize| {
            let position = span.tokens - members + index;
            let half = if index + ratio >= members { halves - 1 } else { 0 };
            let row =
                span.rows.as_ptr().add(position % span.pooling.rows() * span.stride + span.first + channel);
            let bias = span.weights.bias.as_ptr().add((position % ratio * halves + half) * width + channel);
            (row.add(half * width), row.add((halves + half) * width), bias)
        };
        let gate = |gates: *const f32, bias: *const f32, c: usize| {
            S::add(S::load(gates.add(c * S::LANES)), S::load(bias.add(c * S::LANES)))
        };
        let mut highest = [S::splat(f32::NEG_INFINITY); C];
        for index in 0..members {
            let (_, gates, bias) = member(index);
            for c in 0..C {
                highest[c] = S::max(highest[c], gate(gates, bias, c));
            }
        }
        let log2_e = S::splat(std::f32::consts::LOG2_E);
        let (mut totals, mut sums) = ([S::splat(0.0); C], [S::splat(0.0); C]);
        for index in 0..members {
            let (values, gates, bias) = member(index);
            let mut scores = [S::splat(0.0); C];
            for c in 0..C {
                scores[c] = S::mul(S::sub(gate(gates, bias, c), highest[c]), log2_e);
            }
            let weights = exp2_each::<S, C>(scores);
            for c in 0..C {
                totals[c] = S::add(totals[c], weights[c]);
                sums[c] = S::fma(weights[c], S::load(values.add(c * S::LANES)), sums[c]);
            }
        }
        let to = span.means.as_mut_ptr().add(channel - span.channels.start);
        for c in 0..C {
            S::store(to.add(c * S::LANES), S::div(sums[c], totals[c]));
        }
    }
}

#[cfg(test)]
mod tests {
    use kvscope_reference::pooling::Group;
    use kvscope_reference::widen;

    use super::*;

    fn right(span: &Span<'_>) -> Vec<f64> {
        let Pooling { width, ratio, halves, .. } = span.pooling;
        let turns: Vec<(f64, f64)> =
            span.weights.turns.iter().map(|(cosine, sine)| (f64::from(*cosine), f64::from(*sine))).collect();
        let (bias, gains) = (widen(&span.weights.bias), widen(&span.weights.gain));
        let group = Group { width, ratio, halves, bias: &bias, gains: &gains, turns: &turns };
        let row = |token: usize| {
            let at = token % span.pooling.rows() * span.stride + span.first;
            widen(&span.rows[at..at + span.pooling.row()])
        };
        group.entry(span.tokens / ratio - 1, &row)
    }

    fn span<'a>(all: &Span<'a>, channels: Range<usize>, means: &'a mut [f32]) -> Span<'a> {
        Span { channels, means, ..*all }
    }

    #[test]
    fn entries_agree_with_the_reference() {
        let mut random = fastrand::Rng::with_seed(2);
        for (width, rope, ratio, halves, tokens) in [
            (32, 16, 4, 2, 4),
            (32, 16, 4, 2, 8),
            (512, 64, 4, 2, 1004),
            (48, 32, 128, 1, 128),
            (512, 64, 128, 1, 640),
        ] {
            let pooling = Pooling { width, rope, ratio, halves };
            let (first, stride) = (16, pooling.row() + 16);
            let rows: Vec<f32> = (0..pooling.rows() * stride).map(|_| 4.0 * random.f32() - 2.0).collect();
            let weights = Weights::random(pooling, tokens - ratio, &mut random);
            for set in InstructionSet::available() {
                let all = Span {
                    pooling,
                    weights: &weights,
                    rows: &rows,
                    stride,
                    first,
                    tokens,
                    channels: 0..0,
                    means: &mut [],
                };
                // Two workers' parts.
                let half = width / 2 / BLOCK * BLOCK;
                let mut entry = Vec::new();
                for channels in [0..half, half..width] {
                    let mut means = vec![0.0; channels.len()];
                    pool(set, span(&all, channels, &mut means));
                    entry.extend(means);
                }
                finish(pooling, &weights, &mut entry);
                let right = right(&all);
                let error = crate::bench::cpu::reference::relative_error(right, &entry);
                assert!(error < 1e-5, "{set:?} {pooling:?}: {error}");
            }
        }
    }
}
