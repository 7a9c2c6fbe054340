//! One decode step of one layer over all workers: who reads which tokens, and the exact merge of their parts.

use std::sync::Mutex;

use super::gather::{self, Records, Store};
use super::parts::{Extent, WorkerParts, join, parts_of};
use super::pool::Pool;
use super::simd::InstructionSet;
use super::state::{PagedState, Run};
use super::{gqa, mla, shared_rows};

/// A kernel with its layer's dimensions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kernel {
    Gqa(gqa::Dimensions),
    Mla(mla::Dimensions),
}

impl Kernel {
    pub(crate) fn query_heads(&self) -> usize {
        match self {
            Self::Gqa(dims) => dims.query_heads,
            Self::Mla(dims) => dims.query_heads,
        }
    }

    /// Values of one head's query.
    pub(crate) fn query_width(&self) -> usize {
        match self {
            Self::Gqa(dims) => dims.k_width,
            Self::Mla(dims) => dims.width(),
        }
    }

    /// Values of one head's output.
    pub(crate) fn output_width(&self) -> usize {
        match self {
            Self::Gqa(dims) => dims.v_width,
            Self::Mla(dims) => dims.latent,
        }
    }

    pub(crate) fn page_tokens(&self) -> usize {
        match self {
            Self::Gqa(_) => gqa::PAGE_TOKENS,
            Self::Mla(_) => mla::PAGE_TOKENS,
        }
    }

    pub(crate) fn page_values(&self) -> usize {
        match self {
            Self::Gqa(dims) => dims.page_bytes() / 2,
            Self::Mla(dims) => dims.page_bytes() / 2,
        }
    }

    /// What a page is filled with.
    pub(crate) fn page_runs(&self) -> Vec<Run> {
        match self {
            Self::Gqa(dims) => dims.page_runs(),
            Self::Mla(dims) => dims.record.runs(),
        }
    }

    fn scratch(&self) -> usize {
        match self {
            Self::Gqa(dims) => dims.scratch(),
            Self::Mla(dims) => dims.rows().scratch(),
        }
    }

    /// What scores are multiplied with. For MLA the true factor depends on widths that the state does not show; it
    /// changes no time, and the reference uses the same.
    pub(crate) fn scale(&self) -> f64 {
        1.0 / (self.query_width() as f64).sqrt()
    }
}

/// A step over the first `context` tokens of the first `requests` requests of a state.
pub(crate) struct Step {
    kernel: Kernel,
    set: InstructionSet,
    /// A request's queries one after the other, in the order that the kernel reads.
    queries: Vec<Vec<f32>>,
    workers: Vec<Mutex<WorkerParts>>,
    /// `[request][query_heads][output_width]`.
    output: Vec<f32>,
}

impl Step {
    /// Splits the tokens over the workers, page by page. `queries` is `[request][query_heads × query_width]`, as given.
    pub(crate) fn new(
        kernel: Kernel,
        set: InstructionSet,
        extent: Extent,
        queries: &[Vec<f32>],
        workers: usize,
    ) -> Self {
        let (heads, width) = (kernel.query_heads(), kernel.output_width());
        let workers = (0..workers)
            .map(|worker| {
                let parts = parts_of(extent, kernel.page_tokens(), worker, workers);
                Mutex::new(WorkerParts::new(parts, heads, width, kernel.scratch()))
            })
            .collect();
        let queries =
            queries[..extent.requests].iter().map(|query| prepare_query(kernel, set, query)).collect();
        Self { kernel, set, queries, workers, output: vec![0.0; extent.requests * heads * width] }
    }

    /// Runs the step for one layer; call it inside [`Pool::enter`].
    pub(crate) fn run_layer(&mut self, state: &PagedState, layer: usize, pool: &Pool) {
        let (layer, table) = (state.layer_bytes(layer), state.table());
        pool.each(|worker| {
            let mut worker = self.workers[worker].lock().expect("no worker panics in a kernel");
            self.run_worker(&mut worker, layer, table);
        });
        join(&self.workers, None, &mut self.output, pool);
    }

    /// `[request][query_heads][output_width]` of the last layer that was run.
    pub(crate) fn output(&self) -> &[f32] {
        &self.output
    }

    fn run_worker(&self, worker: &mut WorkerParts, layer: &[u8], table: &[u32]) {
        worker.each(|part, sums, scratch| {
            let pages = &table[part.pages.clone()];
            let (tokens, query) = (part.tokens, &self.queries[part.request][..]);
            let (running, summed) = (sums.running, sums.summed);
            match self.kernel {
                Kernel::Gqa(dimensions) => {
                    let score_factor = score_factor(self.kernel);
                    let span = gqa::Span {
                        dimensions,
                        layer,
                        pages,
                        tokens,
                        query,
                        score_factor,
                        scratch,
                        running,
                        summed,
                    };
                    gqa::attend(self.set, span);
                }
                Kernel::Mla(dims) => {
                    let stores = [Store { record: dims.record, layer }];
                    let span = gather::Span {
                        dimensions: dims.rows(),
                        stores: &stores,
                        records: Records::Pages { pages, count: tokens },
                        query,
                        scratch,
                        running,
                        summed,
                    };
                    gather::attend(self.set, span);
                }
            }
        });
    }
}

/// What makes base-2 scores of products of query and key.
fn score_factor(kernel: Kernel) -> f32 {
    #[allow(clippy::cast_possible_truncation, reason = "a factor near 0.1 needs no f64")]
    let factor = (kernel.scale() * std::f64::consts::LOG2_E) as f32;
    factor
}

/// Puts the values in the kernel's order; MLA's are scaled to base-2 scores.
fn prepare_query(kernel: Kernel, set: InstructionSet, query: &[f32]) -> Vec<f32> {
    match kernel {
        Kernel::Mla(dims) => {
            let scaled: Vec<f32> = query.iter().map(|value| value * score_factor(kernel)).collect();
            shared_rows::pack_query(set, dims.rows(), &scaled)
        }
        Kernel::Gqa(dims) => gqa::pack_query(set, dims, query),
    }
}
