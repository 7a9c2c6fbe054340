//! Engines whose state is dense: `logical`, transformers, and TensorRT-LLM's estimate.

use super::naive::Naive;
use super::pipeline::{LayerRange, Surplus, beyond_windows, fullest, rank_ranges, shown_rank};
use super::shard::{RankState, Split, quantity_of};
use super::share::{Share, times_requests};
use super::{Figure, Padding, PaddingOf, Profile, Quantity, Query, needed};
use crate::growth::Growth;
use crate::mixer::Mixer;
use crate::settings::Settings;
use crate::state::{ComponentKind, StateComponent, counted};
use crate::warning::Warning;
use crate::{Bytes, Result, Tokens, group_digits};

/// How one dense engine differs from plain logical bytes.
pub(super) struct DenseRules {
    /// The settings with the engine's defaults filled in.
    pub(super) settings: Settings,
    /// Tensor-parallel ranks that share a layer's heads.
    pub(super) split: Split,
    /// Which pipeline ranks take the layers that equal shares leave over.
    pub(super) surplus: Surplus,
    /// The layers of the rank, where they are given.
    pub(super) layers: Option<LayerRange>,
    /// Groups of ranks that divide the batch; each has all heads of its requests.
    pub(super) groups: u64,
    /// Tokens of a block that caches of every token are rounded up to; 1 for none.
    pub(super) block: u64,
    /// Whether windows take blocks too.
    pub(super) windows: WindowBlocks,
    /// What the engine keeps otherwise than the mixer says.
    pub(super) adjust: fn(Mixer) -> Mixer,
    /// Why it keeps parts otherwise, where it does.
    pub(super) otherwise: Vec<(Quantity, &'static str)>,
    /// What was assumed.
    pub(super) warnings: Vec<Warning>,
}

/// How a window's tokens are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WindowBlocks {
    /// One by one.
    None,
    /// In whole blocks, and a block more where older tokens leave one.
    OneMore,
}

/// Dense state of the rank that holds most.
pub(super) struct DensePlan<'q> {
    query: &'q Query<'q>,
    rules: DenseRules,
    rank: RankState,
    /// Its layers, where it is one of several pipeline ranks.
    layers: Option<LayerRange>,
}

impl DenseRules {
    /// Dense bytes, no paging.
    pub(super) fn logical(query: &Query<'_>) -> Self {
        let mut warnings = Vec::new();
        for (name, ranks) in [("dcp", query.settings.dcp), ("dp", query.settings.dp)] {
            if ranks.is_some_and(|ranks| ranks > 1) {
                warnings
                    .push(Warning::new(name, "logical bytes are not divided by it; ask an engine profile"));
            }
        }
        let settings = query.settings.clone();
        let split = Split::even(settings.tp());
        let surplus = Surplus::BeforeLast;
        Self {
            split,
            surplus,
            layers: None,
            groups: 1,
            settings,
            block: 1,
            windows: WindowBlocks::None,
            adjust: std::convert::identity,
            otherwise: Vec::new(),
            warnings,
        }
    }
}

impl DenseRules {
    /// Entries of a request of `n` tokens that a layer has room for.
    fn entries(&self, kept: &StateComponent, n: Tokens) -> u64 {
        let in_blocks = |tokens: u64| tokens.checked_next_multiple_of(self.block).unwrap_or(u64::MAX);
        let whole_blocks = in_blocks(n.get());
        match (quantity_of(kept.kind), self.windows) {
            (Quantity::KvBytes | Quantity::IndexBytes, _) => kept.growth.entries(Tokens::new(whole_blocks)),
            (Quantity::WindowBytes, WindowBlocks::OneMore) => {
                let window = kept.growth.saturates_at().map_or(u64::MAX, Tokens::get);
                whole_blocks.min(in_blocks(window).saturating_add(self.block))
            }
            _ => kept.growth.entries(n),
        }
    }
}

impl<'q> DensePlan<'q> {
    pub(super) fn new(query: &'q Query<'q>, mut rules: DenseRules) -> Result<Self> {
        let formats = query.architecture.formats(&rules.settings);
        let state = |range: &LayerRange| {
            let mut rank =
                RankState::adjusted(query.architecture, &formats, rules.split, range, rules.adjust)?;
            rank.add_drafts(rules.settings.draft_layers.unwrap_or(0));
            Ok(rank)
        };
        let ranges = match &rules.layers {
            Some(layers) => vec![layers.clone()],
            None => rank_ranges(query.architecture, &rules.settings, rules.surplus)?,
        };
        // The largest rank decides: at the asked length, else at one beyond every window.
        let length = query.context.unwrap_or_else(beyond_windows);
        let mut ranks = ranges.iter().map(state).collect::<Result<Vec<_>>>()?;
        let several = ranges.len() > 1;
        let held = |rank: &RankState| {
            if several { reserved(rank, &rules, Quantity::ResidentBytes, length) } else { Ok(Bytes::ZERO) }
        };
        let held = ranks.iter().map(held).collect::<Result<Vec<_>>>()?;
        rules.warnings.extend(shown_rank(&ranges, &held));
        let shown = fullest(&held);
        let rank = ranks.swap_remove(shown);
        let layers = ranges.into_iter().nth(shown).filter(|_| several);
        Ok(Self { query, rules, rank, layers })
    }

    /// Bytes of the whole batch that `quantity` counts, blocks rounded up.
    fn part(&self, quantity: Quantity) -> Result<Bytes> {
        self.part_at(quantity, self.query.context_for(quantity)?)
    }

    fn part_at(&self, quantity: Quantity, n: Tokens) -> Result<Bytes> {
        reserved(&self.rank, &self.rules, quantity, n)?.times(self.share().requests)
    }

    fn parts_of(&self, quantity: Quantity) -> impl Iterator<Item = (&StateComponent, u64)> {
        self.rank.components().filter(move |(kept, _)| quantity_of(kept.kind) == quantity)
    }

    /// `20 layers × 781 entries × 1,152 B + …`: what makes up a part at `n` tokens, in whole blocks.
    fn entries_worked(&self, quantity: Quantity, n: Tokens) -> String {
        let requests = times_requests(self.share().requests);
        let term = |(kept, layers): (&StateComponent, u64)| {
            let (layers, bytes) =
                (counted(layers, "layer", "layers"), group_digits(kept.growth.entry().get()));
            let entries = self.rules.entries(kept, n);
            let entries = match kept.growth {
                Growth::Compressed { .. } => format!(" × {}", counted(entries, "entry", "entries")),
                Growth::Constant { .. } => String::new(),
                _ => format!(" × {}", counted(entries, "token", "tokens")),
            };
            format!("{layers}{entries} × {bytes} B{requests}")
        };
        self.parts_of(quantity).map(term).collect::<Vec<_>>().join(" + ")
    }
}

/// Bytes of one request on a rank that `quantity` counts, blocks rounded up.
fn reserved(rank: &RankState, rules: &DenseRules, quantity: Quantity, n: Tokens) -> Result<Bytes> {
    rank.sum(|component| match (quantity_of(component.kind), component.growth) {
        (kind, _) if quantity != Quantity::ResidentBytes && kind != quantity => Ok(Bytes::ZERO),
        (_, Growth::Constant { bytes }) => Ok(bytes),
        (_, growth) => growth.entry().times(rules.entries(component, n)),
    })
}

/// Bytes of the recurrent states of `requests` requests that are kept every `checkpoint_interval` tokens of a prompt, each of
/// `state` bytes.
///
/// # Errors
///
/// No interval or no context, or an overflow.
pub(super) fn stored_states(query: &Query<'_>, state: Bytes, requests: u64) -> Result<Bytes> {
    let interval = query.settings.checkpoint_interval.ok_or_else(|| needed("checkpoint_interval"))?;
    state.times(query.need_context()?.get() / interval)?.times(requests)
}

/// Bytes of one recurrent state with its convolution, over all layers of a rank.
pub(super) fn checkpoint_bytes(rank: &RankState) -> Result<Bytes> {
    rank.sum(|component| match component.kind {
        ComponentKind::RecurrentState | ComponentKind::ConvState => component.bytes(Tokens::new(0)),
        _ => Ok(Bytes::ZERO),
    })
}

impl Profile for DensePlan<'_> {
    fn figure(&self, quantity: Quantity) -> Result<Option<Figure>> {
        Ok(Some(match quantity {
            Quantity::SlopeBytesPerToken => Figure::Slope(self.rank.slope(self.query.context)?),
            Quantity::FixedBytesPerRequest => Figure::Bytes(self.rank.fixed(self.query.context)?),
            part if part.is_of_resident() => Figure::Bytes(self.part(part)?),
            Quantity::CheckpointBytes => {
                let state = checkpoint_bytes(&self.rank)?;
                Figure::Bytes(stored_states(self.query, state, self.share().requests)?)
            }
            Quantity::OverestimateFactor => {
                let naive = Naive {
                    architecture: self.query.architecture,
                    engine: self.query.engine.kind(),
                    rank: &self.rank,
                    settings: &self.rules.settings,
                    context: self.query.need_context()?,
                    batch: self.share().requests,
                };
                naive.factor(self.part(Quantity::ResidentBytes)?)?
            }
            Quantity::AttentionBlockSize if self.rules.block > 1 => {
                Figure::Tokens(Tokens::new(self.rules.block))
            }
            _ => return Ok(None),
        }))
    }

    fn share(&self) -> Share {
        Share::of_groups(self.query, self.rules.groups, self.rules.split.tp)
    }

    fn layers(&self) -> Option<LayerRange> {
        self.layers.clone()
    }

    fn split(&self) -> Split {
        self.rules.split
    }

    fn layers_holding(&self, quantity: Quantity) -> Option<u64> {
        let mut parts = self.parts_of(quantity);
        let (first, layers) = parts.next()?;
        parts.try_fold(layers, |sum, (kept, layers)| (kept.growth == first.growth).then_some(sum + layers))
    }

    fn kept_otherwise(&self, quantity: Quantity) -> Vec<String> {
        let own = self.rules.otherwise.iter().filter(|(part, _)| *part == quantity);
        own.map(|(_, why)| (*why).to_owned()).collect()
    }

    /// Of compressed entries, which are whole groups of tokens, of windows in blocks, and of states of several tensors.
    fn arithmetic(&self, quantity: Quantity) -> Result<Option<String>> {
        let groups =
            self.parts_of(quantity).any(|(kept, _)| matches!(kept.growth, Growth::Compressed { .. }));
        let in_blocks = quantity == Quantity::WindowBytes && self.rules.windows == WindowBlocks::OneMore;
        let tensors = quantity == Quantity::StateBytes && self.parts_of(quantity).nth(1).is_some();
        if groups || in_blocks || tensors { self.terms(quantity) } else { Ok(None) }
    }

    fn terms(&self, quantity: Quantity) -> Result<Option<String>> {
        let context = self.query.context.filter(|_| self.parts_of(quantity).next().is_some());
        Ok(context.map(|n| self.entries_worked(quantity, n)))
    }

    fn format_of(&self, quantity: Quantity) -> Option<&'static str> {
        self.rank.format_of(quantity)
    }

    fn content(&self, quantity: Quantity) -> Result<Bytes> {
        let n = self.query.context_for(quantity)?;
        let of = |component: &crate::StateComponent| match quantity_of(component.kind) {
            kind if kind == quantity => component.bytes(n),
            _ => Ok(Bytes::ZERO),
        };
        self.rank.sum(of)?.times(self.share().requests)
    }

    fn padding_of(&self) -> Option<PaddingOf> {
        Some(PaddingOf { context: self.query.context?, batch: self.query.batch })
    }

    fn padding(&self) -> Result<Vec<Padding>> {
        if self.query.context.is_none() || self.rules.block <= 1 {
            return Ok(Vec::new());
        }
        let beyond = |quantity: Quantity| {
            let (reserved, held) = (self.part(quantity)?, self.content(quantity)?);
            Ok::<_, crate::Error>(Bytes::new(reserved.get().saturating_sub(held.get())))
        };
        let windows = beyond(Quantity::WindowBytes)?;
        let caches = beyond(Quantity::KvBytes)?.plus(beyond(Quantity::IndexBytes)?)?;
        let block = self.rules.block;
        let rows = [
            (
                "last block of each request",
                caches,
                format!("caches of every token take whole blocks of {block} tokens"),
            ),
            (
                "blocks beyond windows",
                windows,
                format!(
                    "windows take whole blocks of {block} tokens, and one more, so that they always have their tokens"
                ),
            ),
        ];
        let kept = rows.into_iter().filter(|(_, bytes, _)| *bytes > Bytes::ZERO);
        Ok(kept.map(|(what, bytes, why)| Padding { what: what.to_owned(), bytes, why }).collect())
    }

    fn resident_at(&self, context: Tokens) -> Option<Result<Bytes>> {
        // With several pipeline ranks, which one holds most may change with the context.
        let one_rank = self.rules.settings.pp() == 1 && self.rules.settings.layers_on_rank.is_none();
        one_rank.then(|| self.part_at(Quantity::ResidentBytes, context))
    }

    fn warnings(&self) -> Vec<Warning> {
        self.rules.warnings.clone()
    }
}
