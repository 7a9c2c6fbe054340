//! Settings that an engine does not have: they change no figure, and the report says so.

use super::EngineKind::{LlamaCpp, Logical, SgLang, Transformers, TrtLlm, Vllm};
use super::{EngineKind, Quantity, Query, profile};
use crate::settings::{MlaStorage, Settings};
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
    (&["dcp"], &[Logical, Vllm, SgLang, TrtLlm, Transformers]),
    (&["dp"], &[Logical, SgLang, TrtLlm, Transformers]),
    (&["encoder_tokens"], &[Logical, SgLang, LlamaCpp, TrtLlm, Transformers]),
    // SGLang keeps an encoder's output in the slots of its one pool.
    (&["cross_dtype"], &[Logical, LlamaCpp, TrtLlm, Transformers]),
    // llama.cpp keeps state in f32 and index keys in the type of its K cache.
    (&["conv_dtype", "index_dtype", "state_dtype"], &[Logical, Vllm, SgLang, TrtLlm, Transformers]),
    (&["checkpoint_interval", "naive"], &[Logical, SgLang, LlamaCpp, TrtLlm, Transformers]),
];

/// K and V each in a format of its own.
const APART: [&str; 2] = ["k_dtype", "v_dtype"];

/// Whether `engine` has the setting of that name, so that asking for it there makes sense. `--kv-cache-dtype` of vLLM and
/// SGLang and `kv_cache_config.dtype` of TensorRT-LLM are of K and V together; llama.cpp has `-ctk` and `-ctv`.
pub fn has_setting(engine: EngineKind, name: &str) -> bool {
    if APART.contains(&name) {
        return matches!(engine, Logical | LlamaCpp);
    }
    OWNERS.iter().all(|(names, engines)| !names.contains(&name) || engines.contains(&engine))
}

/// Settings whose effect depends on the model: whether they change a figure is measured.
const MEASURED: [&str; 4] = ["dcp", "dp", "num_speculative_tokens", "mla_storage"];

/// A warning for each setting of the query that its engine does not have, and for each measured one that changes nothing
/// here. What `known` warns of already is left out.
pub(super) fn warnings(query: &Query<'_>, known: &[Warning]) -> Vec<Warning> {
    let kind = query.engine.kind();
    // Of formats of their own, those that an engine does not have are refused (`formats`).
    let foreign = |name: &&str| !APART.contains(name) && !has_setting(kind, name);
    let message = |name: &str| match (kind, name) {
        (Vllm, "dp") => {
            "changes none of these figures: vllm plans each data-parallel engine alone; ask for the \
                         requests of one"
                .to_owned()
        }
        (Vllm, "encoder_tokens") => {
            "changes no reserved bytes: vllm reserves a whole batch for an encoder's output, \
                                     of which it says what is padding"
                .to_owned()
        }
        _ => format!("changes nothing: {} has no such setting", kind.name()),
    };
    let mut found: Vec<Warning> =
        query.settings.given().filter(foreign).map(|name| Warning::new(name, message(name))).collect();
    for name in MEASURED {
        let told = known.iter().chain(&found).any(|warning| warning.field == name);
        if !told && asks_for_something(query.settings, name) && changes_nothing(query, name) {
            let pooled = with_pool(query.settings);
            let message = if changes_nothing(&Query { settings: &pooled, ..query.clone() }, name) {
                let of_drafts = if draws_on_draft_layers(query, name) {
                    "; what drafting adds are layers of its own, which draft_layers counts"
                } else {
                    ""
                };
                format!("changes none of these figures: {} keeps the same without it{of_drafts}", kind.name())
            } else {
                "changes none of the figures that are answered here, but some that lack a setting".to_owned()
            };
            found.push(Warning::new(name, message));
        }
    }
    found
}

/// Whether drafts are asked for and not how many layers they bring, in an engine that counts those.
fn draws_on_draft_layers(query: &Query<'_>, name: &str) -> bool {
    name == "num_speculative_tokens"
        && query.settings.draft_layers.is_none()
        && has_setting(query.engine.kind(), "draft_layers")
}

fn asks_for_something(settings: &Settings, name: &str) -> bool {
    match name {
        "dcp" => settings.dcp() > 1,
        "dp" => settings.dp.is_some_and(|ranks| ranks > 1),
        "num_speculative_tokens" => settings.draft_tokens() > 0,
        _ => settings.mla_storage == Some(MlaStorage::Expanded),
    }
}

/// The settings with those that figures of a pool lack: some pool, and requests to share it.
fn with_pool(settings: &Settings) -> Settings {
    let budget = settings.available_kv_bytes.unwrap_or(1 << 40);
    Settings {
        available_kv_bytes: settings.pool_tokens.is_none().then_some(budget).or(settings.available_kv_bytes),
        max_model_len: settings.max_model_len.or(Some(1 << 17)),
        state_slots: settings.state_slots.or(Some(1 << 10)),
        ..settings.clone()
    }
}

/// Whether every figure is the same without the setting.
fn changes_nothing(query: &Query<'_>, name: &str) -> bool {
    let mut settings = query.settings.clone();
    match name {
        "dcp" => settings.dcp = None,
        "dp" => settings.dp = None,
        "num_speculative_tokens" => settings.num_speculative_tokens = None,
        _ => settings.mla_storage = None,
    }
    let without = Query { settings: &settings, ..query.clone() };
    match (profile(query), profile(&without)) {
        (Ok(with), Ok(without)) => Quantity::ALL
            .into_iter()
            .all(|quantity| with.figure(quantity).ok() == without.figure(quantity).ok()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EngineReport, Figure, report};
    use crate::{Architecture, catalogue, find_entry};

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
            "naive" => "all_layers_full",
            "cross_dtype" => "f32",
            "conv_dtype" | "state_dtype" => "f16",
            "index_dtype" => "fp4",
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

    /// vLLM has data parallelism, in which each engine has the whole of its pool; context-parallel ranks of SGLang share
    /// the tokens of Kimi's latents.
    #[test]
    fn what_ranks_do_is_not_said_to_be_nothing() {
        let architecture = find_entry("kimi-k2.6").unwrap().architecture().unwrap();
        let told = |engine: &str, name: &str| {
            let mut settings = Settings { tp: Some(8), ..Settings::default() };
            settings.set(name, "8").unwrap();
            let query = Query::new(&architecture, engine.parse().unwrap(), &settings).unwrap();
            let warnings = report(&query).unwrap().warnings;
            warnings.into_iter().find(|warning| warning.field == name).map(|warning| warning.message)
        };
        let dp = told("vllm", "dp").unwrap();
        assert!(dp.contains("each data-parallel engine alone"), "{dp}");
        assert_eq!(told("sglang", "dcp"), None);
    }

    const CROSS_ATTENTION: &str = r#"{"model_type": "mllama", "text_config": {"model_type": "mllama_text_model",
        "num_hidden_layers": 8, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
        "max_position_embeddings": 131072, "cross_attention_layers": [3]}}"#;

    /// The other direction: a setting that no figure of any catalogued model follows is told, in every engine.
    #[test]
    fn what_changes_nothing_is_told() {
        let mut architectures: Vec<Architecture> =
            catalogue().iter().map(|entry| entry.architecture().unwrap()).collect();
        architectures.push(crate::read_config(CROSS_ATTENTION).unwrap());
        let mut silent = Vec::new();
        for kind in EngineKind::ALL {
            let plain: Vec<_> = architectures.iter().map(|own| asked(own, kind, &usual())).collect();
            for name in Settings::NAMES {
                let mut settings = usual();
                settings.set(name, other_value(kind, name)).unwrap();
                // A format of its own is refused where K and V have one.
                let mut told_or_changed = APART.contains(name) && !has_setting(kind, name);
                for (own, plain) in architectures.iter().zip(&plain) {
                    let Some((set, plain)) = asked(own, kind, &settings).zip(plain.as_ref()) else {
                        continue;
                    };
                    let told = set.warnings.iter().any(|warning| warning.field == *name);
                    let changed = figures(&set) != figures(plain);
                    told_or_changed |= told || changed;
                    if MEASURED.contains(name) && !told && !changed {
                        silent.push(format!("{name} in {kind:?}: {:?}", own.model_type()));
                    }
                }
                if !told_or_changed {
                    silent.push(format!("{name} in {kind:?}"));
                }
            }
        }
        assert!(silent.is_empty(), "{}", silent.join("\n"));
    }

    fn usual() -> Settings {
        let mut settings = Settings::default();
        for (name, value) in [
            ("batch", "2"),
            ("conv_dtype", "f32"),
            ("tp", "4"),
            ("max_model_len", "131072"),
            ("encoder_tokens", "1500"),
        ] {
            settings.set(name, value).unwrap();
        }
        settings.set("available_kv_bytes", "400GB").unwrap();
        settings
    }

    fn other_value(kind: EngineKind, name: &str) -> &'static str {
        match name {
            "context" => "5000",
            "batch" => "3",
            // TensorRT-LLM has a data-parallel group for each of the ranks of `usual`.
            "n_seq_max" | "dp" => "4",
            "mla_storage" => "expanded",
            "kv_dtype" | "k_dtype" | "v_dtype" | "cross_dtype" if kind == EngineKind::LlamaCpp => "f32",
            "kv_dtype" | "k_dtype" | "v_dtype" | "cross_dtype" => "fp8",
            "index_dtype" => "fp4",
            "state_dtype" | "conv_dtype" => "f16",
            "gdn_prefill_backend" => "triton",
            "mamba_cache_mode" => "none",
            "naive" => "all_layers_full",
            "mamba_radix_strategy" => "extra_buffer_lazy",
            "swa_full_tokens_ratio" => "0.5",
            "gpu" => "B200",
            "available_kv_bytes" => "300GB",
            "async_scheduling" | "prefix_caching" | "hybrid_manager" | "radix_cache" | "flash_attn" => {
                "false"
            }
            "kv_unified" | "swa_full" => "true",
            "encoder_tokens" | "pool_tokens" | "n_ctx" | "max_model_len" => "65536",
            "block_size" | "kernel_block_size" | "max_num_batched_tokens" | "n_ubatch" => "1024",
            "checkpoint_interval" | "max_running_requests" | "state_slots" => "64",
            _ => "2",
        }
    }

    fn asked(architecture: &Architecture, kind: EngineKind, settings: &Settings) -> Option<EngineReport> {
        let mut query = Query::new(architecture, crate::engine::Engine::newest(kind), settings).ok()?;
        query.context = query.context.or(Some(crate::Tokens::new(100_001)));
        report(&query).ok()
    }

    fn figures(report: &EngineReport) -> Vec<(Quantity, Figure)> {
        report.figures.clone()
    }
}
