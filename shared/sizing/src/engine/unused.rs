//! Settings that an engine does not have: they change no figure, and the report says so.

use super::EngineKind::{LlamaCpp, Logical, SgLang, Transformers, TrtLlm, Vllm};
use super::{EngineKind, Query};
use crate::warning::Warning;

/// Settings that only some engines have. A setting that is not listed here belongs to all of them, or its effect
/// depends on the model.
const OWNERS: &[(&[&str], &[EngineKind])] = &[
    (
        &[
            "gdn_prefill_backend",
            "hybrid_manager",
            "kernel_block_size",
            "mamba_cache_mode",
            "mamba_prefill_checkpoint_blocks",
            "prefix_caching",
        ],
        &[Vllm],
    ),
    (&["flash_attn", "kv_unified", "n_ctx", "n_rs_seq", "n_seq_max", "n_ubatch", "swa_full"], &[LlamaCpp]),
    (
        &[
            "mamba_radix_strategy",
            "max_running_requests",
            "pool_tokens",
            "radix_cache",
            "state_slots",
            "swa_full_tokens_ratio",
        ],
        &[SgLang],
    ),
    (
        &["async_scheduling", "available_kv_bytes", "gpu", "max_model_len", "max_num_batched_tokens"],
        &[Vllm, SgLang],
    ),
    (&["block_size"], &[Vllm, SgLang, TrtLlm]),
    (&["layers_on_rank"], &[Logical, SgLang, TrtLlm, Transformers]),
    (&["pp", "tp"], &[Logical, Vllm, SgLang, TrtLlm, Transformers]),
];

/// A warning for each setting of the query that its engine does not have.
pub(super) fn warnings(query: &Query<'_>) -> Vec<Warning> {
    let kind = query.engine.kind();
    let foreign =
        |name: &&str| OWNERS.iter().any(|(names, engines)| names.contains(name) && !engines.contains(&kind));
    let message = || format!("changes nothing: {} has no such setting", kind.name());
    query.settings.given().filter(foreign).map(|name| Warning::new(name, message())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::report;
    use crate::{Settings, find_entry};

    #[test]
    fn every_listed_name_is_a_setting() {
        for (names, _) in OWNERS {
            assert!(names.iter().all(|name| Settings::NAMES.contains(name)), "{names:?}");
        }
    }

    /// A setting that is said to change nothing does change nothing, and one that is not in the list of its engine is
    /// told.
    #[test]
    fn what_is_said_to_change_nothing_changes_nothing() {
        let values = |name: &str| match name {
            "gdn_prefill_backend" => "triton",
            "mamba_cache_mode" => "none",
            "mamba_radix_strategy" => "extra_buffer",
            "swa_full_tokens_ratio" => "0.5",
            "gpu" => "B200",
            "available_kv_bytes" => "9GB",
            "hybrid_manager" | "prefix_caching" | "async_scheduling" | "radix_cache" => "false",
            "flash_attn" | "kv_unified" | "swa_full" => "true",
            _ => "2",
        };
        for id in ["qwen3.5-27b", "gemma-3-27b", "deepseek-v3.2"] {
            let architecture = find_entry(id).unwrap().architecture().unwrap();
            for (names, engines) in OWNERS {
                for kind in EngineKind::ALL.into_iter().filter(|kind| !engines.contains(kind)) {
                    let asked = |settings: &Settings| {
                        let engine = crate::engine::Engine::newest(kind);
                        let mut query = Query::new(&architecture, engine, settings).unwrap();
                        query.context = Some(crate::Tokens::new(100_001));
                        report(&query).unwrap()
                    };
                    let plain = asked(&Settings::default());
                    for name in *names {
                        let mut settings = Settings::default();
                        settings.set(name, values(name)).unwrap();
                        let set = asked(&settings);
                        assert_eq!(plain.figures, set.figures, "{name} in {kind:?}");
                        assert!(
                            set.warnings.iter().any(|warning| warning.field == *name),
                            "{name} in {kind:?}"
                        );
                    }
                }
            }
        }
    }
}
