//! Layers whose heads all share one record an entry, in one or two stores, whole or chosen: MLA, DSA, CSA, HCA, CSA2 and the
//! window branch alone. A step writes what the new token leaves, makes an entry where it ends a group, chooses, and attends
//! to the window and the entries in one softmax.

use std::rc::Rc;

use kvscope_reference::attention::attend_rows;
use kvscope_reference::relative_error;

use super::compressor::{Compressor, HeldCompressor};
use super::index::{self, Index, Keys};
use super::numbers::{Random, base_2, bytes_of, counts_of, first_of, floats_of, halves_of, part};
use super::plan::{Extent, Held, Plan, sizes, spread, times};
use super::rows::{Attention, PAGE_RECORDS, Record, Records, VALUES};
use crate::bench::BenchError;
use crate::bench::backend::{Check, Layout};
use crate::bench::shape::{BranchShape, CompressedShape, DsaShape, MlaShape, StoreOwner};
use crate::gpu::{Arguments, Gpu, GpuError, Kernel, Memory};

/// Products that the reference has time for.
const CHECKED_PRODUCTS: usize = 30_000_000;
/// So many heads are compared at least, over fewer records where there are many.
const LEAST_HEADS: usize = 4;

/// What one layer keeps and how it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Composite {
    heads: usize,
    entries: Option<Entries>,
    /// The last so many tokens, each as one record, and a sink a head.
    window: Option<(Record, usize)>,
    index: Option<Index>,
    /// Entries that are read; all where absent.
    top_k: Option<usize>,
    compressor: Option<Compressor>,
    target: &'static str,
}

/// One record for every `ratio` tokens.
#[derive(Clone, Copy, Debug)]
struct Entries {
    record: Record,
    ratio: usize,
    /// Whether a step that ends a group writes one.
    written: Written,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Written {
    Here,
    /// By an earlier layer, or before the step that is measured.
    Elsewhere,
}

/// Counts of one request.
#[derive(Clone, Copy, Debug)]
struct Counts {
    entries: usize,
    window: usize,
    read: usize,
}

struct HeldComposite {
    gpu: Rc<Gpu>,
    plan: Composite,
    counts: Counts,
    extent: Extent,
    window: Option<Records>,
    entries: Option<Records>,
    keys: Option<Keys>,
    compressor: Option<HeldCompressor>,
    queries: Vec<f64>,
    query: Memory,
    sinks: Option<Vec<f32>>,
    to_sinks: Option<Memory>,
    /// f32 rows that a step writes: into the window, and as entry and key where no compressor makes them.
    rows: [Vec<f32>; 3],
    to_rows: [Memory; 3],
    window_counts: Memory,
    entry_counts: Memory,
    /// A choice that an earlier layer made.
    given: Option<(Vec<usize>, Memory)>,
    splits: (usize, usize),
    parts: Memory,
    output: Memory,
    combine: Kernel,
}

impl Composite {
    pub(super) fn mla(shape: &MlaShape, target: &'static str) -> Result<Self, BenchError> {
        let [heads, latent, rope] = sizes(shape, [shape.query_heads, shape.latent, shape.rope])?;
        let record = Record::latent(shape.format, latent, rope)?;
        Ok(Self {
            heads,
            entries: Some(Entries { record, ratio: 1, written: Written::Elsewhere }),
            window: None,
            index: None,
            top_k: None,
            compressor: None,
            target,
        })
    }

    pub(super) fn dsa(shape: &DsaShape, target: &'static str) -> Result<Self, BenchError> {
        let mut plan = Self::mla(&shape.attention, target)?;
        if let Some(entries) = &mut plan.entries {
            entries.written = Written::Here;
        }
        plan.index = shape.index.map(|index| Index::new(&index, 1)).transpose()?;
        plan.top_k = shape.top_k.map(|k| sizes(shape, [k]).map(|[k]| k)).transpose()?;
        Ok(plan)
    }

    pub(super) fn compressed(shape: &CompressedShape, target: &'static str) -> Result<Self, BenchError> {
        let [heads, width, rope, window] =
            sizes(shape, [shape.query_heads, shape.width, shape.rope, shape.window])?;
        let mut plan = Self {
            heads,
            entries: None,
            window: Some((Record::entry(shape.window_format, width, rope)?, window)),
            index: None,
            top_k: None,
            compressor: None,
            target,
        };
        if let Some(branch) = &shape.branch {
            plan.add_branch(branch, width, rope)?;
        }
        Ok(plan)
    }

    fn add_branch(&mut self, branch: &BranchShape, width: usize, rope: usize) -> Result<(), BenchError> {
        let [ratio] = sizes(branch, [branch.ratio])?;
        let written = if branch.store == StoreOwner::Own { Written::Here } else { Written::Elsewhere };
        self.entries = Some(Entries { record: Record::entry(branch.format, width, rope)?, ratio, written });
        self.index = branch.index.map(|index| Index::new(&index, branch.ratio)).transpose()?;
        self.top_k = branch.top_k.map(|k| sizes(branch, [k]).map(|[k]| k)).transpose()?;
        let widths = [Some(width), self.index.map(|_| index::WIDTH)];
        self.compressor = branch.rows.map(|rows| Compressor::new(&rows, ratio, widths, rope)).transpose()?;
        Ok(())
    }

    fn counts(&self, context: usize) -> Counts {
        let entries = self.entries.map_or(0, |entries| context / entries.ratio);
        Counts {
            entries,
            window: self.window.map_or(0, |(_, tokens)| tokens.min(context)),
            read: self.top_k.map_or(entries, |k| k.min(entries)),
        }
    }

    /// Whether a step at this context makes an entry and writes it.
    fn writes_an_entry(&self, context: usize) -> bool {
        self.entries.is_some_and(|entries| {
            entries.written == Written::Here
                && context >= entries.ratio
                && context.is_multiple_of(entries.ratio)
        })
    }

    /// Kernels of a step.
    fn launches(&self, context: usize) -> usize {
        let counts = self.counts(context);
        let of = |is: bool, kernels: usize| if is { kernels } else { 0 };
        let has_keys = self.index.is_some() && counts.entries > 0;
        // Writing and reading the window, the compressors, writing an entry and a key, scoring and choosing, reading entries,
        // joining.
        of(counts.window > 0, 2)
            + self.compressor.map_or(0, Compressor::kernels)
            + of(self.writes_an_entry(context), 1 + usize::from(has_keys))
            + of(has_keys, 2)
            + of(counts.read > 0, 1)
            + 1
    }
}

impl Plan for Composite {
    fn layout(&self, context: u64, batch: u64) -> Result<Layout, BenchError> {
        let [context] = sizes(self, [context])?;
        let counts = self.counts(context);
        let stores = [
            self.entries.map(|entries| (counts.entries, entries.record.bytes())),
            self.index.map(|index| (counts.entries, index.key_bytes())),
            self.window.map(|(record, _)| (counts.window, record.bytes())),
        ];
        let whole = |count: usize| count.next_multiple_of(PAGE_RECORDS);
        let stores = || stores.into_iter().flatten();
        let layer: usize = stores().map(|(count, bytes)| whole(count) * bytes).sum();
        let padding: usize = stores().map(|(count, bytes)| (whole(count) - count) * bytes).sum();
        Ok(Layout {
            layer_bytes: times(layer + self.compressor.map_or(0, Compressor::bytes), batch)?,
            padding_bytes: times(padding, batch)?,
            padding_reason: "whole pages of 64",
            launches: self.launches(context) as u64,
            instructions: self.target,
        })
    }

    fn hold(&self, gpu: &Rc<Gpu>, extent: Extent) -> Result<Box<dyn Held>, BenchError> {
        let Extent { requests, context, seed, .. } = extent;
        let counts = self.counts(context);
        if counts.window + counts.entries == 0 {
            return Err(BenchError::Shape(format!("{context} tokens leave no entry to read")));
        }
        let heads = self.heads;
        let window = match self.window {
            Some((record, tokens)) => {
                let written = (context - 1) % tokens;
                Some(Records::new(gpu, record, extent, (counts.window, written), heads)?)
            }
            None => None,
        };
        let of_entries = Extent { seed: seed ^ 0x77, ..extent };
        let entries = match self.entries.filter(|_| counts.entries > 0) {
            Some(entries) => {
                let last = (counts.entries, counts.entries - 1);
                Some(Records::new(gpu, entries.record, of_entries, last, heads)?)
            }
            None => None,
        };
        let keys = match self.index.filter(|_| counts.entries > 0) {
            Some(index) => {
                let top_k = self.top_k.unwrap_or(counts.entries);
                Some(Keys::new(gpu, index, extent, counts.entries, top_k)?)
            }
            None => None,
        };
        let compressor = self.compressor.map(|plan| HeldCompressor::new(gpu, plan, extent)).transpose()?;
        let splits_of = |records: &Option<Records>, count: usize| {
            records.as_ref().map_or(0, |records| records.splits(gpu, heads, requests, count))
        };
        let splits = (splits_of(&window, counts.window), splits_of(&entries, counts.read));
        let width = window.as_ref().or(entries.as_ref()).map_or(VALUES, |records| records.record.width());
        let mut random = Random::new(seed ^ 0x5157);
        let query = random.bf16(requests * heads * width);
        let sinks = window.is_some().then(|| random.between(-3.0, 3.0, heads));
        let key_width = if keys.is_some() { index::WIDTH } else { 1 };
        let rows = [width, width, key_width].map(|width| random.floats(requests * width));
        let given = match (self.top_k, &keys, &entries) {
            (Some(_), None, Some(_)) if counts.read < counts.entries => {
                let of_one = |random: &mut Random| {
                    let mut chosen = random.rng().choose_multiple(0..counts.entries, counts.read);
                    chosen.sort_unstable();
                    chosen
                };
                let chosen: Vec<usize> = (0..requests).flat_map(|_| of_one(&mut random)).collect();
                let memory = Memory::of(gpu, &counts_of(chosen.iter().copied()))?;
                Some((chosen, memory))
            }
            _ => None,
        };
        let results = requests * heads;
        let memory = |bytes: usize| Memory::new(gpu, bytes as u64);
        Ok(Box::new(HeldComposite {
            plan: *self,
            counts,
            extent,
            window,
            entries,
            keys,
            compressor,
            queries: halves_of(&query),
            query: Memory::of(gpu, &query)?,
            to_sinks: sinks.as_ref().map(|sinks| Memory::of(gpu, &bytes_of(sinks))).transpose()?,
            sinks,
            to_rows: [
                Memory::of(gpu, &bytes_of(&rows[0]))?,
                Memory::of(gpu, &bytes_of(&rows[1]))?,
                Memory::of(gpu, &bytes_of(&rows[2]))?,
            ],
            rows,
            window_counts: Memory::of(gpu, &counts_of(vec![counts.window; requests]))?,
            entry_counts: Memory::of(gpu, &counts_of(vec![counts.read; requests]))?,
            given,
            splits,
            parts: memory(results * (splits.0 + splits.1) * (VALUES + 2) * 4)?,
            output: memory(results * VALUES * 4)?,
            combine: gpu.kernel("combine", "combine", 128)?,
            gpu: Rc::clone(gpu),
        }))
    }
}

impl HeldComposite {
    fn width(&self) -> usize {
        self.queries.len() / (self.extent.requests * self.plan.heads)
    }

    /// The true factor depends on widths that a latent does not show; it changes no time, and the reference uses the same.
    fn scale(&self) -> f64 {
        1.0 / (self.width() as f64).sqrt()
    }

    /// What comes before the attention.
    fn update(&self, layer: usize) -> Result<(), GpuError> {
        let (gpu, requests) = (&self.gpu, self.extent.requests);
        if let Some(window) = &self.window {
            window.start_write(gpu, layer, requests, &self.to_rows[0])?;
        }
        if let Some(compressor) = &self.compressor {
            compressor.start(gpu, layer, requests)?;
        }
        if self.plan.writes_an_entry(self.extent.context) {
            let made = |place: usize| match &self.compressor {
                Some(compressor) => &compressor.made[place].values,
                None => &self.to_rows[1 + place],
            };
            if let Some(entries) = &self.entries {
                entries.start_write(gpu, layer, requests, made(0))?;
            }
            if let Some(keys) = &self.keys {
                keys.start_write(gpu, layer, requests, made(1))?;
            }
        }
        match &self.keys {
            Some(keys) => keys.start(gpu, layer, requests),
            None => Ok(()),
        }
    }

    /// The attention of the first `requests`, over all entries that are read or those from a page on.
    fn attend(
        &self,
        layer: usize,
        requests: usize,
        entry_counts: &Memory,
        first_page: usize,
    ) -> Result<(), GpuError> {
        let (of_window, of_entries) = self.splits;
        let window = Attention {
            query: &self.query,
            counts: &self.window_counts,
            first_page: 0,
            chosen: None,
            heads: self.plan.heads,
            requests,
            parts: &self.parts,
            all_splits: of_window + of_entries,
            first_split: 0,
            splits: of_window,
            factor: base_2(self.scale()),
        };
        if let Some(records) = &self.window {
            records.start_read(&self.gpu, layer, &window)?;
        }
        if let Some(records) = &self.entries {
            let chosen = match (&self.keys, &self.given) {
                (Some(keys), _) => Some((&keys.chosen, keys.top_k)),
                (None, Some((_, memory))) => Some((memory, self.counts.read)),
                (None, None) => None,
            };
            let entries = Attention {
                counts: entry_counts,
                first_page,
                chosen,
                first_split: of_window,
                splits: of_entries,
                ..window
            };
            records.start_read(&self.gpu, layer, &entries)?;
        }
        let arguments = Arguments::new()
            .memory(&self.parts)
            .optional(self.to_sinks.as_ref())
            .memory(&self.output)
            .count(of_window + of_entries)
            .count(VALUES);
        self.gpu.launch(&self.combine, [self.plan.heads, requests, 1], &arguments)
    }

    /// Whether what the step wrote for the first request is what it was given, as near as its format allows; what a
    /// compressor made is compared with the reference.
    fn check_written(&self, layer: usize) -> Result<f64, GpuError> {
        let mut worst = 0.0_f64;
        let mut demand = |given: &[f32], stored: &[f64], tolerance: f64| {
            let largest = given.iter().fold(0.0_f64, |largest, value| largest.max(f64::from(value.abs())));
            let far = |(given, stored): (&f32, &f64)| {
                let off = (f64::from(*given) - stored).abs();
                off.is_nan() || off > tolerance * largest
            };
            if given.iter().zip(stored).any(far) {
                worst = f64::INFINITY;
            }
        };
        if let Some(window) = &self.window {
            let stored = window.rows(layer, &[window.written])?.swap_remove(0);
            demand(&self.rows[0][..stored.len()], &stored, window.record.written_tolerance());
        }
        if self.plan.writes_an_entry(self.extent.context) {
            let made = |place: usize, width: usize| match &self.compressor {
                Some(compressor) => compressor.values(place),
                None => Ok(self.rows[1 + place][..width].to_vec()),
            };
            if let Some(entries) = &self.entries {
                let stored = entries.rows(layer, &[entries.written])?.swap_remove(0);
                demand(&made(0, stored.len())?, &stored, entries.record.written_tolerance());
            }
            if let Some(keys) = &self.keys {
                let stored = keys.written(layer)?;
                demand(&made(1, stored.len())?, &stored, keys.written_tolerance());
            }
        }
        if let Some(compressor) = &self.compressor {
            worst = worst.max(compressor.check(layer)?);
        }
        Ok(worst)
    }
}

impl Held for HeldComposite {
    fn launch(&self, layer: usize) -> Result<(), GpuError> {
        self.update(layer)?;
        self.attend(layer, self.extent.requests, &self.entry_counts, 0)
    }

    fn check(&self, layer: usize) -> Result<Check, GpuError> {
        self.output.fill(0xFF)?;
        self.update(layer)?;
        let (heads, counts) = (self.plan.heads, self.counts);
        let width = self.width();
        let a_record = width + VALUES;
        let (chosen, mut error, scores) = match (&self.keys, &self.given) {
            (Some(keys), _) => {
                let (chosen, error, part) = keys.check(layer)?;
                (Some(chosen), error, part)
            }
            (None, Some((chosen, _))) => (Some(chosen[..counts.read].to_vec()), 0.0, None),
            (None, None) => (None, 0.0, None),
        };
        // Where all of many entries are read, the last pages of them stand for all.
        let affordable = (CHECKED_PRODUCTS / (a_record * heads.min(LEAST_HEADS))).max(PAGE_RECORDS);
        let first_page = match chosen {
            None if counts.read > affordable => (counts.read - affordable) / PAGE_RECORDS,
            _ => 0,
        };
        let begin = first_page * PAGE_RECORDS;
        let indices = chosen.unwrap_or_else(|| (begin..counts.read).collect());
        let entry_counts = Memory::of(&self.gpu, &counts_of([indices.len()]))?;
        self.attend(layer, 1, &entry_counts, first_page)?;
        let got = floats_of(&self.output.read(0, heads * VALUES * 4)?);

        let mut rows = Vec::new();
        if let Some(window) = &self.window {
            rows.extend(window.rows(layer, &(0..window.count).collect::<Vec<_>>())?);
        }
        if let Some(entries) = &self.entries {
            rows.extend(entries.rows(layer, &indices)?);
        }
        let compared = spread(heads, CHECKED_PRODUCTS / (rows.len() * a_record).max(1));
        let (mut right, mut output) = (Vec::new(), Vec::new());
        for head in &compared {
            // Sinks are logarithms to base 2 on the device.
            let sink = self.sinks.as_ref().map(|sinks| f64::from(sinks[*head]) * std::f64::consts::LN_2);
            let query = &self.queries[head * width..][..width];
            right.extend(attend_rows(query, self.scale(), &rows, VALUES, sink));
            output.extend_from_slice(&got[head * VALUES..][..VALUES]);
        }
        error = error.max(relative_error(right, &output)).max(self.check_written(layer)?);
        let of_heads = (compared.len() < heads).then(|| format!("{} of {heads} heads", compared.len()));
        let of_records = (begin > 0).then(|| format!("the last {} records", indices.len()));
        let part = part(&[of_heads, of_records, scores, first_of(self.extent.requests)]);
        Ok(Check { largest_relative_error: error, part })
    }

    fn kernels(&self) -> Vec<String> {
        let mut kernels = Vec::new();
        kernels.extend(self.window.iter().map(Records::write_kernel));
        if let Some(compressor) = &self.compressor {
            kernels.extend(compressor.made.iter().map(|_| "compress".to_owned()));
        }
        if self.plan.writes_an_entry(self.extent.context) {
            kernels.extend(self.entries.iter().map(Records::write_kernel));
            kernels.extend(self.keys.iter().map(|keys| keys.kernels()[0].clone()));
        }
        kernels.extend(self.keys.iter().flat_map(|keys| keys.kernels()[1..].to_vec()));
        kernels.extend(self.window.iter().chain(&self.entries).map(Records::read_kernel));
        kernels.push("combine".to_owned());
        kernels
    }

    fn state_bytes(&self) -> u64 {
        let records = self.window.iter().chain(&self.entries).map(|records| records.pages.bytes());
        let keys = self.keys.iter().map(|keys| keys.pages.bytes());
        records.chain(keys).chain(self.compressor.iter().map(HeldCompressor::bytes)).sum()
    }
}
