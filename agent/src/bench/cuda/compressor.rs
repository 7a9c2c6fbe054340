//! The compressor of DeepSeek-V4's attention as `compressor.cu` has it: rows of the last tokens, and what becomes of a group.

use std::rc::Rc;

use kvscope_reference::pooling::Group;
use kvscope_reference::{relative_error, widen};

use super::numbers::{Random, bytes_of, counts_of, floats_of};
use super::pages::filled;
use super::plan::{Extent, sizes};
use crate::bench::BenchError;
use crate::bench::cpu::{Kind, Run};
use crate::bench::shape::RowsShape;
use crate::gpu::{Arguments, Gpu, GpuError, Kernel, Memory};

/// Widths of the entries that are made, and of the index keys where they are made too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Compressor {
    ratio: usize,
    halves: usize,
    widths: [Option<usize>; 2],
    rope: usize,
}

/// Rows of all layers, with what a trained compressor brings.
pub(super) struct HeldCompressor {
    plan: Compressor,
    context: usize,
    rows: Memory,
    layer_bytes: u64,
    fresh_row: Vec<f32>,
    fresh: Memory,
    tokens: Memory,
    pub(super) made: Vec<Made>,
    kernel: Kernel,
}

/// One thing that is made of a group: an entry or an index key.
pub(super) struct Made {
    width: usize,
    rope: usize,
    /// Where its part of a row begins.
    first: usize,
    bias: Vec<f32>,
    gains: Vec<f32>,
    turns: Vec<f32>,
    weights: [Memory; 3],
    pub(super) values: Memory,
}

impl Compressor {
    pub(super) fn new(
        rows: &RowsShape,
        ratio: usize,
        widths: [Option<usize>; 2],
        rope: usize,
    ) -> Result<Self, BenchError> {
        let [kept, values] = sizes(rows, [rows.rows, rows.values])?;
        let compressor = Self { ratio, halves: kept / ratio, widths, rope };
        let fits = widths.into_iter().flatten().all(|width| width <= 512 && width.is_multiple_of(2));
        if !(1..=2).contains(&compressor.halves)
            || kept != compressor.ring()
            || compressor.stride() != values
            || !fits
        {
            let what = format!("a compressor of {kept} rows of {values} values for groups of {ratio}");
            return Err(BenchError::Shape(what));
        }
        Ok(compressor)
    }

    fn ring(self) -> usize {
        self.halves * self.ratio
    }

    /// Values of one token's row.
    fn stride(self) -> usize {
        self.widths.into_iter().flatten().map(|width| 2 * self.halves * width).sum()
    }

    /// Bytes of a request.
    pub(super) fn bytes(self) -> usize {
        self.ring() * self.stride() * 4
    }

    /// Kernels of a step.
    pub(super) fn kernels(self) -> usize {
        self.widths.into_iter().flatten().count()
    }
}

impl HeldCompressor {
    pub(super) fn new(gpu: &Rc<Gpu>, plan: Compressor, extent: Extent) -> Result<Self, BenchError> {
        let Extent { layers, requests, context, seed } = extent;
        let layer_bytes = (plan.bytes() * requests) as u64;
        let runs = [Run { bytes: plan.stride() * 4, kind: Kind::F32 }];
        let rows = filled(gpu, layer_bytes * layers as u64, plan.stride() * 4, &runs, seed ^ 0xC0)?;
        let mut random = Random::new(seed ^ 0xC01);
        let fresh_row = random.between(-2.0, 2.0, requests * plan.stride());
        let mut first = 0;
        let mut made = Vec::new();
        for width in plan.widths.into_iter().flatten() {
            made.push(Made::new(gpu, plan, width, first, requests, &mut random)?);
            first += 2 * plan.halves * width;
        }
        Ok(Self {
            plan,
            context,
            rows,
            layer_bytes,
            fresh: Memory::of(gpu, &bytes_of(&fresh_row))?,
            fresh_row,
            tokens: Memory::of(gpu, &counts_of(vec![context; requests]))?,
            made,
            kernel: gpu.kernel("compressor", "compress", 512)?,
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.rows.bytes()
    }

    pub(super) fn start(&self, gpu: &Gpu, layer: usize, requests: usize) -> Result<(), GpuError> {
        for made in &self.made {
            let [bias, gains, turns] = &made.weights;
            let arguments = Arguments::new()
                .memory_at(&self.rows, layer as u64 * self.layer_bytes)
                .memory(&self.fresh)
                .memory(bias)
                .memory(gains)
                .memory(turns)
                .memory(&self.tokens)
                .memory(&made.values)
                .count(self.plan.stride())
                .count(made.first)
                .count(made.width)
                .count(made.rope)
                .count(self.plan.ratio)
                .count(self.plan.halves);
            gpu.launch(&self.kernel, [requests, 1, 1], &arguments)?;
        }
        Ok(())
    }

    /// What was made of the first request's group number `place`, as numbers.
    pub(super) fn values(&self, place: usize) -> Result<Vec<f32>, GpuError> {
        let made = &self.made[place];
        Ok(floats_of(&made.values.read(0, made.width * 4)?))
    }

    /// The largest error of what was made of the first request's last group; of a step within a group that the new row is
    /// where it belongs.
    pub(super) fn check(&self, layer: usize) -> Result<f64, GpuError> {
        let (stride, ring) = (self.plan.stride(), self.plan.ring());
        let rows = floats_of(&self.rows.read(layer as u64 * self.layer_bytes, self.plan.bytes())?);
        let newest = &rows[(self.context - 1) % ring * stride..][..stride];
        if newest != &self.fresh_row[..stride] {
            return Ok(f64::INFINITY);
        }
        if !self.context.is_multiple_of(self.plan.ratio) {
            return Ok(0.0);
        }
        let mut worst = 0.0_f64;
        for (place, made) in self.made.iter().enumerate() {
            let (bias, gains) = (widen(&made.bias), widen(&made.gains));
            let turns: Vec<(f64, f64)> = made.turns[..made.rope]
                .chunks(2)
                .map(|turn| (f64::from(turn[0]), f64::from(turn[1])))
                .collect();
            let group = Group {
                width: made.width,
                ratio: self.plan.ratio,
                halves: self.plan.halves,
                bias: &bias,
                gains: &gains,
                turns: &turns,
            };
            let row = 2 * self.plan.halves * made.width;
            let of = |token: usize| widen(&rows[token % ring * stride + made.first..][..row]);
            let right = group.entry(self.context / self.plan.ratio - 1, &of);
            worst = worst.max(relative_error(right, &self.values(place)?));
        }
        Ok(worst)
    }
}

impl Made {
    fn new(
        gpu: &Rc<Gpu>,
        plan: Compressor,
        width: usize,
        first: usize,
        requests: usize,
        random: &mut Random,
    ) -> Result<Self, BenchError> {
        let rope = plan.rope.min(width);
        let bias = random.between(-0.5, 0.5, plan.ratio * plan.halves * width);
        let gains = random.between(0.5, 1.5, width);
        let angles = random.between(0.0, 6.0, requests * rope / 2);
        let turns: Vec<f32> = angles.iter().flat_map(|angle| [angle.cos(), angle.sin()]).collect();
        let weights = [
            Memory::of(gpu, &bytes_of(&bias))?,
            Memory::of(gpu, &bytes_of(&gains))?,
            Memory::of(gpu, &bytes_of(&turns))?,
        ];
        let values = Memory::new(gpu, (requests * width * 4) as u64)?;
        Ok(Self { width, rope, first, bias, gains, turns, weights, values })
    }
}
