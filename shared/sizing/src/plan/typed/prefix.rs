use super::super::prefix::{PrefixQuestion, SharedPrefix};
use super::super::{Given, Moving, Subject};
use crate::engine::{Engine, EngineKind};
use crate::settings::Settings;
use crate::{Error, Result, Tokens};

/// Tokens between the windows that a periodic disk store keeps.
const USUAL_INTERVAL: Tokens = Tokens::new(4096);

/// What `kvscope plan prefix` is asked of one model. `engine` is the vLLM whose blocks are asked for; see [`vllm_of`].
///
/// # Errors
///
/// An option that cannot be read, or an engine that has a row of its own.
pub fn prefix_question<'a>(
    subject: &Subject<'a>,
    engine: &'a Engine,
    settings: &'a Settings,
    prefix: SharedPrefix,
    given: &Given,
    moving: Moving,
) -> Result<PrefixQuestion<'a>> {
    if engine.kind() != EngineKind::Vllm {
        let what = format!("{engine} has a row of its own; name a version of vLLM here: vllm@0.33");
        return Err(Error::setting("engine", what));
    }
    Ok(PrefixQuestion {
        model: subject.model,
        architecture: subject.architecture,
        settings,
        vllm: engine,
        prefix,
        interval: given.some_tokens("every")?.unwrap_or(USUAL_INTERVAL),
        moving,
    })
}

/// The vLLM whose blocks a prefix is asked of: the newest where no engine's accounting is chosen.
pub fn vllm_of(engine: Engine) -> Engine {
    match engine.kind() {
        EngineKind::Logical => Engine::newest(EngineKind::Vllm),
        _ => engine,
    }
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
