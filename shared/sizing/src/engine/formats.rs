//! Formats that an engine, or a version of it, does not have: they are refused, not sized.

use super::dtype::dtype_in;
use super::{Engine, EngineKind, Query, has_setting};
use crate::architecture::{Architecture, CheckpointKv, Exporter};
use crate::format::KvFormat;
use crate::{Error, Result};

/// Formats that a flag takes, each from a version on.
type Taken = [(KvFormat, &'static [u32])];

/// vLLM's `--kv-cache-dtype` (`CacheDType` of `config/cache.py`, 0.11 to 0.33). 0.11.0 has the scaled record behind its flag
/// `fp8`.
const VLLM: &Taken = &[
    (KvFormat::Bf16, &[]),
    (KvFormat::F16, &[0, 18]),
    (KvFormat::Fp8, &[]),
    (KvFormat::Fp8DsMla, &[]),
    (KvFormat::Fp8PerTokenHead, &[0, 20]),
    (KvFormat::Int8PerTokenHead, &[0, 20]),
    (KvFormat::Int4PerTokenHead, &[0, 25]),
    (KvFormat::Nvfp4, &[0, 20]),
];

/// What vLLM follows of checkpoints, each from a version on: `resolve_kv_cache_dtype_string` of `utils/torch_utils.py` (0.14, and NVFP4
/// since 0.20), which asks FP8 schemes for static scales, and `Attention.__init__` for `compressed-tensors` (0.15).
const FOLLOWED: &[(Exporter, KvFormat, &[u32])] = &[
    (Exporter::Modelopt, KvFormat::Fp8, &[0, 14]),
    (Exporter::Modelopt, KvFormat::Nvfp4, &[0, 20]),
    (Exporter::CompressedTensors, KvFormat::Fp8, &[0, 15]),
];

/// The first version in which a flag goes before the scheme of `compressed-tensors` (vllm-project/vllm#42782: 0.20.0 is without it,
/// 0.21.0 was built the day that it was opened, 0.22.0 has it).
const HEEDS_FLAGS: [u32; 2] = [0, 22];

/// SGLang's (0.5.23, `kv_cache_dtype` of `arg_groups/fields/model.py`); the scaled record is `fp8_e4m3` of DSA and DeepSeek-V4.
const SGLANG: &Taken = &[
    (KvFormat::Bf16, &[]),
    (KvFormat::Fp8, &[]),
    (KvFormat::Fp8DsMla, &[]),
    (KvFormat::Nvfp4, &[]),
    (KvFormat::Mxfp8, &[]),
];

/// `KvCacheConfig.dtype` of TensorRT-LLM (`auto`, `fp8`, `nvfp4`: NVIDIA/TensorRT-LLM#11487), where `auto` is a model's 2 bytes unless a
/// pre-quantised checkpoint has others.
const TRTLLM: &Taken =
    &[(KvFormat::Bf16, &[]), (KvFormat::F16, &[]), (KvFormat::Fp8, &[]), (KvFormat::Nvfp4, &[])];

/// What `-ctk` and `-ctv` of llama.cpp take (`common/arg.cpp`, `kv_cache_types`).
const LLAMA_CPP: &Taken = &[
    (KvFormat::Bf16, &[]),
    (KvFormat::F16, &[]),
    (KvFormat::F32, &[]),
    (KvFormat::Q8_0, &[]),
    (KvFormat::Q5_1, &[]),
    (KvFormat::Q5_0, &[]),
    (KvFormat::Q4_1, &[]),
    (KvFormat::Q4_0, &[]),
    (KvFormat::Iq4Nl, &[]),
];

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

/// Refuses formats that the query's engine does not take at its version. The dtype that it runs the model in is always one.
///
/// # Errors
///
/// The first such setting.
pub(super) fn check(query: &Query<'_>) -> Result<()> {
    let kind = query.engine.kind();
    let taken = match kind {
        EngineKind::Vllm => VLLM,
        EngineKind::SgLang => SGLANG,
        EngineKind::TrtLlm => TRTLLM,
        EngineKind::LlamaCpp => LLAMA_CPP,
        EngineKind::Logical | EngineKind::Transformers => return one_format(query),
    };
    let settings = query.settings;
    let asked = [
        ("kv_dtype", settings.kv_dtype),
        ("k_dtype", settings.k_dtype),
        ("v_dtype", settings.v_dtype),
        // Elsewhere no flag says it.
        (
            "cross_dtype",
            settings.cross_dtype.filter(|format| kind == EngineKind::LlamaCpp || format.is_ggml_block()),
        ),
    ];
    // llama.cpp stores what is neither K nor V in K's type.
    let has_entries = kind != EngineKind::LlamaCpp && query.architecture.keeps_entries();
    let kv_is_used = has_entries || !settings.names_both_sides();
    // A launch may run the model in the dtype that its config states.
    let own = [dtype_in(query.architecture, kind).format, query.architecture.dtype()].map(KvFormat::from);
    let of_version =
        || taken.iter().filter(|(_, first)| query.engine.at_least(first)).map(|(format, _)| *format);
    let is_own = |format| kind != EngineKind::LlamaCpp && own.contains(&format);
    for (name, format) in asked {
        let Some(format) = format.filter(|_| name != "kv_dtype" || kv_is_used) else { continue };
        if !is_own(format) && of_version().all(|known| known != format) {
            return Err(Error::setting(name, refusal(query, format, of_version())));
        }
    }
    one_format(query)
}

fn refusal(query: &Query<'_>, format: KvFormat, taken: impl Iterator<Item = KvFormat>) -> String {
    let (name, engine) = (format.name(), &query.engine);
    if format.is_ggml_block() {
        return format!("{name} is a type of llama.cpp, which {engine} does not store; use bf16 or fp8");
    }
    let taken = taken.map(KvFormat::name).collect::<Vec<_>>().join(", ");
    format!("{name} is no type of {engine}; it stores {taken}")
}

/// Refuses K and V in two formats where the engine has one flag for both.
fn one_format(query: &Query<'_>) -> Result<()> {
    let (kind, settings) = (query.engine.kind(), query.settings);
    if has_setting(kind, "k_dtype") || (settings.k_dtype, settings.v_dtype) == (None, None) {
        return Ok(());
    }
    let plain = settings.kv_dtype.unwrap_or_else(|| heads_by_default(query.architecture, &query.engine));
    if settings.k_dtype.unwrap_or(plain) == settings.v_dtype.unwrap_or(plain) {
        return Ok(());
    }
    let name = if settings.k_dtype.is_some() { "k_dtype" } else { "v_dtype" };
    let what = format!("{} stores K and V in one format; set kv_dtype", kind.name());
    Err(Error::setting(name, what))
}

/// The format of K/V heads where nothing is set: the dtype that the engine runs the model in, and in vLLM what a quantised checkpoint asks for.
pub(super) fn heads_by_default(architecture: &Architecture, engine: &Engine) -> KvFormat {
    let asked = architecture.checkpoint_kv().filter(|asked| is_followed(*asked, engine));
    asked.map_or_else(|| dtype_in(architecture, engine.kind()).format.into(), |asked| asked.format)
}

/// Whether this version of vLLM follows what a checkpoint asks for where nothing is set.
pub(super) fn is_followed(asked: CheckpointKv, engine: &Engine) -> bool {
    let is_taken =
        asked.exporter == Exporter::CompressedTensors || asked.format != KvFormat::Fp8 || asked.is_static;
    // `resolve_kv_cache_dtype_string` (`utils/torch_utils.py`) looks for ModelOpt's in the outer config alone.
    let is_seen = asked.exporter != Exporter::Modelopt || !asked.is_of_text;
    let since =
        FOLLOWED.iter().find(|(exporter, format, _)| (*exporter, *format) == (asked.exporter, asked.format));
    engine.kind() == EngineKind::Vllm
        && is_taken
        && is_seen
        && since.is_some_and(|(.., first)| engine.at_least(first))
}

/// Whether this version of vLLM follows it in K/V heads whatever is set.
pub(super) fn is_forced(asked: CheckpointKv, engine: &Engine) -> bool {
    asked.exporter == Exporter::CompressedTensors
        && is_followed(asked, engine)
        && !engine.at_least(&HEEDS_FLAGS)
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
                let start =
                    format!("{name}: {foreign} is no type of llama.cpp; it stores bf16, f16, f32, q8_0");
                assert!(error.starts_with(&start), "{error}");
            }
            for own in ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"] {
                assert_eq!(refusal(HEADS, "llama.cpp", &[(name, own)]), None, "{own}");
            }
        }
    }

    /// `CacheDType` of `config/cache.py`: 0.19.1 has no scales of a token and head, 0.20.0 has those of 8 bits and nvfp4, 0.24.0
    /// no int4, 0.25.1 it; 0.17.1 has no float16, 0.18.1 it, and none of 0.11 to 0.33 has f32 or mxfp8.
    #[test]
    fn a_format_is_refused_before_the_release_that_brings_it() {
        for (format, without, with) in [
            ("int8_per_token_head", "vllm@0.19.1", "vllm@0.20.0"),
            ("fp8_per_token_head", "vllm@0.11", "vllm@0.20"),
            ("nvfp4", "vllm@0.19.1", "vllm@0.22.0"),
            ("int4_per_token_head", "vllm@0.24", "vllm@0.25.1"),
            ("f16", "vllm@0.17.1", "vllm@0.18.1"),
        ] {
            let error = refusal(HEADS, without, &[("kv_dtype", format)]).unwrap();
            let start = format!("kv_dtype: {format} is no type of {without}; it stores bf16");
            assert!(error.starts_with(&start), "{error}");
            assert_eq!(refusal(HEADS, with, &[("kv_dtype", format)]), None, "{format}");
        }
        for (engine, format) in [
            ("vllm@0.33", "mxfp8"),
            ("vllm@0.33", "f32"),
            ("sglang", "int8_per_token_head"),
            ("sglang", "int4_per_token_head"),
            ("sglang", "f16"),
            ("trtllm", "mxfp8"),
            ("trtllm", "fp8_per_token_head"),
        ] {
            assert!(refusal(HEADS, engine, &[("kv_dtype", format)]).is_some(), "{engine} {format}");
        }
    }

    /// `MambaDType`: 0.12.0 has float32, 0.13.0 float16 too, 0.21.0 no bfloat16 and 0.22.0 it.
    #[test]
    fn a_dtype_of_states_is_refused_before_the_release_that_brings_it() {
        let half = HEADS.replacen('{', r#"{"torch_dtype": "float16", "#, 1);
        for (config, format, without, with) in
            [(HEADS, "f16", "vllm@0.12.0", "vllm@0.13.0"), (&half, "bf16", "vllm@0.21.0", "vllm@0.22.0")]
        {
            let asked = [("state_dtype", format)];
            let error = refusal(config, without, &asked).unwrap();
            assert!(error.starts_with(&format!("state_dtype: {format} is no type of states")), "{error}");
            assert_eq!(refusal(config, with, &asked), None, "{format}");
        }
        assert_eq!(refusal(HEADS, "vllm@0.11", &[("state_dtype", "bf16"), ("conv_dtype", "f32")]), None);
    }

    /// `auto` is the dtype of the model, whatever the flag lists (`resolve_kv_cache_dtype_string`).
    #[test]
    fn the_format_that_the_model_runs_in_is_never_refused() {
        let half = HEADS.replacen('{', r#"{"torch_dtype": "float16", "#, 1);
        for engine in ["vllm@0.17.1", "sglang"] {
            assert_eq!(refusal(&half, engine, &[("kv_dtype", "f16")]), None, "{engine}");
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
        // The type of V is checked though latents have none.
        assert!(refusal(LATENT, "llama.cpp", &[("kv_dtype", "q8_0"), off]).is_some());
    }

    /// `llama_init_from_model`: "model does not support different K and V cache types" for latents, and a K type whose
    /// blocks do not divide `n_embd_head_k`, here 48; rows of 8 such heads would be whole blocks.
    #[test]
    fn types_of_llama_cpp_fit_the_model() {
        let narrow = HEADS.replace("\"head_dim\": 64", "\"head_dim\": 48");
        for (config, pairs, start) in [
            (LATENT, &[("k_dtype", "q8_0")] as &[_], "k_dtype: llama.cpp refuses K and V of different"),
            (LATENT, &[("v_dtype", "q8_0")], "v_dtype: llama.cpp refuses K and V of different"),
            (
                &narrow,
                &[("k_dtype", "q8_0")],
                "k_dtype: q8_0 has blocks of 32 values, which do not divide a head of 48",
            ),
            (&narrow, &[("v_dtype", "q4_0")], "v_dtype: q4_0 has blocks of 32"),
        ] {
            let error = refusal(config, "llama.cpp", pairs).unwrap();
            assert!(error.starts_with(start), "{error}");
        }
        assert_eq!(refusal(LATENT, "llama.cpp", &[("kv_dtype", "q8_0")]), None);
        assert_eq!(refusal(&narrow, "llama.cpp", &[("kv_dtype", "bf16")]), None);
    }
}
