//! Where the bytes that a batch holds in the pools hold no state.

use super::pool::PoolTokens;
use super::{SgLangPlan, is_slot_state};
use crate::engine::shard::quantity_of;
use crate::engine::{Padding, Profile, Quantity};
use crate::state::counted;
use crate::{Bytes, Error, Result, StateComponent, Tokens};

impl SgLangPlan<'_> {
    /// The rest of last pages, windows that are kept in full, free pools and spare slots, for the whole batch.
    pub(super) fn held_rows(&self) -> Result<Vec<Padding>> {
        let n = self.query.need_context()?;
        let own_window_pool = self.pool().has_window_pool();
        let beyond = |more: Bytes, than: Bytes| Bytes::new(more.get().saturating_sub(than.get()));
        let of_batch = |bytes: Result<Bytes>| bytes?.times(self.share().requests);
        let drafts = beyond(self.drafts_of_caches(n, self.launch.page)?, self.drafts_of_caches(n, 1)?);
        let pages = self.state().sum_with_borrowed(|component| match quantity_of(component.kind) {
            Quantity::KvBytes | Quantity::IndexBytes => {
                Ok(beyond(self.held_by(component, n, self.launch.page)?, self.held_by(component, n, 1)?))
            }
            _ => Ok(Bytes::ZERO),
        });
        let windows = self.state().sum_with_borrowed(|component| match quantity_of(component.kind) {
            Quantity::WindowBytes if !own_window_pool => {
                let held = self.held_by(component, n, self.launch.page)?;
                Ok(beyond(held, self.window_on_rank(component, n)?))
            }
            _ => Ok(Bytes::ZERO),
        });
        let left = |quantities: &[Quantity], named: Bytes| {
            let (mut part, mut content) = (Bytes::ZERO, named);
            for quantity in quantities {
                part = part.plus(self.part(*quantity)?)?;
                content = content.plus(self.held_content(*quantity)?)?;
            }
            Ok::<_, Error>(beyond(part, content))
        };
        let caches: &[Quantity] = if own_window_pool {
            &[Quantity::KvBytes, Quantity::IndexBytes]
        } else {
            &[Quantity::KvBytes, Quantity::IndexBytes, Quantity::WindowBytes]
        };
        // A pool that is set may be smaller than the batch.
        let room = left(caches, Bytes::ZERO)?;
        let pages = of_batch(pages?.plus(drafts))?.min(room);
        let windows = of_batch(windows)?.min(beyond(room, pages));
        let states = self.state_rows(self.share().requests)?;
        let beyond_caches = left(caches, pages.plus(windows)?)?;
        let of_slots = states.iter().try_fold(Bytes::ZERO, |total, row| total.plus(row.bytes))?;
        let rings = left(&[Quantity::StateBytes], of_slots)?;
        let beyond_windows =
            if own_window_pool { left(&[Quantity::WindowBytes], Bytes::ZERO)? } else { Bytes::ZERO };
        let pooled = self.settings.pool_tokens.is_some();
        let rounded = if pooled { Bytes::ZERO } else { self.rounded_pages(n)?.min(beyond_caches) };
        let given = "pools are allocated at start-up, whatever requests hold";
        let rows = [
            (
                "last pages",
                pages,
                format!("caches take whole pages of {}", counted(self.launch.page, "token", "tokens")),
            ),
            (
                "windows kept in full",
                windows,
                "this class has no pool for windows, so their layers keep every token".to_owned(),
            ),
            (
                "padding of pages",
                rounded,
                "pages of entries begin at multiples of what kernels read, and a budget counts index keys in FP8"
                    .to_owned(),
            ),
            (
                if pooled { "free pool" } else { "full pool beyond the batch" },
                beyond(beyond_caches, rounded),
                if pooled {
                    given.to_owned()
                } else {
                    "the window pool is a part of the full one and must hold every window, and more than one and a page"
                        .to_owned()
                },
            ),
            (
                if pooled { "free window pool" } else { "window pool beyond the windows" },
                beyond_windows,
                if pooled { given.to_owned() } else { self.pool().window_words() },
            ),
            (
                "compressor state beyond the batch",
                rings,
                "rings of every request slot of the launch, and of every page of the window pool".to_owned(),
            ),
        ];
        let kept = rows.into_iter().filter(|(_, bytes, _)| *bytes > Bytes::ZERO);
        let kept = kept.map(|(what, bytes, why)| Padding { what: what.to_owned(), bytes, why });
        Ok(kept.chain(states).collect())
    }

    /// What the entries of the batch's pages take in a budget beyond their own bytes.
    fn rounded_pages(&self, n: Tokens) -> Result<Bytes> {
        let full = self.asked(n, self.share().requests).all_slots()?;
        let budget = self.pool().budget(PoolTokens { full, window: Some(0), rings: 0 })?;
        let dense = self.state().sum_with_borrowed(|component| match quantity_of(component.kind) {
            Quantity::KvBytes | Quantity::IndexBytes => self.held_by(component, n, self.launch.page),
            Quantity::WindowBytes if !self.pool().has_window_pool() => {
                self.held_by(component, n, self.launch.page)
            }
            _ => Ok(Bytes::ZERO),
        });
        let dense = dense?.plus(self.drafts_of_caches(n, self.launch.page)?)?.times(self.share().requests)?;
        Ok(Bytes::new(budget.kv.plus(budget.index)?.get().saturating_sub(dense.get())))
    }

    /// Bytes of a part that the batch holds without the padding of [`Self::held_rows`], and no more than a pool that is set
    /// has room for.
    pub(super) fn held_content(&self, quantity: Quantity) -> Result<Bytes> {
        let wanted = self.wanted_content(quantity)?;
        if self.settings.pool_tokens.is_none() {
            return Ok(wanted);
        }
        let mut room = self.part(quantity)?;
        if quantity == Quantity::WindowBytes && !self.pool().has_window_pool() {
            // Windows lie in the pool of the other layers.
            let others = self.held_content(Quantity::KvBytes)?;
            room = Bytes::new(self.part(Quantity::KvBytes)?.get().saturating_sub(others.get()));
        }
        Ok(wanted.min(room))
    }

    /// Whether a pool that is set has less room than the batch wants.
    pub(super) fn is_short_of(&self, quantity: Quantity) -> bool {
        let held = self.held_content(quantity).and_then(|held| Ok((held, self.wanted_content(quantity)?)));
        held.is_ok_and(|(held, wanted)| held < wanted)
    }

    fn wanted_content(&self, quantity: Quantity) -> Result<Bytes> {
        let n = self.query.context_for(quantity)?;
        let own_window_pool = self.pool().has_window_pool();
        let caches = self.state().sum_with_borrowed(|component| match quantity_of(component.kind) {
            kind if kind != quantity || is_slot_state(component.kind) => Ok(Bytes::ZERO),
            Quantity::WindowBytes if !own_window_pool => self.window_on_rank(component, n),
            _ => self.held_by(component, n, 1),
        })?;
        let of_slots =
            if quantity == Quantity::StateBytes { self.state_bytes_per_slot()? } else { Bytes::ZERO };
        let drafts = self.pool().held_by_drafts(quantity, self.own_tokens(n, 1))?;
        caches.plus(of_slots)?.plus(drafts)?.times(self.share().requests)
    }

    /// What one layer's window of a request of `n` tokens is on one rank: context-parallel ranks take turns at its tokens
    /// too, where it has no pool of its own.
    fn window_on_rank(&self, component: &StateComponent, n: Tokens) -> Result<Bytes> {
        let entries = component.growth.entries(n).div_ceil(self.launch.dcp);
        component.growth.entry().times(entries)
    }

    /// What draft layers hold of one request, windows apart.
    fn drafts_of_caches(&self, n: Tokens, page: u64) -> Result<Bytes> {
        let tokens = self.own_tokens(n, page);
        let kv = self.pool().held_by_drafts(Quantity::KvBytes, tokens)?;
        kv.plus(self.pool().held_by_drafts(Quantity::IndexBytes, tokens)?)
    }

    /// The slot that padded batches write to.
    pub(super) fn padded_slot(&self) -> Result<Option<Padding>> {
        let bytes = self.state_bytes_per_slot()?;
        let why = "one state slot more, which padded batches write to".to_owned();
        Ok((bytes > Bytes::ZERO).then(|| Padding { what: "state slot".to_owned(), bytes, why }))
    }

    /// State slots beyond the one that each of `requests` needs.
    fn state_rows(&self, requests: u64) -> Result<Vec<Padding>> {
        let state = self.state_bytes_per_slot()?;
        if state == Bytes::ZERO {
            return Ok(Vec::new());
        }
        let needed = state.times(requests.saturating_add(1))?;
        let spare = Bytes::new(self.state_pool()?.get().saturating_sub(needed.get()));
        let why = match self.fixed_slots() {
            Some(slots) if slots == self.slots_of_batch()? => {
                "the launch makes as many, whatever requests hold"
            }
            _ => "states of prefixes, and the next ones of running requests, have slots too",
        };
        let what = "state slots for reuse".to_owned();
        let spare = Padding { what, bytes: spare, why: why.to_owned() };
        let spare = Some(spare).filter(|row| row.bytes > Bytes::ZERO);
        Ok(spare.into_iter().chain(self.padded_slot()?).collect())
    }
}
