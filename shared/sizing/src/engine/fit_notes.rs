//! What is said beside a size that fits: what bounds it, and what the memory holds that is no request's.

use serde::Serialize;

use super::fit::{Room, held, largest_context_in};
use super::{EngineKind, Figure, Quantity, Query, has_setting, profile, report, settings_in};
use crate::capacity::LargestContext;
use crate::settings::Settings;
use crate::{Bytes, ErrorKind, Result, Tokens};

/// What keeps one request more from being run.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The memory is full.
    Memory,
    /// The launch admits no more, though the memory has room.
    AdmittedRequests,
}

/// How a launch divides a memory, whatever the batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Launch {
    /// Bytes of the caches.
    pub cache_bytes: Bytes,
    /// Tokens that they have slots for.
    pub cache_tokens: Option<Tokens>,
    /// Slots of recurrent state, of which padded batches have one more.
    pub state_slots: u64,
    /// Requests that are admitted at once.
    pub max_running_requests: Option<u64>,
}

impl Room<'_> {
    /// What bounds a batch of `requests` of `context` tokens, which is the largest that fits.
    ///
    /// # Errors
    ///
    /// Settings that do not fit the model.
    pub fn bound(&self, context: Tokens, requests: u64) -> Result<Bound> {
        if self.is_dense() {
            return Ok(Bound::Memory);
        }
        let own = held(&self.query, context, requests.max(1), self.memory)?;
        if own.most_requests.is_some_and(|most| requests >= most) {
            return Ok(Bound::AdmittedRequests);
        }
        let next = held(&self.query, context, requests.saturating_add(1), self.memory)?;
        Ok(if next.is_only_refused { Bound::AdmittedRequests } else { Bound::Memory })
    }

    /// Bytes of the memory that its pool has once, whatever it holds, and what they are; none where there are none.
    ///
    /// # Errors
    ///
    /// Settings that do not fit the model.
    pub fn once(&self) -> Result<Option<(Bytes, &'static str)>> {
        if self.is_dense() {
            return Ok(None);
        }
        let query = self.query.at_some_length();
        let plan = profile(&query)?;
        let bytes = plan.pool_overhead()?;
        Ok((bytes > Bytes::ZERO).then(|| (bytes, plan.overhead_words())))
    }

    /// How a launch divides the memory; `None` where it makes no state slots, or where it cannot start.
    ///
    /// # Errors
    ///
    /// Settings that do not fit the model.
    pub fn launch(&self) -> Result<Option<Launch>> {
        if self.query.engine.kind() != EngineKind::SgLang {
            return Ok(None);
        }
        let Ok(settings) = settings_in(&self.query, self.memory) else { return Ok(None) };
        let Some((state_slots, bytes)) = settings.state_slots.zip(settings.available_kv_bytes) else {
            return Ok(None);
        };
        let asked = Query { settings: &settings, ..self.query.clone() };
        let found = match report(&asked) {
            Err(error) if error.kind() == ErrorKind::Setting => return Ok(None),
            found => found?,
        };
        let whole = |quantity: Quantity| found.figure(quantity).and_then(Figure::whole);
        Ok(Some(Launch {
            cache_bytes: Bytes::new(bytes),
            cache_tokens: whole(Quantity::LoggedKvTokens).map(Tokens::new),
            state_slots,
            max_running_requests: whole(Quantity::MaxRunningRequests),
        }))
    }

    /// Requests of `context` tokens whose blocks the memory has while they decode, and the bytes of each then. `None` where a
    /// request is admitted with no more than it holds.
    ///
    /// # Errors
    ///
    /// Settings that do not fit the model.
    pub fn while_decoding(&self, context: Tokens) -> Result<Option<(u64, Bytes)>> {
        if self.is_dense() {
            return Ok(None);
        }
        let query = Query { context: Some(context), batch: 1, ..self.query.clone() };
        let plan = profile(&query)?;
        let (Some(each), Some(Figure::Bytes(reserved))) =
            (plan.decoding()?, plan.figure(Quantity::ResidentBytes)?)
        else {
            return Ok(None);
        };
        let room = self.memory.get().saturating_sub(plan.pool_overhead()?.get());
        let count = room.checked_div(each.get()).filter(|_| each < reserved);
        Ok(count.map(|count| (count, each)))
    }

    /// Where not even one token fits: the most tokens with `max_running_requests` set to the batch, where that helps.
    ///
    /// # Errors
    ///
    /// Settings that do not fit the model.
    pub fn with_fewest_requests(&self) -> Result<Option<Tokens>> {
        let has = has_setting(self.query.engine.kind(), "max_running_requests");
        if self.is_dense() || !has || self.query.settings.max_running_requests.is_some() {
            return Ok(None);
        }
        let settings =
            Settings { max_running_requests: Some(self.query.batch), ..self.query.settings.clone() };
        let query = Query { settings: &settings, ..self.query.clone() };
        Ok(match largest_context_in(&query, self.memory, Tokens::MAX)? {
            LargestContext::Nothing => None,
            LargestContext::Budget { tokens } | LargestContext::Limit { tokens } => Some(tokens),
        })
    }
}
