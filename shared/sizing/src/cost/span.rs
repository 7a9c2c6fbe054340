//! Over which steps operations are counted: one decode step, or all steps of a prefill at once.

use crate::{Error, Result, Tokens};

/// One step at a length, or the sum over every length up to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Span {
    /// One step of a request whose state holds so many tokens.
    Step(Tokens),
    /// Every token of a prompt, each of which sees itself and the ones before it.
    Prefill(Tokens),
}

/// Entries that a token meets, as they follow from the tokens before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Met {
    /// `ratio` tokens become one entry, of which at most `cap` are read.
    Entries { ratio: u64, cap: Option<u64> },
    /// The tokens of its chunk.
    Chunk(u64),
    /// Always as many.
    Each(u64),
}

impl Met {
    pub(super) const NOTHING: Self = Self::Each(0);

    /// Every token before it, of which at most `cap` are read.
    pub(super) const fn tokens(cap: Option<u64>) -> Self {
        Self::Entries { ratio: 1, cap }
    }
}

impl Span {
    /// Entries that all tokens of the span meet together.
    pub(super) fn met(self, met: Met) -> Result<u64> {
        match met {
            Met::Entries { ratio, cap } => self.entries(ratio, cap),
            Met::Chunk(chunk) => self.chunk_entries(chunk),
            Met::Each(entries) => self.each(entries),
        }
    }

    /// Tokens that are computed.
    fn tokens(self) -> u64 {
        match self {
            Self::Step(_) => 1,
            Self::Prefill(n) => n.get(),
        }
    }

    /// Entries that are met, where `ratio` tokens become one and at most `cap` are read: ⌊n / ratio⌋ up to `cap`, or the
    /// sum of that over 1 … n.
    fn entries(self, ratio: u64, cap: Option<u64>) -> Result<u64> {
        let (ratio, cap) = (ratio.max(1), cap.unwrap_or(u64::MAX));
        match self {
            Self::Step(n) => Ok((n.get() / ratio).min(cap)),
            Self::Prefill(n) => sum_of_entries(n.get(), ratio, cap),
        }
    }

    /// Entries of a chunk that are met: by one token those of its own chunk up to itself.
    fn chunk_entries(self, chunk: u64) -> Result<u64> {
        let chunk = chunk.max(1);
        match self {
            Self::Step(n) => Ok(n.in_chunk(Tokens::new(chunk)).get()),
            Self::Prefill(n) => {
                let (whole, rest) = (n.get() / chunk, n.get() % chunk);
                let of = |tokens: u64| u128::from(tokens) * (u128::from(tokens) + 1) / 2;
                fitting(u128::from(whole) * of(chunk) + of(rest))
            }
        }
    }

    /// The same number of entries for each token.
    fn each(self, entries: u64) -> Result<u64> {
        fitting(u128::from(self.tokens()) * u128::from(entries))
    }
}

/// Σ ⌊i / ratio⌋ up to `cap` each, for i from 1 to `n`.
fn sum_of_entries(n: u64, ratio: u64, cap: u64) -> Result<u64> {
    let ratio = u128::from(ratio);
    // The last length at which the cap does not bind.
    let open = u128::from(n).min((u128::from(cap) + 1) * ratio - 1);
    let (whole, rest) = (open / ratio, open % ratio);
    let below = ratio * (whole * whole.saturating_sub(1) / 2) + whole * (rest + 1);
    let capped = (u128::from(n) - open) * u128::from(cap);
    fitting(below + capped)
}

fn fitting(entries: u128) -> Result<u64> {
    u64::try_from(entries).map_err(|_| Error::overflow("entries that a prefill meets"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the sums themselves.
    #[test]
    fn closed_sums_are_sums() {
        for n in [0, 1, 2, 3, 7, 8, 9, 64, 100, 257] {
            let span = Span::Prefill(Tokens::new(n));
            for ratio in [1, 2, 4, 128] {
                for cap in [None, Some(0), Some(1), Some(5), Some(1000)] {
                    let sum: u64 = (1..=n).map(|i| (i / ratio).min(cap.unwrap_or(u64::MAX))).sum();
                    let met = Met::Entries { ratio, cap };
                    assert_eq!(span.met(met).unwrap(), sum, "{n} / {ratio} up to {cap:?}");
                }
            }
            for chunk in [1, 3, 8, 1000] {
                let sum: u64 = (0..n).map(|i| i % chunk + 1).sum();
                assert_eq!(span.met(Met::Chunk(chunk)).unwrap(), sum, "{n} in chunks of {chunk}");
            }
        }
        assert!(Span::Prefill(Tokens::new(1 << 40)).met(Met::tokens(None)).is_err());
    }
}
