//! One layer's cache as vLLM sees it: its page, and the blocks that one request holds of it.
//!
//! Source: vLLM 0.33, `v1/kv_cache_interface.py`.

use crate::{Error, Result, group_digits};

/// The cache of one layer for one block of tokens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Spec {
    pub(super) kind: Kind,
    /// Tokens of one block. Meaningless for states.
    pub(super) block: u64,
    /// Tokens that share one stored entry.
    pub(super) tokens_per_entry: u64,
    /// Bytes of one stored entry over all heads, or of a whole state.
    pub(super) entry_bytes: u64,
    /// Bytes that a page is rounded up to a multiple of.
    pub(super) alignment: u64,
    /// Bytes that the page is padded to, so that all pages are equal.
    pub(super) padded: Option<u64>,
    /// Heads and widths: layers of unequal shape are unequal even where their bytes are not.
    pub(super) shape: [u64; 3],
}

/// Kinds of caches that vLLM keeps apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// K and V of every token.
    Full,
    /// A latent, or a compressed stream, of every token.
    Latent,
    /// Keys of an indexer.
    Index,
    /// K and V of the last `window` tokens, and `extra` that drafts may read again.
    Window { window: u64, extra: u64 },
    /// A latent window.
    LatentWindow { window: u64, state: bool },
    /// K and V of the current chunk.
    Chunk { chunk: u64 },
    /// Recurrent and convolution state: this many pages a request.
    State { pages: u64 },
    /// A state for every block, and `more` (older versions).
    StatePerBlock { more: u64 },
    /// One block a request, overwritten in place.
    Ring,
    /// K and V of an encoder's output of so many tokens, where their number is known.
    Cross { output: Option<u64> },
}

/// How the blocks of a request come about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct BlocksWorked {
    /// `⌈(1,023 + 2 × 8,192) / 16⌉ + 1`
    pub(super) sum: String,
    /// What their number follows.
    pub(super) bound: Bound,
}

/// What bounds the tokens that blocks are held for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Bound {
    /// A window or chunk with the batches in flight.
    Flight,
    /// The request's own length, which is less.
    Length,
    /// What the scheduler reserves for an encoder's output.
    Encoder,
}

/// What the blocks of a request depend on besides its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Tokens that are scheduled and not yet settled.
    pub(super) tokens: u64,
    /// Batches that those are of.
    pub(super) batches: u64,
    /// Tokens of one of them, which is also what the scheduler reserves for an encoder's output.
    pub(super) batch_tokens: u64,
    /// Decode-context-parallel ranks that share the tokens.
    pub(super) dcp: u64,
}

impl Spec {
    /// Entries of one block.
    pub(super) fn entries(&self) -> u64 {
        self.block / self.tokens_per_entry.max(1)
    }

    /// Bytes of one block, without padding.
    pub(super) fn content(&self) -> Result<u64> {
        match self.kind {
            Kind::State { .. } | Kind::StatePerBlock { .. } => Ok(self.entry_bytes),
            _ => self
                .entries()
                .checked_mul(self.entry_bytes)
                .ok_or_else(|| Error::overflow(format!("{} tokens × {} B", self.block, self.entry_bytes))),
        }
    }

    /// Bytes of one block.
    pub(super) fn page(&self) -> Result<u64> {
        let content = self.content()?;
        let aligned = content
            .checked_next_multiple_of(self.alignment.max(1))
            .ok_or_else(|| Error::overflow(format!("rounding {content} B up")))?;
        Ok(self.padded.map_or(aligned, |padded| padded.max(aligned)))
    }

    /// Why a page has more bytes than it holds.
    pub(super) fn page_words(&self) -> String {
        match self.padded {
            Some(padded) => format!("padded to {} B, so that all pages are equal", group_digits(padded)),
            None => format!("rounded up to a multiple of {} B", group_digits(self.alignment)),
        }
    }

    /// Blocks that one request of `length` tokens may hold.
    pub(super) fn blocks(&self, length: u64, flight: Flight) -> u64 {
        let kept = |tokens: u64| tokens.saturating_add(flight.tokens).min(length).div_ceil(self.block);
        match self.kind {
            Kind::Full | Kind::Latent | Kind::Index => length.div_ceil(flight.dcp).div_ceil(self.block),
            // A window rarely starts at a block's beginning, so it touches one more.
            Kind::Window { window, extra } => kept(window.saturating_sub(1).saturating_add(extra)) + 1,
            Kind::LatentWindow { window, .. } => kept(window.saturating_sub(1)) + 1,
            Kind::Chunk { chunk } => kept(chunk),
            Kind::State { pages } => pages,
            Kind::StatePerBlock { more } => length.div_ceil(self.block).saturating_add(more),
            Kind::Ring => 1,
            Kind::Cross { .. } => flight.batch_tokens.div_ceil(self.block),
        }
    }

    /// How [`Self::blocks`] come about, for what does not keep every token.
    pub(super) fn blocks_worked(&self, length: u64, flight: Flight) -> Option<BlocksWorked> {
        let of = |kept: String, more: &str, bound| {
            Some(BlocksWorked { sum: format!("⌈{kept} / {}⌉{more}", self.block), bound })
        };
        let own = |tokens: u64, more: &str| {
            if tokens.saturating_add(flight.tokens) > length {
                return of(group_digits(length), more, Bound::Length);
            }
            let batch = group_digits(flight.batch_tokens);
            let batches = match flight.batches {
                1 => batch,
                several => format!("{several} × {batch}"),
            };
            of(format!("({} + {batches})", group_digits(tokens)), more, Bound::Flight)
        };
        match self.kind {
            Kind::Window { window, extra } => own(window.saturating_sub(1).saturating_add(extra), " + 1"),
            Kind::LatentWindow { window, .. } => own(window.saturating_sub(1), " + 1"),
            Kind::Chunk { chunk } => own(chunk, ""),
            Kind::Cross { .. } => of(group_digits(flight.batch_tokens), "", Bound::Encoder),
            _ => None,
        }
    }

    /// Whether it keeps every token.
    pub(super) fn keeps_every_token(&self) -> bool {
        matches!(self.kind, Kind::Full | Kind::Latent | Kind::Index)
    }

    /// Whether it is a recurrent state.
    pub(super) fn is_state(&self) -> bool {
        matches!(self.kind, Kind::State { .. } | Kind::StatePerBlock { .. })
    }

    /// Whether layers of both kinds always need the same blocks, so that they may share a block table.
    pub(super) fn same_type(&self, other: &Self) -> bool {
        if self.block != other.block {
            return false;
        }
        match (self.kind, other.kind) {
            (Kind::State { .. }, Kind::State { .. }) => {
                self.kind == other.kind && self.page() == other.page()
            }
            _ if self.keeps_every_token() => other.keeps_every_token(),
            _ => self.kind == other.kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kind: Kind, block: u64, entry_bytes: u64) -> Spec {
        Spec { kind, block, tokens_per_entry: 1, entry_bytes, alignment: 1, padded: None, shape: [1, 1, 1] }
    }

    /// Blocks of DeepSeek-V4 at 8192 tokens in flight: 131 + 2051 + 1041 (answers of vLLM 0.33's planner).
    #[test]
    fn windows_reserve_for_tokens_in_flight() {
        let flight = Flight { tokens: 8192, batches: 1, batch_tokens: 8192, dcp: 1 };
        let blocks = |window, block| {
            spec(Kind::LatentWindow { window, state: false }, block, 584).blocks(1 << 20, flight)
        };
        assert_eq!((blocks(128, 64), blocks(8, 4), blocks(128, 8)), (131, 2051, 1041));
        let window = spec(Kind::Window { window: 1024, extra: 0 }, 16, 4096);
        assert_eq!(window.blocks(262_144, flight), 577);
        assert_eq!(window.blocks(3072, flight), 193);
        assert_eq!(spec(Kind::Chunk { chunk: 8192 }, 16, 1).blocks(1 << 20, flight), 1024);
        assert_eq!(spec(Kind::Cross { output: Some(1500) }, 16, 1).blocks(448, flight), 512);
        let shared = Flight { dcp: 4, ..flight };
        assert_eq!(spec(Kind::Latent, 16, 1152).blocks(163_840, shared), 2560);
    }

    /// Pages of DeepSeek-V4 (vLLM 0.33): 37440, 1728 and 8640 bytes, rounded up to 576.
    #[test]
    fn pages_are_rounded_up_to_their_alignment() {
        let page = |tokens_per_entry, entry_bytes| {
            let plain = spec(Kind::Latent, 256, entry_bytes);
            Spec { tokens_per_entry, alignment: 576, ..plain }.page().unwrap()
        };
        assert_eq!((page(4, 584), page(128, 584), page(4, 132)), (37_440, 1728, 8640));
    }
}
