use std::ops::Range;
use std::sync::Mutex;

use memmap2::MmapMut;

use super::pool::{Pool, share};
use crate::bench::BenchError;

/// The state of one case: every layer's pages in one mapping, filled with random bf16 values by the workers that will
/// read them, and a page table that puts the pages in random order.
///
/// Logical pages are numbered request by request. Worker w reads the logical pages of its [`share`], which lie in
/// random order within the same share of each layer, so that the pages are near its core on a machine with several
/// memory nodes.
#[derive(Debug)]
pub(crate) struct PagedState {
    map: MmapMut,
    layers: usize,
    pages: usize,
    page_values: usize,
    table: Vec<u32>,
}

/// What a [`PagedState`] holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateShape {
    pub(crate) layers: usize,
    /// Pages of one layer, all requests together.
    pub(crate) pages: usize,
    /// bf16 values of one page.
    pub(crate) page_values: usize,
}

impl StateShape {
    /// Bytes asked of the system; `None` where that is beyond the address space.
    pub(crate) fn bytes(&self) -> Option<usize> {
        self.layers.checked_mul(self.pages)?.checked_mul(self.page_values)?.checked_mul(2)
    }
}

impl PagedState {
    /// Asks for the memory, touches all of it and fills it.
    pub(crate) fn new(shape: StateShape, seed: u64, pool: &Pool) -> Result<Self, BenchError> {
        let StateShape { layers, pages, page_values } = shape;
        let bytes = shape
            .bytes()
            .filter(|bytes| *bytes > 0)
            .ok_or(BenchError::Shape("an impossible size".to_owned()))?;
        let refused =
            |error: std::io::Error| BenchError::Memory { bytes: bytes as u64, why: error.to_string() };
        let mut map = MmapMut::map_anon(bytes).map_err(refused)?;
        // Fewer misses of the address cache; a system without large pages refuses, which changes nothing.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);

        fill(bytemuck::cast_slice_mut(&mut map[..]), shape, seed, pool);
        let table = random_table(pages, seed, pool.workers())?;
        Ok(Self { map, layers, pages, page_values, table })
    }

    /// Bytes asked of the system.
    pub(crate) fn bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// The memory alone, for what needs only random bytes.
    pub(crate) fn into_map(self) -> MmapMut {
        self.map
    }

    pub(crate) fn layers(&self) -> usize {
        self.layers
    }

    /// All pages of one layer.
    pub(crate) fn layer(&self, layer: usize) -> &[u16] {
        let values = self.pages * self.page_values;
        &bytemuck::cast_slice(&self.map[..])[layer * values..(layer + 1) * values]
    }

    /// Physical page of every logical page.
    pub(crate) fn table(&self) -> &[u32] {
        &self.table
    }
}

fn random_table(pages: usize, seed: u64, workers: usize) -> Result<Vec<u32>, BenchError> {
    let count = u32::try_from(pages).map_err(|_| BenchError::Shape(format!("{pages} pages are too many")))?;
    let mut table: Vec<u32> = (0..count).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    for worker in 0..workers {
        random.shuffle(&mut table[share(pages, worker, workers)]);
    }
    Ok(table)
}

fn fill(values: &mut [u16], shape: StateShape, seed: u64, pool: &Pool) {
    let workers = pool.workers();
    let mut parts: Vec<Vec<&mut [u16]>> = (0..workers).map(|_| Vec::with_capacity(shape.layers)).collect();
    for layer in values.chunks_mut(shape.pages * shape.page_values) {
        let mut rest = layer;
        for (worker, part) in parts.iter_mut().enumerate() {
            let Range { start, end } = share(shape.pages, worker, workers);
            let (mine, others) = rest.split_at_mut((end - start) * shape.page_values);
            part.push(mine);
            rest = others;
        }
    }
    let parts: Vec<Mutex<Vec<&mut [u16]>>> = parts.into_iter().map(Mutex::new).collect();
    pool.each(|worker| {
        let mut random = fastrand::Rng::with_seed(seed ^ ((worker as u64 + 1) << 32));
        let mut lanes = [random.u64(1..), random.u64(1..), random.u64(1..), random.u64(1..)];
        let mut parts = parts[worker].lock().expect("no worker panics while it fills");
        for part in parts.iter_mut() {
            for values in part.chunks_mut(16) {
                values.copy_from_slice(&next_values(&mut lanes)[..values.len()]);
            }
        }
    });
}

/// Sixteen random values from four xorshift generators, which the compiler turns into vectors: filling is to be about as
/// fast as memory takes it.
#[inline]
fn next_values(lanes: &mut [u64; 4]) -> [u16; 16] {
    let mut values = [0; 4];
    for (lane, value) in lanes.iter_mut().zip(&mut values) {
        *lane ^= *lane << 13;
        *lane ^= *lane >> 7;
        *lane ^= *lane << 17;
        *value = 0x3E00_3E00_3E00_3E00 | (*lane & 0x81FF_81FF_81FF_81FF);
    }
    bytemuck::cast(values)
}

/// A bf16 of random sign, random mantissa and a magnitude of 0.125 to 2: like normalised activations, never zero.
#[allow(clippy::cast_possible_truncation, reason = "the low 16 bits are what is wanted")]
pub(crate) fn random_value(bits: u64) -> u16 {
    0x3E00 | (bits as u16 & 0x81FF)
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn values_are_random_and_never_zero_and_every_page_appears_once() {
        let pool = Pool::for_all_cores().unwrap();
        let state = PagedState::new(StateShape { layers: 3, pages: 37, page_values: 48 }, 7, &pool).unwrap();
        assert_eq!(state.bytes(), 3 * 37 * 48 * 2);
        let mut seen: Vec<u32> = state.table().to_vec();
        assert!(seen.windows(2).any(|pair| pair[0] + 1 != pair[1]), "the order is random");
        seen.sort_unstable();
        assert_eq!(seen, (0..37).collect::<Vec<u32>>());
        let values: Vec<f32> =
            (0..3).flat_map(|n| state.layer(n)).map(|v| bf16::from_bits(*v).to_f32()).collect();
        assert!(values.iter().all(|value| (0.125..=2.0).contains(&value.abs())));
        let negative = values.iter().filter(|value| **value < 0.0).count() as f64 / values.len() as f64;
        assert!((0.4..0.6).contains(&negative), "{negative}");
        assert_ne!(state.layer(0), state.layer(1));
    }
}
