use super::super::prefix::{PrefixPlan, PrefixQuestion, SharedPrefix, reuse};
use super::super::{Given, Subject};
use crate::engine::{Engine, EngineKind};
use crate::settings::Settings;
use crate::{Error, Result, Tokens};

/// Tokens between the windows that a periodic disk store keeps.
const USUAL_INTERVAL: Tokens = Tokens::new(4096);

/// What `kvscope plan prefix` answers of one model. `engine` names the vLLM whose blocks are asked for: the newest where it is
/// logical.
///
/// # Errors
///
/// An option that cannot be read, another engine, or what the plan refuses.
pub fn prefix_of(
    subject: &Subject<'_>,
    engine: Engine,
    settings: &Settings,
    prefix: SharedPrefix,
    given: &Given,
) -> Result<PrefixPlan> {
    let vllm = match engine.kind() {
        EngineKind::Logical => Engine::newest(EngineKind::Vllm),
        EngineKind::Vllm => engine,
        _ => {
            let what = format!("{engine} has a row of its own; name a version of vLLM here: vllm@0.33");
            return Err(Error::setting("engine", what));
        }
    };
    reuse(&PrefixQuestion {
        model: subject.model,
        architecture: subject.architecture,
        settings,
        vllm: &vllm,
        prefix,
        interval: given.some_tokens("every")?.unwrap_or(USUAL_INTERVAL),
    })
}

/// The two prompts by their lengths: the second is as long as the first where it is not given, and all of the shorter one is
/// shared.
///
/// # Errors
///
/// No length of the first, one beyond any context, or more shared tokens than the shorter prompt has.
pub fn typed_prefix(given: &Given) -> Result<SharedPrefix> {
    let first = given.some_tokens("first")?.unwrap_or_default();
    let second = given.some_tokens("second")?.unwrap_or(first);
    let shared = given.some_tokens("shared")?.unwrap_or(first.min(second));
    SharedPrefix::new(first, second, shared)
}
