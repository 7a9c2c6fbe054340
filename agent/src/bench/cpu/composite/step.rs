//! One decode step of one layer: update, choose, attend.

use std::sync::Mutex;

use super::compressor::{self, Pooling, Weights};
use super::stores::Stores;
use super::{Compressor, Counts, Layer};
use crate::bench::cpu::gather::{self, RecordAt, Records, Store};
use crate::bench::cpu::indexer::{self, KeyFormat, PAGE_KEYS};
use crate::bench::cpu::numbers::E4M3;
use crate::bench::cpu::parts::{Extent, Part, WorkerParts, join, parts_of};
use crate::bench::cpu::pool::{Pool, share};
use crate::bench::cpu::shared_rows;
use crate::bench::cpu::simd::InstructionSet;
use crate::bench::cpu::state::random_value;
use crate::bench::cpu::top_k::TopK;
use crate::bench::shape::StoreOwner;

/// Records that no two workers share: few enough that a window and some entries are shared evenly, and whole vectors.
const SHARED_RECORDS: usize = 16;

pub(super) struct Step {
    pub(super) layer: Layer,
    set: InstructionSet,
    pub(super) context: usize,
    pub(super) counts: Counts,
    pub(super) tokens: Vec<Token>,
    /// Base-2 scores of the heads' sinks; none without a window.
    pub(super) sinks: Option<Vec<f32>>,
    weights: Option<(Weights, Option<Weights>)>,
    scans: Vec<Mutex<Scan>>,
    /// By worker: its channels of every request's entry and index key, one after the other.
    pooled: Vec<Mutex<Vec<f32>>>,
    workers: Vec<Mutex<WorkerParts>>,
    best: TopK,
    chosen: Vec<u32>,
    /// `[request][heads][value_width]`
    output: Vec<f32>,
}

/// What the step is given for one request, and what it reads for it.
pub(super) struct Token {
    /// `[heads][width]`, as given.
    pub(super) query: Vec<f32>,
    packed: Vec<f32>,
    /// `[index heads][index width]`, as given.
    pub(super) index_query: Vec<f32>,
    packed_index_query: Vec<f32>,
    /// `[index heads]`
    pub(super) index_weights: Vec<f32>,
    /// The token's own window record.
    window_row: Vec<f32>,
    /// The token's row of the compressor.
    compressor_row: Vec<f32>,
    /// The entry and the index key that the token ends: given, or made by the compressor.
    made: Made,
    /// The window's records, then the entries.
    pub(super) records: Vec<RecordAt>,
}

#[derive(Default)]
struct Made {
    entry: Vec<f32>,
    key: Vec<f32>,
}

/// One worker's part of the keys.
struct Scan {
    parts: Vec<(Part, TopK)>,
    scratch: Vec<f32>,
}

impl Step {
    pub(super) fn new(
        layer: Layer,
        set: InstructionSet,
        stores: &Stores,
        (requests, context): (usize, usize),
        seed: u64,
        workers: usize,
    ) -> Self {
        let counts = layer.counts(context);
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5157);
        let tokens = (0..requests)
            .map(|request| Token::new(&layer, set, stores, counts, request, &mut random))
            .collect();
        let rows = Extent {
            requests,
            context: counts.window + counts.read,
            pages_a_request: (counts.window + counts.read).div_ceil(SHARED_RECORDS),
        };
        let keys =
            Extent { requests, context: counts.keys, pages_a_request: counts.keys.div_ceil(PAGE_KEYS) };
        let (heads, width) = (layer.rows.heads, layer.rows.value_width);
        // Where everything is read the choice is all keys.
        let k = layer.top_k.unwrap_or(counts.entries).max(1);
        let scan = |worker| Scan {
            parts: parts_of(keys, PAGE_KEYS, worker, workers)
                .into_iter()
                .map(|part| (part, TopK::new(k)))
                .collect(),
            scratch: vec![0.0; layer.index.map_or(0, |index| index.scratch())],
        };
        let attend = |worker| {
            let parts = parts_of(rows, SHARED_RECORDS, worker, workers);
            Mutex::new(WorkerParts::new(parts, heads, width, layer.rows.scratch()))
        };
        let weights = layer.compressor.map(|Compressor { entries, keys }| {
            let position = (counts.entries.max(1) - 1) * entries.ratio;
            let of_entries = Weights::random(entries, position, &mut random);
            (of_entries, keys.map(|keys| Weights::random(keys, position, &mut random)))
        });
        let sinks = layer.window.map(|_| (0..heads).map(|_| 6.0 * random.f32() - 3.0).collect());
        Self {
            layer,
            set,
            context,
            counts,
            tokens,
            sinks,
            weights,
            scans: (0..workers).map(|worker| Mutex::new(scan(worker))).collect(),
            pooled: (0..workers).map(|_| Mutex::default()).collect(),
            workers: (0..workers).map(attend).collect(),
            best: TopK::new(k),
            chosen: Vec::new(),
            output: vec![0.0; requests * heads * width],
        }
    }

    /// Runs the step for one layer; call it inside [`Pool::enter`].
    pub(super) fn run_layer(&mut self, stores: &mut Stores, layer: usize, pool: &Pool) {
        self.update(stores, layer, pool);
        if self.counts.keys > 0 {
            pool.each(|worker| self.scan(stores, layer, worker));
            self.choose(stores);
        }
        pool.each(|worker| self.attend(stores, layer, worker));
        join(&self.workers, self.sinks.as_deref(), &mut self.output, pool);
    }

    /// `[request][heads][value_width]` of the last layer that was run.
    pub(super) fn output(&self) -> &[f32] {
        &self.output
    }

    fn update(&mut self, stores: &mut Stores, layer: usize, pool: &Pool) {
        if let Some(compressor) = self.layer.compressor {
            let rows = stores.rows.as_mut().expect("a compressor has rows");
            let (row, ring) = (compressor.row(), compressor.entries.rows());
            for (request, token) in self.tokens.iter().enumerate() {
                let page = rows.table()[request] as usize;
                let at = (page * ring + (self.context - 1) % ring) * row * 4;
                let place = &mut rows.layer_bytes_mut(layer)[at..at + row * 4];
                place.copy_from_slice(bytemuck::cast_slice(&token.compressor_row));
            }
            if self.ends_a_group() {
                pool.each(|worker| self.pool_rows(stores, layer, worker));
                self.finish_entries();
            }
        }
        for (request, token) in self.tokens.iter().enumerate() {
            if let (Some(window), Some(store)) = (self.layer.window, &mut stores.window) {
                store.write(layer, request, (self.context - 1) % window.tokens, &token.window_row);
            }
            let owns = self.layer.entries.is_some_and(|entries| entries.owner == StoreOwner::Own);
            if !owns || !self.ends_a_group() {
                continue;
            }
            if let Some(store) = &mut stores.entries {
                store.write(layer, request, self.counts.entries - 1, &token.made.entry);
            }
            if let Some(store) = &mut stores.keys {
                store.write(layer, request, self.counts.keys - 1, &token.made.key);
            }
        }
    }

    fn ends_a_group(&self) -> bool {
        let whole = |ratio: usize| self.context.is_multiple_of(ratio);
        self.counts.entries > 0 && self.layer.entries.is_some_and(|entries| whole(entries.ratio))
    }

    /// One worker's channels of what the compressors make, of every request.
    fn pool_rows(&self, stores: &Stores, layer: usize, worker: usize) {
        let (Some(compressor), Some((of_entries, of_keys)), Some(rows)) =
            (self.layer.compressor, &self.weights, &stores.rows)
        else {
            return;
        };
        let mut means = self.pooled[worker].lock().expect("no worker panics while it pools");
        means.clear();
        let stride = compressor.row();
        let values = compressor.entries.rows() * stride;
        let all: &[f32] = bytemuck::cast_slice(rows.layer_bytes(layer));
        let mut pool = |request: usize, pooling: Pooling, weights, first| {
            let page = rows.table()[request] as usize;
            let channels = channels_of(pooling, worker, self.pooled.len());
            let made = means.len();
            means.resize(made + channels.len(), 0.0);
            compressor::pool(
                self.set,
                compressor::Span {
                    pooling,
                    weights,
                    rows: &all[page * values..(page + 1) * values],
                    stride,
                    first,
                    tokens: self.context,
                    channels,
                    means: &mut means[made..],
                },
            );
        };
        for request in 0..self.tokens.len() {
            pool(request, compressor.entries, of_entries, 0);
            if let (Some(pooling), Some(weights)) = (compressor.keys, of_keys) {
                pool(request, pooling, weights, compressor.entries.row());
            }
        }
    }

    /// Puts the workers' channels together.
    fn finish_entries(&mut self) {
        let (Some(compressor), Some((of_entries, of_keys))) = (self.layer.compressor, &self.weights) else {
            return;
        };
        let workers = self.pooled.len();
        let pooled =
            self.pooled.iter_mut().map(|own| own.get_mut().expect("no worker panics while it pools"));
        let mut rests: Vec<&[f32]> = pooled.map(|own| &own[..]).collect();
        let mut finish = |pooling: Pooling, weights: &Weights, entry: &mut Vec<f32>| {
            entry.clear();
            for (worker, rest) in rests.iter_mut().enumerate() {
                let (own, others) = rest.split_at(channels_of(pooling, worker, workers).len());
                entry.extend_from_slice(own);
                *rest = others;
            }
            compressor::finish(pooling, weights, entry);
        };
        for token in &mut self.tokens {
            finish(compressor.entries, of_entries, &mut token.made.entry);
            if let (Some(pooling), Some(weights)) = (compressor.keys, of_keys) {
                finish(pooling, weights, &mut token.made.key);
            }
        }
    }

    fn scan(&self, stores: &Stores, layer: usize, worker: usize) {
        let store = stores.keys.as_ref().expect("keys are scanned where there are some");
        let mut scan = self.scans[worker].lock().expect("no worker panics in a kernel");
        let Scan { parts, scratch } = &mut *scan;
        for (part, best) in parts {
            let token = &self.tokens[part.request];
            let before = (part.pages.start - part.request * store.pages_a_request) * PAGE_KEYS;
            best.clear();
            let span = indexer::Span {
                dimensions: store.dimensions,
                layer: store.state.layer_bytes(layer),
                pages: &store.state.table()[part.pages.clone()],
                keys: part.tokens,
                first: u32::try_from(before).expect("page tables hold 32-bit numbers"),
                query: &token.packed_index_query,
                weights: &token.index_weights,
                scratch,
                best,
            };
            indexer::offer(self.set, span);
        }
    }

    /// Joins the workers' best and puts the records of the chosen entries in place.
    fn choose(&mut self, stores: &Stores) {
        let store = stores.entries.as_ref().expect("keys belong to entries");
        for (request, token) in self.tokens.iter_mut().enumerate() {
            self.best.clear();
            for scan in &self.scans {
                let scan = scan.lock().expect("no worker panics in a kernel");
                let own = scan.parts.iter().filter(|(part, _)| part.request == request);
                own.for_each(|(_, best)| self.best.merge(best));
            }
            self.best.finish(&mut self.chosen);
            token.records.truncate(self.counts.window);
            let entries_store = usize::from(self.layer.window.is_some());
            let at = |index: &u32| store.at(entries_store, request, *index as usize);
            token.records.extend(self.chosen.iter().map(at));
        }
    }

    fn attend(&self, stores: &Stores, layer: usize, worker: usize) {
        let mut worker = self.workers[worker].lock().expect("no worker panics in a kernel");
        let all = [&stores.window, &stores.entries].map(|store| {
            store.as_ref().map(|store| Store { record: store.record, layer: store.state.layer_bytes(layer) })
        });
        let stores: Vec<Store<'_>> = all.into_iter().flatten().collect();
        let pieces_a_request = (self.counts.window + self.counts.read).div_ceil(SHARED_RECORDS);
        worker.each(|part, sums, scratch| {
            let first = (part.pages.start - part.request * pieces_a_request) * SHARED_RECORDS;
            let token = &self.tokens[part.request];
            let span = gather::Span {
                dimensions: self.layer.rows,
                stores: &stores,
                records: Records::Chosen(&token.records[first..first + part.tokens]),
                query: &token.packed,
                scratch,
                running: sums.running,
                summed: sums.summed,
            };
            gather::attend(self.set, span);
        });
    }
}

impl Token {
    fn new(
        layer: &Layer,
        set: InstructionSet,
        stores: &Stores,
        counts: Counts,
        request: usize,
        random: &mut fastrand::Rng,
    ) -> Self {
        let values = |random: &mut fastrand::Rng, count: usize| -> Vec<f32> {
            (0..count).map(|_| half::bf16::from_bits(random_value(random.u64(..))).to_f32()).collect()
        };
        let query = values(random, layer.rows.heads * layer.rows.width);
        #[allow(clippy::cast_possible_truncation, reason = "a factor near 0.1 needs no f64")]
        let factor = (layer.scale() * std::f64::consts::LOG2_E) as f32;
        let scaled: Vec<f32> = query.iter().map(|value| value * factor).collect();
        let packed = shared_rows::pack_query(set, layer.rows, &scaled);

        let (index_query, packed_index_query, index_weights) = match layer.index {
            Some(dims) => {
                let one = |random: &mut fastrand::Rng| narrow_value(dims.format, random);
                let query: Vec<f32> = (0..dims.heads * dims.width).map(|_| one(random)).collect();
                let packed = indexer::pack_query(set, dims, &query);
                (query, packed, values(random, dims.heads))
            }
            None => (Vec::new(), Vec::new(), Vec::new()),
        };

        let mut records = Vec::with_capacity(counts.window + counts.read);
        if let Some(window) = &stores.window {
            records.extend((0..counts.window).map(|slot| window.at(0, request, slot)));
        }
        if let Some(entries) = &stores.entries {
            // An indexer's choice comes with each step; without one it is an earlier layer's, or everything.
            let mut chosen = random.choose_multiple(0..counts.entries, counts.read);
            chosen.sort_unstable();
            let store = usize::from(layer.window.is_some());
            records.extend(chosen.into_iter().map(|index| entries.at(store, request, index)));
        }
        let made = Made {
            entry: values(random, layer.rows.width),
            key: values(random, layer.index.map_or(0, |i| i.width)),
        };
        Self {
            query,
            packed,
            index_query,
            packed_index_query,
            index_weights,
            window_row: values(random, layer.rows.width),
            compressor_row: values(random, layer.compressor.map_or(0, |compressor| compressor.row())),
            made,
            records,
        }
    }
}

/// The channels that a worker pools.
fn channels_of(pooling: Pooling, worker: usize, workers: usize) -> std::ops::Range<usize> {
    let blocks = share(pooling.width / compressor::BLOCK, worker, workers);
    blocks.start * compressor::BLOCK..blocks.end * compressor::BLOCK
}

/// A value that an indexer's query can have: it is as narrow as the keys.
fn narrow_value(format: KeyFormat, random: &mut fastrand::Rng) -> f32 {
    match format {
        KeyFormat::Fp8 => E4M3[usize::from(0x20 | random.u8(..) & 0x9F)],
        KeyFormat::Fp4 => [0.5, 1.5, 3.0, 6.0, -0.5, -1.5, -3.0, -6.0][random.usize(..8)],
        KeyFormat::Bf16 => half::bf16::from_bits(random_value(random.u64(..))).to_f32(),
    }
}

impl Layer {
    /// What scores are multiplied with. For latents the true factor depends on widths that the state does not show; it
    /// changes no time, and the reference uses the same.
    pub(super) fn scale(&self) -> f64 {
        1.0 / (self.rows.width as f64).sqrt()
    }
}
