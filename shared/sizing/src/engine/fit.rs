//! Capacity under an engine's accounting, by inversion of what it reserves.

use std::cell::RefCell;

use super::reserved::of_requests;
use super::{Query, profile, reserved_bytes};
use crate::capacity::{LargestContext, largest_fitting};
use crate::settings::Settings;
use crate::size::StateModel;
use crate::warning::Warning;
use crate::{Bytes, Error, ErrorKind, Result, Tokens};

/// No server runs as many requests at once.
const MOST_REQUESTS: u64 = 1 << 32;

/// Settings that fix what is looked for here, with what to use in their place.
const FIXED: [(&str, &str); 4] = [
    ("available_kv_bytes", "the memory is given apart"),
    ("pool_tokens", "a pool of fixed size holds what it holds"),
    ("n_ctx", "the context is what is looked for"),
    ("n_seq_max", "the batch is given apart"),
];

/// What fits a size of memory: asked of the growth function itself where bytes are dense, else of what the engine
/// reserves.
#[derive(Clone, Debug)]
pub struct Room<'a> {
    /// Engine, settings and batch; its own context does not matter.
    pub query: Query<'a>,
    /// The state under the same settings.
    pub state: &'a StateModel,
    /// Bytes for state on one rank.
    pub memory: Bytes,
}

impl Room<'_> {
    /// Whether the growth function answers: logical bytes without ranks or pools.
    pub fn is_dense(&self) -> bool {
        self.query.engine.is_dense(self.query.settings)
    }

    /// How the engine divides the memory, where no setting says it.
    ///
    /// # Errors
    ///
    /// Settings that do not fit the model, or an overflow.
    pub fn division(&self) -> Result<Option<Warning>> {
        if self.is_dense() {
            return Ok(None);
        }
        profile(&self.query.at_some_length())?.warn_of_memory(self.memory)
    }

    /// The most tokens that each request of the batch can have.
    ///
    /// # Errors
    ///
    /// A batch of zero, settings that do not fit the model, or one that fixes the size of the pool.
    pub fn largest_context(&self) -> Result<LargestContext> {
        if self.is_dense() {
            return self.state.largest_context(self.memory, self.query.batch, Tokens::MAX);
        }
        largest_context_in(&self.query, self.memory, Tokens::MAX)
    }

    /// The most requests of `context` tokens; `None` where any number fits.
    ///
    /// # Errors
    ///
    /// As [`Self::largest_context`].
    pub fn largest_batch(&self, context: Tokens) -> Result<Option<u64>> {
        if self.is_dense() {
            return self.state.largest_batch(self.memory, context);
        }
        largest_batch_in(&self.query, self.memory, context)
    }
}

/// The most tokens up to `limit` that each request of the query's batch can have in `memory` on one rank, by what the
/// engine reserves; at least one. The query's own context does not matter.
///
/// # Errors
///
/// A batch of zero, settings that do not fit the model, or one that fixes the size of the pool.
pub fn largest_context_in(query: &Query<'_>, memory: Bytes, limit: Tokens) -> Result<LargestContext> {
    check(query)?;
    let fits = |tokens: u64| fits(query, Tokens::new(tokens), query.batch, memory);
    if !fits(1)? {
        return Ok(LargestContext::Nothing);
    }
    if fits(limit.get())? {
        return Ok(LargestContext::Limit { tokens: limit });
    }
    let tokens = Tokens::new(largest_where(limit.get(), fits)?);
    Ok(LargestContext::Budget { tokens })
}

/// The most requests of `context` tokens that fit `memory` on one rank; `None` where any number does.
///
/// # Errors
///
/// Settings that do not fit the model, or one that fixes the size of the pool.
pub fn largest_batch_in(query: &Query<'_>, memory: Bytes, context: Tokens) -> Result<Option<u64>> {
    check(query)?;
    let fits = |requests: u64| fits(query, context, requests, memory);
    if !fits(1)? {
        return Ok(Some(0));
    }
    let limit = profile(&Query { context: Some(context), batch: 1, ..query.clone() })?.most_requests();
    let most = limit.unwrap_or(MOST_REQUESTS);
    if fits(most)? {
        return Ok(limit);
    }
    Ok(Some(largest_where(most, fits)?))
}

/// The query's settings for a launch that has `memory` for state: what its caches have of it, and as many state slots as it
/// makes.
///
/// # Errors
///
/// Settings that do not fit the model, or a memory that is less than the state slots take.
pub fn settings_in(query: &Query<'_>, memory: Bytes) -> Result<Settings> {
    let division = profile(&query.at_some_length())?.divide(memory)?;
    Ok(Settings {
        available_kv_bytes: Some(division.caches.get()),
        state_slots: division.state_slots.or(query.settings.state_slots),
        ..query.settings.clone()
    })
}

/// What the engine reserves on one rank for `batch` requests of `context` tokens each.
///
/// # Errors
///
/// Settings that do not fit the model, or a figure beyond 64 bits.
pub(crate) fn reserved_for(query: &Query<'_>, context: Tokens, batch: u64) -> Result<Bytes> {
    let asked = Query { context: Some(context), batch, ..query.clone() };
    let settings = of_requests(&asked)?;
    reserved_bytes(&Query { settings: &settings, ..asked })
}

/// The largest number up to `limit` that fits, or the first error on the way to it.
fn largest_where(limit: u64, fits: impl Fn(u64) -> Result<bool>) -> Result<u64> {
    let failed = RefCell::new(None);
    let found = largest_fitting(limit, |number| {
        fits(number).unwrap_or_else(|error| {
            failed.borrow_mut().get_or_insert(error);
            false
        })
    });
    failed.into_inner().map_or(Ok(found), Err)
}

fn check(query: &Query<'_>) -> Result<()> {
    if query.batch == 0 {
        return Err(Error::setting("batch", "0 requests fit everywhere; give at least 1"));
    }
    let given: Vec<&str> = query.settings.given().collect();
    match FIXED.iter().find(|(name, _)| given.contains(name)) {
        Some((name, why)) => {
            Err(Error::setting(*name, format!("cannot be set where a size is looked for: {why}")))
        }
        None => Ok(()),
    }
}

/// Whether `batch` requests of `tokens` each fit. Bytes beyond 64 bits fit nowhere.
fn fits(query: &Query<'_>, tokens: Tokens, batch: u64, memory: Bytes) -> Result<bool> {
    let fits = fits_in(query, tokens, batch, memory);
    match fits {
        Ok(fits) => Ok(fits),
        Err(error) if error.kind() == ErrorKind::Overflow => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether what the engine reserves for `batch` requests of `tokens` each, and what its pool has once, is in `memory`.
fn fits_in(query: &Query<'_>, tokens: Tokens, batch: u64, memory: Bytes) -> Result<bool> {
    let asked = Query { context: Some(tokens), batch, ..query.clone() };
    let settings = of_requests(&asked)?;
    let asked = Query { settings: &settings, ..asked };
    let plan = profile(&asked)?;
    if let Some(fits) = plan.fits(memory)? {
        return Ok(fits);
    }
    Ok(reserved_bytes(&asked)?.plus(plan.pool_overhead()?)? <= memory)
}
