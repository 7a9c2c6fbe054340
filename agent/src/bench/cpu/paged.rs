//! Attention over paged state: every token of a request read by its heads, in one pass over its pages.

use std::sync::Arc;
use std::time::Instant;

use half::bf16;
use kvscope_sizing::{Bytes, KvFormat, Tokens};

use super::composite::latent_record;
use super::parts::Extent;
use super::pool::Pool;
use super::simd::InstructionSet;
use super::state::{PagedState, StateShape, random_value};
use super::step::{Kernel, Step};
use super::{gqa, mla, records, reference};
use crate::bench::backend::{CaseOrder, Check, Layout, PreparedCase, Resident, Timed};
use crate::bench::shape::{GqaShape, MlaShape, TokenRange};
use crate::bench::{BenchError, memory};

/// A kernel with its layer's dimensions and the widest instruction set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paged {
    pub(super) kernel: Kernel,
    pub(super) set: InstructionSet,
    /// The order of a window's tokens in its ring does not change what is read; it is held as so many tokens.
    pub(super) range: TokenRange,
}

impl Paged {
    pub(super) fn gqa(shape: &GqaShape) -> Result<Self, BenchError> {
        let sizes = [shape.query_heads, shape.kv_heads, shape.k_width, shape.v_width].map(size);
        let [Some(query_heads), Some(kv_heads), Some(k_width), Some(v_width)] = sizes else {
            return Err(too_wide(shape));
        };
        if query_heads % kv_heads != 0 {
            let what = format!("{query_heads} query heads are no multiple of {kv_heads} key-value heads");
            return Err(BenchError::Shape(what));
        }
        let dims = gqa::Dimensions { query_heads, kv_heads, k_width, v_width, format: format_of(shape)? };
        Self::new(Kernel::Gqa(dims), &[k_width, v_width], shape.range)
    }

    pub(super) fn mla(shape: &MlaShape) -> Result<Self, BenchError> {
        let [Some(query_heads), Some(latent), Some(rope)] =
            [shape.query_heads, shape.latent, shape.rope].map(size)
        else {
            return Err(too_wide(shape));
        };
        let record = latent_record(shape.format, latent, rope)?;
        let dims = mla::Dimensions { query_heads, latent, rope, record };
        if !record.is_whole() {
            return Err(BenchError::Shape(format!("{record:?} is not in whole blocks")));
        }
        Self::new(Kernel::Mla(dims), &[latent, rope], TokenRange::All)
    }

    fn new(kernel: Kernel, widths: &[usize], range: TokenRange) -> Result<Self, BenchError> {
        if widths.iter().any(|width| width % 16 != 0) {
            return Err(BenchError::Shape(format!("widths {widths:?} are not multiples of 16")));
        }
        Ok(Self { kernel, set: InstructionSet::available()[0], range })
    }
}

/// The storage that keys and values share.
fn format_of(shape: &GqaShape) -> Result<gqa::Format, BenchError> {
    match (shape.k_format, shape.v_format) {
        (KvFormat::Bf16, KvFormat::Bf16) => Ok(gqa::Format::Bf16),
        (KvFormat::Fp8, KvFormat::Fp8) => Ok(gqa::Format::Fp8),
        (KvFormat::Fp8PerTokenHead, KvFormat::Fp8PerTokenHead) => Ok(gqa::Format::Fp8PerTokenHead),
        (KvFormat::Int8PerTokenHead, KvFormat::Int8PerTokenHead) => Ok(gqa::Format::Int8PerTokenHead),
        (k, v) => Err(BenchError::Shape(format!(
            "K in {k} and V in {v}: both in bf16, fp8, fp8_per_token_head or int8_per_token_head are measured"
        ))),
    }
}

impl super::Kernel for Paged {
    fn layout(&self, context: u64, batch: u64) -> Result<Layout, BenchError> {
        let tokens = self.range.kept(context);
        let (page_tokens, page_bytes) =
            (self.kernel.page_tokens() as u64, self.kernel.page_values() as u64 * 2);
        let pages = tokens.div_ceil(page_tokens);
        let too_much = || kvscope_sizing::Error::overflow(format!("{batch} requests of {context} tokens"));
        let layer_bytes =
            pages.checked_mul(page_bytes).and_then(|bytes| bytes.checked_mul(batch)).ok_or_else(too_much)?;
        Ok(Layout {
            layer_bytes,
            padding_bytes: (pages * page_tokens - tokens) * (page_bytes / page_tokens) * batch,
            padding_reason: "whole pages",
            // The heads' parts, and their joining.
            launches: 2,
            instructions: self.set.name(),
        })
    }

    fn prepare(&self, order: &CaseOrder, pool: Arc<Pool>) -> Result<Box<dyn PreparedCase>, BenchError> {
        Ok(Box::new(PagedCase::new(order, *self, pool)?))
    }
}

fn size(value: u64) -> Option<usize> {
    usize::try_from(value).ok().filter(|value| (1..=1 << 16).contains(value))
}

fn too_wide(shape: &dyn std::fmt::Debug) -> BenchError {
    BenchError::Shape(format!("{shape:?} has a head count or width outside 1 to 65,536"))
}

/// State and step of one case.
pub(super) struct PagedCase {
    pool: Arc<Pool>,
    pub(super) state: PagedState,
    pub(super) kernel: Kernel,
    set: InstructionSet,
    pub(super) extent: Extent,
    /// `[request][query_heads × query_width]`, bf16 values.
    pub(super) queries: Vec<Vec<f32>>,
    pub(super) step: Step,
    resident: Option<Resident>,
}

impl PagedCase {
    pub(super) fn new(order: &CaseOrder, paged: Paged, pool: Arc<Pool>) -> Result<Self, BenchError> {
        let Paged { kernel, set, range } = paged;
        let size = |value: u64| {
            usize::try_from(value)
                .map_err(|_| BenchError::Shape(format!("{value} is too large for this machine")))
        };
        let (kept, context) = (size(range.kept(order.context))?, size(range.read(order.context))?);
        let (layers, requests) = (size(order.layers)?, size(order.batch)?);
        if layers == 0 || context == 0 || requests == 0 {
            return Err(BenchError::Shape("layers, context and batch must be at least 1".to_owned()));
        }
        let pages_a_request = kept.div_ceil(kernel.page_tokens());
        let pages = pages_a_request
            .checked_mul(requests)
            .ok_or_else(|| BenchError::Shape(format!("{requests} requests of {kept} tokens are too many")))?;

        let before = memory::resident();
        let shape = StateShape { layers, pages, page_values: kernel.page_values() };
        let state = PagedState::filled(shape, &kernel.page_runs(), order.seed, &pool)?;
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
        let (bytes, table) = (self.state.layer_bytes(layer), self.state.table());
        compare_with_reference(bytes, table, self.kernel, &self.queries[0], tokens, step.output())
    }
}

impl PreparedCase for PagedCase {
    fn asked_bytes(&self) -> Bytes {
        Bytes::new(self.state.bytes())
    }

    fn resident(&self) -> Option<Resident> {
        self.resident
    }

    fn check(&mut self) -> Result<Check, BenchError> {
        // The reference does about 2e8 of these a second and core; a check is to take a fraction of a second.
        let a_token = self.kernel.query_heads() * (self.kernel.query_width() + self.kernel.output_width());
        let affordable = (30_000_000 / a_token).max(1);
        // One token less than whole pages, so that the last page's mask is checked too.
        let tokens = self.extent.context.min(affordable / 64 * 64 + 63);
        let error = self.compare(tokens);
        Ok(Check { largest_relative_error: error, part: part_of_tokens(tokens, self.extent) })
    }

    fn step(&mut self) -> Result<Timed, BenchError> {
        let (state, step, pool) = (&self.state, &mut self.step, &self.pool);
        Ok(Timed::on_processors(self.pool.enter(|| {
            let started = Instant::now();
            for layer in 0..state.layers() {
                step.run_layer(state, layer, pool);
            }
            started.elapsed()
        })))
    }
}

/// What a check over `tokens` tokens of the first request leaves out, in words; none where it leaves out nothing.
fn part_of_tokens(tokens: usize, extent: Extent) -> Option<String> {
    let request = match extent.requests {
        1 if tokens >= extent.context => return None,
        1 => "the request".to_owned(),
        more => format!("the first of {more} requests"),
    };
    Some(format!("the first {} tokens of {request}, all heads of the last layer", Tokens::new(tokens as u64)))
}

/// Finds rows through the request's page table by itself and computes every head in f64.
pub(super) fn compare_with_reference(
    layer: &[u8],
    table: &[u32],
    kernel: Kernel,
    query: &[f32],
    tokens: usize,
    output: &[f32],
) -> f64 {
    let page_bytes = kernel.page_values() * 2;
    let page_of = |token: usize| {
        let page = table[token / kernel.page_tokens()] as usize;
        &layer[page * page_bytes..(page + 1) * page_bytes]
    };
    let mla_row = |token: usize, dims: mla::Dimensions| {
        let bytes = dims.record.bytes();
        records::reference::row(&page_of(token)[token % 64 * bytes..][..bytes], dims.record)
    };
    let key = |head: usize, token: usize| match kernel {
        Kernel::Gqa(dims) => {
            let kv_head = head / (dims.query_heads / dims.kv_heads);
            gqa::reference::key(page_of(token), dims, kv_head, token % 16)
        }
        Kernel::Mla(dims) => mla_row(token, dims),
    };
    let value = |head: usize, token: usize| match kernel {
        Kernel::Gqa(dims) => {
            let kv_head = head / (dims.query_heads / dims.kv_heads);
            gqa::reference::value(page_of(token), dims, kv_head, token % 16)
        }
        Kernel::Mla(dims) => mla_row(token, dims)[..dims.latent].to_vec(),
    };
    let queries: Vec<Vec<f64>> = query
        .chunks(kernel.query_width())
        .map(|head| head.iter().map(|value| f64::from(*value)).collect())
        .collect();
    let attention =
        reference::Attention { queries: &queries, scale: kernel.scale(), tokens, key: &key, value: &value };

    let right = (0..kernel.query_heads()).flat_map(|head| reference::attend(&attention, head));
    reference::relative_error(right, output)
}
