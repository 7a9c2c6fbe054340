use super::super::{CapacityPlan, CapacityQuestion, Given, MemoryQuestion, Mix, Moving, Subject, capacity};
use super::{gpu, gpus};
use crate::engine::{Engine, EngineKind, ranks};
use crate::settings::Settings;
use crate::{Bytes, Error, Result, Tokens};

/// Bytes of captured graphs and communication buffers on each GPU.
const USUAL_GRAPHS: Bytes = Bytes::new(2 << 30);
/// Tokens of the largest prefill batch.
const USUAL_BATCH_TOKENS: u64 = 8192;

/// What `kvscope plan capacity` answers; `mix` is the one that was typed or read from a file.
///
/// # Errors
///
/// An option that cannot be read, or what the plan refuses.
pub fn capacity_of(
    subject: &Subject<'_>,
    engine: Engine,
    settings: &Settings,
    contexts: &[Tokens],
    mix: Option<Mix>,
    given: &Given,
    moving: Moving,
) -> Result<CapacityPlan> {
    let count = gpus(given, 1)?;
    let mut settings = settings.clone();
    // All GPUs share each request unless ranks are given; llama.cpp has no such ranks.
    let gives_ranks = settings.tp.is_some() || settings.pp.is_some() || settings.dcp.is_some();
    if !gives_ranks && count > 1 && engine.kind() != EngineKind::LlamaCpp {
        settings.tp = Some(count);
    }
    let batch_tokens = given.count("batch_tokens", USUAL_BATCH_TOKENS)?;
    let batch_tokens =
        Tokens::context(batch_tokens).map_err(|error| Error::setting("batch_tokens", error.what()))?;
    let question = CapacityQuestion {
        memory: MemoryQuestion {
            gpu: gpu(given)?,
            count,
            memory: given.some_bytes("memory")?,
            weights: given.some_bytes("weights")?,
            types: given.types(subject.architecture)?,
            weight_ranks: given.count("weights_over", ranks(engine.kind(), &settings))?,
            share_percent: given.count("memory_percent", 90)?,
            batch_tokens: batch_tokens.get(),
            activations: given.some_bytes("activations")?,
            graphs: given.some_bytes("graphs")?.unwrap_or(USUAL_GRAPHS),
        },
        engine,
        settings: &settings,
        contexts,
        mix,
        price_per_hour: given.some_number("price")?,
        moving,
    };
    capacity(subject, &question)
}
