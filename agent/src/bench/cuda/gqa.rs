//! Paged K/V heads: MHA, GQA and MQA over everything, a window, a chunk or an encoder's output.

use std::rc::Rc;

use kvscope_reference::attention::{Attention, attend};
use kvscope_reference::numbers::{bf16, e4m3, f32_le};
use kvscope_reference::relative_error;
use kvscope_sizing::KvFormat;

use super::numbers::{Random, base_2, counts_of, first_of, floats_of, halves_of, part};
use super::pages::Pages;
use super::plan::{Extent, Held, Plan, sizes, splits, times};
use crate::bench::BenchError;
use crate::bench::backend::{Check, Layout};
use crate::bench::cpu::{Kind, Run};
use crate::bench::shape::{GqaShape, TokenRange};
use crate::gpu::{Arguments, Gpu, GpuError, Kernel, Memory};

/// As `gqa.cu` has them.
const PAGE_TOKENS: usize = 16;
const TILE_HEADS: usize = 16;
const WARPS: usize = 4;
const THREADS: u32 = 128;
const COLUMNS: usize = 256;
const WIDTHS: [(usize, usize); 5] = [(64, 64), (128, 128), (192, 128), (256, 256), (512, 512)];
/// The reference does about 2e8 products a second; a check is to take a fraction of one.
const CHECKED_PRODUCTS: usize = 30_000_000;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Format {
    Bf16,
    Fp8,
    Fp8PerTokenHead,
    Int8PerTokenHead,
}

/// Widths of one layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gqa {
    query_heads: usize,
    kv_heads: usize,
    k_width: usize,
    v_width: usize,
    format: Format,
    range: TokenRange,
    target: &'static str,
}

struct HeldGqa {
    gpu: Rc<Gpu>,
    plan: Gqa,
    requests: usize,
    tokens: usize,
    splits: usize,
    pages: Pages,
    queries: Vec<f64>,
    query: Memory,
    begins: Memory,
    ends: Memory,
    parts: Memory,
    output: Memory,
    attend: Kernel,
    combine: Kernel,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Fp8PerTokenHead => "fp8_per_token_head",
            Self::Int8PerTokenHead => "int8_per_token_head",
        }
    }

    fn bytes(self) -> usize {
        if self == Self::Bf16 { 2 } else { 1 }
    }

    fn scale_bytes(self) -> usize {
        if matches!(self, Self::Bf16 | Self::Fp8) { 0 } else { 4 }
    }

    fn kinds(self) -> (Kind, Kind) {
        match self {
            Self::Bf16 => (Kind::Bf16, Kind::F32Scale),
            Self::Fp8 | Self::Fp8PerTokenHead => (Kind::E4m3, Kind::F32Scale),
            Self::Int8PerTokenHead => (Kind::I8, Kind::F32ByteScale),
        }
    }

    fn number(self, bytes: &[u8]) -> f64 {
        match self {
            Self::Bf16 => bf16([bytes[0], bytes[1]]),
            Self::Fp8 | Self::Fp8PerTokenHead => e4m3(bytes[0]),
            Self::Int8PerTokenHead => f64::from(bytes[0].cast_signed()),
        }
    }
}

impl Gqa {
    pub(super) fn new(shape: &GqaShape, target: &'static str) -> Result<Self, BenchError> {
        let [query_heads, kv_heads, k_width, v_width] =
            sizes(shape, [shape.query_heads, shape.kv_heads, shape.k_width, shape.v_width])?;
        let format = match (shape.k_format, shape.v_format) {
            (KvFormat::Bf16, KvFormat::Bf16) => Format::Bf16,
            (KvFormat::Fp8, KvFormat::Fp8) => Format::Fp8,
            (KvFormat::Fp8PerTokenHead, KvFormat::Fp8PerTokenHead) => Format::Fp8PerTokenHead,
            (KvFormat::Int8PerTokenHead, KvFormat::Int8PerTokenHead) => Format::Int8PerTokenHead,
            (k, v) => {
                return Err(BenchError::Shape(format!(
                    "K in {k} and V in {v}: both in bf16, fp8, fp8_per_token_head or int8_per_token_head are measured"
                )));
            }
        };
        if !query_heads.is_multiple_of(kv_heads) {
            let what = format!("{query_heads} query heads are no multiple of {kv_heads} key-value heads");
            return Err(BenchError::Shape(what));
        }
        if !WIDTHS.contains(&(k_width, v_width)) {
            let known = WIDTHS.map(|(k, v)| format!("{k}/{v}")).join(", ");
            return Err(BenchError::Shape(format!(
                "keys of {k_width} and values of {v_width}: GPU kernels are for {known}"
            )));
        }
        Ok(Self { query_heads, kv_heads, k_width, v_width, format, range: shape.range, target })
    }

    fn keys_of_a_head(&self) -> usize {
        PAGE_TOKENS * self.k_width * self.format.bytes()
    }

    fn bytes_of_a_head(&self) -> usize {
        let values = PAGE_TOKENS * self.v_width * self.format.bytes();
        self.keys_of_a_head() + 2 * PAGE_TOKENS * self.format.scale_bytes() + values
    }

    fn page_bytes(&self) -> usize {
        self.kv_heads * self.bytes_of_a_head()
    }

    fn runs(&self) -> Vec<Run> {
        let (values, scales) = self.format.kinds();
        let runs = [
            (self.keys_of_a_head(), values),
            (2 * PAGE_TOKENS * self.format.scale_bytes(), scales),
            (PAGE_TOKENS * self.v_width * self.format.bytes(), values),
        ];
        runs.into_iter().filter(|(bytes, _)| *bytes > 0).map(|(bytes, kind)| Run { bytes, kind }).collect()
    }

    fn kernel(&self) -> String {
        format!("gqa_{}_{}_{}", self.format.name(), self.k_width, self.v_width)
    }

    /// Blocks that take the heads of a request: tiles of 16 heads, and of 256 columns.
    fn tiles(&self) -> usize {
        let group = self.query_heads / self.kv_heads;
        group.div_ceil(TILE_HEADS) * self.kv_heads * self.v_width.div_ceil(COLUMNS)
    }

    /// The key (side 0) or value (side 1) of one token and head, by the page's description alone.
    fn row(&self, page: &[u8], head: usize, slot: usize, side: usize) -> Vec<f64> {
        let part = &page[head * self.bytes_of_a_head()..][..self.bytes_of_a_head()];
        let (bytes, scale_bytes) = (self.format.bytes(), self.format.scale_bytes());
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
}

impl Plan for Gqa {
    fn layout(&self, context: u64, batch: u64) -> Result<Layout, BenchError> {
        let [tokens] = sizes(self, [self.range.kept(context)])?;
        let pages = tokens.div_ceil(PAGE_TOKENS);
        let padding = (pages * PAGE_TOKENS - tokens) * (self.page_bytes() / PAGE_TOKENS);
        Ok(Layout {
            layer_bytes: times(pages * self.page_bytes(), batch)?,
            padding_bytes: times(padding, batch)?,
            padding_reason: "whole pages of 16 tokens",
            launches: 2,
            instructions: self.target,
        })
    }

    fn hold(&self, gpu: &Rc<Gpu>, extent: Extent) -> Result<Box<dyn Held>, BenchError> {
        let Extent { context, requests, seed, .. } = extent;
        let [kept, tokens] = sizes(self, [self.range.kept(context as u64), self.range.read(context as u64)])?;
        let attend = gpu.kernel("gqa", &self.kernel(), THREADS)?;
        let combine = gpu.kernel("combine", "combine", 128)?;
        let stride = kept.div_ceil(PAGE_TOKENS);
        let at_once = (gpu.device().multiprocessors * attend.blocks_at_once()) as usize;
        let splits = splits(at_once, self.tiles() * requests, tokens.div_ceil(PAGE_TOKENS), 4 * WARPS);
        let pages = Pages::new(gpu, extent, stride, self.page_bytes(), &self.runs(), seed)?;
        let query = Random::new(seed ^ 0x5157).bf16(requests * self.query_heads * self.k_width);
        let results = requests * self.query_heads;
        Ok(Box::new(HeldGqa {
            plan: *self,
            requests,
            tokens,
            splits,
            pages,
            queries: halves_of(&query),
            query: Memory::of(gpu, &query)?,
            begins: Memory::of(gpu, &counts_of(vec![0; requests]))?,
            ends: Memory::of(gpu, &counts_of(vec![tokens; requests]))?,
            parts: Memory::new(gpu, (results * splits * (self.v_width + 2) * 4) as u64)?,
            output: Memory::new(gpu, (results * self.v_width * 4) as u64)?,
            attend,
            combine,
            gpu: Rc::clone(gpu),
        }))
    }
}

impl HeldGqa {
    fn scale(&self) -> f64 {
        1.0 / (self.plan.k_width as f64).sqrt()
    }

    fn start(&self, layer: usize, requests: usize, begins: &Memory) -> Result<(), GpuError> {
        let Gqa { query_heads, kv_heads, v_width, .. } = self.plan;
        let arguments = Arguments::new()
            .memory(&self.query)
            .memory_at(&self.pages.memory, self.pages.layer(layer))
            .memory(&self.pages.table)
            .memory(begins)
            .memory(&self.ends)
            .memory(&self.parts)
            .count(self.pages.stride)
            .count(query_heads)
            .count(kv_heads)
            .float(base_2(self.scale()));
        self.gpu.launch(&self.attend, [self.splits, self.plan.tiles(), requests], &arguments)?;
        let arguments = Arguments::new()
            .memory(&self.parts)
            .optional(None)
            .memory(&self.output)
            .count(self.splits)
            .count(v_width);
        self.gpu.launch(&self.combine, [query_heads, requests, 1], &arguments)
    }
}

impl Held for HeldGqa {
    fn launch(&self, layer: usize) -> Result<(), GpuError> {
        self.start(layer, self.requests, &self.begins)
    }

    /// All heads of the first request over its last tokens, as many as the reference has time for.
    fn check(&self, layer: usize) -> Result<Check, GpuError> {
        let Gqa { query_heads, kv_heads, k_width, v_width, .. } = self.plan;
        let affordable = (CHECKED_PRODUCTS / (query_heads * (k_width + v_width))).max(1);
        let begin = self.tokens.saturating_sub(affordable);
        let begins = Memory::of(&self.gpu, &counts_of([begin]))?;
        self.output.fill(0xFF)?;
        self.start(layer, 1, &begins)?;
        let got = floats_of(&self.output.read(0, query_heads * v_width * 4)?);

        let first_page = begin / PAGE_TOKENS;
        let pages = (first_page..self.pages.stride)
            .map(|page| self.pages.page(layer, 0, page))
            .collect::<Result<Vec<_>, _>>()?;
        let group = query_heads / kv_heads;
        let plan = self.plan;
        let row = |head: usize, token: usize, side: usize| {
            let token = begin + token;
            plan.row(&pages[token / PAGE_TOKENS - first_page], head / group, token % PAGE_TOKENS, side)
        };
        let queries: Vec<Vec<f64>> =
            self.queries.chunks(k_width).take(query_heads).map(<[f64]>::to_vec).collect();
        let attention = Attention {
            queries: &queries,
            scale: self.scale(),
            tokens: self.tokens - begin,
            key: &|head, token| row(head, token, 0),
            value: &|head, token| row(head, token, 1),
        };
        let right = (0..query_heads).flat_map(|head| attend(&attention, head));
        let tokens = (begin > 0).then(|| format!("the last {} tokens", self.tokens - begin));
        Ok(Check {
            largest_relative_error: relative_error(right, &got),
            part: part(&[tokens, first_of(self.requests)]),
        })
    }

    fn kernels(&self) -> Vec<String> {
        vec![self.plan.kernel(), "combine".to_owned()]
    }

    fn state_bytes(&self) -> u64 {
        self.pages.bytes()
    }
}
