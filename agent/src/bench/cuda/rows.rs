//! Records that all heads share, as `shared_rows.cu` and `write.cu` have them, and the attention over them.

use std::rc::Rc;

use kvscope_reference::numbers::{bf16, e2m1, e4m3, e8m0, f32_le};
use kvscope_sizing::KvFormat;

use super::pages::Pages;
use super::plan::Extent;
use crate::bench::BenchError;
use crate::bench::cpu::{Kind, Run};
use crate::gpu::{Arguments, Gpu, GpuError, Kernel, Memory};

pub(super) const PAGE_RECORDS: usize = 64;
/// Values of an output.
pub(super) const VALUES: usize = 512;
const TILE_ROWS: usize = 32;

/// The layout of one record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Record {
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
    pub(super) fn latent(format: KvFormat, latent: usize, rope: usize) -> Result<Self, BenchError> {
        if (latent, rope) != (512, 64) {
            let what =
                format!("latents of {latent} and {rope} rotary values: GPU kernels are for 512 and 64");
            return Err(BenchError::Shape(what));
        }
        match format {
            KvFormat::Bf16 => Ok(Self::Bf16Latent),
            KvFormat::Fp8DsMla => Ok(Self::ScaledLatent),
            other => Err(BenchError::Shape(format!("latents in {other}: bf16 and fp8_ds_mla are measured"))),
        }
    }

    pub(super) fn entry(format: KvFormat, width: usize, rope: usize) -> Result<Self, BenchError> {
        if width != 512 {
            return Err(BenchError::Shape(format!("entries of {width} values: GPU kernels are for 512")));
        }
        match format {
            KvFormat::Bf16 => Ok(Self::Bf16Entry),
            KvFormat::Fp8DsMla if rope == 64 => Ok(Self::ScaledEntry),
            KvFormat::Mxfp8 => Ok(Self::Mxfp8),
            KvFormat::Nvfp4 => Ok(Self::Nvfp4),
            other => Err(BenchError::Shape(format!(
                "entries in {other} with {rope} rotary values: bf16, fp8_ds_mla with 64, mxfp8 and nvfp4 are measured"
            ))),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bf16Latent => "bf16_latent",
            Self::Bf16Entry => "bf16_entry",
            Self::ScaledLatent => "scaled_latent",
            Self::ScaledEntry => "scaled_entry",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Bf16Latent => 1152,
            Self::Bf16Entry => 1024,
            Self::ScaledLatent => 656,
            Self::ScaledEntry => 584,
            Self::Mxfp8 => 528,
            Self::Nvfp4 => 288,
        }
    }

    pub(super) fn width(self) -> usize {
        if matches!(self, Self::Bf16Latent | Self::ScaledLatent) { 576 } else { 512 }
    }

    /// What a page is filled with.
    fn runs(self) -> Vec<Run> {
        let of_one = |runs: &[(usize, Kind)]| -> Vec<Run> {
            runs.iter().map(|(bytes, kind)| Run { bytes: *bytes, kind: *kind }).collect()
        };
        match self {
            Self::Bf16Latent | Self::Bf16Entry => of_one(&[(self.bytes(), Kind::Bf16)]),
            Self::ScaledLatent => of_one(&[(512, Kind::E4m3), (16, Kind::F32Scale), (128, Kind::Bf16)]),
            Self::Mxfp8 => of_one(&[(512, Kind::E4m3), (16, Kind::E8m0)]),
            Self::Nvfp4 => of_one(&[(256, Kind::E2m1), (32, Kind::E4m3Scale)]),
            // All scales of a page stand behind all values.
            Self::ScaledEntry => {
                let values = of_one(&[(448, Kind::E4m3), (128, Kind::Bf16)]);
                let mut runs: Vec<Run> = values.iter().copied().cycle().take(2 * PAGE_RECORDS).collect();
                runs.push(Run { bytes: 8 * PAGE_RECORDS, kind: Kind::E8m0 });
                runs
            }
        }
    }

    /// The values of the record in a slot of a page, by the page's description alone.
    pub(super) fn values(self, page: &[u8], slot: usize) -> Vec<f64> {
        let halves = |bytes: &[u8]| -> Vec<f64> { bytes.chunks(2).map(|b| bf16([b[0], b[1]])).collect() };
        let at = |bytes: usize| &page[slot * bytes..][..bytes];
        match self {
            Self::Bf16Latent | Self::Bf16Entry => halves(at(self.bytes())),
            Self::ScaledLatent => {
                let record = at(656);
                let scale = |d: usize| f32_le(&record[512 + d / 128 * 4..][..4]);
                (0..512).map(|d| e4m3(record[d]) * scale(d)).chain(halves(&record[528..])).collect()
            }
            Self::ScaledEntry => {
                let (record, scales) = (at(576), &page[PAGE_RECORDS * 576 + slot * 8..][..8]);
                (0..448)
                    .map(|d| e4m3(record[d]) * e8m0(scales[d / 64]))
                    .chain(halves(&record[448..]))
                    .collect()
            }
            Self::Mxfp8 => {
                let record = at(528);
                (0..512).map(|d| e4m3(record[d]) * e8m0(record[512 + d / 32])).collect()
            }
            Self::Nvfp4 => {
                let record = at(288);
                let code = |d: usize| record[d / 2] >> (4 * (d % 2)) & 15;
                (0..512).map(|d| e2m1(code(d)) * e4m3(record[256 + d / 16])).collect()
            }
        }
    }

    /// How far a written value may be from what was given, as a share of the largest of its block: half a step of its format
    /// at that magnitude, and what the block's scale is rounded by.
    pub(super) fn written_tolerance(self) -> f64 {
        match self {
            Self::Bf16Latent | Self::Bf16Entry => 1.0 / 256.0,
            Self::ScaledLatent | Self::ScaledEntry | Self::Mxfp8 => 1.0 / 14.0,
            Self::Nvfp4 => 0.25,
        }
    }

    /// Bytes of dynamic shared memory of a block, as `Rows::Shared` has them.
    fn shared_bytes(self, heads: usize) -> u32 {
        let row = (self.width() + 8) * 2;
        let (buffers, raw) = match self {
            Self::Bf16Latent | Self::Bf16Entry => (2, 16),
            Self::ScaledEntry => (1, TILE_ROWS * 592),
            record => (1, TILE_ROWS * record.bytes()),
        };
        let across = if heads == 64 { 2 } else { 4 };
        let bytes =
            heads * row + buffers * TILE_ROWS * row + raw + heads * (TILE_ROWS + 8) * 2 + across * heads * 4;
        u32::try_from(bytes).expect("some hundred KiB")
    }
}

/// Records of all layers, and the kernels that read and write them.
pub(super) struct Records {
    pub(super) record: Record,
    pub(super) pages: Pages,
    /// Of each request.
    pub(super) count: usize,
    tile: usize,
    read: Kernel,
    write: Kernel,
    /// Of the record that a step writes, by request.
    slots: Memory,
    /// Its index among a request's records.
    pub(super) written: usize,
}

/// What is attended to with.
pub(super) struct Attention<'a> {
    pub(super) query: &'a Memory,
    /// How many records of each request are read.
    pub(super) counts: &'a Memory,
    /// The page from which on all of them are.
    pub(super) first_page: usize,
    /// Which, so many places a request; none where all are.
    pub(super) chosen: Option<(&'a Memory, usize)>,
    pub(super) heads: usize,
    pub(super) requests: usize,
    pub(super) parts: &'a Memory,
    /// Of all launches that write parts.
    pub(super) all_splits: usize,
    pub(super) first_split: usize,
    pub(super) splits: usize,
    pub(super) factor: f32,
}

impl Records {
    /// `count` records a request, of which a step writes number `written`.
    pub(super) fn new(
        gpu: &Rc<Gpu>,
        record: Record,
        extent: Extent,
        (count, written): (usize, usize),
        heads: usize,
    ) -> Result<Self, BenchError> {
        let stride = count.div_ceil(PAGE_RECORDS);
        let pages =
            Pages::new(gpu, extent, stride, PAGE_RECORDS * record.bytes(), &record.runs(), extent.seed)?;
        let slots = (0..extent.requests).map(|request| pages.slot(request, written, PAGE_RECORDS));
        let slots = Memory::of(gpu, &super::numbers::counts_of(slots))?;
        // The large tile where there are heads for it and the chip has the shared memory.
        let fits = u64::from(record.shared_bytes(64)) <= gpu.device().most_shared.get();
        let tile = if heads > 16 && fits { 64 } else { 16 };
        let threads = if tile == 64 { 256 } else { 128 };
        let name = format!("rows_{}_{tile}", record.name());
        Ok(Self {
            record,
            pages,
            count,
            tile,
            read: gpu.kernel_with_shared("shared_rows", &name, threads, record.shared_bytes(tile))?,
            write: gpu.kernel("write", &format!("write_{}", record.name()), 64)?,
            slots,
            written,
        })
    }

    pub(super) fn read_kernel(&self) -> String {
        format!("rows_{}_{}", self.record.name(), self.tile)
    }

    pub(super) fn write_kernel(&self) -> String {
        format!("write_{}", self.record.name())
    }

    /// Blocks that share the records of a request where `count` of them are read.
    pub(super) fn splits(&self, gpu: &Gpu, heads: usize, requests: usize, count: usize) -> usize {
        let at_once = (gpu.device().multiprocessors * self.read.blocks_at_once()) as usize;
        super::plan::splits(at_once, heads.div_ceil(self.tile) * requests, count.div_ceil(TILE_ROWS), 4)
    }

    /// Starts writing one record of each request from f32 rows.
    pub(super) fn start_write(
        &self,
        gpu: &Gpu,
        layer: usize,
        requests: usize,
        rows: &Memory,
    ) -> Result<(), GpuError> {
        self.pages.start_write(gpu, &self.write, layer, requests, rows, &self.slots)
    }

    /// Starts the attention over the records of a layer.
    pub(super) fn start_read(&self, gpu: &Gpu, layer: usize, with: &Attention<'_>) -> Result<(), GpuError> {
        let arguments = Arguments::new()
            .memory(with.query)
            .memory_at(&self.pages.memory, self.pages.layer(layer))
            .memory_at(&self.pages.table, 4 * with.first_page as u64)
            .optional(with.chosen.map(|(chosen, _)| chosen))
            .memory(with.counts)
            .memory(with.parts)
            .count(self.pages.stride)
            .count(with.chosen.map_or(0, |(_, stride)| stride))
            .count(with.heads)
            .count(with.all_splits)
            .count(with.first_split)
            .float(with.factor);
        gpu.launch(&self.read, [with.splits, with.heads.div_ceil(self.tile), with.requests], &arguments)
    }

    /// The values of records of the first request, found page by page.
    pub(super) fn rows(&self, layer: usize, indices: &[usize]) -> Result<Vec<Vec<f64>>, GpuError> {
        let mut held: Option<(usize, Vec<u8>)> = None;
        let mut rows = Vec::with_capacity(indices.len());
        for index in indices {
            let page = index / PAGE_RECORDS;
            if held.as_ref().is_none_or(|(number, _)| *number != page) {
                held = Some((page, self.pages.page(layer, 0, page)?));
            }
            let (_, bytes) = held.as_ref().expect("read above");
            rows.push(self.record.values(bytes, index % PAGE_RECORDS));
        }
        Ok(rows)
    }
}
