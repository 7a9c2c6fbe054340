//! The lines that llama.cpp prints about its memory.

use super::Role;
use super::cells::Cells;
use super::layers::Cache;
use crate::{Bytes, Result};

/// One line a cache, as `llama_kv_cache` and `llama_memory_recurrent` print them: the former counts its own layers, the latter all
/// `model_layers` of the model (`hparams.n_layer()` of `src/llama-memory-recurrent.cpp`).
pub(super) fn lines(caches: &[Cache], cells: &Cells, model_layers: usize) -> Result<Vec<String>> {
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
    if !states.is_empty() {
        lines.push(state_line(&states, cells, model_layers)?);
    }
    Ok(lines)
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

fn state_line(states: &[&Cache], cells: &Cells, model_layers: usize) -> Result<String> {
    let part = |side: fn(&Cache) -> Bytes| -> Result<Bytes> {
        states.iter().try_fold(Bytes::ZERO, |total, cache| {
            total.plus(side(cache).times(cache.copies)?.times(cache.layers)?)
        })
    };
    let (r, s) = (part(|cache| cache.k)?, part(|cache| cache.v)?);
    let [r_format, s_format] = states[0].formats;
    Ok(format!(
        "llama_memory_recurrent: size = {:7.2} MiB ({:6} cells, {model_layers:3} layers, {:2} seqs), R ({r_format}): {:7.2} MiB, S ({s_format}): {:7.2} MiB",
        mib(r.plus(s)?),
        cells.sequences,
        cells.sequences,
        mib(r),
        mib(s),
    ))
}

fn mib(bytes: Bytes) -> f64 {
    bytes.get() as f64 / f64::from(1_u32 << 20)
}
