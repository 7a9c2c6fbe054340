//! The smallest pools that serve a batch, in bytes of the budget that SGLang sizes its pools from.

use super::pool::{Counted, PoolTokens, rounded_up};
use super::rank::Rank;
use super::{SgLangPlan, group_digits, is_slot_state, requests};
use crate::engine::shard::quantity_of;
use crate::engine::{Profile, Quantity};
use crate::state::counted;
use crate::warning::Warning;
use crate::{Bytes, Error, Result, Tokens};

/// What a batch asks of the pools of one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) requests: u64,
    /// Tokens of each request.
    pub(super) tokens: u64,
    /// Token slots of each request on this rank, in whole pages.
    pub(super) slots: u64,
}

impl Asked {
    /// Slots of all requests.
    ///
    /// # Errors
    ///
    /// An overflow.
    pub(super) fn all_slots(&self) -> Result<u64> {
        multiply(self.slots, self.requests)
    }

    /// Slots of all requests in a pool of windows, in whole pages of `page` tokens.
    ///
    /// # Errors
    ///
    /// An overflow.
    pub(super) fn window_slots(&self, window: u64, page: u64) -> Result<u64> {
        multiply(self.tokens.min(window).next_multiple_of(page), self.requests)
    }
}

impl SgLangPlan<'_> {
    pub(super) fn asked(&self, n: Tokens, requests: u64) -> Asked {
        Asked { requests, tokens: n.get(), slots: self.own_tokens(n, self.launch.page) }
    }

    /// The smallest pools that hold the batch: its tokens, and windows beside them in the pool's own proportion.
    pub(super) fn serving(&self, n: Tokens) -> Result<PoolTokens> {
        self.serving_on(self.rank(), self.asked(n, self.share().requests))
    }

    /// Bytes of the budget for those pools, and of the state slots.
    pub(super) fn serving_part(&self, quantity: Quantity, n: Tokens) -> Result<Bytes> {
        self.serving_part_on(self.rank(), quantity, n)
    }

    /// The same on any rank.
    pub(super) fn serving_part_on(&self, rank: &Rank, quantity: Quantity, n: Tokens) -> Result<Bytes> {
        let caches = self.caches_on(rank, quantity, n)?;
        match quantity {
            Quantity::StateBytes | Quantity::ResidentBytes => caches.plus(self.state_pool_on(rank)?),
            _ => Ok(caches),
        }
    }

    /// The same without the state slots.
    pub(super) fn caches_on(&self, rank: &Rank, quantity: Quantity, n: Tokens) -> Result<Bytes> {
        let requests = self.share().requests;
        let pools = rank.pool.budget(self.serving_on(rank, self.asked(n, requests))?)?;
        pools.of(quantity)?.plus(compressors(rank, quantity, n)?.times(requests)?)
    }

    /// How a part of the pools comes about by their tokens, of given pools or of those that serve the batch.
    pub(super) fn slots_worked(&self, quantity: Quantity) -> Result<Option<String>> {
        let (tokens, counted) = match self.settings.pool_tokens {
            Some(_) => (self.tokens()?, Counted::Tensors { page: self.launch.page }),
            None => (self.serving(self.query.need_context()?)?, Counted::Budget),
        };
        let Some(product) = self.pool().slots_worked(quantity, tokens, counted)? else { return Ok(None) };
        let why = match (counted, self.query.context) {
            (Counted::Tensors { .. }, _) => "; as many tokens as are set, and a page more".to_owned(),
            (Counted::Budget, Some(_)) if self.encoder > 0 => {
                format!("; {} tokens of a request are its encoder's", group_digits(self.encoder))
            }
            (Counted::Budget, Some(n)) => self.more_tokens_words(n, tokens)?,
            (Counted::Budget, None) => String::new(),
        };
        Ok(Some(format!("{product}{}{why}", self.token_words(quantity, &product)?)))
    }

    /// Why pools have more tokens than the batch asks for; empty where they have not.
    fn more_tokens_words(&self, n: Tokens, tokens: PoolTokens) -> Result<String> {
        let asked = self.asked(n, self.share().requests);
        if tokens.full <= asked.all_slots()? {
            return Ok(String::new());
        }
        let own = self.pool().serving(asked)?.full;
        let why = if own == tokens.full {
            "the windows beside them need"
        } else {
            "the pipeline rank that needs most has"
        };
        Ok(format!("; as many tokens as {why}"))
    }

    /// What a token takes, layer by layer, where that is what `product` multiplies: `; a token takes 15 layers × 2,048 B`.
    fn token_words(&self, quantity: Quantity, product: &str) -> Result<String> {
        let with_windows = quantity == Quantity::KvBytes && !self.pool().has_window_pool();
        let (mut sum, mut terms) = (Bytes::ZERO, Vec::new());
        for (component, layers) in self.state().components_with_borrowed() {
            let kind = quantity_of(component.kind);
            if kind == quantity || (with_windows && kind == Quantity::WindowBytes) {
                let entry = component.growth.entry();
                sum = sum.plus(entry.times(layers)?)?;
                terms.push(format!(
                    "{} × {} B",
                    counted(layers, "layer", "layers"),
                    group_digits(entry.get())
                ));
            }
        }
        let is_it = product.ends_with(&format!(" tokens × {} B", group_digits(sum.get())));
        Ok(if is_it { format!("; a token takes {}", terms.join(" + ")) } else { String::new() })
    }

    /// Whether one request is so short that its pools are the least that a launch accepts.
    fn is_least(&self, n: Tokens) -> Result<bool> {
        let one = self.asked(n, 1);
        Ok(self.serving_on(self.rank(), one)?.full > one.slots)
    }

    /// What one more token of one request adds to the pools.
    pub(super) fn slope(&self) -> Result<crate::BytesPerToken> {
        match self.query.context {
            Some(n) if self.is_least(n)? => Ok(crate::BytesPerToken::ZERO),
            _ => self.pool().bytes_per_token()?.divided_by(self.launch.dcp),
        }
    }

    /// What a request takes whatever its length: its own state, and windows whose pool does not follow the tokens.
    pub(super) fn fixed(&self) -> Result<Bytes> {
        let state = self.state_bytes_per_slot()?;
        if let Some(n) = self.query.context.filter(|n| matches!(self.is_least(*n), Ok(true))) {
            let least = self.serving_on(self.rank(), self.asked(n, 1))?;
            return self.pool().budget(least)?.of(Quantity::ResidentBytes)?.plus(state);
        }
        if let Some(own) = self.pool().state_of_request() {
            return own?.plus(state);
        }
        let own_window_pool = self.pool().has_window_pool();
        let others = self.state().sum_with_borrowed(|component| match quantity_of(component.kind) {
            Quantity::WindowBytes if !own_window_pool => Ok(Bytes::ZERO),
            _ => component.growth.fixed(self.query.context),
        })?;
        let slot = self.pool().bytes_per_token()?.divided_by(self.launch.dcp)?;
        others.plus(rounded_up(slot, self.encoder)?)
    }

    /// The context at which the tokens of the batch are more than the least pools have; `None` where they are already.
    pub(super) fn grows_from(&self, n: Tokens) -> Result<Option<Tokens>> {
        let requests = self.share().requests;
        let least = self.serving(n)?.full;
        if requests == 0 || least <= self.asked(n, requests).all_slots()? {
            return Ok(None);
        }
        let slots = least.div_ceil(requests).next_multiple_of(self.launch.page);
        Ok(Some(Tokens::new(slots.saturating_mul(self.launch.dcp).saturating_sub(self.encoder))))
    }

    /// Says where the launch is too small for the batch.
    pub(super) fn too_small(&self) -> Vec<Warning> {
        [self.too_few_tokens(), self.too_few_requests()].into_iter().flatten().collect()
    }

    fn too_few_tokens(&self) -> Option<Warning> {
        let n = self.query.context.filter(|_| self.has_pools())?;
        let (needed, own) = (self.serving(n).ok()?, self.tokens().ok()?);
        let name = if self.settings.pool_tokens.is_some() { "pool_tokens" } else { "available_kv_bytes" };
        let ranks = self.launch.dcp;
        let all = |tokens: u64| group_digits(tokens.saturating_mul(ranks));
        (needed.full > own.full).then(|| {
            let message = format!(
                "the pool has {} tokens, and this batch needs {}; SGLang runs fewer of its requests at once, or refuses them",
                all(own.full),
                all(needed.full)
            );
            Warning::new(name, message)
        })
    }

    fn too_few_requests(&self) -> Option<Warning> {
        // The largest pool admits no more than the engine's own limit.
        let capacity = if self.has_pools() { self.tokens().ok()?.full } else { u64::MAX };
        let slots = if self.has_state().ok()? { self.launch_slots().ok()? } else { None };
        let most = self.admitted_with(Some(capacity), slots).ok()??;
        let requests = self.share().requests;
        let reserved = match self.settings.pool_tokens {
            Some(_) => "",
            None => ", and reserved bytes are of a launch that admits them all",
        };
        (requests > most).then(|| {
            let message = format!(
                "the launch admits {} at once, and this batch has {}; SGLang lets the others wait{reserved}",
                counted(most, "request", "requests"),
                group_digits(requests)
            );
            Warning::new("max_running_requests", message)
        })
    }

    /// Requests that are admitted at once by a pool of `capacity` tokens and by state slots, each where it is known; `None`
    /// where nothing bounds them.
    pub(super) fn admitted_with(&self, capacity: Option<u64>, slots: Option<u64>) -> Result<Option<u64>> {
        if capacity.is_none() && slots.is_none() && self.launch.requests.is_none() {
            return Ok(None);
        }
        // Without a known limit the shortest context admits most.
        let context = || Ok(self.query.max_model_len().unwrap_or(1));
        requests::admitted(&self.settings, &self.launch, capacity, slots.map(Ok), context).map(Some)
    }
}

/// What compressors without a pool have of one request.
fn compressors(rank: &Rank, quantity: Quantity, n: Tokens) -> Result<Bytes> {
    let is_asked = [Quantity::StateBytes, Quantity::ResidentBytes].contains(&quantity);
    if !is_asked || rank.pool.has_window_pool() {
        return Ok(Bytes::ZERO);
    }
    rank.state.sum_with_borrowed(|component| match quantity_of(component.kind) {
        Quantity::StateBytes if !is_slot_state(component.kind) => component.bytes(n),
        _ => Ok(Bytes::ZERO),
    })
}

fn multiply(slots: u64, requests: u64) -> Result<u64> {
    slots.checked_mul(requests).ok_or_else(|| Error::overflow(format!("{slots} slots × {requests} requests")))
}
