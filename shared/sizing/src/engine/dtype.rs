//! The dtype that an engine runs a model in, which is not always the one its config names.

use super::{EngineKind, Query};
use crate::architecture::Architecture;
use crate::fact::Source;
use crate::format::StateFormat;
use crate::settings::{Chosen, Formats, Settings};
use crate::warning::Warning;

/// The model's dtype in an engine. Where a launch does not say it (`--dtype auto`), vLLM and SGLang run a float32 checkpoint in
/// 2 bytes: vLLM in the first dtype that the platform prefers, bfloat16 on every GPU that has a profile (0.33,
/// `_resolve_auto_dtype` of `config/model.py`; float16 up to 0.8), SGLang in float16, in bfloat16 for Gemma (0.5.23,
/// `_get_and_verify_dtype` of `configs/model_config.py`).
pub(super) fn dtype_in(architecture: &Architecture, kind: EngineKind) -> Chosen<StateFormat> {
    let stated = architecture.chosen_dtype();
    if let Some(format) = architecture.launched_dtype() {
        return Chosen { format, source: Source::default("dtype", "the launch's own dtype") };
    }
    if stated.format != StateFormat::F32 {
        return stated.clone();
    }
    let is_gemma = || architecture.model_type().is_some_and(|class| class.starts_with("gemma"));
    let (format, rule) = match kind {
        EngineKind::Vllm => (StateFormat::Bf16, "vLLM runs float32 models in bfloat16"),
        EngineKind::SgLang if is_gemma() => (StateFormat::Bf16, "SGLang runs Gemma's float32 in bfloat16"),
        EngineKind::SgLang => (StateFormat::F16, "SGLang runs float32 models in float16"),
        EngineKind::Logical | EngineKind::LlamaCpp | EngineKind::TrtLlm | EngineKind::Transformers => {
            return stated.clone();
        }
    };
    Chosen { format, source: Source::default("dtype", rule) }
}

/// The formats in an engine under some settings.
pub(super) fn formats_in(architecture: &Architecture, kind: EngineKind, settings: &Settings) -> Formats {
    architecture.formats_run_in(settings, dtype_in(architecture, kind))
}

/// Why parts are stored otherwise than logical bytes have them, where the engine runs the model in another dtype.
pub(super) fn words(query: &Query<'_>) -> Option<String> {
    let (stated, run) =
        (query.architecture.dtype(), dtype_in(query.architecture, query.engine.kind()).format);
    let names = (torch_name(stated), torch_name(run));
    (stated != run)
        .then(|| format!("{} runs this {} model in {}", query.engine.kind().name(), names.0, names.1))
}

/// Says that the engine runs the model in another dtype, or that it is not known whether it does.
pub(super) fn warning(query: &Query<'_>) -> Option<Warning> {
    let architecture = query.architecture;
    let stated = architecture.chosen_dtype();
    let field = match &stated.source {
        Source::Field { path } => path.to_string(),
        _ => "dtype".to_owned(),
    };
    let run = dtype_in(architecture, query.engine.kind()).format;
    let is_launched = architecture.launched_dtype().is_some();
    let is_as_wide = run.bytes_per_value() == stated.format.bytes_per_value();
    if run != stated.format && !(is_launched && is_as_wide) {
        let message = match architecture.launched_dtype() {
            Some(_) => format!(
                "{} in the config, but this launch runs in {}, whose bytes K/V and state have",
                torch_name(stated.format),
                torch_name(run)
            ),
            None => format!(
                "Downcasting torch.{} to torch.{}: {} does so where no dtype is set (--dtype auto), so K/V and state that follow the \
                 model's dtype take {} B a value; logical bytes count {}",
                torch_name(stated.format),
                torch_name(run),
                query.engine.kind().name(),
                run.bytes_per_value(),
                stated.format.bytes_per_value()
            ),
        };
        return Some(Warning::new(field, message));
    }
    let is_unknown = query.engine.kind() == EngineKind::TrtLlm
        && stated.format == StateFormat::F32
        && query.settings.kv_dtype.is_none();
    is_unknown.then(|| {
        let message = "float32 is counted with 4 B a value; whether TensorRT-LLM runs such a model in 2 is not known \
                       (set kv_dtype)";
        Warning::new(field, message)
    })
}

/// The name that torch and the engines' lines have for it.
fn torch_name(format: StateFormat) -> &'static str {
    match format {
        StateFormat::F32 => "float32",
        StateFormat::F16 => "float16",
        StateFormat::Bf16 => "bfloat16",
    }
}
