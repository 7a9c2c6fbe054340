//! Lists of one entry a layer, and widths that are shares of others: what does not fit is refused by name.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::{Mixer, Recurrence, read_config};

/// Llama 4 with four layers: a flag for each, no more and no fewer.
#[test]
fn flags_of_rotary_layers_are_one_a_layer() {
    let with = |flags: &str| {
        read_config(&format!(
            r#"{{"model_type": "llama4_text", "num_hidden_layers": 4, "num_attention_heads": 40, "num_key_value_heads": 8,
                "head_dim": 128, "attention_chunk_size": 8192, "no_rope_layers": {flags}}}"#
        ))
    };
    assert!(with("[1, 1, 1, 0]").is_ok());
    for flags in ["[1, 1, 1, 0, 1, 1]", "[1, 1, 1]"] {
        let error = with(flags).unwrap_err();
        assert_eq!(error.place(), Some("no_rope_layers"), "{error}");
        assert!(error.what().contains("for 4 layers"), "{error}");
    }
}

/// Nemotron-NAS: a block for each layer.
#[test]
fn blocks_are_one_a_layer() {
    let block = r#"{"attention": {"n_heads_in_group": 8, "no_op": false}, "ffn": {}}"#;
    let with = |blocks: usize| {
        let blocks = vec![block; blocks].join(",");
        read_config(&format!(
            r#"{{"model_type": "nemotron-nas", "num_hidden_layers": 2, "num_attention_heads": 64, "head_dim": 128,
                "hidden_size": 8192, "block_configs": [{blocks}]}}"#
        ))
    };
    assert!(with(2).is_ok());
    assert!(with(1).is_err() && with(3).is_err());
}

/// Zamba2 without `mamba_expand`: its class says 2 (`Zamba2Config`), so 80 heads share 2 × 2560 values, 64 each. Seven
/// heads cannot.
#[test]
fn heads_of_a_block_share_it_evenly() {
    let with = |heads: u64| {
        read_config(&format!(
            r#"{{"model_type": "zamba2", "num_hidden_layers": 2, "hidden_size": 2560, "num_attention_heads": 32,
                "attention_head_dim": 160, "n_mamba_heads": {heads}, "layers_block_type": ["mamba", "mamba"]}}"#
        ))
    };
    let architecture = with(80).unwrap();
    let mixers = architecture.classes()[0].mixers.clone();
    let Mixer::Recurrent(recurrent) = &mixers[0] else { panic!("{mixers:?}") };
    let Recurrence::Mamba2 { head_dim, .. } = &recurrent.recurrence else { panic!("{recurrent:?}") };
    assert_eq!(head_dim.get(), 64);
    let error = with(7).unwrap_err();
    assert_eq!(error.place(), Some("n_mamba_heads"), "{error}");
    assert!(error.what().contains("5120"), "{error}");
}
