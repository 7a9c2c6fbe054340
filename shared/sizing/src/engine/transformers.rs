//! transformers: dense tensors in a dynamic cache.

use super::logical::{DensePlan, DenseRules};
use super::{Engine, Profile, Quantity, Query};
use crate::Result;
use crate::architecture::Architecture;
use crate::fact::Fact;
use crate::format::{IndexFormat, StateFormat};
use crate::mixer::{CompressedAttention, Latent, Mixer, Recurrence, Recurrent};
use crate::settings::MlaStorage;
use crate::warning::Warning;

/// What transformers keeps, by release (modelling files and `cache_utils.py` of 4.57, 5.0 to 5.19 and 5.24): index keys
/// are plain, a convolution keeps its whole kernel, and what [`Rules`] says.
///
/// # Errors
///
/// A shape that `tp` does not divide, or an overflow.
pub(super) fn plan<'q>(query: &'q Query<'q>) -> Result<Box<dyn Profile + 'q>> {
    let release = Rules::of(&query.engine);
    let mut rules = DenseRules::logical(query);
    rules.otherwise = vec![(
        Quantity::WindowBytes,
        "a window keeps a token less than it has, since each step adds its own",
    )];
    if has_class(query.architecture, "zaya") {
        rules.adjust = with_shorter_windows;
    } else {
        rules.adjust = as_kept;
        let why = "a convolution keeps its whole kernel, a column more than a step needs";
        rules.otherwise.push((Quantity::StateBytes, why));
    }
    keep_whole(query.architecture, &mut rules);
    if rules.settings.index_dtype.is_none() {
        rules.settings.index_dtype = Some(IndexFormat::Bf16);
    }
    keep_plain_entries(query.architecture, &mut rules);
    release.keep_states(query.architecture, &mut rules);
    if rules.settings.mla_storage.is_none() && release.expands(query.architecture) {
        expand(query, &mut rules);
    }
    Ok(Box::new(DensePlan::new(query, rules)?))
}

/// The rules of one release, as differences from the newest.
#[derive(Clone, Copy)]
struct Rules {
    /// MLA layers cache the latent; else K and V of every head.
    latents: bool,
    /// So do those with an indexer.
    indexed_latents: bool,
    /// Which recurrences keep their state as they leave it, in f32; the others have the convolution's dtype.
    wide: Wide,
}

#[derive(Clone, Copy)]
enum Wide {
    /// Gated `DeltaNet`, KDA and Mamba.
    All,
    None,
    /// Gated `DeltaNet` and KDA.
    Delta,
}

impl Rules {
    /// `DeepseekV3Attention` of 5.14 and 5.15, `GlmMoeDsaAttention` of 5.17 and 5.18, `Mamba2Cache` of 5.4, and
    /// `LinearAttentionLayer.lazy_initialization`, which makes states in the convolution's dtype from 5.5 to 5.13.
    fn of(engine: &Engine) -> Self {
        Self {
            latents: engine.at_least(&[5, 15]),
            indexed_latents: engine.at_least(&[5, 18]),
            wide: match (engine.at_least(&[5, 14]), engine.at_least(&[5, 5])) {
                (true, _) => Wide::All,
                (false, true) => Wide::None,
                (false, false) => Wide::Delta,
            },
        }
    }

    fn expands(self, architecture: &Architecture) -> bool {
        let mut latents = architecture.mixers().filter(|mixer| latent(mixer).is_some());
        latents.any(|mixer| match mixer {
            Mixer::Dsa { .. } => !self.indexed_latents,
            _ => !self.latents,
        })
    }

    /// Recurrences leave their state in f32 whatever the config says of it, and Inkling's convolutions run in f32.
    fn keep_states(self, architecture: &Architecture, rules: &mut DenseRules) {
        let is_wide = |mixer: &Mixer| match mixer {
            Mixer::Recurrent(recurrent) => match recurrent.recurrence {
                Recurrence::GatedDeltaNet { .. } | Recurrence::Kda { .. } => !matches!(self.wide, Wide::None),
                Recurrence::Mamba1 { .. } | Recurrence::Mamba2 { .. } => matches!(self.wide, Wide::All),
                Recurrence::Lightning { .. } | Recurrence::ShortConv => false,
            },
            _ => false,
        };
        let settings = &mut rules.settings;
        if settings.state_dtype.is_none() && architecture.mixers().any(is_wide) {
            settings.state_dtype = Some(StateFormat::F32);
            rules.otherwise.push((Quantity::StateBytes, "a recurrent state is kept in f32"));
        } else if settings.state_dtype.is_none() && architecture.recurrent_dtype().is_some() {
            settings.state_dtype = Some(settings.conv_dtype.unwrap_or_else(|| architecture.dtype()));
            rules.otherwise.push((Quantity::StateBytes, "a recurrent state has the convolution's dtype"));
        }
        if settings.conv_dtype.is_none() && has_class(architecture, "inkling") {
            settings.conv_dtype = Some(StateFormat::F32);
            rules.otherwise.push((Quantity::StateBytes, "Inkling's convolutions run in f32"));
        }
    }
}

/// Compressed entries have the model's dtype, and compressors keep what their open group has (`DeepseekV4HCACache` and
/// `DeepseekV4CSACache` of 5.20, whose tensors were counted).
fn keep_plain_entries(architecture: &Architecture, rules: &mut DenseRules) {
    if !architecture.mixers().any(|mixer| matches!(mixer, Mixer::Compressed(_))) {
        return;
    }
    if rules.settings.kv_dtype.is_none() {
        rules.settings.kv_dtype = Some(architecture.dtype().into());
        for part in [Quantity::KvBytes, Quantity::WindowBytes] {
            rules.otherwise.push((part, "entries are kept in the model's dtype, without scales"));
        }
    }
    let message = "compressors are counted with a whole group in f32; transformers keeps the tokens of the open group alone, in the \
                   model's dtype, so the figures err high by less than that state";
    rules.warnings.push(Warning::new("compressor_state", message));
}

/// Counts K and V of every head, or says which width is missing for that.
fn expand(query: &Query<'_>, rules: &mut DenseRules) {
    let Some(field) = missing_width(query.architecture) else {
        rules.settings.mla_storage = Some(MlaStorage::Expanded);
        rules.otherwise.push((Quantity::KvBytes, "K and V of every head are cached, not the latent"));
        let message = "this release of transformers caches K and V of every head, not the latent (MLA since 5.15, DSA \
                       since 5.18 cache it); set latent to see the other";
        rules.warnings.push(Warning::new("mla_storage", message));
        return;
    };
    let message = "no value above 0, so the latent is counted; this release of transformers caches K and V of every \
                   head, so the figures err low";
    rules.warnings.push(Warning::new(field, message));
}

/// Classes that cache K and V of every query head, or every token of windows: `FalconAttention` and `MptAttention` widen or
/// project them before the cache (Falcon's in the new decoder alone), and `GPTNeoConfig` tells its cache of no window (5.19).
fn keep_whole(architecture: &Architecture, rules: &mut DenseRules) {
    let heads = (Quantity::KvBytes, "K and V of every query head are cached");
    let windows = "this class keeps every token of its windows";
    match architecture.model_type() {
        Some("falcon") if architecture.hints().widened_heads => {
            rules.adjust = with_every_head;
            rules.otherwise.push(heads);
        }
        Some("mpt") => {
            rules.adjust = with_every_head;
            rules.otherwise.push(heads);
        }
        Some("gpt_neo") => {
            rules.adjust = without_windows;
            rules.otherwise.retain(|(quantity, _)| *quantity != Quantity::WindowBytes);
            rules.otherwise.extend([(Quantity::KvBytes, windows), (Quantity::WindowBytes, windows)]);
        }
        _ => {}
    }
}

fn with_every_head(mut mixer: Mixer) -> Mixer {
    if let Mixer::Full(heads) = &mut mixer
        && let Some(query_heads) = &heads.query_heads
    {
        heads.kv_heads = query_heads.clone();
    }
    mixer
}

fn without_windows(mixer: Mixer) -> Mixer {
    match mixer {
        Mixer::Sliding { heads, .. } => Mixer::Full(heads),
        other => other,
    }
}

fn has_class(architecture: &Architecture, prefix: &str) -> bool {
    architecture.model_type().is_some_and(|class| class.starts_with(prefix))
}

fn latents(architecture: &Architecture) -> impl Iterator<Item = &Latent> {
    architecture.mixers().filter_map(latent)
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
    if let Mixer::Recurrent(Recurrent { conv: Some(conv), .. }) = &mut mixer {
        let rule = format!("{} + 1: the whole kernel is kept", conv.kernel.source());
        conv.kernel = Fact::derived(conv.kernel.get().saturating_add(1), rule);
    }
    with_shorter_windows(mixer)
}

/// The windows alone: ZAYA's convolutions keep what a step needs (`ZayaAttention`, 5.19).
fn with_shorter_windows(mut mixer: Mixer) -> Mixer {
    match &mut mixer {
        Mixer::Sliding { window, .. }
        | Mixer::Chunked { chunk: window, .. }
        | Mixer::Compressed(CompressedAttention { window, .. }) => {
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
        figure_in("transformers", config, settings, quantity)
    }

    fn figure_in(engine: &str, config: &str, settings: &Settings, quantity: &str) -> u64 {
        let architecture = read_config(config).unwrap();
        let query = Query::new(&architecture, engine.parse().unwrap(), settings).unwrap();
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

    /// DeepSeek-V3 up to 5.14, as in llama.cpp before latent support: 61 × (128 × 192 + 128 × 128) × 2 B; since 5.15 the
    /// cache is updated before the latent is expanded: 61 × (512 + 64) × 2 B.
    #[test]
    fn latents_are_expanded_up_to_a_release() {
        let config = r#"{"model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128,
            "num_key_value_heads": 128, "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128, "v_head_dim": 128}"#;
        let slope = |engine| figure_in(engine, config, &Settings::default(), "slope_bytes_per_token");
        assert_eq!(["transformers@4.57", "transformers@5.14.1"].map(slope), [4_997_120; 2]);
        assert_eq!(["transformers@5.15.0", "transformers"].map(slope), [70_272; 2]);
    }

    /// `GlmMoeDsaAttention` expands until 5.17: 2 × 64 × (256 + 256) × 2 B with plain index keys of 128; since 5.18
    /// 2 × (576 + 128) × 2 B.
    #[test]
    fn latents_with_an_indexer_are_expanded_for_longer() {
        let config = r#"{"model_type": "glm_moe_dsa", "num_hidden_layers": 2, "num_attention_heads": 64,
            "num_key_value_heads": 64, "hidden_size": 6144, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 192, "v_head_dim": 256, "index_head_dim": 128, "index_n_heads": 32, "index_topk": 2048,
            "q_lora_rank": 2048, "dtype": "bfloat16"}"#;
        let slope = |engine| figure_in(engine, config, &Settings::default(), "slope_bytes_per_token");
        assert_eq!(slope("transformers@5.17"), 2 * (64 * 512 + 128) * 2);
        assert_eq!(slope("transformers@5.18"), 2 * (576 + 128) * 2);
    }

    /// Mamba-2 in bf16, 2 layers: the state of 8 × 64 × 128 values is the scan's f32 since 5.14 (`zeros_like(recurrent_states)`), has the
    /// convolution's dtype before, and the model's up to 5.4 (`Mamba2Cache`); 4 columns of 768 channels are bf16 in all.
    #[test]
    fn states_of_mamba_are_wide_since_a_release() {
        let config = r#"{"model_type": "mamba2", "num_hidden_layers": 2, "hidden_size": 256, "num_heads": 8, "head_dim": 64,
            "state_size": 128, "n_groups": 1, "conv_kernel": 4, "expand": 2, "dtype": "bfloat16"}"#;
        let fixed = |engine| figure_in(engine, config, &Settings::default(), "fixed_bytes_per_request");
        let narrow = 2 * (8 * 64 * 128 * 2 + 4 * 768 * 2);
        assert_eq!(["transformers@5.4", "transformers@5.13.1"].map(fixed), [narrow; 2]);
        assert_eq!(fixed("transformers@5.14"), 2 * (8 * 64 * 128 * 4 + 4 * 768 * 2));
    }

    /// `Qwen3NextDynamicCache` of 5.0 and 4.57 keeps what the rule returns, f32, as 5.14 does; 5.5 to 5.13 give it the convolution's dtype.
    #[test]
    fn delta_states_are_narrow_in_between() {
        let config = r#"{"model_type": "qwen3_next", "num_hidden_layers": 1, "hidden_size": 256, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 64, "layer_types": ["linear_attention"], "linear_num_value_heads": 4,
            "linear_num_key_heads": 2, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
            "dtype": "bfloat16"}"#;
        let fixed = |engine| figure_in(engine, config, &Settings::default(), "fixed_bytes_per_request");
        let of = |width: u64| 4 * 128 * 128 * width + 4 * (2 * 2 * 128 + 4 * 128) * 2;
        assert_eq!(
            ["transformers@4.57", "transformers@5.5", "transformers@5.13"].map(fixed),
            [of(4), of(2), of(2)]
        );
        assert_eq!(fixed("transformers@5.14"), of(4));
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
            let query = Query::new(&architecture, "transformers@5.14".parse().unwrap(), &settings).unwrap();
            let report = crate::engine::report(&query).unwrap();
            assert!(report.warnings.iter().any(|warning| warning.field == field), "{:?}", report.warnings);
            let slope =
                figure_in("transformers@5.14", &config.to_string(), &settings, "slope_bytes_per_token");
            assert_eq!(slope, (512 + 64) * 2);
        }
    }

    /// What `DeepseekV4Cache` of 5.20 holds after 5,000 tokens in a model of one layer with ratio 128, one with ratio 4 and one of the
    /// window alone: 127 × 512 values each, 39 and 1,250 entries of 512 values, and 1,250 index keys of 128, all bf16.
    #[test]
    fn compressed_entries_are_plain() {
        let config = r#"{"model_type": "deepseek_v4", "num_hidden_layers": 3, "num_attention_heads": 64, "head_dim": 512,
            "qk_rope_head_dim": 64, "sliding_window": 128, "compress_ratios": [128, 4, 0], "index_head_dim": 128, "index_n_heads": 64,
            "index_topk": 512, "hidden_size": 4096, "dtype": "bfloat16"}"#;
        let settings = Settings { context: Some(5000), ..Settings::default() };
        let of = |quantity| figure(config, &settings, quantity);
        assert_eq!(of("window_bytes"), 3 * 127 * 512 * 2);
        assert_eq!(of("kv_bytes"), (39 + 1250) * 512 * 2);
        assert_eq!(of("index_bytes"), 1250 * 128 * 2);
    }
}
