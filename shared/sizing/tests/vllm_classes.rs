//! Rules of vLLM for one class or mode, against its sources and documentation.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "in tests a panic is the report, and these figures are exact"
)]

use crate::support::asked;

use asked::{figure, report_of, settings};
use kvscope_sizing::engine::{Query, report};
use kvscope_sizing::{Architecture, read_config};

fn falcon(chunk: &str) -> Architecture {
    let config = format!(
        r#"{{"model_type": "falcon_h1", "num_hidden_layers": 4, "hidden_size": 2048, "dtype": "bfloat16",
            "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "mamba_d_ssm": 3072, "mamba_n_heads": 48,
            "mamba_d_head": 64, "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_d_conv": 4{chunk}}}"#
    );
    read_config(&config).unwrap()
}

/// A state of 48 × 64 × 256 × 2 + 3 × 3584 × 2 = 1,594,368 B is 1557 tokens of 2 × 2 × 128 × 2 B. With a state for every
/// block they are whole chunks of Mamba's (`_align_hybrid_block_size`: `lcm(chunk, kernel block)`): 7 × 256, or one of 2048
/// where the config names none (`get_mamba_chunk_size`).
#[test]
fn states_of_every_block_begin_at_a_chunk() {
    let block = |chunk: &str, mode: &str| {
        let asked = [("mamba_cache_mode", mode), ("max_model_len", "8192")];
        figure(&falcon(chunk), "vllm@0.25", &asked, "attention_block_size")
    };
    let stated = r#", "mamba_chunk_size": 256"#;
    assert_eq!(block(stated, "none"), 1568.0);
    assert_eq!(block(stated, "all"), 1792.0);
    assert_eq!(block("", "all"), 2048.0);
    // ⌈8192 / 1792⌉ and a page for each of two drafts, of 4 layers that are a group each with their attention.
    let asked = [("mamba_cache_mode", "all"), ("max_model_len", "8192"), ("num_speculative_tokens", "2")];
    assert_eq!(figure(&falcon(stated), "vllm@0.25", &asked, "state_blocks_per_request"), 7.0);
}

/// `MambaModelConfig` (`model_executor/models/config.py`) of vLLM 0.14, 0.19.1, 0.20, 0.22, 0.27 and 0.28: where prefixes are kept
/// and nothing says how, classes of Mamba have a state for every block until 0.27 (0.20 and 0.21: not beside drafts), all others
/// the last; hybrids keep prefixes by default since 0.28, models without attention never.
#[test]
fn states_of_prefixes_are_kept_by_version_and_class() {
    let mode = |architecture: &Architecture, engine: &str, more: &[(&str, &str)]| {
        let asked = [&[("max_model_len", "16384"), ("block_size", "128")][..], more].concat();
        let blocks = |asked: &[(&str, &str)]| figure(architecture, engine, asked, "state_blocks_per_request");
        let found = blocks(&asked);
        let plain: Vec<_> = asked.into_iter().filter(|(name, _)| *name != "prefix_caching").collect();
        let of = |mode: &str| {
            let set = if mode == "none" { ("prefix_caching", "false") } else { ("mamba_cache_mode", mode) };
            blocks(&[&plain[..], &[set]].concat())
        };
        ["none", "all", "align"].into_iter().find(|mode| of(mode) == found).unwrap()
    };
    let prefixes = ("prefix_caching", "true");
    let mamba = falcon(r#", "mamba_chunk_size": 256"#);
    for (engine, expected) in [
        ("vllm@0.14", "all"),
        ("vllm@0.19.1", "all"),
        ("vllm@0.20", "all"),
        ("vllm@0.27", "all"),
        ("vllm@0.28", "align"),
    ] {
        assert_eq!(mode(&mamba, engine, &[prefixes]), expected, "{engine}");
    }
    let drafts = [prefixes, ("num_speculative_tokens", "1")];
    for (engine, expected) in
        [("vllm@0.19.1", "all"), ("vllm@0.20", "align"), ("vllm@0.21", "align"), ("vllm@0.22", "all")]
    {
        assert_eq!(mode(&mamba, engine, &drafts), expected, "{engine}");
    }
    assert_eq!((mode(&mamba, "vllm@0.27", &[]), mode(&mamba, "vllm@0.28", &[])), ("none", "align"));
    let without_attention = read_config(
        r#"{"model_type": "mamba", "num_hidden_layers": 2, "hidden_size": 2560, "intermediate_size": 5120,
            "state_size": 16, "conv_kernel": 4, "torch_dtype": "bfloat16"}"#,
    )
    .unwrap();
    assert_eq!(mode(&without_attention, "vllm@0.31", &[]), "none");
    assert_eq!(mode(&without_attention, "vllm@0.31", &[prefixes]), "align");
}

/// vLLM 0.15.1 (`HybridAttentionMambaModelConfig`): a state of 394 tokens takes two chunks of 256. Here 1557 tokens are seven chunks of 256.
#[test]
fn chunks_of_mamba_count_before_0_20_too() {
    let asked = [("mamba_cache_mode", "all"), ("max_model_len", "8192")];
    let falcon = falcon(r#", "mamba_chunk_size": 256"#);
    assert_eq!(figure(&falcon, "vllm@0.15.1", &asked, "attention_block_size"), 1792.0);
}

/// `models/zaya.py`: "CCA currently replicates heads on every rank", and no prefix is kept.
#[test]
fn zaya_is_whole_on_every_rank() {
    let zaya = read_config(
        r#"{"model_type": "zaya", "architectures": ["ZayaForCausalLM"], "hidden_size": 2048, "head_dim": 128,
            "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "cca_time0": 2, "cca_time1": 2,
            "layer_types": ["hybrid", "hybrid"], "torch_dtype": "bfloat16", "max_position_embeddings": 8192}"#,
    )
    .unwrap();
    for part in ["kv_bytes", "state_bytes"] {
        let one = figure(&zaya, "vllm", &[("context", "1000")], part);
        assert!(one > 0.0);
        assert_eq!(figure(&zaya, "vllm", &[("context", "1000"), ("tp", "2")], part), one, "{part}");
    }
    let told = report_of(&zaya, "vllm", &[("context", "1000"), ("prefix_caching", "true")]).warnings;
    assert!(told.iter().any(|warning| warning.message.contains("refuses to keep prefixes")), "{told:?}");
}

fn inkling(hidden: u64, query_heads: u64) -> Architecture {
    let config = format!(
        r#"{{"model_type": "inkling_text", "architectures": ["InklingForConditionalGeneration"], "num_hidden_layers": 6,
            "hidden_size": {hidden}, "num_attention_heads": {query_heads}, "num_key_value_heads": 8, "head_dim": 128,
            "swa_num_key_value_heads": 8, "swa_head_dim": 128, "sconv_kernel_size": 4, "torch_dtype": "bfloat16",
            "max_position_embeddings": 8192}}"#
    );
    read_config(&config).unwrap()
}

/// Inkling (<https://docs.vllm.ai/en/latest/api/vllm/models/inkling/nvidia/sconv_swa_attn/>): a token of the convolutions is
/// 128 + 128 + 2 × 1024 / 8 = 512 values for each of 8 heads, 8192 B; a block of 4 of them is half an attention page of 16
/// tokens × 4096 B and so has 8. A request of 100 tokens has ⌈100 / 8⌉ + 1 blocks in each of 6 layers.
#[test]
fn inklings_convolutions_are_windows_of_tokens() {
    let inkling = inkling(1024, 16);
    let state = |tp: &str| figure(&inkling, "vllm", &[("context", "100"), ("tp", tp)], "state_bytes");
    assert_eq!(state("1"), 6.0 * 14.0 * 65_536.0);
    assert_eq!(state("2"), 6.0 * 14.0 * 32_768.0);
    assert_eq!(figure(&inkling, "vllm", &[("context", "100")], "attention_block_size"), 16.0);
    let told = report_of(&inkling, "vllm", &[("context", "100")]).warnings;
    assert!(told.iter().all(|warning| warning.field != "prefix_caching"), "{told:?}");
}

/// Inkling's own shape: 2 × 128 + 2 × 6144 / 8 = 1,792 values a head are 2,048 (`1 << (raw_head_size - 1).bit_length()`), so a block
/// of 4 tokens is 4 × 8 × 2,048 × 2 B = 131,072 B, two attention pages of 16 tokens, whose blocks become 32.
#[test]
fn inklings_heads_are_a_power_of_two_wide() {
    let inkling = inkling(6144, 64);
    let state = figure(&inkling, "vllm", &[("context", "100")], "state_bytes");
    assert_eq!(state, 6.0 * (100.0 / 4.0 + 1.0) * 131_072.0);
    let ranks = settings(&[("tp", "16")]);
    let query = Query::new(&inkling, "vllm".parse().unwrap(), &ranks).unwrap();
    assert!(report(&query).unwrap_err().to_string().contains("K/V head"));
}

/// What no source says is told: which token line 0.20.1 prints.
#[test]
fn what_no_source_says_is_told() {
    let told = |engine: &str, asked: &[(&str, &str)], field: &str| {
        let found = report_of(&falcon(""), engine, asked).warnings;
        found.iter().any(|warning| warning.field == field && warning.message.contains("known"))
    };
    let length = ("max_model_len", "8192");
    assert!(told("vllm@0.20.1", &[length], "engine"));
    assert!(!told("vllm@0.20.0", &[length], "engine") && !told("vllm@0.20.2", &[length], "engine"));
}
