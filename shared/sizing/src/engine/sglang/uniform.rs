//! One pool in which every layer holds every token (`DefaultPoolConfigurator`).

use super::launch::Launch;
use super::pool::{Counted, PoolParts, PoolTokens, aligned};
use crate::engine::Quantity;
use crate::engine::shard::{RankState, quantity_of};
use crate::growth::Growth;
use crate::mixer::Mixer;
use crate::settings::Settings;
use crate::units::exact_digits;
use crate::{Bytes, BytesPerToken, Result, group_digits};

/// Bytes of one token, over all layers of the rank.
#[derive(Clone, Debug)]
pub(super) struct UniformPool {
    kv: Bytes,
    /// As the budget counts it: whole bytes for each token, also where several share a key.
    index: Bytes,
    /// As the tensors hold it.
    keys: BytesPerToken,
    /// Of them, those of draft layers: K/V and index keys.
    drafts: [Bytes; 2],
}

impl UniformPool {
    /// Latents, K and V of every layer: windows at full length, layers that use another's cache included. Index keys
    /// are stored on every context-parallel rank, so each charges for all of them. A draft layer costs as much as a
    /// layer of the target on average, and its own index keys.
    pub(super) fn new(rank: &RankState, settings: &Settings) -> Result<Self> {
        let (mut kv, mut index, mut layers) = (Bytes::ZERO, Bytes::ZERO, 0);
        let mut key = Bytes::ZERO;
        let mut keys = BytesPerToken::ZERO;
        let mut of_drafts = [Bytes::ZERO; 2];
        for class in rank.classes() {
            // Qwen's indexed attention rounds the part of a shared key down, DSA's indexer up.
            let shares_down = class.mixers.iter().any(|mixer| matches!(mixer, Mixer::IndexedFull(..)));
            let share: fn(u64, u64) -> u64 = if shares_down { |key, of| key / of } else { u64::div_ceil };
            for component in &class.components {
                let entry = component.growth.entry();
                match quantity_of(component.kind) {
                    Quantity::KvBytes | Quantity::WindowBytes => {
                        kv = kv.plus(entry.times(class.layers)?)?;
                        layers += class.layers;
                    }
                    Quantity::IndexBytes => {
                        key = pooled(component.growth, share);
                        index = index.plus(key.times(class.layers)?)?;
                        keys = keys.plus(component.growth.slope(None)?.times(class.layers)?)?;
                    }
                    _ => {}
                }
            }
        }
        index = index.times(settings.dcp())?;
        keys = keys.times(settings.dcp())?;
        if let Some(drafts) = settings.draft_layers.filter(|drafts| *drafts > 0 && layers > 0) {
            let has_index = index > Bytes::ZERO;
            let scale = if has_index { settings.dcp() } else { 1 };
            let draft = scaled(kv, drafts, layers)?.times(scale)?;
            kv = kv.plus(draft)?;
            let draft_keys = key.times(drafts)?.times(scale)?;
            index = index.plus(draft_keys)?;
            keys = keys.plus(BytesPerToken::new(draft_keys, 1)?)?;
            of_drafts = [draft, draft_keys];
        }
        Ok(Self { kv, index, keys, drafts: of_drafts })
    }

    /// Bytes of one token in the draft layers.
    pub(super) fn of_drafts(&self) -> PoolParts {
        let [kv, index] = self.drafts;
        PoolParts { kv, index, ..PoolParts::default() }
    }

    pub(super) fn keeps_tokens(&self) -> bool {
        self.kv > Bytes::ZERO || self.index > Bytes::ZERO
    }

    fn cell(&self) -> Result<Bytes> {
        self.kv.plus(self.index)
    }

    pub(super) fn bytes_per_token(&self) -> Result<BytesPerToken> {
        BytesPerToken::new(self.cell()?, 1)
    }

    pub(super) fn of_budget(&self, available: u64, launch: &Launch) -> Result<PoolTokens> {
        let tokens = available.checked_div(self.cell()?.get()).unwrap_or(launch.context_tokens);
        Ok(PoolTokens::of_full(aligned(tokens, launch.page)))
    }

    pub(super) fn budget(&self, tokens: PoolTokens) -> Result<PoolParts> {
        let (kv, index) = (self.kv.times(tokens.full)?, self.index.times(tokens.full)?);
        Ok(PoolParts { kv, index, ..PoolParts::default() })
    }

    /// How the parts of [`Self::budget`] and [`Self::parts`] come about.
    pub(super) fn worked(&self, quantity: Quantity, tokens: PoolTokens, counted: Counted) -> Option<String> {
        let bytes = match (quantity, counted) {
            (Quantity::KvBytes, _) => BytesPerToken::new(self.kv, 1).ok()?,
            (Quantity::IndexBytes, Counted::Budget) => BytesPerToken::new(self.index, 1).ok()?,
            (Quantity::IndexBytes, Counted::Tensors { .. }) => self.keys,
            _ => return None,
        };
        let digits = exact_digits(u128::from(bytes.numerator()), u128::from(bytes.denominator()));
        let slots = group_digits(counted.slots(tokens.full));
        (bytes != BytesPerToken::ZERO).then(|| format!("{slots} tokens × {digits} B"))
    }

    /// Each tensor has one page more than its tokens.
    pub(super) fn parts(&self, tokens: PoolTokens, launch: &Launch) -> Result<PoolParts> {
        let slots = tokens.full.saturating_add(launch.page);
        let index = Bytes::new(self.keys.numerator()).times(slots)?.get() / self.keys.denominator();
        Ok(PoolParts { kv: self.kv.times(slots)?, index: Bytes::new(index), ..PoolParts::default() })
    }
}

/// `int(bytes × part / whole)`
fn scaled(bytes: Bytes, part: u64, whole: u64) -> Result<Bytes> {
    Ok(Bytes::new(bytes.times(part)?.get() / whole))
}

/// Bytes of a key for each token: where several share one, the `share` that each is charged in whole bytes.
fn pooled(growth: Growth, share: fn(u64, u64) -> u64) -> Bytes {
    let Growth::Compressed { entry, ratio } = growth else { return growth.entry() };
    Bytes::new(share(entry.get(), ratio.get().max(1)))
}
