use super::super::{
    CapacityPlan, CapacityQuestion, Given, Gpus, MemoryQuestion, Mix, Moving, Subject, capacity,
};
use super::{gpu, gpus};
use crate::engine::{Engine, EngineKind, ranks};
use crate::hardware::Gpu;
use crate::settings::Settings;
use crate::{Bytes, Error, Result, Tokens, UnitSystem};

/// Bytes of captured graphs and communication buffers on each GPU.
const USUAL_GRAPHS: Bytes = Bytes::new(2 << 30);
/// Tokens of the largest prefill batch.
const USUAL_BATCH_TOKENS: u64 = 8192;

/// More memory than any GPU has.
const LARGEST_MEMORY: Bytes = Bytes::new(100_000_000_000_000);

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
    let gpu = gpu(given)?;
    let settings = Gpus::shared(gpu, count, engine.kind(), settings);
    let ranks = holders(engine.kind(), &settings, count);
    let question = CapacityQuestion {
        memory: memory_question(subject, (gpu, count), ranks, given)?,
        engine,
        settings: &settings,
        contexts,
        mix,
        price_per_hour: given.some_number("price")?,
        moving,
    };
    capacity(subject, &question)
}

/// GPUs that hold one model between them: the ranks, or all of them where layers are spread.
pub(in crate::plan) fn holders(engine: EngineKind, settings: &Settings, count: u64) -> u64 {
    if engine == EngineKind::LlamaCpp { count } else { ranks(engine, settings) }
}

/// What fills each of so many GPUs, whose weights `ranks` of them share unless it is given.
pub(in crate::plan) fn memory_question<'a>(
    subject: &Subject<'_>,
    (gpu, count): (&'a Gpu, u64),
    ranks: u64,
    given: &Given,
) -> Result<MemoryQuestion<'a>> {
    let batch_tokens = given.count("batch_tokens", USUAL_BATCH_TOKENS)?;
    let batch_tokens =
        Tokens::context(batch_tokens).map_err(|error| Error::setting("batch_tokens", error.what()))?;
    let memory = given.some_bytes("memory")?;
    if let Some(memory) = memory.filter(|memory| *memory > LARGEST_MEMORY) {
        let [memory, most] = [memory, LARGEST_MEMORY].map(|bytes| bytes.display(UnitSystem::Decimal));
        let what = format!("{memory} is more than any GPU has; give up to {most}");
        return Err(Error::setting("memory", what));
    }
    Ok(MemoryQuestion {
        gpu,
        count,
        memory,
        weights: given.some_bytes("weights")?,
        types: given.types(subject.architecture)?,
        weight_ranks: given.count("weights_over", ranks)?,
        share_percent: given.count("memory_percent", 90)?,
        batch_tokens: batch_tokens.get(),
        activations: given.some_bytes("activations")?,
        graphs: given.some_bytes("graphs")?.unwrap_or(USUAL_GRAPHS),
    })
}
