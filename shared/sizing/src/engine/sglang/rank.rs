//! The pipeline ranks of a launch. Each has pools for its own layers, and all have as many tokens as the one that makes
//! fewest (`_apply_token_constraints`).

use super::launch::Launch;
use super::pool::{Pool, PoolTokens};
use super::serving::Asked;
use super::{SgLangPlan, classes};
use crate::engine::logical::checkpoint_bytes;
use crate::engine::pipeline::{LayerRange, beyond_windows, shown_rank};
use crate::engine::shard::{RankState, quantity_of};
use crate::engine::{Quantity, needed};
use crate::settings::{Formats, Settings};
use crate::warning::Warning;
use crate::{Architecture, Bytes, BytesPerToken, Error, Result};

/// One pipeline rank.
#[derive(Clone, Debug)]
pub(super) struct Rank {
    pub(super) layers: LayerRange,
    pub(super) state: RankState,
    pub(super) pool: Pool,
}

impl Rank {
    pub(super) fn new(
        architecture: &Architecture,
        formats: &Formats,
        (settings, launch): (&Settings, &Launch),
        layers: LayerRange,
    ) -> Result<Self> {
        let mut state = RankState::adjusted(architecture, formats, launch.split, &layers, classes::as_kept)?;
        state.add_unused(classes::unused_layers(architecture));
        let pool = Pool::new(architecture, &state, settings, launch)?;
        let is_window = |kept: &crate::StateComponent| quantity_of(kept.kind) == Quantity::WindowBytes;
        // `HybridSWAPoolConfigurator` asserts it.
        if matches!(pool, Pool::Windowed(_))
            && !state.components_with_borrowed().any(|(kept, _)| is_window(kept))
        {
            let what = format!(
                "the rank of layers {} to {} has no window layer, which the window pool of this class needs on every rank; \
                 SGLang refuses this",
                layers.start,
                layers.end.saturating_sub(1)
            );
            return Err(Error::setting(if settings.pp() > 1 { "pp" } else { "layers_on_rank" }, what));
        }
        Ok(Self { layers, state, pool })
    }
}

impl SgLangPlan<'_> {
    /// The rank that figures are of.
    pub(super) fn rank(&self) -> &Rank {
        &self.ranks[self.shown]
    }

    pub(super) fn state(&self) -> &RankState {
        &self.rank().state
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.rank().pool
    }

    /// What each rank holds: of given pools, else of those that serve the batch at its context, or beyond every window. A
    /// rank whose bytes cannot be told is the one to tell why.
    pub(super) fn bytes_of_ranks(&self) -> Vec<u64> {
        if self.ranks.len() == 1 {
            return vec![0];
        }
        let n = self.query.context.unwrap_or_else(beyond_windows);
        let bytes = |rank| match self.settings.pool_tokens {
            Some(_) => self.pool_part_on(rank, Quantity::ResidentBytes),
            None => self.serving_part_on(rank, Quantity::ResidentBytes, n),
        };
        self.ranks.iter().map(|rank| bytes(rank).map_or(u64::MAX, Bytes::get)).collect()
    }

    /// Says which rank figures are of, where others hold less.
    pub(super) fn warn_of_ranks(&self) -> Result<Option<Warning>> {
        let ranges: Vec<_> = self.ranks.iter().map(|rank| rank.layers.clone()).collect();
        let Some(told) = shown_rank(&ranges, &self.bytes_of_ranks()) else { return Ok(None) };
        let charged = self.charged_state()?;
        let differ = charged > Bytes::ZERO
            && self.ranks.iter().any(|rank| checkpoint_bytes(&rank.state).is_ok_and(|own| own < charged));
        let message = if differ {
            format!(
                "{}; a launch takes the states of the rank that has most, {charged} a slot, from the memory of every rank",
                told.message
            )
        } else {
            told.message
        };
        Ok(Some(Warning::new("pp", message)))
    }

    /// State of one slot on the rank that has most, which every rank leaves room for (`_handle_max_mamba_cache`).
    pub(super) fn charged_state(&self) -> Result<Bytes> {
        self.ranks.iter().try_fold(Bytes::ZERO, |most, rank| Ok(most.max(checkpoint_bytes(&rank.state)?)))
    }

    /// Bytes of all pools for one token on the rank where it costs most.
    pub(super) fn pool_bytes_per_token(&self) -> Result<BytesPerToken> {
        self.ranks.iter().try_fold(BytesPerToken::ZERO, |most, rank| {
            let own = rank.pool.bytes_per_token()?;
            Ok(if own.as_f64() > most.as_f64() { own } else { most })
        })
    }

    /// Tokens of the rank's pools that serve what is asked, with as many as the rank that needs most.
    pub(super) fn serving_on(&self, rank: &Rank, asked: Asked) -> Result<PoolTokens> {
        let own = rank.pool.serving(asked)?;
        let most = self
            .ranks
            .iter()
            .try_fold(own.full, |most, other| Ok::<_, Error>(most.max(other.pool.serving(asked)?.full)))?;
        if most == own.full { Ok(own) } else { rank.pool.serving_beside(asked, most) }
    }

    /// Tokens of the rank's pools: as given, else what fits the budget.
    pub(super) fn tokens_on(&self, rank: &Rank) -> Result<PoolTokens> {
        if let Some(tokens) = self.settings.pool_tokens {
            return rank.pool.of_tokens(tokens, &self.launch);
        }
        let available =
            self.settings.available_kv_bytes.ok_or_else(|| needed("available_kv_bytes or pool_tokens"))?;
        self.of_budget(rank, available)
    }

    /// Tokens of the rank's pools from a budget of caches on every rank: as many as where fewest fit. A rank without layers
    /// that keep tokens goes by the others (`_zero_kv_max_tokens`).
    pub(super) fn of_budget(&self, rank: &Rank, available: u64) -> Result<PoolTokens> {
        let some_keep = self.ranks.iter().any(|rank| rank.pool.keeps_tokens());
        let of = |rank: &Rank| rank.pool.of_budget(available, &self.launch);
        let mut fewest = u64::MAX;
        for other in self.ranks.iter().filter(|other| other.pool.keeps_tokens() || !some_keep) {
            fewest = fewest.min(of(other)?.full);
        }
        if rank.pool.keeps_tokens() || !some_keep {
            let own = of(rank)?;
            if own.full == fewest {
                return Ok(own);
            }
        }
        rank.pool.of_tokens(fewest, &self.launch)
    }
}
