//! Records that all heads share, as the kernels' pages hold them, and the attention over them.
#![allow(dead_code, reason = "not every test needs all of it")]

use kvscope_emulation::{Argument, Buffer, Job, Launch, Random, bf16 as numbers_of_bf16, f32s, narrow};
use kvscope_reference::attention::attend_rows;
use kvscope_reference::numbers::{bf16, e2m1, e4m3, e8m0, f32_le};

const PAGE_RECORDS: usize = 64;
const SPARE_PAGES: usize = 2;
const VALUES: usize = 512;

/// The layout of one record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Record {
    /// MLA in bf16, 1,152 bytes.
    Bf16Latent,
    /// An entry in bf16, 1,024 bytes.
    Bf16Entry,
    /// DeepSeek-V3.2's, 656 bytes.
    ScaledLatent,
    /// DeepSeek-V4's, 584 bytes.
    ScaledEntry,
    /// 528 bytes.
    Mxfp8,
    /// 288 bytes.
    Nvfp4,
}

impl Record {
    pub(crate) const ALL: [Self; 6] =
        [Self::Bf16Latent, Self::Bf16Entry, Self::ScaledLatent, Self::ScaledEntry, Self::Mxfp8, Self::Nvfp4];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bf16Latent => "bf16_latent",
            Self::Bf16Entry => "bf16_entry",
            Self::ScaledLatent => "scaled_latent",
            Self::ScaledEntry => "scaled_entry",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
        }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Bf16Latent => 1152,
            Self::Bf16Entry => 1024,
            Self::ScaledLatent => 656,
            Self::ScaledEntry => 584,
            Self::Mxfp8 => 528,
            Self::Nvfp4 => 288,
        }
    }

    pub(crate) fn width(self) -> usize {
        if matches!(self, Self::Bf16Latent | Self::ScaledLatent) { 576 } else { 512 }
    }

    /// A record of random numbers.
    fn random(self, random: &mut Random) -> Vec<u8> {
        let powers = |random: &mut Random, count: usize| -> Vec<u8> {
            (0..count).map(|_| random.rng().u8(126..128)).collect()
        };
        match self {
            Self::Bf16Latent => random.bf16(576),
            Self::Bf16Entry => random.bf16(512),
            Self::ScaledLatent => {
                [random.e4m3(512), f32s(&random.between(0.5, 1.0, 4)), random.bf16(64)].concat()
            }
            Self::ScaledEntry => [random.e4m3(448), random.bf16(64), powers(random, 8)].concat(),
            Self::Mxfp8 => [random.e4m3(512), powers(random, 16)].concat(),
            Self::Nvfp4 => {
                let scales = random.e4m3(32).iter().map(|code| code & 0x7F).collect();
                [random.bytes(256), scales].concat()
            }
        }
    }

    /// The values of one record, whole and by itself, by its description alone.
    pub(crate) fn values(self, bytes: &[u8]) -> Vec<f64> {
        let halves = |from: usize, count: usize| -> Vec<f64> {
            (0..count).map(|d| bf16([bytes[from + 2 * d], bytes[from + 2 * d + 1]])).collect()
        };
        match self {
            Self::Bf16Latent => halves(0, 576),
            Self::Bf16Entry => halves(0, 512),
            Self::ScaledLatent => {
                let scale = |d: usize| f32_le(&bytes[512 + d / 128 * 4..][..4]);
                (0..512).map(|d| e4m3(bytes[d]) * scale(d)).chain(halves(528, 64)).collect()
            }
            Self::ScaledEntry => {
                let scale = |d: usize| e8m0(bytes[576 + d / 64]);
                (0..448).map(|d| e4m3(bytes[d]) * scale(d)).chain(halves(448, 64)).collect()
            }
            Self::Mxfp8 => (0..512).map(|d| e4m3(bytes[d]) * e8m0(bytes[512 + d / 32])).collect(),
            Self::Nvfp4 => {
                let code = |d: usize| bytes[d / 2] >> (4 * (d % 2)) & 15;
                (0..512).map(|d| e2m1(code(d)) * e4m3(bytes[256 + d / 16])).collect()
            }
        }
    }
}

/// The records of some requests, in random pages; what belongs to no record is NaN.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    record: Record,
    pub(crate) counts: Vec<usize>,
    table: Vec<i32>,
    stride: usize,
    pages: Vec<u8>,
    /// `[request][index]`
    records: Vec<Vec<Vec<u8>>>,
}

impl Store {
    pub(crate) fn random(record: Record, counts: &[usize], random: &mut Random) -> Self {
        let stride = counts.iter().map(|count| count.div_ceil(PAGE_RECORDS)).max().unwrap();
        let count = counts.len() * stride + SPARE_PAGES;
        let mut table = random.permutation(count);
        table.truncate(counts.len() * stride);
        let mut pages = vec![0xFF; count * PAGE_RECORDS * record.bytes()];
        let mut records = Vec::new();
        for (request, count) in counts.iter().enumerate() {
            let mut of_request = Vec::new();
            for index in 0..*count {
                let bytes = record.random(random);
                let page = usize::try_from(table[request * stride + index / PAGE_RECORDS]).unwrap();
                let page =
                    &mut pages[page * PAGE_RECORDS * record.bytes()..][..PAGE_RECORDS * record.bytes()];
                put(record, page, index % PAGE_RECORDS, &bytes);
                of_request.push(bytes);
            }
            records.push(of_request);
        }
        Self { record, counts: counts.to_vec(), table, stride, pages, records }
    }

    pub(crate) fn row(&self, request: usize, index: usize) -> Vec<f64> {
        self.record.values(&self.records[request][index])
    }
}

/// DeepSeek-V4's pages hold all scales behind all values.
fn put(record: Record, page: &mut [u8], slot: usize, bytes: &[u8]) {
    if record == Record::ScaledEntry {
        page[slot * 576..][..576].copy_from_slice(&bytes[..576]);
        page[PAGE_RECORDS * 576 + slot * 8..][..8].copy_from_slice(&bytes[576..]);
    } else {
        page[slot * bytes.len()..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// The bytes of one record of a store's pages.
pub(crate) fn take(record: Record, pages: &[u8], slot: usize) -> Vec<u8> {
    let page = &pages[slot / PAGE_RECORDS * PAGE_RECORDS * record.bytes()..][..PAGE_RECORDS * record.bytes()];
    let slot = slot % PAGE_RECORDS;
    if record == Record::ScaledEntry {
        [&page[slot * 576..][..576], &page[PAGE_RECORDS * 576 + slot * 8..][..8]].concat()
    } else {
        page[slot * record.bytes()..][..record.bytes()].to_vec()
    }
}

/// Heads with their queries.
#[derive(Clone, Debug)]
pub(crate) struct Attended {
    pub(crate) heads: usize,
    /// bf16 `[request][heads][width]`
    pub(crate) query: Vec<u8>,
}

/// Heads of a block, and splits of a launch.
const SPLITS: usize = 2;

impl Attended {
    /// Adds the attention over one store after the other, joined, and gives the place of its output among the results.
    /// A store is read whole, or where an index says: a buffer of so many records for each request.
    pub(crate) fn launch(
        &self,
        job: &mut Job,
        stores: &[(&Store, Option<(Buffer, usize)>)],
        sinks: Option<Buffer>,
    ) -> usize {
        self.launch_as(job, stores, sinks, if self.heads > 16 { 64 } else { 16 })
    }

    /// The same with a tile of so many heads.
    pub(crate) fn launch_as(
        &self,
        job: &mut Job,
        stores: &[(&Store, Option<(Buffer, usize)>)],
        sinks: Option<Buffer>,
        tile: usize,
    ) -> usize {
        let requests = stores[0].0.counts.len();
        let number = |value: usize| i32::try_from(value).unwrap().to_le_bytes();
        let query = job.input(self.query.clone());
        let splits = SPLITS * stores.len();
        let parts = job.scratch(requests * self.heads * splits * (VALUES + 2) * 4);
        for (place, (store, chosen)) in stores.iter().enumerate() {
            let record = store.record;
            let read = store.counts.iter().map(|count| chosen.map_or(*count, |(_, k)| k.min(*count)));
            let [pages, table, counts] = [
                store.pages.clone(),
                store.table.iter().flat_map(|page| page.to_le_bytes()).collect(),
                read.flat_map(number).collect(),
            ]
            .map(|bytes: Vec<u8>| job.input(bytes));
            let argument = Argument::new().address(query).address(pages).address(table);
            let argument = match chosen {
                Some((chosen, _)) => argument.address(*chosen),
                None => argument.null(),
            };
            job.launch(Launch {
                kernel: format!("rows_{}_{tile}", record.name()),
                grid: [SPLITS, self.heads.div_ceil(tile), requests]
                    .map(|count| u32::try_from(count).unwrap()),
                threads: if tile == 64 { 256 } else { 128 },
                dynamic_shared: shared_bytes(record, tile),
                argument: argument
                    .address(counts)
                    .address(parts)
                    .count(store.stride)
                    .count(chosen.map_or(0, |(_, k)| k))
                    .count(self.heads)
                    .count(splits)
                    .count(place * SPLITS)
                    .float(narrow(scale(record) * std::f64::consts::LOG2_E)),
            });
        }
        let output = job.output(requests * self.heads * VALUES * 4);
        let argument = Argument::new().address(parts);
        let argument = match sinks {
            Some(sinks) => argument.address(sinks),
            None => argument.null(),
        };
        job.launch(Launch {
            kernel: "combine".to_owned(),
            grid: [self.heads, requests, 1].map(|count| u32::try_from(count).unwrap()),
            threads: 128,
            dynamic_shared: 0,
            argument: argument.address(output).count(splits).count(VALUES),
        });
        job.place(output)
    }

    /// What the output should be over these rows of each request; sinks are natural logarithms.
    pub(crate) fn reference(&self, rows: &dyn Fn(usize) -> Vec<Vec<f64>>, sinks: Option<&[f64]>) -> Vec<f64> {
        let width = rows(0)[0].len();
        let query = numbers_of_bf16(&self.query);
        let scale = 1.0 / (width as f64).sqrt();
        let of_request = |(request, queries): (usize, &[f64])| {
            let rows = rows(request);
            let of_head =
                |(head, query)| attend_rows(query, scale, &rows, VALUES, sinks.map(|sinks| sinks[head]));
            queries.chunks(width).enumerate().flat_map(of_head).collect::<Vec<f64>>()
        };
        query.chunks(self.heads * width).enumerate().flat_map(of_request).collect()
    }
}

fn scale(record: Record) -> f64 {
    1.0 / (record.width() as f64).sqrt()
}

/// What the kernel's comment says lies in shared memory.
fn shared_bytes(record: Record, heads: usize) -> u32 {
    let row = (record.width() + 8) * 2;
    let (buffers, raw) = match record {
        Record::Bf16Latent | Record::Bf16Entry => (2, 16),
        Record::ScaledEntry => (1, 32 * 592),
        record => (1, 32 * record.bytes()),
    };
    let across = if heads == 64 { 2 } else { 4 };
    let bytes = heads * row + buffers * 32 * row + raw + heads * (32 + 8) * 2 + across * heads * 4;
    u32::try_from(bytes).unwrap()
}
