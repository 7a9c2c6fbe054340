#![allow(unsafe_code, reason = "workers fill their own parts of one mapping")]

use std::ops::Range;

use memmap2::MmapMut;

use super::conv::Convolution;
use super::element::{Storage, Values, in_order};
use super::layer::{Layer, pieces};
use super::shared::{Shared, SharedValues};
use crate::bench::BenchError;
use crate::bench::cpu::pool::Pool;
use crate::bench::cpu::simd::InstructionSet;

/// The recurrent state and the convolution state of all layers and requests, each in one mapping, filled with random
/// values by the workers that will change them.
///
/// Recurrent state is `[layer][request][unit]`, convolution state `[layer][request][column][channel]`.
#[derive(Debug)]
pub(crate) struct State {
    recurrent: Option<Region>,
    conv: Option<Region>,
    layers: usize,
}

/// How many layers and requests a [`State`] holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) layers: usize,
    pub(crate) requests: usize,
}

/// Sign and mantissa are random, and so are the two low bits of the exponent.
const RANDOM_BITS: u16 = 0x81FF;
/// Magnitudes of 1/64 to 1/4: a state in use.
const SMALL: u16 = 0x3C80;
/// Magnitudes of 1/8 to 2: normalised activations.
const USUAL: u16 = 0x3E00;

impl State {
    /// Asks for the memory, touches all of it and fills it.
    ///
    /// Kernels of `set` will use it: blocks of rows are two of its vectors.
    pub(crate) fn new(
        layer: &Layer,
        set: InstructionSet,
        extent: Extent,
        seed: u64,
        pool: &Pool,
    ) -> Result<Self, BenchError> {
        let Extent { layers, requests } = extent;
        let region = |values: usize, storage: Storage, row: usize| {
            let count = layers.checked_mul(requests).and_then(|count| count.checked_mul(values));
            Region::new(count, storage, Rows { row, block: 2 * set.lanes() })
        };
        let recurrent = match &layer.recurrence {
            Some((form, storage)) => Some(region(layer.recurrent_values(), *storage, form.row())?),
            None => None,
        };
        let conv = match &layer.convolution {
            Some((shape, storage)) => Some(region(layer.conv_values(), *storage, shape.channels)?),
            None => None,
        };
        let mut state = Self { recurrent, conv, layers };
        state.fill(layer, extent, seed, pool);
        Ok(state)
    }

    /// Bytes asked of the system.
    pub(crate) fn bytes(&self) -> u64 {
        [&self.recurrent, &self.conv].into_iter().flatten().map(|region| region.map.len() as u64).sum()
    }

    pub(crate) fn layers(&self) -> usize {
        self.layers
    }

    /// The recurrent state, then the convolution state of all layers, to be shared by workers.
    pub(crate) fn share(&mut self) -> [Option<SharedValues<'_>>; 2] {
        [&mut self.recurrent, &mut self.conv].map(|region| region.as_mut().map(Region::share))
    }

    /// The recurrent state and the convolution state of one request in one layer, in order. `place` counts requests
    /// layer by layer.
    pub(crate) fn widen(&self, place: usize, layer: &Layer) -> [Vec<f64>; 2] {
        let of = |region: &Option<Region>, count: usize| {
            region.as_ref().map_or_else(Vec::new, |region| region.widen(place * count..(place + 1) * count))
        };
        [of(&self.recurrent, layer.recurrent_values()), of(&self.conv, layer.conv_values())]
    }

    fn fill(&mut self, layer: &Layer, extent: Extent, seed: u64, pool: &Pool) {
        let Extent { layers, requests } = extent;
        let workers = pool.workers();
        let [recurrent, conv] = self.share();
        pool.each(|worker| {
            let mut random = Random::new(seed ^ ((worker as u64 + 1) << 32));
            for at in 0..layers {
                if let (Some(shared), Some((form, _))) = (&recurrent, &layer.recurrence) {
                    for (request, units) in pieces(requests, form.units(), worker, workers) {
                        let first = (at * requests + request) * layer.recurrent_values();
                        let values = form.unit_values();
                        let mine = first + units.start * values..first + units.end * values;
                        // SAFETY: pieces of different workers do not overlap.
                        random.fill(unsafe { shared.part(mine) }, SMALL);
                    }
                }
                let (Some(shared), Some((convolution, _))) = (&conv, &layer.convolution) else { continue };
                for (request, blocks) in pieces(requests, convolution.blocks(), worker, workers) {
                    let channels = Convolution::channels_of(blocks);
                    for column in 0..convolution.kernel - 1 {
                        let first = (at * requests + request) * layer.conv_values();
                        let first = first + column * convolution.channels;
                        let mine = first + channels.start..first + channels.end;
                        // SAFETY: as above.
                        random.fill(unsafe { shared.part(mine) }, USUAL);
                    }
                }
            }
        });
    }
}

/// State of one storage in one mapping.
#[derive(Debug)]
struct Region {
    map: MmapMut,
    storage: Storage,
    rows: Rows,
}

/// How values follow each other, see [`in_order`].
#[derive(Clone, Copy, Debug)]
struct Rows {
    row: usize,
    block: usize,
}

impl Region {
    fn new(count: Option<usize>, storage: Storage, rows: Rows) -> Result<Self, BenchError> {
        let bytes = count
            .and_then(|count| count.checked_mul(storage.bytes()))
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| BenchError::Shape("an impossible size".to_owned()))?;
        let refused =
            |error: std::io::Error| BenchError::Memory { bytes: bytes as u64, why: error.to_string() };
        let map = MmapMut::map_anon(bytes).map_err(refused)?;
        // Fewer misses of the address cache; a system without large pages refuses, which changes nothing.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self { map, storage, rows })
    }

    fn share(&mut self) -> SharedValues<'_> {
        match self.storage {
            Storage::F32 => SharedValues::F32(Shared::new(bytemuck::cast_slice_mut(&mut self.map[..]))),
            Storage::Bf16 => SharedValues::Bf16(Shared::new(bytemuck::cast_slice_mut(&mut self.map[..]))),
        }
    }

    fn widen(&self, range: Range<usize>) -> Vec<f64> {
        let held: Vec<f64> = match self.storage {
            Storage::F32 => {
                let values: &[f32] = bytemuck::cast_slice(&self.map[..]);
                values[range].iter().copied().map(f64::from).collect()
            }
            Storage::Bf16 => {
                let values: &[u16] = bytemuck::cast_slice(&self.map[..]);
                values[range].iter().map(|bits| half::bf16::from_bits(*bits).to_f64()).collect()
            }
        };
        if self.storage.interleaves() { in_order(&held, self.rows.row, self.rows.block) } else { held }
    }
}

/// Four xorshift generators, which the compiler turns into vectors: filling is to be about as fast as memory takes it.
struct Random {
    lanes: [u64; 4],
}

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self { lanes: [(); 4].map(|()| random.u64(1..)) }
    }

    /// Values of random sign and mantissa whose magnitudes span a factor of 16 from that of `base`, bf16 bits.
    fn fill(&mut self, values: Values<'_>, base: u16) {
        match values {
            Values::F32(values) => {
                let base = u64::from(base) << 16;
                let mask = u64::from(RANDOM_BITS) << 16 | 0xFFFF;
                for block in values.chunks_mut(8) {
                    let fresh: [f32; 8] = bytemuck::cast(self.next(base | base << 32, mask | mask << 32));
                    block.copy_from_slice(&fresh[..block.len()]);
                }
            }
            Values::Bf16(values) => {
                let repeat = |bits: u16| u64::from(bits) * 0x0001_0001_0001_0001;
                for block in values.chunks_mut(16) {
                    let fresh: [u16; 16] = bytemuck::cast(self.next(repeat(base), repeat(RANDOM_BITS)));
                    block.copy_from_slice(&fresh[..block.len()]);
                }
            }
        }
    }

    #[inline]
    fn next(&mut self, base: u64, mask: u64) -> [u64; 4] {
        let mut values = [0; 4];
        for (lane, value) in self.lanes.iter_mut().zip(&mut values) {
            *lane ^= *lane << 13;
            *lane ^= *lane >> 7;
            *lane ^= *lane << 17;
            *value = base | (*lane & mask);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_random_within_their_range_and_never_zero() {
        let mut random = Random::new(5);
        let (mut wide, mut narrow) = (vec![0.0_f32; 1003], vec![0_u16; 1003]);
        random.fill(Values::F32(&mut wide), SMALL);
        random.fill(Values::Bf16(&mut narrow), USUAL);
        let narrow: Vec<f32> = narrow.iter().map(|bits| half::bf16::from_bits(*bits).to_f32()).collect();
        for (values, range) in [(&wide, 0.015_625..0.25), (&narrow, 0.125..2.0)] {
            assert!(values.iter().all(|value| range.contains(&value.abs())), "{range:?}");
            let negative = values.iter().filter(|value| **value < 0.0).count();
            assert!((400..600).contains(&negative), "{negative} of 1003 are negative");
            let mut distinct: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
            distinct.sort_unstable();
            distinct.dedup();
            // bf16 has 2 × 4 × 128 values in the range, of which 1,003 draws hit about 640.
            assert!(distinct.len() > 550, "{} distinct values", distinct.len());
        }
    }
}
