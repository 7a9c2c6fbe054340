//! Configs of every mixer with shapes that nobody has published: those of the catalogue, and some by hand for mixers
//! that it lacks, with other widths, windows and heads.

use kvscope_sizing::{Architecture, Mixer, Settings, StateModel, catalogue, read_config_value};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Fields of a layer's shape: each may be set to another number without the config becoming another one.
const SHAPES: [&str; 33] = [
    "attention_chunk_size",
    "attention_head_dim",
    "conv_L_cache",
    "conv_kernel",
    "global_head_dim",
    "head_dim",
    "index_head_dim",
    "index_topk",
    "indexer_head_dim",
    "kv_lora_rank",
    "linear_conv_kernel_dim",
    "linear_head_dim",
    "linear_key_head_dim",
    "linear_num_heads",
    "linear_num_value_heads",
    "linear_value_head_dim",
    "mamba_d_state",
    "mamba_head_dim",
    "mamba_n_groups",
    "mamba_n_heads",
    "mamba_num_heads",
    "max_source_positions",
    "n_groups",
    "num_global_key_value_heads",
    "num_heads",
    "qk_rope_head_dim",
    "short_conv_kernel_size",
    "sliding_window",
    "sliding_window_size",
    "ssm_state_size",
    "swa_head_dim",
    "swa_v_head_dim",
    "v_head_dim",
];

/// One architecture of the catalogue or by hand, most often with other shapes.
pub(crate) fn architecture() -> impl Strategy<Value = (String, Architecture)> {
    let bases: Vec<(String, Value)> = bases();
    let changes = prop::collection::vec((0..SHAPES.len(), 1_u64..=2048), 0..6);
    (0..bases.len(), changes).prop_filter_map("a shape that no config can have", move |(base, changes)| {
        let (id, mut config) = bases[base].clone();
        for (field, value) in changes {
            replace(&mut config, SHAPES[field], value);
        }
        let architecture = read_config_value(&config).ok()?;
        StateModel::new(&architecture, &Settings::default()).ok()?;
        Some((format!("{id}: {config}"), architecture))
    })
}

/// Every config to start from.
pub(crate) fn bases() -> Vec<(String, Value)> {
    let known = catalogue().iter().map(|entry| (entry.id.clone(), entry.config.clone()));
    known.chain(by_hand().map(|(name, config)| (name.to_owned(), config))).collect()
}

/// The word for a mixer; a new one does not compile until a config for it is listed here or in the catalogue.
pub(crate) fn word(mixer: &Mixer) -> &'static str {
    match mixer {
        Mixer::Full(_) => "full",
        Mixer::IndexedFull(..) => "indexed",
        Mixer::Sliding { .. } => "sliding",
        Mixer::Chunked { .. } => "chunked",
        Mixer::Mla(_) => "mla",
        Mixer::Dsa { .. } => "dsa",
        Mixer::Compressed(attention) => attention.name(),
        Mixer::Recurrent(recurrent) => recurrent.name(),
        Mixer::Cross { .. } => "cross",
        Mixer::None => "none",
    }
}

/// Every word of [`word`].
pub(crate) const WORDS: [&str; 17] = [
    "full",
    "indexed",
    "sliding",
    "chunked",
    "mla",
    "dsa",
    "CSA",
    "HCA",
    "CSA2",
    "gated DeltaNet",
    "KDA",
    "Mamba-1",
    "Mamba-2",
    "lightning",
    "short convolution",
    "cross",
    "none",
];

fn by_hand() -> [(&'static str, Value); 3] {
    let convolutions = json!({"model_type": "lfm2", "num_hidden_layers": 4, "hidden_size": 2048,
        "num_attention_heads": 32, "num_key_value_heads": 8, "conv_L_cache": 3, "conv_dim": 2048,
        "dtype": "bfloat16", "layer_types": ["conv", "conv", "full_attention", "conv"]});
    let encoder = json!({"model_type": "whisper", "decoder_layers": 4, "d_model": 1280,
        "decoder_attention_heads": 20, "max_source_positions": 1500, "max_target_positions": 448,
        "dtype": "float16"});
    let one_head = json!({"model_type": "falcon", "num_hidden_layers": 2, "hidden_size": 4544,
        "num_attention_heads": 71, "multi_query": true, "dtype": "bfloat16"});
    [("short convolution", convolutions), ("encoder and decoder", encoder), ("one head", one_head)]
}

/// Sets a field wherever the config has it as a number.
fn replace(config: &mut Value, name: &str, value: u64) {
    match config {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                if key == name && inner.is_u64() {
                    *inner = json!(value);
                } else {
                    replace(inner, name, value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| replace(inner, name, value)),
        _ => {}
    }
}
