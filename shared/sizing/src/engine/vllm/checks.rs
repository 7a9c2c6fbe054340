//! Launches that vLLM refuses, in its own rules.

use super::Setup;
use super::group::Grouping;
use super::spec::{Flight, Kind};
use crate::engine::Query;
use crate::engine::gpu::Family;
use crate::engine::pipeline::pipeline_ranks;
use crate::format::KvFormat;
use crate::mixer::{Generation, Heads, Mixer};
use crate::settings::MambaCacheMode;
use crate::warning::Warning;
use crate::{Error, Result};

/// Refuses ranks that vLLM does not start with, and pipeline ranks without a layer.
///
/// Source: vLLM 0.33, `config/parallel.py` (context-parallel ranks are tensor-parallel ones), `config/model.py`
/// (`verify_with_parallel_config`: tensor-parallel ranks must divide the query heads, and K/V heads must be repeated on as
/// many ranks as share their tokens).
///
/// # Errors
///
/// The setting that does not fit.
pub(super) fn ranks(query: &Query<'_>) -> Result<()> {
    pipeline_ranks(query.settings, query.architecture)?;
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

impl Setup<'_> {
    /// Refuses what is only known once the caches are laid out.
    ///
    /// # Errors
    ///
    /// The setting that does not fit.
    pub(super) fn check_layout(&self, grouping: &Grouping, flight: Flight, block: u64) -> Result<()> {
        self.check_latents()?;
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

    /// `validate_nvfp4_kv_cache_with_mla` of `config/vllm.py`; sparse latents have a record of their own from 0.30 on
    /// (`nvfp4_ds_mla`).
    fn check_latents(&self) -> Result<()> {
        let refuses = |mixer: &Mixer| match mixer {
            Mixer::Mla(_) => !self.keeps_heads_of_latents(),
            Mixer::Dsa { .. } => !self.rules.sparse_nvfp4,
            Mixer::Compressed(attention) => attention.generation == Generation::V4,
            _ => false,
        };
        match self.settings.latent_dtype() {
            Some((name, KvFormat::Nvfp4)) if self.mixers().any(refuses) => {
                Err(Error::setting(name, "vLLM refuses nvfp4 for these latents; set fp8 or bf16"))
            }
            _ => Ok(()),
        }
    }

    /// Says where no back end of latents lists the format that is set (`supported_kv_cache_dtypes` of `v1/attention/backends/mla`,
    /// 0.33), or none of this GPU (`supports_combination` of `flashmla_sparse.py`, 0.30 to 0.33): the planner counts it, and a
    /// launch finds no back end.
    pub(super) fn latent_format_warning(&self) -> Option<Warning> {
        let (name, asked) = self.settings.latent_dtype()?;
        let is_unlisted = |mixer: &Mixer| match asked {
            KvFormat::Fp8PerTokenHead | KvFormat::Int8PerTokenHead | KvFormat::Int4PerTokenHead => {
                matches!(mixer, Mixer::Mla(_) | Mixer::Dsa { .. })
            }
            KvFormat::Fp8DsMla => matches!(mixer, Mixer::Mla(_)),
            KvFormat::Nvfp4 => self.gpu.family != Family::Sm100 && matches!(mixer, Mixer::Dsa { .. }),
            _ => false,
        };
        let is_told = !self.keeps_heads_of_latents() && self.mixers().any(is_unlisted);
        is_told.then(|| {
            let reader = match asked {
                KvFormat::Nvfp4 => "no back end but that of SM10x",
                _ => "no back end",
            };
            let message = format!(
                "vLLM counts {} for these latents, but {reader} reads it, so a launch ends there; set fp8 or bf16",
                asked.name()
            );
            Warning::new(name, message)
        })
    }

    /// Context-parallel ranks beside caches whose tokens they cannot share: windows in every version read (0.11 to 0.33,
    /// `SlidingWindowSpec.max_memory_usage_bytes` of `v1/kv_cache_interface.py`); chunks where prefixes are looked up
    /// (`ChunkedLocalAttentionManager.find_longest_cache_hit`), and states up to 0.20 (`HybridKVCacheCoordinator`).
    fn check_shared_tokens(&self, grouping: &Grouping) -> Result<()> {
        if self.settings.dcp() == 1 {
            return Ok(());
        }
        let is_window = |kind| matches!(kind, Kind::Window { .. } | Kind::LatentWindow { .. });
        let is_state = |kind| matches!(kind, Kind::State { .. } | Kind::StatePerBlock { .. });
        let keeps_states = self.cache_mode != MambaCacheMode::None && !self.rules.shares_beside_states;
        let beside = if has(grouping, is_window) {
            "sliding windows"
        } else if self.settings.prefix_caching != Some(false)
            && has(grouping, |kind| matches!(kind, Kind::Chunk { .. }))
        {
            "chunks with prefix caching"
        } else if keeps_states && has(grouping, is_state) {
            "states with prefix caching in this version"
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
