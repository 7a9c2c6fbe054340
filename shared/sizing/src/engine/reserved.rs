//! What an engine reserves for a batch, over many contexts and beside the logical bytes at one.

use serde::Serialize;

use super::shard::quantity_of;
use super::{Engine, EngineKind, Figure, Padding, Quantity, Query, answer, profile};
use crate::settings::Settings;
use crate::size::StateModel;
use crate::state::ComponentKind;
use crate::{Bytes, Error, Result, Tokens};

/// The parts that resident bytes are divided into, with the words for them.
const PARTS: [(Quantity, &str); 5] = [
    (Quantity::KvBytes, "caches of every token"),
    (Quantity::IndexBytes, "index keys"),
    (Quantity::WindowBytes, "windows and chunks"),
    (Quantity::StateBytes, "recurrent and compressor state"),
    (Quantity::CrossBytes, "cross-attention"),
];

/// Reserved and logical bytes of one batch at one context, and what lies between them:
/// `reserved = logical + padding + rest`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reservation {
    /// The engine.
    pub engine: Engine,
    /// Dense bytes of the whole batch, unsharded.
    pub logical: Bytes,
    /// What the engine reserves for the batch, on the rank that holds most.
    pub reserved: Bytes,
    /// Both by part; the columns add up to the two figures above. Parts that neither has are left out.
    pub parts: Vec<ReservedPart>,
    /// Where reserved bytes hold no state, for the whole batch at this context.
    pub padding: Vec<Padding>,
    /// What is left between both.
    pub rest: Rest,
    /// Bytes that the pool has once, whatever it holds, beside what is reserved for requests: vLLM's null block.
    pub once: Bytes,
}

/// One part in both accountings.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct ReservedPart {
    /// What it is, in words.
    pub what: &'static str,
    /// Dense bytes, unsharded.
    pub logical: Bytes,
    /// Reserved bytes.
    pub reserved: Bytes,
}

/// What the named padding leaves between logical and reserved bytes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rest {
    /// Nothing.
    None,
    /// The engine keeps this much more, and why.
    More(Bytes, &'static str),
    /// The engine keeps this much less, and why.
    Less(Bytes, &'static str),
}

/// Puts what the query's engine reserves beside the logical bytes.
///
/// # Errors
///
/// No context, settings that do not fit the model, or an overflow.
pub fn reservation(query: &Query<'_>) -> Result<Reservation> {
    let n = query.need_context()?;
    let settings = of_requests(query);
    let query = &Query { settings: &settings, ..query.clone() };
    let plan = profile(query)?;
    let part = |quantity: Quantity| match plan.figure(quantity)? {
        Some(Figure::Bytes(bytes)) => Ok(bytes),
        _ => Err(Error::setting(quantity.name(), format!("{} has no such figure", query.engine))),
    };
    let reserved = part(Quantity::ResidentBytes)?;
    let kinds = StateModel::new(query.architecture, query.settings)?.by_kind(n)?;
    let dense = |quantity: Quantity| {
        let of = ComponentKind::ALL.into_iter().zip(kinds).filter(|(kind, _)| quantity_of(*kind) == quantity);
        of.map(|(_, bytes)| bytes).try_fold(Bytes::ZERO, Bytes::plus)?.times(query.batch)
    };
    let mut parts = Vec::new();
    let (mut logical, mut named) = (Bytes::ZERO, Bytes::ZERO);
    for (quantity, what) in PARTS {
        let row = ReservedPart { what, logical: dense(quantity)?, reserved: part(quantity)? };
        logical = logical.plus(row.logical)?;
        named = named.plus(row.reserved)?;
        if row.logical.plus(row.reserved)? > Bytes::ZERO {
            parts.push(row);
        }
    }
    if reserved > named {
        let reserved = Bytes::new(reserved.get() - named.get());
        parts.push(ReservedPart { what: "unused width of blocks", logical: Bytes::ZERO, reserved });
    }
    let padding = plan.held_padding()?;
    let explained = padding.iter().map(|row| row.bytes).try_fold(logical, Bytes::plus)?;
    let rest = rest(query, explained, reserved);
    let (engine, once) = (query.engine.clone(), plan.pool_overhead()?);
    Ok(Reservation { engine, logical, reserved, parts, padding, rest, once })
}

/// What the query's engine reserves for the batch at each of `contexts`, whatever the query's own. The list ends before
/// the first context that has no figure.
///
/// # Errors
///
/// What makes every context fail: settings that do not fit the model.
pub fn reserved_curve(query: &Query<'_>, contexts: &[Tokens]) -> Result<Vec<Bytes>> {
    let at = |n: Tokens| Query { context: Some(n), ..query.clone() };
    let first = contexts.first().map_or_else(|| query.clone(), |n| at(*n));
    let settings = of_requests(&first);
    let first = Query { settings: &settings, ..first };
    let plan = profile(&first)?;
    let mut curve = Vec::with_capacity(contexts.len());
    for n in contexts {
        match plan.resident_at(*n).unwrap_or_else(|| reserved_bytes(&at(*n))) {
            Ok(bytes) => curve.push(bytes),
            Err(error) if curve.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(curve)
}

/// What the query's engine reserves for the batch at the context.
///
/// # Errors
///
/// No context, settings that do not fit the model, or an overflow.
pub fn reserved_bytes(query: &Query<'_>) -> Result<Bytes> {
    let settings = of_requests(query);
    match answer(&Query { settings: &settings, ..query.clone() }, Quantity::ResidentBytes)? {
        Figure::Bytes(bytes) => Ok(bytes),
        other => Err(Error::setting("resident_bytes", format!("{other} is no number of bytes"))),
    }
}

/// The query's settings, with room for every request of the batch: llama.cpp divides one context among its sequences.
fn of_requests(query: &Query<'_>) -> Settings {
    let mut settings = query.settings.clone();
    if query.engine.kind() == EngineKind::LlamaCpp && settings.n_ctx.is_none() {
        settings.n_ctx = query.context.map(|n| n.get().saturating_mul(query.batch));
    }
    settings
}

fn rest(query: &Query<'_>, explained: Bytes, reserved: Bytes) -> Rest {
    let settings = query.settings;
    let ranks = [settings.tp, settings.pp, settings.dcp, settings.dp].into_iter().flatten().any(|n| n > 1);
    match explained.cmp(&reserved) {
        std::cmp::Ordering::Equal => Rest::None,
        std::cmp::Ordering::Less => {
            let why = "the engine keeps other formats or layers, or spare slots; the parts show where";
            Rest::More(Bytes::new(reserved.get() - explained.get()), why)
        }
        std::cmp::Ordering::Greater => {
            let why = if ranks {
                "this is one rank; the others hold the rest"
            } else {
                "the engine keeps other formats or fewer layers; the parts show where"
            };
            Rest::Less(Bytes::new(explained.get() - reserved.get()), why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    /// One plan for all contexts and a plan for each are the same rule.
    #[test]
    fn a_curve_is_the_figure_at_every_context() {
        let contexts = [1, 17, 1000, 4096, 100_000, 262_144].map(Tokens::new);
        let plain = Settings::default();
        let ranks = Settings { tp: Some(2), ..Settings::default() };
        let mut compared = 0;
        for entry in catalogue() {
            let architecture = entry.architecture().unwrap();
            for (kind, settings) in
                EngineKind::ALL.into_iter().zip([&Settings::default(), &ranks].iter().cycle())
            {
                let mut query = Query::new(&architecture, Engine::newest(kind), settings).unwrap();
                query.batch = 3;
                let Ok(curve) = reserved_curve(&query, &contexts) else { continue };
                for (n, bytes) in contexts.iter().zip(curve) {
                    query.context = Some(*n);
                    assert_eq!(reserved_bytes(&query), Ok(bytes), "{} in {} at {n}", entry.id, query.engine);
                    compared += 1;
                }
            }
        }
        assert!(compared > 1000, "{compared}");
    }

    #[test]
    fn parts_padding_and_rest_add_up() {
        let settings = Settings::default();
        for entry in catalogue() {
            let architecture = entry.architecture().unwrap();
            for kind in EngineKind::ALL {
                let mut query = Query::new(&architecture, Engine::newest(kind), &settings).unwrap();
                (query.context, query.batch) = (Some(Tokens::new(99_991)), 2);
                let Ok(beside) = reservation(&query) else { continue };
                let sum = |of: &dyn Fn(&ReservedPart) -> Bytes| {
                    beside.parts.iter().map(|part| of(part).get()).sum::<u64>()
                };
                assert_eq!(sum(&|part| part.logical), beside.logical.get());
                assert_eq!(sum(&|part| part.reserved), beside.reserved.get(), "{} in {kind:?}", entry.id);
                let dense =
                    StateModel::new(&architecture, &settings).unwrap().resident(Tokens::new(99_991), 2);
                assert_eq!(dense, Ok(beside.logical));
                let padding: u64 = beside.padding.iter().map(|row| row.bytes.get()).sum();
                let rest = match beside.rest {
                    Rest::None => 0,
                    Rest::More(bytes, _) => i128::from(bytes.get()),
                    Rest::Less(bytes, _) => -i128::from(bytes.get()),
                };
                let between = i128::from(beside.reserved.get()) - i128::from(beside.logical.get());
                assert_eq!(between, i128::from(padding) + rest, "{} in {kind:?}", entry.id);
            }
        }
    }

    /// Kimi-K2.6 in llama.cpp: two requests of 1000 tokens in one context of 2000, 1024 cells each; 61 layers of 576 f16
    /// values.
    #[test]
    fn llama_cpp_gets_a_context_for_all_requests() {
        let entry = crate::find_entry("kimi-k2.6").unwrap();
        let (architecture, settings) = (entry.architecture().unwrap(), Settings::default());
        let mut query = Query::new(&architecture, Engine::newest(EngineKind::LlamaCpp), &settings).unwrap();
        (query.context, query.batch) = (Some(Tokens::new(1000)), 2);
        let beside = reservation(&query).unwrap();
        assert_eq!(beside.reserved.get(), 2 * 1024 * 61 * 576 * 2);
        assert_eq!(beside.padding[0].bytes.get(), 2 * 24 * 61 * 576 * 2);
        assert_eq!(beside.rest, Rest::None);
    }

    /// MiniMax-M2.7 in vLLM: 62 layers × 2 × 8 heads × 128 × 2 B, blocks of 16 tokens. 99,991 tokens take 6250 blocks,
    /// 9 tokens more.
    #[test]
    fn the_last_block_is_named() {
        let entry = crate::find_entry("minimax-m2.7").unwrap();
        let (architecture, settings) = (entry.architecture().unwrap(), Settings::default());
        let mut query = Query::new(&architecture, Engine::newest(EngineKind::Vllm), &settings).unwrap();
        (query.context, query.batch) = (Some(Tokens::new(99_991)), 2);
        let beside = reservation(&query).unwrap();
        assert_eq!(beside.reserved.get(), 2 * 6250 * 16 * 253_952);
        let rows: Vec<_> = beside.padding.iter().map(|row| (row.what.as_str(), row.bytes.get())).collect();
        assert_eq!(rows, [("last blocks", 2 * 9 * 253_952)]);
        assert_eq!(beside.once.get(), 16 * 253_952, "one block is never handed out");
        assert_eq!(beside.rest, Rest::None);
    }
}
