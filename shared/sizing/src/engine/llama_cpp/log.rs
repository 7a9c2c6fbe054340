//! The lines that llama.cpp prints about its memory.

use super::Role;
use super::cells::Cells;
use super::layers::Cache;
use crate::architecture::Architecture;
use crate::mixer::{Compression, Mixer};
use crate::{Bytes, Result};

/// One line a cache, as `llama_kv_cache`, `llama_memory_recurrent` and `llama_dsv4_comp_state` print them (October 2026).
pub(super) fn lines(caches: &[Cache], cells: &Cells, architecture: &Architecture) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for role in [Role::Full, Role::Window, Role::Compressed, Role::Index] {
        // One object holds all layers of one size, and prints one line.
        let mut sizes: Vec<u64> =
            caches.iter().filter(|cache| cache.role == role).map(|cache| cache.cells).collect();
        sizes.dedup();
        for size in sizes {
            let own: Vec<&Cache> =
                caches.iter().filter(|cache| cache.role == role && cache.cells == size).collect();
            lines.push(cache_line(&own, cells)?);
        }
    }
    let states: Vec<&Cache> = caches.iter().filter(|cache| cache.role == Role::State).collect();
    let compressors = compressor_lines(architecture, cells)?;
    if !states.is_empty() && compressors.is_empty() {
        lines.push(state_line(&states, cells, architecture.layer_count())?);
    }
    lines.extend(compressors);
    Ok(lines)
}

/// Rows of the compressors of DeepSeek-V4: a line for CSA, HCA and the indexer's, each of which has values and weights of its width,
/// twice that where groups overlap (`src/llama-kv-cache-dsv4.cpp`).
fn compressor_lines(architecture: &Architecture, cells: &Cells) -> Result<Vec<String>> {
    let (mut csa, mut hca, mut indexers) = (None, None, None);
    for class in architecture.classes() {
        for mixer in &class.mixers {
            let Mixer::Compressed(attention) = mixer else { continue };
            let Some(branch) = &attention.compression else { continue };
            let Some(rows) = &branch.rows else { continue };
            let layers = class.layers.len() as u64;
            let of = |name, width| Compressor { name, branch, rows: rows.rows.get(), width, layers };
            match &branch.index {
                Some(index) => {
                    csa = Some(of("csa", attention.width.get().saturating_mul(2)).beside(csa));
                    indexers = Some(of("lid", index.width.get().saturating_mul(2)).beside(indexers));
                }
                None => hca = Some(of("hca", attention.width.get()).beside(hca)),
            }
        }
    }
    [csa, hca, indexers].into_iter().flatten().map(|compressor| compressor.line(cells)).collect()
}

/// What one of them keeps in `layers` layers: values and weights, `rows` rows of `width` FP32 values each.
struct Compressor<'a> {
    name: &'static str,
    branch: &'a Compression,
    rows: u64,
    width: u64,
    layers: u64,
}

impl Compressor<'_> {
    /// With the layers of another class of layers.
    fn beside(self, other: Option<Self>) -> Self {
        let layers = self.layers + other.map_or(0, |other| other.layers);
        Self { layers, ..self }
    }

    fn line(&self, cells: &Cells) -> Result<String> {
        let Self { name, branch, rows, width, layers } = self;
        let (streams, snapshots) = (cells.sequences, cells.snapshots);
        let one = Bytes::new(2 * 4).times(*rows)?.times(*width)?;
        let size = one.times(*layers)?.times(streams)?.times(snapshots + 1)?;
        Ok(format!(
            "llama_dsv4_comp_state: {name} ratio = {}, state = {rows} x {width}, streams = {streams}, rs_seq = {snapshots}, layers = {layers}, size = {:7.2} MiB",
            branch.ratio.get(),
            mib(size),
        ))
    }
}

fn cache_line(own: &[&Cache], cells: &Cells) -> Result<String> {
    let part = |side: fn(&Cache) -> Bytes| -> Result<Bytes> {
        own.iter().try_fold(Bytes::ZERO, |total, cache| {
            total.plus(side(cache).times(cache.cells)?.times(cache.copies)?.times(cache.layers)?)
        })
    };
    let (k, v) = (part(|cache| cache.k)?, part(|cache| cache.v)?);
    let layers: u64 = own.iter().map(|cache| cache.layers).sum();
    let first = own[0];
    Ok(format!(
        "llama_kv_cache: size = {:7.2} MiB ({:6} cells, {layers:3} layers, {:2}/{} seqs), K ({}): {:7.2} MiB, V ({}): {:7.2} MiB",
        mib(k.plus(v)?),
        first.cells,
        cells.sequences,
        first.copies,
        first.formats[0],
        mib(k),
        first.formats[1],
        mib(v),
    ))
}

/// All layers of the model are counted, whether they have a state or not (`hparams.n_layer()` of `src/llama-memory-recurrent.cpp`).
fn state_line(states: &[&Cache], cells: &Cells, model_layers: usize) -> Result<String> {
    let part = |side: fn(&Cache) -> Bytes| -> Result<Bytes> {
        states.iter().try_fold(Bytes::ZERO, |total, cache| {
            total.plus(side(cache).times(cache.copies)?.times(cache.layers)?)
        })
    };
    let (r, s) = (part(|cache| cache.k)?, part(|cache| cache.v)?);
    let [r_format, s_format] = states[0].formats;
    Ok(format!(
        "llama_memory_recurrent: size = {:7.2} MiB ({:6} cells, {model_layers:3} layers, {:2} seqs {:2} rs_seq), R ({r_format}): {:7.2} MiB, S ({s_format}): {:7.2} MiB, P ({r_format}): {:7.2} MiB",
        mib(r.plus(s)?),
        cells.sequences,
        cells.sequences,
        cells.snapshots,
        mib(r),
        mib(s),
        0.0,
    ))
}

fn mib(bytes: Bytes) -> f64 {
    bytes.get() as f64 / f64::from(1_u32 << 20)
}
