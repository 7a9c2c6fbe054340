//! The CPU backend: real paged decode attention over real state, on all cores.
#![allow(
    clippy::inline_always,
    reason = "a helper that is not inlined is compiled without the instruction set"
)]
#![allow(
    clippy::many_single_char_names,
    reason = "h, t and d are head, token and dimension in every formula"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "constant ranges unroll; iterators in kernels may not be inlined"
)]
#![allow(clippy::needless_pass_by_value, reason = "a kernel takes its argument whole, through one dispatch")]
#![allow(clippy::wildcard_imports, reason = "intrinsics have their prefix in the name")]

mod ceilings;
mod gqa;
mod mla;
mod pool;
mod reference;
mod rows;
mod simd;
mod state;
mod step;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use half::bf16;
use kvscope_protocol::run::Machine;
use kvscope_sizing::Bytes;
use kvscope_sizing::prediction::Calibration;
use memmap2::MmapMut;

use self::ceilings::Limits;
use self::pool::Pool;
use self::simd::InstructionSet;
use self::state::{PagedState, StateShape, random_value};
use self::step::{Extent, Kernel, Step};
use super::backend::{Backend, Calibrated, CaseOrder, Check, Layout, PreparedCase, Resident};
use super::plan::FormShape;
use super::{BenchError, Interrupt, machine, memory};

/// The buffer that is read for the read ceiling, and to empty caches, is no larger than this.
const LARGEST_READ_BUFFER: u64 = 512 << 20;
/// The rule of STREAM: a working set of four times the last-level cache is in memory.
pub(crate) const CACHE_MULTIPLE: u64 = 4;

/// All cores of this machine.
#[derive(Debug)]
pub(crate) struct CpuBackend {
    pool: Arc<Pool>,
    buffer: Option<MmapMut>,
}

impl CpuBackend {
    /// Starts the workers.
    pub(crate) fn new() -> Result<Self, BenchError> {
        Ok(Self { pool: Arc::new(Pool::for_all_cores()?), buffer: None })
    }

    /// Four times the last-level cache, or less where memory or [`LARGEST_READ_BUFFER`] asks for it; filled with random
    /// values so that no page is the system's zero page.
    fn read_buffer(&mut self) -> Result<&[u16], BenchError> {
        if self.buffer.is_none() {
            let cache =
                machine::last_level_cache().map_or(LARGEST_READ_BUFFER, |bytes| bytes * CACHE_MULTIPLE);
            let bytes = cache.clamp(64 << 20, LARGEST_READ_BUFFER).min(memory::free_bytes() / 4).max(1 << 20);
            let pages = usize::try_from(bytes / 4096).expect("at most 512 MiB");
            let shape = StateShape { layers: 1, pages, page_values: 2048 };
            self.buffer = Some(PagedState::new(shape, 3, &self.pool)?.into_map());
        }
        let map = self.buffer.as_ref().expect("filled above");
        Ok(bytemuck::cast_slice(&map[..]))
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn machine(&self) -> Machine {
        Machine {
            cores: u32::try_from(self.pool.workers()).ok(),
            pinned: Some(self.pool.pinned()),
            instructions: InstructionSet::available().first().map(|set| set.name().to_owned()),
            ..machine::describe()
        }
    }

    fn calibrate(&mut self, time: Duration, interrupt: Interrupt<'_>) -> Result<Calibrated, BenchError> {
        interrupt.check()?;
        let started = Instant::now();
        let pool = Arc::clone(&self.pool);
        let buffer = self.read_buffer()?;
        let limits = Limits { time: time.saturating_sub(started.elapsed()), least_samples: 5 };
        let set = InstructionSet::available()[0];
        let (ceilings, relative_spread) = ceilings::measure(&pool, set, buffer, limits);
        let calibration = Calibration {
            date: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            ceilings,
            relative_spread,
            last_level_cache_bytes: machine::last_level_cache().map(Bytes::new),
            workers: u32::try_from(pool.workers()).unwrap_or(u32::MAX),
        };
        let buffer = Bytes::new(std::mem::size_of_val(buffer) as u64);
        Ok(Calibrated { calibration, buffer, instructions: set.name() })
    }

    fn free_state_bytes(&self) -> Bytes {
        Bytes::new(memory::free_bytes() / 4)
    }

    fn layout(&self, shape: &FormShape) -> Result<Layout, BenchError> {
        let (kernel, set) = kernel_for(shape)?;
        let flops = match kernel {
            Kernel::Gqa(dims) => 2 * dims.query_heads * (dims.k_width + dims.v_width),
            Kernel::Mla(dims) => 2 * dims.query_heads * (dims.width() + dims.latent),
        };
        Ok(Layout {
            page_tokens: kernel.page_tokens() as u64,
            page_bytes: kernel.page_values() as u64 * 2,
            flops_a_token: flops as u64,
            instructions: set.name(),
        })
    }

    fn prepare(&mut self, order: &CaseOrder) -> Result<Box<dyn PreparedCase>, BenchError> {
        Ok(Box::new(CpuCase::new(order, Arc::clone(&self.pool))?))
    }

    fn empty_caches(&mut self) -> Result<(), BenchError> {
        let set = InstructionSet::available()[0];
        let pool = Arc::clone(&self.pool);
        ceilings::read_once(&pool, set, self.read_buffer()?);
        Ok(())
    }
}

/// The kernel for a shape, and the widest instruction set that divides its rows.
fn kernel_for(shape: &FormShape) -> Result<(Kernel, InstructionSet), BenchError> {
    let size = |value: u64| usize::try_from(value).ok().filter(|value| (1..=1 << 16).contains(value));
    let wrong = || BenchError::Shape(format!("{shape:?} has a head count or width outside 1 to 65,536"));
    let (kernel, widths) = match shape {
        FormShape::Gqa(gqa) => {
            let sizes = [gqa.query_heads, gqa.kv_heads, gqa.k_width, gqa.v_width].map(size);
            let [Some(query_heads), Some(kv_heads), Some(k_width), Some(v_width)] = sizes else {
                return Err(wrong());
            };
            if query_heads % kv_heads != 0 {
                let what = format!("{query_heads} query heads are no multiple of {kv_heads} key-value heads");
                return Err(BenchError::Shape(what));
            }
            (Kernel::Gqa(gqa::Dimensions { query_heads, kv_heads, k_width, v_width }), vec![k_width, v_width])
        }
        FormShape::Mla(mla) => {
            let [Some(query_heads), Some(latent), Some(rope)] =
                [mla.query_heads, mla.latent, mla.rope].map(size)
            else {
                return Err(wrong());
            };
            if rope % 16 != 0 {
                return Err(BenchError::Shape(format!("a rope width of {rope} is no multiple of 16")));
            }
            (Kernel::Mla(mla::Dimensions { query_heads, latent, rope }), vec![latent])
        }
    };
    let set = InstructionSet::for_widths(&widths)
        .ok_or_else(|| BenchError::Shape(format!("head widths {widths:?} are not multiples of 16")))?;
    Ok((kernel, set))
}

/// State and step of one case.
struct CpuCase {
    pool: Arc<Pool>,
    state: PagedState,
    kernel: Kernel,
    set: InstructionSet,
    extent: Extent,
    /// `[request][query_heads × query_width]`, bf16 values.
    queries: Vec<Vec<f32>>,
    step: Step,
    resident: Option<Resident>,
}

impl CpuCase {
    fn new(order: &CaseOrder, pool: Arc<Pool>) -> Result<Self, BenchError> {
        let (kernel, set) = kernel_for(&order.shape)?;
        Self::with_set(order, kernel, set, pool)
    }

    fn with_set(
        order: &CaseOrder,
        kernel: Kernel,
        set: InstructionSet,
        pool: Arc<Pool>,
    ) -> Result<Self, BenchError> {
        let size = |value: u64| {
            usize::try_from(value)
                .map_err(|_| BenchError::Shape(format!("{value} is too large for this machine")))
        };
        let (layers, context, requests) = (size(order.layers)?, size(order.context)?, size(order.batch)?);
        if layers == 0 || context == 0 || requests == 0 {
            return Err(BenchError::Shape("layers, context and batch must be at least 1".to_owned()));
        }
        let pages_a_request = context.div_ceil(kernel.page_tokens());
        let pages = pages_a_request.checked_mul(requests).ok_or_else(|| {
            BenchError::Shape(format!("{requests} requests of {context} tokens are too many"))
        })?;

        let before = memory::resident();
        let shape = StateShape { layers, pages, page_values: kernel.page_values() };
        let state = PagedState::new(shape, order.seed, &pool)?;
        let resident = memory::resident().zip(before).map(|(after, before)| Resident {
            bytes: Bytes::new(after.bytes.get().saturating_sub(before.bytes.get())),
            huge_page_bytes: after
                .huge_page_bytes
                .zip(before.huge_page_bytes)
                .map(|(after, before)| Bytes::new(after.get().saturating_sub(before.get()))),
        });

        let extent = Extent { requests, context, pages_a_request };
        let mut random = fastrand::Rng::with_seed(order.seed ^ 0x5157);
        let queries: Vec<Vec<f32>> = (0..requests)
            .map(|_| {
                let count = kernel.query_heads() * kernel.query_width();
                (0..count).map(|_| bf16::from_bits(random_value(random.u64(..))).to_f32()).collect()
            })
            .collect();
        let step = Step::new(kernel, set, extent, &queries, pool.workers());
        Ok(Self { pool, state, kernel, set, extent, queries, step, resident })
    }

    /// Largest difference from the reference over the largest reference value, for the first request's first `tokens`
    /// tokens in the last layer, every head.
    fn compare(&self, tokens: usize) -> f64 {
        let extent = Extent { requests: 1, context: tokens, ..self.extent };
        let layer = self.state.layers() - 1;
        let mut step = Step::new(self.kernel, self.set, extent, &self.queries, self.pool.workers());
        self.pool.enter(|| step.run_layer(&self.state, layer, &self.pool));
        let (values, table) = (self.state.layer(layer), self.state.table());
        compare_with_reference(values, table, self.kernel, &self.queries[0], tokens, step.output())
    }
}

impl PreparedCase for CpuCase {
    fn asked_bytes(&self) -> Bytes {
        Bytes::new(self.state.bytes())
    }

    fn resident(&self) -> Option<Resident> {
        self.resident
    }

    fn check(&mut self) -> Check {
        // The reference does about 2e8 of these a second and core; a check is to take a fraction of a second.
        let a_token = self.kernel.query_heads() * (self.kernel.query_width() + self.kernel.output_width());
        let affordable = (30_000_000 / a_token).max(1);
        // One token less than whole pages, so that the last page's mask is checked too.
        let tokens = self.extent.context.min(affordable / 64 * 64 + 63);
        let error = self.compare(tokens);
        Check { largest_relative_error: error, tokens: tokens as u64 }
    }

    fn step(&mut self) -> Duration {
        let (state, step, pool) = (&self.state, &mut self.step, &self.pool);
        self.pool.enter(|| {
            let started = Instant::now();
            for layer in 0..state.layers() {
                step.run_layer(state, layer, pool);
            }
            started.elapsed()
        })
    }
}

/// Finds rows through the request's page table by itself and computes every head in f64.
fn compare_with_reference(
    values: &[u16],
    table: &[u32],
    kernel: Kernel,
    query: &[f32],
    tokens: usize,
    output: &[f32],
) -> f64 {
    let row = |offset_in_page: usize, token: usize, page_tokens: usize, stride: usize, width: usize| {
        let page = table[token / page_tokens] as usize;
        let first = page * kernel.page_values() + offset_in_page + token % page_tokens * stride;
        reference::widen(&values[first..first + width])
    };
    let key = |head: usize, token: usize| match kernel {
        Kernel::Gqa(dims) => {
            let kv_head = head / (dims.query_heads / dims.kv_heads);
            row(kv_head * 16 * dims.k_width, token, 16, dims.k_width, dims.k_width)
        }
        Kernel::Mla(dims) => row(0, token, 64, dims.latent + dims.rope, dims.latent + dims.rope),
    };
    let value = |head: usize, token: usize| match kernel {
        Kernel::Gqa(dims) => {
            let kv_head = head / (dims.query_heads / dims.kv_heads);
            let keys = dims.kv_heads * 16 * dims.k_width;
            row(keys + kv_head * 16 * dims.v_width, token, 16, dims.v_width, dims.v_width)
        }
        Kernel::Mla(dims) => row(0, token, 64, dims.latent + dims.rope, dims.latent),
    };
    let queries: Vec<Vec<f64>> = query
        .chunks(kernel.query_width())
        .map(|head| head.iter().map(|value| f64::from(*value)).collect())
        .collect();
    let attention =
        reference::Attention { queries: &queries, scale: kernel.scale(), tokens, key: &key, value: &value };

    let (mut difference, mut largest) = (0.0_f64, 0.0_f64);
    for (head, got) in output.chunks(kernel.output_width()).enumerate() {
        for (right, got) in reference::attend(&attention, head).iter().zip(got) {
            let off = (right - f64::from(*got)).abs();
            // `max` would drop NaN.
            difference = if off.is_nan() { f64::INFINITY } else { difference.max(off) };
            largest = largest.max(right.abs());
        }
    }
    difference / largest
}
