//! One decode step of one layer over all workers: who reads which tokens, and the exact merge of their parts.

use std::sync::Mutex;

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use super::pool::{Pool, share};
use super::rows::Running;
use super::simd::{InstructionSet, split_place};
use super::state::PagedState;
use super::{gqa, mla};

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
            Self::Gqa(dims) => dims.page_values(),
            Self::Mla(dims) => dims.page_values(),
        }
    }

    fn scratch(&self) -> usize {
        match self {
            Self::Gqa(dims) => dims.scratch(),
            Self::Mla(dims) => dims.scratch(),
        }
    }

    /// What scores are multiplied with. For MLA the true factor depends on widths that the state does not show; it
    /// changes no time, and the reference uses the same.
    pub(crate) fn scale(&self) -> f64 {
        1.0 / (self.query_width() as f64).sqrt()
    }
}

/// Which part of which request a worker reads.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Part {
    request: usize,
    /// Logical pages in the page table.
    pages: std::ops::Range<usize>,
    tokens: usize,
}

/// A step over the first `context` tokens of the first `requests` requests of a state.
pub(crate) struct Step {
    kernel: Kernel,
    set: InstructionSet,
    /// A request's queries one after the other, in the order that the kernel reads.
    queries: Vec<Vec<f32>>,
    workers: Vec<Mutex<Worker>>,
    /// `[request][query_heads][output_width]`.
    output: Vec<f32>,
}

struct Worker {
    parts: Vec<Part>,
    scratch: Vec<f32>,
    running: Vec<Running>,
    summed: Vec<f32>,
}

/// What a [`Step`] runs over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) requests: usize,
    pub(crate) context: usize,
    /// Logical pages from one request to the next in the page table.
    pub(crate) pages_a_request: usize,
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
        let heads = kernel.query_heads();
        let workers = (0..workers)
            .map(|worker| {
                let parts = parts_of(extent, kernel.page_tokens(), worker, workers);
                let count = parts.len();
                Mutex::new(Worker {
                    parts,
                    scratch: vec![0.0; kernel.scratch()],
                    running: vec![Running::EMPTY; count * heads],
                    summed: vec![0.0; count * heads * kernel.output_width()],
                })
            })
            .collect();
        let queries =
            queries[..extent.requests].iter().map(|query| prepare_query(kernel, set, query)).collect();
        Self {
            kernel,
            set,
            queries,
            workers,
            output: vec![0.0; extent.requests * heads * kernel.output_width()],
        }
    }

    /// Runs the step for one layer; call it inside [`Pool::enter`].
    pub(crate) fn run_layer(&mut self, state: &PagedState, layer: usize, pool: &Pool) {
        let values = state.layer(layer);
        let table = state.table();
        pool.each(|worker| {
            let mut worker = self.workers[worker].lock().expect("no worker panics in a kernel");
            self.run_worker(&mut worker, values, table);
        });
        self.merge();
    }

    /// `[request][query_heads][output_width]` of the last layer that was run.
    pub(crate) fn output(&self) -> &[f32] {
        &self.output
    }

    fn run_worker(&self, worker: &mut Worker, layer: &[u16], table: &[u32]) {
        let heads = self.kernel.query_heads();
        let width = heads * self.kernel.output_width();
        let places = worker.running.chunks_mut(heads).zip(worker.summed.chunks_mut(width));
        for (part, (running, summed)) in worker.parts.iter().zip(places) {
            let pages = &table[part.pages.clone()];
            let (tokens, query, scratch) =
                (part.tokens, &self.queries[part.request][..], &mut worker.scratch[..]);
            match self.kernel {
                Kernel::Gqa(dimensions) => gqa::attend(
                    self.set,
                    gqa::Span { dimensions, layer, pages, tokens, query, scratch, running, summed },
                ),
                Kernel::Mla(dimensions) => mla::attend(
                    self.set,
                    mla::Span { dimensions, layer, pages, tokens, query, scratch, running, summed },
                ),
            }
        }
    }

    /// Joins the workers' parts of each request and head: weights under one maximum, divided by one total.
    fn merge(&mut self) {
        let heads = self.kernel.query_heads();
        let width = self.kernel.output_width();
        let lanes = self.set.lanes();
        let workers: Vec<_> =
            self.workers.iter().map(|worker| worker.lock().expect("no worker panics in a kernel")).collect();
        let workers: Vec<&Worker> = workers.iter().map(|guard| &**guard).collect();
        let join = |(place, output): (usize, &mut [f32])| {
            let (request, head) = (place / heads, place % heads);
            let parts = || {
                workers.iter().flat_map(|worker| {
                    let own = worker.parts.iter().enumerate().filter(|(_, part)| part.request == request);
                    own.map(|(index, _)| {
                        let at = index * heads + head;
                        (worker.running[at], &worker.summed[at * width..(at + 1) * width])
                    })
                })
            };
            let maximum = parts().map(|(running, _)| running.maximum).fold(f32::NEG_INFINITY, f32::max);
            let total: f32 =
                parts().map(|(running, _)| running.total * (running.maximum - maximum).exp2()).sum();
            output.fill(0.0);
            for (running, summed) in parts() {
                let weight = (running.maximum - maximum).exp2() / total;
                for (block, split) in output.chunks_mut(2 * lanes).zip(summed.chunks(2 * lanes)) {
                    let (even, odd) = split.split_at(lanes);
                    for ((pair, even), odd) in block.chunks_exact_mut(2).zip(even).zip(odd) {
                        pair[0] += weight * even;
                        pair[1] += weight * odd;
                    }
                }
            }
        };
        let work = self.output.len() * workers.len();
        // Waking workers for less than about 10 µs of work costs more than it saves.
        if work < 1 << 16 {
            self.output.chunks_mut(width).enumerate().for_each(join);
        } else {
            self.output.par_chunks_mut(width).enumerate().for_each(join);
        }
    }
}

fn parts_of(extent: Extent, page_tokens: usize, worker: usize, workers: usize) -> Vec<Part> {
    let used = extent.context.div_ceil(page_tokens);
    let mine = share(extent.requests * used, worker, workers);
    let mut parts = Vec::new();
    let mut next = mine.start;
    while next < mine.end {
        let (request, first) = (next / used, next % used);
        let end = used.min(first + mine.end - next);
        let base = request * extent.pages_a_request;
        parts.push(Part {
            request,
            pages: base + first..base + end,
            tokens: extent.context.min(end * page_tokens) - first * page_tokens,
        });
        next += end - first;
    }
    parts
}

/// Scales to base-2 scores and puts the values in the kernel's order.
fn prepare_query(kernel: Kernel, set: InstructionSet, query: &[f32]) -> Vec<f32> {
    #[allow(clippy::cast_possible_truncation, reason = "a factor near 0.1 needs no f64")]
    let factor = (kernel.scale() * std::f64::consts::LOG2_E) as f32;
    let scaled: Vec<f32> = query.iter().map(|value| value * factor).collect();
    match kernel {
        Kernel::Mla(dims) => mla::pack_query(set, dims, &scaled),
        Kernel::Gqa(dims) => {
            let mut split = vec![0.0; scaled.len()];
            for (from, to) in scaled.chunks(dims.k_width).zip(split.chunks_mut(dims.k_width)) {
                for (index, value) in from.iter().enumerate() {
                    to[split_place(index, set.lanes())] = *value;
                }
            }
            split
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_every_token_of_every_request_once() {
        for (requests, context, page_tokens, workers) in
            [(1, 1, 16, 2), (3, 100, 16, 2), (2, 129, 64, 5), (1, 4096, 16, 3), (5, 17, 16, 16)]
        {
            let extent = Extent { requests, context, pages_a_request: context.div_ceil(page_tokens) + 3 };
            let mut tokens = vec![0; requests];
            let mut pages = Vec::new();
            for worker in 0..workers {
                for part in parts_of(extent, page_tokens, worker, workers) {
                    assert_eq!(part.tokens.div_ceil(page_tokens), part.pages.len());
                    tokens[part.request] += part.tokens;
                    pages.extend(part.pages);
                }
            }
            assert_eq!(tokens, vec![context; requests]);
            let used = context.div_ceil(page_tokens);
            let right: Vec<usize> =
                (0..requests).flat_map(|r| (0..used).map(move |p| r * extent.pages_a_request + p)).collect();
            assert_eq!(pages, right);
        }
    }
}
