//! Slots of recurrent state: how many a launch makes, and what they leave to the caches (`_handle_max_mamba_cache`).

use super::{SgLangPlan, group_digits, is_slot_state};
use crate::engine::Quantity;
use crate::state::counted;
use crate::warning::Warning;
use crate::{Bytes, Result, Tokens};

/// State over caches where nothing is set (`mamba_full_memory_ratio`, 0.9): nine parts of nineteen are for state.
const STATE_PARTS: u128 = 9;
const CACHE_PARTS: u128 = 10;

impl SgLangPlan<'_> {
    /// Slots of one group that a launch makes, without the one for padded batches: as many as are set, one a request
    /// without a radix cache, else by its ratio beside a budget of caches. `None` where nothing says it.
    pub(super) fn launch_slots(&self) -> Result<Option<u64>> {
        if let Some(slots) = self.settings.state_slots {
            return Ok(Some(slots / self.launch.attention_dp));
        }
        if let (Some(false), Some(requests)) = (self.settings.radix_cache, self.settings.max_running_requests)
        {
            return Ok(Some((requests / self.launch.attention_dp).max(1)));
        }
        let state = self.state_bytes_per_slot()?;
        // Drafts share the memory of slots with states that wait to be verified.
        let budget = self.settings.available_kv_bytes.filter(|_| self.settings.draft_tokens() == 0);
        let Some(budget) = budget.filter(|_| state > Bytes::ZERO) else { return Ok(None) };
        let all = u128::from(budget) * STATE_PARTS / (u128::from(state.get()) * CACHE_PARTS);
        Ok(Some(u64::try_from(all).unwrap_or(u64::MAX).saturating_sub(1)))
    }

    /// What a slot holds and which slots a request takes: `a slot is 45 layers × 524,288 B recurrent_state f32 + …`.
    pub(super) fn slot_words(&self) -> Result<String> {
        let mut parts: Vec<String> = Vec::new();
        for (component, layers) in self.rank.components_with_borrowed() {
            if is_slot_state(component.kind) {
                let bytes = group_digits(component.bytes(Tokens::new(0))?.get());
                let layers = counted(layers, "layer", "layers");
                parts.push(format!("{layers} × {bytes} B {} ({})", component.kind.name(), component.format));
            }
        }
        let which = match (self.settings.state_slots, self.slots_per_request()) {
            (Some(_), _) => "as many slots as are set".to_owned(),
            (None, 1) => "a request has one".to_owned(),
            (None, 3) => "a request has its own and 2 for prefixes".to_owned(),
            (None, all) => {
                format!("a request has its own, 2 for prefixes and {} of the extra buffer", all - 3)
            }
        };
        Ok(format!("a slot is {}; {which}; one more takes padded batches", parts.join(" + ")))
    }

    /// Whether `memory` makes pools that serve the batch: its states take their part where a launch divides it, and the
    /// rest is the budget of the caches, in the engine's own arithmetic.
    pub(super) fn serves(&self, memory: Bytes) -> Result<bool> {
        let states = self.state_pool()?;
        let caches = Bytes::new(self.part(Quantity::ResidentBytes)?.get().saturating_sub(states.get()));
        let of_states = self.divided_states(memory)?.unwrap_or(states);
        let Some(left) = memory.get().checked_sub(of_states.get()) else { return Ok(false) };
        if states > of_states || caches.get() > left {
            return Ok(false);
        }
        let needed = self.serving(self.query.need_context()?)?.full;
        let holds = |pool: &super::Pool| {
            let made = pool.of_budget(left, &self.launch);
            made.is_ok_and(|tokens| tokens.full >= needed)
        };
        Ok(caches == Bytes::ZERO || self.pools.iter().all(holds))
    }

    /// Bytes of the slots that a launch makes from `memory`; `None` where it has as many as are asked for.
    fn divided_states(&self, memory: Bytes) -> Result<Option<Bytes>> {
        let state = self.state_bytes_per_slot()?;
        if state == Bytes::ZERO
            || self.settings.state_slots.is_some()
            || self.settings.radix_cache == Some(false)
        {
            return Ok(None);
        }
        let part = u128::from(memory.get()) * STATE_PARTS / (STATE_PARTS + CACHE_PARTS);
        let slots = u64::try_from(part / u128::from(state.get())).unwrap_or(u64::MAX);
        state.times(slots).map(Some)
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
            let message = match (self.launch_slots()?, self.settings.available_kv_bytes) {
                (Some(slots), Some(budget)) => {
                    let states = self.state_bytes_per_slot()?.times(slots.saturating_add(1))?;
                    format!(
                        "not given; available_kv_bytes is what caches have after the state pool, and beside {} B of caches \
                         a launch makes {} slots and one more, {states}; one budget for both leaves caches 1/1.9 of it",
                        group_digits(budget),
                        group_digits(slots),
                    )
                }
                _ => "not given, and how many a launch makes follows from memory that is not known here; pool_bytes \
                      counts none"
                    .to_owned(),
            };
            self.warnings.push(Warning::new("state_slots", message));
        }
        if self.settings.draft_tokens() > 0 {
            let message =
                "states that wait for drafts to be verified, one a draft token and request, are not counted";
            self.warnings.push(Warning::new("num_speculative_tokens", message));
        }
        Ok(())
    }
}
