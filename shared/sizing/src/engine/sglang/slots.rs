//! Slots of recurrent state: how many a launch makes, and what they leave to the caches (`_handle_max_mamba_cache`).

use super::{SgLangPlan, group_digits, is_slot_state, requests};
use crate::engine::{Profile, Quantity, Served};
use crate::state::counted;
use crate::warning::Warning;
use crate::{Bytes, Error, Result, Tokens};

/// State over caches where nothing is set (`mamba_full_memory_ratio`, 0.9): nine parts of nineteen are for state.
const STATE_PARTS: u128 = 9;
const CACHE_PARTS: u128 = 10;

/// Memory that is divided between state slots and caches.
#[derive(Clone, Copy, Debug)]
enum Budget {
    /// Of both together.
    Both(u64),
    /// What is left to caches.
    Caches(u64),
}

/// Drafts whose states wait beside the slots of a request: as many as it has draft tokens.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    drafts: u64,
    slots: u64,
}

impl Waiting {
    const NONE: Self = Self { drafts: 0, slots: 1 };
}

/// A memory between the two: what caches have, and the slots of one group without the one for padded batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) caches: Bytes,
    pub(super) slots: Option<u64>,
}

impl SgLangPlan<'_> {
    /// Slots of one group that a launch makes, without the one for padded batches: [`Self::fixed_slots`], else by its
    /// ratio beside a budget of caches. `None` where nothing says it.
    pub(super) fn launch_slots(&self) -> Result<Option<u64>> {
        if let Some(slots) = self.fixed_slots() {
            return Ok(Some(slots));
        }
        // Drafts share the memory of slots with states that wait to be verified.
        let budget = self.settings.available_kv_bytes.filter(|_| self.settings.draft_tokens() == 0);
        let state = self.charged_state()?;
        let of_caches = |budget| by_ratio(Budget::Caches(budget), state, Waiting::NONE);
        Ok(budget.filter(|_| state > Bytes::ZERO).map(of_caches))
    }

    /// Slots of one group that are made whatever the memory: as many as are set, else without a radix cache one for each
    /// request that the launch sets.
    pub(super) fn fixed_slots(&self) -> Option<u64> {
        match self.settings.state_slots {
            Some(slots) => Some(slots / self.launch.attention_dp),
            None if self.settings.radix_cache == Some(false) => requests::asked(&self.launch),
            None => None,
        }
    }

    /// The slots of a pool that serves the batch: those that are made whatever the memory, and no fewer than the requests
    /// of the batch are admitted with.
    pub(super) fn slots_of_batch(&self) -> Result<u64> {
        let requests = self.share().requests;
        let needed = requests.checked_mul(self.slots_per_request());
        let needed = needed.ok_or_else(|| Error::overflow("state slots of the batch"))?;
        Ok(self.fixed_slots().unwrap_or(0).max(needed))
    }

    /// Divides `memory` as a launch does; `None` where the states take more.
    pub(super) fn shares(&self, memory: Bytes) -> Result<Option<Shares>> {
        let state = self.charged_state()?;
        if state == Bytes::ZERO {
            return Ok(Some(Shares { caches: memory, slots: None }));
        }
        let slots = self.slots_in(memory, state);
        let states = state.times(slots.saturating_add(1))?.plus(self.waiting_states(slots)?)?;
        let caches = memory.get().checked_sub(states.get());
        Ok(caches.map(|caches| Shares { caches: Bytes::new(caches), slots: Some(slots) }))
    }

    /// Slots of one group that a launch makes of `memory`.
    fn slots_in(&self, memory: Bytes, state: Bytes) -> u64 {
        let waiting = Waiting { drafts: self.settings.draft_tokens(), slots: self.slots_per_request() };
        self.fixed_slots().unwrap_or_else(|| by_ratio(Budget::Both(memory.get()), state, waiting))
    }

    /// States that wait for drafts to be verified, one a draft token of each request that `slots` admit and of padded batches.
    fn waiting_states(&self, slots: u64) -> Result<Bytes> {
        let requests = (slots / self.slots_per_request()).min(requests::asked(&self.launch).unwrap_or(0));
        let states = requests.saturating_add(1).saturating_mul(self.settings.draft_tokens());
        self.charged_state()?.times(states)
    }

    /// What a slot holds and which slots a request takes: `a slot is 45 layers × 524,288 B recurrent_state f32 + …`.
    pub(super) fn slot_words(&self) -> Result<String> {
        let mut parts: Vec<String> = Vec::new();
        for (component, layers) in self.state().components_with_borrowed() {
            if is_slot_state(component.kind) {
                let bytes = group_digits(component.bytes(Tokens::new(0))?.get());
                let layers = counted(layers, "layer", "layers");
                parts.push(format!("{layers} × {bytes} B {} ({})", component.kind.name(), component.format));
            }
        }
        let which = match (self.settings.state_slots, self.slots_per_request()) {
            (Some(_), _) => "as many slots as are set".to_owned(),
            (None, 1) if self.fixed_slots().is_some() => "each request of the launch has one".to_owned(),
            (None, 1) => "a request has one".to_owned(),
            (None, 3) => "a request has its own and 2 for prefixes".to_owned(),
            (None, all) => {
                format!("a request has its own, 2 for prefixes and {} of the extra buffer", all - 3)
            }
        };
        Ok(format!("a slot is {}; {which}; one more takes padded batches", parts.join(" + ")))
    }

    /// Whether `memory` on every rank makes pools that serve the batch, and admits its requests at once, in the engine's own
    /// arithmetic: tensors have a page more than their tokens, which no budget counts.
    pub(super) fn serves(&self, memory: Bytes) -> Result<Served> {
        let Some(shares) = self.shares(memory)? else { return Ok(Served::NoRoom) };
        let n = self.query.need_context()?;
        let caches = self.ranks.iter().try_fold(Bytes::ZERO, |most, rank| {
            Ok::<_, Error>(most.max(self.caches_on(rank, Quantity::ResidentBytes, n)?))
        })?;
        if caches > shares.caches {
            return Ok(Served::NoRoom);
        }
        let mut capacity = None;
        if self.ranks.iter().any(|rank| rank.pool.keeps_tokens()) {
            let Ok(made) = self.of_budget(self.rank(), shares.caches.get()) else {
                return Ok(Served::NoRoom);
            };
            if made.full < self.serving(n)?.full {
                return Ok(Served::NoRoom);
            }
            capacity = Some(made.full);
        }
        let most = self.admitted_with(capacity, shares.slots)?;
        let admits = most.is_none_or(|most| self.share().requests <= most);
        Ok(if admits { Served::Whole } else { Served::NotAdmitted })
    }

    /// What the figures of a model with recurrent state count, and what they cannot.
    pub(super) fn warn_of_states(&mut self) -> Result<()> {
        let slots = self.slots_per_request();
        if slots > 1 {
            let message = format!(
                "each admitted request takes {slots} state slots, its own and those for reuse; reserved bytes count them \
                 all, fixed bytes of a request its own alone"
            );
            self.warnings.push(Warning::new("radix_cache", message));
        }
        if self.has_pools() && self.settings.state_slots.is_none() {
            self.warnings.push(Warning::new("state_slots", self.slots_not_given()?));
        }
        if self.settings.draft_tokens() > 0 {
            let message = "states that wait for drafts to be verified, one a draft token and request, are not counted; a division of memory \
                 leaves room for them";
            self.warnings.push(Warning::new("num_speculative_tokens", message));
        }
        Ok(())
    }

    /// Says which part of `memory` a launch gives to state slots, whatever the batch, where no setting does.
    pub(super) fn states_of_memory(&self, memory: Bytes) -> Result<Option<Warning>> {
        let state = self.charged_state()?;
        if state == Bytes::ZERO || self.fixed_slots().is_some() {
            return Ok(None);
        }
        let slots = self.slots_in(memory, state);
        let states = state.times(slots.saturating_add(1))?;
        let waiting = match self.waiting_states(slots)? {
            Bytes::ZERO => String::new(),
            waiting => format!(" beside {waiting} that wait for drafts"),
        };
        let message = format!(
            "not given; a launch gives {STATE_PARTS}/{} of the memory to states, {} and one more, {states}{waiting}, \
             whatever the batch, and the rest to caches; set state_slots for another division",
            STATE_PARTS + CACHE_PARTS,
            counted(slots, "slot", "slots")
        );
        Ok(Some(Warning::new("state_slots", message)))
    }

    /// How many slots a launch makes where none are set.
    fn slots_not_given(&self) -> Result<String> {
        let Some(slots) = self.launch_slots()? else {
            let unknown = "not given, and how many a launch makes follows from memory that is not known here; pool_bytes \
                           counts none";
            return Ok(unknown.to_owned());
        };
        let states = self.charged_state()?.times(slots.saturating_add(1))?;
        let slots = group_digits(slots);
        if self.fixed_slots().is_some() {
            let counted = if self.settings.pool_tokens.is_some() { "; pool_bytes counts none" } else { "" };
            return Ok(format!(
                "not given; a launch without a radix cache makes one for each of its {slots} requests and one more, \
                 {states}, beside what caches have{counted}"
            ));
        }
        let caches = group_digits(self.settings.available_kv_bytes.unwrap_or(0));
        Ok(format!(
            "not given; available_kv_bytes is what caches have after the state pool, and beside {caches} B of caches a \
             launch makes {slots} slots and one more, {states}; one budget for both leaves caches 1/1.9 of it"
        ))
    }
}

/// Slots without the one for padded batches, of which nine parts of nineteen of both are states, those that wait for drafts
/// among them: `(budget - state × (1 + drafts)) // (state × (1 + drafts / slots of a request))`.
fn by_ratio(budget: Budget, state: Bytes, waiting: Waiting) -> u64 {
    let (bytes, of) = match budget {
        Budget::Both(bytes) => (bytes, STATE_PARTS + CACHE_PARTS),
        Budget::Caches(bytes) => (bytes, CACHE_PARTS),
    };
    let (drafts, slots) = (u128::from(waiting.drafts), u128::from(waiting.slots));
    let state = u128::from(state.get()) * of;
    let padded = state.saturating_mul(1 + drafts);
    let left = (u128::from(bytes) * STATE_PARTS).saturating_sub(padded);
    let all = left.saturating_mul(slots) / state.saturating_mul(slots + drafts).max(1);
    u64::try_from(all).unwrap_or(u64::MAX)
}
