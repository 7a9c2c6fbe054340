//! State in pages that lie in random order.

use std::rc::Rc;

use super::numbers::Random;
use super::plan::Extent;
use crate::bench::BenchError;
use crate::bench::cpu::{Run, random_bytes};
use crate::gpu::{Arguments, Gpu, GpuError, Kernel, Memory};

/// So many random bytes are made; what is larger repeats them. Caches know data by its place, not by what it is.
const PATTERN: usize = 16 << 20;

/// The pages of all layers, and one table for all of them.
pub(super) struct Pages {
    pub(super) memory: Memory,
    pub(super) table: Memory,
    places: Vec<u32>,
    /// Pages of a request.
    pub(super) stride: usize,
    page_bytes: usize,
    layer_bytes: u64,
}

impl Pages {
    /// Asks for `stride` pages a request and layer and fills them with runs that repeat until a page is full.
    pub(super) fn new(
        gpu: &Rc<Gpu>,
        extent: Extent,
        stride: usize,
        page_bytes: usize,
        runs: &[Run],
        seed: u64,
    ) -> Result<Self, BenchError> {
        let pages = extent.requests.checked_mul(stride).filter(|pages| i32::try_from(*pages).is_ok());
        let pages = pages.ok_or_else(|| {
            BenchError::Shape(format!("{} requests of {stride} pages are too many", extent.requests))
        })?;
        let layer_bytes = pages as u64 * page_bytes as u64;
        let memory = filled(gpu, layer_bytes * extent.layers as u64, page_bytes, runs, seed)?;
        let mut places: Vec<u32> = (0..u32::try_from(pages).expect("checked above")).collect();
        Random::new(seed).rng().shuffle(&mut places);
        let table = Memory::of(gpu, bytemuck::cast_slice(&places))?;
        Ok(Self { memory, table, places, stride, page_bytes, layer_bytes })
    }

    /// The first byte of a layer.
    pub(super) fn layer(&self, layer: usize) -> u64 {
        layer as u64 * self.layer_bytes
    }

    /// What a request's page holds now, `page` counted in the order of its tokens.
    pub(super) fn page(&self, layer: usize, request: usize, page: usize) -> Result<Vec<u8>, GpuError> {
        let at = u64::from(self.places[request * self.stride + page]) * self.page_bytes as u64;
        self.memory.read(self.layer(layer) + at, self.page_bytes)
    }

    /// The place of a request's record among all records of the layer, `per_page` a page.
    pub(super) fn slot(&self, request: usize, index: usize, per_page: usize) -> usize {
        self.places[request * self.stride + index / per_page] as usize * per_page + index % per_page
    }

    /// Starts `write`, which puts one record of each request, made of f32 rows, into its slot of the layer.
    pub(super) fn start_write(
        &self,
        gpu: &Gpu,
        write: &Kernel,
        layer: usize,
        requests: usize,
        rows: &Memory,
        slots: &Memory,
    ) -> Result<(), GpuError> {
        let arguments =
            Arguments::new().memory(rows).memory_at(&self.memory, self.layer(layer)).memory(slots);
        gpu.launch(write, [requests, 1, 1], &arguments)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.memory.bytes()
    }
}

/// Memory of so many bytes in units of `unit`, each of which is filled with `runs`.
pub(super) fn filled(
    gpu: &Rc<Gpu>,
    bytes: u64,
    unit: usize,
    runs: &[Run],
    seed: u64,
) -> Result<Memory, BenchError> {
    let memory = Memory::new(gpu, bytes)?;
    let pattern = usize::try_from(bytes).unwrap_or(usize::MAX).min((PATTERN / unit).max(1) * unit);
    memory.write(0, &random_bytes(pattern, runs, seed))?;
    memory.repeat(pattern as u64)?;
    Ok(memory)
}
