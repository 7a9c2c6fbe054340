#![allow(unsafe_code, reason = "asking for a line needs an instruction; any address is allowed")]

use super::{Dimensions, PAGE_TOKENS};
use crate::bench::cpu::simd::Simd;

/// The lines of one head's keys or values in a page that are asked for while something else is computed. They are spread
/// evenly: a processor waits where more lines are asked for at once than it can fetch together.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    first: usize,
    /// Lines in all.
    lines: usize,
    /// Lines that are asked for at once.
    at_once: usize,
    /// How often that is in one part.
    requests: usize,
    order: Order,
}

/// Which line comes after which.
#[derive(Clone, Copy)]
enum Order {
    /// The next one in memory.
    Bytes,
    /// That of the next row, and after [`Ahead::ROWS`] of them the next column.
    Columns { row_bytes: usize },
}

impl Ahead {
    const LINE: usize = 64;
    /// Pairs of dims that are scored between two requests; it divides the pairs of every width.
    pub(super) const PAIRS: usize = 8;
    /// Rows whose columns are asked for together: in bf16 the pairs of a page's tokens.
    const ROWS: usize = PAGE_TOKENS / 2;

    /// A page's values in equal parts, each asked for while one block of heads is scored: a column of all rows before the
    /// next, as they are needed.
    #[inline(always)]
    pub(super) fn values(dims: Dimensions, parts: usize) -> Self {
        let lines = dims.values_of_a_head().div_ceil(Self::LINE);
        let requests = dims.k_width / 2 / Self::PAIRS;
        let order = Order::Columns { row_bytes: dims.values_of_a_head() / Self::ROWS };
        Self { first: 0, lines, at_once: lines.div_ceil(parts * requests), requests, order }
    }

    /// A page's keys and the scales behind them in equal parts, in order.
    #[inline(always)]
    pub(super) fn keys(dims: Dimensions, parts: usize) -> Self {
        let lines = (dims.values_at(0) - dims.keys_at(0)).div_ceil(Self::LINE);
        Self { first: 0, lines, at_once: lines.div_ceil(parts), requests: 1, order: Order::Bytes }
    }

    #[inline(always)]
    pub(super) fn part(self, part: usize) -> Self {
        Self { first: part * self.requests * self.at_once, ..self }
    }

    /// Asks for the lines of request `number` of the part.
    ///
    /// # Safety
    /// The instruction set of `S`; any address is allowed.
    #[inline(always)]
    pub(super) unsafe fn ask<S: Simd>(&self, from: *const u8, number: usize) {
        let mut line = self.first + number * self.at_once;
        let stop = self.lines.min(line + self.at_once);
        while line < stop {
            let at = match self.order {
                Order::Bytes => line * Self::LINE,
                Order::Columns { row_bytes } => {
                    line % Self::ROWS * row_bytes + line / Self::ROWS * Self::LINE
                }
            };
            // SAFETY: the caller has the instruction set.
            unsafe { S::prefetch(from.wrapping_add(at).cast()) }
            line += 1;
        }
    }
}
