//! Who reads what: a step's requests and pages are shared out over the workers, and each request's parts are joined.

use std::ops::Range;
use std::sync::Mutex;

use super::pool::{Pool, share};
use super::rows::Running;

/// What a step runs over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) requests: usize,
    /// Tokens (or entries) of a request.
    pub(crate) context: usize,
    /// Logical pages from one request to the next in the page table.
    pub(crate) pages_a_request: usize,
}

/// Which part of which request a worker reads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Part {
    pub(crate) request: usize,
    /// Logical pages in the page table.
    pub(crate) pages: Range<usize>,
    pub(crate) tokens: usize,
}

/// One worker's parts with what it computes of them.
#[derive(Debug)]
pub(crate) struct WorkerParts {
    pub(crate) parts: Vec<Part>,
    pub(crate) scratch: Vec<f32>,
    /// `[part][heads]`
    running: Vec<Running>,
    /// `[part][heads][width]`
    summed: Vec<f32>,
    heads: usize,
    width: usize,
}

/// What a worker fills for one of its parts.
#[derive(Debug)]
pub(crate) struct Sums<'a> {
    /// `[heads]`
    pub(crate) running: &'a mut [Running],
    /// `[heads][width]`
    pub(crate) summed: &'a mut [f32],
}

impl WorkerParts {
    /// The share of one of `workers` in pages of `page_tokens`, for `heads` outputs of `width` values.
    pub(crate) fn new(parts: Vec<Part>, heads: usize, width: usize, scratch: usize) -> Self {
        let count = parts.len();
        Self {
            parts,
            scratch: vec![0.0; scratch],
            running: vec![Running::EMPTY; count * heads],
            summed: vec![0.0; count * heads * width],
            heads,
            width,
        }
    }

    /// Each part with its sums, and the worker's scratch.
    pub(crate) fn each(&mut self, mut run: impl FnMut(&Part, Sums<'_>, &mut [f32])) {
        let running = self.running.chunks_mut(self.heads);
        let summed = self.summed.chunks_mut(self.heads * self.width);
        for ((part, running), summed) in self.parts.iter().zip(running).zip(summed) {
            run(part, Sums { running, summed }, &mut self.scratch);
        }
    }
}

/// The parts of one worker: an equal share of all requests' pages.
pub(crate) fn parts_of(extent: Extent, page_tokens: usize, worker: usize, workers: usize) -> Vec<Part> {
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

/// Joins the workers' parts of each request and head in `output`, `[request][heads][width]`: weights under one maximum,
/// divided by one total. `sinks`, base-2 scores of the heads, add to the total and have no value.
pub(crate) fn join(workers: &[Mutex<WorkerParts>], sinks: Option<&[f32]>, output: &mut [f32], pool: &Pool) {
    let workers: Vec<_> =
        workers.iter().map(|worker| worker.lock().expect("no worker panics in a kernel")).collect();
    let workers: Vec<&WorkerParts> = workers.iter().map(|guard| &**guard).collect();
    let (heads, width) = (workers[0].heads, workers[0].width);
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
        let sink = sinks.map_or(f32::NEG_INFINITY, |sinks| sinks[head]);
        let maximum = parts().map(|(running, _)| running.maximum).fold(sink, f32::max);
        let total: f32 = parts().map(|(running, _)| running.total * (running.maximum - maximum).exp2()).sum();
        let total = total + (sink - maximum).exp2();
        output.fill(0.0);
        for (running, summed) in parts() {
            let weight = (running.maximum - maximum).exp2() / total;
            for (output, summed) in output.iter_mut().zip(summed) {
                *output += weight * summed;
            }
        }
    };
    let heads = output.len() / width;
    let mut rest = output;
    let shares: Vec<_> = (0..pool.workers())
        .map(|worker| {
            let mine = share(heads, worker, pool.workers());
            let (own, others) = std::mem::take(&mut rest).split_at_mut(mine.len() * width);
            rest = others;
            Mutex::new((mine.start, own))
        })
        .collect();
    pool.each(|worker| {
        let (first, own) = &mut *shares[worker].lock().expect("no worker panics while it joins");
        own.chunks_mut(width).enumerate().for_each(|(place, output)| join((*first + place, output)));
    });
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

    #[test]
    fn parts_are_joined_under_one_maximum_and_a_sink_takes_its_share() {
        // By hand: weights 2^0 × 1 and 2^1 × 3 over values 8 and 4 (summed 8 and 12), and a sink of 2^0:
        // (1 × 8 + 2 × 12) / (1 + 2 × 3 + 1) = 4.
        let part = || vec![Part { request: 0, pages: 0..1, tokens: 1 }];
        let mut workers = [WorkerParts::new(part(), 1, 1, 0), WorkerParts::new(part(), 1, 1, 0)];
        for (worker, (maximum, total, sum)) in workers.iter_mut().zip([(0.0, 1.0, 8.0), (1.0, 3.0, 12.0)]) {
            worker.each(|_, sums, _| {
                sums.running[0] = Running { maximum, total };
                sums.summed[0] = sum;
            });
        }
        let workers = workers.map(Mutex::new);
        let pool = Pool::with_workers(2).unwrap();
        let mut output = [0.0];
        join(&workers, Some(&[0.0]), &mut output, &pool);
        assert!((output[0] - 4.0).abs() < 1e-6);
        join(&workers, None, &mut output, &pool);
        assert!((output[0] - 32.0 / 7.0).abs() < 1e-6);
    }
}
