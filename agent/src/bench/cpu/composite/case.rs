use std::sync::Arc;
use std::time::Instant;

use kvscope_sizing::Bytes;

use super::reference;
use super::step::Step;
use super::stores::Stores;
use super::{Layer, sizes_within};
use crate::bench::backend::{CaseOrder, Check, PreparedCase, Resident, Timed};
use crate::bench::cpu::gather::PAGE_RECORDS;
use crate::bench::cpu::pool::Pool;
use crate::bench::cpu::records;
use crate::bench::cpu::reference::relative_error;
use crate::bench::cpu::simd::InstructionSet;
use crate::bench::{BenchError, memory};

/// Scores whose difference is below this share of the largest score may be in either order.
const SCORE_TOLERANCE: f64 = 1e-5;

/// State and step of one case.
pub(super) struct CompositeCase {
    pool: Arc<Pool>,
    layers: usize,
    pub(super) stores: Stores,
    pub(super) step: Step,
    resident: Option<Resident>,
}

impl CompositeCase {
    pub(super) fn new(
        layer: Layer,
        set: InstructionSet,
        order: &CaseOrder,
        pool: Arc<Pool>,
    ) -> Result<Self, BenchError> {
        let [layers, context, requests] =
            sizes_within(order, [order.layers, order.context, order.batch], u64::from(u32::MAX))?;
        let counts = layer.counts(context);
        if counts.window + counts.entries == 0 {
            return Err(BenchError::Shape(format!("{context} tokens leave no entry to read")));
        }
        let before = memory::resident();
        let stores = Stores::new(&layer, counts, layers, requests, order.seed, &pool)?;
        let resident = memory::resident().zip(before).map(|(after, before)| after.since(before));
        let step = Step::new(layer, set, &stores, (requests, context), order.seed, pool.workers());
        Ok(Self { pool, layers, stores, step, resident })
    }

    pub(super) fn run_layer(&mut self, layer: usize) {
        let (step, stores, pool) = (&mut self.step, &mut self.stores, &self.pool);
        self.pool.enter(|| step.run_layer(stores, layer, pool));
    }

    /// The largest relative error of a request's first `heads` heads in the layer that was run last.
    pub(super) fn compare(&self, layer: usize, request: usize, heads: usize) -> f64 {
        let (token, shape) = (&self.step.tokens[request], &self.step.layer);
        let window = self.step.counts.window;
        let rows: Vec<Vec<f64>> = token
            .records
            .iter()
            .enumerate()
            .map(|(place, at)| {
                let store = if place < window { &self.stores.window } else { &self.stores.entries };
                let store = store.as_ref().expect("a record lies in a store");
                let bytes = &store.state.layer_bytes(layer)[at.byte..at.byte + store.record.bytes()];
                records::reference::row(bytes, store.record)
            })
            .collect();
        let output = self.step.output().chunks(shape.rows.heads * shape.rows.value_width).nth(request);
        let output = &output.expect("every request has an output")[..heads * shape.rows.value_width];
        let sink = |head: usize| self.step.sinks.as_ref().map(|sinks| sinks[head]);
        let right = (0..heads).flat_map(|head| reference::attend(shape, token, head, &rows, sink(head)));
        relative_error(right, output)
    }

    /// How far, as a share of the largest score, the order of chosen and other keys is from the reference's: over the
    /// chosen and about `others` of the rest. 0 where nothing is chosen.
    pub(super) fn compare_choice(&self, layer: usize, request: usize, others: usize) -> f64 {
        let (Some(store), Some(entries)) = (&self.stores.keys, &self.stores.entries) else { return 0.0 };
        let (token, counts) = (&self.step.tokens[request], self.step.counts);
        let chosen: std::collections::HashSet<usize> =
            token.records[counts.window..].iter().map(|at| at.byte).collect();
        if chosen.len() != counts.read {
            return f64::INFINITY;
        }
        let bytes = store.dimensions.page_bytes();
        let score = |index: usize| {
            let page = store.pages(request)[index / PAGE_RECORDS] as usize;
            let page = &store.state.layer_bytes(layer)[page * bytes..(page + 1) * bytes];
            let key = reference::key(page, store.dimensions, index % PAGE_RECORDS);
            reference::score(token, store.dimensions, &key)
        };
        let step = (counts.keys / others.max(1)).max(1);
        let (mut lowest, mut highest, mut largest) = (f64::INFINITY, f64::NEG_INFINITY, 0.0_f64);
        for index in 0..counts.keys {
            let is_chosen = chosen.contains(&entries.byte(request, index));
            if !is_chosen && index % step != 0 {
                continue;
            }
            let score = score(index);
            largest = largest.max(score.abs());
            if is_chosen {
                lowest = lowest.min(score);
            } else {
                highest = highest.max(score);
            }
        }
        ((highest - lowest) / largest).max(0.0)
    }
}

impl PreparedCase for CompositeCase {
    fn asked_bytes(&self) -> Bytes {
        Bytes::new(self.stores.bytes())
    }

    fn resident(&self) -> Option<Resident> {
        self.resident
    }

    fn check(&mut self) -> Result<Check, BenchError> {
        self.run_layer(self.layers - 1);
        let (rows, counts) = (self.step.layer.rows, self.step.counts);
        // The reference does about 2e8 of these a second; a check is to take a fraction of a second.
        let a_head = (counts.window + counts.read) * (rows.width + rows.value_width);
        let heads = (30_000_000 / a_head).clamp(1, rows.heads);
        let a_key = self.step.layer.index.map_or(1, |index| index.heads * index.width);
        let keys = (20_000_000 / a_key).max(1);
        let last = self.layers - 1;
        let choice = self.compare_choice(last, 0, keys);
        let mut error = self.compare(last, 0, heads);
        if choice > SCORE_TOLERANCE {
            error = f64::INFINITY;
        }
        let mut left_out = Vec::new();
        if heads < rows.heads {
            left_out.push(format!("{heads} of {} heads", rows.heads));
        }
        if self.step.tokens.len() > 1 {
            left_out.push(format!("the first of {} requests", self.step.tokens.len()));
        }
        if counts.keys > keys {
            left_out.push(format!("the chosen and about {keys} of the other keys"));
        }
        let part = (!left_out.is_empty()).then(|| format!("{}, in the last layer", left_out.join(", ")));
        Ok(Check { largest_relative_error: error, part })
    }

    fn step(&mut self) -> Result<Timed, BenchError> {
        let (step, stores, pool, layers) = (&mut self.step, &mut self.stores, &self.pool, self.layers);
        Ok(Timed::on_processors(self.pool.enter(|| {
            let started = Instant::now();
            for layer in 0..layers {
                step.run_layer(stores, layer, pool);
            }
            started.elapsed()
        })))
    }
}
