//! transformers: dense tensors in a dynamic cache.

use super::logical::{DensePlan, DenseRules};
use super::{Profile, Quantity, Query};
use crate::Result;
use crate::architecture::Architecture;
use crate::fact::Fact;
use crate::format::IndexFormat;
use crate::mixer::{Latent, Mixer};
use crate::settings::MlaStorage;
use crate::warning::Warning;

/// What transformers keeps: its MLA layers cache K and V of every head (modelling files of DeepSeek-V2 and V3, 4.57),
/// index keys are plain, and a convolution keeps its whole kernel (`conv_states` of `Mamba2Cache` and
/// `Qwen3NextDynamicCache`).
///
/// # Errors
///
/// A shape that `tp` does not divide, or an overflow.
pub(super) fn plan<'q>(query: &'q Query<'q>) -> Result<Box<dyn Profile + 'q>> {
    let mut rules = DenseRules::logical(query);
    rules.adjust = as_kept;
    rules.otherwise = vec![
        (Quantity::WindowBytes, "a window keeps a token less than it has, since each step adds its own"),
        (Quantity::StateBytes, "a convolution keeps its whole kernel, a column more than a step needs"),
    ];
    if rules.settings.index_dtype.is_none() {
        rules.settings.index_dtype = Some(IndexFormat::Bf16);
    }
    if rules.settings.mla_storage.is_none() && latents(query.architecture).next().is_some() {
        match missing_width(query.architecture) {
            None => {
                rules.settings.mla_storage = Some(MlaStorage::Expanded);
                rules.otherwise.push((Quantity::KvBytes, "K and V of every head are cached, not the latent"));
                let message =
                    "transformers caches K and V of every head, not the latent; set latent to see the other";
                rules.warnings.push(Warning::new("mla_storage", message));
            }
            Some(field) => {
                let message = "no value above 0, so the latent is counted; transformers caches K and V of every \
                               head, so the figures err low";
                rules.warnings.push(Warning::new(field, message));
            }
        }
    }
    Ok(Box::new(DensePlan::new(query, rules)?))
}

fn latents(architecture: &Architecture) -> impl Iterator<Item = &Latent> {
    architecture.classes().iter().flat_map(|class| &class.mixers).filter_map(latent)
}

/// The first field that the expanded form of an MLA layer needs and does not have.
fn missing_width(architecture: &Architecture) -> Option<&'static str> {
    latents(architecture).find_map(|latent| {
        let needed = [
            ("num_attention_heads", &latent.query_heads),
            ("qk_nope_head_dim", &latent.nope),
            ("v_head_dim", &latent.v_width),
        ];
        needed.into_iter().find(|(_, fact)| fact.is_none()).map(|(field, _)| field)
    })
}

fn latent(mixer: &Mixer) -> Option<&Latent> {
    match mixer {
        Mixer::Mla(latent) | Mixer::Dsa { latent, .. } => Some(latent),
        _ => None,
    }
}

/// A column of the convolution more than the `kernel − 1` that a step needs, and a token of a window less than it has:
/// the step adds its own (`LinearAttentionLayer` and `DynamicSlidingWindowLayer` of `cache_utils.py`, 5.19).
fn as_kept(mut mixer: Mixer) -> Mixer {
    match &mut mixer {
        Mixer::Recurrent(recurrent) => {
            if let Some(conv) = &mut recurrent.conv {
                let rule = format!("{} + 1: the whole kernel is kept", conv.kernel.source());
                conv.kernel = Fact::derived(conv.kernel.get().saturating_add(1), rule);
            }
        }
        Mixer::Sliding { window, .. } | Mixer::Chunked { chunk: window, .. } => {
            let rule = format!("{} − 1: the newest token is added by each step", window.source());
            *window = Fact::derived(window.get().saturating_sub(1), rule);
        }
        _ => {}
    }
    mixer
}

#[cfg(test)]
mod tests {
    use crate::engine::{Query, answer};
    use crate::{Settings, read_config};

    fn figure(config: &str, settings: &Settings, quantity: &str) -> u64 {
        let architecture = read_config(config).unwrap();
        let query = Query::new(&architecture, "transformers".parse().unwrap(), settings).unwrap();
        answer(&query, quantity.parse().unwrap()).unwrap().whole().unwrap()
    }

    /// Mamba-2.8b: 64 layers of 5120 channels, a kernel of 4 whole columns, and 16 values of state a channel.
    #[test]
    fn a_convolution_keeps_its_whole_kernel() {
        let config = r#"{"model_type": "mamba", "num_hidden_layers": 64, "hidden_size": 2560,
            "intermediate_size": 5120, "state_size": 16, "conv_kernel": 4, "torch_dtype": "float32"}"#;
        let bytes = figure(config, &Settings::default(), "fixed_bytes_per_request");
        assert_eq!(bytes, 64 * 5120 * (4 + 16) * 4);
    }

    /// `DynamicSlidingWindowLayer` of transformers 5.19 keeps the last `sliding_window − 1` tokens: 127 × 2 × 64 × 2 B.
    #[test]
    fn a_window_keeps_a_token_less() {
        let config = r#"{"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 64,
            "layer_types": ["sliding_attention"], "sliding_window": 128, "dtype": "bfloat16"}"#;
        let settings = Settings { context: Some(1000), ..Settings::default() };
        assert_eq!(figure(config, &settings, "window_bytes"), 127 * 2 * 64 * 2);
    }

    /// DeepSeek-R1 in llama.cpp before latent support, and in transformers: 61 × (128 × 192 + 128 × 128) × 2 B.
    #[test]
    fn latents_are_expanded() {
        let config = r#"{"model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128,
            "num_key_value_heads": 128, "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128, "v_head_dim": 128}"#;
        assert_eq!(figure(config, &Settings::default(), "slope_bytes_per_token"), 4_997_120);
    }

    /// Without the widths of heads only the latent can be counted: (512 + 64) × 2 B, and the report says which is missing.
    #[test]
    fn a_latent_that_cannot_be_expanded_says_which_field_is_missing() {
        let full = serde_json::json!({"num_hidden_layers": 1, "num_attention_heads": 128, "num_key_value_heads": 128,
            "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128});
        for field in ["qk_nope_head_dim", "v_head_dim"] {
            let mut config = full.clone();
            config.as_object_mut().unwrap().remove(field);
            let architecture = read_config(&config.to_string()).unwrap();
            let settings = Settings::default();
            let query = Query::new(&architecture, "transformers".parse().unwrap(), &settings).unwrap();
            let report = crate::engine::report(&query).unwrap();
            assert!(report.warnings.iter().any(|warning| warning.field == field), "{:?}", report.warnings);
            assert_eq!(figure(&config.to_string(), &settings, "slope_bytes_per_token"), (512 + 64) * 2);
        }
    }
}
