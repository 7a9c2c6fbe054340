//! Capacity under an engine's accounting, by inversion of what it reserves.

use super::reserved::of_requests;
use super::{Figure, Quantity, Query, Served, profile, request_groups, reserved_bytes, reserved_curve};
use crate::capacity::LargestContext;
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
        self.largest_context_up_to(Tokens::MAX)
    }

    /// The same where a request has no more tokens than `limit`.
    ///
    /// # Errors
    ///
    /// As [`Self::largest_context`].
    pub fn largest_context_up_to(&self, limit: Tokens) -> Result<LargestContext> {
        if self.is_dense() {
            return self.state.largest_context(self.memory, self.query.batch, limit);
        }
        largest_context_in(&self.query, self.memory, limit)
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

/// What requests of one length take on one rank.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Taken {
    /// Bytes of one request more.
    pub(crate) each: Bytes,
    /// Bytes that stand beside any number of them.
    pub(crate) once: Bytes,
}

impl Room<'_> {
    /// What requests of `context` tokens take: the difference that one more makes in each group of ranks with requests of its own.
    ///
    /// # Errors
    ///
    /// Settings that do not fit the model, or an overflow.
    pub(crate) fn taken(&self, context: Tokens) -> Result<Taken> {
        if self.is_dense() {
            return Ok(Taken { each: self.state.resident(context, 1)?, once: Bytes::ZERO });
        }
        let groups = request_groups(self.query.engine.kind(), self.query.settings);
        let of = |requests: u64| {
            let asked = Query { context: Some(context), batch: requests, ..self.query.clone() };
            let settings = of_requests(&asked)?;
            reserved_bytes(&Query { settings: &settings, ..asked })
        };
        let one = of(groups)?;
        // A launch may be for one request alone.
        let more =
            of(2 * groups).ok().and_then(|two| two.get().checked_sub(one.get())).filter(|more| *more > 0);
        let each = Bytes::new(more.unwrap_or(one.get()).min(one.get()));
        Ok(Taken { each, once: Bytes::new(one.get() - each.get()) })
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
    let at = |tokens: u64| held(query, Tokens::new(tokens), query.batch, memory);
    let one = at(1)?;
    if !one.fits {
        return Ok(LargestContext::Nothing);
    }
    let all = at(limit.get())?;
    if all.fits {
        return Ok(LargestContext::Limit { tokens: limit });
    }
    // Bytes grow nearly in step with tokens, so what fits lies near the line between both ends.
    let near = one.room.zip(all.bytes).zip(one.bytes).and_then(|((room, all), one)| {
        let growth = all.checked_sub(one).filter(|growth| *growth > 0)?;
        Some(u128::from(room) * u128::from(limit.get() - 1) / u128::from(growth) + 1)
    });
    let tokens = largest_between(1, limit.get(), near, |tokens| Ok(at(tokens)?.fits))?;
    Ok(LargestContext::Budget { tokens: Tokens::new(tokens) })
}

/// The most requests of `context` tokens that fit `memory` on one rank; `None` where any number does.
///
/// # Errors
///
/// Settings that do not fit the model, or one that fixes the size of the pool.
pub fn largest_batch_in(query: &Query<'_>, memory: Bytes, context: Tokens) -> Result<Option<u64>> {
    check(query)?;
    let of = |requests: u64| held(query, context, requests, memory);
    let one = of(1)?;
    if !one.fits {
        return Ok(Some(0));
    }
    let most = one.most_requests.unwrap_or(MOST_REQUESTS);
    if most == 1 || of(most)?.fits {
        return Ok(one.most_requests);
    }
    let near = one.room.zip(one.bytes).and_then(|(room, one)| {
        let more = room.checked_div(one)?;
        Some(u128::from(more) + 1)
    });
    largest_between(1, most, near, |requests| Ok(of(requests)?.fits)).map(Some)
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

/// What the engine reserves on one rank for one request, of each of these lengths.
///
/// # Errors
///
/// Settings that do not fit the model, or a figure beyond 64 bits.
pub(crate) fn reserved_each(query: &Query<'_>, contexts: &[Tokens]) -> Result<Vec<Bytes>> {
    let query = Query { batch: 1, ..query.clone() };
    let curve = reserved_curve(&query, contexts)?;
    match contexts.get(curve.len()) {
        None => Ok(curve),
        // The curve ends before the first length that has no figure, which says why.
        Some(n) => {
            reserved_bytes(&Query { context: Some(*n), ..query })?;
            Err(Error::overflow(format!("what is reserved for {n} tokens")))
        }
    }
}

/// The largest number that fits, of which `low` does and `high` does not: looked for from `near` outwards in steps that
/// double, then in the middle of what is left.
fn largest_between(
    mut low: u64,
    mut high: u64,
    near: Option<u128>,
    fits: impl Fn(u64) -> Result<bool>,
) -> Result<u64> {
    let near = near.and_then(|near| u64::try_from(near).ok()).filter(|near| *near > low && *near < high);
    let (mut step, mut next) = (1_u64, near);
    while let Some(at) = next.filter(|at| *at > low && *at < high) {
        let does = fits(at)?;
        if does {
            low = at;
        } else {
            high = at;
        }
        // The side that `near` is on is the one that is walked away from.
        next = match near {
            Some(near) if does && at >= near => at.checked_add(step),
            Some(near) if !does && at <= near => at.checked_sub(step),
            _ => None,
        };
        step = step.saturating_mul(2);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle)? { low = middle } else { high = middle }
    }
    Ok(low)
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

/// A batch beside a memory.
pub(super) struct Held {
    pub(super) fits: bool,
    /// Whether memory is not what it lacks.
    pub(super) is_only_refused: bool,
    /// Bytes that the memory has beside the batch; none where it has fewer.
    room: Option<u64>,
    /// Bytes that are reserved for the batch; none where they are beyond 64 bits.
    bytes: Option<u64>,
    /// Requests that the engine starts with at most, whatever fits.
    pub(super) most_requests: Option<u64>,
}

/// Whether `batch` requests of `tokens` each fit. Bytes beyond 64 bits fit nowhere.
pub(super) fn held(query: &Query<'_>, tokens: Tokens, batch: u64, memory: Bytes) -> Result<Held> {
    match held_in(query, tokens, batch, memory) {
        Err(error) if error.kind() == ErrorKind::Overflow => {
            Ok(Held { fits: false, is_only_refused: false, room: None, bytes: None, most_requests: None })
        }
        held => held,
    }
}

/// What the engine reserves for `batch` requests of `tokens` each, and what its pool has once, beside `memory`.
fn held_in(query: &Query<'_>, tokens: Tokens, batch: u64, memory: Bytes) -> Result<Held> {
    let asked = Query { context: Some(tokens), batch, ..query.clone() };
    let settings = of_requests(&asked)?;
    let asked = Query { settings: &settings, ..asked };
    let plan = profile(&asked)?;
    let reserved = || match plan.figure(Quantity::ResidentBytes)? {
        Some(Figure::Bytes(bytes)) => Ok((bytes, bytes.plus(plan.pool_overhead()?)?)),
        _ => Err(Error::setting("resident_bytes", format!("{} has no such figure", query.engine))),
    };
    let most_requests = plan.most_requests();
    // What divides the memory itself knows whether the batch fits; its bytes only say where to look.
    let (served, known) = if let Some(served) = plan.fits(memory)? {
        (served, reserved().ok())
    } else {
        let known = reserved()?;
        (if known.1 <= memory { Served::Whole } else { Served::NoRoom }, Some(known))
    };
    let room = known.and_then(|(_, all)| memory.get().checked_sub(all.get()));
    let (fits, is_only_refused) = (served == Served::Whole, served == Served::NotAdmitted);
    Ok(Held { fits, is_only_refused, room, bytes: known.map(|(bytes, _)| bytes.get()), most_requests })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_largest_that_fits_is_found_from_anywhere() {
        for largest in 1..40 {
            for near in std::iter::once(None).chain((0..60).map(Some)) {
                let found = largest_between(1, 40, near, |number| Ok(number <= largest)).unwrap();
                assert_eq!(found, largest, "from {near:?}");
            }
        }
    }

    #[test]
    fn near_the_answer_a_few_questions_are_enough() {
        let asked = Cell::new(0);
        let fits = |number: u64| {
            asked.set(asked.get() + 1);
            Ok(number <= 1_000_000)
        };
        for (near, most) in [(Some(1_000_000), 2), (Some(1_000_003), 6), (Some(999_000), 25), (None, 33)] {
            asked.set(0);
            assert_eq!(largest_between(1, 1 << 32, near, fits).unwrap(), 1_000_000);
            assert!(asked.get() <= most, "{} from {near:?}", asked.get());
        }
    }
}
