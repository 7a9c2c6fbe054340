//! The indexer: keys in pages as `indexer.cu` has them, their scores, and the exact best of them.

use std::rc::Rc;

use kvscope_reference::attention::index_score;
use kvscope_reference::numbers::{bf16, e2m1, e4m3, e8m0, f32_le};
use kvscope_reference::widen;
use kvscope_sizing::IndexFormat;

use super::numbers::{Random, bytes_of, counts_of, floats_of, halves_of, to_halves};
use super::pages::Pages;
use super::plan::{Extent, sizes};
use crate::bench::BenchError;
use crate::bench::cpu::{Kind, Run};
use crate::bench::shape::IndexShape;
use crate::gpu::{Arguments, Gpu, GpuError, Kernel, Memory};

const PAGE_KEYS: usize = 64;
pub(super) const WIDTH: usize = 128;
const MOST_HEADS: usize = 64;
/// Keys that a block takes in one turn.
const BLOCK_KEYS: usize = 128;
/// Products that the reference has time for.
const CHECKED_PRODUCTS: usize = 20_000_000;
/// Scores whose difference is below this share of the largest may be in either order.
const SCORE_TOLERANCE: f64 = 1e-5;

/// An indexer over keys of 128 values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Index {
    heads: usize,
    format: Format,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Format {
    Fp8,
    Fp4,
    Bf16,
}

/// Keys of all layers, the queries, and what the kernels leave.
pub(super) struct Keys {
    index: Index,
    pub(super) pages: Pages,
    count: usize,
    pub(super) top_k: usize,
    queries: Vec<f64>,
    weights: Vec<f32>,
    query: Memory,
    to_weights: Memory,
    counts: Memory,
    scores: Memory,
    pub(super) chosen: Memory,
    slots: Memory,
    blocks: usize,
    score: Kernel,
    choose: Kernel,
    write: Kernel,
}

impl Index {
    pub(super) fn new(shape: &IndexShape, pool: u64) -> Result<Self, BenchError> {
        let [heads, width] = sizes(shape, [shape.query_heads, shape.width])?;
        if (shape.key_heads, shape.pool, width) != (1, pool, WIDTH) || heads > MOST_HEADS {
            return Err(BenchError::Shape(format!(
                "an indexer of {heads} heads over {} key heads of {width} values: GPU kernels are for up to 64 heads and one key of 128",
                shape.key_heads
            )));
        }
        let format = match shape.format {
            IndexFormat::Fp8 => Format::Fp8,
            IndexFormat::Fp4 => Format::Fp4,
            IndexFormat::Bf16 => Format::Bf16,
        };
        Ok(Self { heads, format })
    }

    fn name(self) -> &'static str {
        match self.format {
            Format::Fp8 => "fp8",
            Format::Fp4 => "fp4",
            Format::Bf16 => "bf16",
        }
    }

    /// Bytes of a key's values and of its scales.
    fn parts(self) -> (usize, usize) {
        match self.format {
            Format::Fp8 => (WIDTH, 4),
            Format::Fp4 => (WIDTH / 2, 4),
            Format::Bf16 => (2 * WIDTH, 0),
        }
    }

    /// Bytes of a key.
    pub(super) fn key_bytes(self) -> usize {
        let (values, scales) = self.parts();
        values + scales
    }

    fn runs(self) -> Vec<Run> {
        let (values, scales) = self.parts();
        let (values_are, scales_are) = match self.format {
            Format::Fp8 => (Kind::E4m3, Kind::F32Scale),
            Format::Fp4 => (Kind::E2m1, Kind::E8m0),
            Format::Bf16 => (Kind::Bf16, Kind::Bf16),
        };
        let runs = [(PAGE_KEYS * values, values_are), (PAGE_KEYS * scales, scales_are)];
        runs.into_iter().filter(|(bytes, _)| *bytes > 0).map(|(bytes, kind)| Run { bytes, kind }).collect()
    }

    /// Queries as narrow as the keys.
    fn query(self, count: usize, random: &mut Random) -> Vec<f64> {
        let rng = random.rng();
        match self.format {
            Format::Fp8 => (0..count).map(|_| e4m3(0x20 | (rng.u8(..) & 0x9F))).collect(),
            Format::Fp4 => (0..count).map(|_| e2m1(1 | (rng.u8(..) & 15))).collect(),
            Format::Bf16 => halves_of(&random.bf16(count)),
        }
    }

    /// One key's values, by the page's description alone.
    fn key(self, page: &[u8], slot: usize) -> Vec<f64> {
        let (values, scales) = self.parts();
        let row = &page[slot * values..][..values];
        let scale = &page[PAGE_KEYS * values + slot * scales..][..scales];
        let value = |d: usize| match self.format {
            Format::Fp8 => e4m3(row[d]) * f32_le(scale),
            Format::Fp4 => {
                // Dimension 32b + 8t + 2i + half is in byte 16t + 4b + i.
                let (block, t, i, half) = (d / 32, d % 32 / 8, d % 8 / 2, d % 2);
                e2m1(row[16 * t + 4 * block + i] >> (4 * half) & 15) * e8m0(scale[block])
            }
            Format::Bf16 => bf16([row[2 * d], row[2 * d + 1]]),
        };
        (0..WIDTH).map(value).collect()
    }

    /// How far a written value may be from what was given, as a share of the largest of its key.
    pub(super) fn written_tolerance(self) -> f64 {
        match self.format {
            Format::Fp8 => 1.0 / 14.0,
            Format::Fp4 => 0.25,
            Format::Bf16 => 1.0 / 256.0,
        }
    }
}

impl Keys {
    pub(super) fn new(
        gpu: &Rc<Gpu>,
        index: Index,
        extent: Extent,
        count: usize,
        top_k: usize,
    ) -> Result<Self, BenchError> {
        let Extent { requests, seed, .. } = extent;
        let stride = count.div_ceil(PAGE_KEYS);
        let pages =
            Pages::new(gpu, extent, stride, PAGE_KEYS * index.key_bytes(), &index.runs(), seed ^ 0x1D)?;
        let mut random = Random::new(seed ^ 0x1DEA);
        let queries = index.query(requests * index.heads * WIDTH, &mut random);
        let weights = random.floats(requests * index.heads);
        let slots = (0..requests).map(|request| pages.slot(request, count - 1, PAGE_KEYS));
        let score = gpu.kernel("indexer", &format!("index_scores_{}", index.name()), 128)?;
        let at_once = (gpu.device().multiprocessors * score.blocks_at_once()) as usize;
        Ok(Self {
            count,
            top_k,
            query: Memory::of(gpu, &to_halves(&queries))?,
            to_weights: Memory::of(gpu, &bytes_of(&weights))?,
            counts: Memory::of(gpu, &counts_of(vec![count; requests]))?,
            scores: Memory::new(gpu, (requests * count * 4) as u64)?,
            chosen: Memory::new(gpu, (requests * top_k * 4) as u64)?,
            slots: Memory::of(gpu, &counts_of(slots))?,
            blocks: at_once.div_ceil(requests).min(count.div_ceil(BLOCK_KEYS)),
            score,
            choose: gpu.kernel("top_k", "top_k", 1024)?,
            write: gpu.kernel("write", &format!("write_key_{}", index.name()), 64)?,
            index,
            pages,
            queries,
            weights,
        })
    }

    pub(super) fn kernels(&self) -> [String; 3] {
        let name = self.index.name();
        [format!("write_key_{name}"), format!("index_scores_{name}"), "top_k".to_owned()]
    }

    /// Starts writing the last key of each request from f32 rows.
    pub(super) fn start_write(
        &self,
        gpu: &Gpu,
        layer: usize,
        requests: usize,
        rows: &Memory,
    ) -> Result<(), GpuError> {
        self.pages.start_write(gpu, &self.write, layer, requests, rows, &self.slots)
    }

    /// Starts scoring all keys and choosing the best.
    pub(super) fn start(&self, gpu: &Gpu, layer: usize, requests: usize) -> Result<(), GpuError> {
        let arguments = Arguments::new()
            .memory(&self.query)
            .memory(&self.to_weights)
            .memory_at(&self.pages.memory, self.pages.layer(layer))
            .memory(&self.pages.table)
            .memory(&self.counts)
            .memory(&self.scores)
            .count(self.pages.stride)
            .count(self.count)
            .count(self.index.heads);
        gpu.launch(&self.score, [self.blocks, requests, 1], &arguments)?;
        let arguments = Arguments::new()
            .memory(&self.scores)
            .memory(&self.counts)
            .memory(&self.chosen)
            .count(self.count)
            .count(self.top_k);
        gpu.launch(&self.choose, [requests, 1, 1], &arguments)
    }

    /// The key that a step writes into the first request, as numbers.
    pub(super) fn written(&self, layer: usize) -> Result<Vec<f64>, GpuError> {
        let last = self.count - 1;
        let page = self.pages.page(layer, 0, last / PAGE_KEYS)?;
        Ok(self.index.key(&page, last % PAGE_KEYS))
    }

    pub(super) fn written_tolerance(&self) -> f64 {
        self.index.written_tolerance()
    }

    /// What was chosen of the first request, how many are read of it, and whether scores and choice hold: the largest
    /// error of a score, infinite where a better key was left out. Over as many keys as the reference has time for.
    pub(super) fn check(&self, layer: usize) -> Result<(Vec<usize>, f64, Option<String>), GpuError> {
        let read = self.top_k.min(self.count);
        let numbers = self.chosen.read(0, self.top_k * 4)?;
        let numbers: Vec<i32> =
            numbers.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let chosen: Vec<usize> = numbers.iter().filter_map(|number| usize::try_from(*number).ok()).collect();
        let is_in_order = chosen.windows(2).all(|pair| pair[0] < pair[1]);
        if chosen.len() != read || !is_in_order || chosen.last().is_some_and(|last| *last >= self.count) {
            return Ok(((0..read).collect(), f64::INFINITY, None));
        }
        let affordable = (CHECKED_PRODUCTS / (self.index.heads * WIDTH)).max(1);
        let keys = super::plan::spread(self.count, affordable);
        let got = floats_of(&self.scores.read(0, self.count * 4)?);
        let queries: Vec<Vec<f64>> =
            self.queries.chunks(WIDTH).take(self.index.heads).map(<[f64]>::to_vec).collect();
        let weights = widen(&self.weights[..self.index.heads]);
        let mut error = 0.0_f64;
        let largest =
            got.iter().fold(f64::MIN_POSITIVE, |largest, score| largest.max(f64::from(score.abs())));
        let mut held: Option<(usize, Vec<u8>)> = None;
        for key in &keys {
            let page = key / PAGE_KEYS;
            if held.as_ref().is_none_or(|(number, _)| *number != page) {
                held = Some((page, self.pages.page(layer, 0, page)?));
            }
            let (_, bytes) = held.as_ref().expect("read above");
            let right = index_score(&queries, &weights, &self.index.key(bytes, key % PAGE_KEYS));
            let off = (right - f64::from(got[*key])).abs() / largest;
            error = if off.is_nan() { f64::INFINITY } else { error.max(off) };
        }
        // Every score was computed, so the choice is judged over all of them.
        let mut is_chosen = vec![false; self.count];
        for key in &chosen {
            is_chosen[*key] = true;
        }
        let of =
            |wanted: bool| got.iter().zip(&is_chosen).filter(move |(_, is)| **is == wanted).map(|(s, _)| *s);
        let (least, best) =
            (of(true).fold(f32::INFINITY, f32::min), of(false).fold(f32::NEG_INFINITY, f32::max));
        if best > least || error > SCORE_TOLERANCE {
            error = f64::INFINITY;
        }
        let part = (keys.len() < self.count).then(|| format!("the scores of {} keys", keys.len()));
        Ok((chosen, error, part))
    }
}
