//! TensorRT-LLM: what its cache managers budget for a request.

use super::logical::{DensePlan, DenseRules, WindowBlocks};
use super::pipeline::Surplus;
use super::shard::{FewGroups, Split, UnevenHeads, shares_evenly};
use super::share::Share;
use super::{Profile, Quantity, Query};
use crate::architecture::{Architecture, Exporter};
use crate::fact::Fact;
use crate::mixer::Mixer;
use crate::settings::Settings;
use crate::warning::Warning;
use crate::{Error, Result};

/// Tokens of a block where nothing is set; 64 in engines of 2024.
const DEFAULT_BLOCK: u64 = 32;

/// Per token: layers × K and V of the rank's heads, rounded up; a latent is not divided, and attention data parallelism leaves each
/// rank all heads. Channels of a convolution are divided whatever groups they are of. States and index keys (raw bytes, 132 for 128 values) are as dense as in `logical`; draft
/// layers come on top. Caches of every token take whole blocks, and windows, each size in a pool of its own, one block more
/// (`kSWAExtraBlock` of `kvCacheManager.h`).
///
/// Source: TensorRT-LLM `resource_manager.py` and `mamba_cache_manager.py` with their pull requests of 2026, as
/// excerpts.
///
/// # Errors
///
/// Query heads or a state that `tp` ranks cannot share, a block that is no power of two, or an overflow.
pub(super) fn plan<'q>(query: &'q Query<'q>) -> Result<Box<dyn Profile + 'q>> {
    let mut rules = DenseRules::logical(query);
    rules.warnings.retain(|warning| warning.field != "dp");
    follow_checkpoint(query.architecture, &mut rules.settings)?;
    rules.block = rules.settings.block_size.unwrap_or(DEFAULT_BLOCK);
    if !rules.block.is_power_of_two() {
        let what = format!("{} tokens are no power of two, as TensorRT-LLM's blocks are", rules.block);
        return Err(Error::setting("block_size", what));
    }
    rules.windows = WindowBlocks::OneMore;
    rules.adjust = without_chunks;
    if has_chunks(query.architecture) {
        let why = "the cache managers know windows and no chunks, so chunked layers keep every token";
        rules.otherwise.extend([Quantity::KvBytes, Quantity::WindowBytes].map(|quantity| (quantity, why)));
    }
    rules.warnings.extend(windows_warning(query.architecture));
    if let Some(groups) = rules.settings.dp.filter(|groups| *groups > 1) {
        check_groups(groups, rules.settings.tp())?;
        // A rank of data-parallel attention holds whole requests, their recurrent state too (`mamba_cache_manager.py`).
        rules.split = Split::even(1);
        rules.groups = groups;
        rules.warnings.extend(Share::of_groups(query, groups, 1).warning(query.batch));
    }
    rules.surplus = Surplus::First;
    rules.split.uneven = UnevenHeads::RoundedUp;
    rules.split.groups = FewGroups::Divided;
    if let Some(heads) = uneven_heads(query.architecture, rules.split.tp) {
        let message = format!(
            "{} ranks do not share {} K/V heads evenly ({}); each reserves {}, as the engine rounds up",
            rules.split.tp,
            heads.get(),
            heads.source(),
            heads.get().div_ceil(rules.split.tp)
        );
        rules.warnings.push(Warning::new("tp", message));
    }
    Ok(Box::new(DensePlan::new(query, rules)?))
}

/// K/V as a pre-quantised checkpoint has them, which a setting cannot override (`validate_and_set_kv_cache_quant` of
/// `_torch/pyexecutor/model_loader.py`; configs of `ModelOpt` and of compressed-tensors).
fn follow_checkpoint(architecture: &Architecture, settings: &mut Settings) -> Result<()> {
    let asked = architecture.checkpoint_kv().filter(|asked| asked.exporter != Exporter::PlainFp8);
    let Some(asked) = asked else { return Ok(()) };
    for (name, given) in
        [("kv_dtype", settings.kv_dtype), ("k_dtype", settings.k_dtype), ("v_dtype", settings.v_dtype)]
    {
        if let Some(given) = given.filter(|given| *given != asked.format) {
            let what = format!(
                "{given} is set, but the checkpoint's K/V are {}; TensorRT-LLM refuses to override them",
                asked.format
            );
            return Err(Error::setting(name, what));
        }
    }
    settings.kv_dtype = Some(asked.format);
    Ok(())
}

/// Windows are what the launch sets, layer by layer; where it sets none, every layer has room for the longest request
/// (`max_attention_window_vec` of `KVCacheManager`, `resource_manager.py`).
fn windows_warning(architecture: &Architecture) -> Option<Warning> {
    let mut mixers = architecture.mixers();
    let has_windows = mixers.any(|mixer| matches!(mixer, Mixer::Sliding { .. }));
    has_windows.then(|| {
        let message = "the model's windows are taken to be set in kv_cache_config.max_attention_window, where TensorRT-LLM \
                       reads them; without it every layer keeps all tokens";
        Warning::new("sliding_window", message)
    })
}

/// A chunk is an argument of the attention alone (`attention_chunk_size` in `_torch/models/modeling_llama.py`); the managers read
/// `kv_cache_config.max_attention_window` (`resource_manager.py`).
fn without_chunks(mixer: Mixer) -> Mixer {
    match mixer {
        Mixer::Chunked { heads, .. } => Mixer::Full(heads),
        other => other,
    }
}

fn has_chunks(architecture: &Architecture) -> bool {
    let mut mixers = architecture.mixers();
    mixers.any(|mixer| matches!(mixer, Mixer::Chunked { .. }))
}

/// Attention data parallelism is on or off: a group for each tensor-parallel rank (`Mapping.dp_size`).
fn check_groups(groups: u64, tp: u64) -> Result<()> {
    if groups == tp {
        return Ok(());
    }
    let what = format!(
        "{groups} groups of data-parallel attention, but TensorRT-LLM has one for each of the {tp} tensor-parallel ranks; \
         set both to the same number"
    );
    Err(Error::setting("dp", what))
}

fn uneven_heads(architecture: &Architecture, tp: u64) -> Option<&Fact> {
    let mut all = architecture.mixers().filter_map(|mixer| match mixer {
        Mixer::Full(heads)
        | Mixer::IndexedFull(heads, _)
        | Mixer::Sliding { heads, .. }
        | Mixer::Chunked { heads, .. }
        | Mixer::Cross { heads, .. } => Some(&heads.kv_heads),
        _ => None,
    });
    all.find(|heads| !shares_evenly(heads.get(), tp))
}

#[cfg(test)]
mod tests {
    use crate::engine::{Quantity, Query, report};
    use crate::{Settings, read_config};

    /// Gemma-3-27B: 52 layers with windows of 1024 tokens, 2 × 16 × 128 × 2 B each. In blocks of 32, a request beyond the
    /// window has 32 and one more (`kSWAExtraBlock`; `SlidingWindowStabilizesBlockCount` of its tests), a shorter one its own.
    #[test]
    fn windows_take_blocks_and_one_more() {
        let gemma = crate::find_entry("gemma-3-27b").unwrap().architecture().unwrap();
        let layer = 52 * 2 * 16 * 128 * 2;
        for (context, slots) in [(100_000, 1056), (1000, 1024), (40, 64), (1056, 1056)] {
            let settings = Settings { context: Some(context), ..Settings::default() };
            let query = Query::new(&gemma, "trtllm".parse().unwrap(), &settings).unwrap();
            let found = report(&query).unwrap();
            let bytes = found.figure(Quantity::WindowBytes).unwrap().whole().unwrap();
            assert_eq!(bytes, slots * layer, "{context}");
            let padding = found.padding.iter().find(|row| row.what == "blocks beyond windows");
            let free = slots - context.min(1024);
            assert_eq!(padding.map_or(0, |row| row.bytes.get()), free * layer, "{context}");
            assert!(found.warnings.iter().any(|warning| warning.message.contains("max_attention_window")));
        }
    }

    /// One chunked layer of Llama 4 Scout's shape, 2 × 8 × 128 × 2 B a token: 100,000 tokens are 3,125 blocks of 32.
    #[test]
    fn chunked_layers_keep_every_token() {
        let config = r#"{"model_type": "llama4_text", "num_hidden_layers": 1, "num_attention_heads": 40, "num_key_value_heads": 8,
            "head_dim": 128, "layer_types": ["chunked_attention"], "attention_chunk_size": 8192, "dtype": "bfloat16"}"#;
        let architecture = read_config(config).unwrap();
        let settings = Settings { context: Some(100_000), ..Settings::default() };
        let query = Query::new(&architecture, "trtllm".parse().unwrap(), &settings).unwrap();
        let kept = report(&query).unwrap().figure(Quantity::ResidentBytes).unwrap();
        assert_eq!(kept.whole(), Some(3125 * 32 * 4096));
    }

    /// `mamba_cache_manager.py` divides `d_inner + 2 × groups × d_state` channels: of Falcon-H1-34B's 72 layers each of 4 ranks
    /// has 8 × 128 × 256 values in bf16 and 3 columns of (4096 + 2 × 2 × 256) / 4 channels, though there are 2 groups.
    #[test]
    fn channels_of_a_convolution_are_divided_without_padding_groups() {
        let architecture = crate::find_entry("falcon-h1-34b").unwrap().architecture().unwrap();
        let settings = Settings { tp: Some(4), context: Some(1000), ..Settings::default() };
        let query = Query::new(&architecture, "trtllm".parse().unwrap(), &settings).unwrap();
        let state = report(&query).unwrap().figure(Quantity::StateBytes).unwrap();
        let layer = 8 * 128 * 256 * 2 + 3 * (4096 + 2 * 2 * 256) / 4 * 2;
        assert_eq!((state.whole(), 72 * layer), (Some(38_301_696), 38_301_696));
    }

    /// `resource_manager.py`: 6 K/V heads over 4 ranks are (6 + 3) div 4 = 2 on each.
    #[test]
    fn heads_of_a_rank_are_rounded_up() {
        let config = r#"{"num_hidden_layers": 1, "num_attention_heads": 24, "num_key_value_heads": 6, "head_dim": 64,
            "dtype": "bfloat16"}"#;
        let architecture = read_config(config).unwrap();
        let settings = Settings { tp: Some(4), ..Settings::default() };
        let query = Query::new(&architecture, "trtllm".parse().unwrap(), &settings).unwrap();
        let report = report(&query).unwrap();
        let slope = report.figure(Quantity::SlopeBytesPerToken).unwrap();
        assert_eq!(slope.whole(), Some(2 * 2 * 64 * 2));
        assert!(report.warnings.iter().any(|warning| warning.message.contains("num_key_value_heads")));
    }
}
