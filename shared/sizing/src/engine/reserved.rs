//! What an engine reserves for a batch, over many contexts and beside the logical bytes at one.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::differences::Differences;
use super::shard::quantity_of;
use super::share::ranks;
use super::{Engine, EngineKind, Figure, Padding, Profile, Quantity, Query, answer, profile};
use crate::settings::Settings;
use crate::size::StateModel;
use crate::state::{ComponentKind, counted};
use crate::{Bytes, Error, Result, Tokens, group_digits};

/// Reserved and logical bytes of one batch at one context, and what lies between them:
/// `reserved = logical + division + padding + rest`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reservation {
    /// The engine.
    pub engine: Engine,
    /// Ranks that share one copy of the model; the reserved bytes are of one of them.
    pub ranks: u64,
    /// Dense bytes of the whole batch, unsharded.
    #[serde(rename = "logical_bytes")]
    pub logical: Bytes,
    /// What the engine reserves for the batch, on the rank that holds most.
    #[serde(rename = "reserved_bytes")]
    pub reserved: Bytes,
    /// How the reserved bytes come about: as blocks of the pool where the engine has blocks of one size, else from the parts.
    pub worked: Option<String>,
    /// Both by part; the columns add up to the two figures above. Parts that neither has are left out.
    pub parts: Vec<ReservedPart>,
    /// What one rank does not have of the logical bytes, or has besides: of a model that several ranks share, of some of
    /// its layers, with drafts.
    pub division: Rest,
    /// Where reserved bytes hold no state, for the whole batch at this context.
    pub padding: Vec<Padding>,
    /// What is left between both: what the engine keeps otherwise.
    pub rest: Rest,
    /// Of the reserved bytes, those that the batch holds while it decodes, where it is admitted with room for more; `None`
    /// where it holds all of them.
    #[serde(rename = "decoding_bytes")]
    pub decoding: Option<Bytes>,
    /// Bytes that the pool has once, whatever it holds, beside what is reserved for requests.
    #[serde(rename = "once_bytes")]
    pub once: Bytes,
    /// What those bytes are, in words; `None` where there are none.
    pub once_why: Option<&'static str>,
}

/// One part in both accountings.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ReservedPart {
    /// What it is, in words.
    pub what: &'static str,
    /// Dense bytes, unsharded.
    #[serde(rename = "logical_bytes")]
    pub logical: Bytes,
    /// Reserved bytes.
    #[serde(rename = "reserved_bytes")]
    pub reserved: Bytes,
    /// How the reserved bytes come about: tokens × layers × bytes × requests. `None` where they are no such product.
    pub worked: Option<String>,
}

/// A difference with its reason. In JSON null, or `{bytes, sign, why}`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Rest {
    /// Nothing.
    None,
    /// This much more, and why.
    More(Bytes, String),
    /// This much less, and why.
    Less(Bytes, String),
}

impl Serialize for Rest {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let (bytes, sign, why) = match self {
            Self::None => return serializer.serialize_none(),
            Self::More(bytes, why) => (bytes, "+", why),
            Self::Less(bytes, why) => (bytes, "-", why),
        };
        let mut json = serializer.serialize_struct("Rest", 3)?;
        json.serialize_field("bytes", bytes)?;
        json.serialize_field("sign", sign)?;
        json.serialize_field("why", why)?;
        json.end()
    }
}

impl Reservation {
    /// What the division is of, in words.
    pub fn division_words(&self) -> &'static str {
        match (self.ranks, &self.division) {
            (1, _) => "other layers",
            // A part of the model is less than the whole: more are the draft layers' bytes.
            (_, Rest::More(..)) => "ranks and other layers",
            _ => "division over ranks",
        }
    }
}

/// Puts what the query's engine reserves beside the logical bytes.
///
/// # Errors
///
/// No context, settings that do not fit the model, or an overflow.
pub fn reservation(query: &Query<'_>) -> Result<Reservation> {
    let n = query.need_context()?;
    let asked = query;
    let settings = of_requests(query)?;
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
    let differences = Differences::new(asked, plan.as_ref())?;
    let mut parts = Vec::new();
    let (mut logical, mut named) = (Bytes::ZERO, Bytes::ZERO);
    for quantity in Quantity::PARTS {
        let (dense, held) = (dense(quantity)?, part(quantity)?);
        logical = logical.plus(dense)?;
        named = named.plus(held)?;
        if dense.plus(held)? > Bytes::ZERO {
            let worked = match plan.arithmetic(quantity)?.or_else(|| differences.worked(quantity, held)) {
                None if held > Bytes::ZERO => plan.terms(quantity)?,
                worked => worked,
            };
            parts.push(ReservedPart { what: quantity.label(), logical: dense, reserved: held, worked });
        }
    }
    if reserved > named {
        let reserved = Bytes::new(reserved.get() - named.get());
        let what = Quantity::UnusedWidthBytes.label();
        let worked = plan.unused_width_worked()?;
        parts.push(ReservedPart { what, logical: Bytes::ZERO, reserved, worked });
    }
    let padding = plan.held_padding()?;
    let (division, on_rank) = differences.division(logical);
    let explained = padding.iter().map(|row| row.bytes).try_fold(on_rank, Bytes::plus)?;
    let once = plan.pool_overhead()?;
    Ok(Reservation {
        engine: query.engine.clone(),
        ranks: ranks(query.engine.kind(), query.settings),
        logical,
        reserved,
        worked: blocks(query, reserved, plan.as_ref())?.or_else(|| together(&parts)),
        parts,
        division,
        padding,
        rest: differences.rest(explained, reserved),
        decoding: plan.decoding()?.filter(|decoding| *decoding < reserved),
        once,
        once_why: (once > Bytes::ZERO).then(|| plan.overhead_words()),
    })
}

/// Reserved bytes by blocks, where all are as wide as the plan's.
fn blocks(query: &Query<'_>, reserved: Bytes, plan: &dyn Profile) -> Result<Option<String>> {
    let Some(block) = plan.block().filter(|_| query.batch > 0) else { return Ok(None) };
    if !reserved.get().is_multiple_of(block.get()) {
        return Ok(None);
    }
    let blocks = counted(reserved.get() / block.get(), "block", "blocks");
    let of_requests = match query.batch {
        1 => format!("{blocks} of one request"),
        batch => format!("{blocks} of {batch} requests"),
    };
    let of_block = plan.block_worked()?.map_or(String::new(), |worked| format!("; a block is {worked}"));
    Ok(Some(format!("{of_requests} × {} B{of_block}", group_digits(block.get()))))
}

/// What all parts together are: the arithmetic of the only one that is reserved, or their sum.
fn together(parts: &[ReservedPart]) -> Option<String> {
    let mut reserved = parts.iter().filter(|part| part.reserved > Bytes::ZERO);
    match (reserved.next(), reserved.next()) {
        (None, _) => None,
        (Some(only), None) => only.worked.clone(),
        (Some(_), Some(_)) => Some("the sum of its parts".to_owned()),
    }
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
    let settings = of_requests(&first)?;
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
    let settings = of_requests(query)?;
    match answer(&Query { settings: &settings, ..query.clone() }, Quantity::ResidentBytes)? {
        Figure::Bytes(bytes) => Ok(bytes),
        other => Err(Error::setting("resident_bytes", format!("{other} is no number of bytes"))),
    }
}

/// Logical bytes of the batch at each of `contexts`, as they stand beside what the query's engine reserves: of one of its ranks
/// where several share a model, else of the whole. The list ends before the first context that has no figure.
///
/// # Errors
///
/// Ranks that cannot share the model equally.
pub fn logical_curve(query: &Query<'_>, state: &StateModel, contexts: &[Tokens]) -> Result<Vec<Bytes>> {
    match on_rank(query) {
        Some(query) => reserved_curve(&query, contexts),
        None => Ok(contexts.iter().map_while(|n| state.resident(*n, query.batch).ok()).collect()),
    }
}

/// The same at the query's own context.
///
/// # Errors
///
/// No context, an overflow, or ranks that cannot share the model equally.
pub fn logical_bytes(query: &Query<'_>, state: &StateModel) -> Result<Bytes> {
    match on_rank(query) {
        Some(query) => reserved_bytes(&query),
        None => state.resident(query.need_context()?, query.batch),
    }
}

/// The question for logical bytes of one rank; none where no engine is asked or its ranks each have the whole.
fn on_rank<'a>(query: &Query<'a>) -> Option<Query<'a>> {
    let kind = query.engine.kind();
    let is_shared = kind != EngineKind::Logical && ranks(kind, query.settings) > 1;
    is_shared.then(|| Query { engine: Engine::newest(EngineKind::Logical), ..query.clone() })
}

/// The query's settings, with room for every request of the batch: llama.cpp divides one context among its sequences.
pub(super) fn of_requests(query: &Query<'_>) -> Result<Settings> {
    let mut settings = query.settings.clone();
    if query.engine.kind() != EngineKind::LlamaCpp || settings.n_ctx.is_some() {
        return Ok(settings);
    }
    let Some(context) = query.context else { return Ok(settings) };
    let sequences = settings.n_seq_max.unwrap_or(query.batch);
    let cells = context.get().checked_mul(sequences);
    settings.n_ctx =
        Some(cells.ok_or_else(|| Error::overflow(format!("{context} tokens × {sequences} sequences")))?);
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    /// Two of four KV heads of Qwen3-235B on each of two ranks: half the bytes of the whole model, which stands beside one rank.
    #[test]
    fn logical_bytes_beside_ranks_are_of_one_rank() {
        let architecture = crate::find_entry("qwen3-235b-a22b").unwrap().architecture().unwrap();
        let n = [Tokens::new(1000), Tokens::new(4000)];
        for (tp, share) in [(1, 1), (2, 2)] {
            let settings = Settings { tp: Some(tp), ..Settings::default() };
            let state = StateModel::new(&architecture, &settings).unwrap();
            let engine = Engine::newest(EngineKind::Vllm);
            let query =
                Query { context: Some(n[1]), ..Query::new(&architecture, engine, &settings).unwrap() };
            // 94 layers of 2 × 4 heads × 128 values in BF16.
            let whole = n.map(|n| n.get() * 94 * 2 * 4 * 128 * 2);
            let of = |bytes: u64| Bytes::new(bytes / share);
            assert_eq!(logical_curve(&query, &state, &n).unwrap(), whole.map(of));
            assert_eq!(logical_bytes(&query, &state).unwrap(), of(whole[1]));
        }
    }

    /// One plan for all contexts and a plan for each are the same rule.
    #[test]
    fn a_curve_is_the_figure_at_every_context() {
        let contexts = [1, 17, 1000, 4096, 100_000, 262_144].map(Tokens::new);
        let plain = Settings::default();
        let ranks = Settings { tp: Some(2), ..Settings::default() };
        let mut compared = 0;
        for entry in catalogue() {
            let architecture = entry.architecture().unwrap();
            for (kind, settings) in EngineKind::ALL.into_iter().zip([&plain, &ranks].iter().cycle()) {
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
        let mut products = 0;
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
                assert_eq!(beside.division, Rest::None, "{} in {kind:?}", entry.id);
                match &beside.rest {
                    Rest::None => {}
                    Rest::More(_, why) | Rest::Less(_, why) => {
                        assert!(kind != EngineKind::Logical, "{}: {why}", entry.id);
                        assert!(!why.is_empty(), "{} in {kind:?}", entry.id);
                    }
                }
                for part in &beside.parts {
                    let Some(worked) = &part.worked else { continue };
                    let sum = worked.split(';').next().unwrap();
                    // A part of a pool's tokens may end within a byte, which is then taken whole.
                    let short = part.reserved.get() - product(sum);
                    let is_part = sum.contains("/10 × ");
                    assert!(short <= u64::from(is_part), "{} in {kind:?}: {worked}: {short}", entry.id);
                    products += 1;
                }
            }
        }
        assert!(products > 300, "{products}");
    }

    /// The product that a line of arithmetic states: `100,032 tokens × 61 layers × 132 B`, fractions as `146.5 B`.
    fn product(worked: &str) -> u64 {
        if let Some((slots, each)) =
            worked.strip_prefix('(').and_then(|rest| rest.split_once(" + 1) slots × "))
        {
            return (product(slots) + 1) * product(each);
        }
        if worked.contains(" + ") {
            return worked.split(" + ").map(product).sum();
        }
        let (mut over, mut under) = (1_u128, 1_u128);
        for factor in worked.split(" × ") {
            let number = factor.split(' ').next().unwrap().replace(',', "");
            let (above, below) = number.split_once('/').unwrap_or((&number, "1"));
            let (whole, decimals) = above.split_once('.').unwrap_or((above, ""));
            over *= format!("{whole}{decimals}").parse::<u128>().unwrap();
            under *= below.parse::<u128>().unwrap() * 10_u128.pow(u32::try_from(decimals.len()).unwrap());
        }
        assert!(over % under == 0 || worked.contains("/10 × "), "{worked}");
        u64::try_from(over / under).unwrap()
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
        assert_eq!(
            beside.worked.as_deref(),
            Some("12,500 blocks of 2 requests × 4,063,232 B; a block is 62 layers × 65,536 B")
        );
        assert_eq!(
            beside.parts[0].worked.as_deref(),
            Some("100,000 tokens × 62 layers × 4,096 B × 2 requests")
        );
        let rows: Vec<_> = beside.padding.iter().map(|row| (row.what.as_str(), row.bytes.get())).collect();
        assert_eq!(rows, [("last blocks", 2 * 9 * 253_952)]);
        assert_eq!(beside.once.get(), 16 * 253_952, "one block is never handed out");
        assert_eq!(beside.rest, Rest::None);
    }
}
