//! Pages of index keys as the indexer's kernel reads them.
#![allow(dead_code, reason = "not every test needs all of it")]

use kvscope_emulation::{Argument, Buffer, Job, Launch, Random, f32s, narrow, to_bf16};
use kvscope_reference::numbers::{bf16, e2m1, e4m3, e8m0, f32_le};

const PAGE_KEYS: usize = 64;
const WIDTH: usize = 128;
const SPARE_PAGES: usize = 2;

/// How a key is stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KeyFormat {
    /// 132 bytes.
    Fp8,
    /// 68 bytes.
    Fp4,
    /// 256 bytes.
    Bf16,
}

impl KeyFormat {
    pub(crate) const ALL: [Self; 3] = [Self::Fp8, Self::Fp4, Self::Bf16];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fp8 => "fp8",
            Self::Fp4 => "fp4",
            Self::Bf16 => "bf16",
        }
    }

    /// Bytes of a key's values and of its scales.
    fn bytes(self) -> (usize, usize) {
        match self {
            Self::Fp8 => (WIDTH, 4),
            Self::Fp4 => (WIDTH / 2, 4),
            Self::Bf16 => (2 * WIDTH, 0),
        }
    }

    /// Queries in bf16, as narrow as the keys.
    pub(crate) fn query(self, count: usize, random: &mut Random) -> Vec<u8> {
        let narrow = |numbers: Vec<f64>| to_bf16(&numbers.into_iter().map(narrow).collect::<Vec<f32>>());
        match self {
            Self::Fp8 => narrow(random.any_e4m3(count).into_iter().map(e4m3).collect()),
            Self::Fp4 => narrow(random.bytes(count).into_iter().map(|code| e2m1(code & 15)).collect()),
            Self::Bf16 => random.bf16(count),
        }
    }
}

/// The keys of some requests, in random pages.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) format: KeyFormat,
    pub(crate) counts: Vec<usize>,
    table: Vec<i32>,
    stride: usize,
    pages: Vec<u8>,
}

impl Keys {
    pub(crate) fn random(format: KeyFormat, counts: &[usize], random: &mut Random) -> Self {
        let stride = counts.iter().map(|count| count.div_ceil(PAGE_KEYS)).max().unwrap();
        let pages = counts.len() * stride + SPARE_PAGES;
        let mut table = random.permutation(pages);
        table.truncate(counts.len() * stride);
        let (values, scales) = format.bytes();
        let mut bytes = Vec::new();
        for _ in 0..pages {
            match format {
                KeyFormat::Fp8 => {
                    bytes.extend(random.any_e4m3(PAGE_KEYS * values));
                    bytes.extend(f32s(&random.between(0.5, 1.0, PAGE_KEYS)));
                }
                KeyFormat::Fp4 => {
                    bytes.extend(random.bytes(PAGE_KEYS * values));
                    // 2^-20 to 2^20.
                    bytes.extend((0..PAGE_KEYS * scales).map(|_| random.rng().u8(107..148)));
                }
                KeyFormat::Bf16 => bytes.extend(random.bf16(PAGE_KEYS * WIDTH)),
            }
        }
        Self { format, counts: counts.to_vec(), table, stride, pages: bytes }
    }

    /// What these pages hold, in their order, for one request.
    pub(crate) fn of_pages(format: KeyFormat, pages: Vec<u8>) -> Self {
        let (values, scales) = format.bytes();
        let stride = pages.len() / (PAGE_KEYS * (values + scales));
        let table = (0..stride).map(|page| i32::try_from(page).unwrap()).collect();
        Self { format, counts: vec![stride * PAGE_KEYS], table, stride, pages }
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(format: KeyFormat) -> usize {
        let (values, scales) = format.bytes();
        PAGE_KEYS * (values + scales)
    }

    /// One key's values, by the page's description alone.
    pub(crate) fn key(&self, request: usize, key: usize) -> Vec<f64> {
        let (values, scales) = self.format.bytes();
        let page_bytes = PAGE_KEYS * (values + scales);
        let page = usize::try_from(self.table[request * self.stride + key / PAGE_KEYS]).unwrap();
        let page = &self.pages[page * page_bytes..][..page_bytes];
        let slot = key % PAGE_KEYS;
        let row = &page[slot * values..][..values];
        let scale = &page[PAGE_KEYS * values + slot * scales..][..scales];
        let value = |d: usize| match self.format {
            KeyFormat::Fp8 => e4m3(row[d]) * f32_le(scale),
            KeyFormat::Fp4 => {
                // Dimension 32b + 8t + 2i + half is in byte 16t + 4b + i.
                let (block, t, i, half) = (d / 32, d % 32 / 8, d % 8 / 2, d % 2);
                e2m1(row[16 * t + 4 * block + i] >> (4 * half) & 15) * e8m0(scale[block])
            }
            KeyFormat::Bf16 => bf16([row[2 * d], row[2 * d + 1]]),
        };
        (0..WIDTH).map(value).collect()
    }

    /// Adds the kernel that scores all keys.
    pub(crate) fn launch(
        &self,
        job: &mut Job,
        heads: usize,
        query: Buffer,
        weights: Buffer,
        scores: Buffer,
        stride: usize,
    ) {
        let numbers = |values: &[i32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let counts: Vec<i32> = self.counts.iter().map(|count| i32::try_from(*count).unwrap()).collect();
        let [pages, table, counts] =
            [self.pages.clone(), numbers(&self.table), numbers(&counts)].map(|bytes| job.input(bytes));
        // Fewer than there are turns, where there are several.
        let blocks = self.counts.iter().max().unwrap().div_ceil(256);
        job.launch(Launch {
            kernel: format!("index_scores_{}", self.format.name()),
            grid: [blocks, self.counts.len(), 1].map(|count| u32::try_from(count).unwrap()),
            threads: 128,
            dynamic_shared: 0,
            argument: Argument::new()
                .address(query)
                .address(weights)
                .address(pages)
                .address(table)
                .address(counts)
                .address(scores)
                .count(self.stride)
                .count(stride)
                .count(heads),
        });
    }
}
