//! Why reserved bytes differ from logical ones: the arithmetic of each part, and the parts that an engine keeps otherwise.

use super::dtype;
use super::logical::{DensePlan, DenseRules};
use super::pipeline::LayerRange;
use super::reserved::{Rest, of_requests};
use super::shard::Split;
use super::share::{Share, ranks, times_requests};
use super::{Engine, EngineKind, Figure, Profile, Quantity, Query, profile};
use crate::size::StateModel;
use crate::state::counted;
use crate::units::{exact_digits, gcd};
use crate::{Bytes, Result, Tokens, group_digits};

/// Blocks, of all context-parallel ranks together, over which the growth of a part is taken: whole entries of every compressed stream are in it.
const BLOCKS: u64 = 1 << 16;

/// Tokens that caches are rounded up to where the engine names no block.
const LARGEST_PADDING: u64 = 256;

/// The two accountings of one query that are compared, and the same at a longer context.
pub(super) struct Differences<'q> {
    query: &'q Query<'q>,
    share: Share,
    /// Draft layers of the rank.
    drafts: u64,
    /// Tokens to the longer context.
    step: u64,
    /// The context from which parts grow with every token.
    from: u64,
    /// Why the engine keeps parts otherwise.
    reasons: Vec<(Quantity, String)>,
    engine: Vec<Held>,
    /// Dense bytes of one rank; `None` where no rank has a whole share.
    dense: Option<Vec<Held>>,
}

/// One part of a batch.
#[derive(Clone, Copy, Debug)]
struct Held {
    quantity: Quantity,
    bytes: u64,
    /// Of them, those that hold state.
    content: u64,
    /// Bytes that the step to the longer context adds.
    grown: u64,
    /// Of them, those that hold state.
    content_grown: u64,
    /// Requests that they are of.
    requests: u64,
    /// Context-parallel ranks that share the tokens.
    sharing: u64,
    /// How its values are stored, where that is one format.
    format: Option<&'static str>,
    /// Layers that hold it, where the model does not say it.
    layers: Option<u64>,
}

impl<'q> Differences<'q> {
    /// Compares the parts of `plan`, the plan of `query`, with dense bytes on as many ranks.
    ///
    /// # Errors
    ///
    /// What the engine's plan says at the longer context, or an overflow.
    pub(super) fn new(query: &'q Query<'q>, plan: &dyn Profile) -> Result<Self> {
        let block = plan.figure(Quantity::AttentionBlockSize).ok().flatten().and_then(Figure::whole);
        let tokens = block.unwrap_or(1).max(1).saturating_mul(query.settings.dcp());
        let step = tokens.saturating_mul(BLOCKS);
        let share = plan.share();
        let (engine, mut settings) = (Engine::newest(EngineKind::Logical), share.dense(query.settings));
        if !plan.has_drafts() {
            settings.draft_layers = None;
        }
        let drafts = settings.draft_layers.unwrap_or(0);
        let dense = OneRank { layers: plan.layers(), split: plan.split() };
        let one_rank = Query { engine, batch: share.requests, settings: &settings, ..query.clone() };
        let dtype = dtype::words(query);
        let reasons = |part: Quantity| {
            let of_dtype = dtype.clone().filter(|_| part != Quantity::IndexBytes);
            plan.kept_otherwise(part).into_iter().chain(of_dtype).map(move |why| (part, why))
        };
        Ok(Self {
            query,
            from: plan.grows_from()?.or(query.context).unwrap_or_default().get(),
            reasons: Quantity::PARTS.into_iter().flat_map(reasons).collect(),
            share,
            drafts,
            step,
            engine: held(query, step, None)?,
            dense: held(&one_rank, step, Some(&dense)).ok(),
        })
    }

    /// How the reserved bytes of a part come about: layers × bytes × tokens × requests, where they do.
    pub(super) fn worked(&self, quantity: Quantity, reserved: Bytes) -> Option<String> {
        let held =
            self.engine.iter().find(|held| held.quantity == quantity && held.bytes == reserved.get())?;
        let per_request = held.bytes.checked_div(held.requests).filter(|bytes| *bytes > 0)?;
        if !held.bytes.is_multiple_of(held.requests) {
            return None;
        }
        let requests = match held.requests {
            asked if asked == self.share.requests => times_requests(asked),
            sequences => format!(" × {}", counted(sequences, "sequence", "sequences")),
        };
        if held.grown == 0 || !held.follows_tokens() {
            return Some(format!("{}{requests}", self.constant(held.quantity, per_request)?));
        }
        let step = self.step / held.sharing;
        let (over, of_step) = (u128::from(held.bytes) * u128::from(step), u128::from(held.grown));
        let tokens = u64::try_from(over / of_step).ok().filter(|_| over.is_multiple_of(of_step))?;
        // Beyond the last block, a part that does not grow is in it too.
        let most = self.from.max(self.query.context?.get());
        let most = most.saturating_add((self.step / BLOCKS).max(LARGEST_PADDING));
        if tokens > most {
            return None;
        }
        let rate = self.rate(*held, held.grown)?;
        Some(format!("{} tokens × {rate}{requests}", group_digits(tokens)))
    }

    /// Bytes of one request that do not grow, by layers where they divide evenly.
    fn constant(&self, quantity: Quantity, bytes: u64) -> Option<String> {
        let fixed = [Quantity::WindowBytes, Quantity::StateBytes, Quantity::CrossBytes];
        if !fixed.contains(&quantity) {
            return None;
        }
        let layers = self.layers(quantity).filter(|layers| bytes.is_multiple_of(*layers));
        Some(match layers {
            Some(layers) => {
                format!("{} × {} B", counted(layers, "layer", "layers"), group_digits(bytes / layers))
            }
            None => format!("{} B", group_digits(bytes)),
        })
    }

    /// Bytes of a token on a rank that has it, over layers where they divide evenly: `61 layers × 132 B`.
    fn rate(&self, held: Held, grown: u64) -> Option<String> {
        let tokens = (self.step / held.sharing).checked_mul(held.requests)?;
        let layers = held.layers.or_else(|| self.layers(held.quantity));
        let layers = layers.filter(|layers| grown.is_multiple_of(*layers));
        let (bytes, tokens) = reduced(grown / layers.unwrap_or(1), tokens);
        let bytes = format!("{} B", exact_digits(u128::from(bytes), u128::from(tokens)));
        Some(match layers {
            Some(layers) => format!("{} × {bytes}", counted(layers, "layer", "layers")),
            None => bytes,
        })
    }

    /// Layers of a part that one component makes up, where one rank has all of them.
    fn layers(&self, quantity: Quantity) -> Option<u64> {
        let settings = self.query.settings;
        if self.share.pp > 1 || self.share.layers_on_rank.is_some() || settings.draft_layers.is_some() {
            return None;
        }
        let state = StateModel::new(self.query.architecture, settings).ok()?;
        let of = |part: &&crate::Part| super::shard::quantity_of(part.component.kind) == quantity;
        let mut parts = state.parts().iter().filter(of);
        let layers = parts.next()?.layers;
        parts.next().is_none().then_some(layers)
    }

    /// What lies between `logical` bytes and those of one rank, and the latter. Without a share of its own a rank is held
    /// against the whole model.
    pub(super) fn division(&self, logical: Bytes) -> (Rest, Bytes) {
        let dense = self.dense.as_ref().map(|dense| dense.iter().map(|held| held.bytes).sum());
        let on_rank = dense.map_or(logical, Bytes::new);
        let ranks = ranks(self.query.engine.kind(), self.query.settings);
        (between(logical, on_rank, || self.share(on_rank, logical, ranks)), on_rank)
    }

    /// What lies between `explained`, one rank's logical bytes with padding, and `reserved`, with its reasons.
    pub(super) fn rest(&self, explained: Bytes, reserved: Bytes) -> Rest {
        between(explained, reserved, || self.otherwise(signed(reserved) - signed(explained)))
    }

    /// One rank's share of the logical bytes.
    fn share(&self, dense: Bytes, logical: Bytes, ranks: u64) -> String {
        if self.drafts > 0 {
            return format!(
                "{dense} in dense bytes with {}",
                counted(self.drafts, "draft layer", "draft layers")
            );
        }
        let mut share = match ranks {
            1 => format!("one rank has {dense} of the logical bytes"),
            _ => format!("one rank of {ranks} has {dense} of the logical bytes"),
        };
        // With pipeline ranks this is the largest, and so it is of groups with unequal parts of the batch. Ranks that share
        // tokens repeat less.
        let equal = self.share.pp == 1
            && self.query.batch.is_multiple_of(self.share.groups)
            && self.engine.iter().all(|held| held.sharing == 1);
        let together = dense.times(ranks).ok().filter(|_| equal);
        if let Some(copies) = together.and_then(|together| together.get().checked_sub(logical.get()))
            && copies > 0
            && ranks > 1
        {
            share = format!("{share}, and all ranks together repeat {}", Bytes::new(copies));
        }
        share
    }

    /// Which parts the engine keeps otherwise, padding apart. Together they make up the difference.
    fn otherwise(&self, difference: i128) -> String {
        let Some(dense) = &self.dense else {
            return "not named: no rank has a whole share of dense bytes".to_owned();
        };
        let pairs = self.engine.iter().zip(dense).filter(|(own, dense)| own.content != dense.bytes);
        let (mut words, mut named) = (Vec::new(), 0);
        if let Some(room) = self.engine.first().map(|held| held.requests)
            && room != self.share.requests
        {
            let sequences = counted(room, "sequence", "sequences");
            let asked = counted(self.share.requests, "request", "requests");
            words.push(format!("room for {sequences} (n_seq_max), where the batch has {asked}"));
        }
        for (own, dense) in pairs {
            named += i128::from(own.content) - i128::from(dense.bytes);
            if !own.is_as_of_each(dense) {
                words.push(self.beside(*own, *dense));
            }
        }
        if named != difference {
            words.push("some of it is not named: spare slots, or layers kept otherwise".to_owned());
        }
        words.join("; ")
    }

    /// One part in both accountings, padding apart: `index keys take 61 layers × 132 B a token, 61 layers × 68 B in dense
    /// bytes (fp8, not fp4)`.
    fn beside(&self, own: Held, dense: Held) -> String {
        let what = own.quantity.label();
        let reasons = self.reasons.iter().filter(|(part, _)| *part == own.quantity);
        let reasons: Vec<&str> = reasons.map(|(_, why)| why.as_str()).collect();
        let reasons = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
        let formats = match (own.format, dense.format) {
            (Some(stored), Some(logical)) if stored != logical && own.content > 0 && dense.content > 0 => {
                format!(" ({stored}, not {logical})")
            }
            _ => String::new(),
        };
        let shared = match own.sharing {
            1 => String::new(),
            ranks => format!(
                "; {} share its tokens",
                counted(ranks, "context-parallel rank", "context-parallel ranks")
            ),
        };
        if own.follows_tokens()
            && own.content_grown > 0
            && dense.grown > 0
            && let (Some(own), Some(dense)) =
                (self.rate(own, own.content_grown), self.rate(dense, dense.grown))
            && own != dense
        {
            return format!("{what} take {own} a token, {dense} in dense bytes{formats}{shared}{reasons}");
        }
        let (own, dense) = (Bytes::new(own.content), Bytes::new(dense.bytes));
        format!("{what} take {own}, {dense} in dense bytes{formats}{shared}{reasons}")
    }
}

impl Held {
    /// Whether more tokens always make it more: windows are full at some length, and states are as large as ever.
    fn follows_tokens(&self) -> bool {
        matches!(self.quantity, Quantity::KvBytes | Quantity::IndexBytes)
    }

    /// Whether each request has the same bytes in both.
    fn is_as_of_each(&self, other: &Self) -> bool {
        let each = |own: &Self, other: &Self| u128::from(own.content) * u128::from(other.requests);
        each(self, other) == each(other, self)
    }
}

/// What one rank has of the layers and heads.
struct OneRank {
    layers: Option<LayerRange>,
    split: Split,
}

/// The parts of a query at its context, and what a step of tokens adds to them once they grow.
fn held(query: &Query<'_>, step: u64, rank: Option<&OneRank>) -> Result<Vec<Held>> {
    let settings = of_requests(query)?;
    let own = Query { settings: &settings, ..query.clone() };
    let plan = plan_of(&own, rank)?;
    let now = bytes_of_parts(plan.as_ref())?;
    let from = plan.grows_from()?.unwrap_or(query.need_context()?);
    let at = |tokens: u64| {
        let other = Query { context: Some(Tokens::new(tokens)), ..query.clone() };
        let settings = of_requests(&other)?;
        let other = Query { settings: &settings, ..other };
        let later = plan_of(&other, rank)?;
        // Another pipeline rank may hold most there, whose parts are no growth of these.
        if later.layers() == plan.layers() { bytes_of_parts(later.as_ref()) } else { Ok(now.clone()) }
    };
    let before = if Some(from) == query.context { now.clone() } else { at(from.get())? };
    let after = at(from.get().saturating_add(step))?;
    let grown = before.into_iter().zip(after).map(|(before, after)| {
        (after.bytes.saturating_sub(before.bytes), after.content.saturating_sub(before.content))
    });
    let held = |((quantity, now), (grown, content_grown)): ((Quantity, PartBytes), (u64, u64))| Held {
        quantity,
        bytes: now.bytes,
        content: now.content,
        grown,
        content_grown,
        requests: plan.room_for(),
        sharing: plan.ranks_of_tokens(quantity),
        format: plan.format_of(quantity),
        layers: plan.layers_holding(quantity),
    };
    Ok(Quantity::PARTS.into_iter().zip(now).zip(grown).map(held).collect())
}

/// Bytes of one part, and those of them that hold state.
#[derive(Clone, Copy, Debug)]
struct PartBytes {
    bytes: u64,
    content: u64,
}

/// The plan of the query's engine, or of the dense bytes of a rank.
fn plan_of<'q>(query: &'q Query<'_>, rank: Option<&OneRank>) -> Result<Box<dyn Profile + 'q>> {
    let Some(rank) = rank else { return profile(query) };
    let rules = DenseRules { layers: rank.layers.clone(), split: rank.split, ..DenseRules::logical(query) };
    Ok(Box::new(DensePlan::new(query, rules)?))
}

/// Bytes of [`Quantity::PARTS`].
fn bytes_of_parts(plan: &dyn Profile) -> Result<Vec<PartBytes>> {
    let part = |quantity: &Quantity| {
        let bytes = plan.figure(*quantity)?.and_then(Figure::whole).unwrap_or(0);
        Ok(PartBytes { bytes, content: plan.content(*quantity)?.get() })
    };
    Quantity::PARTS.iter().map(part).collect()
}

fn reduced(over: u64, under: u64) -> (u64, u64) {
    let divisor = gcd(over, under).max(1);
    (over / divisor, under / divisor)
}

/// From one number of bytes to another.
fn between(from: Bytes, to: Bytes, why: impl FnOnce() -> String) -> Rest {
    match (to.get().checked_sub(from.get()), from.get().checked_sub(to.get())) {
        (Some(0), _) => Rest::None,
        (Some(more), _) => Rest::More(Bytes::new(more), why()),
        (None, less) => Rest::Less(Bytes::new(less.unwrap_or(0)), why()),
    }
}

fn signed(bytes: Bytes) -> i128 {
    i128::from(bytes.get())
}
