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

/// Random bytes of one kind, so many in a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Run {
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
}

/// What bytes mean. Numbers are random, never zero, never infinite or NaN, and like normalised activations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Magnitudes of 0.125 to 2.
    Bf16,
    /// Magnitudes of 0.125 to 2.
    F32,
    /// Magnitudes of 0.125 to 1.875.
    E4m3,
    /// Odd numbers of a signed byte.
    I8,
    /// Two codes a byte: magnitudes of 0.5, 1.5, 3 and 6.
    E2m1,
    /// Positive, 0.5 to 1.
    F32Scale,
    /// Positive, 1/128 to 1/64: for signed bytes.
    F32ByteScale,
    /// 1/2 or 1.
    E8m0,
    /// e4m3, positive, 0.125 to 1.875.
    E4m3Scale,
}

impl Kind {
    /// Eight random bytes made into numbers of this kind.
    #[inline(always)]
    fn of_bits(self, bits: u64) -> u64 {
        match self {
            Self::Bf16 => 0x3E00_3E00_3E00_3E00 | (bits & 0x81FF_81FF_81FF_81FF),
            Self::F32 => 0x3E00_0000_3E00_0000 | (bits & 0x81FF_FFFF_81FF_FFFF),
            Self::E4m3 => 0x2020_2020_2020_2020 | (bits & 0x9F9F_9F9F_9F9F_9F9F),
            Self::I8 => bits | 0x0101_0101_0101_0101,
            Self::E2m1 => bits | 0x1111_1111_1111_1111,
            Self::F32Scale => 0x3F00_0000_3F00_0000 | (bits & 0x007F_FFFF_007F_FFFF),
            Self::F32ByteScale => 0x3C00_0000_3C00_0000 | (bits & 0x007F_FFFF_007F_FFFF),
            Self::E8m0 => 0x7E7E_7E7E_7E7E_7E7E | (bits & 0x0101_0101_0101_0101),
            Self::E4m3Scale => 0x2020_2020_2020_2020 | (bits & 0x1F1F_1F1F_1F1F_1F1F),
        }
    }
}

impl StateShape {
    /// Bytes asked of the system; `None` where that is beyond the address space.
    pub(crate) fn bytes(&self) -> Option<usize> {
        self.layers.checked_mul(self.pages)?.checked_mul(self.page_values)?.checked_mul(2)
    }
}

impl PagedState {
    /// Asks for the memory, touches all of it and fills it with bf16 values.
    pub(crate) fn new(shape: StateShape, seed: u64, pool: &Pool) -> Result<Self, BenchError> {
        Self::filled(shape, &[Run { bytes: shape.page_values * 2, kind: Kind::Bf16 }], seed, pool)
    }

    /// The same with runs that repeat until a page is full.
    pub(crate) fn filled(
        shape: StateShape,
        runs: &[Run],
        seed: u64,
        pool: &Pool,
    ) -> Result<Self, BenchError> {
        assert!((shape.page_values * 2).is_multiple_of(runs.iter().map(|run| run.bytes).sum()));
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

        fill(&mut map[..], shape, runs, seed, pool);
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

    /// The same as bytes.
    pub(crate) fn layer_bytes(&self, layer: usize) -> &[u8] {
        bytemuck::cast_slice(self.layer(layer))
    }

    /// The same to write to.
    pub(crate) fn layer_bytes_mut(&mut self, layer: usize) -> &mut [u8] {
        let bytes = self.pages * self.page_values * 2;
        &mut self.map[layer * bytes..(layer + 1) * bytes]
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

fn fill(bytes: &mut [u8], shape: StateShape, runs: &[Run], seed: u64, pool: &Pool) {
    let workers = pool.workers();
    let page_bytes = shape.page_values * 2;
    let mut parts: Vec<Vec<&mut [u8]>> = (0..workers).map(|_| Vec::with_capacity(shape.layers)).collect();
    for layer in bytes.chunks_mut(shape.pages * page_bytes) {
        let mut rest = layer;
        for (worker, part) in parts.iter_mut().enumerate() {
            let Range { start, end } = share(shape.pages, worker, workers);
            let (mine, others) = rest.split_at_mut((end - start) * page_bytes);
            part.push(mine);
            rest = others;
        }
    }
    let parts: Vec<Mutex<Vec<&mut [u8]>>> = parts.into_iter().map(Mutex::new).collect();
    pool.each(|worker| {
        let mut random = fastrand::Rng::with_seed(seed ^ ((worker as u64 + 1) << 32));
        let mut lanes = [random.u64(1..), random.u64(1..), random.u64(1..), random.u64(1..)];
        let mut parts = parts[worker].lock().expect("no worker panics while it fills");
        for part in parts.iter_mut() {
            let mut rest = &mut part[..];
            for run in runs.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (mine, others) = std::mem::take(&mut rest).split_at_mut(run.bytes);
                for bytes in mine.chunks_mut(32) {
                    bytes.copy_from_slice(&next_bytes(&mut lanes, run.kind)[..bytes.len()]);
                }
                rest = others;
            }
        }
    });
}

/// So many random bytes in runs that repeat.
pub(crate) fn random_bytes(bytes: usize, runs: &[Run], seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut lanes = [random.u64(1..), random.u64(1..), random.u64(1..), random.u64(1..)];
    let mut all = Vec::with_capacity(bytes);
    for run in runs.iter().cycle() {
        let mut left = run.bytes.min(bytes - all.len());
        while left > 0 {
            let some = left.min(32);
            all.extend_from_slice(&next_bytes(&mut lanes, run.kind)[..some]);
            left -= some;
        }
        if all.len() == bytes {
            break;
        }
    }
    all
}

/// 32 random bytes from four xorshift generators, which the compiler turns into vectors: filling is to be about as
/// fast as memory takes it.
#[inline]
fn next_bytes(lanes: &mut [u64; 4], kind: Kind) -> [u8; 32] {
    let mut values = [0; 4];
    for (lane, value) in lanes.iter_mut().zip(&mut values) {
        *lane ^= *lane << 13;
        *lane ^= *lane >> 7;
        *lane ^= *lane << 17;
        *value = kind.of_bits(*lane);
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

    #[test]
    fn runs_repeat_and_every_kind_is_in_its_range() {
        let pool = Pool::for_all_cores().unwrap();
        let kinds = [
            (Kind::Bf16, 64),
            (Kind::F32, 64),
            (Kind::E4m3, 48),
            (Kind::I8, 8),
            (Kind::E2m1, 40),
            (Kind::F32Scale, 4),
            (Kind::F32ByteScale, 4),
            (Kind::E8m0, 4),
            (Kind::E4m3Scale, 4),
        ];
        let runs = kinds.map(|(kind, bytes)| Run { bytes, kind });
        let length: usize = runs.iter().map(|run| run.bytes).sum();
        let shape = StateShape { layers: 2, pages: 7, page_values: length };
        let state = PagedState::filled(shape, &runs, 5, &pool).unwrap();
        let f32s =
            |bytes: &[u8]| bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let e4m3s = |bytes: &[u8]| {
            bytes.iter().map(|code| crate::bench::cpu::numbers::E4M3[usize::from(*code)]).collect()
        };
        for layer in 0..2 {
            let mut rest = state.layer_bytes(layer);
            while !rest.is_empty() {
                for run in runs {
                    let (mine, others) = rest.split_at(run.bytes);
                    rest = others;
                    let (values, range): (Vec<f32>, _) = match run.kind {
                        Kind::Bf16 => {
                            let halves =
                                mine.chunks(2).map(|b| bf16::from_le_bytes(b.try_into().unwrap()).to_f32());
                            (halves.collect(), 0.125..=2.0)
                        }
                        Kind::F32 => (f32s(mine), 0.125..=2.0),
                        Kind::E4m3 | Kind::E4m3Scale => (e4m3s(mine), 0.125..=1.875),
                        Kind::I8 => (mine.iter().map(|b| f32::from(b.cast_signed())).collect(), 1.0..=127.0),
                        Kind::E2m1 => {
                            (mine.iter().flat_map(|b| [b & 15, b >> 4]).map(f32::from).collect(), 1.0..=15.0)
                        }
                        Kind::F32Scale => (f32s(mine), 0.5..=1.0),
                        Kind::F32ByteScale => (f32s(mine), 1.0 / 128.0..=1.0 / 64.0),
                        Kind::E8m0 => (mine.iter().map(|b| f32::from(*b)).collect(), 126.0..=127.0),
                    };
                    assert!(
                        values.iter().all(|value| range.contains(&value.abs())),
                        "{:?} {values:?}",
                        run.kind
                    );
                }
            }
        }
    }
}
