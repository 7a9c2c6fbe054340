//! Launches that vLLM refuses, in its own rules.

use super::Setup;
use super::group::Grouping;
use super::rules::UnsharedGroups;
use super::spec::{Flight, Kind};
use super::windows::is_of_qwen2;
use crate::engine::Query;
use crate::engine::pipeline::pipeline_ranks;
use crate::mixer::{Heads, Mixer};
use crate::settings::MambaCacheMode;
use crate::{Error, Result};

/// Refuses layers and ranks that vLLM does not start with, and pipeline ranks without a layer.
///
/// Source: vLLM 0.33, `config/parallel.py` (context-parallel ranks are tensor-parallel ones), `config/model.py`
/// (`verify_with_parallel_config`: tensor-parallel ranks must divide the query heads, and K/V heads must be repeated on as
/// many ranks as share their tokens).
///
/// # Errors
///
/// The field or setting that does not fit.
pub(super) fn launch(query: &Query<'_>) -> Result<()> {
    pipeline_ranks(query.settings, query.architecture)?;
    windows(query)?;
    let (tp, dcp) = (query.settings.tp(), query.settings.dcp());
    if let Some(heads) = query.architecture.plain_heads().query_heads.as_ref()
        && !heads.get().is_multiple_of(tp)
    {
        let what = format!(
            "{tp} ranks do not divide {} query heads ({}); vLLM refuses this",
            heads.get(),
            heads.source()
        );
        return Err(Error::setting("tp", what));
    }
    shared_heads(query)?;
    if let Some(kv) = heads(query).map(|heads| &heads.kv_heads).filter(|kv| kv.get() < tp)
        && query.architecture.model_type().is_some_and(|class| class.starts_with("inkling"))
    {
        let what = format!(
            "{tp} ranks have no whole K/V head each of {} ({}), which the convolutions need; vLLM refuses this",
            kv.get(),
            kv.source()
        );
        return Err(Error::setting("tp", what));
    }
    if !tp.is_multiple_of(dcp) {
        let what = format!(
            "{dcp} context-parallel ranks must divide the {tp} tensor-parallel ones, whose ranks they are; vLLM refuses this"
        );
        return Err(Error::setting("dcp", what));
    }
    let Some(heads) = heads(query).filter(|_| dcp > 1) else { return Ok(()) };
    let kv = heads.kv_heads.get();
    if tp <= kv || dcp > tp / kv {
        let what = format!(
            "{dcp} context-parallel ranks need tp of at least {kv} K/V heads × {dcp}, and it is {tp}; vLLM refuses this"
        );
        return Err(Error::setting("dcp", what));
    }
    match &heads.query_heads {
        Some(all) if !(all.get() / kv).is_multiple_of(dcp) => {
            let what = format!(
                "{dcp} does not divide the {} query heads of a K/V head; vLLM refuses this",
                all.get() / kv
            );
            Err(Error::setting("dcp", what))
        }
        _ => Ok(()),
    }
}

/// Qwen2 and Qwen3 with windows in some layers, which an assertion stops unless `max_window_layers` counts all layers
/// (`Qwen2Model.__init__` of `models/qwen2.py`, 0.11 to 0.33; 0.9.2 asserts it of every model with a window).
fn windows(query: &Query<'_>) -> Result<()> {
    let architecture = query.architecture;
    if !is_of_qwen2(architecture) {
        return Ok(());
    }
    let has_full = architecture.mixers().any(|mixer| matches!(mixer, Mixer::Full(_)));
    let has_windows = architecture.mixers().any(|mixer| matches!(mixer, Mixer::Sliding { .. }));
    let is_asserted = has_windows && (has_full || !query.engine.at_least(&[0, 10]));
    let layers = architecture.layer_count() as u64;
    match &architecture.hints().max_window_layers {
        Some(limit) if is_asserted && limit.get() != layers => {
            let which =
                if has_full { "some layers have a window and some none" } else { "layers have a window" };
            let what = format!(
                "{}, and {which}; vLLM refuses that unless it is the number of layers, {layers}, whose windows it then \
                 does not use; give all layers a window or none",
                limit.get(),
            );
            Err(Error::field(limit.source().to_string(), what))
        }
        _ => Ok(()),
    }
}

/// K/V heads that the query heads cannot share (`Attention.__init__` of `layers/attention/attention.py`).
fn shared_heads(query: &Query<'_>) -> Result<()> {
    let Some(heads) = heads(query) else { return Ok(()) };
    match &heads.query_heads {
        Some(queries) if !queries.get().is_multiple_of(heads.kv_heads.get()) => {
            let (kv, queries) = (heads.kv_heads.get(), queries.get());
            let what = format!("{kv} K/V heads do not divide {queries} query heads; vLLM refuses this");
            Err(Error::field(heads.kv_heads.source().to_string(), what))
        }
        _ => Ok(()),
    }
}

impl Setup<'_> {
    /// Refuses what is only known once the caches are laid out.
    ///
    /// # Errors
    ///
    /// The setting that does not fit.
    pub(super) fn check_layout(&self, grouping: &Grouping, flight: Flight, block: u64) -> Result<()> {
        self.check_formats()?;
        self.check_shared_tokens(grouping)?;
        let has_states = || has(grouping, |kind| matches!(kind, Kind::State { .. }));
        let batch = flight.batch_tokens;
        if !self.rules.block_in_batch
            || self.cache_mode != MambaCacheMode::Align
            || block <= batch
            || !has_states()
        {
            return Ok(());
        }
        let what = format!(
            "a batch of {batch} tokens has no room for a block of {block}; this version of vLLM refuses this \
             (`validate_block_size`); set {block} or more"
        );
        Err(Error::setting("max_num_batched_tokens", what))
    }

    /// Context-parallel ranks beside caches whose tokens they cannot share: windows in every version read (0.11 to 0.33,
    /// `SlidingWindowSpec.max_memory_usage_bytes` of `v1/kv_cache_interface.py`); chunks where prefixes are looked up
    /// (`ChunkedLocalAttentionManager.find_longest_cache_hit`); several groups, states mostly, as [`UnsharedGroups`] says.
    fn check_shared_tokens(&self, grouping: &Grouping) -> Result<()> {
        if self.settings.dcp() == 1 {
            return Ok(());
        }
        let has_windows =
            has(grouping, |kind| matches!(kind, Kind::Window { .. } | Kind::LatentWindow { .. }));
        let has_states =
            has(grouping, |kind| matches!(kind, Kind::State { .. } | Kind::StatePerBlock { .. }));
        let has_chunks = has(grouping, |kind| matches!(kind, Kind::Chunk { .. }));
        let keeps_prefixes = if has_states {
            self.cache_mode != MambaCacheMode::None
        } else {
            self.settings.prefix_caching != Some(false)
        };
        let of_several = match self.rules.unshared_groups {
            _ if grouping.groups.len() < 2 => None,
            UnsharedGroups::All => Some("several groups of layers in this version"),
            UnsharedGroups::WithPrefixes if keeps_prefixes && has_states => {
                Some("states with prefix caching in this version")
            }
            UnsharedGroups::WithPrefixes if keeps_prefixes => {
                Some("several groups of layers with prefix caching in this version")
            }
            UnsharedGroups::WithPrefixes | UnsharedGroups::None => None,
        };
        let beside = if has_windows {
            "sliding windows"
        } else if keeps_prefixes && has_chunks {
            "chunks with prefix caching"
        } else if let Some(several) = of_several {
            several
        } else {
            return Ok(());
        };
        Err(Error::setting("dcp", format!("vLLM refuses context-parallel ranks beside {beside}; set 1")))
    }
}

fn has(grouping: &Grouping, wanted: impl Fn(Kind) -> bool) -> bool {
    grouping.groups.iter().flat_map(|group| &group.sets).any(|set| wanted(set.spec.kind))
}

/// K/V heads of the first such layer; `None` for a model of latents.
fn heads<'q>(query: &'q Query<'_>) -> Option<&'q Heads> {
    let mut found = None;
    for mixer in query.architecture.mixers() {
        match mixer {
            Mixer::Mla(_) | Mixer::Dsa { .. } | Mixer::Compressed(_) => return None,
            Mixer::Full(heads)
            | Mixer::IndexedFull(heads, _)
            | Mixer::Sliding { heads, .. }
            | Mixer::Chunked { heads, .. } => {
                found.get_or_insert(heads);
            }
            _ => {}
        }
    }
    found.filter(|heads| heads.kv_heads.get() > 0)
}

#[cfg(test)]
mod tests {
    use crate::engine::{Query, report};
    use crate::{Settings, find_entry};

    fn refusal(id: &str, pairs: &[(&str, &str)]) -> Option<String> {
        let architecture = find_entry(id).unwrap().architecture().unwrap();
        let mut settings = Settings::default();
        for (name, value) in pairs {
            settings.set(name, value).unwrap();
        }
        let query = Query::new(&architecture, "vllm@0.33".parse().unwrap(), &settings).unwrap();
        report(&query).err().map(|error| error.to_string())
    }

    /// `get_supported_kernel_block_sizes` of vLLM 0.33: multiples of 16 for heads and plain latents, 64 for the indexer of DSA,
    /// 256 for DeepSeek-V4.
    #[test]
    fn blocks_that_no_kernel_reads_are_refused() {
        for (id, block, taken) in [
            ("qwen3-8b", "7", false),
            ("qwen3-8b", "8", false),
            ("qwen3-8b", "16", true),
            ("qwen3-8b", "48", true),
            ("qwen3.5-27b", "24", false),
            ("kimi-k2.6", "16", true),
            ("deepseek-v3.2", "32", false),
            ("deepseek-v3.2", "128", true),
            ("deepseek-v4-flash", "128", false),
            ("deepseek-v4-flash", "512", true),
        ] {
            let error = refusal(id, &[("block_size", block)]);
            assert_eq!(error.is_none(), taken, "{id} {block}: {error:?}");
            assert!(
                error.is_none_or(|error| error.starts_with(&format!("block_size: {block} tokens "))),
                "{id}"
            );
        }
    }

    /// vLLM 0.33: `tp_size must be divisible by dcp_size`; for K/V heads tp above their number, and dcp up to tp / heads.
    /// GLM-4.5 has 8 K/V heads, Kimi-K2.6 a latent; 92 layers have no 1000 ranks. `Total number of attention heads (20)
    /// must be divisible by tensor parallel size (8)`: Falcon-H1-34B and GLM-4.7-Flash have 20, Granite-4.0-H-Tiny 12,
    /// DeepSeek-V3.2 128.
    #[test]
    fn ranks_that_vllm_does_not_start_with() {
        for (id, pairs, place) in [
            ("glm-4.5", &[("dcp", "2")] as &[_], "dcp: "),
            ("falcon-h1-34b", &[("tp", "8")], "tp: "),
            ("glm-4.7-flash", &[("tp", "8")], "tp: "),
            ("granite-4.0-h-tiny", &[("tp", "8")], "tp: "),
            ("deepseek-v3.2", &[("tp", "3")], "tp: "),
            ("glm-4.5", &[("tp", "8"), ("dcp", "2")], "dcp: "),
            ("glm-4.5", &[("tp", "8"), ("dcp", "16")], "dcp: "),
            ("glm-4.5", &[("pp", "1000")], "pp: "),
            ("kimi-k2.6", &[("tp", "8"), ("dcp", "3")], "dcp: "),
            ("kimi-k2.6", &[("dcp", "2")], "dcp: "),
        ] {
            let error = refusal(id, pairs).unwrap();
            assert!(error.starts_with(place), "{id} {pairs:?}: {error}");
        }
        assert_eq!(refusal("kimi-k2.6", &[("tp", "8"), ("dcp", "8")]), None);
        assert_eq!(refusal("glm-4.5", &[("tp", "16"), ("dcp", "2")]), None);
    }
}
