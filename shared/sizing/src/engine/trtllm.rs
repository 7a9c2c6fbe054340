//! TensorRT-LLM: what its cache managers budget for a request.

use super::logical::{DensePlan, DenseRules};
use super::{Profile, Query};
use crate::Result;

/// Tokens of a block where nothing is set; 64 in engines of 2024.
const DEFAULT_BLOCK: u64 = 32;

/// Per token: layers × K and V of the rank's heads; a latent is not divided, and attention data parallelism leaves each
/// rank all heads. Windows, states and index keys (raw bytes, 132 for 128 values) are as dense as in `logical`; draft
/// layers come on top. Caches of every token take whole blocks.
///
/// Source: TensorRT-LLM `resource_manager.py` and `mamba_cache_manager.py` with their pull requests of 2026, as
/// excerpts.
///
/// # Errors
///
/// A shape that `tp` does not divide, or an overflow.
pub(super) fn plan<'q>(query: &'q Query<'q>) -> Result<Box<dyn Profile + 'q>> {
    let mut rules = DenseRules::logical(query);
    rules.warnings.retain(|warning| warning.field != "dp");
    rules.block = rules.settings.block_size.unwrap_or(DEFAULT_BLOCK);
    if rules.settings.dp.is_some_and(|ranks| ranks > 1) {
        rules.tp = 1;
    }
    Ok(Box::new(DensePlan::new(query, rules)?))
}
