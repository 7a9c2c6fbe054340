//! Formats of one engine that others do not have: they are refused, not sized.

use super::dtype::dtype_in;
use super::{EngineKind, Query, has_setting};
use crate::architecture::Architecture;
use crate::format::KvFormat;
use crate::{Error, Result};

/// Which formats are llama.cpp's quantised types.
pub(super) trait GgmlBlocks {
    /// Whether values are stored in quantised blocks of ggml.
    fn is_ggml_block(&self) -> bool;
}

impl GgmlBlocks for KvFormat {
    fn is_ggml_block(&self) -> bool {
        matches!(self, Self::Q8_0 | Self::Q5_1 | Self::Q5_0 | Self::Q4_1 | Self::Q4_0 | Self::Iq4Nl)
    }
}

/// What `-ctk` and `-ctv` of llama.cpp take (`common/arg.cpp`, `kv_cache_types`).
fn is_of_llama_cpp(format: KvFormat) -> bool {
    format.is_ggml_block() || matches!(format, KvFormat::F32 | KvFormat::F16 | KvFormat::Bf16)
}

/// Refuses formats that the query's engine has no kernels for: ggml's quantised blocks in vLLM, SGLang and TensorRT-LLM
/// (their `--kv-cache-dtype` lists none of them), and all but ggml's own types in llama.cpp.
///
/// # Errors
///
/// The first such setting.
pub(super) fn check(query: &Query<'_>) -> Result<()> {
    let kind = query.engine.kind();
    if matches!(kind, EngineKind::Logical | EngineKind::Transformers) {
        return one_format(query);
    }
    let settings = query.settings;
    let asked = [
        ("kv_dtype", settings.kv_dtype),
        ("k_dtype", settings.k_dtype),
        ("v_dtype", settings.v_dtype),
        ("cross_dtype", settings.cross_dtype),
    ];
    // llama.cpp stores what is neither K nor V in K's type.
    let has_entries = kind != EngineKind::LlamaCpp && query.architecture.keeps_entries();
    let kv_is_used = has_entries || !settings.names_both_sides();
    for (name, format) in asked {
        let Some(format) = format.filter(|_| name != "kv_dtype" || kv_is_used) else { continue };
        if kind == EngineKind::LlamaCpp && !is_of_llama_cpp(format) {
            let known: Vec<&str> =
                KvFormat::all().filter(|(_, known)| is_of_llama_cpp(*known)).map(|(name, _)| name).collect();
            let what = format!("{} is no type of llama.cpp; it stores {}", format.name(), known.join(", "));
            return Err(Error::setting(name, what));
        }
        if kind != EngineKind::LlamaCpp && format.is_ggml_block() {
            let what = format!(
                "{} is a type of llama.cpp, which {} does not store; use bf16 or fp8",
                format.name(),
                kind.name()
            );
            return Err(Error::setting(name, what));
        }
    }
    one_format(query)
}

/// Refuses K and V in two formats where the engine has one flag for both.
fn one_format(query: &Query<'_>) -> Result<()> {
    let (kind, settings) = (query.engine.kind(), query.settings);
    if has_setting(kind, "k_dtype") || (settings.k_dtype, settings.v_dtype) == (None, None) {
        return Ok(());
    }
    let plain = settings.kv_dtype.unwrap_or_else(|| heads_by_default(query.architecture, kind));
    if settings.k_dtype.unwrap_or(plain) == settings.v_dtype.unwrap_or(plain) {
        return Ok(());
    }
    let name = if settings.k_dtype.is_some() { "k_dtype" } else { "v_dtype" };
    let what = format!("{} stores K and V in one format; set kv_dtype", kind.name());
    Err(Error::setting(name, what))
}

/// The format of K/V heads where nothing is set: the dtype that the engine runs the model in, and in vLLM what a quantised checkpoint asks for.
pub(super) fn heads_by_default(architecture: &Architecture, kind: EngineKind) -> KvFormat {
    let asked = architecture.checkpoint_kv().filter(|_| kind == EngineKind::Vllm);
    asked.map_or_else(|| dtype_in(architecture, kind).format.into(), |asked| asked.heads.format)
}

#[cfg(test)]
mod tests {
    use crate::engine::{Query, report};
    use crate::{Settings, read_config};

    const HEADS: &str = r#"{"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
        "max_position_embeddings": 4096}"#;
    const LATENT: &str = r#"{"model_type": "deepseek_v3", "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 8, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
        "max_position_embeddings": 4096}"#;

    fn refusal(config: &str, engine: &str, pairs: &[(&str, &str)]) -> Option<String> {
        let architecture = read_config(config).unwrap();
        let mut settings = Settings::default();
        for (name, value) in pairs {
            settings.set(name, value).unwrap();
        }
        let query = Query::new(&architecture, engine.parse().unwrap(), &settings).unwrap();
        report(&query).err().map(|error| error.to_string())
    }

    /// What is set for both K and V leaves nothing that would be stored in another format.
    #[test]
    fn a_format_that_is_overridden_twice_refuses_nothing() {
        let both = [("kv_dtype", "fp8"), ("k_dtype", "q8_0"), ("v_dtype", "q4_0")];
        assert_eq!(refusal(HEADS, "llama.cpp", &both), None);
        assert!(refusal(HEADS, "llama.cpp", &both[..2]).unwrap().starts_with("kv_dtype: fp8 "));
    }

    #[test]
    fn types_of_llama_cpp_are_refused_elsewhere() {
        for engine in ["vllm", "sglang", "trtllm"] {
            for name in ["kv_dtype", "k_dtype", "v_dtype"] {
                let error = refusal(HEADS, engine, &[(name, "q8_0")]).unwrap();
                assert!(
                    error.starts_with(&format!("{name}: q8_0 is a type of llama.cpp")),
                    "{engine}: {error}"
                );
            }
            assert_eq!(refusal(HEADS, engine, &[("kv_dtype", "fp8")]), None, "{engine}");
        }
        assert_eq!(refusal(HEADS, "llama.cpp", &[("kv_dtype", "q8_0")]), None);
    }

    /// vLLM's `--kv-cache-dtype` is of both.
    #[test]
    fn k_and_v_have_one_format_but_in_llama_cpp() {
        let apart = [("k_dtype", "fp8"), ("v_dtype", "bf16")];
        for engine in ["vllm", "sglang", "trtllm"] {
            assert!(refusal(HEADS, engine, &apart).unwrap().starts_with("k_dtype: "), "{engine}");
            assert!(
                refusal(HEADS, engine, &[("v_dtype", "fp8")]).unwrap().starts_with("v_dtype: "),
                "{engine}"
            );
            assert_eq!(refusal(HEADS, engine, &[("k_dtype", "fp8"), ("v_dtype", "fp8")]), None, "{engine}");
        }
        assert_eq!(refusal(HEADS, "llama.cpp", &[("k_dtype", "q8_0"), ("v_dtype", "f16")]), None);
    }

    /// One of both in the format that the other has anyway is one format: bf16 is the model's, fp8 what this checkpoint asks
    /// of vLLM (0.33, `Attention.__init__`). transformers has a dtype of the whole cache.
    #[test]
    fn one_side_may_name_the_format_of_both() {
        for engine in ["vllm", "sglang", "trtllm", "transformers"] {
            for name in ["k_dtype", "v_dtype"] {
                assert_eq!(refusal(HEADS, engine, &[(name, "bf16")]), None, "{engine}");
                assert_eq!(refusal(HEADS, engine, &[(name, "fp8"), ("kv_dtype", "fp8")]), None, "{engine}");
                let error = refusal(HEADS, engine, &[(name, "fp8")]).unwrap();
                assert!(error.contains("stores K and V in one format"), "{engine}: {error}");
            }
        }
        let asks = HEADS.replace(
            "\"num_hidden_layers\"",
            r#""quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, "num_hidden_layers""#,
        );
        assert_eq!(refusal(&asks, "vllm", &[("k_dtype", "fp8")]), None);
        assert!(refusal(&asks, "vllm", &[("k_dtype", "bf16")]).is_some());
    }

    /// 61 latents of 576 values are K and V at once: half the bytes in fp8, whichever settings say it.
    #[test]
    fn both_sides_of_a_latent_are_its_format() {
        let architecture = crate::find_entry("kimi-k2.6").unwrap().architecture().unwrap();
        let mut settings = Settings { context: Some(100_032), ..Settings::default() };
        settings.set("k_dtype", "fp8").unwrap();
        settings.set("v_dtype", "fp8").unwrap();
        let query = Query::new(&architecture, "vllm".parse().unwrap(), &settings).unwrap();
        let kv = report(&query).unwrap().figure(crate::engine::Quantity::KvBytes).unwrap();
        assert_eq!(kv.whole(), Some(100_032 * 61 * 576));
    }

    /// `kv_cache_types` of llama.cpp: `f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1`.
    #[test]
    fn llama_cpp_takes_its_own_types_alone() {
        for name in ["kv_dtype", "k_dtype", "v_dtype"] {
            for foreign in ["fp8", "int8_per_token_head", "nvfp4", "fp8_ds_mla"] {
                let error = refusal(HEADS, "llama.cpp", &[(name, foreign)]).unwrap();
                let start = format!("{name}: {foreign} is no type of llama.cpp; it stores bf16, f16, f32, ");
                assert!(error.starts_with(&start), "{error}");
            }
            for own in ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"] {
                assert_eq!(refusal(HEADS, "llama.cpp", &[(name, own)]), None, "{own}");
            }
        }
    }

    /// `llama_init_from_model`: "V cache quantization requires `flash_attn`".
    #[test]
    fn quantised_v_needs_flash_attention() {
        let off = ("flash_attn", "false");
        for asked in ["kv_dtype", "v_dtype"] {
            let error = refusal(HEADS, "llama.cpp", &[(asked, "q4_0"), off]).unwrap();
            assert!(error.starts_with("v_dtype: q4_0 V needs flash attention"), "{error}");
        }
        assert_eq!(refusal(HEADS, "llama.cpp", &[("k_dtype", "q4_0"), off]), None);
        assert_eq!(refusal(HEADS, "llama.cpp", &[("kv_dtype", "f16"), off]), None);
        assert_eq!(refusal(LATENT, "llama.cpp", &[("kv_dtype", "q8_0"), off]), None, "no V is kept");
    }
}
