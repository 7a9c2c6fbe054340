//! Attention over paged keys and values, every format and width.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

use kvscope_emulation::{
    Argument, Job, Launch, ORDERS, Random, bf16, f32s, floats, narrow, run, run_everywhere,
};
use kvscope_emulation::{DIVERGENT_BARRIER, Fault, MISSING_BARRIER, RACE};
use kvscope_reference::attention::{Attention, attend};
use kvscope_reference::numbers::{e4m3, f32_le};
use kvscope_reference::relative_error;

/// bf16 inputs: what a run on a GPU allows too.
const TOLERANCE: f64 = 2e-3;
const PAGE_TOKENS: usize = 16;
/// Pages that belong to no request.
const SPARE_PAGES: usize = 3;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Format {
    Bf16,
    Fp8,
    Fp8PerTokenHead,
    Int8PerTokenHead,
}

impl Format {
    const ALL: [Self; 4] = [Self::Bf16, Self::Fp8, Self::Fp8PerTokenHead, Self::Int8PerTokenHead];

    fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Fp8PerTokenHead => "fp8_per_token_head",
            Self::Int8PerTokenHead => "int8_per_token_head",
        }
    }

    fn element_bytes(self) -> usize {
        if self == Self::Bf16 { 2 } else { 1 }
    }

    fn scale_bytes(self) -> usize {
        if matches!(self, Self::Bf16 | Self::Fp8) { 0 } else { 4 }
    }

    fn number(self, bytes: &[u8]) -> f64 {
        match self {
            Self::Bf16 => kvscope_reference::numbers::bf16([bytes[0], bytes[1]]),
            Self::Fp8 | Self::Fp8PerTokenHead => e4m3(bytes[0]),
            Self::Int8PerTokenHead => f64::from(bytes[0].cast_signed()),
        }
    }

    fn values(self, count: usize, random: &mut Random) -> Vec<u8> {
        match self {
            Self::Bf16 => random.bf16(count),
            Self::Fp8 | Self::Fp8PerTokenHead => random.any_e4m3(count).iter().map(|c| c & 0xBF).collect(),
            Self::Int8PerTokenHead => random.bytes(count),
        }
    }

    fn scales(self, count: usize, random: &mut Random) -> Vec<u8> {
        let (low, high) = if self == Self::Int8PerTokenHead { (1.0 / 128.0, 1.0 / 64.0) } else { (0.5, 1.0) };
        if self.scale_bytes() == 0 { Vec::new() } else { f32s(&random.between(low, high, count)) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    format: Format,
    k_width: usize,
    v_width: usize,
    query_heads: usize,
    kv_heads: usize,
    /// First token and one past the last, of each request.
    ranges: &'a [(usize, usize)],
    splits: usize,
}

impl Case<'_> {
    fn keys_of_a_head(&self) -> usize {
        PAGE_TOKENS * self.k_width * self.format.element_bytes()
    }

    fn bytes_of_a_head(&self) -> usize {
        let values = PAGE_TOKENS * self.v_width * self.format.element_bytes();
        self.keys_of_a_head() + 2 * PAGE_TOKENS * self.format.scale_bytes() + values
    }

    /// Pages of random state, where nothing that a request does not read is a number.
    fn pages(&self, table: &[i32], stride: usize, random: &mut Random) -> Vec<u8> {
        let pages = table.len() + SPARE_PAGES;
        let (width, bytes) = (self.bytes_of_a_head(), self.format.element_bytes());
        let mut layer = vec![0xFF_u8; pages * self.kv_heads * width];
        for (request, (begin, end)) in self.ranges.iter().enumerate() {
            for (token, head) in
                (*begin..*end).flat_map(|token| (0..self.kv_heads).map(move |head| (token, head)))
            {
                let page = usize::try_from(table[request * stride + token / PAGE_TOKENS]).unwrap();
                let part = &mut layer[(page * self.kv_heads + head) * width..][..width];
                let slot = token % PAGE_TOKENS;
                let (keys, rest) = part.split_at_mut(self.keys_of_a_head());
                let (scales, values) = rest.split_at_mut(2 * PAGE_TOKENS * self.format.scale_bytes());
                let put =
                    |to: &mut [u8], at: usize, from: Vec<u8>| to[at..at + from.len()].copy_from_slice(&from);
                put(keys, slot * self.k_width * bytes, self.format.values(self.k_width, random));
                put(scales, slot * self.format.scale_bytes(), self.format.scales(1, random));
                put(scales, (PAGE_TOKENS + slot) * self.format.scale_bytes(), self.format.scales(1, random));
                put(values, slot * self.v_width * bytes, self.format.values(self.v_width, random));
            }
        }
        layer
    }

    /// The key (side 0) or value (side 1) of one token and head, by the page's description alone.
    fn row(&self, page: &[u8], head: usize, slot: usize, side: usize) -> Vec<f64> {
        let part = &page[head * self.bytes_of_a_head()..][..self.bytes_of_a_head()];
        let (bytes, scale_bytes) = (self.format.element_bytes(), self.format.scale_bytes());
        let scale = match scale_bytes {
            0 => 1.0,
            _ => f32_le(&part[self.keys_of_a_head() + (side * PAGE_TOKENS + slot) * scale_bytes..][..4]),
        };
        let (first, width) = match side {
            0 => (0, self.k_width),
            _ => (self.keys_of_a_head() + 2 * PAGE_TOKENS * scale_bytes, self.v_width),
        };
        let row = &part[first + slot * width * bytes..][..width * bytes];
        row.chunks(bytes).map(|element| scale * self.format.number(element)).collect()
    }

    /// The job, and what its result should be.
    fn job(&self, seed: u64) -> (Job, Vec<f64>) {
        let mut random = Random::new(seed);
        let requests = self.ranges.len();
        let stride = self.ranges.iter().map(|(_, end)| end.div_ceil(PAGE_TOKENS)).max().unwrap().max(1);
        let mut table = random.permutation(requests * stride + SPARE_PAGES);
        table.truncate(requests * stride);
        let pages = self.pages(&table, stride, &mut random);
        let query = random.bf16(requests * self.query_heads * self.k_width);
        let scale = 1.0 / (self.k_width as f64).sqrt();
        let wanted = self.reference(&pages, &table, stride, &bf16(&query), scale);

        let mut job = Job::new();
        let positions = |pick: fn(&(usize, usize)) -> usize| -> Vec<u8> {
            self.ranges.iter().flat_map(|range| i32::try_from(pick(range)).unwrap().to_le_bytes()).collect()
        };
        let table: Vec<u8> = table.iter().flat_map(|page| page.to_le_bytes()).collect();
        let [query, pages, table, begins, ends] =
            [query, pages, table, positions(|range| range.0), positions(|range| range.1)]
                .map(|b| job.input(b));
        let parts = job.scratch(requests * self.query_heads * self.splits * (self.v_width + 2) * 4);
        let output = job.output(requests * self.query_heads * self.v_width * 4);
        let columns = self.v_width.div_ceil(256);
        let tiles = (self.query_heads / self.kv_heads).div_ceil(16) * self.kv_heads * columns;
        job.launch(Launch {
            kernel: format!("gqa_{}_{}_{}", self.format.name(), self.k_width, self.v_width),
            grid: [self.splits, tiles, requests].map(|count| u32::try_from(count).unwrap()),
            threads: 128,
            dynamic_shared: 0,
            argument: Argument::new()
                .address(query)
                .address(pages)
                .address(table)
                .address(begins)
                .address(ends)
                .address(parts)
                .count(stride)
                .count(self.query_heads)
                .count(self.kv_heads)
                .float(narrow(scale * std::f64::consts::LOG2_E)),
        });
        job.launch(Launch {
            kernel: "combine".to_owned(),
            grid: [self.query_heads, requests, 1].map(|count| u32::try_from(count).unwrap()),
            threads: 128,
            dynamic_shared: 0,
            argument: Argument::new()
                .address(parts)
                .null()
                .address(output)
                .count(self.splits)
                .count(self.v_width),
        });
        (job, wanted)
    }

    fn reference(&self, pages: &[u8], table: &[i32], stride: usize, query: &[f64], scale: f64) -> Vec<f64> {
        let page_bytes = self.kv_heads * self.bytes_of_a_head();
        let group = self.query_heads / self.kv_heads;
        let mut right = Vec::new();
        for (request, (begin, end)) in self.ranges.iter().enumerate() {
            let row = |head: usize, token: usize, side: usize| {
                let token = begin + token;
                let page = usize::try_from(table[request * stride + token / PAGE_TOKENS]).unwrap();
                let page = &pages[page * page_bytes..][..page_bytes];
                self.row(page, head / group, token % PAGE_TOKENS, side)
            };
            let of_request = &query[request * self.query_heads * self.k_width..];
            let queries: Vec<Vec<f64>> =
                of_request.chunks(self.k_width).take(self.query_heads).map(<[f64]>::to_vec).collect();
            let attention = Attention {
                queries: &queries,
                scale,
                tokens: end - begin,
                key: &|head, token| row(head, token, 0),
                value: &|head, token| row(head, token, 1),
            };
            right.extend((0..self.query_heads).flat_map(|head| attend(&attention, head)));
        }
        right
    }

    fn check(&self) {
        let (job, right) = self.job(self.k_width as u64);
        let results = run_everywhere(&job);
        let error = relative_error(right, &floats(&results[0]));
        assert!(error < TOLERANCE, "{self:?}: {error}");
    }
}

const USUAL: Case<'static> = Case {
    format: Format::Bf16,
    k_width: 128,
    v_width: 128,
    query_heads: 8,
    kv_heads: 2,
    ranges: &[(0, 150), (0, 33)],
    splits: 2,
};

#[test]
fn every_format_and_width_agrees_with_the_reference() {
    for format in Format::ALL {
        for (k_width, v_width) in [(64, 64), (128, 128), (192, 128), (256, 256), (512, 512)] {
            Case { format, k_width, v_width, ..USUAL }.check();
        }
    }
}

#[test]
fn heads_that_share_keys_and_heads_that_do_not() {
    // MHA, groups of 3 and 16, and MQA with more heads than a tile has.
    for (query_heads, kv_heads) in [(4, 4), (6, 2), (16, 1), (40, 1)] {
        Case { query_heads, kv_heads, ranges: &[(0, 77)], ..USUAL }.check();
    }
}

#[test]
fn short_contexts_windows_and_more_splits_than_pages() {
    // One token; a whole page; one more; a window that begins within a page; nothing but the last token of a page.
    let ranges = [(0, 1), (0, 16), (0, 17), (37, 165), (15, 16)];
    for splits in [1, 4] {
        Case { splits, ranges: &ranges, query_heads: 2, ..USUAL }.check();
        Case { splits, ranges: &ranges, query_heads: 2, format: Format::Int8PerTokenHead, ..USUAL }.check();
    }
}

/// A thousand tokens a request, as in a real step, in the plain program alone.
#[test]
fn longer_contexts_stay_within_the_tolerance() {
    for format in Format::ALL {
        let case = Case { format, ranges: &[(0, 1000), (0, 963)], splits: 4, ..USUAL };
        let (job, right) = case.job(5);
        let results = run("plain", &job, &ORDERS[..1]).unwrap();
        let error = relative_error(right, &floats(&results[0][0]));
        assert!(error < TOLERANCE, "{case:?}: {error}");
    }
}

fn report_of(fault: Fault) -> String {
    let case = Case { query_heads: 2, kv_heads: 1, ranges: &[(0, 70)], ..USUAL };
    run_attention_alone(fault.name, &case).expect_err("the fault is found")
}

/// The programs of faults have one kernel's file, so the joining of splits is left out.
fn run_attention_alone(program: &str, case: &Case<'_>) -> Result<Vec<Vec<u8>>, String> {
    let (job, _) = case.job(1);
    let job = job.first_launch_alone();
    let results = run(program, &job, &ORDERS).map_err(|failure| failure.report)?;
    Ok(results.into_iter().map(|buffers| buffers.into_iter().next().unwrap()).collect())
}

#[test]
fn a_missing_barrier_shows_as_a_result_that_depends_on_the_order_of_threads() {
    let case = Case { query_heads: 2, kv_heads: 1, ranges: &[(0, 70)], ..USUAL };
    let results = run_attention_alone(MISSING_BARRIER.name, &case).unwrap();
    assert!(results.iter().any(|result| *result != results[0]), "all orders gave the same");
    let sound = run_attention_alone("plain", &case).unwrap();
    assert!(sound.iter().all(|result| *result == sound[0]), "the sound kernel depends on the order");
}

#[test]
fn a_missing_barrier_is_a_race_between_two_lines_of_the_kernel() {
    let report = report_of(RACE);
    assert!(report.contains("data race") && report.contains("gqa.cu:"), "{report}");
}

#[test]
fn a_barrier_that_a_thread_does_not_come_to_ends_the_run() {
    let report = report_of(DIVERGENT_BARRIER);
    assert!(report.contains("emulation: threads wait at two barriers"), "{report}");
}
