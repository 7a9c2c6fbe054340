//! Capacity by inversion: the largest context or batch that fits, from the growth itself.
//!
//! A budget divided by bytes per token is wrong wherever a window fills, a stream steps or a state is fixed. Here the
//! growth function is inverted: it never falls, so the answer is exact to one token.

use serde::Serialize;

use crate::size::StateModel;
use crate::{Bytes, Error, Result, Tokens};

/// The largest context that fits a budget.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "bound", rename_all = "snake_case")]
pub enum LargestContext {
    /// Not even the part of a request that does not grow fits.
    Nothing,
    /// This many tokens fit and one more does not. Zero tokens: only the fixed part fits.
    Budget {
        /// Tokens of each request.
        tokens: Tokens,
    },
    /// The limit that was asked for fits; the budget is not what bounds it.
    Limit {
        /// The limit.
        tokens: Tokens,
    },
}

impl StateModel {
    /// The largest context up to `limit` at which `batch` requests fit `budget`.
    ///
    /// # Errors
    ///
    /// A batch of zero.
    pub fn largest_context(&self, budget: Bytes, batch: u64, limit: Tokens) -> Result<LargestContext> {
        if batch == 0 {
            return Err(Error::setting("batch", "0 requests fit everywhere; give at least 1"));
        }
        // Bytes that overflow 64 bits fit no budget.
        let fits = |tokens: u64| self.resident(Tokens::new(tokens), batch).is_ok_and(|bytes| bytes <= budget);
        if !fits(0) {
            return Ok(LargestContext::Nothing);
        }
        if fits(limit.get()) {
            return Ok(LargestContext::Limit { tokens: limit });
        }
        Ok(LargestContext::Budget { tokens: Tokens::new(largest_fitting(limit.get(), fits)) })
    }

    /// The most requests of `context` tokens that fit `budget`; `None` where such a request holds nothing.
    ///
    /// # Errors
    ///
    /// A single request whose bytes do not fit 64 bits.
    pub fn largest_batch(&self, budget: Bytes, context: Tokens) -> Result<Option<u64>> {
        let one = self.resident(context, 1)?.get();
        Ok(budget.get().checked_div(one))
    }
}

/// The largest number up to `limit` that fits, where everything below a fitting number fits too; 0 where none does.
pub(crate) fn largest_fitting(limit: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_fits() {
        for limit in [0, 1, 2, 63, 64, 1000] {
            for largest in 0..=limit.min(100) {
                assert_eq!(largest_fitting(limit, |n| n <= largest), largest, "{limit}");
            }
        }
    }
}
